# Prints how many disks the rules on its input would change much, and of how many, with the plimsoll that is there. It
# counts each change where that observes and is to enforce ($1): none was made before.
files=$(mktemp -d) || exit
trap 'rm -r "$files"' EXIT
cat > "$files/rules.yaml"
OS_DEFAULT__RULES_FILE=$files/rules.yaml plimsoll plan -f json > "$files/plan.json"
begins=
if [ "$1" = enforce ] && plimsoll settings DEFAULT -f value -c setting -c value | grep -qx 'mode observe'; then
    begins=yes
fi
python3 -c 'import json, sys
plan = json.load(sys.stdin)
changes = sum(each["change"] is not None for each in plan["outcomes"]) if sys.argv[1] else 0
print(max(changes, plan["large"]["disks"]), plan["large"]["of"], sep="\n")' "$begins" < "$files/plan.json"
