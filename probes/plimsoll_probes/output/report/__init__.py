"""The report: the results of some days as one HTML page.

Imports ``output`` and below; only this package imports matplotlib and Jinja2 (extra ``report``).
"""
