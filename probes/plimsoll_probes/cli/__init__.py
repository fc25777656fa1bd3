"""``plimsoll probe``: the commands."""
