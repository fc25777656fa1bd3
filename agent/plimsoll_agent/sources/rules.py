"""The rules as a source, twice: before Cinder and the flavor, and after them."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll_agent.decide import Answer, Silent, Situation, Step, Unmanaged, Wants, silence_of
from plimsoll_agent.disk import Disk
from plimsoll_agent.reason import Code, because
from plimsoll_agent.rules import Rule


def first_word(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """Rules that say ``manage: false``, limits given by hand, and rules that override."""
    rules = situation.rules
    if rules.command_line is not None:
        exempt = _ask(disk, situation, lambda rule: not rule.manage, _limits)
        return (*exempt, Step("command line", Wants(rules.command_line, because(Code.COMMAND_LINE))))
    return _ask(disk, situation, lambda rule: rule.override or not rule.manage, _limits)


def last_word(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """The other rules, then the node's default."""
    default = situation.rules.default
    last: Answer = Silent(because(Code.NO_DEFAULT))
    if default is not None:
        last = Wants(default, because(Code.NODE_DEFAULT))
    others = _ask(disk, situation, lambda rule: rule.limits is not None and not rule.override, _limits)
    return (*others, Step("default", last))


def _ask(
    disk: Disk, situation: Situation, concerned: Callable[[Rule], bool], word: Callable[[Rule], Answer]
) -> tuple[Step, ...]:
    return tuple(
        Step(f'rule "{rule.name}"', silence_of(rule, disk, situation) or word(rule))
        for rule in situation.rules.rules
        if concerned(rule)
    )


def _limits(rule: Rule) -> Answer:
    return Unmanaged(rule.reason) if rule.limits is None else Wants(rule.limits, rule.reason)
