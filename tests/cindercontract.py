"""What Cinder does with QoS specs and volume types. The fake of the unit tests and the real one both stand by it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from plimsoll_agent.catalogue.api import BLOCK_STORAGE, Refused
from plimsoll_agent.qos import apply as qos_apply
from plimsoll_agent.qos import cinder as qos_cinder
from plimsoll_agent.qos import plan as qos_plan
from plimsoll_agent.qos.apply import How
from plimsoll_agent.qos.cinder import Cinder
from plimsoll_agent.qos.file import Declaration, DeclaredType, Spec

NOBODY = "00000000-0000-4000-8000-00000000abcd"
Texts = Mapping[str, str | None]
_numbers = itertools.count(1)


def post(cinder: Cinder, path: str, body: object) -> Any:
    return cinder.call("POST", BLOCK_STORAGE, path, body=body)


def put(cinder: Cinder, path: str, body: object) -> None:
    cinder.call("PUT", BLOCK_STORAGE, path, body=body)


def delete(cinder: Cinder, path: str, params: Texts | None = None) -> None:
    cinder.call("DELETE", BLOCK_STORAGE, path, params)


class CinderContract:
    """A subclass gives ``cinder``, ``volume`` (makes one of a type) and ``word`` (in the names of what is made)."""

    @pytest.fixture
    def name(self, cinder: Cinder, word: str) -> Iterator[Callable[[str], str]]:
        """Names for this test alone; what bears them is removed in the end, where Cinder lets it be."""
        number = next(_numbers)
        end = f"-{word}-{number}"
        yield lambda begin: begin + end
        live = qos_cinder.read(cinder)
        for what, path in ((live.types, "/types"), (live.specs, "/qos-specs")):
            for one in what.values():
                if one.name.endswith(end):
                    with suppress(Refused):  # a volume has it
                        delete(cinder, f"{path}/{one.id}")

    def spec(self, cinder: Cinder, name: str, **keys: object) -> str:
        return str(post(cinder, "/qos-specs", {"qos_specs": {"name": name, **keys}})["qos_specs"]["id"])

    def type(self, cinder: Cinder, name: str, **words: object) -> str:
        return str(post(cinder, "/types", {"volume_type": {"name": name, **words}})["volume_type"]["id"])

    def keys(self, cinder: Cinder, name: str) -> Texts:
        return qos_cinder.read(cinder).specs[name].keys

    def tie(self, cinder: Cinder, spec: str, type: str, verb: str = "associate") -> None:
        cinder.get(BLOCK_STORAGE, f"/qos-specs/{spec}/{verb}", {"vol_type_id": type})

    def refused(self, status: int, call: Callable[[], Any]) -> None:
        with pytest.raises(Refused) as error:
            call()
        assert error.value.status == status

    def test_what_is_put_comes_to_the_keys_that_are_there(self, cinder: Cinder, name: Callable[[str], str]) -> None:
        id = self.spec(cinder, name("a"), consumer="front-end", x="1", y="2")
        put(cinder, f"/qos-specs/{id}", {"qos_specs": {"y": "3", "z": "", "consumer": "both"}})
        there = qos_cinder.read(cinder).specs[name("a")]
        assert (there.id, there.consumer, there.keys) == (id, "both", {"x": "1", "y": "3", "z": ""})

    def test_a_null_takes_the_place_of_a_value_and_is_forgotten_where_none_is(
        self, cinder: Cinder, name: Callable[[str], str]
    ) -> None:
        id = self.spec(cinder, name("a"), consumer="front-end", x="1", made=None)
        put(cinder, f"/qos-specs/{id}", {"qos_specs": {"x": None, "y": None}})
        assert self.keys(cinder, name("a")) == {"x": None}

    def test_keys_are_removed_up_to_one_that_is_not_there(self, cinder: Cinder, name: Callable[[str], str]) -> None:
        id = self.spec(cinder, name("a"), consumer="front-end", x="1", y="2", z="3")
        path = f"/qos-specs/{id}/delete_keys"
        put(cinder, path, {"keys": ["z"]})
        self.refused(404, lambda: put(cinder, path, {"keys": ["x", "other", "y"]}))
        assert self.keys(cinder, name("a")) == {"y": "2"}

    def test_a_key_that_was_removed_can_come_back(self, cinder: Cinder, name: Callable[[str], str]) -> None:
        id = self.spec(cinder, name("a"), consumer="front-end", x="1")
        put(cinder, f"/qos-specs/{id}/delete_keys", {"keys": ["x"]})
        put(cinder, f"/qos-specs/{id}", {"qos_specs": {"x": "2"}})
        assert self.keys(cinder, name("a")) == {"x": "2"}

    def test_name_is_a_key_like_others_when_it_is_put(self, cinder: Cinder, name: Callable[[str], str]) -> None:
        id = self.spec(cinder, name("a"), consumer="front-end")
        put(cinder, f"/qos-specs/{id}", {"qos_specs": {"name": "other"}})
        assert self.keys(cinder, name("a")) == {"name": "other"}

    def test_a_spec_is_for_the_storage_unless_it_says_otherwise(
        self, cinder: Cinder, name: Callable[[str], str]
    ) -> None:
        id = self.spec(cinder, name("a"))
        assert qos_cinder.read(cinder).specs[name("a")].consumer == "back-end"
        self.refused(400, lambda: self.spec(cinder, name("b"), consumer="frontend"))
        body = {"qos_specs": {"consumer": "frontend"}}
        self.refused(400, lambda: put(cinder, f"/qos-specs/{id}", body))

    def test_odd_keys_can_be_made_but_not_put(self, cinder: Cinder, name: Callable[[str], str]) -> None:
        id = self.spec(cinder, name("a"), **{"ключ": "1", "-_:. /9Z": "2"})
        self.refused(400, lambda: put(cinder, f"/qos-specs/{id}", {"qos_specs": {"ключ": "2"}}))
        put(cinder, f"/qos-specs/{id}", {"qos_specs": {"-_:. /9Z": "3"}})
        assert self.keys(cinder, name("a")) == {"ключ": "1", "-_:. /9Z": "3"}

    def test_names_are_taken_once(self, cinder: Cinder, name: Callable[[str], str]) -> None:
        self.spec(cinder, name("a"))
        self.type(cinder, name("a"))
        self.refused(409, lambda: self.spec(cinder, f" {name('a')} "))
        self.refused(409, lambda: self.type(cinder, name("a")))

    def test_a_type_with_a_spec_is_refused_another_one(self, cinder: Cinder, name: Callable[[str], str]) -> None:
        old, new, type = self.spec(cinder, name("a")), self.spec(cinder, name("b")), self.type(cinder, name("t"))
        self.tie(cinder, old, type)
        self.tie(cinder, old, type)
        self.refused(400, lambda: self.tie(cinder, new, type))
        self.tie(cinder, new, type, "disassociate")
        assert qos_cinder.read(cinder).types[name("t")].qos_spec == name("a"), "of the spec that it has not"
        self.tie(cinder, old, type, "disassociate")
        assert qos_cinder.read(cinder).types[name("t")].qos_spec is None
        self.refused(404, lambda: self.tie(cinder, NOBODY, type))
        self.refused(404, lambda: self.tie(cinder, new, NOBODY))

    def test_a_spec_in_use_is_deleted_by_force_only_and_leaves_its_types_without(
        self, cinder: Cinder, name: Callable[[str], str]
    ) -> None:
        spec, type = self.spec(cinder, name("a")), self.type(cinder, name("t"))
        self.tie(cinder, spec, type)
        self.refused(400, lambda: delete(cinder, f"/qos-specs/{spec}", {"force": "false"}))
        delete(cinder, f"/qos-specs/{spec}", {"force": "true"})
        live = qos_cinder.read(cinder)
        assert name("a") not in live.specs
        assert live.types[name("t")].qos_spec is None

    def test_a_deleted_type_releases_its_spec(self, cinder: Cinder, name: Callable[[str], str]) -> None:
        spec, type = self.spec(cinder, name("a")), self.type(cinder, name("t"))
        self.tie(cinder, spec, type)
        delete(cinder, f"/types/{type}")
        delete(cinder, f"/qos-specs/{spec}")
        assert name("a") not in qos_cinder.read(cinder).specs

    def test_a_type_that_a_volume_has_keeps_its_extra_specs_and_is_not_deleted(
        self, cinder: Cinder, name: Callable[[str], str], volume: Callable[[str], str]
    ) -> None:
        type = self.type(cinder, name("t"), extra_specs={"volume_backend_name": "rbd"})
        volume(name("t"))
        body = {"extra_specs": {"a": "b"}}
        self.refused(400, lambda: post(cinder, f"/types/{type}/extra_specs", body))
        self.refused(400, lambda: delete(cinder, f"/types/{type}/extra_specs/volume_backend_name"))
        self.refused(400, lambda: delete(cinder, f"/types/{type}"))

    def test_metadata_of_a_volume_is_written_beside_what_is_there(
        self, cinder: Cinder, name: Callable[[str], str], volume: Callable[[str], str]
    ) -> None:
        self.type(cinder, name("t"))
        id = volume(name("t"))
        for metadata in ({"own": "1", "ab:c-d_e. /9" + "x" * 243: "y" * 255}, {"a:b": "73 % at 2026"}, {"a:b": "0"}):
            cinder.storage.set_volume_metadata(id, **metadata)
        (there,) = (one for one in cinder.storage.volumes(all_tenants="1") if one.id == id)
        assert there.metadata == {"own": "1", "ab:c-d_e. /9" + "x" * 243: "y" * 255, "a:b": "0"}
        cinder.storage.delete_volume_metadata(id, ["a:b"])
        self.refused(404, lambda: cinder.storage.delete_volume_metadata(id, ["a:b"]))
        (there,) = (one for one in cinder.storage.volumes(all_tenants="1") if one.id == id)
        assert "a:b" not in there.metadata
        assert there.metadata["own"] == "1"

    @pytest.mark.parametrize("metadata", [{"x" * 256: "1"}, {"": "1"}, {"a%": "1"}, {"a": "y" * 256}])
    def test_metadata_of_a_volume_has_bounds(
        self, cinder: Cinder, name: Callable[[str], str], volume: Callable[[str], str], metadata: dict[str, str]
    ) -> None:
        self.type(cinder, name("t"))
        id = volume(name("t"))
        self.refused(400, lambda: cinder.storage.set_volume_metadata(id, **metadata))

    def test_a_volume_that_is_gone_has_no_metadata(self, cinder: Cinder) -> None:
        self.refused(404, lambda: cinder.storage.set_volume_metadata(NOBODY, a="1"))
        self.refused(404, lambda: cinder.storage.delete_volume_metadata(NOBODY, ["a"]))

    def test_the_default_type_is_named_and_not_deleted(self, cinder: Cinder) -> None:
        live = qos_cinder.read(cinder)
        assert live.default is not None
        self.refused(400, lambda: delete(cinder, f"/types/{live.types[str(live.default)].id}"))

    def test_a_type_is_changed_in_part(self, cinder: Cinder, name: Callable[[str], str]) -> None:
        type = self.type(
            cinder,
            name("t"),
            **{"description": "slow", "os-volume-type-access:is_public": False},
            extra_specs={"x": None},
        )
        put(cinder, f"/types/{type}", {"volume_type": {"description": ""}})
        post(cinder, f"/types/{type}/extra_specs", {"extra_specs": {"y:z": None}})
        there = qos_cinder.read(cinder).types[name("t")]
        assert (there.description, there.public, there.extra_specs) == ("", False, {"x": None, "y:z": None})
        put(cinder, f"/types/{type}", {"volume_type": {"is_public": True}})
        delete(cinder, f"/types/{type}/extra_specs/y:z")
        there = qos_cinder.read(cinder).types[name("t")]
        assert (there.public, there.extra_specs) == (True, {"x": None})

    def test_one_declaration_after_the_other_is_applied_and_nothing_is_left_to_do(
        self, cinder: Cinder, name: Callable[[str], str]
    ) -> None:
        states: list[tuple[dict[str, tuple[str, Texts]], dict[str, DeclaredType]]] = [
            (
                {"a": ("front-end", {"total_iops_sec": "3000", "total_iops_sec_max": "5000"})},
                {"t": DeclaredType(name="t", qos_spec="a")},
            ),
            (
                {"a": ("both", {"read_iops_sec": "5", "typo": ""})},
                {
                    "t": DeclaredType(
                        name="t", qos_spec=None, description="slow", public=False, extra_specs={"k": "v"}
                    )
                },
            ),
            (
                {"a": ("front-end", {"total_iops_sec_per_gb": "30", "name": "x"}), "b": ("back-end", {"null": None})},
                {
                    "t": DeclaredType(name="t", qos_spec="b", description="", public=True, extra_specs={}),
                    "u": DeclaredType(
                        name="u", qos_spec="a", description=None, public=None, extra_specs={"a": "1", "b": "2"}
                    ),
                },
            ),
            (
                {"a": ("front-end", {"total_iops_sec": "1"}), "b": ("both", {})},
                {"t": DeclaredType(name="t", qos_spec="a"), "u": DeclaredType(name="u", qos_spec="b")},
            ),
            (
                {"a": ("both", {}), "b": ("both", {})},
                {
                    "t": DeclaredType(name="t", qos_spec="b"),
                    "u": DeclaredType(name="u", qos_spec="a", description="u", public=None, extra_specs={"b": None}),
                },
            ),
        ]
        for specs, types in states:
            desired = Declaration(
                {name(one): Spec(name(one), consumer, keys) for one, (consumer, keys) in specs.items()},
                {
                    name(one): DeclaredType(
                        name=name(one),
                        qos_spec=type.qos_spec and name(type.qos_spec),
                        description=type.description,
                        public=type.public,
                        extra_specs=type.extra_specs,
                    )
                    for one, type in types.items()
                },
            )
            live = qos_cinder.read(cinder)
            steps = qos_plan.plan(desired, live)
            assert steps
            assert [(one.how, one.detail) for one in qos_apply.apply(steps, live, cinder)] == [(How.DONE, "")] * len(
                steps
            )
            assert qos_plan.plan(desired, qos_cinder.read(cinder)) == ()
