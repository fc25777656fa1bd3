"""QoS specs and volume types as a file: read, plan, apply to Cinder, lint; with its own text and plain data.

Imports ``messages`` and below; not ``monitor``.
"""
