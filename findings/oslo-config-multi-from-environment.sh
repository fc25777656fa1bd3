#!/usr/bin/env bash
# oslo.config 10.1.0: an option that may be given several times is torn into letters where it comes from the environment.
#
# Since Victoria each option of an OpenStack service can be set by OS_GROUP__OPTION, which containers use. One expects of
# OS_NOTIFY__TARGET=http://a for a MultiStrOpt the list ['http://a'], as `target = http://a` in a file gives it. It is a
# list of the value's single letters; nothing is raised or logged. A ListOpt beside it is read as in a file.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install oslo.config==10.1.0
printf '[notify]\ntarget = http://a\nnames = a,b\n' > service.conf
cat > read.py << 'PYTHON'
import sys

from oslo_config import cfg

conf = cfg.ConfigOpts()
conf.register_opts([cfg.MultiStrOpt("target"), cfg.ListOpt("names")], group="notify")
conf([], default_config_files=sys.argv[1:])
print(list(conf.notify.target), list(conf.notify.names))
PYTHON
by_file=$(venv/bin/python read.py service.conf)
by_environment=$(OS_NOTIFY__TARGET=http://a OS_NOTIFY__NAMES=a,b venv/bin/python read.py)
echo "by a file: $by_file"
echo "by the environment: $by_environment"
[ "$by_file" = "['http://a'] ['a', 'b']" ]
[ "$by_environment" = "['h', 't', 't', 'p', ':', '/', '/', 'a'] ['a', 'b']" ]
