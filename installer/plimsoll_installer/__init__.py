"""The node's installer: takes a wheelhouse into ``/opt/plimsoll``, back to the version before, and away again.

It travels in each wheelhouse as the one file ``install`` (a zipped package, ``unzip -l`` lists it), and needs nothing
but Python's standard library: it has to work where nothing is installed yet and no index can be reached.
"""
