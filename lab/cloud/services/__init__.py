"""Programs that run in the environment of OpenStack's services, by file, copied below the cloud's root."""
