"""What is reported of passes: the summary, figures with their ranges, metrics; and what ``top`` shows.

Imports ``messages``, ``reconcile`` and below.
"""
