"""The settings: what is shipped, what comes before what, and what is told of a mistake."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.config.options import FollowMode
from plimsoll_agent.config.oslo import types
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.monitor.thresholds import SHIPPED, Thresholds
from plimsoll_agent.reconcile.health_gate import BlockingCheck
from plimsoll_agent.util.frozen import names
from tests import golden
from tests.unit.nobody import as_nobody

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OS_"):
            monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "plimsoll.conf"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def load(path: Path) -> Settings:
    return config.load([path], [])


def faults(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load(path)
    return [line.removeprefix(f"{path.parent}/") for line in str(error.value).splitlines()]


def test_what_is_shipped_writes_nothing_and_spares_libvirtd() -> None:
    settings = config.load([], [])
    assert settings.mode == "observe"
    assert not settings.mode_chosen
    assert settings.uri == "qemu:///system"
    assert settings.bounds.at_once <= 4
    assert 0 < settings.deadline <= 60
    assert (settings.brake.disks, settings.brake.percent, settings.brake.factor) == (5, 20, 10)
    assert settings.ceph.blocking_checks, "the gate is shut while one of these is raised, not open for all"
    shipped = ", ".join(map(str, settings.ceph.blocking_checks))
    assert shipped == "PG_AVAILABILITY, SLOW_OPS, OSD_FULL, POOL_FULL, PG_*_FULL, OSD_DOWN > 1%"
    assert settings.pause_file == Path("/etc/plimsoll/paused")


@pytest.mark.parametrize("closed", ["plimsoll", "plimsoll/plimsoll.conf.d", "plimsoll/plimsoll.conf"])
def test_settings_that_may_not_be_read_are_not_taken_for_none(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as name:  # tmp_path is closed to others
        home = Path(name) / "plimsoll"
        (home / "plimsoll.conf.d").mkdir(parents=True)
        (home / "plimsoll.conf").write_text("[DEFAULT]\nmode = enforce\n")
        (home / "plimsoll.conf.d/own.conf").write_text("[DEFAULT]\nrounds = 3\n")
        monkeypatch.setattr(config, "CONFIG_FILE", home / "plimsoll.conf")
        monkeypatch.setattr(config, "CONFIG_DIR", home / "plimsoll.conf.d")
        home.parent.chmod(0o755)
        with as_nobody():
            assert (config.load().mode, config.load().rounds) == ("enforce", 3)
        (home.parent / closed).chmod(0)
        told = f"^{home}/plimsoll.conf.*: cannot be read: Permission denied; add this user to its group"
        with as_nobody(), pytest.raises(ConfigError, match=told):
            config.load()
        (home.parent / closed).chmod(0o700)


def test_settings_are_read_from_a_file(file: Write) -> None:
    text = """\
[DEFAULT]
mode = enforce
rules_file = $state_dir/rules.yaml
state_dir = /srv/plimsoll
[libvirt]
uri = qemu+unix:///system?socket=/run/libvirt/virtqemud-sock
deadline = 2.5
calls_at_once = 2
"""
    settings = load(file(text))
    assert (settings.mode, settings.mode_chosen) == ("enforce", True)
    assert settings.rules_file == Path("/srv/plimsoll/rules.yaml")
    assert settings.state_dir == Path("/srv/plimsoll")
    assert settings.uri == "qemu+unix:///system?socket=/run/libvirt/virtqemud-sock"
    assert settings.deadline == 2.5
    assert settings.bounds.at_once == 2


def test_times_and_sizes_may_have_units(file: Write) -> None:
    settings = load(file("[catalogue]\ninterval = 15m\n[probe]\nfile_size = 1.5GiB\nblock_size = 16384\nlate = 1h\n"))
    assert settings.catalogue.interval == 900
    assert (settings.probe.file_size, settings.probe.block_size, settings.probe.late) == (3 * 2**29, 16384, 3600)


@pytest.mark.parametrize(
    ("written", "checks"),
    [
        ("PG_*, OSD_SLOW_PING_TIME_?ACK, X2", ("PG_*", "OSD_SLOW_PING_TIME_?ACK", "X2")),
        ("OSD_DOWN>2%,SLOW_OPS > 20", ("OSD_DOWN > 2%", "SLOW_OPS > 20")),
        ("", ()),
    ],
)
def test_blocking_checks_are_patterns_or_none_at_all(file: Write, written: str, checks: tuple[str, ...]) -> None:
    assert load(file(f"[ceph]\nblocking_checks = {written}\n")).ceph.blocking_checks == tuple(
        map(BlockingCheck.read, checks)
    )


def test_the_checks_that_are_shipped_may_be_written_down(file: Write) -> None:
    shipped = config.load([], []).ceph.blocking_checks
    assert load(file(f"[ceph]\nblocking_checks = {','.join(map(str, shipped))}\n")).ceph.blocking_checks == shipped


def test_each_setting_is_listed_with_its_origin_and_no_secret(
    tmp_path: Path, file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/10.conf").write_text("\n[libvirt]\ndeadline = 5.0\n")
    main = file(
        "[libvirt]\ndeadline = 1\n[probe]\nlate = 1h\ncoordination = etcd3+http://host:2379\n"
        "[prometheus]\nurl = http://me:pass@host:9090\n[ceph]\nconf_files = /a, /b\n"
        "[congestion]\nfiles = /srv/a.json, https://me:pass@host/b.json\n"
    )
    monkeypatch.setenv("OS_DEFAULT__MODE", "enforce")
    listed = {(each.section, each.name): each for each in config.listed([main], [tmp_path / "d"])}
    assert list(listed) == [
        (section, option.dest) for section, options in config.list_options() for option in options
    ]
    shown = {
        name: (each.value, each.origin, each.changed)
        for (_, name), each in listed.items()
        if each.origin != "default"
    }
    assert shown == {
        "mode": ("enforce", "environment: OS_DEFAULT__MODE", True),
        "deadline": (5.0, f"{tmp_path}/d/10.conf:3", False),
        "late": (3600, f"{main}:4", True),
        "coordination": ("****", f"{main}:5", True),
        "url": ("http://****@host:9090", f"{main}:7", True),
        "conf_files": (["/a", "/b"], f"{main}:9", True),
        "files": (["/srv/a.json", "https://****@host/b.json"], f"{main}:11", True),
    }


def test_a_mode_that_was_said_is_chosen_even_where_it_is_the_default(file: Write) -> None:
    assert load(file("[DEFAULT]\nmode = observe\n")).mode_chosen


def test_files_of_the_directory_come_after_the_file_in_the_order_of_their_names(tmp_path: Path, file: Write) -> None:
    (tmp_path / "d").mkdir()
    for name, deadline in (("20-b.conf", 3), ("10-a.conf", 2), ("30-c.conf.bak", 9), (".ansible_tmp30.conf", 9)):
        (tmp_path / "d" / name).write_text(f"[libvirt]\ndeadline = {deadline}\n")
    (tmp_path / "d/.#20-b.conf").symlink_to("me@host.1234")  # Emacs, while it edits 20-b.conf
    main = file("[libvirt]\ndeadline = 1\ncalls_at_once = 3\n")
    settings = config.load([main], [tmp_path / "d"])
    assert settings.deadline == 3
    assert settings.bounds.at_once == 3, "what the directory does not say stays"


def test_the_environment_comes_before_the_files(file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file("[DEFAULT]\nmode = enforce\n[libvirt]\nuri = a:///\n")
    monkeypatch.setenv("OS_DEFAULT__MODE", "observe")
    monkeypatch.setenv("OS_LIBVIRT__URI", "b:///")
    assert (load(path).mode, load(path).uri) == ("observe", "b:///")


def test_a_mode_from_the_environment_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_DEFAULT__MODE", "enforce")
    assert config.load([], []).mode_chosen


def test_a_bad_value_in_the_environment_is_told_with_the_name_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OS_LIBVIRT__DEADLINE", "soon")
    with pytest.raises(ConfigError, match=r"OS_LIBVIRT__DEADLINE.*soon"):
        config.load([], [])


def test_each_mistake_is_the_line_of_the_golden_file(file: Write) -> None:
    golden.transcript("settings_faults.txt", lambda _, text: "\n".join(faults(file(f"{text}\n"))))


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path, file: Write) -> None:
    (tmp_path / "d").mkdir()
    for name in "cfabed":
        (tmp_path / "d" / f"{name}.conf").write_text("[libvirt]\nuir = x\n")
    main = file("[DEFAULT]\nmoed = x\n[libvirt]\ndeadline = x\n")
    with pytest.raises(ConfigError) as error:
        config.load([main], [tmp_path / "d"])
    places = [line.split(": ")[0].removeprefix(f"{tmp_path}/") for line in str(error.value).splitlines()]
    assert places == ["plimsoll.conf:2", "plimsoll.conf:4", *(f"d/{name}.conf:2" for name in "abcdef")]


@pytest.mark.parametrize("path", ["paused", "run/paused", ""])
@pytest.mark.parametrize("name", ["rules_file", "state_dir", "pause_file"])
def test_a_path_that_depends_on_the_directory_of_the_command_is_refused(file: Write, name: str, path: str) -> None:
    with pytest.raises(ConfigError, match=rf"\[DEFAULT\] {name}: must be an absolute path"):
        load(file(f"[DEFAULT]\n{name} = {path}\n"))


@pytest.mark.parametrize(
    "text", ["[DEFAULT]\nrules_file = /$nowhere/r.yaml\n", "[libvirt]\nuri = qemu:///$nowhere\n"]
)
def test_a_name_that_stands_for_nothing_is_a_config_error_that_says_which(file: Write, text: str) -> None:
    with pytest.raises(ConfigError, match=r"\$nowhere refers to no setting"):
        load(file(text))
    assert load(file(text.replace("$", "$$"))), "a plain $"


def test_a_file_or_directory_that_was_named_must_be_there(tmp_path: Path, file: Write) -> None:
    with pytest.raises(ConfigError, match=r"absent\.conf: no such file"):
        config.load([tmp_path / "absent.conf"], [])
    with pytest.raises(ConfigError, match=r"absent\.d: is not a directory"):
        config.load([], [tmp_path / "absent.d"])
    binary = file("")
    binary.write_bytes(b"[DEFAULT]\nmode = \xff\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(binary)


OPTIONS = [(group, option) for group, options in config.list_options() for option in options]


def another(option: Any) -> str:
    """A value that an option may have, and by default has not."""
    kind = option.type
    if option.name == "blocking_checks":
        return "OSD_DOWN"
    if option.name.endswith(("_warning", "_critical")):
        return "3:5"
    if option.name.endswith(("_label", "_labels")):
        return "another"
    if isinstance(kind, FollowMode):
        return "enforce"
    if isinstance(kind, types.Dict):
        return "gold:5ms"
    if isinstance(kind, types.Boolean):
        return str(not option.default)
    if isinstance(kind, types.Number):
        numbers = (2 * option.default, option.default + 1, option.default - 1)  # a file is of whole blocks
        return str(next(one for one in numbers if one != option.default and (kind.max is None or one <= kind.max)))
    others = [choice for choice in getattr(kind, "choices", None) or () if choice != option.default]
    return others[0] if others else "/another"


def leaves(settings: object, above: str = "") -> dict[str, object]:
    """Each value by its place in the settings."""
    if hasattr(settings, "__struct_fields__"):
        inner = {name: getattr(settings, name) for name in names(settings)}
    elif isinstance(settings, Mapping):
        inner = dict(settings)
    else:
        return {above: settings}
    return {place: value for name, each in inner.items() for place, value in leaves(each, f"{above}.{name}").items()}


def place_of(group: str, name: str) -> str:
    """Where an option's value belongs."""
    if group == "health":
        measure, _, level = name.rpartition("_")
        return f".health.{measure}.{level}"
    if group == "prometheus" and name.endswith(("_label", "_labels")):
        return f".{group}.labels.{name.partition('_')[0]}"
    if name == "calls_at_once":
        return ".bounds.at_once"
    if group == "region" and name.startswith("brake_"):
        return f".region.brake.{name.removeprefix('brake_')}"
    return f".{name}" if group in ("DEFAULT", "libvirt") else f".{group}.{name}"


def test_each_option_explains_itself_and_changes_its_own_place_in_the_settings(file: Write) -> None:
    shipped = leaves(config.load([], []))
    changed = set()
    for group, option in OPTIONS:
        found = leaves(load(file(f"[{group}]\n{option.name} = {another(option)}\n")))
        places = {place for place in shipped if found[place] != shipped[place]} - {".mode_chosen"}
        also = {".health.catalogue_age.warning"} if option.name == "stale_after" else set()
        assert places == {place_of(group, option.name)} | also
        changed |= places
        assert option.help, option.name
    # What plimsoll approve says, and whether an operator chose the mode: no settings.
    assert shipped.keys() - changed == {".brake.approvals", ".mode_chosen"}


def test_congestion_is_enforced_by_cluster(file: Write) -> None:
    one, other = "4b5c8c0a-0000-4000-8000-000000000001", "4b5c8c0a-0000-4000-8000-000000000002"
    for text, enforced in (
        ("observe", []),
        ("enforce", [one, other]),
        (f"{one}:enforce", [one]),
        (f"enforce, {one}:observe", [other]),
    ):
        congestion = load(file(f"[congestion]\nmode = {text}\n")).congestion
        assert [fsid for fsid in (one, other) if congestion.enforces(fsid)] == enforced
    for wrong in ("on", "ssd:enforce", f"{one}:on", "observe, enforce", ""):
        with pytest.raises(ConfigError, match="mode"):
            load(file(f"[congestion]\nmode = {wrong}\n"))


def test_a_threshold_that_is_no_range_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "plimsoll.conf"
    for wrong in ("10:5", "-1", "soon", "1e3", ":", "@", "5;10"):
        file.write_text(f"[health]\npass_age_warning = {wrong}\n")
        with pytest.raises(ConfigError, match=r"plimsoll\.conf:2: .health. pass_age_warning: .*is not a range"):
            config.load([file], [])


def test_thresholds_are_those_of_the_settings_and_else_the_shipped_ones(tmp_path: Path) -> None:
    file = tmp_path / "plimsoll.conf"
    file.write_text("[health]\npass_age_warning = @10:20\npass_age_critical =\n")
    health = config.load([file], []).health
    assert health == SHIPPED | {"pass_age": Thresholds("@10:20", "")}
