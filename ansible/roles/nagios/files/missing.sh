# Prints a word for each requirement that is missing: on a node user, directory, group, plimsoll, old-groups; on a
# server program, config, directory, unread.
if [ "$1" = node ]; then
    user=$2 directory=$3 group=$4 service=$5
    getent passwd "$user" > /dev/null || echo user
    [ -d "$directory" ] || echo directory
    [ -x /usr/bin/check_plimsoll ] || echo plimsoll
    known=$(getent group "$group") || { echo group; exit; }
    gid=$(echo "$known" | cut -d: -f3)
    # The user is a member, but a process that started before is not.
    case ",$(echo "$known" | cut -d: -f4)," in *",$user,"*) ;; *) exit ;; esac
    pid=$(systemctl show --property MainPID --value "$service")
    [ "${pid:-0}" = 0 ] || grep -qE "^Groups:.*[[:space:]]$gid([[:space:]]|\$)" "/proc/$pid/status" || echo old-groups
else
    program=$2 config=$3 directory=$4
    command -v "$program" > /dev/null || echo program
    [ -f "$config" ] || echo config
    [ -d "$directory" ] || echo directory
    [ "$1" = icinga2 ] || grep -qE "^cfg_dir=$directory/*\$" "$config" 2> /dev/null || echo unread
fi
