# Validates Icinga 2's configuration with the objects from standard input instead of the installed ones.
set -eu
umask 022
program=$1 config=$2 directory=$3 name=$4
home=$(dirname "$config")
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
cp -a "$home/." "$new"
# It may contain keys, and Icinga reads it as its own user.
chown --reference="$home" "$new"
cat > "$new${directory#"$home"}/$name"
"$program" daemon --validate --config "$new/$(basename "$config")" --define "ZonesDir=$new/zones.d"
