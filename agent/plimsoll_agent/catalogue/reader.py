"""Reads from Cinder and Nova what an agenda lists, or a whole region."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from plimsoll_agent.catalogue.api import BLOCK_STORAGE, COMPUTE, PAGE, CloudApi, Refused
from plimsoll_agent.catalogue.model import Lists, VolumeType
from plimsoll_agent.catalogue.planner import Agenda, Answers, TypeOf
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.credits.model import KEYS
from plimsoll_agent.errors import PlimsollError, Rejected
from plimsoll_agent.util.decoding import text
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

MOST_CALLS = 50
"""Calls for volumes in one run."""
BATCH = 50
"""Volumes in one call: the address stays below 4 KiB, and Apache takes 8."""
_TYPE_IDS = "3.63"
"""Since this version a volume has its type's id (Cinder 18, Wallaby), not only the name."""
_FLAVORS = "2.47"
"""Since this version a server has its flavor with the extra specs (Nova 16, Pike)."""
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_BAD_REQUEST, _NOT_FOUND, _NOT_ACCEPTABLE = 400, 404, 406

Parsed = TypeVar("Parsed")


@frozen
class Gathered:
    """The answers, and the error that ended the reading early."""

    answers: Answers
    trouble: PlimsollError | None = None
    is_novas: bool = False
    """It is Nova's: all of Cinder was read before."""


def lists(api: CloudApi, last: Lists | None = None) -> Lists:
    """All QoS specs and all volume types, private ones too; ``last`` are those of the catalogue.

    Raises as ``CloudApi`` does, and ``Rejected`` for incomplete lists, which would remove limits.
    """
    specs = _specs(api)
    types = {
        type.id: type
        for type in (
            _parse("a volume type", _type, one) for one in _all(api, "/types", "volume_types", is_public="None")
        )
    }
    # Cinder before Train may have none; later ones keep a default type (cinder/volume/volume_types.py, destroy).
    if not types and last is not None and last.types:
        raise Rejected(
            f"Cinder lists no volume type, and the catalogue has {len(last.types)}; the catalogue is unchanged"
        )
    if _without_spec(types, specs):  # the spec may have been created since
        specs = _specs(api)
    if incomplete := _without_spec(types, specs):
        raise Rejected(
            f"Cinder does not list the QoS spec of volume type {_short(incomplete[0].name)}"
            f"{f' and of {len(incomplete) - 1} more' if len(incomplete) > 1 else ''},"
            f" {_short(incomplete[0].qos_spec or '')};"
            " the catalogue is unchanged"
        )
    before = last.types if last is not None else {}
    now_hidden = [type for type in types.values() if type.hidden and type.id in before and not before[type.id].hidden]
    if now_hidden:
        raise Rejected(
            f"Cinder does not show the QoS spec of volume type {_short(now_hidden[0].name)}"
            f"{f' and of {len(now_hidden) - 1} more' if len(now_hidden) > 1 else ''} any more: allow this user in its"
            " policy volume_extension:access_types_qos_specs_id; the catalogue is unchanged"
        )
    return Lists(specs, types)


def _specs(api: CloudApi) -> dict[str, QosSpec]:
    specs = (_parse("a QoS spec", QosSpec.read, one) for one in _all(api, "/qos-specs", "qos_specs"))
    return {spec.id: spec for spec in specs}


def _without_spec(types: Mapping[str, VolumeType], specs: Mapping[str, QosSpec]) -> list[VolumeType]:
    return [type for type in types.values() if type.qos_spec is not None and type.qos_spec not in specs]


def gather(api: CloudApi, agenda: Agenda, last: Lists | None, host: str) -> Gathered:
    """Read what the agenda lists; ``last`` are the catalogue's lists, ``host`` is this node in Nova.

    An error with the lists is raised. A later error ends the reading, and the answers before it count.
    """
    fresh = lists(api, last) if agenda.lists else None
    types = (fresh or last or Lists({}, {})).types
    volumes: dict[str, TypeOf] = {}
    guests: dict[str, dict[str, str] | None] | None = None
    trouble: PlimsollError | None = None
    is_novas = False
    try:
        reader = VolumeReader(api, {type.name: type.id for type in types.values()})
        for id, facts in _read_volumes(reader, agenda.unknown, MOST_CALLS):
            volumes[id] = facts
        # For known volumes two calls are enough, unless an operator refreshes all.
        for id, facts in _read_volumes(
            reader, agenda.again, max(2, MOST_CALLS - reader.calls) if agenda.at_once else 2
        ):
            volumes[id] = facts
        is_novas = True
        if agenda.servers:
            guests = dict(entry for page in server_pages(api, host) for entry in page)
    except PlimsollError as error:
        trouble = error
    return Gathered(Answers(fresh, volumes, guests), trouble, is_novas and trouble is not None)


class VolumeReader:
    """Reads the types of volumes from any version of Cinder."""

    def __init__(self, api: CloudApi, ids: dict[str, str]) -> None:
        self._api = api
        self._ids = ids
        """Of types by their unique names."""
        self._version: str | None = _TYPE_IDS
        self.calls = 0
        """Of ``one`` and ``some``."""

    def one(self, id: str) -> TypeOf | None:
        """None where the lists do not have its type yet."""
        self.calls += 1
        try:
            answer = self._in_version(
                lambda: self._api.get(BLOCK_STORAGE, f"/volumes/{quote(id, safe='')}", microversion=self._version)
            )
        except Refused as error:
            if error.status == _NOT_FOUND:
                return TypeOf(type=None, missing=True)
            raise
        volume_id, facts = _parse("a volume", lambda value: self._type_of(value["volume"]), answer)
        if volume_id != id:
            raise Rejected(f"Cinder answered with another volume than {id}")
        return facts

    def some(self, ids: Sequence[str]) -> dict[str, TypeOf | None]:
        """Those of the volumes that one call finds. Raises ``NotFiltered`` where Cinder does not filter.

        Cinder accepts a Python list as the value of any filter of an admin, and makes an IN of it
        (cinder/volume/api.py, check_volume_filters; cinder/db/api.py, _process_volume_filters). That is not
        documented, so the answer is checked.
        """
        self.calls += 1
        desired = "[" + ",".join(f"'{id}'" for id in ids) + "]"
        params = {"all_tenants": "1", "id": desired}
        try:
            answer = self._in_version(
                lambda: self._api.get(BLOCK_STORAGE, "/volumes/detail", params, microversion=self._version)
            )
        except Refused as error:
            if error.status == _BAD_REQUEST:
                raise NotFiltered from error
            raise
        types = self._types_of(_parse("a list of volumes", lambda value: value["volumes"], answer))
        if not types.keys() <= set(ids):
            raise NotFiltered
        return types

    def pages(self) -> Iterator[dict[str, TypeOf | None]]:
        """All volumes of all projects. Raises as ``CloudApi`` does."""
        pages = self._in_version(self._first_page)
        for page in pages:
            yield self._types_of(page)

    def _first_page(self) -> Iterator[list[Any]]:
        pages = self._api.pages(
            BLOCK_STORAGE, "/volumes/detail", "volumes", {"all_tenants": "1"}, microversion=self._version
        )
        return _chain(next(pages, []), pages)

    def _types_of(self, entries: Any) -> dict[str, TypeOf | None]:
        return dict(_parse("a list of volumes", lambda value: [self._type_of(one) for one in value], entries))

    def _in_version(self, call: Callable[[], Parsed]) -> Parsed:
        try:
            return call()
        except Refused as error:
            if error.status != _NOT_ACCEPTABLE or self._version is None:
                raise
        self._version = None
        return call()

    def _type_of(self, value: Any) -> tuple[str, TypeOf | None]:
        id, name = text(value["id"]), value["volume_type"]
        type = value.get("volume_type_id")
        if type is None and name is not None:
            # For a type without a name Cinder shows the id there (cinder/api/v3/views/volumes.py).
            type = self._ids.get(text(name), name if name in self._ids.values() else None)
            if type is None:
                return id, None
        # "reserved", "attaching", "detaching" and all others count as attached.
        free = value.get("status") == "available" and not value.get("attachments")
        size = value.get("size")
        gib = size if isinstance(size, int) and size > 0 else None
        return id, TypeOf(type=None if type is None else text(type), gib=gib, attached=not free)


class NotFiltered(Exception):
    """Cinder, or its policy, does not filter volumes by a list of ids."""


def _read_volumes(reader: VolumeReader, ids: Sequence[str], calls: int) -> Iterator[tuple[str, TypeOf]]:
    """The answers about these volumes, within so many calls."""
    rest = [id for id in ids if _UUID.fullmatch(id)]
    alone: list[str] = []
    while len(rest) > 1 and calls:
        batch, rest = rest[:BATCH], rest[BATCH:]
        calls -= 1
        try:
            types = reader.some(batch)
        except NotFiltered:
            rest = batch + rest
            break
        yield from ((id, facts) for id, facts in types.items() if facts is not None)
        # Not found may mean not shown: a call for one volume tells which.
        alone += [id for id in batch if id not in types]
    for id in (alone + rest)[:calls]:
        facts = reader.one(id)
        if facts is not None:
            yield id, facts


def server_pages(api: CloudApi, host: str | None) -> Iterator[list[tuple[str, dict[str, str] | None]]]:
    """By uuid the ``quota:`` extra specs of the flavors of one host's guests, or of all; None where hidden.

    Raises as ``CloudApi`` does.
    """
    params = {"all_tenants": "1"} | ({} if host is None else {"host": host})
    number = 0
    try:
        for page in api.pages(COMPUTE, "/servers/detail", "servers", params, microversion=_FLAVORS):
            number += len(page)  # a site may have set max_limit, so pages may be small
            if number > PAGE and host is not None:
                # A filter that a policy forbids is dropped silently (nova, remove_invalid_options).
                raise Rejected(
                    f"Nova lists more than {PAGE} guests for host {host}, so it does not filter by host: allow this"
                    " user in its policy os_compute_api:servers:allow_all_filters"
                )
            yield _parse("a list of servers", lambda value: [_server(one) for one in value], page)
    except Refused as error:
        if error.status == _NOT_ACCEPTABLE:
            raise Rejected(
                f"Nova has no API version {_FLAVORS} (Pike), so the extra specs of flavors cannot be read"
            ) from error
        raise


def _server(value: Any) -> tuple[str, dict[str, str] | None]:
    extra_specs = value["flavor"].get("extra_specs")
    if extra_specs is None:
        return text(value["id"]), None
    quotas = {text(key): text(one) for key, one in {**extra_specs}.items() if key.startswith("quota:") or key in KEYS}
    return text(value["id"]), quotas


def _type(value: Any) -> VolumeType:
    spec = value.get("qos_specs_id")
    return VolumeType(
        id=text(value["id"]),
        name=text(value["name"]),
        qos_spec=None if spec is None else text(spec),
        # Where a policy hides it, the key is missing (cinder/api/v3/views/types.py).
        hidden="qos_specs_id" not in value,
    )


def _all(api: CloudApi, path: str, key: str, **params: str) -> Iterator[Any]:
    for page in api.pages(BLOCK_STORAGE, path, key, params):
        yield from page


def _chain(first: list[Any], rest: Iterator[list[Any]]) -> Iterator[list[Any]]:
    yield first
    yield from rest


def _short(name: str) -> str:
    """At most as long as Cinder's names."""
    return printable(name[:255])


def _parse(what: str, parse: Callable[[Any], Parsed], value: Any) -> Parsed:
    """Raises ``Rejected`` where the answer has another form."""
    try:
        return parse(value)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        detail = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise Rejected(f"the answer has no valid {what.removeprefix('a ')}: {detail[:200]}") from error
