"""The steps of a plan, taken one by one: the only part that changes anything in Cinder.

What an Ansible module, or anybody else, needs is here and in ``qosplan``: ``plan`` takes what is declared and what
Cinder has, ``apply`` takes the plan and the API, and both return values. Nothing is printed and nothing is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

from plimsoll_agent.cloudapi import BLOCK_STORAGE
from plimsoll_agent.errors import PlimsollError, Rejected, Unanswered
from plimsoll_agent.qoscloud import Cinder, Live
from plimsoll_agent.qosplan import (
    Associate,
    ChangeExtraSpecs,
    ChangeSpec,
    ChangeType,
    CreateSpec,
    CreateType,
    DeleteSpec,
    DeleteType,
    Disassociate,
    Step,
)


class How(StrEnum):
    """What became of a step."""

    DONE = "done"
    REFUSED = "refused"
    """Cinder said no, or could not be reached: it was not done, or not wholly."""
    UNANSWERED = "unanswered"
    """Nobody knows."""
    NOT_TRIED = "not-tried"
    """It needs a step that was not done, or Cinder is gone, or it deletes and something failed before."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A step, and what became of it; ``detail`` says why it was not done."""

    step: Step
    how: How
    detail: str = ""


def apply(steps: Sequence[Step], live: Live, api: Cinder) -> Iterator[Taken]:
    """Take the steps in their order, each when it is asked for: who stops asking has stopped between two steps.

    Where Cinder refuses one, the others are taken all the same, except those that need it and those that delete.
    Where Cinder is gone or does not answer, no more is tried. Whatever was left is in the next plan.
    """
    hand = _Hand(live, api)
    lost = ""
    failed = False
    for step in steps:
        if lost:
            yield Taken(step, How.NOT_TRIED, lost)
        elif failed and isinstance(step, DeleteType | DeleteSpec):
            yield Taken(step, How.NOT_TRIED, "nothing is deleted while something else failed")
        else:
            taken = _take(hand, step)
            yield taken
            failed |= taken.how is not How.DONE and not isinstance(step, DeleteType | DeleteSpec)
            lost = hand.lost


def _take(hand: _Hand, step: Step) -> Taken:
    missing = hand.missing(step)
    if missing:
        return Taken(step, How.NOT_TRIED, missing)
    try:
        hand.take(step)
    except Rejected as error:
        return Taken(step, How.REFUSED, str(error))
    except Unanswered as error:
        hand.lost = "Cinder did not answer the step before"
        return Taken(step, How.UNANSWERED, str(error))
    except PlimsollError as error:
        hand.lost = "Cinder could not be reached for the step before"
        return Taken(step, How.REFUSED, str(error))
    return Taken(step, How.DONE)


class _Hand:
    """Cinder's API, and the ids behind the names; those of what a step made too."""

    def __init__(self, live: Live, api: Cinder) -> None:
        self._api = api
        self._specs = {name: spec.id for name, spec in live.specs.items()}
        self._types = {name: type.id for name, type in live.types.items()}
        self.lost = ""

    def missing(self, step: Step) -> str:
        """Why the step cannot be taken: what it is about was not made."""
        match step:
            case ChangeSpec():
                spec, type = step.after.name, None
            case Associate():
                spec, type = step.spec, step.type
            case _:
                return ""
        if spec not in self._specs:
            return "its QoS spec was not made"
        return "the volume type was not made" if type is not None and type not in self._types else ""

    def take(self, step: Step) -> None:
        match step:
            case CreateSpec(spec):
                body = {**spec.keys, "name": spec.name, "consumer": spec.consumer}
                made = self._api.post(BLOCK_STORAGE, "/qos-specs", {"qos_specs": body})
                self._specs[spec.name] = _id(made, "qos_specs")
            case ChangeSpec():
                self._change(step)
            case CreateType(type):
                told: dict[str, object] = {"name": type.name}
                if type.description is not None:
                    told["description"] = type.description
                if type.public is not None:
                    told["os-volume-type-access:is_public"] = type.public
                if type.extra_specs is not None:
                    told["extra_specs"] = dict(type.extra_specs)
                self._types[type.name] = _id(
                    self._api.post(BLOCK_STORAGE, "/types", {"volume_type": told}), "volume_type"
                )
            case ChangeType(before, description, public):
                given = {"description": description, "is_public": public}
                changed = {name: value for name, value in given.items() if value is not None}
                self._api.put(BLOCK_STORAGE, f"/types/{before.id}", {"volume_type": changed})
            case ChangeExtraSpecs():
                path = f"/types/{self._types[step.name]}/extra_specs"
                if step.put:
                    self._api.post(BLOCK_STORAGE, path, {"extra_specs": step.put})
                for key in step.unset:
                    self._api.delete(BLOCK_STORAGE, f"{path}/{quote(key, safe='')}")
            case Associate():
                self._associate(step)
            case Disassociate(type_name, spec_name):
                self._tie("disassociate", spec_name, type_name)
            case DeleteType(name):
                self._api.delete(BLOCK_STORAGE, f"/types/{self._types[name]}")
            case DeleteSpec(name, force):
                self._api.delete(BLOCK_STORAGE, f"/qos-specs/{self._specs[name]}", {"force": str(force).lower()})

    def _change(self, step: ChangeSpec) -> None:
        path = f"/qos-specs/{self._specs[step.after.name]}"
        together = {**step.put, **step.meanwhile}
        if step.after.consumer != step.before.consumer:
            together["consumer"] = step.after.consumer
        if together:
            self._api.put(BLOCK_STORAGE, path, {"qos_specs": together})
        # One after the other Cinder removes keys, in any order (objects/qos_specs.py, save): the per-GB key has to go
        # while what bounds it is still there.
        first = [key for key in step.unset if key.endswith("_per_gb")]
        for keys in (first, [key for key in step.unset if key not in first]):
            if keys:
                self._api.put(BLOCK_STORAGE, f"{path}/delete_keys", {"keys": keys})

    def _associate(self, step: Associate) -> None:
        if step.instead_of is None:
            return self._tie("associate", step.spec, step.type)
        self._tie("disassociate", step.instead_of, step.type)
        try:
            self._tie("associate", step.spec, step.type)
        except Rejected as error:
            self._put_back(step, error)
            raise
        except PlimsollError as error:
            raise Unanswered(
                f"{error}; the volume type may be without a QoS spec until this is applied again"
            ) from error
        return None

    def _put_back(self, step: Associate, refusal: Rejected) -> None:
        """Rather the old limits than none. Raises ``Rejected`` where there are none now."""
        try:
            self._tie("associate", str(step.instead_of), step.type)
        except PlimsollError as error:
            raise Rejected(f"{refusal}; and {error}: the volume type has no QoS spec now") from error

    def _tie(self, verb: str, spec: str, type: str) -> None:
        # Both are GETs that change things; to do either twice is the same as once.
        self._api.get(BLOCK_STORAGE, f"/qos-specs/{self._specs[spec]}/{verb}", {"vol_type_id": self._types[type]})


def _id(made: object, word: str) -> str:
    try:
        return str(made[word]["id"])  # type: ignore[index]
    except (KeyError, TypeError) as error:
        raise Rejected(f"Cinder's answer has no id of what was made ({type(made).__name__})") from error
