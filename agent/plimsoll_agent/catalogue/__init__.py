"""Data from Cinder and Nova: the catalogue and its file, the arithmetic of QoS specs and flavors, what a refresh
requests, and a region's signed file with its orders and its brake. The client is handed in (``api``).

Imports ``rules``, ``model`` and below.
"""
