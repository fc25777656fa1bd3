"""Errors, each a line: where, what, and what to do."""


class InstallError(Exception):
    """The node is unchanged, or the next run completes the change."""
