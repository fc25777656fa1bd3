#!/usr/bin/env bash
# msgspec 0.20.0 and 0.21.0: a copy with other values is checked by the newer one only.
#
# One expects that a Struct whose __post_init__ refuses an impossible value cannot hold one. With 0.20.0
# msgspec.structs.replace, and copy.replace of Python 3.13, return it: the constructor and convert check, the copy does
# not. From 0.21.0 on it is checked too. So a limit of minus one is a matter of the version that is installed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
cat > copy_of.py << 'PYTHON'
import msgspec


class Limit(msgspec.Struct, frozen=True):
    iops: int = 0

    def __post_init__(self):
        if self.iops < 0:
            raise ValueError("negative")


for name, make in (
    ("constructor", lambda: Limit(-1)),
    ("convert", lambda: msgspec.convert({"iops": -1}, Limit)),
    ("replace", lambda: msgspec.structs.replace(Limit(), iops=-1)),
):
    try:
        print(name, make())
    except (ValueError, msgspec.ValidationError):
        print(name, "refused")
PYTHON
for version in 0.20.0 0.21.0; do
    python3 -m venv "$version"
    "$version/bin/pip" --quiet --disable-pip-version-check install "msgspec==$version"
    echo "$version"
    "$version/bin/python" copy_of.py | tee "$version.txt"
    grep -qx 'constructor refused' "$version.txt"
    grep -qx 'convert refused' "$version.txt"
done
grep -qx 'replace Limit(iops=-1)' 0.20.0.txt
grep -qx 'replace refused' 0.21.0.txt
