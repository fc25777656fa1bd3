# Shared by the scripts beside it, which stand in the checkout's root.

say() { printf '%s\n' "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# A path as it was typed where the script was started: $from.
absolute() { case $1 in /*) say "$1" ;; *) say "$from/$1" ;; esac; }

# step 2 4 "words": a line that says how far it is; stepped: and how long that took.
step() { STEP_STARTED=$SECONDS; printf '[%s/%s] %s\n' "$1" "$2" "$3"; }
stepped() { printf '      done in %s s\n' "$((SECONDS - STEP_STARTED))"; }

distribution() { . /etc/os-release && printf '%s' "${PRETTY_NAME:-an unknown system}"; }
# debian: the number of its release, on Debian.
debian() { (. /etc/os-release && [ "${ID:-}" = debian ] && say "${VERSION_ID:-}"); }

# check_lab DIRECTORY GIB: what the lab needs of the machine and no setup can bring, said before anything is installed.
check_lab() {
    local directory=$1 space=$2 memory
    [ "$(id -u)" = 0 ] || fail "run it as root: it starts daemons and guests in a namespace of their own"
    unshare --mount true 2> /dev/null ||
        fail "this system refuses a mount namespace, as containers do: run it on a machine or in a guest of its own"
    until [ -d "$directory" ]; do directory=$(dirname "$directory"); done
    [ "$(df --output=avail --block-size=1G "$directory" | tail -n 1)" -ge "$space" ] ||
        fail "$directory has less than $space GiB free: free some, or set PLIMSOLL_LAB_DIR to a directory that has more"
    memory=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
    [ "$memory" -ge 3600 ] || fail "this machine has $memory MiB of memory, and the lab needs 4 GiB"
}

# copy_checkout DIRECTORY: this checkout, with what is not committed; what was set up there before stays.
copy_checkout() {
    local copy=$1 commit
    umask 022
    [ -d "$copy/.git" ] || git clone --quiet --no-hardlinks . "$copy"
    commit=$(git rev-parse HEAD)
    git -C "$copy" fetch --quiet "$PWD" HEAD
    git -C "$copy" checkout --quiet --force --detach "$commit"
    git -C "$copy" clean --quiet --force -d
    git diff --binary HEAD | git -C "$copy" apply --allow-empty
    git ls-files -z --others --exclude-standard | tar --create --null --files-from=- | tar --extract --directory="$copy"
}

# missing_packages GROUP...: packages of these groups of packages.txt that are not there, or were not installed to the end.
missing_packages() {
    local package file since release group= desired=()
    release=$(debian || true)
    while read -r package file since; do
        case $package in
            ''|'#'*) ;;
            '['*) group=${package//[][]/} ;;
            *)  if [[ " $* " == *" $group "* ]] && [ "${release:-0}" -ge "${since:-0}" ]; then
                    if compgen -G "$file" > /dev/null; then desired+=("$package"); else printf '%s ' "$package"; fi
                fi ;;
        esac
    done < script/packages.txt
    if [ ${#desired[@]} -gt 0 ] && command -v dpkg-query > /dev/null; then
        { dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' "${desired[@]}" 2> /dev/null || true; } |
            while read -r file package; do
                case $file in installed|not-installed|config-files) ;; *) printf '%s ' "$package" ;; esac
            done
    fi
}

POLICY=/usr/sbin/policy-rc.d
MADE_BY_US='# Made by the setup of plimsoll, and removed at its end.'

# The lab starts daemons of its own; those of the packages must not be started on this machine.
forbid_daemons() {
    [ -e $POLICY ] && return
    printf '#!/bin/sh\n%s\nexit 101\n' "$MADE_BY_US" > $POLICY
    chmod 755 $POLICY
}
allow_daemons() { if grep -qsxF "$MADE_BY_US" $POLICY; then rm -f $POLICY; fi; }

install_packages() {
    local debian=(apt-get -y -qq -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-unsafe-io)
    export DEBIAN_FRONTEND=noninteractive
    trap allow_daemons EXIT
    forbid_daemons
    # Where an earlier one was cut off.
    dpkg --configure -a
    "${debian[@]}" install --fix-broken --no-install-recommends "$@"
}

# What is installed depends on it: when it changes, that has to be done again.
requirements() { { awk '/^\[/ { desired = /^\[(metadata|options)/ } desired' setup.cfg; cat script/constraints.txt; } | sha256sum; }

# of_parts COLUMN PART...: the words in that column of parts.txt.
of_parts() {
    local column=$1 name columns part
    shift
    for part in "$@"; do
        while read -r name columns; do
            if [ "$name" = "$part" ]; then set -- $columns; say "${!column//,/ }"; fi
        done < script/parts.txt
    done | tr ' ' '\n' | sed '/^-\?$/d' | sort -u | tr '\n' ' '
}
known_parts() { sed -n 's/^\([a-z]\+\) .*/\1/p' script/parts.txt; }

# What those parts have not got: packages, extras of .venv, kept things; each empty where it is complete.
find_missing() {
    local extra done_for= extras=
    MISSING_PACKAGES=$(missing_packages $(of_parts 1 "$@"))
    { read -r done_for; read -r extras; } 2> /dev/null < .venv/setup-done || true
    [ "$done_for" = "$(requirements)" ] || extras=
    MISSING_EXTRAS=
    for extra in $(of_parts 2 "$@"); do
        [[ " $extras " == *" $extra "* ]] || MISSING_EXTRAS+="$extra "
    done
    HAS_EXTRAS=$extras
    MISSING_KEPT=$(of_parts 3 "$@")
    if [ -n "$MISSING_KEPT" ] && [ -x /usr/bin/python3 ]; then
        MISSING_KEPT=$(/usr/bin/python3 -m lab.cloud.kept missing $MISSING_KEPT | tr '\n' ' ')
    fi
}

# ensure_setup [PART...]: sets up what these parts of setup need and have not got yet; without words, all.
ensure_setup() {
    [ $# -gt 0 ] || set -- all
    find_missing "$@"
    [ -z "$MISSING_PACKAGES$MISSING_EXTRAS$MISSING_KEPT" ] || script/setup "$@"
}
