"""The script that a guest runs, in this machine's own shells and with its own fio."""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from plimsoll_agent.util.frozen import replace
from plimsoll_probes.adapters.local_shell import HereShell
from plimsoll_probes.guest.session import SCRIPT, Premises, Session
from plimsoll_probes.guest.shell import Ran
from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.model.histogram import bucket_of
from plimsoll_probes.model.job import Job, JobName
from tests import depth
from tests.hostile import attack

SIZE = 2**24
# The RHEL family's sh is bash.
SHELLS = {"dash": ["dash"], "busybox": ["busybox", "sh"], "bash": ["bash", "--posix"]}
# Any disk: its counters are read, and nothing else of it.
PREMISES = Premises(
    directory="",
    engines=("libaio",),
    cpus=None,
    device=min(disk.name for disk in Path("/sys/block").iterdir()),
    serial="",
    size=0,
    filesystem="",
    free=0,
)
KILLED = -signal.SIGKILL
NOBODY = 65534
FILES = ("made-by-plimsoll", "pid", "data", "job.fio", "out.json", "out.json.gz", "err")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, or mounts")


class ShellOf:
    """``HereShell`` with another sh."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words

    def run(self, argv: Sequence[str], *, seconds: float, **more: Any) -> Ran:
        assert argv[0] == "sh"
        return HereShell().run([*self._words, *argv[1:]], seconds=seconds, **more)


def session(directory: Path, name: str = "a", shell: str = "dash", grace: int = 10) -> Session:
    return Session(shell=ShellOf(SHELLS[shell]), directory=str(directory), name=name, grace=grace, keep_free=0)


def job(name: JobName = JobName.MIXED, seconds: int = 1) -> Job:
    return Job(name=name, seconds=seconds, file_size=SIZE)


def own(directory: Path, name: str = "a") -> Path:
    return directory / f".plimsoll-probe-{name}"


def snapshot(directory: Path) -> dict[str, str]:
    """Every name below, and what it holds or leads to."""
    return {
        str(path.relative_to(directory)): str(path.readlink())
        if path.is_symlink()
        else ("" if path.is_dir() else path.read_text())
        for path in sorted(directory.rglob("*"))
    }


def standing_in(directory: Path) -> dict[int, str]:
    """Processes at work in the directory, by id; also after its name is gone."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            place = str((process / "cwd").readlink()).removesuffix(" (deleted)")
            if place == str(directory):
                found[int(process.name)] = (process / "comm").read_text().strip()
        except OSError:
            continue
    return found


def until(true: Callable[[], object], seconds: float = 10, state: Callable[[], object] = str) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"it does not come about: {state()}"
        time.sleep(0.02)


def with_program(directory: Path, name: str, text: str) -> str:
    """The script, for which this is the program of that name."""
    programs = directory / "programs"
    programs.mkdir(exist_ok=True)
    (programs / name).write_text(f"#!/bin/sh\n{text}\n")
    (programs / name).chmod(0o755)
    return SCRIPT.replace("PATH=/usr", f"PATH={programs}:/usr", 1)


def trouble(of: Callable[[], object]) -> Trouble:
    with pytest.raises(Trouble) as caught:
        of()
    return caught.value


def script(directory: Path, verb: str, *words: str, text: str = SCRIPT, **other: object) -> subprocess.Popen[bytes]:
    argv = ["/bin/dash", "-c", text, "plimsoll-probe", verb, str(directory), "a", *words]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, **other)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Path]:
    session(tmp_path).fill(SIZE)
    yield tmp_path
    session(tmp_path).clean()


@pytest.fixture
def running(filled: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run of a minute, with fio at work."""
    text = filled / "job.fio"
    text.write_text("[read]\nrw=randread\nfilename=data\nsize=1M\ndirect=1\nthread=1\ntime_based=1\nruntime=60\n")
    with text.open() as given, script(filled, "run", "70", PREMISES.device, stdin=given) as process:
        text.unlink()
        until(lambda: "fio" in standing_in(own(filled)).values())
        yield process
        process.kill()


# --- a whole session


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_read_the_script(shell: str) -> None:
    subprocess.run([*SHELLS[shell], "-n"], input=SCRIPT.encode(), check=True)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_session_measures_every_job_and_leaves_nothing(tmp_path: Path, shell: str) -> None:
    one = session(tmp_path, shell=shell)
    one.fill(SIZE)
    inode = (own(tmp_path) / "data").stat()
    for name in JobName:
        measured, frozen = one.run(job(name), PREMISES)
        assert [direction for direction, _ in measured.flows] == list(job(name).shares)
        assert measured.operations > 0
        assert measured.bytes == measured.operations * 16384
        assert 0.9 < measured.seconds < 60  # no milliseconds
        assert measured.cpu_busy is not None
        assert measured.fio.startswith("fio-")
        assert not frozen
    after = (own(tmp_path) / "data").stat()
    assert (after.st_ino, after.st_size) == (inode.st_ino, SIZE), "no run makes a file, or makes it longer"
    assert after.st_mode & 0o77 == own(tmp_path).stat().st_mode & 0o77 == 0
    assert one.clean()
    assert snapshot(tmp_path) == {}


def test_our_percentiles_are_fios_own_of_the_same_run(filled: Path) -> None:
    measured, _ = session(filled).run(job(seconds=2), PREMISES)
    (group,) = json.loads((own(filled) / "out.json").read_text())["jobs"]
    for direction, flow in measured.flows:
        percentiles = group[direction]["clat_ns"]["percentile"]
        assert len(percentiles) == 9
        for percent, nanoseconds in percentiles.items():
            quantile = flow.latency.quantile(float(percent) / 100)
            assert quantile is not None
            assert abs(bucket_of(quantile.value) - bucket_of(nanoseconds)) <= 1, f"{direction} p{percent}"
        assert flow.latency_max == group[direction]["clat_ns"]["max"]


def test_fewer_processors_than_processes_are_enough(filled: Path) -> None:
    one = min(os.sched_getaffinity(0))
    premises = Premises(
        directory="",
        engines=("libaio",),
        cpus=str(one),
        device=PREMISES.device,
        serial="",
        size=0,
        filesystem="",
        free=0,
    )
    assert session(filled).run(job(), premises)[0].operations > 0


@pytest.mark.parametrize("shell", SHELLS)
def test_the_disk_below_a_directory_is_found_or_none_is(tmp_path: Path, shell: str) -> None:
    place = tmp_path / "a b'c"
    place.mkdir()
    number = place.stat().st_dev
    known = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not known.exists():  # no file system of a disk's own
        assert trouble(lambda: session(place, shell=shell).look(SIZE)).why is Why.NO_DISK
        return
    premises = session(place, shell=shell).look(SIZE)
    assert known.resolve().name.startswith(premises.device), "itself or a partition of it"
    assert (Path("/sys/block") / premises.device).exists()
    assert premises.free == pytest.approx(shutil.disk_usage(place).free, rel=0.1)
    assert "psync" in premises.engines


@as_root
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("listed", "libaio", "known"),
    [
        ("echo psync; echo libaio; echo posixaio", "libaio not found", "psync libaio posixaio "),
        ("echo psync", "libaio has no options", "libaio psync "),
        ("echo psync", "libaio not found", "psync "),
        ("echo psync; trap '' PIPE; while :; do echo nfs; done", "libaio has no options", "libaio psync nfs nfs "),
    ],
    ids=["built in", "a package that is not listed", "missing", "one without end"],
)
def test_an_engine_that_is_a_package_of_its_own_is_known(
    tmp_path: Path, shell: str, listed: str, libaio: str, known: str
) -> None:
    fake = tmp_path / "fio"
    fake.write_text(f'#!/bin/sh\n[ "$1" = --enghelp ] || exec echo IO engine {libaio}\n{listed}\n')
    fake.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    begin = f"mount --make-rprivate / && mount -t tmpfs none /usr/local/sbin && cp {fake} /usr/local/sbin &&"
    words = ["unshare", "-m", "sh", "-c", f'{begin} exec "$@"', "sh", *SHELLS[shell], "-c", SCRIPT, "plimsoll-probe"]
    out = HereShell().run([*words, "look", str(place), "a"], seconds=60).out.decode().splitlines()
    (engines,) = [line for line in out if line.startswith("engines=")]
    assert engines.startswith(f"engines={known}")
    assert len(engines) < 1000


@as_root
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("parts", "disk"),
    [
        (("DISK/part2", "DISK/part3"), True),
        (("pool",), True),
        (("DISK/part2", "other"), False),
        (("DISK/part2", "gone"), False),
    ],
    ids=["extended over two partitions", "thin", "striped", "unknown in part"],
)
def test_a_volume_on_parts_of_one_disk_is_on_that_disk(
    tmp_path: Path, shell: str, parts: tuple[str, ...], disk: bool
) -> None:
    name = PREMISES.device
    for device in ("dm-0", f"{name}/part2", f"{name}/part3", "pool", "meta", "other"):
        (tmp_path / "sys" / device / "slaves").mkdir(parents=True)
    for number in (2, 3):
        (tmp_path / "sys" / name / f"part{number}" / "partition").write_text(str(number))
    below = {"dm-0": [part.replace("DISK", name) for part in parts], "pool": ["meta", f"{name}/part3"]}
    below["meta"] = [f"{name}/part2"]
    for device, names in below.items():
        for number, part in enumerate(names):
            (tmp_path / "sys" / device / "slaves" / f"part{number}").symlink_to(f"../../{part}")
    place = tmp_path / "place"
    place.mkdir()
    device = place.stat().st_dev
    begin = (
        f"mount --make-rprivate / && mount -t tmpfs none /sys/dev/block && cp -a {tmp_path}/sys/. /sys/dev/block &&"
    )
    link = f"ln -s dm-0 /sys/dev/block/{os.major(device)}:{os.minor(device)} && exec"
    words = [
        "unshare",
        "-m",
        "sh",
        "-c",
        f'{begin} {link} "$@"',
        "sh",
        *SHELLS[shell],
        "-c",
        SCRIPT,
        "plimsoll-probe",
    ]
    out = HereShell().run([*words, "look", str(place), "a"], seconds=60).out.decode().splitlines()
    assert f"device={name if disk else ''}" in out


def test_memory_is_no_disk() -> None:
    caught = trouble(lambda: session(Path("/dev/shm")).look(SIZE))
    assert (caught.why, caught.facts["device"]) == (Why.NO_DISK, "tmpfs")


@pytest.mark.parametrize(
    ("directory", "reason"),
    [("/proc/sys", ""), ("/nowhere/at/all", "No such file or directory"), ("/etc/passwd", "Not a directory")],
)
def test_where_nothing_can_be_written_the_guests_own_reason_is_told(directory: str, reason: str) -> None:
    caught = trouble(lambda: session(Path(directory)).fill(SIZE))
    assert caught.why is Why.NOT_WRITABLE
    assert str(caught.facts["detail"]).endswith(reason)
    assert caught.facts["detail"]


def test_the_fill_tells_which_fio_the_guest_has(tmp_path: Path) -> None:
    version = subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    script = ["sh", "-c", SCRIPT, "plimsoll-probe", "fill", str(tmp_path), "x", str(SIZE), "60"]
    assert f"fio={version}" in HereShell().run(script, seconds=70).out.decode().splitlines()


@as_root
@pytest.mark.skipif(
    "btrfs" not in Path("/proc/filesystems").read_text(encoding="ascii"), reason="this kernel has no btrfs"
)
def test_a_write_on_btrfs_is_timed_until_it_ended(tmp_path: Path) -> None:
    """Linux 6.18 blocks an asynchronous write that has checksums, and fio's clock of completion starts after it."""
    image, place = tmp_path / "image", tmp_path / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(2**28)
    subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        step = session(place)
        premises = step.look(SIZE)
        step.fill(SIZE)
        flags = subprocess.run(["lsattr", own(place) / "data"], capture_output=True, text=True, check=True)
        assert "C" in flags.stdout.split()[0], "without checksums"
        measured, _ = step.run(replace(job(), io_depth=1, processes=1), premises)
        assert step.clean()
    finally:
        subprocess.run(["umount", place], check=True)
    assert measured.engine == "psync"
    assert measured.write is not None
    median = measured.write.latency.quantile(0.5)
    assert median is not None
    assert median.value > 5_000, "nanoseconds"


# --- what fio does not do


def test_a_run_that_fails_is_told_with_fios_words_and_makes_no_file(filled: Path) -> None:
    (own(filled) / "data").unlink()
    caught = trouble(lambda: session(filled).run(job(), PREMISES))
    assert caught.why is Why.FIO_FAILED
    assert "file creation disallowed" in str(caught.facts["detail"])
    assert not (own(filled) / "data").exists()


def test_a_fio_that_does_not_end_is_killed_and_the_kernels_counters_are_told(filled: Path) -> None:
    def hang() -> None:
        for process, program in standing_in(own(filled)).items():
            if program == "fio":
                os.kill(process, signal.SIGSTOP)

    class Hanging(HereShell):
        def run(self, argv: Sequence[str], *, seconds: float, **more: Any) -> Ran:
            return super().run(argv, seconds=seconds, **more | {"tell": hang})

    began = time.monotonic()
    hung = Session(shell=Hanging(), directory=str(filled), name="a", grace=1, keep_free=0)
    caught = trouble(lambda: hung.run(job(seconds=3), PREMISES))
    assert caught.why is Why.UNFINISHED
    assert caught.facts["seconds"] == 4
    assert caught.facts["done"] is not None
    assert caught.facts["unfinished"] is not None
    assert time.monotonic() - began < 9
    until(lambda: not standing_in(own(filled)))
    # The call that was killed may be about to remove the directory itself.
    until(session(filled).clean, state=lambda: (snapshot(filled), standing_in(own(filled))))
    assert snapshot(filled) == {}


def test_a_run_that_is_told_to_end_counts_kills_and_removes(filled: Path, running: subprocess.Popen[bytes]) -> None:
    running.terminate()
    out, _ = running.communicate(timeout=5)
    said = dict(line.split("=", 1) for line in out.decode().splitlines())
    assert said["stopped"] == "yes"
    assert {"disk_before", "disk_after", "cpu_after"} <= said.keys()
    until(lambda: not standing_in(own(filled)))
    until(lambda: snapshot(filled) == {})


def test_a_removal_that_hangs_does_not_hold_the_answer(
    tmp_path_factory: pytest.TempPathFactory, filled: Path, running: subprocess.Popen[bytes]
) -> None:
    """As while the disk stalls: the agent waits until no process has the standard output."""
    text = with_program(tmp_path_factory.mktemp("stalls"), "rm", "exec sleep 30")
    running.kill()
    running.wait()
    with script(filled, "clean", text=text) as cleaning:
        until(lambda: "sleep" in standing_in(own(filled)).values())
        cleaning.terminate()
        out, _ = cleaning.communicate(timeout=5)
    assert out == b"", "not clean, and not held"
    for process in standing_in(own(filled)):
        os.kill(process, signal.SIGKILL)


# --- what an earlier session left, and what it did not


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_killed_session_left_is_swept_with_its_fio(
    filled: Path, running: subprocess.Popen[bytes], shell: str
) -> None:
    left = standing_in(own(filled))
    running.kill()
    assert running.wait() == KILLED
    assert "fio" in standing_in(own(filled)).values(), "fio goes on alone"
    try_look(filled, shell)
    until(lambda: not left.keys() & standing_in(own(filled)).keys())
    assert snapshot(filled) == {}


def test_a_script_that_still_waits_for_its_fio_is_swept_too(filled: Path, running: subprocess.Popen[bytes]) -> None:
    try_look(filled)
    assert running.wait(5) == KILLED
    assert snapshot(filled) == {}


@pytest.mark.parametrize("files", [(), ("made-by-plimsoll", "data")], ids=["before its mark", "with an empty mark"])
def test_a_directory_of_a_guest_that_crashed_is_swept(tmp_path: Path, files: tuple[str, ...]) -> None:
    own(tmp_path, "b").mkdir(0o700)
    for name in files:
        (own(tmp_path, "b") / name).touch()
    try_look(tmp_path)
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("shell", SHELLS)
def test_what_others_made_is_left_alone_whatever_it_is_called(tmp_path: Path, shell: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("made-by-plimsoll", "data", "out.json"):
        (elsewhere / name).write_text("precious")
    place = tmp_path / "place"
    place.mkdir()
    own(place, "link").symlink_to(elsewhere)
    own(place, "file").write_text("precious")
    for name, mark in (("foreign", "data"), ("linked-mark", "err")):
        own(place, name).mkdir(0o700)
        (own(place, name) / mark).write_text("precious")
    (own(place, "linked-mark") / "made-by-plimsoll").symlink_to(elsewhere / "made-by-plimsoll")
    own(place, "more").mkdir(0o700)
    (own(place, "more") / "made-by-plimsoll").touch()
    (own(place, "more") / "notes").write_text("an administrator's")
    before = snapshot(tmp_path)
    try_look(place, shell)
    after = snapshot(tmp_path)
    del before["place/.plimsoll-probe-more/made-by-plimsoll"]
    assert after == before


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("kind", ["link", "directory", "file"])
def test_nothing_that_is_there_is_taken_for_our_own_directory(tmp_path: Path, kind: str, shell: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "data").write_text("precious")
    match kind:
        case "link":
            own(tmp_path).symlink_to(elsewhere)
        case "directory":
            elsewhere.rename(own(tmp_path))
        case "file":
            own(tmp_path).write_text("precious")
    before = snapshot(tmp_path)
    one = session(tmp_path, shell=shell)
    assert trouble(lambda: one.fill(SIZE)).why is Why.NOT_WRITABLE
    assert trouble(lambda: one.run(job(), PREMISES)).why is Why.FIO_FAILED
    assert not one.clean()
    assert snapshot(tmp_path) == before


def test_a_number_that_another_process_has_since_is_not_killed(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        own(tmp_path, "b").mkdir(0o700)
        (own(tmp_path, "b") / "made-by-plimsoll").touch()
        (own(tmp_path, "b") / "pid").write_text(f"{other.pid}\n")
        try_look(tmp_path)
        assert other.poll() is None
        other.kill()
    assert snapshot(tmp_path) == {}


def test_to_clean_twice_or_before_anything_was_made_is_clean(tmp_path: Path) -> None:
    assert session(tmp_path).clean()
    session(tmp_path).fill(SIZE)
    assert session(tmp_path).clean()
    assert session(tmp_path).clean()


def test_a_removal_that_was_killed_before_its_last_step_is_ended(tmp_path: Path) -> None:
    """The mark is gone then, and the empty directory is not."""
    own(tmp_path).mkdir(0o700)
    assert session(tmp_path).clean()
    assert snapshot(tmp_path) == {}


# --- where another user owns the directory


@pytest.mark.parametrize("shell", SHELLS)
def test_a_directory_that_others_may_write_in_is_none_of_ours(tmp_path: Path, shell: str) -> None:
    """Root's own, shared: its users plant what they like, and rename it where they own the directory above."""
    (tmp_path / "precious").write_text("precious")
    shared = own(tmp_path)
    shared.mkdir()
    shared.chmod(0o777)
    for name in FILES:
        (shared / name).symlink_to(tmp_path / "precious")
    (shared / "made-by-plimsoll").unlink()
    (shared / "made-by-plimsoll").touch()
    before = snapshot(tmp_path)
    one = session(tmp_path, shell=shell)
    with subprocess.Popen(["timeout", "60", "sleep", "60"], cwd=shared) as standing:
        until(lambda: "timeout" in standing_in(shared).values())
        assert trouble(lambda: one.run(job(), PREMISES)).why is Why.FIO_FAILED
        assert not one.clean()
        try_look(tmp_path, shell)
        assert standing.poll() is None, "what stands there is another's"
        standing.terminate()
    assert snapshot(tmp_path) == before


TRAPS = {
    "a directory of links": "mv $own away; mkdir $own; for f in $files; do ln -s $outside/precious $own/$f; done",
    "a directory of FIFOs": "mv $own away; mkdir $own; for f in $files; do mkfifo $own/$f; done",
    "another's empty directory": "mv $own away; mkdir $own; chown 65534 $own",
    "a link to a directory elsewhere": "mv $own away; ln -s $outside/empty $own",
    "a file": "mv $own away; echo precious >$own",
    "root's own of another name": "mv $own away; mv precious $own",
    "a mount": "mount -t tmpfs -o mode=0700 none $own",
    "nothing": "mv $own away",
}


@as_root
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("trap", TRAPS)
def test_what_takes_the_place_of_a_new_directory_is_not_entered(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, trap: str, shell: str
) -> None:
    place, outside = tmp_path / "place", tmp_path / "outside"
    (place / "precious").mkdir(mode=0o755, parents=True)
    (place / "precious" / "data").write_text("precious")
    (outside / "empty").mkdir(mode=0o700, parents=True)
    (outside / "precious").write_text("precious")
    words = f"own=.plimsoll-probe-a outside={outside} files='{' '.join(FILES)}' PATH=/bin; mkdir $own; {TRAPS[trap]}"
    text = with_program(tmp_path_factory.mktemp("made"), "mkdir", words)
    before = snapshot(outside)
    fill = [*SHELLS[shell], "-c", text, "plimsoll-probe", "fill", str(place), "a", str(2**20), "9"]
    try:
        said = subprocess.run(fill, capture_output=True, timeout=30, check=True).stdout
        held = {path.name for path in own(place).iterdir()} if own(place).is_dir() else set()
    finally:
        if trap == "a mount":
            subprocess.run(["umount", own(place)], check=True)
    assert said == b"trouble=not-writable\n"
    assert snapshot(outside) == before
    assert (outside / "empty").stat().st_mode & 0o777 == 0o700
    precious = own(place) if trap == "root's own of another name" else place / "precious"
    assert snapshot(precious) == {"data": "precious"}
    assert precious.stat().st_mode & 0o777 == 0o755
    planted = (
        {"data"} if trap == "root's own of another name" else set(FILES) if trap.startswith("a directory") else set()
    )
    assert held == planted, "nothing was made in it"


def test_no_file_is_written_over_that_is_there_after_all(
    tmp_path_factory: pytest.TempPathFactory, filled: Path
) -> None:
    text = with_program(tmp_path_factory.mktemp("keeps"), "rm", "exit 0")
    for name in FILES[3:]:
        (own(filled) / name).write_text("precious")
    before = {name: (own(filled) / name).read_text() for name in FILES if name != "data"}
    with script(filled, "run", "9", PREMISES.device, text=text, stdin=subprocess.DEVNULL) as run:
        out, _ = run.communicate(timeout=30)
    assert out == b"trouble=not-writable\n"
    assert {name: (own(filled) / name).read_text() for name in before} == before


def test_a_directory_whose_files_others_may_enter_by_default_is_refused(tmp_path: Path) -> None:
    """A default access list (acl(5)) counts in the place of the umask; to take rights away is a race."""
    entries = [(1, 7, 2**32 - 1), (2, 7, NOBODY), (4, 7, 2**32 - 1), (16, 7, 2**32 - 1), (32, 7, 2**32 - 1)]
    os.setxattr(
        tmp_path,
        "system.posix_acl_default",
        struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries),
    )
    caught = trouble(lambda: session(tmp_path).fill(SIZE))
    assert caught.why is Why.NOT_WRITABLE
    assert "setfacl -k" in str(caught.facts["detail"])
    assert list(own(tmp_path).iterdir()) == []
    assert own(tmp_path).stat().st_mode & 0o777 == 0o777, "as mkdir made it"
    try_look(tmp_path)
    assert list(tmp_path.iterdir()) == [], "it is swept"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("what", ["touch -d @1000000000", "chmod 710"])
def test_an_empty_directory_of_roots_that_is_older_or_open_to_others_is_not_taken_for_a_new_one(
    tmp_path: Path, shell: str, what: str
) -> None:
    """It was put in the place of the one that was made."""
    text = f'mkdir() {{ command mkdir "$1" && {what} "$1"; }}\n{SCRIPT}'
    argv = [*SHELLS[shell], "-c", text, "plimsoll-probe", "fill", str(tmp_path), "a", str(SIZE), "9"]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert said.stdout == "trouble=not-writable\n"
    assert list(own(tmp_path).iterdir()) == []


def test_a_directory_behind_a_link_is_refused_with_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for written in ("link", "link/deep"):
        caught = trouble(lambda written=written: session(tmp_path / written).fill(SIZE))  # type: ignore[misc]
        assert caught.why is Why.NOT_WRITABLE
        assert str(tmp_path / written.replace("link", "real")) in str(caught.facts["detail"])
    assert snapshot(tmp_path / "real") == {"deep": ""}


@pytest.mark.parametrize("path", ["", ".", None])
def test_no_program_of_the_directory_is_run(tmp_path: Path, path: str | None) -> None:
    for name in ("cat", "dd", "df", "fio", "gzip", "ls", "mkdir", "readlink", "rm", "timeout", "tr", "wc"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} >>{tmp_path}/was-run\n")
        (tmp_path / name).chmod(0o755)
    environment = {} if path is None else {"PATH": path}
    text = "[read]\nrw=randread\nfilename=data\nsize=64k\ndirect=1\nthread=1\n"
    (tmp_path / "given").write_text(text)
    for verb, *words in (
        ("look",),
        ("fill", str(2**20), "9"),
        ("run", "9", PREMISES.device),
        ("piece", "0"),
        ("clean",),
    ):
        with (tmp_path / "given").open() as given:
            process = script(tmp_path, verb, *words, env=environment, stdin=given, cwd=tmp_path)
            out, _ = process.communicate(timeout=30)
            assert process.returncode == 0
    assert out == b"clean=yes\n"
    assert not (tmp_path / "was-run").exists()


class Lying:
    """A file system in user space that nothing can be believed of: it says yes to all that it is asked."""

    def __init__(self, at: Path) -> None:
        self._device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self._device},rootmode=40755,user_id=0,group_id=0,allow_other"
        subprocess.run(
            ["mount", "-i", "-t", "fuse.lying", "-o", options, "/dev/vda1", at], check=True, pass_fds=[self._device]
        )
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        attributes = struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40700, 2, 0, 0, 0, 512, 0)
        answers = {
            26: struct.pack("<4I2HI2H8I", 7, 31, 0, 0, 1, 1, 4096, 1, 0, *[0] * 8),  # INIT
            3: struct.pack("<QII", 1, 0, 0) + attributes,  # GETATTR
            27: struct.pack("<QII", 0, 0, 0),  # OPENDIR
        }
        with suppress(OSError):
            while True:
                _, operation, unique = struct.unpack_from("<IIQ", os.read(self._device, 2**17))
                body = answers.get(operation)
                error = 0 if body is not None else -38  # ENOSYS
                os.write(self._device, struct.pack("<IiQ", 16 + len(body or b""), error, unique) + (body or b""))

    def close(self) -> None:
        os.close(self._device)


@as_root
@pytest.mark.parametrize("verb", ["look", "fill", "run", "clean"])
def test_a_file_system_that_a_user_mounted_is_not_written_on(tmp_path: Path, verb: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    lying = Lying(place)
    try:
        process = script(place, verb, "9", "9", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        out, words = process.communicate(timeout=30)
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        lying.close()
    assert out == b"trouble=not-writable\n"
    assert b"fuse" in words


@as_root
@pytest.mark.parametrize("kind", ["disk", "small"])
@pytest.mark.parametrize("shell", SHELLS)
def test_an_owner_who_races_with_the_steps_gets_nothing_of_roots(shell: str, kind: str) -> None:
    tries = depth.count(quick=2, landing=8, soak=200)
    with TemporaryDirectory(dir="/var/tmp") as made:  # pytest's own is closed to the owner
        Path(made).chmod(0o755)
        text = Path(made, "script")
        text.write_text(SCRIPT)
        sprung, rounds = 0, 0
        while sprung == 0:  # a busy machine may give the owner no turn in a few tries, which would prove nothing
            assert rounds < 20, "no trap was sprung"
            rounds += 1
            attacked = attack(text, Path(made, f"base{rounds}"), tries, SHELLS[shell], kind=kind)
            assert attacked.lost == []
            assert (attacked.tries, attacked.won, attacked.hung) == (tries, 0, 0)
            sprung = attacked.sprung


def try_look(directory: Path, shell: str = "dash") -> None:
    """It sweeps also where there is no disk to be told."""
    with suppress(Trouble):
        session(directory, "new", shell).look(0)
