"""Composition: builds passes, refreshes and region files from the settings. Without cliff.

Imports ``adapters``, ``config`` and below.
"""
