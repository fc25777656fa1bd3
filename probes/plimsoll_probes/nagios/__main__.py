"""``python -m plimsoll_probes.nagios``: check_plimsoll without its console script."""

import sys

from plimsoll_probes.nagios.check import main

sys.exit(main())
