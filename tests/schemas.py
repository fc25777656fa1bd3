"""Holds what commands print with ``-f json`` and ``-f yaml`` to the published JSON Schemas.

``tests/conftest.py`` watches the commands that run within a test, ``lab/command.py`` those that a test starts.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend
from referencing import Registry, Resource

FOLDER = Path(__file__).parents[1] / "docs" / "html" / "schemas"
_FORMATS = ("json", "yaml")
_TIMES = FormatChecker(formats=())


@functools.cache
def commands() -> Mapping[str, str]:
    """Names of commands, and the classes behind them, as ``module:Class``."""
    points = distribution("plimsoll-agent").entry_points.select(group="plimsoll.commands")
    return {point.name.replace("_", " "): point.value for point in points}


def file_of(command: str) -> Path:
    return FOLDER / f"{command.replace(' ', '-')}.json"


def schema_of(command: str) -> dict[str, Any]:
    """Raises ``AssertionError`` for a command without a schema."""
    file = file_of(command)
    assert file.exists(), (
        f"plimsoll {command} has -f json, and no schema: write {file.relative_to(FOLDER.parents[2])}"
    )
    schema: dict[str, Any] = json.loads(file.read_text())
    if schema.get("$ref", "").endswith(
        ".json"
    ):  # with its own $schema, it would be validated without what is extended here
        schema = json.loads((FOLDER / schema["$ref"]).read_text())
    return schema


def hold(command: str, printed: str, form: str, *, chosen: bool = False) -> None:
    """Raises ``AssertionError`` where ``printed`` is not as the command's schema says.

    ``chosen``: only some columns were asked for, so others may be absent.
    """
    schema = schema_of(command) | {"$id": file_of(command).as_uri()}
    for data in _documents(printed, form):
        rows = data if isinstance(data, list) else [data]
        fault = _fault(extend(_Strict, {"required": _not_of(rows)}) if chosen else _Strict, schema, data)
        assert fault is None, (
            f"plimsoll {command} -f {form}: {fault.json_path}: {fault.message}\n"
            f"({file_of(command).relative_to(FOLDER.parents[2])} has all keys; a new one is described there)"
        )


def hold_part(place: str, data: object) -> None:
    """Raises ``AssertionError`` where a part of an output is not as ``FILE#/$defs/NAME`` says."""
    schema = {"$id": (FOLDER / "part.json").as_uri(), "$ref": place}
    fault = _fault(_Strict, schema, json.loads(json.dumps(data)))
    assert fault is None, f"{fault.json_path}: {fault.message}\n(docs/html/schemas/{place} has all keys: {data!r})"


def _documents(printed: str, form: str) -> Sequence[object]:
    """One, or one for each line (``record --follow``); none where an error came before the output."""
    if not printed.strip():
        return []
    if form == "yaml":
        import yaml

        return [yaml.safe_load(printed)]
    try:
        return [json.loads(printed)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in printed.splitlines()]


def _fault(kind: Any, schema: dict[str, Any], data: object) -> ValidationError | None:
    return best_match(kind(schema, registry=_registry(), format_checker=_TIMES).iter_errors(data))


@functools.cache
def _registry() -> Registry[Any]:
    files = sorted(FOLDER.glob("*.json"))
    return Registry().with_resources(
        (file.as_uri(), Resource.from_contents(json.loads(file.read_text()))) for file in files
    )


@_TIMES.checks("date-time", raises=ValueError)
def _in_utc(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).utcoffset() == timedelta()


def _not_of(rows: Sequence[object]) -> Callable[..., Iterator[ValidationError]]:
    meant = {id(row) for row in rows}

    def required(validator: Any, names: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if id(instance) not in meant:
            yield from _REQUIRED(validator, names, instance, schema)

    return required


def _any_of(validator: Any, branches: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Codes by their name: a hundred branches for each reason would take long, and their complaints tell nothing."""
    by_code = {branch.get("properties", {}).get("code", {}).get("const"): branch for branch in branches}
    if None in by_code:
        yield from _ANY_OF(validator, branches, instance, schema)
        return
    code = instance.get("code") if isinstance(instance, dict) else None
    if code not in by_code:
        yield ValidationError(f"{code!r} is not a code of common.json")
    else:
        yield from validator.descend(instance, by_code[code])


_ANY_OF: Any = Draft202012Validator.VALIDATORS["anyOf"]
_REQUIRED: Any = Draft202012Validator.VALIDATORS["required"]
_Strict = extend(Draft202012Validator, {"anyOf": _any_of})


_WIDTH = 114


def laid_out(schema: object, indent: int = 0, column: int = 0, *, named: bool = False) -> str:
    """One line where it fits; else each name begins a line, and keywords of the schema follow one another."""
    line = json.dumps(schema, ensure_ascii=False)
    nested = isinstance(schema, list) and any(isinstance(part, dict | list) for part in schema)
    if column + len(line) <= _WIDTH or not (nested or isinstance(schema, dict)):
        return line
    begin = "\n" + " " * (indent + 1)
    if isinstance(schema, list):
        return f"[{','.join(begin + laid_out(part, indent + 1, indent + 1) for part in schema)}]"
    text = "{"
    for key, part in schema.items():
        head, names = f'"{key}": ', key in ("properties", "$defs")
        place = (0 if "\n" in text else column) + len(text.rpartition("\n")[2]) + len(", ") + len(head)
        following = laid_out(part, indent + 1, place, named=names)
        space = "" if text == "{" else " "
        if named or (space and place + len(following.partition("\n")[0]) > _WIDTH):
            following, space = laid_out(part, indent + 1, indent + 1 + len(head), named=names), begin
        text += f"{',' * (text != '{')}{space}{head}{following}"
    return text + "}"


# --- what commands print


def of_words(words: Sequence[str], printed: str | None) -> None:
    """Hold the output of ``plimsoll`` with these words, if it is data."""
    form = _form(words)
    if form is None or not isinstance(printed, str) or "--output" in words or "-h" in words or "--help" in words:
        return
    command = _command(words)
    if command is not None:
        hold(command, printed, form, chosen=any(word.startswith(("-c", "--column")) for word in words))


def _form(words: Sequence[str]) -> str | None:
    for word, following in zip(words, [*words[1:], ""], strict=False):
        for form in _FORMATS:
            if word in (f"-f{form}", f"--format={form}") or (word in ("-f", "--format") and following == form):
                return form
    return None


def _command(words: Sequence[str]) -> str | None:
    spaced = f" {' '.join(words)} "
    return max((name for name in commands() if f" {name} " in spaced), key=len, default=None)


class _Tee:
    """Standard output that keeps what is written."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.kept: list[str] = []

    def write(self, text: str) -> int:
        written: int = self._stream.write(text)
        self.kept.append(text)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def watched(command: Any, parsed_args: Any) -> Iterator[None]:
    """While a command runs in this process: what it prints as data is held to its schema at its end."""
    form = getattr(parsed_args, "formatter", None) or getattr(parsed_args, "format", None)
    names = {value: name for name, value in commands().items()}
    kinds = (f"{kind.__module__}:{kind.__name__}" for kind in type(command).__mro__)
    name = next((names[kind] for kind in kinds if kind in names), None)
    if form not in _FORMATS or name is None or getattr(parsed_args, "output", None):
        yield
        return
    stdout = command.app.stdout
    tee = command.app.stdout = _Tee(stdout)
    try:
        yield
    finally:
        command.app.stdout = stdout
    hold(name, "".join(tee.kept), form, chosen=bool(getattr(parsed_args, "columns", ())))
