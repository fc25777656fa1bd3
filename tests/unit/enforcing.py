"""A person at a node with one guest whose volume Cinder limits: ``enforce`` and its like, on fakes."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from plimsoll_agent import config
from plimsoll_agent.brake import revision
from plimsoll_agent.catalogue import Catalogue, save
from plimsoll_agent.cli.passes import Enforce
from plimsoll_agent.cli.standing import catalogue_in_force, rules_in_force
from plimsoll_agent.config import CatalogueSettings, MetricsSettings, Settings
from plimsoll_agent.decide import Situation
from plimsoll_agent.limits import Limits
from plimsoll_agent.state import State
from tests.fakes import FakeHypervisor
from tests.unit.clouds import a_catalogue, a_spec, a_type
from tests.unit.node import a_volume, guest

GOLD = a_spec("gold", total_iops_sec="3000")
KNOWN = a_catalogue(GOLD, types=[a_type("gold", GOLD)])
RICH = Limits(total_iops_sec=3000)


def settings(directory: Path, **other: Any) -> CatalogueSettings:
    given: dict[str, Any] = {"source": "openstack", "directory": directory} | other
    return replace(config.load([], []).catalogue, **given)


class Shell:
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
        self.out, self.err = "", ""
        self.at_a_terminal = True

    @property
    def settings(self) -> Settings:
        whole = config.load([], [])
        chosen = settings(self.fetched, source=self.source)
        return replace(
            whole, state_dir=self.state.directory, rules_file=self.rules, catalogue=chosen, metrics=self.metrics
        )

    def run(self, command: type, *words: str) -> int:
        shell = self

        class Here(command):  # type: ignore[misc]
            """The command, on a node of fakes."""

            def settings(self, parsed_args: argparse.Namespace) -> Settings:
                return shell.settings

            @contextmanager
            def libvirt(self, settings: Settings) -> Iterator[FakeHypervisor]:
                yield shell.hypervisor

        terminal = SimpleNamespace(isatty=lambda: self.at_a_terminal)
        app: Any = SimpleNamespace(
            stdin=terminal, stdout=io.StringIO(), stderr=io.StringIO(), for_journal=lambda line: line
        )
        here = Here(app, None)
        try:
            return int(here.run(here.get_parser("plimsoll").parse_args(words)))
        finally:
            self.out, self.err = app.stdout.getvalue(), app.stderr.getvalue()

    def enforce(self, *words: str) -> int:
        return self.run(Enforce, "--mode", "enforce", *words)

    def refresh(self, *specs: Any, issued: datetime | None = None) -> Catalogue:
        """What the refresher keeps: every volume that was met is of type gold, which has the first spec, or none."""
        chosen = specs or (GOLD,)
        met = self.state.load_sightings()
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
        rules, _ = rules_in_force(self.settings, self.state, keep=False)
        known, _ = catalogue_in_force(self.settings.catalogue, datetime.now(UTC))
        return revision(Situation(datetime.now(UTC), rules, catalogue=known))
