"""``plimsoll daemon``: passes over single guests on libvirt's events, and over the whole node at an interval.

``schedule`` decides what is next, and is pure; ``workers`` run the passes; ``service`` is the main loop. A pass is
the same as that of ``enforce``.
"""
