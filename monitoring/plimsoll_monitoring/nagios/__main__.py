"""``python -m plimsoll_monitoring.nagios``: check_plimsoll without its console script."""

import sys

from plimsoll_monitoring.nagios.check import main

sys.exit(main())
