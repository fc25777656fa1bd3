"""check_plimsoll, for Nagios and Icinga. Who measures, who judges and who words are three objects."""
