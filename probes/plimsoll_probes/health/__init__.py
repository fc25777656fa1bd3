"""The state of this node: figures of probes, and ``plimsoll status``.

``status`` shows passes and probes; it is here because ``plimsoll_agent`` cannot import probes. Imports ``output``,
``store`` and below.
"""
