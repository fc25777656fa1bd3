"""General helpers: whole files, locks, threads, durations, YAML and its validators, JSON, text.

Imports ``errors`` only.
"""
