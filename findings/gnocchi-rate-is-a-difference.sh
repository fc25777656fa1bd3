#!/usr/bin/env bash
# gnocchi 4.7.1: rate:mean of a disk that writes 1 MiB each second is 60 or 300 MiB, by how often it was polled.
#
# Ceilometer's archive policies keep disk.device.write.bytes as `mean` and `rate:mean`. One expects a rate to be by
# time, as in Prometheus. Gnocchi's rate is the difference of one measure and the one before: polled each 60 s it is 60
# MiB, each 300 s it is 300 MiB, in points of the same granularity. Where a poll was missed the next is twice as high,
# so a disk that is held at its limit seems to exceed it. A guest that was stopped and started counts from 0 again, and
# the rate is negative (issue 1079, closed). So a figure to hold against a limit is rate:mean by the interval of
# polling.yaml, which Gnocchi does not know, and not by the granularity. What metricd computes is this library.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check gnocchi==4.7.1
cat > rates.py << 'PYTHON'
import sys

import numpy
from gnocchi.carbonara import AggregatedTimeSerie, Aggregation, TimeSerie

MIB = 2**20
GRANULARITY = numpy.timedelta64(300, "s")


def rates(polls):
    """rate:mean, in MiB, of (time, bytes) as Gnocchi keeps it."""
    times = [numpy.datetime64("2026-01-01T00:00:00") + numpy.timedelta64(time, "s") for time, _ in polls]
    serie = TimeSerie.from_data(times, [float(value) for _, value in polls])
    aggregation = Aggregation("rate:mean", GRANULARITY, None)
    points = AggregatedTimeSerie.from_grouped_serie(serie.group_serie(GRANULARITY), aggregation)
    return [float(value) / MIB for _, value in points]


def polled(interval):
    return [(time, time * MIB) for time in range(0, 3001, interval)]


answers = {
    "each 60 s": rates(polled(60)),
    "each 300 s": rates(polled(300)),
    "one missed": rates([poll for poll in polled(300) if poll[0] != 1500]),
    "started again": rates([(time, (time if time < 1500 else time - 1500) * MIB) for time, _ in polled(300)]),
}
for name, values in answers.items():
    print(f"{name}: {values}")
problems = [
    name
    for name, holds in {
        "each 60 s": set(answers["each 60 s"]) == {60},
        "each 300 s": set(answers["each 300 s"]) == {300},
        "one missed": sorted(set(answers["one missed"])) == [300, 600],
        "started again": min(answers["started again"]) == -1200,
    }.items()
    if not holds
]
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
venv/bin/python rates.py
