"""``plimsoll top``: also the sentence for the tenant of a disk."""

from __future__ import annotations

from datetime import datetime, timedelta

from plimsoll_agent.app.context import now_of, state_of
from plimsoll_agent.cli import top
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.terminal.moments import Window
from plimsoll_agent.top.keys import Explained

_HOUR = timedelta(hours=1)
_TITLE = "sentence for the tenant, by the last hour of this node"


class Top(top.Top):
    __doc__ = top.Top.__doc__

    def sentence(self, settings: Settings, disk: Disk) -> Explained:
        return sentence_for(settings, disk, now_of(state_of(settings)))


def sentence_for(settings: Settings, disk: Disk, now: datetime) -> Explained:
    """By what this node measured in the last hour; nothing is copied where the cause is unknown."""
    # A quarter of the start of ``top``, and few ask for it.
    from plimsoll_insight.cli.disk_explain import evidence_of
    from plimsoll_insight.explain.cause import Cause
    from plimsoll_insight.explain.messages import tenant_words

    period = Window(since=now - _HOUR, until=now, words="the last hour", options="--since 1h")
    facts = evidence_of(settings, state_of(settings), disk, period, now)
    if facts.diagnosis.cause is Cause.UNKNOWN or facts.complaints:
        why = "; ".join(facts.complaints) or "passes do not show whether it was slow"
        return Explained(_TITLE, (f"unknown: {why}",), ())
    text = tenant_words(facts.explained, facts.diagnosis)
    return Explained(_TITLE, (text,), (("copied", "if this terminal lets programs copy (OSC 52)"),), text)
