"""Takes the steps of a plan one by one: the only part that changes anything in Cinder.

Other programs need only ``plan``, which takes what is declared and what Cinder has, and ``apply``, which takes the
plan and the API. Both return values; neither prints or asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from plimsoll_agent.errors import DeadlineExceeded, PlimsollError, Rejected
from plimsoll_agent.qos.cinder import Cinder, Live
from plimsoll_agent.qos.file import Spec
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
from plimsoll_agent.util.decoding import UNREADABLE
from plimsoll_agent.util.frozen import frozen

# Arguments beside which openstacksdk passes a QoS spec's keys: a key with such a name would not be sent as one.
_ARGUMENTS = frozenset(
    {
        "self",
        "id",
        "qos_spec",
        "resource_type",
        "value",
        "base_path",
        "connection",
        "microversion",
        "_synchronized",
        "__conflicting_attrs",
    }
)


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
class StepResult:
    """A step and its result; ``detail`` is why it was not done."""

    step: Step
    how: How
    detail: str = ""


def apply(steps: Sequence[Step], live: Live, api: Cinder) -> Iterator[StepResult]:
    """Take the steps in their order, each when the caller asks for it, so it can stop between two steps.

    If Cinder refuses a step, the others are still taken, except those that need it and those that delete. If Cinder
    is unreachable or times out, no more are tried. The next plan has what is left.
    """
    client = _Client(live, api)
    trouble = ""
    has_failed = False
    for step in steps:
        if trouble:
            yield StepResult(step, How.NOT_TRIED, trouble)
        elif has_failed and isinstance(step, DeleteType | DeleteSpec):
            yield StepResult(step, How.NOT_TRIED, "nothing is deleted after a step failed")
        else:
            result = _take(client, step)
            if isinstance(step, ChangeSpec) and result.how is not How.DONE:
                client.unchanged.add(step.after.name)
            yield result
            has_failed |= result.how is not How.DONE and not isinstance(step, DeleteType | DeleteSpec)
            trouble = client.lost


def _take(client: _Client, step: Step) -> StepResult:
    missing = client.missing(step)
    if missing:
        return StepResult(step, How.NOT_TRIED, missing)
    try:
        client.take(step)
    except Rejected as error:
        return StepResult(step, How.REFUSED, str(error))
    except DeadlineExceeded as error:
        client.lost = "Cinder timed out in an earlier step"
        return StepResult(step, How.TIMED_OUT, str(error))
    except PlimsollError as error:
        client.lost = "Cinder was unreachable in an earlier step"
        return StepResult(step, How.REFUSED, str(error))
    return StepResult(step, How.DONE)


class _Client:
    """Cinder's API, and the ids by name, also of what a step created."""

    def __init__(self, live: Live, api: Cinder) -> None:
        self._storage = api.storage
        self._specs = {name: spec.id for name, spec in live.specs.items()}
        self._types = {name: type.id for name, type in live.types.items()}
        self.unchanged: set[str] = set()
        """Specs of which a change was refused: they have other limits than the plan has shown."""
        self.lost = ""

    def missing(self, step: Step) -> str:
        """Why the step cannot be taken: what it needs was not created, or not changed."""
        match step:
            case ChangeSpec():
                spec, type = step.after.name, None
            case Associate():
                spec, type = step.spec, step.type
            case _:
                return ""
        if spec not in self._specs:
            return "its QoS spec was not created"
        if spec in self.unchanged:
            return "its QoS spec could not be changed"
        return "the volume type was not created" if type is not None and type not in self._types else ""

    def take(self, step: Step) -> None:
        match step:
            case CreateSpec(spec):
                self._specs[spec.name] = _id(lambda: self._create(spec))
            case ChangeSpec():
                self._change(step)
            case CreateType(type):
                fields: dict[str, object] = {
                    "description": type.description,
                    "is_public": type.public,
                    "extra_specs": None if type.extra_specs is None else dict(type.extra_specs),
                }
                words = {name: value for name, value in fields.items() if value is not None}
                self._types[type.name] = _id(lambda: self._storage.create_type(name=type.name, **words).id)
            case ChangeType(before, description, public):
                fields = {"description": description, "is_public": public}
                changes = {name: value for name, value in fields.items() if value is not None}
                # Not update_type: its is_public is a POST's (findings/openstacksdk-volume-type-update.sh).
                self._storage.put(f"/types/{before.id}", json={"volume_type": changes})
            case ChangeExtraSpecs():
                id = self._types[step.name]
                if step.put:  # not update_type_extra_specs, which takes no null
                    self._storage.post(f"/types/{id}/extra_specs", json={"extra_specs": step.put})
                self._storage.delete_type_extra_specs(id, [quote(key, safe="") for key in step.unset])
            case Associate():
                self._associate(step)
            case Disassociate(type_name, spec_name):
                self._untie(spec_name, type_name)
            case DeleteType(name):
                self._storage.delete_type(self._types[name])
            case DeleteSpec(name, force):
                self._storage.delete_qos_spec(self._specs[name], force=str(force).lower())

    def _create(self, spec: Spec) -> Any:
        body = {**spec.keys, "name": spec.name, "consumer": spec.consumer}
        if body.keys() & _ARGUMENTS:
            return self._storage.post("/qos-specs", json={"qos_specs": body}).json()["qos_specs"]["id"]
        return self._storage.create_qos_spec(**body).id

    def _change(self, step: ChangeSpec) -> None:
        id = self._specs[step.after.name]
        together = {key: value for key, value in step.put.items() if key not in step.bursts} | step.interim
        if step.after.consumer != step.before.consumer:
            together["consumer"] = step.after.consumer
        self._put(id, together)
        # Cinder removes keys one by one in any order (objects/qos_specs.py, save): the per-GB key must go while its
        # minimum and maximum are still there.
        first = [key for key in step.unset if key.endswith("_per_gb")]
        for keys in (first, [key for key in step.unset if key not in first]):
            if keys:
                self._storage.delete_qos_spec_metadata(id, keys)
        self._put(id, step.bursts)

    def _put(self, id: str, keys: Mapping[str, str | None]) -> None:
        if keys.keys() & _ARGUMENTS:
            self._storage.put(f"/qos-specs/{id}", json={"qos_specs": keys})
        elif keys:
            _answer(lambda: self._storage.update_qos_spec(id, **keys))

    def _associate(self, step: Associate) -> None:
        if step.instead_of is None:
            return self._tie(step.spec, step.type)
        self._untie(step.instead_of, step.type)
        try:
            self._tie(step.spec, step.type)
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
            self._tie(str(step.instead_of), step.type)
        except PlimsollError as error:
            raise Rejected(f"{refusal}; and {error}: the volume type has no QoS spec now") from error

    def _tie(self, spec: str, type: str) -> None:
        # This and its opposite are GETs that change things, and idempotent.
        self._storage.associate_qos_spec(self._specs[spec], self._types[type])

    def _untie(self, spec: str, type: str) -> None:
        self._storage.disassociate_qos_spec(self._specs[spec], self._types[type])


def _answer(request: Callable[[], Any]) -> Any:
    """What openstacksdk reads in Cinder's answer. Raises ``Rejected`` where it cannot: the result is unknown."""
    try:
        return request()
    except UNREADABLE as error:
        raise Rejected(
            f"Cinder's answer cannot be read ({type(error).__name__}); it may have been done: apply again"
        ) from error


def _id(create: Callable[[], Any]) -> str:
    id = _answer(create)
    if not id:
        raise Rejected("Cinder's answer has no id of what it created")
    return str(id)
