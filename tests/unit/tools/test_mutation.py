"""What a mutation run takes for a survivor, and what its list of explained ones says."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutation import EXPLAINED, MODULES, ROOT, Mutant, Run, explained, functions, new_lines, outdated, table

DIFF = """\
--- src/plimsoll_agent/reconcile/brake.py
+++ src/plimsoll_agent/reconcile/brake.py
@@ -{line},3 +{line},3 @@
 def stops(self, grave: int, of: int) -> bool:
-    return grave > max(self.disks, of)
+    return grave >= max(self.disks, of)
"""
CHANGES = ("- return grave > max(self.disks, of)", "+ return grave >= max(self.disks, of)")
BRAKE = "agent/plimsoll_agent/reconcile/brake.py"
BLOCK = "\n".join((f"{BRAKE}: Brake.stops", *CHANGES, "Because", "of this."))


@pytest.mark.parametrize("line", [1, 40])
def test_a_mutant_stays_the_same_where_its_lines_move(line: int) -> None:
    assert Mutant.read(BRAKE, "Brake.stops", DIFF.format(line=line)) == Mutant(BRAKE, "Brake.stops", CHANGES)


def test_an_explained_mutant_has_its_reason() -> None:
    known = explained(f"# a comment\n\n{BLOCK}\n\n\n{BLOCK.replace('stops', 'other')}\n")
    assert known[Mutant(BRAKE, "Brake.stops", CHANGES)] == "Because of this."
    assert len(known) == 2


@pytest.mark.parametrize("without", ["Because\nof this.", *CHANGES, ": Brake.stops"])
def test_an_explanation_that_lacks_a_part_is_refused(without: str) -> None:
    text = BLOCK.replace(without, "")
    if without in CHANGES:
        text = "\n".join(line for line in text.splitlines() if line and not line.startswith(("+", "-")))
    with pytest.raises(ValueError, match="is not MODULE"):
        explained(text)


def test_what_is_explained_is_still_in_the_code() -> None:
    assert outdated(explained(EXPLAINED.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("function", ["Brake.stops", "Brake.gone"])
def test_an_explanation_of_code_that_is_gone_is_found(function: str) -> None:
    gone = Mutant(BRAKE, function, ("- return self.what_never_was", "+ return None"))
    assert outdated([gone]) == [gone]


def test_each_module_and_its_tests_are_there() -> None:
    for module, tests in MODULES.items():
        assert list(functions((ROOT / module).read_text(encoding="utf-8")))
        assert [test for test in tests if not (ROOT / f"tests/unit/{test}.py").is_file()] == []


def test_new_lines_are_those_that_a_diff_adds_or_changes() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -3 +3 @@ def f():\n-a\n+@@ -1 +9 @@\n@@ -7,0 +8,3 @@\n+b\n@@ -20,4 +24,0 @@\n-c\n"
    assert new_lines(diff) == {3, 8, 9, 10}


def test_the_table_counts_explained_survivors_apart() -> None:
    mutants = [Mutant(BRAKE, "Brake.stops", (f"- {n}",)) for n in range(3)]
    outcomes = Counter({"killed": 20, "survived": 3, "timed out": 2})
    done = Run(BRAKE, 111, 12.4, outcomes, [(mutant, "") for mutant in mutants])
    head, row = table([done], mutants[:1])
    assert head.split("  ")[0] == "MODULE"
    assert head.endswith("MUTANTS  TRIED  KILLED  TIMED OUT  EXPLAINED  SURVIVED  SECONDS")
    assert row.split() == [BRAKE, "111", "25", "20", "2", "1", "2", "12"]
