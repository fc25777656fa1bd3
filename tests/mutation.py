"""A mutation run over the safety code: ``python -m tests.mutation [--seed S] [--number N] [--since C] [MODULE...]``.

Of each module it takes a share of the mutants that mutmut makes, drawn by the seed, and runs the module's own tests
against each. It prints every mutant that survives, then a table, and exits with 1 when one survived that
``tests/mutation_explained.txt`` does not explain. All of it happens on copies below ``build/mutation``.

mutmut mutates the bodies of functions and methods. It leaves out constants, defaults of dataclasses and properties.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests import depth

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build/mutation"
EXPLAINED = ROOT / "tests/mutation_explained.txt"

MODULES: dict[str, tuple[str, ...]] = {
    "agent/plimsoll_agent/policy/adoption.py": ("agent/policy/test_adoption",),
    "agent/plimsoll_agent/reconcile/apply.py": (
        "agent/reconcile/test_apply",
        "agent/reconcile/test_run",
        "agent/reconcile/test_groups",
        "agent/reconcile/test_withdrawal",
        "agent/passes/test_congestion",
        "agent/passes/test_ceilings",
    ),
    "agent/plimsoll_agent/model/approvals.py": ("agent/reconcile/test_brake",),
    "agent/plimsoll_agent/reconcile/brake.py": (
        "agent/reconcile/test_brake",
        "agent/reconcile/test_brake_counts",
        "agent/reconcile/test_brake_later",
        "agent/reconcile/test_withdrawal",
        "agent/passes/test_region",
        "agent/passes/test_catalogue",
    ),
    "agent/plimsoll_agent/policy/clamp.py": ("agent/policy/test_clamp",),
    "agent/plimsoll_agent/policy/diff.py": ("agent/policy/test_diff",),
    "agent/plimsoll_agent/policy/decide.py": (
        "agent/policy/test_decide",
        "agent/reconcile/test_brake",
        "agent/reconcile/test_brake_later",
        "agent/passes/test_ceilings",
        "agent/passes/test_holds",
        "agent/passes/test_orphaned",
        "agent/catalogue/test_orders",
    ),
    "agent/plimsoll_agent/model/direction.py": ("agent/policy/test_diff",),
    "agent/plimsoll_agent/reconcile/follow.py": ("agent/reconcile/test_follow",),
    "agent/plimsoll_agent/ceilings/buckets.py": ("agent/ceilings/test_buckets", "agent/passes/test_ceilings"),
    "agent/plimsoll_agent/ceilings/split.py": ("agent/ceilings/test_split",),
    "agent/plimsoll_agent/congestion/following.py": ("agent/congestion/test_following",),
    "agent/plimsoll_agent/policy/reduced.py": ("agent/policy/test_reduced",),
    "agent/plimsoll_agent/reconcile/reducing.py": (
        "agent/passes/test_congestion",
        "agent/passes/test_ceilings",
        "agent/passes/test_bursts",
        "agent/passes/test_filters",
        "agent/reconcile/test_follow",
        "agent/reconcile/test_undo",
    ),
    "agent/plimsoll_agent/store/reductions.py": (
        "agent/passes/test_congestion",
        "agent/passes/test_ceilings",
        "agent/store/test_actual",
    ),
    "agent/plimsoll_agent/reconcile/health_gate.py": ("agent/reconcile/test_health_gate",),
    "agent/plimsoll_agent/reconcile/groups.py": ("agent/reconcile/test_groups",),
    "agent/plimsoll_agent/store/node_store.py": ("agent/store/test_node_store",),
    "agent/plimsoll_agent/policy/memory.py": (
        "agent/store/test_node_store",
        "agent/passes/test_congestion",
        "agent/reconcile/test_undo",
    ),
    "agent/plimsoll_agent/catalogue/qosspec.py": ("agent/catalogue/test_qosspec",),
    "agent/plimsoll_agent/store/record.py": (
        "agent/store/test_record",
        "agent/store/test_retention",
        "agent/store/test_node_store",
    ),
    "agent/plimsoll_agent/catalogue/attachments.py": ("agent/catalogue/test_attachments",),
    "agent/plimsoll_agent/catalogue/changes.py": ("agent/catalogue/test_changes",),
    "agent/plimsoll_agent/catalogue/model.py": ("agent/catalogue/test_model", "agent/catalogue/test_orders"),
    "agent/plimsoll_agent/catalogue/region_brake.py": ("agent/catalogue/test_region_brake",),
    "agent/plimsoll_agent/catalogue/orders.py": ("agent/catalogue/test_orders",),
    "agent/plimsoll_agent/catalogue/orders_file.py": ("agent/catalogue/test_orders_file",),
    "agent/plimsoll_agent/catalogue/planner.py": ("agent/catalogue/test_planner",),
    "agent/plimsoll_agent/catalogue/publication.py": ("agent/catalogue/test_publication",),
    "agent/plimsoll_agent/catalogue/signed_file.py": ("agent/catalogue/test_signed_file", "agent/passes/test_region"),
    "agent/plimsoll_agent/catalogue/stages.py": (
        "agent/catalogue/test_stages",
        "agent/catalogue/test_publication",
    ),
    "agent/plimsoll_agent/reconcile/limit_writer.py": (
        "agent/reconcile/test_limit_writer",
        "agent/reconcile/test_groups",
    ),
    "agent/plimsoll_agent/reconcile/observe.py": ("agent/reconcile/test_observe", "agent/passes/test_filters"),
    "agent/plimsoll_agent/reconcile/outcome.py": ("agent/reconcile/test_run", "agent/reconcile/test_brake"),
    "agent/plimsoll_agent/reconcile/keep.py": (
        "agent/reconcile/test_run",
        "agent/reconcile/test_brake",
        "agent/reconcile/test_brake_later",
        "agent/reconcile/test_undo",
        "agent/reconcile/test_withdrawal",
        "agent/cli/test_acknowledge",
        "agent/passes/test_bursts",
        "agent/passes/test_catalogue",
        "agent/passes/test_region",
        "agent/app/test_guest_pass",
    ),
    "agent/plimsoll_agent/reconcile/consider.py": ("agent/reconcile/test_run", "agent/passes/test_filters"),
    "agent/plimsoll_agent/reconcile/defer.py": (
        "agent/reconcile/test_run",
        "agent/reconcile/test_brake",
        "agent/reconcile/test_withdrawal",
        "agent/passes/test_catalogue",
        "agent/passes/test_region",
    ),
    "agent/plimsoll_agent/reconcile/run.py": (
        "agent/monitor/test_pass_summary",
        "agent/reconcile/test_run",
        "agent/reconcile/test_brake",
        "agent/reconcile/test_brake_counts",
        "agent/reconcile/test_brake_later",
        "agent/reconcile/test_follow",
        "agent/passes/test_catalogue",
        "agent/passes/test_congestion",
        "agent/passes/test_region",
        "agent/passes/test_filters",
        "agent/passes/test_bursts",
        "agent/passes/test_ceilings",
        "agent/app/test_guest_pass",
        "agent/app/test_live_plan",
        "agent/daemon/test_service",
    ),
    "agent/plimsoll_agent/reconcile/savings.py": ("agent/passes/test_bursts",),
    "agent/plimsoll_agent/reconcile/undo.py": ("agent/reconcile/test_undo",),
    "agent/plimsoll_agent/reconcile/trial.py": ("agent/reconcile/test_apply",),
    "agent/plimsoll_agent/reconcile/withdrawal.py": ("agent/reconcile/test_withdrawal",),
    "agent/plimsoll_agent/app/fetched.py": ("agent/app/test_fetched", "agent/passes/test_region"),
    "agent/plimsoll_agent/daemon/catalogue_watch.py": ("agent/daemon/test_catalogue_watch",),
    "agent/plimsoll_agent/daemon/connections.py": ("agent/daemon/test_connections",),
    "agent/plimsoll_agent/daemon/passes.py": ("agent/daemon/test_passes",),
    "agent/plimsoll_agent/daemon/rules_watch.py": ("agent/daemon/test_rules_watch",),
    "agent/plimsoll_agent/daemon/schedule.py": ("agent/daemon/test_schedule",),
    "agent/plimsoll_agent/daemon/service.py": ("agent/daemon/test_service",),
    "agent/plimsoll_agent/daemon/vitals.py": ("agent/daemon/test_vitals",),
    "agent/plimsoll_agent/daemon/workers.py": ("agent/daemon/test_workers",),
    "ansible/plugins/filter/batches.py": ("collection/test_batches",),
    "ansible/plugins/filter/batch_result.py": ("collection/test_batches",),
    "monitoring/plimsoll_monitoring/region/stages.py": ("monitoring/region/test_stages",),
    "probes/plimsoll_probes/evaluate/verdict.py": ("probes/evaluate/test_verdict",),
}
"""The safety code, and the unit tests that are to find its mutants."""

# mutmut takes the name of a module from its path below src.
PLACES = {
    "agent/": "src/",
    "probes/": "src/",
    "insight/": "src/",
    "monitoring/": "src/",
    "ansible/": "src/ansible_collections/plimsoll/cloud/",
}
SETTINGS = """\
[tool.mutmut]
source_paths = ["src"]
only_mutate = [{path}]
also_copy = ["docs", "lab", "packaging", "script"]
pytest_add_cli_args = [
    "-m", "not slow", "-p", "no:cacheprovider", "-p", "tests.fastest_first", "--hypothesis-seed={seed}"
]
pytest_add_cli_args_test_selection = [{tests}]
timeout_constant = 2.0
use_git_change_detection = false
"""
KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
# Who is not reached by any of the module's tests survives them.
OUTCOMES = {"killed": KILLED, "segfault": KILLED, "survived": SURVIVED, "no tests": SURVIVED, "timeout": TIMED_OUT}


@dataclass(frozen=True, order=True)
class Mutant:
    """What tells a mutant from others wherever its lines move to: module, function, and the lines that differ."""

    module: str
    function: str
    changes: tuple[str, ...]

    @classmethod
    def read(cls, module: str, function: str, diff: str) -> Mutant:
        """From the unified diff of a function."""
        lines = (line for line in diff.splitlines() if not line.startswith(("---", "+++")))
        return cls(module, function, tuple(f"{line[0]} {line[1:].strip()}" for line in lines if line[:1] in "+-"))


class Failed(Exception):
    """The run cannot go on, with what to look at."""


def explained(text: str) -> dict[Mutant, str]:
    """Why each mutant that may survive does. Blocks of lines, parted by empty ones: ``MODULE: FUNCTION``, the lines
    that differ, and the reason. Raises ``ValueError`` for a block without one of these."""
    reasons: dict[Mutant, str] = {}
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for block in filter(None, (part.strip() for part in kept.split("\n\n"))):
        head, *lines = block.splitlines()
        module, _, function = head.partition(": ")
        changes = tuple(line for line in lines if line.startswith(("+ ", "- ")))
        reason = " ".join(lines[len(changes) :])
        if not function or not changes or not reason or tuple(lines[: len(changes)]) != changes:
            raise ValueError(f"{block!r} is not MODULE: FUNCTION, lines with - and +, and a reason")
        reasons[Mutant(module, function, changes)] = reason
    return reasons


def functions(source: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions and methods of a module, as ``function`` and ``Class.method``."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{one.name}", one) for one in node.body if isinstance(one, ast.FunctionDef))


def outdated(reasons: Iterable[Mutant]) -> list[Mutant]:
    """Mutants of code that is not there any more."""
    return [mutant for mutant in reasons if _line(mutant) is None]


def _line(mutant: Mutant) -> int | None:
    """Where the first line that differs stands in the module, None when it is not there."""
    file = ROOT / mutant.module
    if not file.is_file():
        return None
    source = file.read_text(encoding="utf-8")
    lines = source.splitlines()
    gone = [change[2:] for change in mutant.changes if change.startswith("- ")]
    for name, node in functions(source):
        if name == mutant.function:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            for number in range(first, (node.end_lineno or first) + 1):
                if [line.strip() for line in lines[number - 1 : number - 1 + len(gone)]] == gone:
                    return number
    return None


def new_lines(diff: str) -> set[int]:
    """The numbers of the lines that a diff without context (``git diff --unified=0``) of one file adds."""
    hunks = re.findall(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", diff, re.MULTILINE)
    return {line for first, count in hunks for line in range(int(first), int(first) + int(count or 1))}


def _lines_since(commit: str, module: str) -> set[int]:
    command = ["git", "diff", "--unified=0", commit, "--", module]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    if told.returncode != 0:
        raise Failed(f"what changed since {commit} is unknown: {told.stderr.strip()}")
    return new_lines(told.stdout)


@dataclass
class Run:
    """The share of one module: what came of each mutant that was tried, and who survived, with the diff."""

    module: str
    of: int
    seconds: float
    outcomes: Counter[str]
    survivors: list[tuple[Mutant, str]]


def copy_of_the_checkout(module: str, tests: Sequence[str], seed: int) -> tuple[Path, Path]:
    """A directory in which mutmut runs, and the module's path in it."""
    directory = WORK / module.removesuffix(".py").replace("/", ".")
    shutil.rmtree(directory, ignore_errors=True)
    left_out = shutil.ignore_patterns("__pycache__", "lab", "functional", "prometheus", "ansible")
    for name in (
        "agent/plimsoll_agent",
        "probes/plimsoll_probes",
        "monitoring/plimsoll_monitoring",
        "insight/plimsoll_insight",
        "ansible/",
    ):
        shutil.copytree(ROOT / name, directory / _placed(name), ignore=left_out)
    for name in ("docs/html/schemas", "lab", "packaging", "script", "tests"):
        shutil.copytree(ROOT / name, directory / name, ignore=left_out)
    shutil.copy(ROOT / "setup.cfg", directory)
    # The tests look for the collection beside them.
    (directory / "mutants").mkdir()
    (directory / "mutants/ansible").symlink_to("src/ansible_collections/plimsoll/cloud")
    (directory / "tmp").mkdir()
    path = _placed(module)
    selection = ", ".join(f'"tests/unit/{test}.py"' for test in tests)
    settings = SETTINGS.format(path=f'"{path}"', tests=selection, seed=seed)
    (directory / "pyproject.toml").write_text(settings, encoding="utf-8")
    return directory, Path(path)


def _placed(name: str) -> str:
    top = next(top for top in PLACES if name.startswith(top))
    return PLACES[top] + name.removeprefix(top)


def run(
    module: str, tests: Sequence[str], number: int, seed: int, processes: int, lock: int, since: str | None
) -> Run:
    """``since`` is a commit: only mutants of lines that have changed since are tried."""
    # Here, since the unit test of this module needs nothing of it, and it takes a while.
    from mutmut.configuration import reset_config
    from mutmut.mutation.diff_apply import generated_function_names, get_diff_for_mutant
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.format_utils import get_mutant_name, orig_function_and_class_names_from_key

    def mutant(name: str, diff: str) -> Mutant:
        function, of_class = orig_function_and_class_names_from_key(name)
        return Mutant.read(module, f"{of_class}.{function}" if of_class else function, diff)

    began = time.monotonic()
    lines = None if since is None else _lines_since(since, module)
    directory, path = copy_of_the_checkout(module, tests, seed)
    with chdir(directory):
        reset_config()
        made = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
        names = [get_mutant_name(path, name) for name in made.mutant_names]
        if lines is not None:
            code = made.code.splitlines(keepends=True)

            def diff_of(name: str) -> str:
                spans = [made.line_span_by_function_name[each] for each in generated_function_names(name)]
                both = (textwrap.dedent("".join(code[span.start - 1 : span.end])) for span in spans)
                return get_diff_for_mutant(name, source="".join(both), path=path)

            names = [name for name in names if _line(mutant(name, diff_of(name))) in lines]
            if not names:
                return Run(module, 0, time.monotonic() - began, Counter(), [])
        drawn = random.Random(f"{seed} {module}").sample(names, min(number, len(names)))
        _mutmut(directory, drawn, processes, lock)
        told = json.loads(Path(f"mutants/{path}.meta").read_text(encoding="utf-8"))["exit_code_by_key"]
        outcomes: Counter[str] = Counter()
        survivors: list[tuple[Mutant, str]] = []
        for name in drawn:
            status = status_by_exit_code[told[name]]
            if status not in OUTCOMES:
                raise Failed(f"{name} was {status}: see {directory}/mutmut.log")
            outcomes[OUTCOMES[status]] += 1
            if OUTCOMES[status] == SURVIVED:
                diff = get_diff_for_mutant(name, path=path)
                survivors.append((mutant(name, diff), diff))
    return Run(module, len(names), time.monotonic() - began, outcomes, survivors)


def _mutmut(directory: Path, names: Sequence[str], processes: int, lock: int) -> None:
    own = {"TMPDIR": str(directory / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
    # Ten times the examples for each mutant would take days.
    own[depth.VARIABLE] = depth.Depth.LANDING if depth.DEPTH is depth.Depth.SOAK else depth.DEPTH
    command = [str(Path(sys.executable).parent / "mutmut"), "run", "--max-children", str(processes), *names]
    log = directory / "mutmut.log"
    with log.open("w", encoding="utf-8") as output:
        # Whoever outlives this process keeps the lock.
        done = subprocess.run(
            command, cwd=directory, env=os.environ | own, stdout=output, stderr=output, pass_fds=(lock,), check=False
        )
    if done.returncode != 0:
        raise Failed(f"mutmut failed in {directory}:\n{log.read_text(encoding='utf-8')[-3000:]}")


def table(runs: Sequence[Run], reasons: Iterable[Mutant]) -> list[str]:
    known = set(reasons)
    rows = [("MODULE", "MUTANTS", "TRIED", "KILLED", "TIMED OUT", "EXPLAINED", "SURVIVED", "SECONDS")]
    for each in runs:
        outcomes, of_them = each.outcomes, sum(mutant in known for mutant, _ in each.survivors)
        counts = (each.of, outcomes.total(), outcomes[KILLED], outcomes[TIMED_OUT], of_them)
        left = len(each.survivors) - of_them
        rows.append((each.module, *map(str, counts), str(left), f"{each.seconds:.0f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [first.ljust(widths[0]), *(text.rjust(width) for text, width in zip(rest, widths[1:], strict=True))]
        )
        for first, *rest in rows
    ]


def _named(name: str) -> list[str]:
    return [module for module in MODULES if f"/{module}".endswith(f"/{name}") or Path(module).stem == name]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutation", description=(__doc__ or "").partition("\n\n")[0]
    )
    parser.add_argument("modules", metavar="MODULE", nargs="*", help="a path, or the end of one; all by default")
    today = int(datetime.now(UTC).strftime("%Y%m%d"))
    parser.add_argument("--seed", type=int, default=today, help="draws the share (default: the date, %(default)s)")
    share = depth.count(quick=10, landing=25, soak=150)
    parser.add_argument("--number", type=int, default=share, help="mutants of each module (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="at a time (default: %(default)s)")
    parser.add_argument("--since", metavar="COMMIT", help="only mutants of lines that have changed since")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.modules if not _named(name)]:
        parser.error(f"no module of the safety code: {', '.join(unknown)} (known: {' '.join(MODULES)})")
    modules = [module for name in given.modules for module in _named(name)] or list(MODULES)
    reasons = explained(EXPLAINED.read_text(encoding="utf-8"))
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another mutation run is under way: {WORK}/lock is held", file=sys.stderr)
            return 2
        print(f"seed {given.seed}, up to {given.number} mutants of each module", flush=True)
        runs: list[Run] = []
        for module in modules:
            try:
                drawn = given.number, given.seed, given.processes, lock.fileno(), given.since
                done = run(module, MODULES[module], *drawn)
            except KeyboardInterrupt:
                print(f"{module}: interrupted", file=sys.stderr)
                return 130
            except Failed as failed:
                print(f"{module}: {failed}", file=sys.stderr)
                return 2
            runs.append(done)
            for mutant, diff in done.survivors:
                place = f"{module}:{_line(mutant)}: {mutant.function}"
                if mutant in reasons:
                    print(f"explained: {place}: {reasons[mutant]}")
                else:
                    print(f"survived: {place}\n{diff}\n")
            print("\n".join(table([done], reasons)[1:]), flush=True)
    print("\n".join(["", *table(runs, reasons)]))
    return 1 if any(mutant not in reasons for each in runs for mutant, _ in each.survivors) else 0


if __name__ == "__main__":
    sys.exit(main())
