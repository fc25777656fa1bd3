"""A Prometheus that is not there, refuses, lies or dawdles, and whom its token is sent to."""

from __future__ import annotations

import argparse
import collections
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.errors import DeadlineExceeded, PlimsollError, Rejected, Unreachable
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.cli.top import Top
from plimsoll_insight.replay.columns import Steps
from plimsoll_monitoring.adapters.prometheus import Prometheus
from plimsoll_monitoring.cli.region import RegionStatus
from tests.functional.cloudserver import Answering
from tests.functional.test_prometheus_api import ran
from tests.functional.webserver import certificate
from tests.unit.values import a_disk

TOKEN = "s3cret-token"
CLOCK = 1_700_000_000.25


@dataclass
class Told:
    """What the server is to say, and what it was asked."""

    url: str = ""
    ca: Path | None = None
    say: Callable[[Handler], None] | None = None
    asked: list[dict[str, str]] = field(default_factory=list)
    authorized: list[str | None] = field(default_factory=list)


class Handler(Answering):
    """As Prometheus answers: the time, and one series with what it was asked."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""

    def do_POST(self) -> None:  # noqa: N802  # as http.server calls it
        told: Told = self.server.told  # type: ignore[attr-defined]
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        asked = {name: values[0] for name, values in form.items()}
        told.asked.append(asked)
        told.authorized.append(self.headers.get("Authorization"))
        if told.say is not None:
            told.say(self)
        elif asked["query"] == "time()":
            self.good({"resultType": "scalar", "result": [CLOCK, str(CLOCK)]})
        else:
            self.good({"resultType": "vector", "result": [{"metric": {"a": "b"}, "value": [CLOCK, "1.5"]}]})

    def good(self, data: object, **more: object) -> None:
        self.say(200, json.dumps({"status": "success", "data": data, **more}).encode())


@contextmanager
def serving(directory: Path, *, tls: bool = False) -> Iterator[Told]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told = Told(f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}")
    if tls:
        told.ca = certificate(directory)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(told.ca)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.told = told  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    with serving(tmp_path) as told:
        yield told


def asking(told: Told, token: Path | None = None, ca: Path | None = None, deadline: float = 5) -> Prometheus:
    return Prometheus(told.url, token_file=token, ca_file=ca, deadline=deadline)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    return file


def test_all_queries_are_of_one_moment_by_the_clock_of_prometheus(told: Told) -> None:
    prometheus = asking(told)
    for _ in range(2):
        assert [(series.labels, series.value) for series in prometheus.query("up")] == [({"a": "b"}, 1.5)]
    assert prometheus.now() == CLOCK
    assert [asked["query"] for asked in told.asked] == ["time()", "up", "up"]
    assert {asked["time"] for asked in told.asked[1:]} == {f"{CLOCK:.3f}"}
    assert all(0 < float(asked["timeout"]) <= 5 for asked in told.asked)


def test_values_over_time_are_asked_for_as_of_the_same_moment(told: Told) -> None:
    rows = [{"metric": {"a": "b"}, "values": [[600, "1.5"], [900, "+Inf"]]}]
    prometheus = asking(told)
    prometheus.now()
    told.say = lambda handler: handler.good({"resultType": "matrix", "result": rows})
    (line,) = prometheus.over("up", 3600, 300)
    assert (line.labels, line.values) == ({"a": "b"}, {600.0: 1.5, 900.0: float("inf")})
    grid = {"start": f"{int(CLOCK) - 3300}", "end": f"{int(CLOCK)}", "step": "300"}
    # VictoriaMetrics moves the times of a long answer, unless it is told not to.
    assert told.asked[-1].items() >= {"query": "up", "nocache": "1", **grid}.items()


@pytest.mark.parametrize("row", [{"metric": {}}, {"metric": {"a": 1}, "values": []}, {"metric": {}, "values": [[1]]}])
def test_values_over_time_that_are_none_are_an_error(told: Told, row: object) -> None:
    prometheus = asking(told)
    prometheus.now()
    told.say = lambda handler: handler.good({"resultType": "matrix", "result": [row]})
    with pytest.raises(PlimsollError, match="Prometheus"):
        prometheus.over("up", 3600, 300)


def test_a_time_that_is_a_vector_as_of_victoriametrics_is_the_time(told: Told) -> None:
    row = {"metric": {}, "value": [int(CLOCK), str(CLOCK - 30)]}
    told.say = lambda handler: handler.good({"resultType": "vector", "result": [row]})
    assert asking(told).now() == CLOCK - 30


@pytest.mark.parametrize("result", [[], [{"metric": {}}], [{"metric": {}, "value": ["1"]}], {}])
def test_a_vector_without_a_time_is_refused(told: Told, result: object) -> None:
    told.say = lambda handler: handler.good({"resultType": "vector", "result": result})
    with pytest.raises(Rejected, match="the answer is not Prometheus"):
        asking(told).now()


STEPS = Steps(600, 300, 3)


def columns(told: Told, *values: object, **more: object) -> list[list[float]]:
    prometheus = asking(told)
    prometheus.now()
    rows = [{"metric": {"a": "b"}, "values": each} for each in values]
    told.say = lambda handler: handler.good({"resultType": "matrix", "result": rows}, **more)
    answer = prometheus.columns("up", STEPS.first, STEPS.last, STEPS.seconds, STEPS.column)
    assert [labels for labels, _ in answer] == [{"a": "b"}] * len(values)
    return [column.tolist() for _, column in answer]


def test_columns_have_what_is_there_and_nothing_else_is_a_number(told: Told) -> None:
    values = [[[600, "1.5"], [1200, "3e2"]], [[600, "NaN"], [900, "+Inf"], [1200, "-1"]], []]
    assert str(columns(told, *values)) == "[[1.5, nan, 300.0], [nan, nan, nan], [nan, nan, nan]]"
    assert told.asked[-1].items() >= {"start": "600", "end": "1200", "step": "300", "nocache": "1"}.items()


@pytest.mark.parametrize(
    "values", [[[600, "word"]], [[600]], [[600, "1", "2"]], [[500, "1"]], [[1500, "1"]], 7, None]
)
def test_columns_of_another_shape_are_refused(told: Told, values: object) -> None:
    with pytest.raises(Rejected, match="the answer is not Prometheus"):
        columns(told, values)


# --- what goes wrong -------------------------------------------------------------------------------------


def page(status: int, content: bytes = b"<html>no</html>", **headers: str) -> Callable[[Handler], None]:
    return lambda handler: handler.say(status, content, headers)


def error(status: int, kind: str, words: str) -> Callable[[Handler], None]:
    content = json.dumps({"status": "error", "errorType": kind, "error": words}).encode()
    return page(status, content)


def cut_off(handler: Handler) -> None:
    handler.say(200, b'{"status": "succ', length=4000)


@pytest.mark.parametrize(
    ("say", "kind", "words"),
    [
        (page(401), Rejected, "requires a token (401); correct [prometheus] token_file"),
        (page(403), Rejected, "(403)"),
        (page(404), Rejected, "is not Prometheus; check it"),
        (page(302, Location="https://login.example/?secret"), Rejected, "redirects (302)"),
        (page(401, b"no org id\n"), Rejected, "requires a tenant (401): no org id; give the address of a gateway"),
        (page(401, b"missing header\x1b"), Rejected, "requires a token (401): missing header?; correct [prom"),
        (page(503), Unreachable, "server error (503); try again later"),
        (page(503, b"Service Unavailable"), Unreachable, "server error (503): Service Unavailable; try again later"),
        (error(503, "unavailable", "TSDB not ready\x1b[2J"), Unreachable, "(503): TSDB not ready?[2J; try"),
        (error(503, "timeout", "query timed out"), DeadlineExceeded, "no answer within 5 s"),
        (error(422, "execution", "too many samples"), Rejected, "cannot answer (422): too many samples"),
        (page(429), Unreachable, "too many requests (429)"),
        (page(200), Rejected, "the answer is not Prometheus"),
        (page(200, b"[]"), Rejected, "the answer is not Prometheus"),
        (page(200, b"[" * 100_000), Rejected, "the answer is not Prometheus"),
        (page(200, b'{"status": "success", "data": []}'), Rejected, "the answer is not Prometheus"),
        (cut_off, Unreachable, "the answer was cut off"),
    ],
)
def test_what_goes_wrong_is_one_line_that_says_where(
    told: Told, say: Callable[[Handler], None], kind: type[PlimsollError], words: str
) -> None:
    told.say = say
    with pytest.raises(kind) as raised:
        asking(told).query("up")
    assert words in str(raised.value)
    assert str(raised.value).startswith(told.url)
    assert str(raised.value).isprintable()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [
        {"resultType": "vector", "result": [{"metric": {}, "value": [0, "word"]}]},
        {"resultType": "vector", "result": [{"metric": {}, "value": [0, None]}]},
        {"resultType": "vector", "result": [{"metric": {"a": 1}, "value": [0, "1"]}]},
        {"resultType": "vector", "result": [{"metric": [], "value": [0, "1"]}]},
        {"resultType": "matrix", "result": [{"metric": {}, "values": [[0, "1"]]}]},
        {"resultType": "vector", "result": 7},
        {"resultType": "vector"},
        {"resultType": "string", "result": [0, "word"]},
    ],
)
def test_answers_of_another_shape_are_refused(told: Told, data: object) -> None:
    prometheus = asking(told)
    prometheus.now()
    told.say = lambda handler: handler.good(data)
    with pytest.raises(Rejected, match="the answer is not Prometheus"):
        prometheus.query("up")


def test_one_that_is_not_there_is_said_with_what_to_do(told: Told) -> None:
    gone = Prometheus("http://127.0.0.1:1", token_file=None, ca_file=None, deadline=5)
    with pytest.raises(Unreachable, match=r"^http://127.0.0.1:1: connection refused; .* an option of this command$"):
        gone.now()


def test_the_deadline_is_for_all_queries_together_even_if_bytes_keep_coming(told: Told) -> None:
    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        with suppress(OSError):
            for _ in range(100):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.05)

    prometheus = asking(told, deadline=1.5)
    prometheus.now()
    told.say = drip
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(DeadlineExceeded, match=r"no answer within 1.5 s; .*\[prometheus\] deadline"):
            prometheus.query("up")
    assert time.monotonic() - began < 3.5


def test_queries_that_each_are_in_time_do_not_add_up_beyond_the_deadline(told: Told) -> None:
    prometheus = asking(told, deadline=2)
    prometheus.now()

    def slowly(handler: Handler) -> None:
        time.sleep(0.5)
        with suppress(BrokenPipeError):  # nobody waits for the last one
            handler.good({"resultType": "vector", "result": []})

    told.say = slowly
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        collections.deque((prometheus.query("up") for _ in range(6)), maxlen=0)
    assert time.monotonic() - began < 3


def test_an_answer_without_end_is_not_read_to_its_end(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll_monitoring.adapters.prometheus._MOST_BYTES", 10_000)
    told.say = page(200, b" " * 200_000)
    with pytest.raises(Rejected, match="longer than 10000 bytes"):
        asking(told).now()


def test_what_stands_in_a_redirect_is_not_read(told: Told) -> None:
    def without_end(handler: Handler) -> None:
        handler.say(302, b"", {"Location": "/"}, length=2**40)
        handler.rfile.read(1)  # until the other side hangs up

    told.say = without_end
    with pytest.raises(Rejected, match=r"redirects \(302\)"):
        asking(told, deadline=2).now()


def test_an_answer_that_is_not_whole_is_shown_and_ends_with_1(told: Told, tmp_path: Path) -> None:
    def partly(handler: Handler) -> None:
        if told.asked[-1]["query"] == "time()":
            return handler.good({"resultType": "scalar", "result": [CLOCK, str(CLOCK)]})
        of = {"region": "r1", "instance": "n1"}
        row = {"metric": of, "value": [CLOCK, str(CLOCK - 60)]}
        words = ["store gone\x1b[2J", "PromQL info: metric might not be a counter"]
        return handler.good({"resultType": "vector", "result": [row]}, warnings=words)

    told.say = partly
    done = ran(RegionStatus, tmp_path, "--prometheus", told.url)
    assert done.status == 1
    assert done.err == f"{told.url}: the answer is incomplete: store gone?[2J\n"
    assert "nodes      1" in done.out


def test_what_is_missing_in_an_answer_that_is_not_whole_is_not_told_as_the_nodes_fault_alone(
    told: Told, tmp_path: Path
) -> None:
    def partly(handler: Handler) -> None:
        if told.asked[-1]["query"] == "time()":
            return handler.good({"resultType": "scalar", "result": [CLOCK, str(CLOCK)]})
        return handler.good({"resultType": "vector", "result": []}, warnings=["store gone"])

    told.say = partly
    done = ran(RegionStatus, tmp_path, "--prometheus", told.url)
    assert done.status == 1
    first, *others = done.err.splitlines()
    assert first == f"{told.url}: the answer is incomplete: store gone"
    assert others[0].startswith(f"{told.url}: no metrics of plimsoll"), others


@pytest.mark.parametrize("partial", [True, False])
def test_an_answer_that_is_partial_as_of_victoriametrics_is_not_whole(told: Told, partial: bool) -> None:
    prometheus = asking(told)
    prometheus.now()
    told.say = lambda handler: handler.good({"resultType": "vector", "result": []}, isPartial=partial)
    prometheus.query("up")
    words = (f"{told.url}: the answer is incomplete: a storage node did not answer",) if partial else ()
    assert prometheus.warnings == words
    told.say = lambda handler: handler.good({"resultType": "matrix", "result": []}, isPartial=partial)
    others = asking(told)
    others.columns("up", STEPS.first, STEPS.last, STEPS.seconds, STEPS.column)
    assert others.warnings == words


def test_the_past_of_a_live_screen_is_told_as_incomplete_where_an_answer_is(told: Told) -> None:
    told.say = lambda handler: handler.good({"resultType": "matrix", "result": []}, isPartial=True)
    whole = config.load([], [])
    settings = replace(whole, prometheus=replace(whole.prometheus, url=told.url))
    earlier = Top.earlier(cast(Any, None), argparse.Namespace(prometheus=""), settings)
    assert earlier is not None
    steps, trouble = earlier([a_disk()], datetime.fromtimestamp(CLOCK, UTC))
    assert (list(steps), trouble) == ([], f"{told.url}: the answer is incomplete: a storage node did not answer")


# --- whom the token goes to ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "sent"),
    [(f"{TOKEN}\n", f"Bearer {TOKEN}"), ("Basic dTpw", "Basic dTpw"), (f" {TOKEN} ", f"Bearer {TOKEN}")],
)
def test_the_token_of_the_file_is_sent(told: Told, token: Path, written: str, sent: str) -> None:
    token.write_text(written)
    asking(told, token).now()
    assert told.authorized == [sent]


def test_the_token_goes_over_tls_to_whom_the_ca_file_trusts(tmp_path: Path, token: Path) -> None:
    with serving(tmp_path, tls=True) as told:
        asking(told, token, told.ca).now()
        assert told.authorized == [f"Bearer {TOKEN}"]
        with pytest.raises(Unreachable, match="certificate not trusted"):
            asking(told, token).now()
        assert len(told.authorized) == 1


def test_the_token_does_not_follow_to_where_the_server_sends_us(told: Told, token: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other") as other:
        told.say = page(307, Location=f"{other.url}/api/v1/query")
        with pytest.raises(Rejected) as raised:
            asking(told, token).now()
        assert other.authorized == []
        assert TOKEN not in str(raised.value)


def test_no_password_is_taken_from_the_home_directory(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login root password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    asking(told).now()
    assert told.authorized == [None]


def test_what_goes_to_this_host_goes_through_no_proxy(
    told: Told, token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    asking(told, token).now()
    assert told.authorized == [f"Bearer {TOKEN}"]


def test_the_token_of_the_settings_is_not_for_another_prometheus(told: Told, token: Path, tmp_path: Path) -> None:
    settings = f"url = http://localhost:1\ntoken_file = {token}"
    ran(RegionStatus, tmp_path, "--prometheus", told.url, settings=settings)
    assert set(told.authorized) == {None}
    told.authorized.clear()
    ran(RegionStatus, tmp_path, "--prometheus", f"{told.url}/", settings=f"url = {told.url}\ntoken_file = {token}")
    assert set(told.authorized) == {f"Bearer {TOKEN}"}
    told.authorized.clear()
    ran(RegionStatus, tmp_path, "--prometheus", told.url, settings=f"token_file = {token}")
    assert set(told.authorized) == {f"Bearer {TOKEN}"}
