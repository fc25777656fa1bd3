"""The rules as a source, twice: before Cinder and the flavor, and after them."""

from __future__ import annotations

from collections.abc import Callable

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.decide import Answer, Desired, NoOpinion, Situation, Step, Unmanaged, no_opinion_of
from plimsoll_agent.rules.model import Rule


def overriding(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """Rules with ``manage: false``, limits by command line, and rules that override."""
    rules = situation.rules
    if rules.command_line is not None:
        exempt = _ask(disk, situation, lambda rule: not rule.manage, _limits)
        return (*exempt, Step("command line", Desired(rules.command_line, because(Code.COMMAND_LINE))))
    return _ask(disk, situation, lambda rule: rule.override or not rule.manage, _limits)


def fallback(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """The other rules, then the node's default."""
    default = situation.rules.default
    last: Answer = NoOpinion(because(Code.NO_DEFAULT))
    if default is not None:
        last = Desired(default, because(Code.NODE_DEFAULT))
    others = _ask(disk, situation, lambda rule: rule.limits is not None and not rule.override, _limits)
    return (*others, Step("default", last))


def _ask(
    disk: Disk, situation: Situation, matches: Callable[[Rule], bool], word: Callable[[Rule], Answer]
) -> tuple[Step, ...]:
    return tuple(
        Step(f'rule "{rule.name}"', no_opinion_of(rule, disk, situation.now) or word(rule))
        for rule in situation.rules.rules
        if matches(rule)
    )


def _limits(rule: Rule) -> Answer:
    return Unmanaged(rule.reason) if rule.limits is None else Desired(rule.limits, rule.reason)
