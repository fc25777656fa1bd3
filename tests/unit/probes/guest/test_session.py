"""A session with a guest that answers well, badly, or out of malice."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from plimsoll_probes.guest.fio import TEXT_MAX
from plimsoll_probes.guest.session import (
    COMPRESSED_MAX,
    KILL,
    PIECE,
    SCRIPT,
    Premises,
    Session,
    longest_fill,
    unpack,
)
from plimsoll_probes.guest.shell import Ran
from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.model.job import Job, JobName
from tests import golden

RESULT = (Path(__file__).parents[2] / "data" / "fio-osd-stopped.json").read_bytes()
LOOK = {
    "engines": "cpuio psync io_uring libaio ",
    "online": "0-3",
    "allowed": "0-1,3-7",
    "free": str(2**21),
    "filesystem": "ext4",
    "device": "vdb",
    "sectors": "8388608",
    "serial": "35fbbb67-05b7-4f7a-9",
}
RUN = {
    "cpu_before": "100 0 100 1000 50 0 0 0 0 0",
    "disk_before": "1000 2000 0",
    "cpu_after": "150 0 150 1250 100 0 0 50 40 0",
    "disk_after": "1100 2020 8",
    "stopped": "no",
    "exit": "0",
}
PREMISES = Premises(
    directory="/var/tmp",
    engines=("libaio",),
    cpus="0-1",
    device="vdb",
    serial="35fbbb67",
    size=2**32,
    filesystem="ext4",
    free=2**31,
)
JOB = Job(name=JobName.MIXED, seconds=90)


def lines(said: dict[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in said.items()).encode()


def said(out: dict[str, str] | bytes, **other: object) -> Ran:
    return Ran(
        **{"status": 0, "signal": None, "out": out if isinstance(out, bytes) else lines(out), "err": b""} | other
    )


@dataclass
class FakeShell:
    """Answers each verb as it was told to, an exception by raising it, and keeps what was asked."""

    answers: dict[str, Ran | Trouble | Callable[[Sequence[str]], Ran]]
    asked: list[list[str]] = field(default_factory=list)
    given: list[tuple[float, bytes]] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        *,
        seconds: float,
        lasts: float = 0,
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> Ran:
        self.asked.append(list(argv[4:]))
        self.given.append((seconds, stdin))
        assert argv[:4] == ["sh", "-c", SCRIPT, "plimsoll-probe"], "constant text, the rest as words of their own"
        answer = self.answers[argv[4]]
        if isinstance(answer, Trouble):
            raise answer
        tell()
        return answer if isinstance(answer, Ran) else answer(argv)


def pieces(compressed: bytes) -> Callable[[Sequence[str]], Ran]:
    return lambda argv: said(compressed[int(argv[-1]) * PIECE :][:PIECE])


def running(run: dict[str, str] | Ran | Trouble = RUN, compressed: bytes = gzip.compress(RESULT)) -> FakeShell:
    if isinstance(run, dict):
        run = said({"bytes": str(len(compressed))} | run)
    return FakeShell({"run": run, "piece": pieces(compressed)})


def session(shell: FakeShell, directory: str = "/var/tmp") -> Session:
    return Session(shell=shell, directory=directory, name="9f3a", grace=60, keep_free=2**29)


def trouble(of: Callable[[], object]) -> Trouble:
    with pytest.raises(Trouble) as caught:
        of()
    return caught.value


# --- looking


def look(_: str, text: str) -> str:
    """``null`` leaves a word out."""
    words = {key: word for key, word in (LOOK | json.loads(text)).items() if word is not None}
    try:
        return repr(session(FakeShell({"look": said(words)})).look(2**30))
    except Trouble as caught:
        answer = f"{caught.why}: {dict(caught.facts)}"
    assert len(answer) <= 400
    assert answer.isprintable()
    return answer


def test_each_answer_is_what_the_golden_file_has() -> None:
    golden.transcript("guest_looks.txt", look)


def test_a_quote_in_a_directory_is_a_word_and_not_shell() -> None:
    shell = FakeShell({"look": said(LOOK)})
    session(shell, "/tmp/a'; reboot #").look(2**30)
    assert shell.asked == [["look", "/tmp/a'; reboot #", "9f3a"]]


@pytest.mark.parametrize(("directory", "name"), [("tmp", "a"), ("/tmp", "../a"), ("/tmp", ""), ("/tmp", "a b")])
def test_a_session_lies_in_its_directory(directory: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"session|directory"):
        Session(shell=FakeShell({}), directory=directory, name=name, grace=60, keep_free=0)


def test_an_agent_that_loses_output_is_told_so() -> None:
    """With exit code 0, as those of QEMU 10 and 11 do from some moment on."""
    detail = trouble(lambda: session(FakeShell({"look": said(b"")})).look(1)).facts["detail"]
    assert detail == "the agent loses the output of programs; restart it"


@pytest.mark.parametrize("ended", [{"status": 124}, {"status": 137}, {"status": None, "signal": 9}])
@pytest.mark.parametrize(
    ("verb", "part"), [("look", b"engines=psync libaio \n"), ("look", b""), ("piece", b""), ("piece", b"half")]
)
def test_a_guest_too_slow_for_a_step_is_told_so_whatever_it_had_said(
    verb: str, part: bytes, ended: dict[str, object]
) -> None:
    """As one on a busy host is: its answers are cut off, not implausible, and its directory is not gone."""
    shell = running()
    shell.answers |= {"look": said(LOOK), verb: said(part, **ended)}
    slow = session(shell)
    caught = trouble(lambda: slow.run(JOB, slow.look(2**30)))
    assert (caught.why, caught.facts) == (
        Why.AGENT_TIMED_OUT,
        {"detail": f"to {verb} in /var/tmp took more than 60 s"},
    )


@pytest.mark.parametrize(
    "answer",
    [
        said(b"no key\n"),
        said(b"Free=1\n"),
        said(b"=1\n"),
        said(b"\xff" * 100),
        said(b"a=1\n" * 2**20),
        said(LOOK, status=127, err=b"sh: syntax error"),
        said(LOOK, status=2),
        said(LOOK, status=None, signal=15),  # not timeout's: the guest was not too slow
    ],
)
def test_an_answer_that_is_not_the_scripts_is_nonsense(answer: Ran) -> None:
    caught = trouble(lambda: session(FakeShell({"look": answer})).look(2**30))
    assert caught.why is Why.NONSENSE
    assert len(str(caught.facts["detail"])) <= 300


# --- filling


def test_the_file_has_the_size_that_was_asked_for_and_the_script_its_deadline() -> None:
    shell = FakeShell({"fill": said({"stopped": "no", "exit": "0"})})
    told: list[None] = []
    session(shell).fill(2**30, lambda: told.append(None))
    longest = longest_fill(2**30, 60)
    assert shell.asked == [["fill", "/var/tmp", "9f3a", str(2**30), str(longest - KILL)]]
    assert shell.given[0][0] == longest, "the script ends by itself before it is ended"
    assert told


def test_a_limit_of_250_requests_leaves_time_to_fill() -> None:
    assert longest_fill(2**30, grace=5) > 2**30 / (250 * 16384)


@pytest.mark.parametrize(
    "answer", [said({"stopped": "yes", "exit": "137"}), said(b"", status=124), Trouble(Why.UNFINISHED, seconds=580)]
)
def test_a_file_that_is_not_filled_in_time_is_told(answer: Ran | Trouble) -> None:
    caught = trouble(lambda: session(FakeShell({"fill": answer})).fill(2**30))
    assert caught.why is Why.FILL_UNFINISHED
    assert set(caught.facts) == {"seconds"}


def test_a_directory_that_cannot_be_written_is_told_with_the_guests_reason() -> None:
    answer = said({"trouble": "not-writable"}, err=b"mkdir: cannot create: Read-only file system\n")
    caught = trouble(lambda: session(FakeShell({"fill": answer})).fill(2**30))
    assert caught.why is Why.NOT_WRITABLE
    assert caught.facts == {"directory": "/var/tmp", "detail": "mkdir: cannot create: Read-only file system"}


def test_a_fill_that_fails_is_told_with_fios_words() -> None:
    answer = said({"stopped": "no", "exit": "1"}, err=b"fio: No space left on device\n")
    caught = trouble(lambda: session(FakeShell({"fill": answer})).fill(2**30))
    assert (caught.why, caught.facts) == (Why.FIO_FAILED, {"detail": "fio: No space left on device"})


@pytest.mark.parametrize(
    ("version", "is_old"), [("fio-2.2.10", True), ("fio-2.16", True), ("fio-3.0", False), ("fio-3.41-dirty", False)]
)
def test_a_fio_without_nanoseconds_is_told_before_any_run(version: str, is_old: bool) -> None:
    shell = FakeShell({"fill": said({"stopped": "no", "exit": "0", "fio": version})})
    if not is_old:
        session(shell).fill(2**30)
        return
    caught = trouble(lambda: session(shell).fill(2**30))
    assert (caught.why, caught.facts) == (Why.NOT_SUPPORTED, {"detail": version})


@pytest.mark.parametrize(
    "words", [b"timeout: unrecognized option: k\nBusyBox v1.31.1 () multi-call binary.\n", b"timeout: invalid\n"]
)
def test_a_timeout_that_cannot_kill_is_what_the_guest_lacks(words: bytes) -> None:
    caught = trouble(lambda: session(FakeShell({"look": said(b"", status=1, err=words)})).look(2**30))
    assert (caught.why, caught.facts) == (Why.NOT_SUPPORTED, {"detail": words.decode().splitlines()[0]})


# --- running


def test_a_run_is_measured_and_its_job_file_fits_the_guest() -> None:
    shell = running()
    measured, frozen = session(shell).run(JOB, PREMISES)
    assert (measured.operations, measured.seconds, measured.engine, frozen) == (54693, 90.179, "libaio", False)
    assert shell.asked[0] == ["run", "/var/tmp", "9f3a", "150", "vdb"], "its time and the grace"
    seconds, job_file = shell.given[0]
    assert seconds == 150 + KILL
    assert b"\nfilename=data\n" in job_file
    assert b"\ncpus_allowed=0-1\n" in job_file
    assert b"\nruntime=90\n" in job_file


def test_how_busy_the_guest_was_is_what_was_neither_idle_nor_waiting_for_disks() -> None:
    measured, _ = session(running()).run(JOB, PREMISES)
    # 250 idle and 50 of waiting, of 450: steal is time that it desired, and guest is in user already.
    assert measured.cpu_busy == pytest.approx(1 - 300 / 450)


@pytest.mark.parametrize(
    ("before", "after", "busy"),
    [
        ("1 0 0 100 9", "1 0 0 100 9", None),
        ("0 0 0 100 9", "50 0 0 100 0", 1.0),  # the kernel's iowait goes back at times
        ("100 0 0 0 0", "50 0 0 100 0", 0.0),
    ],
)
def test_clocks_of_a_guest_that_stand_still_or_go_back_are_no_share(
    before: str, after: str, busy: float | None
) -> None:
    measured, _ = session(running(RUN | {"cpu_before": before, "cpu_after": after})).run(JOB, PREMISES)
    assert measured.cpu_busy == busy


@pytest.mark.parametrize("where", ["run", "piece"])
def test_a_freeze_at_any_time_reaches_the_caller(where: str) -> None:
    compressed = gzip.compress(RESULT)
    answers = {"run": said(RUN | {"bytes": str(len(compressed))}), "piece": said(compressed)}
    answers[where] = Ran(status=0, signal=None, out=answers[where].out, err=b"", frozen=True)
    _, frozen = session(FakeShell({**answers})).run(JOB, PREMISES)
    assert frozen


def test_a_run_that_was_stopped_tells_what_the_kernel_counted() -> None:
    answer = said(RUN | {"stopped": "yes", "exit": "137"}, frozen=True)
    caught = trouble(lambda: session(running(answer)).run(JOB, PREMISES))
    assert caught.why is Why.UNFINISHED
    assert caught.facts == {"seconds": 150, "done": 120, "unfinished": 8, "frozen": True}


@pytest.mark.parametrize("answer", [Trouble(Why.UNFINISHED, seconds=158), said(b"", status=137)])
def test_a_script_that_hung_itself_counted_nothing_and_nothing_is_not_zero(answer: Ran | Trouble) -> None:
    caught = trouble(lambda: session(running(answer)).run(JOB, PREMISES))
    assert caught.why is Why.UNFINISHED
    assert (caught.facts["done"], caught.facts["unfinished"]) == (None, None)


def test_a_look_that_hangs_is_no_run_that_did_not_end() -> None:
    shell = FakeShell({"look": Trouble(Why.UNFINISHED, seconds=60)})
    assert trouble(lambda: session(shell).look(2**30)).why is Why.AGENT_TIMED_OUT


def test_trouble_of_the_guest_is_passed_on_as_it_is() -> None:
    for why in (Why.NOT_FOUND, Why.REBOOTED, Why.FROZEN):
        assert trouble(lambda why=why: session(running(Trouble(why))).run(JOB, PREMISES)).why is why  # type: ignore[misc]


def test_a_run_that_fails_is_told_with_fios_words_or_its_status() -> None:
    words = trouble(lambda: session(running(said(RUN | {"exit": "1"}, err=b"fio: EIO"))).run(JOB, PREMISES))
    silent = trouble(lambda: session(running(said(RUN | {"exit": "137"}))).run(JOB, PREMISES))
    assert (words.why, words.facts) == (Why.FIO_FAILED, {"detail": "fio: EIO"})
    assert (silent.why, silent.facts) == (Why.FIO_FAILED, {"detail": "exit status 137"})


@pytest.mark.parametrize("answers", [{"run": said({"trouble": "gone"})}, {"piece": said(b"", status=3)}])
def test_a_session_that_was_swept_away_since_is_told_so(answers: dict[str, Ran]) -> None:
    shell = running()
    shell.answers.update(answers)
    caught = trouble(lambda: session(shell).run(JOB, PREMISES))
    assert (caught.why, caught.facts) == (Why.FIO_FAILED, {"detail": "its directory was removed during the probe"})


@pytest.mark.parametrize(
    "changed",
    [
        {"bytes": "0"},
        {"bytes": str(COMPRESSED_MAX + 1)},
        {"bytes": "many"},
        {"exit": "-1"},
        {"cpu_after": "1 2 3"},
        {"cpu_after": "1 " * 21},
        {"cpu_after": "a b c d e"},
        {"stopped": "yes", "disk_after": "1000 1999 0"},
        {"stopped": "yes", "disk_after": ""},
    ],
)
def test_a_run_with_figures_that_are_none_is_nonsense(changed: dict[str, str]) -> None:
    assert trouble(lambda: session(running(RUN | changed)).run(JOB, PREMISES)).why is Why.NONSENSE


# --- the result's pieces


def test_a_result_of_several_pieces_is_put_together() -> None:
    # Stored and not compressed, in front of blanks that JSON does not mind.
    compressed = gzip.compress(b" " * 3 * PIECE + RESULT, compresslevel=0)
    shell = running(compressed=compressed)
    measured, _ = session(shell).run(JOB, PREMISES)
    assert measured.operations == 54693
    assert [words[-1] for words in shell.asked[1:]] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("answer", [b"", b"x", b"x" * 10**6])
def test_a_piece_of_another_length_ends_the_asking(answer: bytes) -> None:
    shell = running(RUN | {"bytes": str(COMPRESSED_MAX)})
    shell.answers["piece"] = said(answer)
    assert trouble(lambda: session(shell).run(JOB, PREMISES)).why is Why.NONSENSE
    assert len(shell.asked) == 2, "one piece was asked for, and no second"


@pytest.mark.parametrize(
    "data",
    [
        RESULT,
        gzip.compress(RESULT)[:-1],
        gzip.compress(RESULT) + b"x",
        zlib.compress(RESULT),
        gzip.compress(b"\xff\xfe"),
        gzip.compress(b" " * (TEXT_MAX + 1)),
        b"",
    ],
    # gzip writes the time into what it compresses: as a name it would differ between two collections.
    ids=["not compressed", "cut short", "more after the end", "zlib", "no UTF-8", "too long", "nothing"],
)
def test_what_is_not_one_text_compressed_is_nonsense(data: bytes) -> None:
    assert trouble(lambda: unpack(data)).why is Why.NONSENSE


def test_a_text_of_the_longest_length_is_taken() -> None:
    assert len(unpack(gzip.compress(b" " * TEXT_MAX))) == TEXT_MAX


def test_a_bomb_costs_nothing() -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(2**20)) for _ in range(64)) + packer.flush()
    assert len(bomb) < COMPRESSED_MAX, "it would come through"
    tracemalloc.start()
    try:
        assert trouble(lambda: unpack(bomb)).why is Why.NONSENSE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 2**20


def test_a_result_of_the_largest_size_that_is_all_structure_stays_small() -> None:
    text = '{"fio version": "fio-3.33", "jobs": [' + "{}," * 340_000
    compressed = gzip.compress(text.encode())
    tracemalloc.start()
    try:
        assert trouble(lambda: session(running(compressed=compressed)).run(JOB, PREMISES)).why is Why.NONSENSE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 2**20


# --- cleaning


@pytest.mark.parametrize(
    ("answer", "clean"),
    [
        (said({"clean": "yes"}), True),
        (said(b""), False),
        (said(b"", status=124), False),
        (said(b"rubbish"), False),
        (Trouble(Why.NOT_FOUND), False),
    ],
)
def test_clean_is_what_the_guest_reports_as_clean(answer: Ran | Trouble, clean: bool) -> None:
    assert session(FakeShell({"clean": answer})).clean() is clean


def test_the_script_fits_what_an_agent_takes_in_one_request() -> None:
    words = ["timeout", "sh", "-c", SCRIPT, "plimsoll-probe", "fill", "/d" * 2000, "n" * 64]
    assert len(json.dumps(words)) < 40_000, "of more some agents lose a part"


def test_a_guest_that_repeats_one_line_takes_no_time_by_the_square_of_it() -> None:
    shell = FakeShell({"look": said(b"a=\n" * 20_000)})
    session = Session(shell=shell, directory="/var/tmp", name="s", grace=10, keep_free=0)
    begun = time.thread_time()
    with pytest.raises(Trouble):
        session.look(2**20)
    assert time.thread_time() - begun < 0.5


@pytest.mark.parametrize(("online", "cpus"), [("0-3", "0-1,3"), ("0,2,4,6", None)])
def test_cpus_above_the_number_of_those_online_are_left_to_the_guests_scheduler(
    online: str, cpus: str | None
) -> None:
    """Without the second thread of each core: fio before 3.33 ends with "CPU 4 too large (max=3)"."""
    shell = FakeShell({"look": said(LOOK | {"online": online})})
    assert session(shell).look(2**20).cpus == cpus
