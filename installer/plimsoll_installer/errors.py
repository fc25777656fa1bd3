"""What may go wrong, said in one line: what, where, and what to do."""


class InstallError(Exception):
    """The node is as it was, or the next run completes it."""
