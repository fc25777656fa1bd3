# Prints how many disks the rules on its input would change much, and of how many, with the plimsoll that is there.
files=$(mktemp -d) || exit
trap 'rm -r "$files"' EXIT
cat > "$files/rules.yaml"
OS_DEFAULT__RULES_FILE=$files/rules.yaml plimsoll plan -f json > "$files/plan.json"
python3 -c 'import json, sys
large = json.load(sys.stdin)["large"]
print(large["disks"], large["of"], sep="\n")' < "$files/plan.json"
