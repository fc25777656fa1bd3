"""The node's installer: installs a wheelhouse into ``/opt/plimsoll``, rolls back to the version before, and removes.

Each wheelhouse contains it as the file ``install``, a zipped package. It needs only Python's standard library, since
it works where nothing is installed yet and no index can be reached.
"""
