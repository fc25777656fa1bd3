"""The commands ``status``, ``gate``, ``region`` and ``monitoring``, a file a noun. Insight's commands of a region
share ``base`` with these.
"""
