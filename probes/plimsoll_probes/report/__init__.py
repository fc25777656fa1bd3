"""The report: the history of a span of time as one page to look at."""
