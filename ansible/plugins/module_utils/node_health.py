# Copyright: the plimsoll authors. Apache-2.0
"""Decides by a node's ``plimsoll status -f json`` whether a rollout may continue. Python 3.9: it runs on nodes."""

from __future__ import annotations

from datetime import datetime

# Only an operator can end these.
LASTING = frozenset(("braked", "paused"))
# In mode observe nothing is written, so these are expected.
OF_OBSERVING = frozenset(("behind", "unlimited"))


# What a bad version or bad settings would do to a node: warnings that pass only by their names.
BY_NAME = frozenset(("failed", "probe_broken", "sources_down", "unlimited"))


class Tolerance:
    """What does not stop a rollout: warnings of these ``figures``, or with ``warnings`` all that need no name."""

    def __init__(self, figures=(), warnings=False):
        self.figures = frozenset(figures)
        self.warnings = warnings

    def passes(self, finding, observing):
        name, level = finding["name"], finding["level"]
        if level == "ok":
            return True
        if level == "critical":
            return False
        if name in self.figures or (observing and name in OF_OBSERVING):
            return True
        return level == "warning" and self.warnings and name not in BY_NAME


def wrong(status, since, version, tolerance):
    """Why this node is unhealthy, as pairs of a figure's name ("" for other reasons) and a sentence; worst first.

    ``status`` is the JSON object or None; ``since`` (aware) is the earliest time at which the pass may have begun;
    ``version`` is the version that must have made the pass, "" for any.
    """
    if status is None:
        return [("", "plimsoll status does not answer")]
    found = [("", complaint) for complaint in status["complaints"]]
    made = status["pass"]
    if made is None:
        return [*found, ("", "no pass yet")]
    if moment(made["started"]) < since:
        found.append(("", "the last pass started at " + made["started"] + ", before this run"))
    elif version and made["plimsoll"] != version:
        found.append(("", "the last pass was made by plimsoll %s, not %s" % (made["plimsoll"], version)))
    out = [each for each in status["findings"] if not tolerance.passes(each, observing=not made["enforcing"])]
    if made["trouble"]:
        # Without a pass other figures are out of their range too, so only the cause is reported.
        found.append(("", made["trouble"]))
        out = [each for each in out if each["name"] in LASTING]
    return found + [(each["name"], words(each)) for each in out]


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def words(finding):
    """``critical: failed 2 (instance-00000412 vdb and 1 more); plimsoll disk list``."""
    value = "unknown" if finding["value"] is None else "%g" % finding["value"]
    about = " (%s)" % finding["about"] if finding["about"] else ""
    do = "; %s" % finding["do"] if finding["do"] else ""
    return "%s: %s %s%s%s" % (finding["level"], finding["name"], value, about, do)
