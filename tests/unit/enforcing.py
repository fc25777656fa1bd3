"""A person at a node with one guest whose volume Cinder limits: ``enforce`` and its like, on fakes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from plimsoll_agent.app.context import rules_actual
from plimsoll_agent.app.fetched import catalogue_actual
from plimsoll_agent.catalogue.model import Catalogue, save
from plimsoll_agent.cli.approve import Approve
from plimsoll_agent.cli.passes import Enforce
from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import CatalogueSettings, ConsoleSettings, MetricsSettings, Settings
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor
from tests.unit.clouds import a_catalogue, a_spec, a_type
from tests.unit.node import a_volume, guest
from tests.unit.person import Person

GOLD = a_spec("gold", total_iops_sec="3000")
KNOWN = a_catalogue(GOLD, types=[a_type("gold", GOLD)])
RICH = Limits(total_iops_sec=3000)


def settings(directory: Path, **other: Any) -> CatalogueSettings:
    given: dict[str, Any] = {"source": "openstack", "directory": directory} | other
    return replace(config.load([], []).catalogue, **given)


class Shell(Person):
    """A person at a node with one guest whose volume Cinder limits; no mode is chosen for it but by a word."""

    def __init__(self, directory: Path) -> None:
        self.state = State(directory / "state")
        self.fetched = directory / "catalogue"
        self.fetched.mkdir()
        self.rules = directory / "rules.yaml"
        self.rules.write_text("{}")
        self.guest = guest(1, a_volume(1))
        self.hypervisor = FakeHypervisor(self.guest)
        self.source = "openstack"
        self.metrics = MetricsSettings(None, "disk")
        self.reads_consoles = False
        self.at_a_terminal = True
        self.asks_ceph = True

    @property
    def settings(self) -> Settings:
        whole = config.load([], [])
        chosen = settings(self.fetched, source=self.source)
        ceph = whole.ceph if self.asks_ceph else replace(whole.ceph, blocking_checks=())
        return replace(
            whole,
            ceph=ceph,
            state_dir=self.state.directory,
            rules_file=self.rules,
            pause_file=self.state.directory / "paused",
            catalogue=chosen,
            metrics=self.metrics,
            consoles=ConsoleSettings(self.reads_consoles),
        )

    def run(self, command: type, *words: str) -> int:
        terminal = SimpleNamespace(isatty=lambda: self.at_a_terminal)
        return self.types(command, *words, settings=self.settings, hypervisor=self.hypervisor, stdin=terminal)

    def approve(self, *words: str) -> int:
        return self.run(Approve, *words, "--reason", "as intended")

    def enforce(self, *words: str) -> int:
        return self.run(Enforce, "--mode", "enforce", *words)

    def refresh(self, *specs: Any, issued: datetime | None = None) -> Catalogue:
        """What the refresher keeps: every volume that was met is of type gold, which has the first spec, or none."""
        chosen = specs or (GOLD,)
        met = self.state.load_attachments()
        gold = a_type("gold", chosen[0])
        known = a_catalogue(
            *filter(None, chosen),
            types=[gold],
            volumes=dict.fromkeys(met.marks_of_volumes(), gold),
            met=met,
            issued=issued or datetime.now(UTC),
        )
        save(self.fetched, known)
        return known

    def revision(self) -> str:
        rules, _ = rules_actual(self.settings, self.state, keep=False)
        known, _ = catalogue_actual(self.settings.catalogue, datetime.now(UTC))
        return Situation(now=datetime.now(UTC), rules=rules, catalogue=known).revision
