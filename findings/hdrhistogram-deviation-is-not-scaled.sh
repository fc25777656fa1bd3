#!/usr/bin/env bash
# hdrhistogram 0.10.8 (PyPI): the text of a histogram has its mean in milliseconds, and its deviation in microseconds.
#
# Latencies are recorded in microseconds and written with output_percentile_distribution(file, 1000), whose second
# argument brings values to milliseconds, for the plotter and the people that read the text. One expects all values to
# be divided by it. The rows, Mean and Max are, StdDeviation is not: of reads that take 10 and 20 ms the last lines
# say Mean 15.006, StdDeviation 5002.000, Max 20.015. The deviation seems to be 300 times the mean: a steady disk
# looks like one that stalls. The Java original divides it.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check hdrhistogram==0.10.8
cat > latencies.py << 'PYTHON'
import io
import re
import sys

from hdrh.histogram import HdrHistogram

histogram = HdrHistogram(1, 3_600_000_000, 3)
for latency in (10_000, 20_000) * 50:
    histogram.record_value(latency)


def text(divisor):
    out = io.BytesIO()
    histogram.output_percentile_distribution(out, divisor)
    summary = [line for line in out.getvalue().decode().splitlines() if line.startswith("#[M")]
    print(f"divided by {divisor}:", *summary, sep="\n")
    return {name: float(value) for name, value in re.findall(r"(\w+) *= *([\d.]+)", " ".join(summary))}


microseconds, milliseconds = text(1), text(1000)
problems = [
    name
    for name, holds in {
        "Mean": 14.9 < milliseconds["Mean"] < 15.1 and 14_900 < microseconds["Mean"] < 15_100,
        "Max": 19.9 < milliseconds["Max"] < 20.1 and 19_900 < microseconds["Max"] < 20_100,
        "StdDeviation": 4_990 < microseconds["StdDeviation"] == milliseconds["StdDeviation"] < 5_010,
    }.items()
    if not holds
]
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
venv/bin/python latencies.py
