"""Where time goes: latency over time, slow requests of Ceph, who makes the load, why a guest is slow.

Imports ``plimsoll_agent``, ``plimsoll_probes`` and ``plimsoll_monitoring``; none of them imports it. What needs a
library of its own (numbers, plots, compression) asks for it when it is used: see the extras.
"""

import os

# NumPy's linear algebra starts a thread for each core when it is imported, and nothing here multiplies matrices: of
# two cores that is half of the import's time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
