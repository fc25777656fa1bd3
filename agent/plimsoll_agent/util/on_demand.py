"""What libraries import for a rare use, or only to name types, is loaded once something of it is called, or never."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import Any


class _Name:
    """Of something in a module: good for an annotation as it is, and the thing itself when it is called."""

    def __init__(self, module: str, path: str) -> None:
        self._module = module
        self._path = path

    def __getattr__(self, name: str) -> _Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(self._module, f"{self._path}.{name}")

    def __getitem__(self, _: object) -> _Name:
        return self

    def __or__(self, _: object) -> _Name:
        return self

    __ror__ = __or__

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return attrgetter(self._path)(import_module(self._module))(*arguments, **options)


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is not self:
            return getattr(import_module(self.__name__), name)
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(self.__name__, name)


@contextmanager
def postponed(*libraries: str) -> Iterator[None]:
    """What is imported within does not load these libraries yet; everything that is imported later loads them."""
    missing = [name for name in libraries if name not in sys.modules]
    for name in missing:
        sys.modules[name] = _Module(name)
        parent, _, last = name.rpartition(".")
        if parent:  # the module that was imported within finds it there; who imports it later puts the real one there
            setattr(import_module(parent), last, sys.modules[name])
    try:
        yield
    finally:
        for name in missing:
            if isinstance(sys.modules[name], _Module):
                del sys.modules[name]


@contextmanager
def absent(library: str) -> Iterator[None]:
    """What is imported within does without the library, as where it is not installed."""
    if library in sys.modules:
        yield
        return
    sys.modules[library] = None  # type: ignore[assignment]  # so the import statement raises
    try:
        yield
    finally:
        del sys.modules[library]
