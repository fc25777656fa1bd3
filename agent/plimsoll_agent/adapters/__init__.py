"""The only modules that talk to other processes and the network. Each call has a deadline, each error is translated.

Imports ``config`` and below. Lower packages get an adapter handed in and never import one.
"""
