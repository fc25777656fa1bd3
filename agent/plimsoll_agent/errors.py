"""Errors, split by whose fault they are. Each one's text is a sentence that says what to do next."""

from __future__ import annotations


class PlimsollError(Exception):
    """Anything that plimsoll reports in one line; ``exit_status`` is what the process then returns."""

    exit_status = 1


class UsageError(PlimsollError):
    """The command line cannot be meant (EX_USAGE of sysexits.h; argparse's 2 would say "changes")."""

    exit_status = 64


class ConfigError(PlimsollError):
    """The operator's files are at fault; one line a fault, each with file, line and key."""


class Unreachable(PlimsollError):
    """The world is at fault: libvirt is down, refuses us, or the socket is another one."""


class Vanished(PlimsollError):
    """The guest, or the disk on it, was there a moment ago and is gone."""


class NoSuchGuest(UsageError):
    """No guest runs on this node by the name or uuid that was given."""


class Rejected(PlimsollError):
    """libvirt or QEMU answered and said no."""


class Unanswered(PlimsollError):
    """A deadline passed. What was asked for may still happen: the outcome is not known."""


class NotSent(Unanswered):
    """The call was not even made, since others hang: it had no answer, and it will have no effect."""


class NoAgent(Rejected):
    """The guest has no channel on which an agent could be asked."""


class AgentRefused(Rejected):
    """The guest's agent answered and said no; the text is its own."""


class AgentGarbled(Rejected):
    """What came from the guest's agent is no answer at all. The answer that it stands for is lost."""


class AgentAway(NotSent):
    """Nobody listens at the guest's end of the channel: the guest boots or is paused, or its agent is stopped."""


class AgentSilent(Unanswered):
    """The guest's agent hangs, or went away. It may have had the question."""
