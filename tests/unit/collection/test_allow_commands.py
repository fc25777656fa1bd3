"""A guest agent's settings, as distributions ship them, and what is allowed afterwards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from lab.collection import plugin

ROOT = Path(__file__).parents[3]
allow_commands = plugin("filter.allow_commands").FilterModule().filters()["allow_commands"]
EXEC = ["guest-exec", "guest-exec-status"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "BLACKLIST_RPC=guest-file-open,guest-exec,guest-exec-status,guest-file-close\n",
            "BLACKLIST_RPC=guest-file-open,guest-file-close\n",
            id="RHEL 8, 9.0 and 9.1",
        ),
        pytest.param(
            'BLOCK_RPCS="guest-exec,guest-exec-status,guest-file-open"\n',
            'BLOCK_RPCS="guest-file-open"\n',
            id="a variable of its own, in quotes",
        ),
        pytest.param(
            'FILTER_RPC_ARGS="--block-rpcs=guest-file-open,guest-exec-status,guest-exec -v"\n',
            'FILTER_RPC_ARGS="--block-rpcs=guest-file-open -v"\n',
            id="RHEL 9.2 and 9.3, another option behind it",
        ),
        pytest.param(
            'FILTER_RPC_ARGS="--allow-rpcs=guest-sync,guest-exec-status,guest-ping"\n',
            'FILTER_RPC_ARGS="--allow-rpcs=guest-sync,guest-exec-status,guest-ping,guest-exec"\n',
            id="since RHEL 9.4",
        ),
        pytest.param(
            "[general]\nblock-rpcs = guest-exec, guest-set-time\nallow-rpcs =\n",
            "[general]\nblock-rpcs = guest-set-time\nallow-rpcs =guest-exec,guest-exec-status\n",
            id="qemu-ga.conf",
        ),
        pytest.param("[general]\nblacklist=guest-exec\n", "[general]\nblacklist=\n", id="the only one"),
    ],
)
def test_what_was_forbidden_is_allowed_and_no_more(before: str, after: str) -> None:
    assert allow_commands(before, EXEC) == after
    assert allow_commands(after, EXEC) == after, "nothing is left to be done"


@pytest.mark.parametrize(
    "text",
    [
        "# BLACKLIST_RPC=guest-exec\n; block-rpcs=guest-exec\n",
        'FILTER_RPC_ARGS=""\nFSFREEZE_HOOK_ENABLE=0\n',
        'FILTER_RPC_ARGS="--block-rpcs=guest-exec-other, guest-file-open"\n',
        "[general]\nmethod=virtio-serial\npath=/dev/virtio-ports/guest-exec\n",
        "BLACKLIST_RPC=guest-file-open",
    ],
)
def test_all_else_stays_to_the_letter(text: str) -> None:
    assert allow_commands(text, EXEC) == text


def test_the_roles_allow_what_plimsoll_asks_agents_for() -> None:
    asked = re.findall(r'"(guest-[a-z-]+)"', (ROOT / "probes/plimsoll_probes/guest/qga_exec.py").read_text())
    # libvirt opens each conversation with one of these, and a person looks with guest-ping.
    desired = {*asked, "guest-sync", "guest-sync-delimited", "guest-ping"}
    roles = ROOT / "ansible/roles"
    for role in ("probe_guest", "canary"):
        variables = yaml.safe_load((roles / role / "vars/main.yml").read_text())
        assert set(variables[f"__{role}_commands"]) == desired, role
