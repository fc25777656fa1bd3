"""What runs inside a guest: programs through its agent, fio, and the session with its file.

Imports ``model``. All answers of a guest are bounded and parsed here.
"""
