#!/usr/bin/env bash
# grafanalib 0.7.1: a Stat, a gauge and a bar gauge show the mean of the dashboard's time range, not what is so now.
#
# One expects of Stat(title="Disks at limit", ...) the value of now: what is made in Grafana has "Last (not null)"
# since 2020 (pull request 28617 of Grafana, for these three panels). grafanalib writes calcs: ["mean"] for Stat,
# GaugePanel and BarGauge. So a panel of disks at their limit, of reduced limits or of a cluster's state changes with
# the time range: with 24 h, ten minutes with 100 disks at their limit are 0.7 disks, and are there a day after their
# end. reduceCalc="lastNotNull" of Stat and calc="lastNotNull" of the others make it the value of now.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check grafanalib==0.7.1
venv/bin/python - << 'PYTHON'
import json
import sys

from grafanalib._gen import DashboardEncoder
from grafanalib.core import BarGauge, GaugePanel, Stat, Target

right = True
for kind in (Stat, GaugePanel, BarGauge):
    for setting in ({}, {"reduceCalc" if kind is Stat else "calc": "lastNotNull"}):
        panel = kind(title="Disks at limit", targets=[Target(expr="sum(disk_at_limit)", refId="A")], **setting)
        text = json.dumps(panel.to_json_data(), cls=DashboardEncoder)
        calcs = [each for each in ("mean", "lastNotNull") if f'"calcs": ["{each}"]' in text]
        print(kind.__name__, setting, calcs)
        right = right and calcs == [setting and "lastNotNull" or "mean"]
sys.exit(0 if right else 1)
PYTHON
