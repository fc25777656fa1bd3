"""One table says what is shown in which colour, and each state that a command shows is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import plimsoll_agent
import plimsoll_probes
from plimsoll_agent.messages import tones
from plimsoll_agent.messages.lines import Severity
from plimsoll_agent.messages.tones import TONES, Tone, rich_style, worst
from plimsoll_agent.model.entries import Ending
from plimsoll_agent.monitor.thresholds import Level
from plimsoll_agent.reconcile.outcome import ACKNOWLEDGED, NEW, Kind
from plimsoll_agent.store.record_query import UNDER_WAY
from plimsoll_agent.top.rows import Wrong
from plimsoll_monitoring.region.disks import AT_LIMIT, UNLIMITED
from plimsoll_probes.cli.looking import POSTPONED
from plimsoll_probes.model.finding import Verdict

AS_IT_SHOULD_BE = {
    *(
        Kind.IN_SYNC,
        Kind.CHANGED,
        Wrong.NOT.code,
        Severity.SET,
        Severity.PLAIN,
        Verdict.KEPT,
        Ending.DONE,
        Ending.TOOK,
    ),
}
STATES = {
    *(level.name for level in Level),
    *(*Kind, ACKNOWLEDGED, NEW, UNLIMITED, AT_LIMIT),
    *(wrong.code for wrong in Wrong),
    *Severity,
    *(*Ending, UNDER_WAY),
    *(*Verdict, POSTPONED, "broken", "late"),
}


def test_each_state_has_a_colour_or_is_as_it_should_be() -> None:
    assert set(TONES) == set(map(str, STATES - AS_IT_SHOULD_BE))


@pytest.mark.parametrize(
    ("states", "tone"),
    [
        (("in-sync",), None),
        (("unlimited", "planned"), Tone.CRITICAL),
        (("unknown", "planned"), Tone.UNKNOWN),
        (("deferred", "at-limit"), Tone.WARNING),
        (("in-sync", "at-limit"), Tone.BUSY),
        (("left-alone",), Tone.FAINT),
    ],
)
def test_what_is_in_several_states_has_the_colour_of_the_worst(states: tuple[str, ...], tone: Tone | None) -> None:
    assert worst(states) is tone


def test_rich_gets_the_same_colours() -> None:
    assert (rich_style("failed"), rich_style("in-sync")) == ("bold red", "")


def test_no_module_has_another_table() -> None:
    """Colours are named in the table alone; terminals are spoken to in ``terminal``."""
    colour = re.compile(r"\b(red|yellow|magenta|green|cyan)\b")
    for package in (plimsoll_agent, plimsoll_probes):
        for path in Path(*package.__path__).rglob("*.py"):
            if path != Path(tones.__file__) and not {"dashboards", "report"} & set(path.parts):
                code = re.sub(r'"""(.|\n)*?"""|#.*', "", path.read_text())
                assert not colour.search(code), path
