"""Which guests are probed, when, and whether a probe may begin now.

Imports ``adapters`` (for slots), ``guest`` and ``model``.
"""
