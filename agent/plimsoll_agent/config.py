"""The settings: one row an option, read by oslo.config from files, environment and command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from oslo_config import cfg, iniparser, types

from plimsoll_agent.brake import Brake
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.gate import BLOCKING_CHECKS, BlockingCheck
from plimsoll_agent.measures import MEASURES, Measure, Thresholds, checked_range
from plimsoll_agent.probesettings import ProbeSettings
from plimsoll_agent.regionbrake import RegionBrake
from plimsoll_agent.retention import Retention
from plimsoll_agent.rules import directory_of
from plimsoll_agent.write import Bounds

CONFIG_FILE = Path("/etc/plimsoll/plimsoll.conf")
RULES_FILE = Path("/etc/plimsoll/rules.yaml")
CONFIG_DIR = Path("/etc/plimsoll/plimsoll.conf.d")
_PLACES = ("directory", "credentials_file", "region_key")


class _Range(types.String):
    """What Nagios calls a range, or nothing."""

    def __call__(self, value: str) -> str:
        return checked_range(super().__call__(value))


class _Check(types.String):
    """A blocking check, in the one way to write it."""

    def __call__(self, value: str) -> str:
        return str(BlockingCheck.read(super().__call__(value)))


def _threshold(measure: Measure, level: str) -> Any:
    shipped = {"warning": measure.warning, "critical": measure.critical}[level]
    what = f"A {level} where this is outside the range: {measure.what}. As Nagios writes ranges; empty for never."
    return cfg.Opt(f"{measure.name}_{level}", type=_Range(), default=shipped, help=what)


OPTIONS: Mapping[str, Sequence[Any]] = {
    "DEFAULT": (
        cfg.StrOpt(
            "mode",
            default="observe",
            choices=[
                ("observe", "say what would be changed, and change nothing"),
                ("enforce", "put the wanted limits in force"),
            ],
            help="What a pass does. The shipped mode is observe: that plimsoll writes is the operator's decision.",
        ),
        cfg.StrOpt(
            "rules_file",
            default=str(RULES_FILE),
            help="The rules: which disks get which limits. Read at every pass.",
        ),
        cfg.StrOpt(
            "state_dir",
            default="/var/lib/plimsoll",
            help="Where the record of changes and the memory of what was wanted are kept.",
        ),
        cfg.StrOpt(
            "pause_file",
            default="/etc/plimsoll/paused",
            help="While this file is there, no limit is written: see plimsoll pause.",
        ),
        cfg.IntOpt(
            "rounds",
            default=5,
            min=1,
            help="So often in a row, a day at the most from one to the next, a limit that somebody else changes is"
            " put back. Then it is left as they have it, which every pass reports.",
        ),
    ),
    "record": (
        cfg.IntOpt(
            "keep_days",
            default=Retention().keep_days,
            min=31,
            max=36600,
            help="Days that entries of the record are kept. The newest change of each disk stays, and so do changes"
            " whose result is not known yet.",
        ),
        cfg.IntOpt(
            "keep_mib",
            default=Retention().keep_mib,
            min=1,
            help="MiB that the record may take; the oldest entries go first.",
        ),
    ),
    "brake": (
        cfg.IntOpt(
            "disks",
            default=Brake().disks,
            min=0,
            help="So many disks may be released, loosened, or cut by more than half in one pass without a person's"
            " approval, because something else is wanted of them. The larger of disks and percent counts.",
        ),
        cfg.IntOpt(
            "percent", default=Brake().percent, min=0, max=100, help="The same, in percent of the disks of this node."
        ),
        cfg.IntOpt(
            "factor",
            default=Brake().factor,
            min=2,
            max=10**6,
            help="A single disk needs an approval, whatever the number of others, for a cut by this factor or more:"
            " with 10, from 500 to 50 and less. So does a removal of its limits.",
        ),
    ),
    "ceph": (
        cfg.ListOpt(
            "conf_files",
            default=["/etc/ceph/ceph.conf"],
            help="A ceph.conf for each cluster that guests have disks on. Its mon_host must name the monitors as"
            " the guests' definitions do; what is on another cluster is never loosened.",
        ),
        cfg.StrOpt(
            "id",
            default="plimsoll",
            help="The client that asks for the health of a cluster: plimsoll for client.plimsoll. It needs no more"
            " than mon 'allow r', and its keyring where Ceph looks for it.",
        ),
        cfg.FloatOpt("deadline", default=10.0, min=1.0, max=120.0, help="Seconds that Ceph has to answer in."),
        cfg.ListOpt(
            "blocking_checks",
            item_type=_Check(),
            default=[str(check) for check in BLOCKING_CHECKS],
            help="While one of these health checks is raised on a disk's cluster, no limit is raised or removed"
            " there. A name or a pattern (PG_*_FULL), with a number above which it blocks (SLOW_OPS > 20), for"
            " OSD_DOWN in percent of all OSDs too (OSD_DOWN > 1%). When empty, Ceph is never asked.",
        ),
    ),
    "catalogue": (
        cfg.StrOpt(
            "source",
            default="none",
            choices=[
                (
                    "none",
                    "nobody is asked: limits come from the rules, and from flavors where the definition has them",
                ),
                ("openstack", "this node asks Cinder and Nova itself, with credentials of its own"),
                ("region-file", "this node reads a signed file that one machine of the region makes for all"),
            ],
            help="Where volume types, QoS specs and flavors come from. A pass itself asks nobody: it reads what"
            " plimsoll catalogue refresh has fetched.",
        ),
        cfg.StrOpt(
            "directory",
            default="/var/lib/plimsoll-catalogue",
            help="Where plimsoll catalogue refresh keeps what it fetched. It must be able to write there, and to read"
            " state_dir; a pass only reads it.",
        ),
        cfg.IntOpt(
            "keep_for",
            default=0,
            min=0,
            help="After so many seconds without a word from the source, what it said last counts no more, and the"
            " disks that hang on it are left as they are. 0: it counts for as long as the outage takes.",
        ),
        cfg.IntOpt(
            "old_after",
            default=7200,
            min=1,
            help="After so many seconds without a word from the source every pass says so, and ends with status 3.",
        ),
        cfg.IntOpt(
            "interval",
            default=900,
            min=60,
            help="Seconds after which volume types and QoS specs, or the region file, are asked for again.",
        ),
        cfg.FloatOpt(
            "deadline",
            default=60.0,
            min=1.0,
            max=3600.0,
            help="Seconds that one plimsoll catalogue refresh may take in all; with --region-file, each of its"
            " calls.",
        ),
        cfg.StrOpt(
            "cloud",
            default="",
            help="The cloud in clouds.yaml that plimsoll catalogue refresh uses. When empty,"
            " credentials_file is read.",
        ),
        cfg.StrOpt(
            "credentials_file",
            default="/etc/plimsoll/openstack.conf",
            help="A file with one section, [openstack], of keystoneauth's settings (auth_type, auth_url and so on)."
            " Only the user of plimsoll catalogue refresh needs to read it; a pass never does.",
        ),
        cfg.StrOpt(
            "host",
            default="",
            help="What Nova calls this node ([DEFAULT] host of its nova.conf). When empty, the node's own host name.",
        ),
        cfg.BoolOpt(
            "nova",
            default=True,
            help="Ask Nova too, for the flavors of guests whose definition does not tell the extra specs (made by"
            " Nova before 2025.2, and not started anew since).",
        ),
        cfg.StrOpt(
            "region_file",
            default="",
            help="The region's file: a path, or an https URL. Its signature is expected beside it, with .sig after"
            " its name.",
        ),
        cfg.StrOpt(
            "region_key",
            default="/etc/plimsoll/region.pub",
            help="The public ed25519 key (PEM) that the region's file must be signed with.",
        ),
    ),
    "region": (
        cfg.StrOpt(
            "file",
            default="",
            help="The region's file that this machine makes: what plimsoll region approve, pause and hold are about."
            " The same path as in plimsoll catalogue refresh --region-file.",
        ),
        cfg.IntOpt(
            "brake_volumes",
            default=RegionBrake().volumes,
            min=0,
            help="Of so many attached volumes of the region an edit of QoS specs and types may raise the limits, or"
            " cut them to less than half, without plimsoll region approve. The larger of brake_volumes and"
            " brake_percent counts. An edit that removes the limits of one of them, or cuts them to a tenth or less,"
            " needs it always.",
        ),
        cfg.IntOpt(
            "brake_percent",
            default=RegionBrake().percent,
            min=0,
            max=100,
            help="The same, in percent of the attached volumes of the region.",
        ),
    ),
    "probe": (
        cfg.StrOpt(
            "directory",
            default="/var/tmp",  # noqa: S108  # inside guests, and below it a directory that nobody else can enter
            help="Where a probe makes its file inside the guest, unless the rule says another place. What it makes"
            " there is removed afterwards.",
        ),
        cfg.IntOpt("seconds", default=30, min=1, max=3600, help="How long each job lasts."),
        cfg.IntOpt(
            "file_size",
            default=2**30,
            min=2**20,
            max=2**40,
            help="Bytes of the file. It is written once before the jobs of a guest begin.",
        ),
        cfg.IntOpt("block_size", default=16384, min=512, max=2**24, help="Bytes of a request."),
        cfg.IntOpt("io_depth", default=2, min=1, max=1024, help="Requests in flight of each process."),
        cfg.IntOpt(
            "processes",
            default=4,
            min=1,
            max=64,
            help="Processes that make requests, each on a processor of its own where the guest has as many.",
        ),
        cfg.IntOpt("read_percent", default=50, min=1, max=99, help="Reads among the requests of the mixed job."),
        cfg.StrOpt(
            "engine",
            default="auto",
            choices=[
                ("auto", "the first of these that the guest's fio has"),
                ("libaio", "Linux' native asynchronous I/O"),
                ("io_uring", "its successor"),
                ("posixaio", "asynchronous I/O of the C library"),
                ("psync", "pread and pwrite: one request a process, whatever io_depth says"),
            ],
            help="How fio makes its requests.",
        ),
        cfg.IntOpt(
            "keep_free",
            default=2**29,
            min=0,
            help="Bytes that must stay free on the guest's file system beside the file; else nothing is probed.",
        ),
        cfg.IntOpt(
            "grace",
            default=60,
            min=5,
            max=3600,
            help="Seconds that requests may take to end once a job's time is over. Then fio is killed, and what"
            " never ended is counted.",
        ),
        cfg.FloatOpt(
            "tolerance",
            default=5.0,
            min=0.1,
            max=50.0,
            help="Percent that a result may be off what the limit allows.",
        ),
        cfg.IntOpt("at_once", default=1, min=1, max=16, help="Guests of this node that are probed at the same time."),
        cfg.BoolOpt(
            "one_per_pool",
            default=False,
            help="Never two probes on one Ceph pool at the same time: on this node, and where coordination is set"
            " in the whole region.",
        ),
        cfg.IntOpt(
            "late",
            default=900,
            min=60,
            help="Seconds after its time that a probe may still begin. One that is missed is not made up for.",
        ),
        cfg.IntOpt("keep_days", default=90, min=1, max=3660, help="Days that results are kept."),
        cfg.IntOpt("keep_mib", default=256, min=1, help="MiB that results may take; the oldest go first."),
        cfg.StrOpt(
            "coordination",
            default="",
            secret=True,
            help="The etcd of the region: etcd3+http://HOST:2379, or etcd3+https://HOST:2379 with certificates as"
            " ?ca_cert=FILE&cert_cert=FILE&cert_key=FILE. With it no more than slots guests of the region are probed"
            " at the same time; where it does not answer, nobody begins. Needs the extra plimsoll-agent[region]."
            " When empty, each node goes by its own clock.",
        ),
        cfg.IntOpt(
            "slots", default=3, min=1, max=1000, help="Guests of the region that may be probed at the same time."
        ),
    ),
    "metrics": (
        cfg.StrOpt(
            "textfile_dir",
            default="",
            help="Where metrics are written for node_exporter, whose --collector.textfile.directory it is (Debian has"
            " /var/lib/prometheus/node-exporter). When empty, none are written, and disks' counters are not read.",
        ),
        cfg.StrOpt(
            "detail",
            default="disk",
            choices=[
                ("disk", "series for each disk and each probed guest"),
                ("aggregate", "sums over the node by volume type only, for large sites"),
            ],
            help="How much the metrics tell.",
        ),
    ),
    "health": tuple(_threshold(measure, level) for measure in MEASURES for level in ("warning", "critical")),
    "prometheus": (
        cfg.StrOpt(
            "url",
            default="",
            help="The Prometheus that has this region's metrics, for plimsoll region: http://HOST:9090.",
        ),
        cfg.StrOpt(
            "token_file",
            default="",
            help="A file with the bearer token for it, or with a scheme and its credentials (Basic dXNl...)."
            " It is sent over https only, or to this machine itself.",
        ),
        cfg.StrOpt(
            "ca_file", default="", help="The authority (PEM) that its certificate is from, if none of the system's."
        ),
        cfg.FloatOpt("deadline", default=10.0, min=0.1, max=300.0, help="Seconds that its answers may take in all."),
    ),
    "libvirt": (
        cfg.StrOpt(
            "uri",
            default="qemu:///system",
            help="How libvirt is reached. For a containerised libvirt or virtqemud name its socket:"
            " qemu+unix:///system?socket=/run/libvirt/virtqemud-sock",
        ),
        cfg.FloatOpt(
            "deadline",
            default=5.0,
            min=0.1,
            max=60.0,
            help="Seconds that a call into libvirt may take. After them its outcome is not known, and the guest is"
            " left alone until the next pass.",
        ),
        cfg.IntOpt(
            "calls_at_once",
            default=Bounds().at_once,
            min=2,
            max=4,
            help="Calls in flight at once. libvirtd by default serves 5 requests a connection with 20 workers, and"
            " Nova shares those.",
        ),
        cfg.IntOpt(
            "hung_guests",
            default=Bounds().hung_guests,
            min=1,
            help="After so many guests that do not answer in a pass, that pass writes no more limits.",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class CephSettings:
    """How clusters are asked for their health; ``deadline`` in seconds."""

    conf_files: tuple[Path, ...]
    id: str
    deadline: float
    blocking_checks: tuple[BlockingCheck, ...]


@dataclass(frozen=True, slots=True)
class CatalogueSettings:
    """Where the catalogue comes from and how long it counts; times in seconds."""

    source: str
    directory: Path
    keep_for: int
    old_after: int
    interval: int
    deadline: float
    cloud: str
    credentials_file: Path
    host: str
    nova: bool
    region_file: str
    region_key: Path


@dataclass(frozen=True, slots=True)
class RegionSettings:
    """The region's file that this machine makes, None where it makes none, and what its making stops."""

    file: Path | None
    brake: RegionBrake


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Where metrics go, None for nowhere, and how much they tell: ``disk`` or ``aggregate``."""

    textfile_dir: Path | None
    detail: str


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """How the region's Prometheus is asked; ``deadline`` in seconds, "" where there is nothing."""

    url: str
    token_file: str
    ca_file: str
    deadline: float


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force; ``mode_chosen`` tells that the operator said it, not the default."""

    mode: str
    mode_chosen: bool
    rules_file: Path
    state_dir: Path
    pause_file: Path
    rounds: int
    record: Retention
    brake: Brake
    ceph: CephSettings
    catalogue: CatalogueSettings
    region: RegionSettings
    probe: ProbeSettings
    metrics: MetricsSettings
    health: Mapping[str, Thresholds]
    """By the name of the measure."""
    prometheus: PrometheusSettings
    uri: str
    deadline: float
    bounds: Bounds


def list_options() -> list[tuple[str, list[Any]]]:
    """For oslo-config-generator and the reference page."""
    return [(group, list(options)) for group, options in OPTIONS.items()]


def load(files: Sequence[Path] | None = None, directories: Sequence[Path] | None = None) -> Settings:
    """Read the settings. Raises ``ConfigError``, a line for each fault with file, line and key.

    Without arguments the files are ``/etc/plimsoll/plimsoll.conf`` and ``plimsoll.conf.d/*.conf``, where they
    exist; the environment (``OS_LIBVIRT__URI``) comes before files.
    """
    chosen = [CONFIG_FILE] if files is None and CONFIG_FILE.exists() else list(files or ())
    folders = [CONFIG_DIR] if directories is None and CONFIG_DIR.is_dir() else list(directories or ())
    every = chosen + [file for folder in folders for file in sorted(folder.glob("*.conf"))]
    faults = [f"{folder}: is no directory" for folder in folders if not folder.is_dir()]
    faults += [fault for file in every for fault in _faults(file)]
    faults += _environment_faults()
    if faults:
        raise ConfigError("\n".join(faults))
    conf = cfg.ConfigOpts()
    for group, options in OPTIONS.items():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    try:
        conf(args=[], project="plimsoll", default_config_files=[str(file) for file in every], default_config_dirs=[])
        return _settings(conf)
    except cfg.NoSuchOptError as error:
        # oslo.config raises a second one over it, which blames the option that the $name stands in.
        culprit = error.__context__ if isinstance(error.__context__, cfg.NoSuchOptError) else error
        raise ConfigError(f"settings: ${culprit.opt_name} stands for no setting; a plain $ is written $$") from error
    except (cfg.Error, ValueError) as error:
        raise ConfigError(f"settings: {error}") from error


def _settings(conf: Any) -> Settings:
    if conf.region.file and not Path(conf.region.file).is_absolute():
        raise ValueError("[region] file: must be an absolute path")
    # Of what the refresher has to find as a pass does, who starts it elsewhere, as another user.
    for group, name in (("DEFAULT", "state_dir"), *(("catalogue", name) for name in _PLACES)):
        if not Path((conf if group == "DEFAULT" else conf[group])[name]).is_absolute():
            raise ValueError(f"[{group}] {name}: must be an absolute path")
    chosen = conf.get_location("mode")
    return Settings(
        mode=conf.mode,
        mode_chosen=chosen is not None and chosen.location is not cfg.Locations.opt_default,
        rules_file=Path(conf.rules_file),
        state_dir=Path(conf.state_dir),
        pause_file=Path(conf.pause_file),
        rounds=conf.rounds,
        record=Retention(conf.record.keep_days, conf.record.keep_mib),
        brake=Brake(conf.brake.disks, conf.brake.percent, conf.brake.factor),
        ceph=CephSettings(
            tuple(Path(file) for file in conf.ceph.conf_files),
            conf.ceph.id,
            conf.ceph.deadline,
            tuple(map(BlockingCheck.read, conf.ceph.blocking_checks)),
        ),
        catalogue=CatalogueSettings(
            source=conf.catalogue.source,
            directory=Path(conf.catalogue.directory),
            keep_for=conf.catalogue.keep_for,
            old_after=conf.catalogue.old_after,
            interval=conf.catalogue.interval,
            deadline=conf.catalogue.deadline,
            cloud=conf.catalogue.cloud,
            credentials_file=Path(conf.catalogue.credentials_file),
            host=conf.catalogue.host,
            nova=conf.catalogue.nova,
            region_file=conf.catalogue.region_file,
            region_key=Path(conf.catalogue.region_key),
        ),
        region=RegionSettings(
            Path(conf.region.file) if conf.region.file else None,
            RegionBrake(conf.region.brake_volumes, conf.region.brake_percent),
        ),
        probe=_probe_settings(conf.probe),
        metrics=MetricsSettings(
            Path(conf.metrics.textfile_dir) if conf.metrics.textfile_dir else None, conf.metrics.detail
        ),
        health={
            measure.name: Thresholds(conf.health[f"{measure.name}_warning"], conf.health[f"{measure.name}_critical"])
            for measure in MEASURES
        },
        prometheus=PrometheusSettings(
            **{field.name: conf.prometheus[field.name] for field in fields(PrometheusSettings)}
        ),
        uri=conf.libvirt.uri,
        deadline=conf.libvirt.deadline,
        bounds=Bounds(at_once=conf.libvirt.calls_at_once, hung_guests=conf.libvirt.hung_guests),
    )


def _probe_settings(probe: Any) -> ProbeSettings:
    if probe.file_size % probe.block_size:
        raise ValueError("[probe] file_size: must be a multiple of block_size")
    try:
        directory = directory_of(probe.directory)
    except ValueError as error:
        raise ValueError(f"[probe] directory: {error}") from error
    values = {field.name: probe[field.name] for field in fields(ProbeSettings)}
    return ProbeSettings(**values | {"directory": directory, "tolerance": probe.tolerance / 100})


class _Entries(iniparser.BaseParser):
    """oslo's own parser, to learn the line of each key: it reads a file as the settings are read."""

    def __init__(self) -> None:
        super().__init__()
        self.group = ""
        self.entries: list[tuple[int, str, str, str]] = []
        self._begun = 0

    def new_section(self, section: str) -> None:
        self.group = section

    def _split_key_value(self, line: str) -> tuple[str, list[str]]:
        # Called at the first line of an entry; assignment is called at the line after it, or at the end of the file.
        self._begun = self.lineno
        key, value = super()._split_key_value(line)
        return key, value

    def assignment(self, key: str, value: list[str]) -> None:
        self.entries.append((self._begun, self.group, key, "\n".join(value)))


def _faults(file: Path) -> Iterator[str]:
    """What is wrong in one file: oslo.config itself ignores a key that it does not know, and names no lines."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        yield f"{file}: cannot be read: {error}"
        return
    parser = _Entries()
    try:
        parser.parse(lines)
    except iniparser.ParseError as error:
        yield f"{file}:{error.lineno}: {error.msg}: {error.line.strip()}"
        return
    for line, group, key, value in parser.entries:
        fault = _fault(group, key, value)
        if fault:
            yield f"{file}:{line}: [{group}] {key}: {fault}" if group else f"{file}:{line}: {key}: {fault}"


def _environment_faults() -> Iterator[str]:
    for group, options in OPTIONS.items():
        for option in options:
            name = f"OS_{group}__{option.dest}".upper()
            if name in os.environ and (fault := _fault(group, option.dest, os.environ[name])):
                yield f"environment: {name}: {fault}"


def _fault(group: str, key: str, value: str) -> str | None:
    if not group:
        return "stands above all sections; write [DEFAULT] before the first setting"
    options = {option.dest: option for option in OPTIONS.get(group, ())}
    if not options:
        return f"no such section; known are {', '.join(f'[{name}]' for name in OPTIONS)}"
    if key not in options:
        near = get_close_matches(key, options, n=1)
        return "no such setting; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(options)}")
    try:
        read = options[key].type(value)
    except ValueError as error:
        return str(error)
    return "must be a number" if read != read else None  # nan is neither below the minimum nor above the maximum
