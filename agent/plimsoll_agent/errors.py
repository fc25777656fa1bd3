"""Errors, by whose fault they are. Each text says what to do next."""

from __future__ import annotations


class PlimsollError(Exception):
    """Anything that plimsoll reports in one line; ``exit_status`` is what the process then returns."""

    exit_status = 1


class UsageError(PlimsollError):
    """A wrong command line (EX_USAGE of sysexits.h; argparse's 2 would mean "changes")."""

    exit_status = 64


class ConfigError(PlimsollError):
    """A fault in the operator's files; one line per fault, with file, line and key."""


class CannotTell(PlimsollError):
    """What was read cannot answer the question, or is not understood. It is not the same as nothing found."""

    exit_status = 5


class Unreachable(PlimsollError):
    """A service is unreachable: libvirt is down, refuses the connection, or has another socket."""


class NotFound(PlimsollError):
    """The guest, or its disk, is gone."""


class NoSuchGuest(UsageError):
    """No running guest on this node has the given name or UUID."""


class Rejected(PlimsollError):
    """libvirt or QEMU rejected the request."""


class UnreadableXML(PlimsollError):
    """The guest's definition is not valid domain XML."""


class DeadlineExceeded(PlimsollError):
    """A deadline passed. The request may still take effect: the result is unknown."""


class NotSent(DeadlineExceeded):
    """The call was not made, because others hang: it has no effect."""


class NoAgent(Rejected):
    """The guest has no channel for a guest agent."""


class AgentRefused(Rejected):
    """The guest agent rejected the command; the text is its own."""


class AgentGarbled(Rejected):
    """The guest agent sent something that is not an answer; the answer is lost."""


class AgentAway(NotSent):
    """No guest agent is listening: the guest boots or is paused, or its agent is stopped."""


class AgentTimedOut(DeadlineExceeded):
    """The guest agent hangs or went away. It may have received the command."""
