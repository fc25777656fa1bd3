"""The settings: options with their defaults, and their values.

Imports the packages that it has settings for. Only this package imports oslo.config.
"""
