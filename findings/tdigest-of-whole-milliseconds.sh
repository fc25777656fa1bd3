#!/usr/bin/env bash
# tdigest 0.5.2.2 (PyPI): of 990 reads of 1 ms and 10 of 5 s the tenth percentile is -3948 ms, and the 75th 2550 ms.
#
# A t-digest keeps many small centroids near the ends, so one expects its percentiles to be right there. Values that
# are the same go into one centroid, however large it gets, and a percentile is read off the line from the middle of
# one centroid to that of the next. Latencies in whole milliseconds, as many tools log them, are a few centroids: here
# two. What lies between them is made up, what lies below the middle of the first is negative, and cdf(1.1), the share
# of reads that took at most 1.1 ms, is 0.495. Nothing is raised. With a fraction of noise on each value all are
# right. Issue 60 of tdigest, open, tells the same of dice.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tdigest==0.5.2.2
cat > latencies.py << 'PYTHON'
import random
import sys

from tdigest import TDigest

random.seed(1)
whole = [1] * 990 + [5000] * 10
random.shuffle(whole)
noisy = [value + random.uniform(-0.1, 0.1) for value in whole]
percentiles = (10, 50, 75, 90, 95)
answers = {}
for name, values in (("whole", whole), ("noisy", noisy)):
    digest = TDigest()
    digest.batch_update(values)
    answers[name] = [round(digest.percentile(each), 1) for each in percentiles]
    right = [round(sorted(values)[each * len(values) // 100], 1) for each in percentiles]
    print(f"{name}: {len(digest)} centroids, {percentiles}: {answers[name]}, of the values themselves {right}")
    answers[f"{name}, at most 1 ms"] = digest.cdf(1.1)
    print(f"share of at most 1.1 ms: {digest.cdf(1.1):.3f}")
problems = [
    name
    for name, holds in {
        "negative": answers["whole"][0] < -3000,
        "made up": 2000 < answers["whole"][2] < 3000 and 4000 < answers["whole"][4] < 4990,
        "share": 0.49 < answers["whole, at most 1 ms"] < 0.5,
        "noisy": all(0.8 < value < 1.2 for value in answers["noisy"]),
        "share, noisy": answers["noisy, at most 1 ms"] > 0.95,
    }.items()
    if not holds
]
sys.exit(f"other than stated: {problems}" if problems else 0)
PYTHON
venv/bin/python latencies.py
