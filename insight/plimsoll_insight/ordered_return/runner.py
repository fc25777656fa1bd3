"""Takes the steps of a return, and restores in the end what was changed for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Protocol

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.ordered_return import control, messages
from plimsoll_insight.ordered_return.cluster import is_same
from plimsoll_insight.ordered_return.control import (
    Act,
    ReturnBounds,
    ReturnObservation,
    ReturnProgress,
    ReturnStep,
    StepReason,
)
from plimsoll_insight.ordered_return.hosts import NotStarted
from plimsoll_insight.ordered_return.journal import (
    ChangeTarget,
    ClusterChange,
    ReturnJournal,
    ReturnJournalError,
    TargetKind,
)
from plimsoll_insight.ordered_return.plan import WavePlan

_AGAIN = 30.0
"""Seconds until a start that failed is tried again."""


class ClusterAndHosts(Protocol):
    """The cluster and its hosts. All but ``observe`` raises ``PlimsollError``."""

    def observe(self) -> ReturnObservation:
        """What does not answer is unknown in it."""

    def conditions(self, osds: Sequence[int]) -> Mapping[int, str]:
        """Of their units; without those that are unknown."""

    def start(self, osds: Sequence[int]) -> None: ...
    def restart(self, osd: int) -> None: ...

    def may_stop(self, osd: int) -> bool:
        """Whether all its placement groups stay active without it."""

    def value(self, target: ChangeTarget) -> str | None:
        """What it is now; of restarts it is unknown, and None."""

    def change(self, target: ChangeTarget, value: str | None) -> None: ...


class ReturnEnding(StrEnum):
    DONE = "done"
    STOPPED = "stopped"
    GAVE_UP = "gave up"
    FAILED = "failed"


@frozen(kw_only=True)
class ReturnOutcome:
    ending: ReturnEnding
    text: str
    progress: ReturnProgress
    seconds: float
    left: tuple[str, ...]
    """What could not be restored, a sentence each."""


def restore(
    changes: Sequence[ClusterChange], world: ClusterAndHosts, journal: ReturnJournal, say: Callable[[str], None]
) -> list[str]:
    """The last first. What cannot be restored is returned, a sentence each, and stays in the journal."""
    problems: list[str] = []
    for change in reversed(changes):
        target = change.target
        try:
            value = None if target.kind is TargetKind.RESTARTS else world.value(target)
            is_ours = target.kind is TargetKind.RESTARTS or is_same(value, change.after)
            # As before, too: what had no answer in time may be carried out only now.
            if is_ours or is_same(value, change.before):
                world.change(target, change.before)
            words = messages.restored_words(change) if is_ours else _not_ours(change, world)
        except PlimsollError as error:
            problems.append(f"{messages.target_words(target)} could not be restored: {error}")
            continue
        try:
            journal.restored(target, "restored" if is_ours else "as it is")
        except ReturnJournalError as error:
            problems.append(f"{messages.target_words(target)} is restored, but not recorded: {error}")
        with suppress(OSError, PlimsollError):  # a terminal that is gone keeps none of the rest from being restored
            say(words)
    return problems


def _not_ours(change: ClusterChange, world: ClusterAndHosts) -> str:
    value = world.value(change.target)
    if is_same(value, change.before):
        return f"{messages.target_words(change.target)} is as before"
    return f"left {messages.target_words(change.target)} alone: it was changed since, to {value or 'not set'}"


class Runner:
    def __init__(
        self,
        world: ClusterAndHosts,
        journal: ReturnJournal,
        plan: WavePlan,
        whole: Mapping[str, tuple[int, ...]],
        bounds: ReturnBounds,
        *,
        say: Callable[[str], None],
        wait: Callable[[float], bool],
        show: Callable[[str], None] = lambda _: None,
        interval: float = 5.0,
    ) -> None:
        """``say`` is given each step, ``show`` how it stands; ``wait`` waits, and is true where it is to end."""
        self._world, self._journal, self._plan = world, journal, plan
        self._whole, self._bounds, self._interval = whole, bounds, interval
        self._say, self._wait, self._show = say, wait, show
        self._changes: dict[ChangeTarget, ClusterChange] = {}
        self._began = self._last = 0.0
        self._hold_since: float | None = None
        self._trouble: tuple[float, ReturnStep] | None = None

    def run(self, desired: Mapping[ChangeTarget, str], before: Mapping[ChangeTarget, ClusterChange]) -> ReturnOutcome:
        """``before``: what an earlier run has changed and not restored; what it found first is what is restored."""
        first = self._world.observe()
        self._began = self._last = first.now
        progress = control.begin(self._plan, self._plan.up)
        self._changes = dict(before)
        try:
            self._change(desired)
            progress, ending, text = self._steps(progress, first)
        except (PlimsollError, OSError) as error:  # the latter where what is said has nowhere to go
            ending, text = ReturnEnding.FAILED, str(error)
        problems = restore(tuple(self._changes.values()), self._world, self._journal, self._say)
        return ReturnOutcome(
            ending=ending, text=text, progress=progress, seconds=self._last - self._began, left=tuple(problems)
        )  # fmt: skip

    def _change(self, desired: Mapping[ChangeTarget, str]) -> None:
        """Each is in the journal before it is made."""
        self._restore_former(desired)
        for target, after in desired.items():
            now, former = self._world.value(target), self._changes.get(target)
            if former is None and is_same(now, after):
                self._say(f"{messages.target_words(target)}: is so already, and stays")
                continue
            change = ClusterChange(target, former.before if former and is_same(now, former.after) else now, after)
            self._journal.intend(change)
            self._changes[target] = change
            self._world.change(target, after)
            self._say(messages.change_words(change))

    def _restore_former(self, desired: Mapping[ChangeTarget, str]) -> None:
        """What an earlier run has left, but for what this one changes in the same way."""
        for target, change in reversed(list(self._changes.items())):
            if is_same(desired.get(target), change.after):
                continue
            if problems := restore((change,), self._world, self._journal, self._say):
                self._say(f"of an earlier return, {problems[0]}. It is tried again at the end")
            else:
                del self._changes[target]

    def _steps(self, progress: ReturnProgress, view: ReturnObservation) -> tuple[ReturnProgress, ReturnEnding, str]:
        """Raises ``ReturnJournalError``."""
        last: tuple[object, ...] = ()
        while True:
            progress, step = control.next_step(progress, view, self._plan, self._whole, self._bounds)
            step = self._taken(step, view)
            progress = control.after(progress, step, view.now)
            words = messages.step_words(step, self._plan, self._conditions(step))
            kind = (step.act, step.why, step.osds)
            if step.act is not Act.WAIT or kind != last:
                self._say(words)
                if step.is_hold:
                    self._journal.write("say", text=words)
            last = kind
            if step.act is Act.DONE:
                return progress, ReturnEnding.DONE, words
            if self._is_over(step, view.now):
                return progress, ReturnEnding.GAVE_UP, f"{words}, for {messages.seconds(self._bounds.patience)}"
            self._show(self._line(progress, words, view))
            if self._wait(self._interval):
                return progress, ReturnEnding.STOPPED, "stopped by a signal"
            view = self._world.observe()
            self._last = view.now

    def _is_over(self, step: ReturnStep, now: float) -> bool:
        self._hold_since = (self._hold_since if self._hold_since is not None else now) if step.is_hold else None
        return self._hold_since is not None and now - self._hold_since > self._bounds.patience

    def _taken(self, step: ReturnStep, view: ReturnObservation) -> ReturnStep:
        """The step, once it is taken; or why it was not. Raises ``ReturnJournalError``."""
        if step.act not in (Act.START, Act.RESTART):
            return step
        if self._trouble is not None and view.now - self._trouble[0] < _AGAIN:
            return self._trouble[1]
        try:
            if step.act is Act.RESTART and not self._world.may_stop(step.osds[0]):
                return control.wait(
                    StepReason.NOT_STARTED, "it may not be stopped (ceph osd ok-to-stop)", osds=step.osds
                )
            self._journal.write(step.act.value, osds=list(step.osds))
            if step.act is Act.RESTART:
                self._world.restart(step.osds[0])
            else:
                self._world.start(step.osds)
        except ReturnJournalError:
            raise
        except PlimsollError as error:
            osds = error.osds if isinstance(error, NotStarted) else step.osds
            failure = control.wait(StepReason.NOT_STARTED, str(error), osds=osds)
            self._trouble = view.now, failure
            return failure
        self._trouble = None
        return step

    def _conditions(self, step: ReturnStep) -> Mapping[int, str] | None:
        if step.why not in (StepReason.LOST, StepReason.NEVER_UP):
            return None
        try:
            return self._world.conditions([osd for osd in step.osds if osd in self._plan.returning])
        except PlimsollError:
            return None

    def _line(self, progress: ReturnProgress, words: str, view: ReturnObservation) -> str:
        number, whole = len(self._plan.waves) - len(progress.waves), len(self._plan.waves)
        past = view.now - self._began
        parts = [messages.seconds(past), f"wave {number} of {whole}", words]
        complete = number - bool(progress.current)
        if complete and progress.waves:
            parts.append(f"some {messages.seconds(past / complete * (whole - complete))} left")
        elif self._plan.seconds is not None and progress.waves:
            parts.append(f"{messages.time_range(self._plan.seconds)} in all")
        return ", ".join(parts)
