# Validates Nagios' configuration with the objects from standard input instead of the installed ones.
set -eu
umask 022
program=$1 config=$2 directory=$3 name=$4
new=$(mktemp -d)
# In the same directory, since the configuration may contain relative paths.
copy=$(mktemp "$(dirname "$config")/.plimsoll-XXXXXX")
trap 'rm -rf "$new" "$copy"' EXIT
chmod 755 "$new"
cp -a "$directory/." "$new"
cat > "$new/$name"
sed "s|^cfg_dir=$directory/*\$|cfg_dir=$new|" "$config" > "$copy"
chown --reference="$config" "$copy"
chmod --reference="$config" "$copy"
"$program" -v "$copy"
