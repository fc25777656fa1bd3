"""Which tests a change can reach."""

from __future__ import annotations

import grimp
import pytest

from tests.changed import reached

IMPORTS = {
    "tests.unit.agent.reconcile.test_brake": "plimsoll_agent.reconcile.brake",
    "plimsoll_agent.reconcile.brake": "plimsoll_agent.model.limits",
    "plimsoll_agent.cli.passes": "plimsoll_agent.reconcile.brake",
    "tests.lab.conftest": "plimsoll_agent.adapters.libvirt.client",
    "tests.functional.conftest": "lab.looking",
    "tests.unit.probes.cli.test_bars": "plimsoll_agent.bars",
}
TEXTS = {
    "tests.unit.agent.reconcile.test_brake": "",
    "tests.unit.probes.cli.test_bars": "",
    "tests.unit.collection.test_batches": "plugin('filter.batches')",
    "tests.functional.test_cli": "def test_it(plimsoll: Run) -> None",
    "tests.functional.test_units": "ROOT / 'systemd'",
    "tests.lab.test_tutorial": "ROOT / 'docs/tutorial.rst'",
}


@pytest.fixture
def graph() -> grimp.ImportGraph:
    graph = grimp.ImportGraph()
    for module in {*IMPORTS, *IMPORTS.values(), *TEXTS}:
        graph.add_module(module)
    for importer, imported in IMPORTS.items():
        graph.add_import(importer=importer, imported=imported)
    return graph


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (
            "agent/plimsoll_agent/model/limits.py",
            {"tests.unit.agent.reconcile.test_brake", "tests.functional.test_cli"},
        ),
        ("agent/plimsoll_agent/bars.py", {"tests.unit.probes.cli.test_bars"}),
        ("tests/unit/probes/cli/test_bars.py", {"tests.unit.probes.cli.test_bars"}),
        ("lab/looking.py", {"tests.functional.test_cli", "tests.functional.test_units"}),
        ("ansible/plugins/filter/batches.py", {"tests.unit.collection.test_batches"}),
        ("systemd/plimsoll-enforce.timer", {"tests.functional.test_units"}),
        ("agent/plimsoll_agent/adapters/libvirt/client.py", set()),
        ("docs/tutorial.rst", {"tests.lab.test_tutorial"}),
        ("tests/lab/test_tutorial.py", {"tests.lab.test_tutorial"}),
    ],
    ids=["through-others", "directly", "itself", "conftest", "named", "folder", "lab", "lab-named", "lab-itself"],
)
def test_a_change_reaches_what_imports_or_names_it(graph: grimp.ImportGraph, changed: str, found: set[str]) -> None:
    assert reached([changed], graph, TEXTS) == found


def test_without_a_change_no_test_is_reached(graph: grimp.ImportGraph) -> None:
    assert reached([], graph, TEXTS) == set()
