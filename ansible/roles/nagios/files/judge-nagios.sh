# What Nagios says of its configuration with the objects of standard input in the place of those that are there.
set -eu
umask 022
program=$1 config=$2 directory=$3 name=$4
new=$(mktemp -d)
# Beside the old one, since what it names may be relative to it.
copy=$(mktemp "$(dirname "$config")/.plimsoll-XXXXXX")
trap 'rm -rf "$new" "$copy"' EXIT
chmod 755 "$new"
cp -a "$directory/." "$new"
cat > "$new/$name"
sed "s|^cfg_dir=$directory/*\$|cfg_dir=$new|" "$config" > "$copy"
chown --reference="$config" "$copy"
chmod --reference="$config" "$copy"
"$program" -v "$copy"
