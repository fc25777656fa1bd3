"""The steps of a probe in one directory of a guest: look, fill the file, run jobs, remove everything."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from signal import SIGKILL

from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.guest.fio import TEXT_MAX, best_engine, job_file, nonsense, one_line, parse
from plimsoll_probes.guest.shell import Ran, Shell
from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.model.job import Job
from plimsoll_probes.model.result import Measured

SCRIPT = files("plimsoll_probes.guest.jobs").joinpath("session.sh").read_text(encoding="utf-8")
"""The same text for all guests: what differs is in its arguments."""

KILL = 8
"""Seconds beyond a run's own: to kill fio, compress its result, and answer."""
PIECE = 2**18
COMPRESSED_MAX = 2**20
# Bytes a second, as with a limit of 250 requests of 16 KiB. A slower disk ends the fill with FILL_UNFINISHED.
FILL_SLOWEST = 4 * 2**20

_WORDS_MAX = 2**16
_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_KEY = re.compile(r"[a-z_]{1,20}")
_CPUS = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?){0,255}", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9!_.+-]{1,64}")
_SERIAL = re.compile(r"[!-~ ]{0,128}")
# These have microseconds in place of nanoseconds, and up to 2.2.11 no JSON+ at all.
_TOO_OLD = re.compile(r"fio-[012]\.")
# timeout(1)'s exit statuses after it ended a program, or was killed with it.
_TIMED_OUT = (124, 137)
_WITHOUT_FIO = ("look", "piece")


@frozen(kw_only=True)
class Premises:
    """What a guest reports about itself before a probe; none of it is verified."""

    directory: str
    """As the session was given it."""
    engines: tuple[str, ...]
    cpus: str | None
    """Those that a program may run on, as "0-3"; None where unknown."""
    device: str
    """The whole disk that the directory is on: "vda"."""
    serial: str
    """The disk's, of which a virtio disk has the first 20 characters; may be empty."""
    size: int
    """The disk's, in bytes."""
    filesystem: str
    free: int
    """Bytes on that file system."""


@frozen(kw_only=True)
class Session:
    """The steps of one probe in a guest, all of them in ``directory/.plimsoll-probe-name``.

    ``grace`` is how many seconds requests may take to end once a job's time is over, ``keep_free`` how many bytes
    stay free beside the file. Every step raises ``Trouble``.
    """

    shell: Shell
    directory: str
    name: str
    grace: int
    keep_free: int

    def __post_init__(self) -> None:
        if not self.directory.startswith("/"):
            raise ValueError(f"a directory in a guest begins with a slash: {self.directory!r}")
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"a session cannot be named {self.name!r}")

    def look(self, file_size: int) -> Premises:
        """Remove what earlier sessions left; returns what the guest has. ``Trouble`` where it lacks something."""
        answers, ran = self._ask("look", seconds=self.grace)
        if ran.status == 0 and not answers:  # seen of the agents of QEMU 10 and 11, after a request of another client
            raise nonsense("the agent loses the output of programs; restart it")
        missing = answers.get("missing", ())
        if "fio" in missing:
            raise Trouble(Why.NO_FIO)
        if missing:
            raise Trouble(Why.NOT_SUPPORTED, detail=one_line(f"no {', no '.join(missing)}"))
        filesystem = _one(answers, "filesystem", _WORD)
        if not answers.get("device", ("",))[0]:
            raise Trouble(Why.NO_DISK, directory=self.directory, device=filesystem)
        free = _number(answers, "free") * 1024
        need = file_size + self.keep_free
        if free < need:
            raise Trouble(Why.NO_SPACE, directory=self.directory, free=free, needed=need)
        engines = _one(answers, "engines", None).split()
        if not all(_WORD.fullmatch(engine) for engine in engines):
            raise nonsense("not a list of engines")
        return Premises(
            directory=self.directory,
            engines=tuple(engines),
            cpus=_both(answers),
            device=_one(answers, "device", _WORD),
            serial=_one(answers, "serial", _SERIAL).strip(),
            size=_number(answers, "sectors") * 512,
            filesystem=filesystem,
            free=free,
        )

    def fill(self, file_size: int, tell: Callable[[], None] = lambda: None) -> None:
        """Make the directory, and write the whole file, so that no run allocates space."""
        seconds = longest_fill(file_size, self.grace) - KILL
        answers, ran = self._ask("fill", str(file_size), str(seconds), seconds=seconds + KILL, tell=tell)
        if _is_stopped(answers, ran):
            raise Trouble(Why.FILL_UNFINISHED, seconds=seconds)
        for version in answers.get("fio", ()):
            if _TOO_OLD.match(version):
                raise Trouble(Why.NOT_SUPPORTED, detail=one_line(version))
        _fio_ended_well(answers, ran)

    def run(self, job: Job, premises: Premises, tell: Callable[[], None] = lambda: None) -> tuple[Measured, bool]:
        """The job's result, and whether the guest's file systems were frozen during the run.

        ``UNFINISHED`` has as facts what the guest's kernel counted on the disk: requests that ended and those that
        did not, and whether the file systems were frozen.
        """
        engine = best_engine(premises.engines, job.io_depth)
        text = job_file(job, "data", premises.cpus, engine)
        seconds = job.seconds + self.grace
        answers, ran = self._ask(
            "run",
            str(seconds),
            premises.device,
            seconds=seconds + KILL,
            lasts=job.seconds,
            stdin=text.encode(),
            tell=tell,
        )
        if _is_stopped(answers, ran):
            # Unknown where the script was ended before it could count.
            completions, in_flight = _disk_requests(answers) if "disk_after" in answers else (None, None)
            raise Trouble(Why.UNFINISHED, seconds=seconds, done=completions, unfinished=in_flight, frozen=ran.frozen)
        _fio_ended_well(answers, ran)
        size = _number(answers, "bytes")
        if not 0 < size <= COMPRESSED_MAX:
            raise nonsense(f"a result of {size} bytes")
        result, frozen = self._result(size)
        return parse(unpack(result), job, engine=engine, cpu_busy=_busy(answers)), ran.frozen or frozen

    def _result(self, size: int) -> tuple[bytes, bool]:
        result, frozen = b"", False
        for number in range(-(-size // PIECE)):
            ran = self._script("piece", str(number), seconds=self.grace)
            if ran.status:
                raise _loss()
            result, frozen = result + ran.out, frozen or ran.frozen
            if len(result) != min((number + 1) * PIECE, size):
                raise nonsense(f"{len(result)} bytes of a result of {size}")
        return result, frozen

    def clean(self) -> bool:
        """End what still runs and remove everything; returns whether nothing is left.

        On a stalled disk files remain. They are removed when the disk works again, or by the next session.
        """
        try:
            answers, _ = self._ask("clean", seconds=self.grace)
        except Trouble:
            return False
        return answers.get("clean") == ("yes",)

    def _ask(
        self,
        verb: str,
        *words: str,
        seconds: float,
        lasts: float = 0,
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> tuple[Mapping[str, Sequence[str]], Ran]:
        """The script's output as a list of values for each key."""
        ran = self._script(verb, *words, seconds=seconds, lasts=lasts, stdin=stdin, tell=tell)
        if ran.status not in (0, *_TIMED_OUT) and ran.signal is None:
            raise nonsense(f"the script ended with {ran.status}: {_text(ran.err)}")
        lines: dict[str, list[str]] = {}
        for line in _text(ran.out).splitlines():
            key, equals, value = line.partition("=")
            if not equals or not _KEY.fullmatch(key):
                raise nonsense(f"the line {line}")
            lines.setdefault(key, []).append(value)
        answers = {key: tuple(values) for key, values in lines.items()}
        match answers.get("trouble", ()):
            case ("not-writable",):
                raise Trouble(Why.NOT_WRITABLE, directory=self.directory, detail=one_line(_text(ran.err)))
            case ("gone",):
                raise _loss()
        return answers, ran

    def _script(
        self,
        verb: str,
        *words: str,
        seconds: float,
        lasts: float = 0,
        stdin: bytes = b"",
        tell: Callable[[], None] = lambda: None,
    ) -> Ran:
        argv = ["sh", "-c", SCRIPT, "plimsoll-probe", verb, self.directory, self.name, *words]
        slow = Trouble(Why.AGENT_TIMED_OUT, detail=f"to {verb} in {self.directory} took more than {seconds:g} s")
        try:
            ran = self.shell.run(argv, seconds=seconds, lasts=lasts, stdin=stdin, tell=tell)
        except Trouble as trouble:
            # The script itself hung, although it has a deadline for fio: nothing was counted.
            match trouble.why, verb:
                case Why.UNFINISHED, "run":
                    raise Trouble(Why.UNFINISHED, seconds=seconds, done=None, unfinished=None) from trouble
                case Why.UNFINISHED, "fill":
                    raise Trouble(Why.FILL_UNFINISHED, seconds=seconds) from trouble
                case Why.UNFINISHED, _:
                    raise slow from trouble
            raise
        if ran.signal not in (None, SIGKILL):
            raise nonsense(f"the script was ended by signal {ran.signal}")
        if ran.status and ran.status not in _TIMED_OUT and ran.err.startswith(b"timeout: "):  # such as no -k in it
            raise Trouble(Why.NOT_SUPPORTED, detail=one_line(_text(ran.err).splitlines()[0]))
        if verb in _WITHOUT_FIO and _ended_by_timeout(ran):  # what it has said so far is not the whole
            raise slow
        return ran


def longest_fill(file_size: int, grace: int) -> int:
    """Seconds after which ``Session.fill`` has certainly ended."""
    return grace + file_size // FILL_SLOWEST + KILL


def unpack(data: bytes) -> str:
    """The text of one gzip member. Raises ``Trouble`` where it is not one, or its text exceeds ``TEXT_MAX`` bytes."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        # Bounded whatever size the header states.
        text = inflate.decompress(data, TEXT_MAX)
        if not inflate.eof or inflate.unused_data:
            raise nonsense("a compressed result that is cut off, or too large")
        return text.decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise nonsense(f"a compressed result: {error}") from error


def _loss() -> Trouble:
    return Trouble(Why.FIO_FAILED, detail="its directory was removed during the probe")


def _text(raw: bytes) -> str:
    if len(raw) > _WORDS_MAX:
        raise nonsense(f"{len(raw)} bytes instead of a few lines")
    return raw.decode(errors="replace")


def _is_stopped(answers: Mapping[str, Sequence[str]], ran: Ran) -> bool:
    return answers.get("stopped") == ("yes",) or _ended_by_timeout(ran)


def _ended_by_timeout(ran: Ran) -> bool:
    return ran.status in _TIMED_OUT or ran.signal == SIGKILL


def _fio_ended_well(answers: Mapping[str, Sequence[str]], ran: Ran) -> None:
    status = _number(answers, "exit")
    if status:
        raise Trouble(Why.FIO_FAILED, detail=one_line(_text(ran.err)) or f"exit status {status}")


def _one(answers: Mapping[str, Sequence[str]], key: str, pattern: re.Pattern[str] | None) -> str:
    values = answers.get(key, ())
    if len(values) != 1:
        raise nonsense(f"{len(values)} answers to {key}")
    if pattern is not None and not pattern.fullmatch(values[0]):
        raise nonsense(f"{key} {values[0]}")
    return values[0]


def _number(answers: Mapping[str, Sequence[str]], key: str) -> int:
    return int(_one(answers, key, _NUMBER))


def _numbers(answers: Mapping[str, Sequence[str]], key: str, least: int) -> list[int]:
    words = _one(answers, key, None).split()
    if not least <= len(words) <= 20 or not all(_NUMBER.fullmatch(word) for word in words):
        raise nonsense(f"{key} {' '.join(words)}")
    return [int(word) for word in words]


def _disk_requests(answers: Mapping[str, Sequence[str]]) -> tuple[int, int]:
    """Requests of the disk that ended during the run, and those in flight at the end."""
    reads, writes, _ = _numbers(answers, "disk_before", 3)[:3]
    reads_after, writes_after, in_flight = _numbers(answers, "disk_after", 3)[:3]
    completions = reads_after - reads + writes_after - writes
    if completions < 0:
        raise nonsense("counters of the disk that went down")
    return completions, in_flight


def _busy(answers: Mapping[str, Sequence[str]]) -> float | None:
    """proc(5): user nice system idle iowait irq softirq steal; user and nice include the fields after these."""
    before, after = _numbers(answers, "cpu_before", 5)[:8], _numbers(answers, "cpu_after", 5)[:8]
    ticks = [later - earlier for earlier, later in zip(before, after, strict=False)]
    if sum(ticks) <= 0:
        return None
    # The kernel's iowait may decrease.
    return min(max(1 - (ticks[3] + ticks[4]) / sum(ticks), 0.0), 1.0)


def _both(answers: Mapping[str, Sequence[str]]) -> str | None:
    """CPUs that are online and allowed: a container may use fewer than the machine has.

    None if one of them has a higher number than there are CPUs online, as without the second thread of each core: fio
    before 3.33 refuses such a CPU (https://github.com/axboe/fio/commit/40f61ec7).
    """
    if "online" not in answers or "allowed" not in answers:
        return None
    online = _cpus(_one(answers, "online", _CPUS))
    both = online & _cpus(_one(answers, "allowed", _CPUS))
    return _ranges(sorted(both)) if both and max(both) < len(online) else None


def _cpus(text: str) -> set[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _ranges(cpus: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
