"""Where desired limits come from: a table with the traits that memory, brake and messages need."""

from __future__ import annotations

from collections.abc import Mapping

from plimsoll_agent.model.reason import Code, Reason
from plimsoll_agent.util.frozen import frozen


@frozen(kw_only=True)
class Origin:
    """The traits of a source, or of what replaces the sources."""

    name: str | None = None
    """Its name in messages; None if a fact of its reason is its name, or no operator edits it."""
    named_by: str | None = None
    """The fact with the name of what an operator edits."""
    not_used: Code | None = None
    """Its answer if its data is not fetched; None if it needs none."""
    in_rules: bool = False
    """It is in the rules file, so an approval of the rules covers it."""
    aside: bool = False
    """It replaces the sources: the memory keeps their limits beside it."""
    decided: bool = False
    """An operator decided it for this disk, or the region for its type: the brake does not stop it."""
    of_hold: bool = False


ORIGINS: Mapping[str | None, Origin] = {
    Code.RULE: Origin(named_by="rule", in_rules=True),
    Code.RULE_UNMANAGES: Origin(named_by="rule", in_rules=True),
    Code.NODE_DEFAULT: Origin(name="default", in_rules=True),
    Code.QOS_SPEC: Origin(named_by="spec", not_used=Code.NO_CATALOGUE_SOURCE),
    Code.FLAVOR: Origin(name="flavor", named_by="flavor", not_used=Code.FLAVOR_UNKNOWN),
    Code.RELEASED: Origin(decided=True),
    Code.DESIRED_BEFORE: Origin(),
    Code.HOLD: Origin(aside=True, decided=True, of_hold=True),
    Code.HOLD_ENDED: Origin(aside=True, decided=True, of_hold=True),
    Code.UNDONE: Origin(aside=True, decided=True),
    Code.TAKEN_BACK: Origin(aside=True, decided=True),
    # It is for many disks at once, so the brake applies.
    Code.COMMAND_LINE: Origin(name="command line", aside=True),
}
"""By the code of the reason that the desired limits have."""


def origin_of(code: str | None) -> Origin:
    """An unknown code, from an edited file, has no traits."""
    return ORIGINS.get(code, Origin())


def edited(reason: Reason) -> str:
    """What an operator edits for these limits: the name of the QoS spec, rule or flavor, or ``default``."""
    origin = origin_of(reason.code)
    return str(reason.facts.get(origin.named_by or "") or origin.name or reason.code.value)
