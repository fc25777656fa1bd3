"""The rules file: rules as values, the schema of the file, and the loader.

Imports ``model`` and below.
"""
