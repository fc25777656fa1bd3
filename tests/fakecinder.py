"""A Cinder that is not there: QoS specs, volume types and volumes by the real one's rules, and who asked for what."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from plimsoll_agent.adapters import block_storage
from plimsoll_agent.catalogue.api import BLOCK_STORAGE, Refused

_PUTTABLE = re.compile(r"[a-zA-Z0-9\-_:. /]{1,255}")
_LONGEST_VALUE = 255
_CONSUMERS = ("front-end", "back-end", "both")
_PROJECT = "os-vol-tenant-attr:tenant_id"


@dataclass
class FakeCinder:
    """One of cinder 29 (29.0.0, read in source); the contract holds it to that.

    ``between`` is called whenever something was committed: there whoever attaches a volume may look.
    ``before`` is called with each request, and may raise.
    """

    name: str = "fake"
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    types: dict[str, dict[str, Any]] = field(default_factory=dict)
    volumes: list[dict[str, Any]] = field(default_factory=list)
    default: str | None = None
    page: int = 1000
    hidden: frozenset[str] = frozenset()
    """Words of a volume type that a policy hides."""
    between: Callable[[], None] = lambda: None
    before: Callable[[str, str], None] = lambda method, path: None
    asked: list[str] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(4))
    _ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    # --- what there is, for tests

    def spec(self, name: str, keys: Mapping[str, str | None], consumer: str = "front-end") -> str:
        return self._add(self.specs, {"name": name, "consumer": consumer, "specs": dict(keys)})

    def type(self, name: str, spec: str | None = None, **words: Any) -> str:
        known = {"name": name, "description": None, "is_public": True, "extra_specs": {}, "qos_specs_id": spec}
        return self._add(self.types, known | words)

    def volume(self, type: str | None, gib: int, status: str = "in-use") -> str:
        """Of a tenant's project."""
        id = self._id()
        one = {"id": id, "volume_type": type, "size": gib, "status": status, "metadata": {}, _PROJECT: "tenant"}
        self.volumes.append(one)
        return id

    def writes(self) -> list[str]:
        return [one for one in self.asked if not one.startswith("GET") or "associate" in one]

    # --- the API

    @property
    def calls(self) -> Counter[str]:
        return Counter(one.split("/")[1] for one in self.asked)

    @cached_property
    def storage(self) -> Any:
        """As ``OpenStack`` has it: what openstacksdk sends is what is asked here."""
        return block_storage.storage(self)

    def call(
        self, method: str, service: str, path: str, params: Mapping[str, str] | None = None, body: Any = None
    ) -> Any:
        """As ``OpenStack.call``."""
        match method:
            case "POST":
                return self.post(service, path, body)
            case "PUT":
                return self.put(service, path, body)
            case "DELETE":
                return self.delete(service, path, params)
        return self.get(service, path, params)

    def get(
        self, service: str, path: str, params: Mapping[str, str] | None = None, *, microversion: str | None = None
    ) -> Any:
        match self._asked("GET", service, path), params or {}:
            case ["qos-specs"], query:
                return self._page("qos_specs", "qos_specs_links", list(self.specs.values()), query)
            case ["types"], query:
                shown = [self._shown(one) for one in self.types.values()]
                if query.get("is_public") != "None":
                    shown = [one for one in shown if one["is_public"]]
                return self._page("volume_types", "volume_type_links", shown, query)
            case ["types", "default"], _:
                if self.default is None:
                    raise Refused("Default volume type can not be found.", 404)
                return {"volume_type": self._shown(self.types[self.default])}
            case ["volumes", "detail"], query:
                # Even an admin is shown those of his own project unless he says all_tenants.
                shown = [one for one in self.volumes if query.get("all_tenants") == "1" or one[_PROJECT] == "admin"]
                desired = [one for one in shown if query.get("status") in (None, one["status"])]
                return self._page("volumes", "volumes_links", desired, query)
            case ["qos-specs", id, ("associate" | "disassociate") as verb], query:
                self._tie(verb, self._known(self.specs, id), self._known(self.types, query["vol_type_id"]))
                return None
        raise Refused(f"no such path: {path}", 404)

    def post(self, service: str, path: str, body: Any) -> Any:
        match self._asked("POST", service, path):
            case ["qos-specs"]:
                told = dict(body["qos_specs"])
                name, consumer = told.pop("name").strip(), told.pop("consumer", "back-end")
                self._refuse_taken(self.specs, name)
                self._refuse_consumer(consumer)
                keys = {key: value for key, value in told.items() if value is not None}  # obj_get_changes, as below
                return {"qos_specs": dict(self.specs[self.spec(name, keys, consumer)])}
            case ["types"]:
                told = body["volume_type"]
                self._refuse_taken(self.types, told["name"])
                id = self.type(
                    told["name"],
                    description=told.get("description"),
                    is_public=told.get("os-volume-type-access:is_public", True),
                    extra_specs=dict(told.get("extra_specs", {})),
                )
                return {"volume_type": self._shown(self.types[id])}
            case ["types", id, "extra_specs"]:
                self._known(self.types, id)["extra_specs"].update(self._of_unused(id, body["extra_specs"]))
                self.between()
                return body
            case ["volumes", id, "metadata"]:
                for key, value in body["metadata"].items():
                    if not _PUTTABLE.fullmatch(key) or not isinstance(value, str) or len(value) > _LONGEST_VALUE:
                        raise Refused(f"Invalid input for field/attribute metadata: {key}", 400)
                metadata = self._metadata(id)
                metadata.update(body["metadata"])
                self.between()
                return {"metadata": dict(metadata)}
        raise Refused(f"no such path: {path}", 404)

    def put(self, service: str, path: str, body: Any) -> Any:
        match self._asked("PUT", service, path):
            case ["qos-specs", id]:
                spec, told = self._known(self.specs, id), dict(body["qos_specs"])
                for key, value in told.items():
                    if not _PUTTABLE.fullmatch(key) or not (value is None or isinstance(value, str)):
                        raise Refused(f"Invalid input for field/attribute qos_specs: {key}", 400)
                if "consumer" in told:
                    self._refuse_consumer(told["consumer"])
                    spec["consumer"] = told.pop("consumer")
                # A null for a key that is not there is no difference to obj_get_changes.
                spec["specs"].update({key: value for key, value in told.items() if spec["specs"].get(key) != value})
                self.between()
                return body
            case ["qos-specs", id, "delete_keys"]:
                spec, there = self._known(self.specs, id), []
                try:
                    for key in body["keys"]:
                        if key not in spec["specs"]:
                            raise Refused(f"QoS spec {id} has no spec with key {key}.", 404)
                        there.append(key)
                finally:
                    self.chance.shuffle(there)
                    for key in there:
                        del spec["specs"][key]
                        self.between()
                return None
            case ["types", id]:
                told = {name: value for name, value in body["volume_type"].items() if value is not None}
                if not told:
                    raise Refused("Specify volume type name, description, is_public or a combination thereof.", 400)
                self._known(self.types, id).update(told)
                self.between()
                return {"volume_type": self._shown(self.types[id])}
        raise Refused(f"no such path: {path}", 404)

    def delete(self, service: str, path: str, params: Mapping[str, str] | None = None) -> Any:
        match self._asked("DELETE", service, path):
            case ["qos-specs", id]:
                self._known(self.specs, id)
                users = [type for type in self.types.values() if type["qos_specs_id"] == id]
                if users and (params or {}).get("force") != "true":
                    raise Refused("Qos specs still in use.", 400)
                for type in users:
                    type["qos_specs_id"] = None
                del self.specs[id]
            case ["types", id]:
                type = self._known(self.types, id)
                if id == self.default or len(self.types) == 1:
                    raise Refused(f"The volume type {id} is a default volume type and cannot be deleted.", 400)
                if any(one["volume_type"] == type["name"] for one in self.volumes):
                    raise Refused("Target volume type is still in use.", 400)
                del self.types[id]
            case ["types", id, "extra_specs", key]:
                specs = self._known(self.types, id)["extra_specs"]
                if key not in self._of_unused(id, specs):
                    raise Refused(f"Volume Type {id} has no extra specs with key {key}.", 404)
                del specs[key]
            case ["volumes", id, "metadata", key]:
                metadata = self._metadata(id)
                if key not in metadata:
                    raise Refused(f"Volume {id} has no metadata with key {key}.", 404)
                del metadata[key]
            case _:
                raise Refused(f"no such path: {path}", 404)
        self.between()

    # --- its rules

    def _asked(self, method: str, service: str, path: str) -> list[str]:
        assert service == BLOCK_STORAGE
        self.asked.append(f"{method} {path}")
        self.before(method, path)
        return path.split("/")[1:]

    def _page(self, word: str, links: str, values: list[Any], query: Mapping[str, str]) -> dict[str, Any]:
        ids = [one["id"] for one in values]
        if "marker" in query and query["marker"] not in ids:
            raise Refused(f"marker {query['marker']} could not be found.", 404)
        first = ids.index(query["marker"]) + 1 if "marker" in query else 0
        page = values[first : first + self.page]
        more = {links: [{"rel": "next", "href": "…"}]} if len(page) == self.page else {}
        # Copies: what was read does not change when Cinder does.
        copies = [{name: dict(its) if isinstance(its, dict) else its for name, its in one.items()} for one in page]
        return {word: copies, **more}

    def _shown(self, type: dict[str, Any]) -> dict[str, Any]:
        shown = type | {"extra_specs": dict(type["extra_specs"])}
        return {word: value for word, value in shown.items() if word not in self.hidden}

    def _tie(self, verb: str, spec: dict[str, Any], type: dict[str, Any]) -> None:
        if verb == "associate":
            if type["qos_specs_id"] not in (None, spec["id"]):
                raise Refused(f"Type {type['id']} is already associated with another qos specs", 400)
            type["qos_specs_id"] = spec["id"]
        elif type["qos_specs_id"] == spec["id"]:  # of another one it is no error, and changes nothing
            type["qos_specs_id"] = None
        self.between()

    def _metadata(self, id: str) -> dict[str, str]:
        metadata: dict[str, str] = self._known({one["id"]: one for one in self.volumes}, id)["metadata"]
        return metadata

    def _of_unused(self, id: str, extra_specs: dict[str, Any]) -> dict[str, Any]:
        if any(one["volume_type"] == self._known(self.types, id)["name"] for one in self.volumes):
            raise Refused("Volume Type is currently in use.", 400)
        return extra_specs

    def _refuse_taken(self, table: dict[str, dict[str, Any]], name: str) -> None:
        if any(one["name"] == name for one in table.values()):
            raise Refused(f"{name} already exists.", 409)

    def _refuse_consumer(self, consumer: object) -> None:
        if consumer not in _CONSUMERS:
            raise Refused(f"Valid consumer of QoS specs are: {list(_CONSUMERS)}", 400)

    def _known(self, table: dict[str, dict[str, Any]], id: str) -> dict[str, Any]:
        if id not in table:
            raise Refused(f"{id} could not be found.", 404)
        return table[id]

    def _add(self, table: dict[str, dict[str, Any]], value: dict[str, Any]) -> str:
        id = self._id()
        table[id] = {"id": id, **value}
        self.between()
        return id

    def _id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._ids):012}"
