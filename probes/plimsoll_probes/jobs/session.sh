# One probe inside a guest, in steps: sh -c SCRIPT plimsoll-probe VERB DIRECTORY NAME ARGUMENT…
#
# Everything happens in DIRECTORY/.plimsoll-probe-NAME, which it makes and removes. It writes no other file and never
# a device, and removes files by their known names only. The node decides; this tells lines of KEY=VALUE.
# The guest agent waits until nobody holds the standard output, so whatever may hang in a stalled disk has another.
set -u
umask 077
export LC_ALL=C PATH="${PATH:-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

verb=$1 directory=$2 name=$3
# Its being there says whose the directory is: after a crash a file's content may be gone, its name is not.
mark=made-by-plimsoll
stopped=no

# $1: what the node makes of it, as a code; $2: more about it
give_up() {
    echo "trouble=$1"
    [ -z "${2:-}" ] || printf '%s\n' "$2" >&2
    exit 0
}

# Into the directory of the session $1 below the present one; fails when it is not one that this script made.
# From then on names are relative: nobody but root can put anything there, or a link in its place.
enter() {
    [ ! -L "$1" ] && [ -d "$1" ] && [ -O "$1" ] || return 1
    above=${PWD%/}
    cd -P "./$1" 2>/dev/null || return 1
    [ "$PWD" = "$above/$1" ] && [ -O . ] && [ ! -L "$mark" ] && [ -f "$mark" ] && return 0
    cd "${above:-/}" || exit 1
    return 1
}

# Kill what still runs in the present directory: an earlier call of this script, whose process id is in the mark, and
# its fio. A process is known by where it stands, so no number that was given anew is taken for it; to read its
# command line would hang while its memory is locked.
kill_ours() {
    read -r ours <"$mark" || ours=
    for process in /proc/[0-9]*; do
        [ "$process/cwd" -ef . ] && [ "${process#/proc/}" != $$ ] || continue
        read -r comm <"$process/comm" || continue
        if [ "${process#/proc/}" = "$ours" ]; then
            kill -9 "$ours"
            continue
        fi
        case $comm in fio | timeout | gzip | dd) kill -9 "${process#/proc/}" ;; esac
    done 2>/dev/null
}

# The known files of the present directory, and the directory: in the background, for while the disk stalls it hangs.
# The mark goes last: what is cut off here is swept later.
remove() {
    own=${PWD##*/}
    (
        trap '' TERM INT HUP
        rm -f data job.fio out.json out.json.gz err && rm -f "$mark" && cd .. && rmdir "./$own"
    ) >/dev/null 2>&1 </dev/null &
    remover=$!
}

sweep() {
    home=$PWD
    for left in .plimsoll-probe-*; do
        # Killed before it left its mark: empty, and rmdir takes nothing else.
        [ -L "$left" ] || [ ! -O "$left" ] || [ -f "$left/$mark" ] || rmdir "./$left" 2>/dev/null
        enter "$left" || continue
        kill_ours
        remove
        wait "$remover"
        cd "$home" || exit 1
    done
}

# The kernel's counters of the whole disk, where it has been told: completed reads and writes, and what is in flight.
disk_counters() {
    read -r reads _ _ _ writes _ _ _ flying _ <"/sys/block/$disk/stat" && echo "$1=$reads $writes $flying"
}

# Sets $now, in seconds.
look_at_clock() {
    read -r now _ </proc/uptime
    now=${now%.*}
}

cpu_counters() {
    read -r _ times </proc/stat && echo "$1=$times"
}

# $1: seconds; then fio's words. Its outcome is left in $status. Ends all of it when it is itself told to end.
guarded_fio() {
    limit=$1
    shift
    look_at_clock
    began=$now
    trap stop TERM INT HUP
    timeout -k 2 "$limit" fio "$@" --eta=never --output=out.json >err 2>&1 </dev/null &
    wait $!
    status=$?
    trap - TERM INT HUP
    look_at_clock
    # However it was ended, and whoever's timeout(1) that is.
    [ $status = 0 ] || [ $((now - began)) -lt "$limit" ] || stopped=yes
}

stop() {
    trap '' TERM INT HUP
    stopped=yes status=143
    after
    kill_ours
    remove
    exit 0
}

after() {
    [ "$verb" != run ] || {
        cpu_counters cpu_after
        disk_counters disk_after
    }
    echo "stopped=$stopped"
    echo "exit=$status"
    [ "$status" = 0 ] || [ "$stopped" = yes ] || dd bs=1000 count=1 <err >&2 2>/dev/null
}

# Sets $filesystem, and $disk to the whole disk's name below /sys/block, empty where there is none or several.
find_disk() {
    filesystem='' source='' numbers='' disk='' longest=-1
    while read -r _ _ pair _ point _ rest; do
        case $point in *\\*) point=$(printf '%b' "$point") ;; esac # a blank is \040
        case $PWD/ in "${point%/}"/*) ;; *) continue ;; esac
        # The later of two on one point hides the other.
        [ ${#point} -ge "$longest" ] || continue
        rest=" $rest" rest=${rest#* - } longest=${#point} numbers=$pair
        filesystem=${rest%% *} rest=${rest#* }
        source=${rest%% *}
    done </proc/self/mountinfo
    device=/sys/dev/block/$numbers
    # The number of a btrfs is no device's.
    [ -d "$device" ] || case $source in
    /dev/*) source=$(readlink -f "$source") && device=/sys/class/block/${source##*/} ;;
    esac
    here=$PWD
    if cd -P "$device" 2>/dev/null; then
        [ ! -f partition ] || cd -P ..
        # Device mapper, RAID: followed while there is exactly one disk below.
        while set -- slaves/* && [ -e "$1" ]; do
            [ $# = 1 ] && cd -P "$1" || {
                cd "$here"
                return
            }
            [ ! -f partition ] || cd -P ..
        done
        disk=${PWD##*/}
    fi
    cd "$here" || exit 1
}

# The serial number of the whole disk; a virtio disk has 20 characters of it.
serial() {
    cd -P "/sys/block/$disk" || return
    if [ -r serial ]; then
        read -r words <serial
        echo "$words"
    elif [ -r device/serial ]; then
        read -r words <device/serial
        echo "$words"
    elif [ -r device/vpd_pg80 ]; then
        tail -c +5 device/vpd_pg80 | tr -cd '[:graph:]'
    fi
}

look() {
    sweep
    for tool in fio gzip timeout; do
        command -v "$tool" >/dev/null || echo "missing=$tool"
    done
    # Its version is not asked for: it is in the result, and each start of fio costs a slow guest half a second.
    echo "engines=$(fio --enghelp 2>/dev/null | while read -r engine more; do
        [ -n "$more" ] || printf '%s ' "$engine"
    done)"
    read -r words </sys/devices/system/cpu/online && echo "online=$words"
    while read -r key words; do
        [ "$key" != Cpus_allowed_list: ] || echo "allowed=$words"
    done </proc/self/status
    df -P -k . 2>/dev/null | {
        read -r _
        read -r _ _ _ kilobytes _ && echo "free=$kilobytes"
    }
    find_disk
    echo "filesystem=$filesystem"
    echo "device=$disk"
    [ -z "$disk" ] || {
        read -r words <"/sys/block/$disk/size" && echo "sectors=$words"
        echo "serial=$(serial)"
    }
}

cd -P "$directory" 2>/dev/null || give_up not-writable "no such directory"
own=.plimsoll-probe-$name

case $verb in
look) look ;;
fill) # BYTES SECONDS
    words=$(mkdir "$own" 2>&1) || give_up not-writable "$words"
    cd -P "./$own" || exit 1
    words=$( (echo $$ >"$mark") 2>&1) || {
        rm -f "$mark" && cd .. && rmdir "./$own"
        give_up not-writable "$words"
    }
    # Written once: a run never allocates.
    guarded_fio "$5" --name=fill --filename=data --rw=write --bs=1M --size="$4" --direct=1 --end_fsync=1 \
        --ioengine=psync --thread
    after
    ;;
run) # SECONDS DISK, and the job file on standard input
    enter "$own" || give_up gone
    limit=$4 disk=$5
    echo $$ >"$mark"
    cat >job.fio
    cpu_counters cpu_before
    disk_counters disk_before
    guarded_fio "$limit" --output-format=json+ job.fio
    after
    if [ "$stopped" = yes ]; then
        kill_ours
        remove
        exit 0
    fi
    if [ "$status" = 0 ]; then
        gzip -c out.json >out.json.gz
        echo "bytes=$(wc -c <out.json.gz)"
    fi
    ;;
piece) # NUMBER
    enter "$own" || exit 3
    dd bs=262144 skip="$4" count=1 <out.json.gz 2>/dev/null
    ;;
clean)
    enter "$own" || {
        # Nothing there, or nothing of ours.
        [ -e "$own" ] || echo "clean=yes"
        exit 0
    }
    trap 'exit 0' TERM
    here=$PWD
    kill_ours
    remove
    wait "$remover"
    [ -d "$here" ] || echo "clean=yes"
    ;;
*) exit 64 ;;
esac
