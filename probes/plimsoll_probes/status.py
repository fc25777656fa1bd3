"""``plimsoll status``: how this node is, from what passes and probes left on it, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from plimsoll_agent import spans
from plimsoll_agent.catalogue_words import number
from plimsoll_agent.health import Figure, Finding, Judgement, figures_of_pass, judge, words
from plimsoll_agent.lastpass import Grade, LastDisk, LastPass
from plimsoll_agent.measures import Level, Thresholds
from plimsoll_agent.outcome import Kind
from plimsoll_agent.reason import Reason
from plimsoll_agent.report import ago, note_words, printable, short_size
from plimsoll_agent.report import words as reason_words
from plimsoll_probes.chosen import ChosenTarget
from plimsoll_probes.finding import Verdict
from plimsoll_probes.health import counts, figures_of_probes
from plimsoll_probes.history import History
from plimsoll_probes.result import Postponed, ProbeResult
from plimsoll_probes.views import time_data

FORMAT_VERSION = 1
NONE = "-"


@dataclass(frozen=True, slots=True)
class Probes:
    """What there is of probes; ``results`` are the newest of each guest, directory and job that still count."""

    chosen: Sequence[ChosenTarget]
    results: Sequence[ProbeResult]
    postponed: Sequence[Postponed]
    """Those that were not begun since."""
    figures: Sequence[Figure]

    @classmethod
    def of(cls, history: History, now: datetime) -> Probes:
        """Raises ``StateError``."""
        chosen, latest, postponed = history.chosen_targets(), history.latest(), history.postponed()
        begun = history.last_begun(now)
        return cls(
            chosen,
            [each for each in latest if counts(each, chosen, now)],
            [each for each in postponed if _waits(each, chosen, begun)],
            figures_of_probes(latest, begun, postponed, chosen, now, history.streak),
        )

    @property
    def verdicts(self) -> Counter[Verdict]:
        return Counter(each.finding.verdict for each in self.results)


def _waits(postponed: Postponed, chosen: Sequence[ChosenTarget], begun: Mapping[tuple[str, str], datetime]) -> bool:
    key = postponed.guest_uuid, postponed.directory
    return any(target.key == key for target in chosen) and (key not in begun or begun[key] < postponed.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """This node, as its files tell it. Of what could not be read (``pass``, ``probes``) there is a complaint."""

    now: datetime
    last: LastPass | None
    probes: Probes | None
    paused: Reason | None
    """As it is now, not as the last pass met it."""
    written: Mapping[Path, datetime]
    """When each of the files was written that are there."""
    thresholds: Mapping[str, Thresholds]
    complaints: Mapping[str, str] = field(default_factory=dict)

    @property
    def judgement(self) -> Judgement:
        figures = () if "pass" in self.complaints else figures_of_pass(self.last, self.now)
        return judge((*figures, *(() if self.probes is None else self.probes.figures)), self.thresholds)

    @property
    def known(self) -> bool:
        """Whether there is all that there is to judge by."""
        return self.last is not None and not self.complaints

    @property
    def level(self) -> Level:
        """What nobody knows is no reason to call a node well."""
        return max(self.judgement.level, Level.OK if self.known else Level.UNKNOWN)

    @property
    def exit_status(self) -> int:
        if not self.known:
            return 1
        return 0 if self.level is Level.OK else 3


# --- for people


def wrong_lines(status: Status) -> Iterator[tuple[Level, str]]:
    """What is wrong and what to do about it, the worst first; each once."""
    said = [(Level.UNKNOWN, complaint) for complaint in status.complaints.values()]
    said += [(finding.level, _with_advice(finding)) for finding in status.judgement.wrong]
    yield from sorted(dict.fromkeys(said), key=lambda each: -each[0])


def _with_advice(finding: Finding) -> str:
    return f"{words(finding)}; {finding.figure.do}" if finding.figure.do else words(finding)


def headline(status: Status) -> str:
    wrong = len([*wrong_lines(status)])
    if not wrong:
        return "All is well."
    return f"{number(wrong, 'thing')} {'is' if wrong == 1 else 'are'} wrong:"


def facts(status: Status) -> dict[str, str]:
    """The node line by line."""
    last = status.last
    told = {"last pass": "not known" if "pass" in status.complaints else "none yet"}
    if last is not None:
        told = _facts_of_pass(last, status)
    if status.paused is not None:
        told["paused"] = reason_words(status.paused)
    elif last is not None and last.paused is not None:
        told["paused"] = "no longer, but the last pass was"
    told["probes"] = "not known" if status.probes is None else _probes(status.probes, status.now)
    told["files"] = ", ".join(f"{path.name} {ago(at, status.now)}" for path, at in status.written.items()) or NONE
    return told


def _facts_of_pass(last: LastPass, status: Status) -> dict[str, str]:
    told = {"last pass": _last_pass(last, status.now), "last good": _last_good(last, status.now)}
    told["passes"] = _passes(last)
    remarks = [*filter(None, [printable(last.trouble.partition("\n")[0])]), *map(note_words, last.notes)]
    if remarks:
        told["remarks"] = "; ".join(remarks)
    told["sources"] = _sources(last)
    if last.catalogue is not None:
        told["catalogue"] = _catalogue(last, status.now)
    if last.looked is None:
        return told
    told["guests"] = f"{last.guests} looked at" + (f", {len(last.silent)} silent" if last.silent else "")
    told["disks"] = _disks(last.disks)
    if last.looked < last.started:
        told["disks"] += f"; as they were {ago(last.looked, status.now)}"
    told["limits"] = _limits(last)
    if last.braked_disks:
        told["brake"] = (
            f"{number(last.braked_disks, 'disk')} waiting for plimsoll approve {printable(last.braked or '')[:16]}"
        )
    if last.holds:
        told["holds"] = f"{number(last.holds, 'exception')} of operators: see plimsoll disk hold list"
    return told


def _last_pass(last: LastPass, now: datetime) -> str:
    how = {Grade.GOOD: "good", Grade.PARTIAL: "left something undone", Grade.FAILED: "FAILED"}[last.grade]
    took = f", took {sum(last.phases.values()):.1f} s" if last.phases else ""
    return f"{ago(last.ended, now)}: {how}{took}, mode {'enforce' if last.enforcing else 'observe'}"


def _last_good(last: LastPass, now: datetime) -> str:
    return "never yet" if last.last_good is None else ago(last.last_good, now)


def _passes(last: LastPass) -> str:
    counted = ", ".join(f"{last.totals.passes.get(grade, 0)} {grade.value}" for grade in Grade)
    return f"{counted} so far" + (f"; {last.busy} found the node held by another one" if last.busy else "")


def _sources(last: LastPass) -> str:
    down = [printable(name) for name, up in last.sources.items() if not up]
    well = [printable(name) for name, up in last.sources.items() if up]
    told = [f"NO good answer of {', '.join(down)}"] if down else []
    return "; ".join(told + ([f"good answers of {', '.join(well)}"] if well else []))


def _catalogue(last: LastPass, now: datetime) -> str:
    catalogue, calls = last.catalogue, last.calls
    if catalogue is None or catalogue.issued is None:
        return "none that counts"
    asked = f"; {number(calls.good, 'refresh', 'refreshes')}, {calls.failed} failed"
    return f"from {printable(catalogue.source)}, {ago(catalogue.issued, now)}{asked}"


def _disks(disks: Sequence[LastDisk]) -> str:
    kinds = Counter(disk.kind for disk in disks)
    named = ", ".join(f"{kinds[kind]} {_state(kind)}" for kind in Kind if kinds[kind])
    return f"{len(disks)}: {named}" if disks else "none"


def _state(kind: Kind) -> str:
    return kind.value.replace("-", " ")


def _limits(last: LastPass) -> str:
    told = [f"{number(sum(disk.astray for disk in last.disks), 'disk')} without one though one is wanted"]
    orphaned = sum(disk.orphaned for disk in last.disks)
    if orphaned:
        told.append(f"{orphaned} orphaned (see: plimsoll plan)")
    if last.interval is not None:
        told.append(f"{sum(disk.at_wall for disk in last.disks)} at the wall in the last {_span(last.interval)}")
    back = sum(last.totals.corrected.values())
    if back:
        told.append(f"{back} put back so far that somebody else had changed")
    return ", ".join(told)


def _span(seconds: float) -> str:
    return spans.words(timedelta(seconds=seconds))


def _probes(probes: Probes, now: datetime) -> str:
    if not probes.chosen and not probes.results:
        return "no guest of this node is chosen to be probed"
    verdicts = probes.verdicts
    named = ", ".join(f"{verdicts[each]} {each.value}" for each in Verdict if verdicts[each])
    late = next((figure.value for figure in probes.figures if figure.name == "probe_late"), None)
    told = [f"{len(probes.chosen) or 'none'} chosen"]
    told += [f"newest runs: {named}"] if named else ["none was probed yet"]
    told += [f"{late:.0f} late"] if late else []
    told += [f"{len(probes.postponed)} put off"] if probes.postponed else []
    newest = max((each.ended for each in probes.results), default=None)
    return "; ".join(told) + ("" if newest is None else f"; the last one {ago(newest, now)}")


def type_table(last: LastPass) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A row for each volume type, and a column for each state that any disk is in."""
    types = _by_type(last.disks)
    kinds = [kind for kind in Kind if any(disk.kind is kind for disk in last.disks)]
    columns = ["type", "disks", *(kind.value.replace("-", "_") for kind in kinds), "unlimited"]
    rated = last.interval is not None
    columns += ["at_wall", "iops", "bytes/s"] if rated else []
    rows = []
    for name, disks in types.items():
        row = [printable(name) or NONE, len(disks), *(sum(disk.kind is kind for disk in disks) for kind in kinds)]
        row.append(sum(disk.astray for disk in disks))
        if rated:
            rates = [disk.rates for disk in disks if disk.rates is not None]
            done = sum(each.read_iops + each.write_iops for each in rates)
            moved = sum(each.read_bytes + each.write_bytes for each in rates)
            wall = sum(disk.at_wall for disk in disks)
            row += [wall, f"{done:.0f}", short_size(round(moved))] if rates else [NONE] * 3
        rows.append(tuple(map(str, row)))
    return tuple(columns), rows


def _by_type(disks: Sequence[LastDisk]) -> dict[str, list[LastDisk]]:
    types: dict[str, list[LastDisk]] = {name: [] for name in sorted({disk.volume_type or "" for disk in disks})}
    for disk in disks:
        types[disk.volume_type or ""].append(disk)
    return types


# --- for programs


def data(status: Status) -> dict[str, object]:
    """Keys are stable; times are in UTC, spans in seconds, and what is not known is null."""
    last = status.last
    return {
        "version": FORMAT_VERSION,
        "level": status.level.name.lower(),
        "complaints": list(status.complaints.values()),
        "findings": [_finding_data(finding) for finding in status.judgement.findings],
        "pass": None if last is None else _pass_data(last),
        "sources": None if last is None else dict(last.sources),
        "catalogue": None if last is None or last.catalogue is None else _catalogue_data(last),
        "guests": None if last is None or last.looked is None else _guests_data(last),
        "disks": None if last is None or last.looked is None else _disks_data(last),
        "paused": None if status.paused is None else status.paused.as_record(),
        "braked": None
        if last is None or last.braked is None
        else {"edition": last.braked, "disks": last.braked_disks},
        "holds": None if last is None or last.looked is None else last.holds,
        "probes": None if status.probes is None else _probes_data(status.probes),
        "files": {str(path): time_data(at) for path, at in status.written.items()},
    }


def _finding_data(finding: Finding) -> dict[str, object]:
    figure, ranges = finding.figure, finding.thresholds
    return {
        "name": figure.name,
        "value": figure.value,
        "level": finding.level.name.lower(),
        "warning": ranges.warning or None,
        "critical": ranges.critical or None,
        "about": figure.about,
        "do": figure.do,
    }


def _pass_data(last: LastPass) -> dict[str, object]:
    return {
        "plimsoll": last.version,
        "started": time_data(last.started),
        "ended": time_data(last.ended),
        "result": last.grade.value,
        "enforcing": last.enforcing,
        "trouble": last.trouble or None,
        "notes": [note.as_record() for note in last.notes],
        "looked": last.looked and time_data(last.looked),
        "last_good": last.last_good and time_data(last.last_good),
        "seconds": dict(last.phases),
        "interval": last.interval,
        "so_far": {grade.value: last.totals.passes.get(grade, 0) for grade in Grade},
        "lock_busy": last.busy,
    }


def _catalogue_data(last: LastPass) -> dict[str, object]:
    catalogue = last.catalogue
    issued = None if catalogue is None else catalogue.issued
    return {
        "issued": issued and time_data(issued),
        "source": None if catalogue is None else catalogue.source or None,
        "refreshes": {"good": last.calls.good, "failed": last.calls.failed},
        "calls": dict(last.calls.of_service),
    }


def _guests_data(last: LastPass) -> dict[str, object]:
    return {
        "looked_at": last.guests,
        "silent": [
            {"guest": each.guest.name, "guest_uuid": each.guest.uuid, "reason": each.reason.as_record()}
            for each in last.silent
        ],
    }


def _disks_data(last: LastPass) -> dict[str, object]:
    return _sums(last.disks, last) | {
        "corrected": sum(last.totals.corrected.values()),
        "by_type": [
            {"volume_type": name or None} | _sums(disks, last) for name, disks in _by_type(last.disks).items()
        ],
    }


def _sums(disks: Sequence[LastDisk], last: LastPass) -> dict[str, object]:
    return {
        "disks": len(disks),
        "states": {kind.value: sum(disk.kind is kind for disk in disks) for kind in Kind},
        "unlimited": sum(disk.astray for disk in disks),
        "at_wall": None if last.interval is None else sum(disk.at_wall for disk in disks),
    }


def _probes_data(probes: Probes) -> dict[str, object]:
    newest = max((each.ended for each in probes.results), default=None)
    return {
        "chosen": len(probes.chosen),
        "newest_runs": {verdict.value: probes.verdicts[verdict] for verdict in Verdict},
        "postponed": len(probes.postponed),
        "last": newest and time_data(newest),
    }
