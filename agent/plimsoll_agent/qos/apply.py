"""Takes the steps of a plan one by one: the only part that changes anything in Cinder.

Other programs need only ``plan``, which takes what is declared and what Cinder has, and ``apply``, which takes the
plan and the API. Both return values; neither prints or asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from urllib.parse import quote

from plimsoll_agent.catalogue.api import BLOCK_STORAGE
from plimsoll_agent.errors import DeadlineExceeded, PlimsollError, Rejected
from plimsoll_agent.qos.cinder import Cinder, Live
from plimsoll_agent.qos.plan import (
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
from plimsoll_agent.util.frozen import frozen


class How(StrEnum):
    """The result of a step."""

    DONE = "done"
    REFUSED = "refused"
    """Cinder refused it or was unreachable: it was not done, or only in part."""
    TIMED_OUT = "timed-out"
    """The result is unknown."""
    NOT_TRIED = "not-tried"
    """It needs a step that was not done, or Cinder is unreachable, or it deletes and an earlier step failed."""


@frozen
class Taken:
    """A step and its result; ``detail`` is why it was not done."""

    step: Step
    how: How
    detail: str = ""


def apply(steps: Sequence[Step], live: Live, api: Cinder) -> Iterator[Taken]:
    """Take the steps in their order, each when the caller asks for it, so it can stop between two steps.

    If Cinder refuses a step, the others are still taken, except those that need it and those that delete. If Cinder
    is unreachable or times out, no more are tried. The next plan has what is left.
    """
    client = _Client(live, api)
    lost = ""
    failed = False
    for step in steps:
        if lost:
            yield Taken(step, How.NOT_TRIED, lost)
        elif failed and isinstance(step, DeleteType | DeleteSpec):
            yield Taken(step, How.NOT_TRIED, "nothing is deleted after a step failed")
        else:
            taken = _take(client, step)
            yield taken
            failed |= taken.how is not How.DONE and not isinstance(step, DeleteType | DeleteSpec)
            lost = client.lost


def _take(client: _Client, step: Step) -> Taken:
    missing = client.missing(step)
    if missing:
        return Taken(step, How.NOT_TRIED, missing)
    try:
        client.take(step)
    except Rejected as error:
        return Taken(step, How.REFUSED, str(error))
    except DeadlineExceeded as error:
        client.lost = "Cinder timed out in an earlier step"
        return Taken(step, How.TIMED_OUT, str(error))
    except PlimsollError as error:
        client.lost = "Cinder was unreachable in an earlier step"
        return Taken(step, How.REFUSED, str(error))
    return Taken(step, How.DONE)


class _Client:
    """Cinder's API, and the ids by name, also of what a step created."""

    def __init__(self, live: Live, api: Cinder) -> None:
        self._api = api
        self._specs = {name: spec.id for name, spec in live.specs.items()}
        self._types = {name: type.id for name, type in live.types.items()}
        self.lost = ""

    def missing(self, step: Step) -> str:
        """Why the step cannot be taken: what it needs was not created."""
        match step:
            case ChangeSpec():
                spec, type = step.after.name, None
            case Associate():
                spec, type = step.spec, step.type
            case _:
                return ""
        if spec not in self._specs:
            return "its QoS spec was not created"
        return "the volume type was not created" if type is not None and type not in self._types else ""

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
        together = {**step.put, **step.interim}
        if step.after.consumer != step.before.consumer:
            together["consumer"] = step.after.consumer
        if together:
            self._api.put(BLOCK_STORAGE, path, {"qos_specs": together})
        # Cinder removes keys one by one in any order (objects/qos_specs.py, save): the per-GB key must go while its
        # minimum and maximum are still there.
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
            self._restore(step, error)
            raise
        except PlimsollError as error:
            raise DeadlineExceeded(
                f"{error}; the volume type may be without a QoS spec until this is applied again"
            ) from error
        return None

    def _restore(self, step: Associate, refusal: Rejected) -> None:
        """Associate the old spec again. Raises ``Rejected`` where the type has none now."""
        try:
            self._tie("associate", str(step.instead_of), step.type)
        except PlimsollError as error:
            raise Rejected(f"{refusal}; and {error}: the volume type has no QoS spec now") from error

    def _tie(self, verb: str, spec: str, type: str) -> None:
        # Both are GETs that change things, and idempotent.
        self._api.get(BLOCK_STORAGE, f"/qos-specs/{self._specs[spec]}/{verb}", {"vol_type_id": self._types[type]})


def _id(made: object, word: str) -> str:
    try:
        return str(made[word]["id"])  # type: ignore[index]
    except (KeyError, TypeError) as error:
        raise Rejected(f"Cinder's answer has no id of what it created ({type(made).__name__})") from error
