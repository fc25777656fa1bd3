"""CephFS: what the ranks of a file system do, which directories move between them, when that is thrashing, and the
settings that end it.
"""
