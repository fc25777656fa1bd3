#!/usr/bin/env bash
# ansible-core 2.19.14: with --check a file whose `validate` would refuse it is "changed", and nothing is validated.
#
# One expects a rehearsal (--check) to find what the rollout then stumbles on. `validate` of copy, template, lineinfile
# and blockinfile runs a program on the new file before it replaces the old one; in check mode none of the four does. So
# `--check` of a file with a mistake in it ends with changed=4 and status 0, and the run after it fails four times.
# Their documentation says "check mode: full".
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ansible-core==2.19.14
export ANSIBLE_NOCOLOR=1 ANSIBLE_HOME=$PWD/home ANSIBLE_LOCAL_TEMP=$PWD/local ANSIBLE_REMOTE_TEMP=$PWD/remote
export ANSIBLE_PYTHON_INTERPRETER=/usr/bin/python3
printf 'limit = x\n' > new
touch old
cat > play.yaml << PLAY
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    right: "/bin/grep -q 'limit = [0-9]' %s"
  tasks:
    - ansible.builtin.copy: {src: "$PWD/new", dest: "$PWD/copied", validate: "{{ right }}"}
      ignore_errors: true
    - ansible.builtin.template: {src: "$PWD/new", dest: "$PWD/templated", validate: "{{ right }}"}
      ignore_errors: true
    - ansible.builtin.lineinfile: {path: "$PWD/old", line: "limit = x", validate: "{{ right }}"}
      ignore_errors: true
    - ansible.builtin.blockinfile: {path: "$PWD/old", block: "limit = x", validate: "{{ right }}"}
      ignore_errors: true
PLAY
for mode in --check --diff; do
    venv/bin/ansible-playbook -i localhost, $mode play.yaml > "out$mode" 2> err
    echo "$mode: $(grep -oE 'changed=[0-9]|ignored=[0-9]' "out$mode" | tr '\n' ' ')"
done
grep -q "changed=4 .*ignored=0" out--check
grep -q "changed=0 .*ignored=4" out--diff
