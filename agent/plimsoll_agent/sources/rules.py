"""The rules as a source, twice: before Cinder and the flavor, and after them."""

from __future__ import annotations

from collections.abc import Iterable

from plimsoll_agent.decide import Answer, Silent, Situation, Step, Unmanaged, Wants
from plimsoll_agent.disk import Disk
from plimsoll_agent.reason import Code, Unknown, because
from plimsoll_agent.rules import Rule


def first_word(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """Rules that say ``manage: false``, limits given by hand, and rules that override."""
    rules = situation.rules
    if rules.command_line is not None:
        exempt = _ask(disk, (rule for rule in rules.rules if not rule.manage))
        return (*exempt, Step("command line", Wants(rules.command_line, because(Code.COMMAND_LINE))))
    return _ask(disk, (rule for rule in rules.rules if rule.override or not rule.manage))


def last_word(disk: Disk, situation: Situation) -> tuple[Step, ...]:
    """The other rules, then the node's default."""
    default = situation.rules.default
    last: Answer = Silent(because(Code.NO_DEFAULT))
    if default is not None:
        last = Wants(default, because(Code.NODE_DEFAULT))
    others = _ask(disk, (rule for rule in situation.rules.rules if rule.manage and not rule.override))
    return (*others, Step("default", last))


def _ask(disk: Disk, rules: Iterable[Rule]) -> tuple[Step, ...]:
    return tuple(Step(f'rule "{rule.name}"', _answer(disk, rule)) for rule in rules)


def _answer(disk: Disk, rule: Rule) -> Answer:
    misfit = rule.match.misfit(disk)
    if isinstance(misfit, Unknown):
        return misfit
    if misfit is not None:
        return Silent(because(Code.RULE_DOES_NOT_MATCH, word=misfit))
    return Wants(rule.limits, rule.reason) if rule.limits is not None else Unmanaged(rule.reason)
