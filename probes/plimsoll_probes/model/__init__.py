"""Values: a job, its result, latencies in buckets, and the verdict with its reason.

Imports nothing of probes.
"""
