"""Files on this node: state and memory, the record of changes, the clock, and the state of the catalogue's refresh.

Imports ``policy`` and below, whose values it stores.
"""
