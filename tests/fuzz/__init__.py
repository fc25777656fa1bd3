"""Fuzzing: damaged input to every parser of what others wrote. See ``tests.fuzz.run``."""
