"""What is reported of passes: the summary, figures with their ranges, metrics.

Imports ``messages``, ``reconcile`` and below.
"""
