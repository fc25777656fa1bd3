"""What asks the world: a site's Prometheus. Imports ``plimsoll_agent.adapters`` and ``region.answers``."""
