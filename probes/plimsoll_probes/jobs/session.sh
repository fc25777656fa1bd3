# One probe inside a guest, in steps: sh -c SCRIPT plimsoll-probe VERB DIRECTORY NAME ARGUMENT…
#
# Everything happens in DIRECTORY/.plimsoll-probe-NAME, which it makes and removes. It writes no other file and never
# a device, and removes files by their known names only. The node decides; this tells lines of KEY=VALUE.
# The guest agent waits until no process holds the standard output, so whatever may hang in a stalled disk has another.
#
# DIRECTORY may belong to a user who wants root to write elsewhere, and who renames, links and mounts at any moment
# between two of our commands. So no path is used twice. Each step goes down to its directory by enter(), which asks
# the kernel where it has arrived and not what the names say now, and goes on only where root alone can write; there
# names are relative and what they stand for is ours. Nothing climbs back but in a process of its own.
set -u
umask 077
# Only what root installed: an inherited path may be empty, which is the present directory.
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# A file is made by this script, or it is an error.
set -C

verb=$1 directory=$2 name=$3
# Its being there says whose the directory is: after a crash a file's content may be gone, its name is not.
mark=made-by-plimsoll
stopped=no

# $1: what the node makes of it, as a code; $2: more about it
give_up() {
    [ "$verb" != piece ] || exit 3
    echo "trouble=$1"
    [ -z "${2:-}" ] || printf '%s\n' "$2" >&2
    exit 0
}

# Sets $mount to the number of the mount that the present directory lies in. PWD is not asked, nor is it anywhere
# below: bash resolves a path for it before it changes the directory.
look_at_mount() {
    mount=
    while read -r key value; do
        [ "$key" != mnt_id: ] || mount=$value
    done 3<. </proc/self/fdinfo/3
}

# Sets $filesystem, and where it is from: $numbers, $source.
find_filesystem() {
    filesystem='' numbers='' source=''
    while read -r id _ pair _ _ rest; do
        [ "$id" = "$mount" ] || continue
        rest=" $rest" rest=${rest#* - } numbers=$pair
        filesystem=${rest%% *} rest=${rest#* }
        source=${rest%% *}
        break
    done </proc/self/mountinfo
}

# Whether only its owner can write into the present directory: what an access list gives shows as the group's.
private() {
    case $(ls -ldn .) in drwx--[-S]---*) ;; *) false ;; esac
}

# Into the directory $1 below DIRECTORY, which is the present one and open as 9. Fails where that is not a directory
# of root's alone, in this very directory, on the same mount: what a user mounted may tell anything of itself.
# After a failure the present directory may be any.
enter() {
    cd -P "./$1" 2>/dev/null && [ .. -ef /proc/self/fd/9 ] && [ -O . ] && look_at_mount && [ "$mount" = "$home" ]
}

enter_ours() {
    enter "$1" && private && [ ! -L "$mark" ] && [ -f "$mark" ]
}

# What mkdir just made. Where DIRECTORY has a default access list, the umask counted for nothing. What is not empty is
# another directory of root's that was put in its place, and stays as it is.
enter_new() {
    enter "$1" && [ -z "$(ls -A)" ] && { private || chmod 700 . && private; } && [ -z "$(ls -A)" ]
}

# Kill what still runs in the present directory, in which only root can stand: an earlier call of this script, whose
# process id is in the file, and its fio. A process is known by where it stands, so no number that was given again is
# taken for it; to read its command line would hang while its memory is locked.
kill_ours() {
    ours=
    [ ! -f pid ] || read -r ours <pid
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

# The known files of the present directory, and the directory $1 that it is: in the background, for while the disk
# stalls it hangs. The mark goes last: what is cut off here is swept later. Should another directory have that name by
# then, rmdir takes it only when it is empty, as the owner of DIRECTORY can.
remove() {
    (
        trap '' TERM INT HUP
        rm -f data pid job.fio out.json out.json.gz err && rm -f "$mark" && cd .. && rmdir "./$1"
    ) >/dev/null 2>&1 </dev/null &
    remover=$!
}

sweep() {
    for left in .plimsoll-probe-*; do
        # Killed before it left its mark: empty, and rmdir takes nothing else.
        [ -L "$left" ] || [ ! -O "$left" ] || [ -f "$left/$mark" ] || rmdir "./$left" 2>/dev/null
        (
            enter_ours "$left" || exit
            kill_ours
            remove "$left"
            wait "$remover"
        )
    done
}

# Takes the present directory for this call: whoever sweeps finds it by its number. Files of an earlier job go; its result stays until there is another.
claim() {
    rm -f pid job.fio out.json err && echo $$ >pid
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
    timeout -k 2 "$limit" fio "$@" --eta=never >out.json 2>err </dev/null &
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
    remove "$own"
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

# The whole disk's name below /sys/block, nothing where there is none or several. Leaves the present directory.
whole_disk() {
    device=/sys/dev/block/$numbers
    # The number of a btrfs is no device's.
    [ -d "$device" ] || case $source in
    /dev/*) source=$(readlink -f "$source") && device=/sys/class/block/${source##*/} ;;
    esac
    cd -P "$device" 2>/dev/null || return
    [ ! -f partition ] || cd -P ..
    # Device mapper, RAID: followed while there is exactly one disk below.
    while set -- slaves/* && [ -e "$1" ]; do
        [ $# = 1 ] && cd -P "$1" || return
        [ ! -f partition ] || cd -P ..
    done
    device=$(readlink /proc/self/cwd)
    echo "${device##*/}"
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
    disk=$(whole_disk)
    echo "filesystem=$filesystem"
    echo "device=$disk"
    [ -z "$disk" ] || {
        read -r words <"/sys/block/$disk/size" && echo "sectors=$words"
        echo "serial=$(serial)"
    }
}

cd -P "$directory" 2>/dev/null && exec 9<. || give_up not-writable "no such directory"
# A link could lead elsewhere with each step.
words=$(readlink /proc/self/cwd)
[ "$words" = "$directory" ] || give_up not-writable "it is a link, or below one, and leads to $words: name that"
look_at_mount
home=$mount
find_filesystem
# The one kind that a user may mount, on any directory of theirs. Its files are what that user says at each moment.
case $filesystem in
'') give_up not-writable "the kernel does not say which file system it lies on" ;;
fuse | fuse.*) give_up not-writable "it lies on $filesystem, which a user may change at any moment" ;;
esac
own=.plimsoll-probe-$name

case $verb in
look) look ;;
fill) # BYTES SECONDS
    words=$(mkdir "$own" 2>&1) || give_up not-writable "$words"
    enter_new "$own" || give_up not-writable "$own: another user changed it while it was made"
    words=$( (true >"$mark" && claim && true >data) 2>&1) || {
        remove "$own"
        wait "$remover"
        give_up not-writable "$words"
    }
    # Written once: a run never allocates.
    guarded_fio "$5" --name=fill --filename=data --rw=write --bs=1M --size="$4" --direct=1 --end_fsync=1 \
        --ioengine=psync --thread
    after
    ;;
run) # SECONDS DISK, and the job file on standard input
    enter_ours "$own" || give_up gone
    limit=$4 disk=$5
    words=$( (claim && cat >job.fio) 2>&1) || give_up not-writable "$words"
    cpu_counters cpu_before
    disk_counters disk_before
    guarded_fio "$limit" --output-format=json+ job.fio
    after
    if [ "$stopped" = yes ]; then
        kill_ours
        remove "$own"
        exit 0
    fi
    if [ "$status" = 0 ]; then
        rm -f out.json.gz && gzip <out.json >out.json.gz
        echo "bytes=$(wc -c <out.json.gz)"
    fi
    ;;
piece) # NUMBER
    enter_ours "$own" || exit 3
    dd bs=262144 skip="$4" count=1 <out.json.gz 2>/dev/null
    ;;
clean)
    [ -e "$own" ] || [ -L "$own" ] || {
        echo "clean=yes"
        exit 0
    }
    # Nothing of ours.
    enter_ours "$own" || exit 0
    trap 'exit 0' TERM
    kill_ours
    remove "$own"
    wait "$remover"
    case $(readlink /proc/self/cwd) in *' (deleted)') echo "clean=yes" ;; esac
    ;;
*) exit 64 ;;
esac
