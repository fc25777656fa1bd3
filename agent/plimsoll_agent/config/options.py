"""Every option, a row each: type, default and help. The sample and the reference page are generated from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plimsoll_agent.catalogue.orders import RegionBrake
from plimsoll_agent.config.oslo import cfg, types
from plimsoll_agent.monitor.site_labels import NAME, SiteLabels
from plimsoll_agent.monitor.thresholds import MEASURES, Measure, checked_range
from plimsoll_agent.reconcile.brake import Brake
from plimsoll_agent.reconcile.health_gate import BLOCKING_CHECKS, BlockingCheck
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.rules.model import UUID
from plimsoll_agent.store.retention import Retention
from plimsoll_agent.util import quantities
from plimsoll_agent.util.quantities import Quantity

RULES_FILE = Path("/etc/plimsoll/rules.yaml")
STALE = "catalogue_age_warning"
"""A threshold without a setting of its own: it is ``stale_after`` in [catalogue]."""


class _Range(types.String):
    """A range in Nagios' notation, or empty."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def __call__(self, value: str) -> str:
        return checked_range(super().__call__(value), self._unit)


class _Check(types.String):
    """A blocking check, in its normal form."""

    def __call__(self, value: str) -> str:
        return str(BlockingCheck.read(super().__call__(value)))


class _Label(types.String):
    """The name of a label in Prometheus."""

    def __call__(self, value: str) -> str:
        name = str(super().__call__(value))
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a label")
        return name


class FollowMode(types.String):
    """``observe``, ``enforce``, and the same for single clusters: ``observe, FSID:enforce``."""

    @staticmethod
    def read(text: str) -> dict[str, str]:
        """By the cluster's fsid, "" for all others. Raises ``ValueError``."""
        modes: dict[str, str] = {}
        for part in text.split(","):
            fsid, _, mode = part.strip().rpartition(":")
            if mode not in ("observe", "enforce") or (fsid and not UUID.fullmatch(fsid)):
                raise ValueError(f"{part.strip()!r} is none of observe, enforce, FSID:observe and FSID:enforce")
            if fsid in modes:
                raise ValueError(f"{fsid or mode} is given twice")
            modes[fsid] = mode
        return modes

    def __call__(self, value: str) -> str:
        text = str(super().__call__(value))
        self.read(text)
        return text


class NumberWithUnit(types.Integer):
    """A number that may have a unit of what it counts."""

    def __init__(self, quantity: Quantity, type_name: str, least: int, most: int | None) -> None:
        super().__init__(least, most, type_name)
        self.quantity = quantity

    def read(self, text: str) -> int:
        """Raises ``ValueError``."""
        return quantities.read(text.strip(), self.quantity)

    def __call__(self, value: Any) -> Any:
        return super().__call__(self.read(value) if isinstance(value, str) else value)


class Timeout(types.Float):
    """Seconds, whole or not, or a duration."""

    quantity = Quantity.SECONDS

    def __init__(self, least: float, most: float) -> None:
        super().__init__(least, most, "seconds, also as 500ms or 1m")

    def read(self, text: str) -> float:
        """Raises ``ValueError``."""
        return quantities.read_time(text)

    def __call__(self, value: Any) -> Any:
        return super().__call__(self.read(value) if isinstance(value, str) else value)


def _timeout(*, default: float, min: float, max: float, help: str) -> Any:
    return cfg.Opt("deadline", type=Timeout(min, max), default=default, help=f"Timeout for {help}")


def _size(name: str, *, default: int, min: int, max: int | None = None, help: str) -> Any:
    type = NumberWithUnit(Quantity.SIZE, "bytes, also as 1GiB", min, max)
    return cfg.Opt(name, type=type, default=default, help=help)


def _seconds(name: str, *, default: int, min: int, max: int | None = None, help: str) -> Any:
    type = NumberWithUnit(Quantity.SECONDS, "seconds, also as 15m", min, max)
    return cfg.Opt(name, type=type, default=default, help=help)


def _threshold(measure: Measure, level: str) -> Any:
    default = {"warning": measure.warning, "critical": measure.critical}[level]
    units = ", also as 15m" if measure.unit == "s" else ""
    what = f"Range (as in Nagios{units}) outside which this is {level}: {measure.what}. Empty: never."
    return cfg.Opt(f"{measure.name}_{level}", type=_Range(measure.unit), default=default, help=what)


OPTIONS: Mapping[str, Sequence[Any]] = {
    "DEFAULT": (
        cfg.StrOpt(
            "mode",
            default="observe",
            choices=[
                ("observe", "report what would be changed; change nothing"),
                ("enforce", "apply the desired limits"),
            ],
            help="What a pass does. plimsoll writes limits only in mode enforce; limits that are given to plimsoll"
            " enforce as options also where no mode is set.",
        ),
        cfg.StrOpt(
            "rules_file",
            default=str(RULES_FILE),
            help="The rules file: which disks get which limits. Read by every pass.",
        ),
        cfg.StrOpt(
            "state_dir",
            default="/var/lib/plimsoll",
            help="Directory of the record of changes and of the memory file (limits desired and applied so far).",
        ),
        cfg.StrOpt(
            "pause_file",
            default="/etc/plimsoll/paused",
            help="While this file exists, no limit is written. See plimsoll pause.",
        ),
        cfg.IntOpt(
            "rounds",
            default=5,
            min=1,
            help="How many times in a row plimsoll reverts an external change to a limit (at most one day apart;"
            " reverts within a minute count once). After that it leaves the limit as it is, and every pass reports"
            " that.",
        ),
    ),
    "daemon": (
        _seconds(
            "full_pass_interval",
            default=300,
            min=10,
            max=3600,
            help="Seconds between two passes of the daemon over the whole node. They find what libvirt has no event"
            " for.",
        ),
        _seconds(
            "stop_timeout",
            default=10,
            min=1,
            max=60,
            help="Seconds that running passes may take after SIGTERM. Then the daemon ends without them, and the next"
            " pass finds out what they did.",
        ),
    ),
    "record": (
        cfg.IntOpt(
            "keep_days",
            default=Retention().keep_days,
            min=31,
            max=36600,
            help="Days that entries of the record are kept. The newest change of each disk, and changes whose"
            " result is unknown yet, are always kept.",
        ),
        cfg.IntOpt(
            "keep_mib",
            default=Retention().keep_mib,
            min=1,
            help="Largest size of the record in MiB; the oldest entries are removed first.",
        ),
    ),
    "brake": (
        cfg.IntOpt(
            "disks",
            default=Brake().disks,
            min=0,
            help="How many disks may be raised or cut by more than half, get a first limit or one more, or lose their"
            " limits in one pass without approval, after an edit. The larger of disks and percent applies.",
        ),
        cfg.IntOpt(
            "percent",
            default=Brake().percent,
            min=0,
            max=100,
            help="The same, as a percentage of the disks of this node.",
        ),
        cfg.IntOpt(
            "factor",
            default=Brake().factor,
            min=2,
            max=10**6,
            help="A cut or a raise by this factor or more needs approval even for a single disk: with 10, from 500 to"
            " 50 or less, or to 5000 or more. So does the removal of its limits.",
        ),
        cfg.IntOpt(
            "lowest_iops",
            default=Brake().lowest_iops,
            min=0,
            max=10**6,
            help="A limit of fewer requests per second that an edit sets or lowers needs approval even for a single"
            " disk. 0: no such bound.",
        ),
        _size(
            "lowest_bytes",
            default=Brake().lowest_bytes,
            min=0,
            max=2**40,
            help="The same for bytes per second: in case that a unit was forgotten (100 for 100 MiB).",
        ),
    ),
    "ceph": (
        cfg.ListOpt(
            "conf_files",
            default=["/etc/ceph/ceph.conf"],
            help="The ceph.conf of each cluster that guests have disks on. Its mon_host must name the monitors as"
            " the guests' definitions do. Limits of disks on other clusters are never raised.",
        ),
        cfg.StrOpt(
            "id",
            default="plimsoll",
            help="The Ceph client that reads the health of a cluster: plimsoll for client.plimsoll. It needs only"
            " mon 'allow r', and its keyring where Ceph looks for it.",
        ),
        _timeout(default=10.0, min=1.0, max=120.0, help="an answer from Ceph."),
        cfg.ListOpt(
            "blocking_checks",
            item_type=_Check(),
            default=[str(check) for check in BLOCKING_CHECKS],
            help="While one of these health checks is active on a disk's cluster, no limit is raised or removed"
            " there. A name or a pattern (PG_*_FULL), optionally with the number above which it blocks (SLOW_OPS >"
            " 20; OSD_DOWN also in percent of all OSDs: OSD_DOWN > 1%). Empty: Ceph's health is not checked.",
        ),
    ),
    "catalogue": (
        cfg.StrOpt(
            "source",
            default="none",
            choices=[
                (
                    "none",
                    "no catalogue: limits come from the rules, and from flavors in libvirt's definitions",
                ),
                ("openstack", "this node reads Cinder and Nova itself, with its own credentials"),
                ("region-file", "this node reads a signed file that one machine of the region writes for all nodes"),
            ],
            help="Where volume types, QoS specs and flavors come from. A pass only reads what plimsoll catalogue"
            " refresh has fetched.",
        ),
        cfg.StrOpt(
            "directory",
            default="/var/lib/plimsoll-catalogue",
            help="Directory of the catalogue. The user of plimsoll catalogue refresh must be able to write to it,"
            " and to read state_dir; a pass only reads it.",
        ),
        _seconds(
            "keep_for",
            default=0,
            min=0,
            help="Seconds after which a catalogue that could not be refreshed is no longer used. Disks limited by"
            " Cinder or Nova then keep their current limits. 0: it is used however old it is.",
        ),
        _seconds(
            "stale_after",
            default=7200,
            min=1,
            help="Seconds after which a catalogue is stale: every pass reports that, and ends with status 3;"
            " status and check_plimsoll warn of it.",
        ),
        _seconds(
            "interval",
            default=900,
            min=60,
            help="Seconds after which volume types and QoS specs are fetched again, or a region file in a directory,"
            " or of a web server without ETag and Last-Modified.",
        ),
        _timeout(
            default=60.0,
            min=1.0,
            max=3600.0,
            help="a whole plimsoll catalogue refresh; with --region-file, for each of its calls.",
        ),
        cfg.StrOpt(
            "cloud",
            default="",
            help="The cloud in clouds.yaml that plimsoll catalogue refresh uses. Empty: credentials_file is used.",
        ),
        cfg.StrOpt(
            "credentials_file",
            default="/etc/plimsoll/openstack.conf",
            help="A file with one section, [openstack], of keystoneauth's settings (auth_type, auth_url and so on)."
            " Only the user of plimsoll catalogue refresh needs to read it.",
        ),
        cfg.StrOpt(
            "host",
            default="",
            help="Nova's name of this node ([DEFAULT] host in nova.conf). Empty: the node's host name.",
        ),
        cfg.BoolOpt(
            "nova",
            default=True,
            help="Read Nova too, for the flavors of guests whose definition lacks the extra specs (created by Nova"
            " before 2025.2 and not restarted since).",
        ),
        cfg.StrOpt(
            "region_file",
            default="",
            help="The region file: a path, or an https URL. Put no password into the URL: all users of the node can"
            " read the settings. Its signature is in the file itself, or beside it with .sig after its name.",
        ),
        cfg.StrOpt(
            "region_key",
            default="/etc/plimsoll/region.pub",
            help="The public ed25519 key (PEM) that verifies the region file.",
        ),
    ),
    "region": (
        cfg.StrOpt(
            "file",
            default="",
            help="The region file that this machine writes, with plimsoll catalogue refresh --region-file of the same"
            " path; plimsoll region approve, pause and hold act on it.",
        ),
        cfg.IntOpt(
            "brake_volumes",
            default=RegionBrake().volumes,
            min=0,
            help="How many attached volumes of the region an edit of QoS specs or volume types may raise, or cut to"
            " less than half, without plimsoll region approve. The larger of brake_volumes and brake_percent applies."
            " An edit that removes the limits of any volume, or cuts them to a tenth or less, always needs approval.",
        ),
        cfg.IntOpt(
            "brake_percent",
            default=RegionBrake().percent,
            min=0,
            max=100,
            help="The same, as a percentage of the attached volumes of the region.",
        ),
    ),
    "congestion": (
        cfg.ListOpt(
            "files",
            default=[],
            help="Where this node fetches the factors of congested clusters: paths or https URLs of the files that"
            " plimsoll congestion publish writes; of several about one cluster the newest counts. Put no"
            " password into a URL: all users of the node can read the settings. Empty: congestion is switched off.",
        ),
        cfg.Opt(
            "mode",
            type=FollowMode(),
            default="observe",
            help="observe: factors are shown, and no limit is written for them. enforce: plimsoll daemon reduces the"
            " limits of disks to which a rule gives a floor (congestion) while their cluster is congested, if mode is"
            " enforce in [DEFAULT] too. By cluster: observe, FSID:enforce.",
        ),
        cfg.StrOpt(
            "key",
            default="/etc/plimsoll/congestion.pub",
            help="The public ed25519 key (PEM) that verifies these files.",
        ),
        cfg.Opt(
            "targets",
            type=types.Dict(Timeout(0.0001, 10.0)),
            default={},
            help="For plimsoll congestion publish: how long a request of a light disk may take on average, by volume"
            " type, as gold:5ms,silver:20ms. The lowest of the types on a device class is its target.",
        ),
        cfg.FloatOpt(
            "multiple",
            default=3.0,
            min=1.5,
            max=100.0,
            help="For plimsoll congestion publish: the target of a device class without one of these, as a multiple"
            " of the 10th percentile of its latency over seven days.",
        ),
        cfg.Opt(
            "osd_label",
            type=_Label(),
            default="cluster",
            help="For plimsoll congestion publish: the label of Ceph's own metrics (ceph_osd_metadata) in Prometheus"
            " that has the cluster's fsid.",
        ),
    ),
    "probe": (
        cfg.StrOpt(
            "directory",
            default="/var/tmp",  # noqa: S108  # inside guests, in a directory that only its user can enter
            help="Directory in the guest where a probe creates its file, unless the rule names another. The file is"
            " removed afterwards.",
        ),
        _seconds("seconds", default=30, min=1, max=3600, help="How long each job lasts."),
        _size(
            "file_size",
            default=2**30,
            min=2**20,
            max=2**40,
            help="Size of the file in bytes. It is written once before the jobs of a guest start.",
        ),
        _size("block_size", default=16384, min=512, max=2**24, help="Size of a request in bytes."),
        cfg.IntOpt("io_depth", default=2, min=1, max=1024, help="Requests in flight per process."),
        cfg.IntOpt(
            "processes",
            default=4,
            min=1,
            max=64,
            help="Processes that send requests, each on its own CPU where the guest has enough.",
        ),
        cfg.IntOpt("read_percent", default=50, min=1, max=99, help="Share of reads in the mixed job, in percent."),
        _size(
            "keep_free",
            default=2**29,
            min=0,
            help="Bytes that must stay free on the guest's file system beside the file; otherwise no probe runs.",
        ),
        _seconds(
            "grace",
            default=60,
            min=5,
            max=3600,  # more where guests are emulated, or a stall of the cluster is to be measured to its end
            help="Seconds that pending requests may take after the end of a job. Then fio is killed, and requests"
            " that never completed are counted.",
        ),
        cfg.FloatOpt(
            "tolerance",
            default=5.0,
            min=0.1,
            max=50.0,
            help="How far a result may be from what the limit allows, in percent.",
        ),
        cfg.IntOpt(
            "at_once", default=1, min=1, max=16, help="How many guests of this node are probed at the same time."
        ),
        cfg.BoolOpt(
            "one_per_pool",
            default=False,
            help="Never run two probes on one Ceph pool at the same time, on this node or, if coordination is set, in"
            " the whole region.",
        ),
        _seconds(
            "late",
            default=900,  # twice the interval of the shipped timer
            min=60,
            help="How late a probe may start, in seconds. A missed probe is not repeated.",
        ),
        cfg.IntOpt("keep_days", default=90, min=1, max=3660, help="Days that results are kept."),
        cfg.IntOpt(
            "keep_mib", default=256, min=1, help="Largest size of the results in MiB; the oldest are removed first."
        ),
        cfg.StrOpt(
            "coordination",
            default="",
            secret=True,
            help="The region's etcd: etcd3+http://HOST:2379, or etcd3+https://HOST:2379 with certificates as"
            " ?ca_cert=FILE&cert_cert=FILE&cert_key=FILE. With it at most slots guests of the region are probed at"
            " the same time, and no probe starts while etcd is unreachable. Needs the extra plimsoll-agent[region]."
            " Empty: nodes are not coordinated.",
        ),
        cfg.IntOpt(
            "slots", default=3, min=1, max=1000, help="How many guests of the region may be probed at the same time."
        ),
    ),
    "metrics": (
        cfg.StrOpt(
            "textfile_dir",
            default="",
            help="Where metrics are written: node_exporter's --collector.textfile.directory (on Debian"
            " /var/lib/prometheus/node-exporter). Empty: no metrics are written, and no counters of disks are read.",
        ),
        cfg.StrOpt(
            "detail",
            default="disk",
            choices=[
                ("disk", "series for each disk and each probed guest"),
                ("aggregate", "only sums of the node by volume type, for large sites"),
            ],
            help="How detailed the metrics are.",
        ),
    ),
    "health": tuple(
        _threshold(measure, level)
        for measure in MEASURES
        for level in ("warning", "critical")
        if f"{measure.name}_{level}" != STALE
    ),
    "consoles": (
        cfg.BoolOpt(
            "read",
            default=False,
            help="After each pass over the whole node, read what is new in the guests' console logs on this node, and"
            " count the lines by which their kernels report hung tasks, I/O errors and timeouts of disks. The user"
            " plimsoll must be allowed to read the logs.",
        ),
    ),
    "prometheus": (
        cfg.StrOpt(
            "url",
            default="",
            help="The Prometheus with this region's metrics, for plimsoll region: http://HOST:9090.",
        ),
        cfg.StrOpt(
            "token_file",
            default="",
            help="A file with the bearer token for Prometheus, or with a scheme and credentials (Basic dXNl...)."
            " It is sent over https only, or to this machine itself.",
        ),
        cfg.StrOpt("ca_file", default="", help="CA certificate (PEM) for Prometheus, if not one of the system's."),
        cfg.ListOpt(
            "region_labels",
            item_type=_Label(),
            default=list(SiteLabels().region),
            help="The labels by which Prometheus' targets tell regions or clusters apart, for plimsoll region and for"
            " what plimsoll monitoring makes. With several, a region's name is their values with / between them.",
        ),
        cfg.Opt(
            "instance_label",
            type=_Label(),
            default=SiteLabels().instance,
            help="The label by which they tell nodes apart.",
        ),
        _timeout(
            default=10.0,  # too short where Thanos or the like reads the day from an object store
            min=0.1,
            max=300.0,
            help="all queries of a command together.",
        ),
    ),
    "libvirt": (
        cfg.StrOpt(
            "uri",
            default="qemu:///system",
            help="libvirt's URI. The default is the node's libvirtd or virtqemud; for one in a container, name its"
            " socket: qemu+unix:///system?socket=PATH",
        ),
        _timeout(
            default=5.0,
            min=0.1,
            max=60.0,
            help="a call into libvirt. After it the result is unknown, and the guest is left alone until the next"
            " pass.",
        ),
        cfg.IntOpt(
            "calls_at_once",
            default=Bounds().at_once,
            min=2,
            max=4,
            help="Concurrent calls into libvirt. By default libvirtd serves 5 requests per connection with 20"
            " workers, shared with Nova.",
        ),
    ),
}
