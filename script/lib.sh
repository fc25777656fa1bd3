# Shared by the scripts beside it, which stand in the checkout's root.

say() { printf '%s\n' "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# A path as it was typed where the script was started: $from.
absolute() { case $1 in /*) say "$1" ;; *) say "$from/$1" ;; esac; }

# step 2 4 "words": a line that says how far it is; stepped: and how long that took.
step() { STEP_STARTED=$SECONDS; printf '[%s/%s] %s\n' "$1" "$2" "$3"; }
stepped() { printf '      done in %s s\n' "$((SECONDS - STEP_STARTED))"; }

distribution() { . /etc/os-release && printf '%s' "${PRETTY_NAME:-an unknown system}"; }
is_debian_12() { . /etc/os-release && [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ]; }

missing_packages() {
    local package file
    while read -r package file; do
        case $package in ''|'#'*) continue ;; esac
        [ -e "$file" ] || printf '%s ' "$package"
    done < script/packages.txt
}

install_packages() {
    local started_by_apt=/usr/sbin/policy-rc.d
    export DEBIAN_FRONTEND=noninteractive
    # The lab starts daemons of its own; those of the packages must not be started on this machine.
    if [ ! -e $started_by_apt ]; then
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' > $started_by_apt
        chmod 755 $started_by_apt
    fi
    mkdir -p build
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; } > build/apt.log 2>&1 ||
        { tail -n 20 build/apt.log >&2; fail "apt-get did not succeed; its whole output is in build/apt.log"; }
}

# What setup depends on: when it changes, setup has to run again.
fingerprint() { cat setup.cfg script/*.txt | sha256sum; }

ensure_setup() {
    if [ ! -f .venv/setup-done ] || [ "$(cat .venv/setup-done)" != "$(fingerprint)" ] || [ -n "$(missing_packages)" ]; then
        script/setup
    fi
}
