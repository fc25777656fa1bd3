"""The settings as values, read by oslo.config from files and the environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plimsoll_agent.catalogue import stages
from plimsoll_agent.catalogue.orders import RegionBrake
from plimsoll_agent.config import faults
from plimsoll_agent.config.options import OPTIONS, STALE, FollowMode
from plimsoll_agent.config.oslo import cfg
from plimsoll_agent.config.probing import ProbeSettings
from plimsoll_agent.errors import ConfigError
from plimsoll_agent.monitor.site_labels import SiteLabels
from plimsoll_agent.monitor.thresholds import MEASURES, Thresholds
from plimsoll_agent.reconcile.brake import Brake
from plimsoll_agent.reconcile.health_gate import BlockingCheck
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.rules.model import directory_of
from plimsoll_agent.store.retention import Retention
from plimsoll_agent.util.files import exists, is_directory, reason, stamp_of
from plimsoll_agent.util.frozen import frozen, names

if TYPE_CHECKING:
    from plimsoll_agent.config.provenance import Setting

CONFIG_FILE = Path("/etc/plimsoll/plimsoll.conf")
CONFIG_DIR = Path("/etc/plimsoll/plimsoll.conf.d")
_PLACES = {
    "DEFAULT": ("rules_file", "state_dir", "pause_file"),
    "catalogue": ("directory", "credentials_file", "region_key"),
}


@frozen
class DaemonSettings:
    """Times are in seconds."""

    full_pass_interval: int
    stop_timeout: int


@frozen(kw_only=True)
class CephSettings:
    """``deadline`` in seconds."""

    conf_files: tuple[Path, ...]
    id: str
    deadline: float
    blocking_checks: tuple[BlockingCheck, ...]


@frozen(kw_only=True)
class CatalogueSettings:
    """Times are in seconds."""

    source: str
    directory: Path
    keep_for: int
    stale_after: int
    interval: int
    deadline: float
    cloud: str
    credentials_file: Path
    host: str
    nova: bool
    region_file: str
    region_key: Path

    @property
    def node_name(self) -> str:
        """The node's name in Nova, which its stage is a hash of."""
        return self.host or socket.gethostname()

    @property
    def position(self) -> float:
        return stages.position(self.node_name)


@frozen
class RegionSettings:
    """``file`` is the region file that this machine writes, None if it writes none."""

    file: Path | None
    brake: RegionBrake


@frozen
class MetricsSettings:
    """``textfile_dir`` is None for no metrics; ``detail`` is ``disk`` or ``aggregate``."""

    textfile_dir: Path | None
    detail: str


@frozen
class ConsoleSettings:
    """``read``: a pass reads the consoles of guests."""

    read: bool


@frozen(kw_only=True)
class CongestionSettings:
    """``files`` is empty where congestion is switched off; ``targets`` are volume types with their seconds."""

    files: tuple[str, ...]
    mode: str
    """As ``FollowMode`` reads it."""
    key: Path
    targets: tuple[tuple[str, float], ...]
    multiple: float
    osd_label: str

    def enforces(self, cluster: str) -> bool:
        """Whether limits of this cluster's disks (its fsid) are written for its congestion."""
        modes = FollowMode.read(self.mode)
        return modes.get(cluster, modes.get("", "observe")) == "enforce"


@frozen(kw_only=True)
class PrometheusSettings:
    """``deadline`` in seconds; an empty text is not set."""

    url: str
    token_file: str
    ca_file: str
    deadline: float
    labels: SiteLabels


@frozen(kw_only=True)
class Settings:
    """``mode_chosen``: the operator set the mode, and it is not the default."""

    mode: str
    mode_chosen: bool
    rules_file: Path
    state_dir: Path
    pause_file: Path
    rounds: int
    daemon: DaemonSettings
    record: Retention
    brake: Brake
    ceph: CephSettings
    catalogue: CatalogueSettings
    region: RegionSettings
    congestion: CongestionSettings
    probe: ProbeSettings
    metrics: MetricsSettings
    consoles: ConsoleSettings
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

    Without arguments the files are ``/etc/plimsoll/plimsoll.conf`` and ``plimsoll.conf.d/*.conf``, if they exist. The
    environment (``OS_LIBVIRT__URI``) takes precedence over files.
    """
    return _read(files, directories)[0]


def stamp(files: Sequence[Path] | None = None, directories: Sequence[Path] | None = None) -> object:
    """It differs after one of the files that ``load`` reads was edited, added or removed. Raises ``OSError``."""
    return [(file, stamp_of(Path(os.path.realpath(file)))) for file in _files(files, directories)[0]]


def listed(files: Sequence[Path] | None = None, directories: Sequence[Path] | None = None) -> tuple[Setting, ...]:
    """Every setting with its value in force and where that comes from. Raises ``ConfigError`` as ``load`` does."""
    from plimsoll_agent.config.provenance import settings_of  # here, since no pass needs it

    _, conf, every = _read(files, directories)
    return tuple(settings_of(conf, every))


def _read(
    files: Sequence[Path] | None, directories: Sequence[Path] | None
) -> tuple[Settings, cfg.ConfigOpts, Sequence[Path]]:
    try:
        every, folders = _files(files, directories)
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot be read: {reason(error)}") from error
    problems = [f"{folder}: is not a directory" for folder in folders if not is_directory(folder)]
    problems += [fault for file in every for fault in faults.of_file(file)]
    problems += faults.of_environment()
    if problems:
        raise ConfigError("\n".join(problems))
    conf = cfg.ConfigOpts()
    for group, options in OPTIONS.items():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)
    try:
        conf(args=[], project="plimsoll", default_config_files=[str(file) for file in every], default_config_dirs=[])
        return _settings(conf), conf, every
    except cfg.NoSuchOptError as error:
        # oslo.config raises a second error after it, which names the option with the $name in its value.
        culprit = error.__context__ if isinstance(error.__context__, cfg.NoSuchOptError) else error
        raise ConfigError(f"settings: ${culprit.opt_name} refers to no setting; write $$ for a plain $") from error
    except (cfg.Error, ValueError) as error:
        raise ConfigError(f"settings: {error}") from error


def _files(files: Sequence[Path] | None, directories: Sequence[Path] | None) -> tuple[list[Path], list[Path]]:
    """The files to read, and the directories that some of them are in. Raises ``OSError``."""
    paths = [CONFIG_FILE] if files is None and exists(CONFIG_FILE) else list(files or ())
    folders = [CONFIG_DIR] if directories is None and is_directory(CONFIG_DIR) else list(directories or ())
    # Not Path.glob, which finds nothing where rights are missing.
    entries = (file for folder in folders if is_directory(folder) for file in sorted(folder.iterdir()))
    # Hidden files are those of editors and of tools that write in two steps: oslo.config reads none either.
    return paths + [file for file in entries if file.suffix == ".conf" and not file.name.startswith(".")], folders


def _settings(conf: Any) -> Settings:
    if conf.region.file and not Path(conf.region.file).is_absolute():
        raise ValueError("[region] file: must be an absolute path")
    # A refresh starts in another directory, as another user, and must find the same files.
    for group, name in ((group, name) for group, places in _PLACES.items() for name in places):
        if not Path((conf if group == "DEFAULT" else conf[group])[name]).is_absolute():
            raise ValueError(f"[{group}] {name}: must be an absolute path")
    if not conf.prometheus.region_labels:
        raise ValueError("[prometheus] region_labels: must name at least one label")
    location = conf.get_location("mode")
    return Settings(
        mode=conf.mode,
        mode_chosen=location is not None and location.location is not cfg.Locations.opt_default,
        rules_file=Path(conf.rules_file),
        state_dir=Path(conf.state_dir),
        pause_file=Path(conf.pause_file),
        rounds=conf.rounds,
        daemon=DaemonSettings(conf.daemon.full_pass_interval, conf.daemon.stop_timeout),
        record=Retention(conf.record.keep_days, conf.record.keep_mib),
        brake=Brake(**dict(conf.brake.items())),
        ceph=CephSettings(
            conf_files=tuple(Path(file) for file in conf.ceph.conf_files),
            id=conf.ceph.id,
            deadline=conf.ceph.deadline,
            blocking_checks=tuple(map(BlockingCheck.read, conf.ceph.blocking_checks)),
        ),
        catalogue=CatalogueSettings(
            source=conf.catalogue.source,
            directory=Path(conf.catalogue.directory),
            keep_for=conf.catalogue.keep_for,
            stale_after=conf.catalogue.stale_after,
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
        congestion=CongestionSettings(
            files=tuple(conf.congestion.files),
            mode=conf.congestion.mode,
            key=Path(conf.congestion.key),
            targets=tuple(conf.congestion.targets.items()),
            multiple=conf.congestion.multiple,
            osd_label=conf.congestion.osd_label,
        ),
        probe=_probe_settings(conf.probe),
        metrics=MetricsSettings(
            Path(conf.metrics.textfile_dir) if conf.metrics.textfile_dir else None, conf.metrics.detail
        ),
        consoles=ConsoleSettings(conf.consoles.read),
        health={
            measure.name: Thresholds(
                _range(conf, f"{measure.name}_warning"), _range(conf, f"{measure.name}_critical")
            )
            for measure in MEASURES
        },
        prometheus=PrometheusSettings(
            url=conf.prometheus.url,
            token_file=conf.prometheus.token_file,
            ca_file=conf.prometheus.ca_file,
            deadline=conf.prometheus.deadline,
            labels=SiteLabels(tuple(conf.prometheus.region_labels), conf.prometheus.instance_label),
        ),
        uri=conf.libvirt.uri,
        deadline=conf.libvirt.deadline,
        bounds=Bounds(at_once=conf.libvirt.calls_at_once),
    )


def _range(conf: Any, name: str) -> str:
    return str(conf.catalogue.stale_after if name == STALE else conf.health[name])


def _probe_settings(probe: Any) -> ProbeSettings:
    if probe.file_size % probe.block_size:
        raise ValueError("[probe] file_size: must be a multiple of block_size")
    try:
        directory = directory_of(probe.directory)
    except ValueError as error:
        raise ValueError(f"[probe] directory: {error}") from error
    values = {name: probe[name] for name in names(ProbeSettings)}
    return ProbeSettings(**values | {"directory": directory, "tolerance": probe.tolerance / 100})
