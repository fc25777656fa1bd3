"""check_plimsoll, for Nagios and Icinga: it measures, judges and prints, a module each.

Imports ``node``; no cliff and no hypervisor.
"""
