"""``plimsoll region``: whom it asks, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.errors import ConfigError, Unreachable
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.cli.base import RegionCommand
from plimsoll_monitoring.cli.promised import RegionPromised
from plimsoll_monitoring.cli.region import RegionDisks, RegionProbes, RegionStatus
from plimsoll_monitoring.region.answers import Series
from tests.unit.person import Person

NOW = 1_800_000_000.0
COMMANDS = (RegionStatus, RegionDisks, RegionProbes)
Answer = Callable[[str], Sequence[Series]]


class FakePrometheus:
    """Answers each query by the metric in it, and keeps its clock."""

    def __init__(
        self, told: dict[str, Sequence[Series]], warnings: tuple[str, ...] = (), seen: Sequence[str] = ()
    ) -> None:
        self._told = told
        self._sightings = [Series({"region": "r1", "instance": node}, NOW - 7200) for node in seen]
        self.warnings = warnings
        self.asked: list[str] = []

    def now(self) -> float:
        return NOW

    def as_of(self, at: float) -> None:
        self.at = at

    def query(self, promql: str) -> Sequence[Series]:
        self.asked.append(promql)
        if promql.startswith("max_over_time("):
            return self._sightings
        for metric, answer in self._told.items():
            if metric in promql and "timestamp(" not in promql:
                return answer
        return []


class NobodyThere(FakePrometheus):
    def query(self, promql: str) -> Sequence[Series]:
        raise Unreachable("http://p:9090: connection refused")


def passed(age: float, node: str = "n1") -> dict[str, Sequence[Series]]:
    """A node whose last pass ended so long ago."""
    of = {"region": "r1", "instance": node}
    return {
        "plimsoll_pass_last_timestamp_seconds": [Series(of, NOW - age)],
        "plimsoll_pass_last_good_timestamp_seconds": [Series(of, NOW - age)],
        "plimsoll_pass_observed_timestamp_seconds": [Series(of, NOW - age)],
    }


def ran(command: type[RegionCommand], fake: FakePrometheus, *words: str) -> tuple[int, str, str]:
    def connect(self: Any, *_: object) -> FakePrometheus:
        self._name = "http://p:9090"
        return fake

    person = Person()
    status = person.types(command, *words, settings=config.load([], []), connect=connect)
    return status, person.out, person.err


@pytest.mark.parametrize(("age", "status"), [(60.0, 0), (1000.0, 3), (9000.0, 3)])
def test_status_ends_with_3_where_something_is_wrong_and_with_0_where_nothing_is(age: float, status: int) -> None:
    assert ran(RegionStatus, FakePrometheus(passed(age)))[0] == status


def test_status_begins_with_what_is_wrong_or_that_nothing_is() -> None:
    _, out, _ = ran(RegionStatus, FakePrometheus(passed(9000.0)))
    assert out.startswith("WARNING  no pass for 2 h 30 min: n1\n         next: ssh n1 plimsoll status\n\nregion")
    _, out, _ = ran(RegionStatus, FakePrometheus(passed(60.0)))
    assert out.startswith("OK  1 node, no disks\n\nregion")


def test_status_has_its_problems_as_data_too() -> None:
    _, out, _ = ran(RegionStatus, FakePrometheus(passed(9000.0)), "-f", "json")
    (problem,) = json.loads(out)["problems"]
    assert problem == {
        "level": "warning",
        "text": "no pass for 2 h 30 min: n1",
        "next": "ssh n1 plimsoll status",
        "nodes": [{"region": "r1", "node": "n1"}],
        "figures": ["pass_age", "good_pass_age", "observed_age"],
        "alerts": [],
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unreachable_prometheus_is_trouble_and_no_output(
    command: type[RegionCommand], caplog: pytest.LogCaptureFixture
) -> None:
    assert ran(command, NobodyThere({}))[:2] == (1, "")
    assert caplog.messages == ["http://p:9090: connection refused"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_metric_at_all_is_trouble_and_says_what_to_set_up(
    command: type[RegionCommand], caplog: pytest.LogCaptureFixture
) -> None:
    assert ran(command, FakePrometheus({}), "--node", "n\x1b7")[:2] == (1, "")
    (said,) = caplog.messages
    assert "no metrics of plimsoll of node n?7" in said
    assert "[metrics] textfile_dir" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_an_answer_that_is_not_whole_is_shown_with_a_warning_and_status_1(command: type[RegionCommand]) -> None:
    status, out, err = ran(command, FakePrometheus(passed(60), ("it is not whole",)))
    assert status == 1
    assert out
    assert err == "it is not whole\n"


@pytest.mark.parametrize(
    ("command", "out"),
    [
        (RegionDisks, "No such disk among the nodes with current metrics of single disks.\n"),
        (RegionProbes, "No probe results of the nodes with metrics.\n"),
    ],
)
def test_a_node_that_is_unreachable_is_named_and_what_it_has_is_not_denied(
    command: type[RegionCommand], out: str
) -> None:
    assert ran(command, FakePrometheus(passed(60), seen=["n1", "n2"])) == (
        0,
        out,
        "1 node not counted: unreachable (no metrics in Prometheus): n2\n",
    )
    assert "among" not in ran(command, FakePrometheus(passed(60), seen=["n1"]))[1]


def test_a_node_that_is_unreachable_is_in_no_promise_and_is_named() -> None:
    place = {"region": "r1", "cluster": "c", "pool": "volumes", "volume_type": "gold", "row": "0"}
    sums: dict[str, Sequence[Series]] = {"plimsoll_disks{": [], ":plimsoll_pool_disks:sum": [Series(place, 3.0)]}
    status, out, err = ran(RegionPromised, FakePrometheus(sums | passed(60), seen=["n1", "n2"]))
    assert (status, "gold" in out) == (0, True)
    assert err == "1 node not counted: unreachable (no metrics in Prometheus): n2\n"


@pytest.mark.parametrize("command", [RegionDisks, RegionProbes])
def test_a_node_whose_target_has_got_another_name_is_not_told_as_gone(command: type[RegionCommand]) -> None:
    err = ran(command, FakePrometheus(passed(60), seen=["n1", "n1.example.org:9100"]))[2]
    told = "unreachable (no metrics in Prometheus; a node of the same name has some, with other labels)"
    assert err == f"1 node not counted: {told}: n1.example.org:9100\n"


def test_disks_of_a_node_without_passes_are_told_to_be_old() -> None:
    assert ran(RegionDisks, FakePrometheus(passed(3 * 86400))) == (
        0,
        "No such disk among the nodes with current metrics of single disks.\n",
        "1 node not observed for 3 d, so counted as of then: n1\n",
    )
    never = passed(60) | {"plimsoll_pass_observed_timestamp_seconds": []}
    assert "not observed for an unknown time" in ran(RegionDisks, FakePrometheus(never))[2]


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        (RegionDisks, ("--top", "-1"), "--top must be 0 or more"),
        (RegionProbes, ("--top", "-1"), "--top must be 0 or more"),
        (RegionProbes, ("--since", "soon"), "--since: 'soon' is not a time; write 14:00"),
        (RegionStatus, ("--region", "\udcff"), "is not UTF-8"),
        (RegionPromised, ("--region", "\udcff"), "is not UTF-8"),
        (RegionPromised, ("--by", "class"), "--by class needs --ceph-report FILE"),
        (RegionPromised, ("--ceph-report", "/nowhere"), "--ceph-report is for --by class"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error_and_no_prometheus_is_asked(
    command: type[RegionCommand], words: Sequence[str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakePrometheus(passed(60))
    assert ran(command, fake, *words)[:2] == (64, "")
    assert said in caplog.text
    assert fake.asked == []


@pytest.mark.parametrize(
    ("command", "first"), [(RegionDisks, "region,node,server,guest"), (RegionProbes, "region,volume_type")]
)
def test_an_empty_list_keeps_its_columns_for_programs(command: type[RegionCommand], first: str) -> None:
    assert ran(command, FakePrometheus(passed(60)), "-f", "csv")[1].startswith(first)
    assert ran(command, FakePrometheus(passed(60)), "-f", "json")[1] == "[]\n"


def test_status_is_one_row_for_csv_and_objects_in_it_are_json() -> None:
    out = ran(RegionStatus, FakePrometheus(passed(18000)), "-f", "csv")[1]
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["level"] == "critical"
    assert json.loads(row["nodes"])[0]["wrong"]["pass_age"] == {"level": "critical", "value": 18000.0}


def test_the_window_of_probes_is_the_one_that_is_asked_for() -> None:
    fake = FakePrometheus(passed(60))
    ran(RegionProbes, fake, "--since", "1d12h")
    windows = [asked for asked in fake.asked if "increase(" in asked]
    assert windows
    assert all("[129600s]" in asked for asked in windows)
    assert fake.at == NOW


def test_a_window_that_has_ended_is_asked_for_as_of_its_end() -> None:
    fake = FakePrometheus(passed(60))
    end = datetime.fromtimestamp(NOW - 3600, UTC)
    begin = end - timedelta(minutes=90)
    ran(RegionProbes, fake, "--since", begin.isoformat(), "--until", end.isoformat())
    assert fake.at == NOW - 3600
    assert all("[5400s]" in asked for asked in fake.asked if "increase(" in asked)


# --- whom it asks ----------------------------------------------------------------------------------------


def settings(tmp_path: Path, text: str) -> SimpleNamespace:
    file = tmp_path / "plimsoll.conf"
    file.write_text(f"[prometheus]\n{text}\n")
    return SimpleNamespace(config_file=[file], config_dir=[])


def test_without_an_address_the_setting_and_the_option_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = SimpleNamespace(stdout=io.StringIO(), stderr=io.StringIO(), options=settings(tmp_path, ""))
    for command in COMMANDS:
        made: Any = command(app, None)  # type: ignore[arg-type]  # all of the application that a command uses
        with caplog.at_level(logging.ERROR):
            assert made.run(made.get_parser("plimsoll").parse_args([])) == 1
        assert caplog.messages[-1].startswith("[prometheus] url: not set")
        assert "--prometheus URL" in caplog.messages[-1]


def connect(url: str, token: Path | None = None, ca: Path | None = None) -> Prometheus:
    return Prometheus(url, token_file=token, ca_file=ca, deadline=1)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "prometheus:9090",
        "ftp://p",
        "http://",
        "http://[::1",
        "http://p:99999",
        "file:///etc/passwd",
        "http://p:x",
    ],
)
def test_what_is_no_address_is_refused_before_anybody_is_asked(url: str) -> None:
    with pytest.raises(ConfigError, match="not an address of Prometheus"):
        connect(url)


@pytest.mark.parametrize(
    "url", ["http://root:hunter2@p:9090", "http://p:9090/?token=hunter2", "http://p:9090/#hunter2"]
)
def test_a_secret_in_the_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        connect(url)
    assert "hunter2" not in str(raised.value)
    assert "[prometheus] token_file" in str(raised.value)


@pytest.mark.parametrize(
    ("url", "goes"),
    [
        ("https://p.example", True),
        ("http://localhost:9090", True),
        ("http://127.0.0.2:9090", True),
        ("http://[::1]:9090/prometheus", True),
        ("http://p.example:9090", False),
        ("http://localhost.example:9090", False),
        ("http://10.0.0.1:9090", False),
    ],
)
def test_a_token_goes_over_tls_or_stays_on_this_host(tmp_path: Path, url: str, goes: bool) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    connect(url)
    if goes:
        connect(url, token)
    else:
        with pytest.raises(ConfigError, match="is sent over https only") as raised:
            connect(url, token)
        assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b" \n", b"s3cret a b", b"s3cret\x00", b"s3cr\xc3\xa9t"])
def test_a_token_file_without_a_token_is_refused_and_not_repeated(tmp_path: Path, content: bytes) -> None:
    token = tmp_path / "token"
    token.write_bytes(content)
    with pytest.raises(ConfigError, match="has no token") as raised:
        connect("https://p", token)
    assert "s3cr" not in str(raised.value)


def test_files_that_cannot_be_used_are_named_with_their_setting(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("no certificate")
    for token, ca, said in (
        (tmp_path / "gone", None, "[prometheus] token_file"),
        (None, tmp_path / "gone", "[prometheus] ca_file"),
        (None, tmp_path / "ca", "[prometheus] ca_file"),
        (tmp_path, None, "[prometheus] token_file"),
    ):
        with pytest.raises(ConfigError) as raised:
            connect("https://p", token, ca)
        assert str(raised.value).startswith(said)


def test_no_sums_of_pools_is_an_error_that_says_what_to_load(caplog: pytest.LogCaptureFixture) -> None:
    assert ran(RegionPromised, FakePrometheus(passed(60)))[:2] == (1, "")
    (said,) = caplog.messages
    assert said.startswith("http://p:9090: no sums of pools; have it load plimsoll-rules.yaml")
    assert ran(RegionPromised, FakePrometheus({}), "--region", "r1")[:2] == (1, "")
    assert "no metrics of plimsoll of region r1" in caplog.messages[-1]


def test_a_report_of_ceph_that_cannot_be_read_is_an_error_of_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ("--by", "class", "--ceph-report")
    fake = FakePrometheus(passed(60))
    assert ran(RegionPromised, fake, *words, str(tmp_path / "none"))[:2] == (1, "")
    assert ran(RegionPromised, fake, *words, str(tmp_path))[:2] == (1, "")
    (tmp_path / "empty").touch()
    assert ran(RegionPromised, fake, *words, str(tmp_path / "empty"))[:2] == (1, "")
    assert [message.removeprefix(str(tmp_path))[:45] for message in caplog.messages] == [
        "/none: cannot be read: no such file",
        ": cannot be read: Is a directory",
        "/empty: not a JSON object; write the output o",
    ]
    assert fake.asked == []
