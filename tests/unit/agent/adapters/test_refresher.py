"""What the refresher that a pass starts is given: where it runs, and no secret of its parent's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.adapters import program, refresher
from plimsoll_agent.adapters.program import Ended


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """With what it was started, from an environment in which there are other things too."""
    given: dict[str, Any] = {}

    def run(*_: object, **words: Any) -> Ended:
        given.update(words)
        return Ended(0, b"", b"")

    monkeypatch.setattr(program, "run", run)
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "PATH": "/usr/bin",
        "LC_ALL": "C.UTF-8",
        "https_proxy": "http://proxy:3128",
        "OS_CATALOGUE__CLOUD": "mine",
        "OS_CLIENT_CONFIG_FILE": "clouds.yaml",
        "OS_PASSWORD": "s3cret",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "LD_PRELOAD": "/tmp/x.so",
        "JOURNAL_STREAM": "1:2",
    }.items():
        monkeypatch.setenv(name, value)
    refresher.refresh([], tmp_path, 5)
    return given


def test_a_refresher_of_another_user_gets_no_secret_out_of_the_environment(started: dict[str, Any]) -> None:
    environment = started["environment"]
    assert not environment.keys() & {"OS_PASSWORD", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "JOURNAL_STREAM"}
    passed = {
        "PATH": "/usr/bin",
        "LC_ALL": "C.UTF-8",
        "https_proxy": "http://proxy:3128",
        "OS_CATALOGUE__CLOUD": "mine",
    }
    assert passed.items() <= environment.items()


def test_a_refresher_does_not_run_in_the_callers_directory(started: dict[str, Any]) -> None:
    """What is in the current directory may be another user's; a relative address is still that of this one."""
    assert started["directory"] == "/"
    assert started["environment"]["OS_CLIENT_CONFIG_FILE"] == os.path.join(os.getcwd(), "clouds.yaml")  # noqa: PTH109, PTH118
