"""A node as its files tell of it: figures of passes and probes with their ranges, ``plimsoll status`` and ``gate``.

Imports of the probes ``output``, ``store`` and below, and of the agent ``monitor`` and below. ``health.judge`` is
the one place that grades a figure.
"""
