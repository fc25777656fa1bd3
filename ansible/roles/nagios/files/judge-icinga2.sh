# What Icinga 2 says of its configuration with the objects of standard input in the place of those that are there.
set -eu
umask 022
program=$1 config=$2 directory=$3 name=$4
home=$(dirname "$config")
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
cp -a "$home/." "$new"
# It may hold keys, and Icinga reads it as its own user.
chown --reference="$home" "$new"
cat > "$new${directory#"$home"}/$name"
"$program" daemon --validate --config "$new/$(basename "$config")" --define "ZonesDir=$new/zones.d"
