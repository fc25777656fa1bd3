#!/usr/bin/env bash
# hdrhistogram 0.10.8 (PyPI): a latency above the histogram's range is left out, and neither total nor percentiles show
# it.
#
# One expects a value that is too large to be an error, as in the Java original, or to count in the last bucket, as in
# fio's and Prometheus' histograms. record_value returns False, which one easily does not look at, and counts nothing:
# of 90 requests of 10 us and 10 of 60 s, in a histogram until 3.6 s, p99 is 10 us and the total 90. So what records the
# latencies of a stalled disk shows a fast one, with fewer requests. `add` of another histogram raises for the same
# values.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check hdrhistogram==0.10.8
venv/bin/python - << 'PYTHON'
import sys

from hdrh.histogram import HdrHistogram

latencies = [10] * 90 + [60_000_000] * 10
narrow, wide = HdrHistogram(1, 3_600_000, 2), HdrHistogram(1, 3_600_000_000, 2)
for latency in latencies:
    narrow.record_value(latency)
    wide.record_value(latency)
for name, histogram in (("narrow", narrow), ("wide", wide)):
    print(name, "total", histogram.get_total_count(), "p99", histogram.get_value_at_percentile(99),
          "largest", histogram.get_max_value())
raised = ""
try:
    narrow.add(wide)
except IndexError as error:
    raised = str(error)
print("add:", raised)
right = (
    (narrow.get_total_count(), narrow.get_value_at_percentile(99), narrow.get_max_value()) == (90, 10, 10)
    and wide.get_total_count() == 100
    and wide.get_value_at_percentile(99) > 59_000_000
    and "do not fit" in raised
)
sys.exit(0 if right else 1)
PYTHON
