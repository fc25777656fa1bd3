"""Alerts on one node: each can be silenced by itself, and none asks Prometheus more when it is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from plimsoll_agent.monitor import metrics
from plimsoll_agent.monitor.daemon_status import LATE
from plimsoll_agent.monitor.thresholds import ROUND_OVERDUE
from plimsoll_monitoring.alerts.definition import Alert, by_measure, number
from plimsoll_monitoring.alerts.site import OVERDUE, OVERDUE_HOLD, Site
from plimsoll_monitoring.promql import CLOCKS_DIFFER, once

SCRAPE_ERROR = "node_textfile_scrape_error"


def of_passes(site: Site) -> Iterator[Alert]:
    """Does plimsoll run there, and with what it needs?"""
    node = site.node_words
    age = f"max by {site.node()} (time() - {site(metrics.PASS_LAST_TIMESTAMP_SECONDS)})"
    for alert in by_measure(
        site,
        "pass_age",
        age,
        name=OVERDUE,
        hold=OVERDUE_HOLD,
        why="With another interval of passes than five minutes: three times that. After a reboot the old file is"
        " served until the first pass.",
        summary="{{ if ge $value 0.0 }}No plimsoll pass on "
        f"{node}{site.in_words} for {{{{ $value | humanizeDuration }}}}"
        f"{{{{ else }}}}Last plimsoll pass on {node}{site.in_words} is in the future{{{{ end }}}}",
        description=f"""\
{{{{ if ge $value 0.0 -}}}}
The last pass over {node} ended {{{{ $value | humanizeDuration }}}} ago. Actual limits stay; guests started since then
have none from plimsoll. Run `plimsoll status` there, then check plimsoll-enforce.timer.
{{{{- else -}}}}
The last pass over {node} has a time in the future: the clock there is wrong, or was set back, and whether passes
run is unknown. Run `timedatectl` there, then `plimsoll status`; the next pass ends this.
{{{{- end }}}}""",
    ):
        # In the first of them, since what is muted for an overdue pass is muted for one in the future too.
        ahead = f"\nor\n{age} < -{CLOCKS_DIFFER}" if alert.severity == site.levels("pass_age")[0] else ""
        yield replace(alert, expr=f"{alert.expr}{ahead}")
    yield Alert(
        name="PlimsollTextfileStale",
        severity="warning",
        expr=_stale_files(site),
        hold="15m",
        why="node_textfile_scrape_error exists where node_exporter runs its textfile collector. Without such an error"
        " a file that is gone was removed with plimsoll, or by a fault, so the alert ends by itself. So does that of"
        " a timetable that is no longer run.",
        summary=f"plimsoll's metrics of {node}{site.in_words} are stale: {{{{ $labels.file }}}}",
        description=f"""\
{{{{ if eq $labels.file "plimsoll-pass.prom" -}}}}
node_exporter on {node} runs, but does not read {{{{ $labels.file }}}}
{{{{- if gt $value 0.0 }}}}, and reports a textfile scrape error{{{{ end }}}}.
Compare textfile_dir in plimsoll.conf with node_exporter's --collector.textfile.directory, and read its log.
{{{{- else -}}}}
The timetable of probes on {node} was last run {{{{ $value | humanizeDuration }}}} ago. Check the timer of
`plimsoll probe run --due`. If it was switched off, this ends by itself, or at once without the file.
{{{{- end }}}}""",
    )
    yield from by_measure(
        site,
        "sources_down",
        f"count by {site.node('source')} (min by {site.node('source')} ({site(metrics.SOURCE_UP, _OTHERS)}) == 0)",
        name="PlimsollSourceDown",
        hold="15m",
        why="A catalogue that is missing is PlimsollCatalogueStale; factors of congestion are"
        " PlimsollCongestionStale.",
        summary=f"Source of plimsoll on {node}{site.in_words} down: {{{{ $labels.source }}}}",
        description=f"""\
Passes on {node} have a source that is down: {{{{ $labels.source }}}}.
{{{{ if eq $labels.source "disks" -}}}} They find no RBD disk, though guests that run there had some. New guests are
unlimited. Run `virsh dumpxml` there, and compare with a guest of another node.
{{{{- else if eq $labels.source "writes" -}}}} The first limits after an upgrade of libvirt or QEMU did not read back
as written, so no limit is set. Run `plimsoll status` there.
{{{{- else if eq $labels.source "libvirt" -}}}} No disk can be read or limited. Run `virsh list` there.
{{{{- else if eq $labels.source "refresh" -}}}} Refreshes of the catalogue fail, and the one before is used: new
volumes are unknown, and edits of QoS specs have no effect. Run `plimsoll status` there, and read the journal of
`plimsoll catalogue refresh`.
{{{{- else if eq $labels.source "orders" -}}}} Its region file is missing, or the signature is not valid: no limit is
raised or removed, and no approval of the region counts. Run `plimsoll status` there.
{{{{- else if eq $labels.source "rules" -}}}} They use the last good rules, or none. Run `plimsoll rules check` there.
{{{{- else -}}}} No limit is raised or removed. Run `plimsoll status` there, and check
free space and permissions of state_dir.
{{{{- end }}}}""",
    )
    last, last_good = (
        site(metrics.PASS_LAST_TIMESTAMP_SECONDS),
        site(metrics.PASS_LAST_GOOD_TIMESTAMP_SECONDS, over="1h"),
    )
    for_long = "{{ if lt $value 1e9 }}%sor {{ $value | humanizeDuration }}{{ else }}%so far{{ end }}"
    yield from by_measure(
        site,
        "good_pass_age",
        "(\n"
        f"  time() - max by {site.node()} (last_over_time({last_good}))\n"
        f"  or\n  Inf * max by {site.node()} ({last} offset 1h)\n"
        ")",
        "".join(f"\n{condition}" for condition in (f"and on {site.node()} {last}", *_causes(site))),
        name="PlimsollNoGoodPass",
        hold="15m",
        why="Only where no other alert gives the reason. Inf: a node that had its first pass an hour ago or earlier,"
        " and never a good one.",
        summary=f"No good plimsoll pass on {node}{site.in_words} {for_long % ('f', 's')}",
        description=f"{for_long % ('F', 'S')} each pass over {node} has left something undone, and no other alert"
        " gives the reason. Run `plimsoll enforce --mode observe` there and read its output.",
    )
    phases = f"max by {site.node('phase')} ({site(metrics.PASS_DURATION_SECONDS)})"
    yield from by_measure(
        site,
        "pass_seconds",
        f"sum by {site.node()} ({phases})",
        name="PlimsollPassSlow",
        hold="30m",
        summary=f"Passes on {node}{site.in_words} take {{{{ $value | humanizeDuration }}}}",
        description=f"The last pass over {node} took {{{{ $value | humanizeDuration }}}}: close to the time between"
        " two passes. Run `plimsoll status` there: it prints the longest phase; then `virsh list` and `ceph health"
        " detail`.",
    )


def of_daemon(site: Site) -> Iterator[Alert]:
    """Does the daemon, where there is one, do its work?"""
    node = site.node_words
    heartbeat = site(metrics.DAEMON_HEARTBEAT_TIMESTAMP_SECONDS)
    age = f"timestamp({heartbeat}) - {heartbeat}"  # at the scrape: until the next one it is as old again
    connection = site(metrics.DAEMON_CONNECTED)
    yield from by_measure(
        site,
        "daemon_faults",
        f"max by {site.node()} (({age} > bool {LATE:.0f}) + ({connection} == bool 0))",
        name="PlimsollDaemonDown",
        hold="10m",
        why="A daemon that is stopped removes its metrics.",
        summary=f"plimsoll daemon on {node}{site.in_words} does not run, or has no events",
        description=f"The daemon on {node} has written nothing for more than a minute, or libvirt sends it no events."
        " Only passes over the whole node set limits: guests that start wait for the next one. Run `plimsoll status`"
        " there, then `systemctl status plimsoll-daemon.service`.",
    )
    yield from by_measure(
        site,
        "daemon_faults",
        f"max by {site.node()} (1 - {site(metrics.DAEMON_LAST_RELOAD_SUCCESSFUL)})",
        f"\nunless on {site.node()} {age} > {LATE:.0f}",
        name="PlimsollDaemonNotReloaded",
        hold="10m",
        summary=f"plimsoll daemon on {node}{site.in_words} uses earlier settings",
        description=f"The daemon on {node} could not read the settings that were written last, and uses those before."
        " Run `plimsoll status` there: it prints the file, the line and the fault.",
    )
    yield Alert(
        name="PlimsollDaemonRestarts",
        severity="warning",
        expr=f"max by {site.node()} (changes({site(metrics.DAEMON_START_TIMESTAMP_SECONDS, over='3h')})) > 4",
        hold="5m",
        why="systemd starts a daemon that fails again after 10 seconds, so PlimsollDaemonDown does not fire.",
        summary=f"plimsoll daemon on {node}{site.in_words} restarts again and again",
        description=f"The daemon on {node} has been started {_VALUE} times in 3 h. It fails, or is killed. Passes"
        " over the whole node go on, but guests that start while it is down wait for the next one. Run `plimsoll"
        " status` there, and `journalctl -u plimsoll-daemon.service`.",
    )


_OTHERS = 'source!~"catalogue|congestion"'


def _stale_files(site: Site) -> str:
    build_info, on = site(metrics.BUILD_INFO), f"on {site.node()}"
    errors = f"max by {site.node()} ({site(SCRAPE_ERROR)})"
    age = f"time() - {site(metrics.PROBE_ROUND_TIMESTAMP_SECONDS)}"
    return f"""\
label_replace(
  (
    {errors} == 1 and {on} max_over_time({build_info}[7d:6h])
    or
    {errors} and {on} max_over_time({build_info}[{site.retired}:10m])
  )
  unless {on} {build_info},
  "file", "plimsoll-pass.prom", "", ""
)
or
label_replace(
  max by {site.node()} ({age}) > {ROUND_OVERDUE} < {site.seconds_of("probes_off")},
  "file", "plimsoll-probe.prom", "", ""
)"""


def _causes(site: Site) -> Iterator[str]:
    """What keeps passes from being good, and has an alert of its own."""
    for cause in (
        f"{site(metrics.SOURCE_UP)} == 0",
        f"{site(metrics.PASS_PAUSED)} == 1",
        f"{site(metrics.PASS_BRAKED_DISKS)} > 0",
        f"{site(metrics.GUESTS, _UNREACHABLE)} > 0",
        f"""{site(metrics.DISKS, 'state=~"deferred|failed"')} > 0""",
        f"{site(metrics.DISKS_UNKNOWN)} > 0",
    ):
        yield f"unless on {site.node()} {cause}"


def of_bursts(site: Site) -> Iterator[Alert]:
    """Where the site says when a burst is nearly spent."""
    if site.burst_left is None:
        return
    node = site.node_words
    yield Alert(
        name="PlimsollBurstsSpent",
        severity="warning",
        expr=f"count by {site.node()} ({once(site, metrics.DISK_BURST_SAVED_RATIO)} < {site.burst_left:g})",
        hold="30m",
        summary=f"{number('burst')} on {node}{site.in_words} nearly spent",
        description=f"For half an hour {number('burst')} of disks on {node} had less than {100 * site.burst_left:g} %"
        " of what they can save. When nothing is left, such a disk has its limit alone. `plimsoll disk explain` there"
        " shows what a disk has saved.",
    )


def of_disks(site: Site) -> Iterator[Alert]:
    """Do the disks have the limits that they should have?"""
    node, on = site.node_words, f"on {site.node()}"
    yield from by_measure(
        site,
        "unlimited",
        f"sum by {site.node()} ({once(site, metrics.DISKS_UNLIMITED)})",
        f"\nand {on} {site(metrics.PASS_ENFORCING)} == 1\nand {on} {site(metrics.PASS_PAUSED)} == 0",
        name="PlimsollDisksUnlimited",
        hold="30m",
        why="In observe mode no limit is written, and a paused node has an alert of its own. Several passes, since"
        " on a busy node each pass may find a guest that has just started.",
        summary=f"{number('disk')} on {node}{site.in_words} unlimited",
        description=f"{number('disk')} on {node} had no limit for half an hour, though one is desired. Run `plimsoll"
        " plan` there: it prints for each disk why its change is deferred or failed.",
    )
    yield from by_measure(
        site,
        "failed",
        f"sum by {site.node()} ({once(site, metrics.DISKS, _FAILED)})",
        f"\nunless {on} {site(metrics.SOURCE_UP)} == 0",
        name="PlimsollChangesFail",
        hold="30m",
        summary=f"Limits of {number('disk')} on {node}{site.in_words} cannot be set",
        description=f"Changes of {number('disk')} on {node} have failed for half an hour: libvirt or QEMU refuses"
        " them, or the record cannot be written. `plimsoll status` there prints the disks and the reasons.",
    )
    yield from by_measure(
        site,
        "unreachable_guests",
        f"max by {site.node()} ({site(metrics.GUESTS, _UNREACHABLE)})",
        name="PlimsollGuestsUnreachable",
        hold="30m",
        summary=f"{number('guest')} on {node}{site.in_words} unreachable",
        description=f"QEMU of {number('guest')} on {node} does not answer libvirt: their limits are unknown. While"
        " calls to four of them hang (`calls_at_once`; with the daemon to twelve) plimsoll changes no other disk of"
        " the node. `plimsoll plan` there lists them; then run `virsh domstate`, and `ceph health detail` for slow"
        " requests.",
    )
    yield Alert(
        name="PlimsollExternalChanges",
        severity="warning",
        expr=f"max by {site.node()} (changes({site(metrics.EXTERNAL_CHANGES_REVERTED_TOTAL, over='1d')})) >= 3",
        hold="5m",
        why="changes() counts passes that reverted something, not disks: one command that touched all disks of a"
        " node is one.",
        summary=f"Another program keeps changing limits on {node}{site.in_words}",
        description=f"{_VALUE} passes over {node} in 24 h reverted external changes to limits. Each change"
        " gives the guest a burst. `plimsoll record --since 1d` there lists the disks and times. Look for an old"
        " cron script, another agent, or virsh used by hand.",
    )


_VALUE = '{{ $value | printf "%.0f" }}'
_FAILED, _UNREACHABLE = 'state="failed"', 'state="unreachable"'
