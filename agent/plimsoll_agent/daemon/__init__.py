"""``plimsoll daemon``: passes over single guests on libvirt's events, and over the whole node at an interval.

Why its parts are as they are:

- A pass is that of ``enforce``, so there is one way to a write, and what the daemon misses the next full pass finds.
- ``schedule`` says what is next and is pure: storms of events, failures and clocks are tests of a second.
- ``workers`` are a fixed number of threads: a hung guest costs one of them, and has its turn again ever later.
- ``connections`` counts the calls under way, those that hang too: libvirt cannot cancel one, and of libvirtd's
  workers the others are Nova's.
- ``service`` alone talks to systemd, and feeds the watchdog only while passes go on.
"""
