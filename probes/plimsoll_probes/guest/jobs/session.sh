# One probe inside a guest, in steps: sh -c SCRIPT plimsoll-probe VERB DIRECTORY NAME ARGUMENT…
#
# Everything happens in DIRECTORY/.plimsoll-probe-NAME, which it makes and removes. It writes no other file and no
# device, and removes only files of known names. It prints lines of KEY=VALUE, from which the node decides.
# The guest agent waits until no process holds standard output, so what may hang on a stalled disk must not hold it.
#
# DIRECTORY may belong to a user who tries to make root write elsewhere, and who may rename, link and mount between
# any two commands. So no path is used twice. Each step changes to its directory by enter(), which asks the kernel
# where it is now, and goes on only where root alone can write. From there all names are relative. Only a subprocess
# changes to a parent directory.
set -u
umask 077
# Only what root installed: an empty entry in an inherited path means the current directory.
export LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# A redirection to an existing file is an error.
set -C

verb=$1 directory=$2 name=$3
# This file marks our directory: a crash may lose a file's content, but not its name.
mark=made-by-plimsoll
sysctl=/proc/sys/kernel
stopped=no

# $1: a code for the node; $2: details
give_up() {
    [ "$verb" != piece ] || exit 3
    echo "trouble=$1"
    [ -z "${2:-}" ] || printf '%s\n' "$2" >&2
    exit 0
}

# Sets $mount to the number of the mount of the current directory. PWD is never used: bash resolves its path before it
# changes the directory.
look_at_mount() {
    mount=
    while read -r key value; do
        [ "$key" != mnt_id: ] || mount=$value
    done 3<. </proc/self/fdinfo/3
}

# Sets $filesystem, and its device: $numbers, $source.
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

# Whether only its owner can write into the current directory; rights of an access list show as the group's.
private() {
    case $(ls -ldn .) in drwx--[-S]---*) ;; *) false ;; esac
}

# Changes to the directory $1 in DIRECTORY, which is the current one and open as 9. Fails unless root owns it, it lies
# in DIRECTORY, and it is on the same mount, since a user's mount can claim anything. After a failure the current
# directory may be any.
enter() {
    cd -P "./$1" 2>/dev/null && [ .. -ef /proc/self/fd/9 ] && [ -O . ] && look_at_mount && [ "$mount" = "$home" ]
}

enter_ours() {
    enter "$1" && private && [ ! -L "$mark" ] && [ -f "$mark" ]
}

# Enters what mkdir made since $made (seconds of the clock). A directory that is older or not empty is another one
# of root's that was put in its place, and stays. Only root can change the time of a private one.
enter_new() {
    enter "$1" && private && [ "$(stat -c %Y .)" -ge $((made - 1)) ] && [ -z "$(ls -A)" ]
}

# Kills what still runs in the current directory, which only root can enter: an earlier call of this script, whose
# process id is in the file, and its fio. Processes are recognised by their current directory, so a reused process id
# is no danger. Reading a command line would hang while the process's memory is locked.
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

# Removes the known files of the current directory, and that directory, $1. In the background, because it hangs while
# the disk stalls. The mark is removed last, so that an interrupted removal is swept later. If another directory has
# that name since, rmdir removes it only if it is empty, which the owner of DIRECTORY can do too.
remove() {
    (
        trap '' TERM INT HUP
        rm -f data pid job.fio out.json out.json.gz err && rm -f "$mark" && cd .. && rmdir "./$1"
    ) >/dev/null 2>&1 </dev/null &
    remover=$!
}

# Removes the directory $1 that has no mark: a session killed before it made its mark, or after it removed it, left it
# empty, and rmdir removes nothing else.
remove_unmarked() {
    [ -L "$1" ] || [ ! -O "$1" ] || [ -f "$1/$mark" ] || rmdir "./$1" 2>/dev/null
}

sweep() {
    for left in .plimsoll-probe-*; do
        remove_unmarked "$left"
        (
            enter_ours "$left" || exit
            kill_ours
            remove "$left"
            wait "$remover"
        )
    done
}

# Writes this call's process id for a later sweep, and removes an earlier job's files, but not its result.
claim() {
    rm -f pid job.fio out.json err && echo $$ >pid
}

# The kernel's counters of the whole disk, where $disk is known: completed reads and writes, and requests in flight.
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

# $1: seconds; then fio's arguments. Sets $status to fio's exit status. On a signal it ends fio and cleans up.
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
    # By time, since versions of timeout(1) differ in their exit status.
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

# The names of the whole disks below the current directory of /sys, through device mapper and RAID. Changes it.
disks_below() {
    [ ! -f partition ] || cd -P ..
    set -- slaves/*
    if [ -e "$1" ]; then
        for slave; do
            (cd -P "$slave" && disks_below) || echo unknown
        done
    else
        device=$(readlink /proc/self/cwd)
        echo "${device##*/}"
    fi
}

# The whole disk's name in /sys/block; nothing where there is none or several. Changes the current directory.
whole_disk() {
    device=/sys/dev/block/$numbers
    # The number of a btrfs is not that of a device.
    [ -d "$device" ] || case $source in
    /dev/*) source=$(readlink -f "$source") && device=/sys/class/block/${source##*/} ;;
    esac
    cd -P "$device" 2>/dev/null || return
    # A volume may lie on several partitions of one disk, as after an extension, and a thin pool on two parts of one.
    # Their names are words.
    set -- $(disks_below | sort -u)
    [ $# != 1 ] || [ "$1" = unknown ] || echo "$1"
}

# The serial number of the whole disk; virtio shows 20 characters of it.
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
    # fio's version is in the result; another start of fio would take a slow guest half a second. It lists what it was
    # built with, not what the kernel allows.
    forbidden=
    [ ! -r "$sysctl/io_uring_disabled" ] || read -r forbidden <"$sysctl/io_uring_disabled"
    # Where engines are packages of their own, some versions list none of these, and some one of them without end
    # (https://github.com/axboe/fio/issues/1655). The agent may have left SIGPIPE ignored.
    engines=$(timeout -k 2 5 fio --enghelp 2>/dev/null | head -n 100 | while read -r engine more; do
        [ -n "$more" ] || [ "$engine.$forbidden" = io_uring.2 ] || printf '%s ' "$engine"
    done)
    case " $engines" in
    *' libaio '*) ;;
    *) case $(fio --enghelp=libaio 2>/dev/null) in '' | *'not found'*) ;; *) engines="libaio $engines" ;; esac ;;
    esac
    echo "engines=$engines"
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

cd -P "$directory" 2>/dev/null && exec 9<. || {
    # dash does not say why.
    words=$(ls -d "$directory/." 2>&1) && words="it cannot be entered"
    give_up not-writable "$words"
}
# A link could lead elsewhere in the next step.
words=$(readlink /proc/self/cwd) || give_up not-writable "there is no /proc of Linux"
[ "$words" = "$directory" ] || give_up not-writable "it is a link, or below one, and leads to $words: give that directory"
look_at_mount
home=$mount
find_filesystem
# A user may mount FUSE on their directories, and then decides at any time what its files are.
case $filesystem in
'') give_up not-writable "its file system is unknown: /proc/self/mountinfo does not list it" ;;
fuse | fuse.*) give_up not-writable "it is on $filesystem, which a user may change at any moment" ;;
esac
own=.plimsoll-probe-$name

case $verb in
look) look ;;
fill) # BYTES SECONDS
    made=$(date +%s)
    words=$(mkdir "$own" 2>&1) || give_up not-writable "$words"
    enter_new "$own" || {
        words="another user changed it while it was made"
        private || words="others may enter it; is there a default access list? setfacl -k removes it"
        give_up not-writable "$own: $words"
    }
    # With its checksums btrfs writes through the page cache (seen on Linux 6.18), and everything to another place.
    [ "$filesystem" != btrfs ] || chattr +C . 2>/dev/null
    words=$( (true >"$mark" && claim && true >data) 2>&1) || {
        remove "$own"
        wait "$remover"
        give_up not-writable "$words"
    }
    # Written in full, so that no run allocates space.
    guarded_fio "$5" --name=fill --filename=data --rw=write --bs=1M --size="$4" --direct=1 --end_fsync=1 \
        --ioengine=psync --thread
    after
    # One that was killed reports nothing.
    [ "$stopped" = yes ] || while read -r words; do
        case $words in fio-*) echo "fio=$words" ;; esac
    done <out.json
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
    remove_unmarked "$own"
    [ -e "$own" ] || [ -L "$own" ] || {
        echo "clean=yes"
        exit 0
    }
    # Not our directory.
    enter_ours "$own" || exit 0
    trap 'exit 0' TERM
    kill_ours
    remove "$own"
    wait "$remover"
    case $(readlink /proc/self/cwd) in *' (deleted)') echo "clean=yes" ;; esac
    ;;
*) exit 64 ;;
esac
