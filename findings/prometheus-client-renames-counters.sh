#!/usr/bin/env bash
# prometheus_client 0.26.0: what reads metrics and writes them again renames counters.
#
# One expects that families from prometheus_client.parser, given to a registry and written by generate_latest, are the text
# that was read: so a filter or a merge of text files for node_exporter is written. A counter whose name does not end with
# _total, as those of Ceph's manager (ceph_osd_op_r), gets that ending in HELP, TYPE and sample: queries and alerts on the
# old name find nothing.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install prometheus_client==0.26.0
cat > merge.py << 'PYTHON'
import sys

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families


class Read:
    def describe(self):
        return []

    def collect(self):
        return text_string_to_metric_families(sys.stdin.read())


registry = CollectorRegistry()
registry.register(Read())
sys.stdout.write(generate_latest(registry).decode())
PYTHON
printf '# HELP ceph_osd_op_r reads\n# TYPE ceph_osd_op_r counter\nceph_osd_op_r{ceph_daemon="osd.1"} 5.0\n' > read.prom
printf '# HELP ceph_osd_up up\n# TYPE ceph_osd_up gauge\nceph_osd_up{ceph_daemon="osd.1"} 1.0\n' >> read.prom
venv/bin/python merge.py < read.prom | tee written.prom
grep -qx 'ceph_osd_op_r_total{ceph_daemon="osd.1"} 5.0' written.prom
grep -qx '# TYPE ceph_osd_op_r_total counter' written.prom
grep -qx 'ceph_osd_up{ceph_daemon="osd.1"} 1.0' written.prom
! grep -q '^ceph_osd_op_r{' written.prom
