"""Series that a dashboard's variables select, in a site's names."""

from __future__ import annotations

from dataclasses import dataclass

from plimsoll_agent.monitor import metrics
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.promql import equal, label_list, selector


@dataclass(frozen=True)
class SiteNames:
    """The site's names, and matchers made of the variables."""

    site: Site
    matchers: tuple[str, ...]

    def __call__(self, metric: str, *more: str, over: str = "") -> str:
        """A selector; what is recorded, and alerts, have no label of a job."""
        its = "" if ":" in metric or metric.startswith("ALERTS") else self.site.selector
        return selector(metric, its, *self.matchers, *more, over=over)

    def and_(self, *matchers: str) -> SiteNames:
        return replace(self, matchers=(*self.matchers, *matchers))

    @property
    def of_type(self) -> SiteNames:
        return self.and_('volume_type=~"$volume_type"')

    @property
    def or_without_region(self) -> SiteNames:
        """Series of targets that may not have the label: Ceph's."""
        return SiteNames(self.site, (f'{self.site.region[0]}=~"$region|"',))

    # --- labels to group by

    def region(self, *labels: str) -> str:
        return self.site.in_region(*labels)

    def node(self, *labels: str) -> str:
        return self.site.node(*labels)

    def own(self, label: str) -> str:
        return self.site.own(label)

    @property
    def disk(self) -> str:
        return self.node(*metrics.DISK)

    @property
    def guest(self) -> str:
        return self.node("domain", "uuid")

    @property
    def target(self) -> str:
        return self.node(*metrics.TARGET)

    # --- joins

    def with_names(self, expr: str) -> str:
        """With the names of server and project, where the guest has them."""
        names = f"max by {self.node('uuid', 'server', 'project_name')} ({self(metrics.GUEST_INFO)})"
        on = f"on {self.node('uuid')}"
        return f"({expr}) * {on} group_left (server, project_name) {names}\nor\n({expr}) unless {on} {names}"

    def disks_of_type(self, expr: str) -> str:
        """Series of disks, without those that have another volume type than the selected."""
        others = self(metrics.DISK_INFO, 'volume_type!~"$volume_type"')
        return f"({expr}) unless on {self.node('uuid', 'target_device')} {others}"

    def targets_of_type(self, expr: str) -> str:
        """Series of probed guests and directories, likewise; what was never probed has no type yet."""
        others = self(metrics.PROBE_INFO, 'volume_type!~"$volume_type"')
        return f"({expr}) unless on {self.node('uuid', 'directory')} {others}"


def of_region(site: Site) -> SiteNames:
    return SiteNames(site, (f'{site.region[0]}=~"$region"',))


def of_node(site: Site) -> SiteNames:
    # Compared with =, because the brackets of an IPv6 instance have a meaning in a pattern.
    return of_region(site).and_(f'{site.instance}="$instance"')


def of_guest(site: Site) -> SiteNames:
    # With the uuid: each Nova cell may have a guest named instance-0000002a. Without the node: guests migrate.
    return of_region(site).and_('domain="$domain"', 'uuid="$uuid"')


def of_disk(site: Site) -> SiteNames:
    return of_guest(site).and_('target_device="$target_device"')


def name_type(expr: str) -> str:
    """Name series of disks without a volume type, whose label is empty, "no type" in the legend."""
    return f'label_replace({expr}, "volume_type", "no type", "volume_type", "")'


VERDICTS = ("kept", "no-limit", "short", "slow", "over-limit", "reduced", "inconclusive", "failed")


def verdict_number(series: SiteNames, *labels: str) -> str:
    """The place in ``VERDICTS`` of each probe's newest verdict, for a row a probe."""
    by = label_list(*labels)
    return "\nor\n".join(
        f"{number} * max by {by} ({series(metrics.PROBE_VERDICT, equal('verdict', verdict))})"
        for number, verdict in enumerate(VERDICTS)
    )
