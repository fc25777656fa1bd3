#!/usr/bin/env bash
# ansible-core 2.19.14: max_fail_percentage counts failed hosts only, so a rollout goes on where hosts are unreachable.
#
# One expects of `serial: 2` and `max_fail_percentage: 0` that a batch in which one of two hosts is lost is the last
# one. Where a task fails on one host it is. Where one host cannot be reached, the next batch is changed all the same:
# such a host is no failure, and no variable of a play limits how many there may be.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ansible-core==2.19.14
export ANSIBLE_NOCOLOR=1 ANSIBLE_HOME=$PWD/home ANSIBLE_LOCAL_TEMP=$PWD/local ANSIBLE_REMOTE_TEMP=$PWD/remote
cat > play.yaml << 'PLAY'
- hosts: all
  gather_facts: false
  serial: 2
  max_fail_percentage: 0
  tasks:
    - ansible.builtin.raw: "{{ work }}"
PLAY
run() { # the second host, and how it is spoilt
    cat > hosts << HOSTS
[all]
first ansible_connection=local work=true
second $1
third ansible_connection=local work=true
fourth ansible_connection=local work=true
HOSTS
    venv/bin/ansible-playbook -i hosts play.yaml > out 2> err || true
    echo "$2: second batch changed: $(grep -cE '^(third|fourth) .*changed=1' out || true) of 2 hosts"
}
run "ansible_connection=local work=false" "a host that fails" | tee failed
run "ansible_connection=ssh ansible_host=127.0.0.1 ansible_port=1 work=true" "a host that is unreachable" | tee unreachable
grep -qE '^second .*unreachable=1' out
grep -q "changed: 0 of 2" failed
grep -q "changed: 2 of 2" unreachable
