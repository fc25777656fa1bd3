"""``plimsoll monitoring``: the files that Prometheus, Grafana, Nagios and Icinga load, with a site's values."""

from __future__ import annotations

import argparse
from abc import abstractmethod
from pathlib import Path

from plimsoll_agent.errors import PlimsollError, UsageError
from plimsoll_agent.terminal.base import LocalCommand
from plimsoll_monitoring.alerts import files, nagios
from plimsoll_monitoring.alerts.site import Site, of_labels, read


class _OfSite(LocalCommand):
    """A command that makes files of a site's values, with the labels of the settings where there are any."""

    prints_files = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--values", metavar="FILE", type=Path, help="YAML file with what this site changes; default: nothing"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        labels, values = self.settings(parsed_args).prometheus.labels, parsed_args.values
        site = of_labels(labels) if values is None else read(values, files.EVERY_ALERT, labels)
        return self.made(site, parsed_args)

    @abstractmethod
    def made(self, site: Site, parsed_args: argparse.Namespace) -> int: ...


class _Printed(_OfSite):
    def made(self, site: Site, parsed_args: argparse.Namespace) -> int:
        self.app.stdout.write(self.text(site))
        return 0

    @abstractmethod
    def text(self, site: Site) -> str: ...


class MonitoringAlerts(_Printed):
    """Print the alerts for Prometheus.

    They are YAML.

    The keys of FILE: region, instance (names of labels), selector, compute_nodes, ceph (matchers), labels, docs_url,
    dashboards_url, ceph_url, rollout, retired, probes_off (durations), broken_guests, broken_percent, broken_many,
    stalled_projects, promised_ratio, burst_left, thresholds (warning and critical of each figure of check_plimsoll),
    alerts (enabled, severity and for of each).

    Exit status:
        0   done
        1   FILE has a fault

    Examples:
        plimsoll monitoring alerts
        plimsoll monitoring alerts --values site.yaml
        plimsoll monitoring alerts --values /etc/plimsoll/site.yaml
    """

    def text(self, site: Site) -> str:
        return files.alerts_text(site)


class MonitoringRules(_Printed):
    """Print the recording rules for Prometheus.

    They are YAML; alerts, dashboards and plimsoll region read them.

    The keys of FILE are those of plimsoll monitoring alerts.

    Exit status:
        0   done
        1   FILE has a fault

    Examples:
        plimsoll monitoring rules
        plimsoll monitoring rules --values site.yaml
        plimsoll monitoring rules --values /etc/plimsoll/site.yaml
    """

    def text(self, site: Site) -> str:
        return files.rules_text(site)


class MonitoringDashboards(_OfSite):
    """Write the dashboards for Grafana as JSON files.

    The keys of FILE are those of plimsoll monitoring alerts; of them labels of region and node, selector,
    compute_nodes, ceph, the addresses and thresholds matter here. Needs the extra plimsoll-agent[dashboards].

    Exit status:
        0   done
        1   FILE has a fault, or DIRECTORY cannot be written
        64  the extra is missing

    Examples:
        plimsoll monitoring dashboards dashboards
        plimsoll monitoring dashboards /var/lib/grafana/dashboards
        plimsoll monitoring dashboards dashboards --values site.yaml
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("directory", metavar="DIRECTORY", type=Path, help="which must exist")
        return parser

    def made(self, site: Site, parsed_args: argparse.Namespace) -> int:
        try:
            from plimsoll_monitoring.dashboards.files import files as dashboards
        except ImportError as error:
            raise UsageError(f"dashboards need the extra plimsoll-agent[dashboards]: {error}") from error
        for name, text in dashboards(site).items():
            path = parsed_args.directory / name
            try:
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                raise PlimsollError(f"{path}: {error.strerror}") from error
            self.app.stdout.write(f"{path}\n")
        return 0


class MonitoringNagios(_OfSite):
    """Print definitions for Nagios, NRPE or Icinga 2.

    The keys of FILE are those of plimsoll monitoring alerts; of these, thresholds and docs_url count. Ranges that
    FILE does not have are those in [health] of each node's settings.

    Exit status:
        0   done
        1   FILE has a fault

    Examples:
        plimsoll monitoring nagios
        plimsoll monitoring nagios --part nrpe
        plimsoll monitoring nagios --part icinga2 --values site.yaml
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--part",
            choices=tuple(nagios.PARTS),
            default="objects",
            help="objects of Nagios (default), the commands for NRPE on each node, or all for Icinga 2",
        )
        return parser

    def made(self, site: Site, parsed_args: argparse.Namespace) -> int:
        self.app.stdout.write(nagios.PARTS[parsed_args.part](site))
        return 0
