"""Definitions for NRPE, Nagios and Icinga 2, as text: the checks are those of the measures, with a site's ranges."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from plimsoll_agent.monitor.thresholds import MEASURES, SUBJECTS
from plimsoll_monitoring.alerts.files import WITHOUT_ALERT, alerts_of
from plimsoll_monitoring.alerts.site import NEVER, Site

CHECK = "/usr/bin/check_plimsoll"
_SLOW = """\
What a probe found stands until the next one, hours later: to look again within a minute tells nothing."""

_NRPE_HEAD = """\
For each compute node, as /etc/nagios/nrpe.d/plimsoll.cfg; restart its NRPE. Made by `plimsoll monitoring nagios
--part nrpe`: change the values that it is given, not this file. A range that is not in a command is that in [health]
of the node's settings. What Nagios asks for has no arguments, so dont_blame_nrpe may stay 0.

NRPE's user must be in the group of /var/lib/plimsoll.
"""
_OBJECTS_HEAD = """\
For Nagios itself, beside its other objects. Made by `plimsoll monitoring nagios`: change the values that it is
given, not this file. Each compute node becomes a member of the hostgroup, in its host definition:

  hostgroups  +plimsoll-nodes

It needs the template generic-service, which Nagios comes with, and nrpe-plimsoll.cfg on the nodes. A unit of the
intervals is a minute.
"""
_ICINGA_HEAD = """\
For Icinga 2, in the zone of the compute nodes' hosts: with agents on them
/etc/icinga2/zones.d/master/plimsoll.conf, without /etc/icinga2/conf.d/ will do. Made by `plimsoll monitoring nagios
--part icinga2`: change the values that it is given, not this file. A node gets the services by one variable:

  object Host "compute-1" {
    ...
    vars.plimsoll = true
    vars.agent_endpoint = name  // there is an Icinga agent on it, whose
  }                             // endpoint it is; without this, by NRPE

What runs where there are agents is the CheckCommand: it must reach them, by a global zone (global-templates) if
need be. By NRPE it needs nrpe-plimsoll.cfg on the nodes. Either way it includes <itl> and <plugins>, as Icinga's own
icinga2.conf does, and who runs the check on a node must be in the group of /var/lib/plimsoll there.
"""

_OBJECTS = """\
define command {
    command_name  check_plimsoll_nrpe
    command_line  $USER1$/check_nrpe -H $HOSTADDRESS$ -t 15 -c $ARG1$
}

define hostgroup {
    hostgroup_name  plimsoll-nodes
    alias           Compute nodes with plimsoll
}

define servicegroup {
    servicegroup_name  plimsoll
    alias              plimsoll: limits, agents and probes
}

define service {
    name                plimsoll-service
    use                 generic-service
    hostgroup_name      plimsoll-nodes
    servicegroups       plimsoll
    check_interval      5
    retry_interval      1
    max_check_attempts  3
    register            0
}"""

_ICINGA_COMMAND = """\
object CheckCommand "plimsoll" {
  command = [ "/usr/bin/check_plimsoll" ]
  timeout = 20s

  arguments = {
    "(subject)" = {
      value = "$plimsoll_subject$"
      skip_key = true
      required = true
      order = -1
      description = "limits, agent or probe"
    }
    "--config-file" = {
      value = "$plimsoll_config_file$"
      repeat_key = true
      description = "Instead of /etc/plimsoll/plimsoll.conf; one, or several as an array"
    }
    "--config-dir" = {
      value = "$plimsoll_config_dir$"
      repeat_key = true
      description = "Instead of /etc/plimsoll/plimsoll.conf.d; one, or several as an array"
    }
    "--state-dir" = {
      value = "$plimsoll_state_dir$"
      description = "Instead of state_dir in the settings"
    }
    "--no-data" = {
      value = "$plimsoll_no_data$"
      description = "What it is without a pass, or where the state cannot be read: unknown, critical, warning or ok"
    }
    "--timeout" = {
      value = "$plimsoll_timeout$"
      description = "Seconds"
    }
    "--verbose" = {
      set_if = "$plimsoll_verbose$"
      description = "Every line, however many there are"
    }
    "--guest" = {
      value = "$plimsoll_guest$"
      description = "Of limits and probe: this guest alone"
    }
    "--volume-type" = {
      value = "$plimsoll_volume_type$"
      description = "Of limits: disks of this volume type alone"
    }
    // Ranges, instead of those in [health] of the settings; each for its own subject."""

_ICINGA_SERVICE = """\
template Service "plimsoll-service" {
  if (host.vars.agent_endpoint) {
    check_command = "plimsoll"
    command_endpoint = host.vars.agent_endpoint
  } else {
    check_command = "nrpe"
    vars.nrpe_command = "check_plimsoll_$plimsoll_subject$"
  }
  check_interval = 5m
  retry_interval = 1m
  max_check_attempts = 3
  groups = [ "plimsoll" ]
}

object ServiceGroup "plimsoll" {
  display_name = "plimsoll: limits, agents and probes"
}"""


def nrpe_text(site: Site) -> str:
    lines = [*_comment("#", _NRPE_HEAD), *_figures("#", site), ""]
    for subject in SUBJECTS:
        words = (f"--{name} {shlex.quote(text)}" for name, text in _ranges(site, subject))
        lines.append(f"command[check_plimsoll_{subject}]={' '.join((CHECK, subject, *words))}")
    lines += [
        "",
        "# A range of its own comes before that of the settings:",
        f"#command[check_plimsoll_limits_strict]={CHECK} limits --unlimited-critical 0",
    ]
    return _text(lines)


def objects_text(site: Site) -> str:
    lines = [*_comment("#", _OBJECTS_HEAD), *_figures("#", site), "", _OBJECTS]
    for subject, question in SUBJECTS.items():
        lines += ["", *_comment("#", _about(subject, question)), "define service {"]
        lines += [
            f"    {name:<20} {value}"
            for name, value in {
                "use": "plimsoll-service",
                "service_description": f"plimsoll {subject}",
                "check_command": f"check_plimsoll_nrpe!check_plimsoll_{subject}",
                "notes_url": _notes(site),
                **({"check_interval": "10", "max_check_attempts": "1"} if subject == "probe" else {}),
            }.items()
        ]
        lines.append("}")
    return _text(lines)


def icinga_text(site: Site) -> str:
    lines = [*_comment("//", _ICINGA_HEAD), *_figures("//", site), "", _ICINGA_COMMAND]
    for measure in MEASURES:
        for level in ("warning", "critical"):
            name = f"{measure.name}_{level}"
            lines.append(f'    "--{name.replace("_", "-")}" = "$plimsoll_{name}$"')
    lines += ["  }", "}", "", _ICINGA_SERVICE]
    for subject, question in SUBJECTS.items():
        lines += ["", *_comment("//", _about(subject, question)), f'apply Service "plimsoll-{subject}" {{']
        lines += ['  import "plimsoll-service"', f'  vars.plimsoll_subject = "{subject}"']
        lines += [
            f"  vars.plimsoll_{name.replace('-', '_')} = {json.dumps(text)}" for name, text in _ranges(site, subject)
        ]
        lines.append(f"  notes_url = {json.dumps(_notes(site))}")
        lines += ["  check_interval = 10m", "  max_check_attempts = 1"] if subject == "probe" else []
        lines += ["  assign where host.vars.plimsoll", "}"]
    return _text(lines)


PARTS = {"objects": objects_text, "nrpe": nrpe_text, "icinga2": icinga_text}


def _ranges(site: Site, subject: str) -> Iterator[tuple[str, str]]:
    """The options for the ranges that the site gives: all others are the node's own."""
    for measure in MEASURES:
        if measure.subject == subject and measure.name in site.thresholds:
            for level in ("warning", "critical"):
                option = f"{measure.name}-{level}".replace("_", "-")
                yield option, site.range_of(measure.name, level) or NEVER  # some programs drop an empty argument


def _figures(sign: str, site: Site) -> Iterator[str]:
    """The table of measures: a comment."""
    alerts: dict[str, dict[str, None]] = {}
    for alert in alerts_of(site):
        alerts.setdefault(alert.measure, {})[alert.name] = None
    yield f"{sign}"
    yield f"{sign} {'figure':<19} {'warning':<8} {'critical':<9} the same in Prometheus"
    for each in MEASURES:
        warning, critical = (site.range_of(each.name, level) or "never" for level in ("warning", "critical"))
        same = ", ".join(alerts.get(each.name, ())) or f"none: {WITHOUT_ALERT.get(each.name, 'switched off')}"
        yield f"{sign} {each.name:<19} {warning:<8} {critical:<9} {same}"


def _about(subject: str, question: str) -> str:
    return f"{question.capitalize()}\n{_SLOW}" if subject == "probe" else question.capitalize()


def _notes(site: Site) -> str:
    """The table of figures, with the runbook of each."""
    return f"{site.docs_url}reference/alerts.html#one-table"


def _comment(sign: str, text: str) -> Iterator[str]:
    yield from (f"{sign} {line}".rstrip() for line in text.rstrip().splitlines())


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
