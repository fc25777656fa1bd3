"""script/setup: steps side by side, and what each part of it needs."""

from __future__ import annotations

import configparser
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lab.cloud.kept import KEPT
from lab.interrupted import heeds_ctrl_c

ROOT = Path(__file__).resolve().parents[2]


def bash(directory: Path, text: str) -> subprocess.Popen[str]:
    script = directory / "script"
    script.write_text(
        f"set -euo pipefail\ncd {directory}\n. {ROOT}/script/steps.sh\n{text}\nrun_steps logs\necho end\n"
    )
    return subprocess.Popen(
        ["bash", str(script)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeds_ctrl_c,
    )


def in_lib(text: str, path: str = "") -> str:
    environ = os.environ | {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    script = f"set -euo pipefail\n. script/lib.sh\n{text}"
    return subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("release", "missing"), [("12", ["a"]), ("13", ["a", "of-13"]), ("", ["a"])], ids=["12", "13", "not Debian"]
)
def test_packages_that_only_a_later_release_has_are_not_missed_on_an_earlier_one(
    tmp_path: Path, release: str, missing: list[str]
) -> None:
    (tmp_path / "script").mkdir()
    (tmp_path / "there.cpython-313.so").touch()
    (tmp_path / "script/packages.txt").write_text(
        f"[group]\na /no/such/a\nof-13 /no/such/file 13\nthere {tmp_path}/there.cpython-3*.so\n"
    )
    told = in_lib(f"debian() {{ say '{release}'; }}\ndpkg-query() {{ :; }}\ncd {tmp_path}\nmissing_packages group")
    assert told.split() == missing


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists() or not file.read_text():
        assert time.monotonic() < deadline, f"{file} does not come"
        time.sleep(0.02)


def lives(pid: str) -> bool:
    """Not yet reaped is not alive."""
    try:
        return "State:\tZ" not in Path("/proc", pid, "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_steps_run_side_by_side_and_wait_for_those_that_they_need(tmp_path: Path) -> None:
    meet = "until [ -e {other} ]; do sleep 0.02; done"
    running = bash(
        tmp_path,
        f"one() {{ touch one; {meet.format(other='two')}; touch one-done; }}\n"
        f"two() {{ touch two; {meet.format(other='one')}; }}\n"
        "after() { [ -e one-done ]; }\n"
        'add_step after "one not-added" "what comes after" after\n'
        'add_step one "" "the one" one\nadd_step two "" "the other" two',
    )
    out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, "")
    lines = out.splitlines()
    assert lines[:2] == ["[2/3] the one", "[3/3] the other"]
    assert lines[-2].startswith("[1/3] done in ") or lines[-2].startswith("[3/3] done in ")
    assert lines.index("[1/3] what comes after") > next(i for i, line in enumerate(lines) if "s: the one" in line)
    assert lines[-1] == "end"


def test_a_setup_that_is_complete_has_nothing_to_do(tmp_path: Path) -> None:
    assert bash(tmp_path, ":").communicate(timeout=60) == ("end\n", "")


def test_a_step_that_fails_ends_the_others_and_shows_what_it_said(tmp_path: Path) -> None:
    running = bash(
        tmp_path,
        "long() { sh -c 'echo $$ > pid; exec sleep 600'; }\n"
        "bad() { until [ -s pid ]; do sleep 0.02; done; echo no network; false; echo not reached; }\n"
        'add_step long "" "a long one" long\nadd_step bad "" "a bad one" bad\nadd_step never bad "a later one" long',
    )
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert err.splitlines()[:2] == ["[2/3] failed: a bad one; the end of logs/bad.log:", "no network"]
    assert "not reached" not in err
    assert "a later one" not in out
    assert not lives((tmp_path / "pid").read_text().strip())


def test_an_interrupted_setup_leaves_nothing_at_work(tmp_path: Path) -> None:
    running = bash(
        tmp_path,
        "long() { sh -c 'echo $$ > pid; exec sleep 600'; }\nadd_step long \"\" \"a long one\" long",
    )  # fmt: skip
    wait_for(tmp_path / "pid")
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert err.endswith("interrupted; what is done is kept, so run it again\n")
    assert not lives((tmp_path / "pid").read_text().strip())


def test_parts_name_what_there_is_and_all_has_all_of_it() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    groups = [line.strip("[]") for line in (ROOT / "script/packages.txt").read_text().splitlines() if line[:1] == "["]
    known = (set(groups), set(setup["options.extras_require"]), set(KEPT))
    parts = in_lib("known_parts").split()
    assert {"demo", "unit", "functional", "lab", "all"} <= set(parts)
    for part in parts:
        needs = [set(in_lib(f"of_parts {column} {part}").split()) for column in (1, 2, 3)]
        assert all(needed <= there for needed, there in zip(needs, known, strict=True)), part
        if part == "all":
            assert needs[0] == known[0]
            assert needs[2] == known[2]


def test_a_package_that_was_not_installed_to_the_end_is_missing(tmp_path: Path) -> None:
    query = tmp_path / "dpkg-query"
    query.write_text("#!/bin/sh\necho 'installed gcc'\necho 'half-configured python3-venv'\n")
    query.chmod(0o755)
    assert "python3-venv" in in_lib("missing_packages agent", str(tmp_path)).split()
    assert "gcc" not in in_lib("missing_packages agent", str(tmp_path)).split()


def test_a_copy_has_what_is_committed_and_what_is_not_and_keeps_what_was_set_up(tmp_path: Path) -> None:
    """Tests of a clone below /root run in it: an old file there would be tested instead."""
    origin, copy = tmp_path / "origin", tmp_path / "copy"
    git = ["git", "-C", str(origin), "-c", "user.name=a", "-c", "user.email=a@plimsoll.invalid"]
    origin.mkdir()
    (origin / ".gitignore").write_text("/set-up\n")
    for name in ("kept", "edited", "deleted", "renamed"):
        (origin / name).write_text(name)
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=first"], check=True)
    in_lib(f"cd {origin}; copy_checkout {copy}")
    (copy / "set-up").write_text("by the first run")
    (copy / "left").write_text("by the first run")
    (origin / "edited").write_text("again")
    (origin / "deleted").unlink()
    (origin / "new file").write_bytes(b"\x00")
    subprocess.run([*git, "mv", "renamed", "name"], check=True)
    in_lib(f"cd {origin}; copy_checkout {copy}")
    contents = {path.name: path.read_bytes() for path in copy.iterdir() if path.is_file()}
    assert contents == {
        ".gitignore": b"/set-up\n",
        "kept": b"kept",
        "edited": b"again",
        "name": b"renamed",
        "new file": b"\x00",
        "set-up": b"by the first run",
    }


@pytest.mark.parametrize(
    ("program", "answer", "reason"),
    [
        ("id", "echo 1000", "run it as root"),
        ("unshare", "exit 1", "refuses a mount namespace"),
        ("df", "echo Avail; echo 7", "has less than 8 GiB free"),
        ("awk", "echo 2048", "2048 MiB of memory"),
    ],
)
def test_what_the_lab_cannot_have_is_one_line_before_anything_is_installed(
    tmp_path: Path, program: str, answer: str, reason: str
) -> None:
    (tmp_path / program).write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / program).chmod(0o755)
    script = (
        f"PATH={tmp_path}:$PATH\n. script/lib.sh\nensure_setup() {{ echo installed; }}\ncheck_lab /var/tmp/none 8"
    )
    ended = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert reason in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_each_environment_of_tox_is_a_word_of_script_test() -> None:
    """Else ``tox -e functional`` ends with a usage of another program."""
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    names = {name.strip() for name in tox["tox"]["env_list"].split(",")}
    names |= {section.partition(":")[2] for section in tox.sections() if ":" in section}
    assert names == {"lint", "unit", "functional", "docs", "lab", "all"}
    for name in names:
        shown = subprocess.run(["script/test", name, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
        assert shown.stdout.startswith("usage: script/test")
