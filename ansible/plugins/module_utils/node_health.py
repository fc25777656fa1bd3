# Copyright: the plimsoll authors. Apache-2.0
"""What ``plimsoll status -f json`` says of a node, as a reason to go on or to stop. Python 3.9: it runs on nodes."""

from __future__ import annotations

from datetime import datetime

# Nothing of this ends by itself: a person has to do something first.
LASTING = frozenset(("braked", "paused"))
# What a node in mode observe is for: it says what is not as wanted, and leaves it so.
OF_OBSERVING = frozenset(("behind", "unlimited"))


class Tolerance:
    """What does not stop a rollout: ``figures`` by their names, and with ``warnings`` each that is no worse."""

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
        return level == "warning" and self.warnings


def wrong(status, since, version, tolerance):
    """Why this node is not well, as pairs of a figure's name ("" for what is none) and a sentence; the worst first.

    ``status`` is the JSON object, None where there is none; ``since`` (aware) is when the pass had to begin at the
    earliest; ``version`` is whose pass it had to be, "" for any.
    """
    if status is None:
        return [("", "plimsoll status does not answer")]
    found = [("", complaint) for complaint in status["complaints"]]
    made = status["pass"]
    if made is None:
        return [*found, ("", "there was no pass yet")]
    if moment(made["started"]) < since:
        found.append(("", "the last pass is of " + made["started"] + ", before this was begun"))
    elif version and made["plimsoll"] != version:
        found.append(("", "the pass was made by plimsoll %s, not %s" % (made["plimsoll"], version)))
    out = [each for each in status["findings"] if not tolerance.passes(each, observing=not made["enforcing"])]
    if made["trouble"]:
        # Why there was no pass; what else is out of its range follows from that.
        found.append(("", made["trouble"]))
        out = [each for each in out if each["name"] in LASTING]
    return found + [(each["name"], words(each)) for each in out]


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def words(finding):
    """``critical: failed 2 (instance-00000412 vdb and 1 more); plimsoll disk list``."""
    value = "not known" if finding["value"] is None else "%g" % finding["value"]
    about = " (%s)" % finding["about"] if finding["about"] else ""
    do = "; %s" % finding["do"] if finding["do"] else ""
    return "%s: %s %s%s%s" % (finding["level"], finding["name"], value, about, do)
