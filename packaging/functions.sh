# What the scripts of the packages do, those of deb and of rpm. script/package puts this text at the head of each.
base=/opt/plimsoll
state=/var/lib/plimsoll
# Not in $state: what root names there, its owner could have made a link to another file.
left=/var/backups/plimsoll-limits-left.txt
timers="plimsoll-catalogue.path plimsoll-catalogue.timer plimsoll-enforce.timer plimsoll-probe.timer"
lasting="plimsoll-daemon.service plimsoll-congestion-fetch.service plimsoll-congestion-publish.service"
services="plimsoll-catalogue.service plimsoll-enforce.service plimsoll-probe.service $lasting"

say() { printf 'plimsoll: %s\n' "$*" >&2; }
systemd_runs() { [ -d /run/systemd/system ]; }
# setting NAME: of this node, as the version that is installed reads it; nothing where it cannot.
setting() { $base/current/bin/plimsoll settings "$1" -f value -c value 2> /dev/null || true; }
runs_now() { systemd_runs && [ "$(systemctl show --property=ActiveState --value "$1")" = activating ]; }

# Before a version is unpacked: whether it can read what the present one has written. That is asked of the present one.
check_state() {
    if [ -n "${PLIMSOLL_SKIP_STATE_CHECK:-}" ] || ! "$base/current/bin/python" -I -c '' 2> /dev/null; then return 0; fi
    found=$("$base/current/bin/plimsoll" state check -f json) || true
    printf '%s' "$found" | "$base/current/bin/python" -I -c "$(judge_state)" >&2 || {
        say "the present version stays; with PLIMSOLL_SKIP_STATE_CHECK=1 in the environment this is not checked"
        return 1
    }
}

# Before files are replaced: no pass may lose its modules. A probe is ended in order, and removes its file.
await_runs() {
    if runs_now plimsoll-probe.service; then systemctl stop plimsoll-probe.service; fi
    for unit in plimsoll-enforce.service plimsoll-catalogue.service; do
        # At the longest as long as TimeoutStartSec= of the unit.
        while runs_now $unit; do sleep 1; done
    done
}

# Once files are there. Timers stay as they are: none is enabled, disabled, started or stopped.
settle() {
    replace_installer
    systemd-sysusers plimsoll.conf
    # Not by the name of the file: one of the site would not be read (tmpfiles.d(5)). 65: lines of others are invalid.
    systemd-tmpfiles --create --prefix=$state --prefix=$state-catalogue --prefix=$state-publish || [ $? = 65 ]
    if systemd_runs; then
        systemctl daemon-reload
        # The new version may refuse settings that the one before took; the package is there all the same.
        systemctl try-restart $lasting || say "a service did not start again, see systemctl --failed"
    fi
}

# What the wheelhouse's installer has left: its units would hide those of the package. Its commands in /usr/local/bin
# lead to the package's from now on, since NRPE and scripts name them.
replace_installer() {
    [ -e $base/placed.json ] || return 0
    enabled=
    for unit in $timers $lasting; do
        if [ "$(systemctl is-enabled $unit 2> /dev/null)" = enabled ]; then enabled="$enabled $unit"; fi
    done
    sed -n 's/^ "\(.*\)",\{0,1\}$/\1/p' $base/placed.json | while read -r path; do
        case $path in
            /etc/systemd/system/plimsoll-* | /etc/sysusers.d/plimsoll.conf | /etc/tmpfiles.d/plimsoll.conf) rm -f "$path" ;;
            /usr/local/share/*) if [ -L "$path" ]; then rm -f "$path"; fi ;;
        esac
    done
    # Their links led to the installer's units, and lead to those of the package now.
    [ -z "$enabled" ] || systemctl reenable $enabled
    rm -rf $base/versions $base/wheelhouses $base/install $base/previous $base/under-way.json
    rm -f $base/placed.json
    say "replaced what the installer had installed; enabled as before:${enabled:- nothing}"
}

# Before the last version goes. Limits stay in force; PLIMSOLL_UNDO_SINCE=MOMENT restores those from before,
# with PLIMSOLL_UNDO_DISKS=NUMBER as undo's --disks.
leave() {
    active=
    if systemd_runs; then
        for unit in $timers $lasting; do
            if systemctl --quiet is-active $unit; then active="$active $unit"; fi
        done
        systemctl stop $timers $services || true
    fi
    restore_reduced
    if [ -n "${PLIMSOLL_UNDO_SINCE:-}" ] && ! undo_changes && ! nothing_to_retry; then
        [ -z "$active" ] || systemctl start $active
        say "limits were not restored, see above, so plimsoll stays;" \
            "where --disks is asked for: PLIMSOLL_UNDO_DISKS=NUMBER beside PLIMSOLL_UNDO_SINCE"
        return 1
    fi
    list_limits
    directory=$(setting textfile_dir)
    # node_exporter would serve them for ever. find follows no link, not even one in the place of the directory.
    for kind in ${directory:+pass console probe daemon congestion region}; do
        find "$directory" -maxdepth 1 -name "plimsoll-$kind.prom" -delete 2> /dev/null || true
    done
    for command in plimsoll check_plimsoll; do
        if [ "$(readlink /usr/local/bin/$command)" = $base/current/bin/$command ]; then rm -f /usr/local/bin/$command; fi
    done
}

# The number is the operator's, as at every undo of many disks: the moment may be a mistake.
undo_changes() {
    $base/current/bin/plimsoll undo --since "$PLIMSOLL_UNDO_SINCE" --yes --all \
        ${PLIMSOLL_UNDO_DISKS:+--disks "$PLIMSOLL_UNDO_DISKS"}
}

# Disks that are left alone, as those that were attached again since, would be so at each try.
nothing_to_retry() {
    $base/current/bin/plimsoll undo --since "$PLIMSOLL_UNDO_SINCE" --dry-run -f json 2> /dev/null |
        $base/current/bin/python -I -c 'import json, sys
counts = json.load(sys.stdin)["counts"]
sys.exit(any(counts[each] for each in ("planned", "deferred", "failed", "unknown")))' 2> /dev/null
}

# Nothing would do it later: only the daemon and passes restore what is reduced.
restore_reduced() {
    directory=$(setting state_dir)
    directory=${directory:-$state}
    [ -e "$directory/factors.json" ] || [ -e "$directory/ceilings.json" ] || return 0
    status=0
    $base/current/bin/plimsoll pause --restore --reason 'plimsoll is removed' >&2 || status=$?
    # It was paused by this. Otherwise it was paused before, and stays so.
    case $status in 0 | 3) $base/current/bin/plimsoll resume --reason 'plimsoll is removed' > /dev/null || true ;; esac
    [ $status = 0 ] || say "limits that are reduced may stay so, see above"
}

list_limits() {
    directory=$(setting state_dir)
    [ -d "${directory:-$state}" ] || return 0
    mkdir -p "${left%/*}"
    status=0
    (umask 077 && timeout 120 $base/current/bin/plimsoll disk list --max-width 0 > $left.new) || status=$?
    # 1: a guest does not answer, or the rules cannot be read. What the other guests have is listed all the same.
    if [ $status = 0 ] || [ -s $left.new ]; then
        [ $status = 0 ] || echo "This list may be incomplete: guests that did not answer are missing." >> $left.new
        mv -T $left.new $left
        say "these limits stay until each guest is restarted, and $left lists them:"
        cat $left >&2
    else
        rm -f $left.new
        say "the limits that stay could not be listed, see above; virsh blkdeviotune shows those of a disk"
    fi
}
