"""Finds other writers of limits on a node: cron entries and systemd units, by the programs that they call.

It starts no program. ``root`` is the node's file system, for tests.
"""

# Copyright: the plimsoll authors. Apache-2.0. It must run with Python 3.8, which may be what Ansible finds on a node.
from __future__ import annotations

import os
import re
from pathlib import Path

TABLES = ("etc/crontab", "etc/anacrontab", "etc/cron.d/*", "var/spool/cron/*", "var/spool/cron/crontabs/*")
SCRIPTS = ("etc/cron.hourly/*", "etc/cron.daily/*", "etc/cron.weekly/*", "etc/cron.monthly/*")
UNITS = ("etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system")
MARK = "#plimsoll-retired# "
# ``restore`` finds the note by this text, so older files need it unchanged.
NOTE = "# plimsoll keeps these limits now. Remove the mark from the next line, and this one, to have the entry back."
# cron and run-parts of Debian and EL ignore names that begin with a dot.
ASIDE = ".{}.plimsoll-retired"

# Only the first bytes of a script are searched.
_READ = 256 * 1024
_LEFT_OVER = re.compile(r"^[.#]|~$|\.(dpkg-\w+|rpm\w+|swp|cfsaved)$")
_PATH = re.compile(r"/[^\s;|&<>\"'()`$]+")
_SETTING = re.compile(r"^\s*[A-Za-z_]\w*\s*=")
_EXEC = re.compile(r"^\s*Exec(?:Start|StartPre|StartPost)\s*=(.*)$", re.MULTILINE)
_UNIT = re.compile(r"^\s*Unit\s*=\s*(\S+)\s*$", re.MULTILINE)


class Writers:
    """Finds other writers by regular expressions, in their commands and in the scripts that these call.

    Raises ``ValueError`` for an invalid expression.
    """

    def __init__(self, patterns, root="/"):
        try:
            self._patterns = [re.compile(pattern) for pattern in patterns]
        except re.error as error:
            raise ValueError(f"not a regular expression: {error.pattern!r}: {error}") from error
        self._root = Path(root)

    def cron(self):
        """Cron's entries as {"file", "line", "text"}; a script has line 0."""
        found = []
        for table in self._files(TABLES):
            found += [
                {"file": self._shown(table), "line": number, "text": line.strip()}
                for number, line in enumerate(_lines(table), 1)
                if not line.lstrip().startswith("#") and not _SETTING.match(line) and self._writes(line)
            ]
        for script in self._files(SCRIPTS):
            if os.access(script, os.X_OK) and self._writes(_code(_text(script))):
                found.append({"file": self._shown(script), "line": 0, "text": "a script that cron starts"})
        return found

    def units(self):
        """Enabled units as {"unit", "text"}, without plimsoll's."""
        found = {}
        enabled = self._root / UNITS[0]
        for unit in sorted({link.name for kind in ("wants", "requires") for link in enabled.glob(f"*.{kind}/*")}):
            if unit.startswith("plimsoll-") or not unit.endswith((".timer", ".service")):
                continue
            for command in _EXEC.findall(self._unit_text(self._service_of(unit))):
                if self._writes(command):
                    found.setdefault(unit, command.strip())
        return [{"unit": unit, "text": text} for unit, text in found.items()]

    def retire(self, entries, write):
        """Disable cron's entries, in a way that ``restore`` can undo; ``write(path, text)`` replaces a file."""
        for file in sorted({entry["file"] for entry in entries}):
            path = self._root / file.lstrip("/")
            lines = {entry["line"] for entry in entries if entry["file"] == file}
            if 0 in lines:
                path.rename(path.with_name(ASIDE.format(path.name)))
                continue
            kept = []
            for number, line in enumerate(_lines(path), 1):
                kept += [NOTE, f"{MARK}{line}"] if number in lines else [line]
            write(path, "\n".join(kept))

    def retired(self):
        """Cron's entries that ``retire`` disabled, in the form of ``cron``."""
        found = []
        for table in self._files(TABLES):
            for number, line in enumerate(_lines(table), 1):
                if line.startswith(MARK):
                    found.append({"file": self._shown(table), "line": number, "text": line[len(MARK) :].strip()})
        for pattern in SCRIPTS:
            for aside in sorted(self._root.glob(pattern.replace("*", ASIDE.format("*")))):
                whole = aside.with_name(aside.name[1 : -len(ASIDE.format("")) + 1])
                found.append({"file": self._shown(whole), "line": 0, "text": "a script that cron starts"})
        return found

    def restore(self, entries, write):
        """Restore entries that ``retire`` disabled."""
        for file in sorted({entry["file"] for entry in entries}):
            path = self._root / file.lstrip("/")
            if any(entry["line"] == 0 for entry in entries if entry["file"] == file):
                path.with_name(ASIDE.format(path.name)).rename(path)
                continue
            lines = [line for line in _lines(path) if line != NOTE]
            write(path, "\n".join(line[len(MARK) :] if line.startswith(MARK) else line for line in lines))

    def _files(self, patterns):
        for pattern in patterns:
            for path in sorted(self._root.glob(pattern)):
                if path.is_file() and not _LEFT_OVER.search(path.name):
                    yield path

    def _shown(self, path):
        return f"/{path.relative_to(self._root)}"

    def _writes(self, code):
        """Whether the code, or a script that it calls, matches."""
        called = (self._root / name.lstrip("/") for name in _PATH.findall(code))
        return any(
            pattern.search(text)
            for text in [code, *(_code(_text(path)) for path in called if path.is_file())]
            for pattern in self._patterns
        )

    def _service_of(self, unit):
        if unit.endswith(".service"):
            return unit
        named = _UNIT.findall(self._unit_text(unit))
        return named[-1] if named else f"{unit[: -len('.timer')]}.service"

    def _unit_text(self, unit):
        """The text of the unit's file and its drop-ins; for an instance, those of its template."""
        texts = []
        for name in dict.fromkeys([re.sub(r"@.*\.", "@.", unit), unit]):
            places = [self._root / place / name for place in UNITS]
            texts += [_text(place) for place in places if place.is_file()][:1]
            texts += [_text(more) for place in places for more in sorted(place.parent.glob(f"{name}.d/*.conf"))]
        return "\n".join(texts)


def _lines(table):
    """The whole text, to be changed and written. Raises ``OSError``."""
    return table.read_bytes().decode("utf-8", "surrogateescape").split("\n")


def _text(path):
    """The beginning of a text file; empty for a binary, and for a file that cannot be read."""
    try:
        with open(path, "rb") as file:
            content = file.read(_READ)
    except OSError:
        return ""
    return "" if b"\0" in content else content.decode("utf-8", "surrogateescape")


def _code(text):
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
