"""Every command of the README, the tutorial and the guides is run as it stands there, or a table says by which test.

plimsoll's own run here, on guests of libvirt's test driver that have the names of the pages, page by page, with files
that an operator has then. What needs more than that (a real QEMU, Cinder, Ceph, systemd, Ansible, apt) is a row of
``ELSEWHERE`` with the test that runs it, or of ``NOT_RUN`` with the reason.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.cloud import cephconf
from tests.functional.conftest import Ran
from tests.functional.test_slow import TREE

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs/demo.rst",
    ROOT / "docs/tutorial.rst",
    *sorted((ROOT / "docs/guide").glob("*.rst")),
)
Run = Callable[..., Ran]


class Typed(NamedTuple):
    """A command of a page, on one line."""

    page: str
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def commands_of(page: Path) -> Iterator[Typed]:
    """What follows the prompt of a console, with its continued lines."""
    lines = iter(enumerate(page.read_text().splitlines(), 1))
    console = False
    for number, line in lines:
        if page.suffix == ".md" and line.startswith("```"):
            console = line == "```console"
        prompt = re.match(r"[#$] (?=\S)" if page.suffix == ".md" else r" {3,}[#$] (?=\S)", line)
        if prompt and (console or page.suffix == ".rst"):
            text = line[prompt.end() :]
            while text.endswith("\\"):
                text = text[:-1] + next(lines)[1].strip()
            yield Typed(page.name, number, text)


TYPED = [typed for page in PAGES for typed in commands_of(page)]
OURS = ("plimsoll", "check_plimsoll")


GUEST = """\
<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>8192</memory><os><type>hvm</type></os><devices>
<disk type='network' device='disk'><driver name='qemu' type='raw'/><source protocol='rbd' name='vms/{uuid}_disk'>
<host name='127.0.0.1' port='6789'/></source><target dev='vda' bus='virtio'/></disk>
<disk type='network' device='disk'><driver name='qemu' type='raw'/>
<source protocol='rbd' name='volumes/volume-{volume}'><host name='127.0.0.1' port='6789'/></source>
<target dev='vdb' bus='virtio'/><serial>{volume}</serial></disk></devices></domain>
"""


def the_node(directory: Path) -> str:
    """The URI of a node with each guest that the pages name."""
    names = sorted(set(re.findall(r"instance-[0-9a-f]{8}", " ".join(typed.text for typed in TYPED))))
    for number, name in enumerate(names):
        uuid, volume = f"{number:08x}-3f0e-4a51-9a44-7f0f9a1d2b77", f"{number:08x}-9e76-45f1-b7e9-0391d20b7b6e"
        (directory / f"{name}.xml").write_text(GUEST.format(name=name, uuid=uuid, volume=volume))
    domains = "".join(f'<domain file="{name}.xml"/>' for name in names)
    (directory / "node.xml").write_text(f"<node>{domains}</node>")
    return f"test://{directory}/node.xml"


# What a command ends with here, where that is not 0.
STATUS = {
    "plimsoll rules test /etc/plimsoll/rules.yaml.new": 2,  # disks would get other limits
    "plimsoll plan --total-iops-sec 250 --total-bytes-sec 100MiB": 2,
    "plimsoll enforce --total-iops-sec 250 --total-bytes-sec 104857600 --dry-run": 2,
    # No guest of these nodes has data in Cinder, such a pool, a rule with a probe, a change or an unknown disk.
    "plimsoll record --at 2026-11-20T15:00 9c43707f-9e76-45f1-b7e9-0391d20b7b6e": 64,
    "plimsoll disk hold add --pool volumes-hdd --type bronze --for 3d --set total_iops_sec=100"
    ' --reason "the pool recovers"': 64,
    "plimsoll undo --last": 64,
}
# A pattern for the whole command, the file of tests that runs such a command, and what of it stands there.
ELSEWHERE = {
    r"plimsoll disk show \S+ \S+ --verify": ("tests/lab/test_discovery.py", "--verify"),
    r"plimsoll enforce --refresh( --mode observe)?": ("tests/lab/test_cinder.py", '"--refresh"'),
    r"plimsoll catalogue (show|age|diff)": ("tests/functional/test_catalogue.py", 'runs("diff")'),
    r"(runuser .* )?plimsoll catalogue refresh --region-file .*": (
        "tests/functional/test_region.py",
        "--signing-key",
    ),
    r"plimsoll region (plan|approve .*--stages.*|approvals|withdraw .*)": (
        "tests/functional/test_stages.py",
        '"withdraw", digest',
    ),
    r"plimsoll region (approve|pause|resume|hold) ?.*": ("tests/functional/test_region.py", '"approve", digest'),
    r"plimsoll simulate --from-prometheus .*": ("tests/functional/test_region_replay.py", '"--from-prometheus"'),
    r"plimsoll region (status|promised .*|explain .*)": ("tests/functional/test_docs.py", '"region", "explain"'),
    r"plimsoll (region congestion|congestion (publish|fetch) .*)": (
        "tests/functional/test_congestion.py",
        '"--once"',
    ),
    r"plimsoll drill (record|mark|report) .*": ("tests/functional/test_drill.py", '"drill", "record"'),
    r"plimsoll mds (watch|settle|undo) .*": ("tests/lab/test_mds.py", '"mds", "settle"'),
    r"plimsoll return (plan|run|status|stop) ?.*": ("tests/functional/test_return.py", '"--flag", "noout"'),
    r"plimsoll probe (run --guest|show|compare) ?.*": ("tests/lab/test_probes.py", '"probe", "show"'),
    r"plimsoll probe run --here .*": ("tests/functional/test_docs.py", '"--here"'),
    r"plimsoll disk acknowledge (add|end) .*": ("tests/functional/test_docs.py", "disk acknowledge"),
    r"plimsoll approve .*": ("tests/lab/test_brake.py", '"approve", revision, "--reason"'),
    r"plimsoll enforce --yes --guest \S+": ("tests/functional/test_docs.py", '"--yes"'),
    r"plimsoll record --follow": ("tests/functional/test_command.py", '"--follow"'),
    r"plimsoll qos (export|plan|apply|lint) .*": ("tests/lab/test_role_qos.py", '"qos", "export"'),
    r"OS_CEPH__BLOCKING_CHECKS= plimsoll .*": ("tests/lab/test_storm.py", "blocking_checks"),
    r"script/demo|git clone REPOSITORY plimsoll( && cd plimsoll)?": ("tests/lab/test_newcomer.py", "script/demo"),
    r"apt-get install git .*|(plimsoll/)?script/wheelhouse": ("tests/functional/test_wheelhouse.py", "wheelhouse"),
    r"(plimsoll/)?script/package( .*)?": ("lab/packages.py", '"script/package"'),
    r"(apt-get|dnf|wget|cat) .*": ("tests/lab/test_packages.py", "apt"),
    r"PLIMSOLL_UNDO_SINCE=\S+ .*apt-get .*": ("tests/functional/test_maintainer_scripts.py", "PLIMSOLL_UNDO_DISKS"),
    r"ansible \S+ -b -a \"plimsoll (approve|resume) .*": (
        "tests/lab/test_brake.py",
        '"approve", revision, "--reason"',
    ),
    r"ansible(-galaxy|-playbook|-doc) .*plimsoll[.-]cloud.*": ("tests/lab/test_rollout.py", "rollout"),
    r"ansible-playbook canaries\.yml.*": ("tests/lab/test_role_canary.py", "absent"),
    r"ansible-playbook qos\.yml.*": ("tests/lab/test_role_qos.py", "plimsoll_qos_approve"),
    r"systemctl .*|journalctl .*": ("tests/lab/test_packages.py", "systemctl"),
    r"systemd-(analyze|sysusers|tmpfiles) .*": ("tests/functional/test_units.py", "systemd-sysusers"),
    r"ceph auth get-or-create client.plimsoll .*": ("lab/cloud/cephconf.py", "client.plimsoll"),
    r"(runuser -u plimsoll -- )?ceph (--conf \S+ )?--id plimsoll status": (
        "tests/lab/test_storm.py",
        'Ceph("plimsoll", 5, ceph).health',
    ),
    r"ceph (osd tree|report) > .*": ("tests/lab/test_drill.py", "drill"),
    r"openssl .*": ("tests/functional/webserver.py", "openssl"),
    r"(\.\./)?plimsoll/script/package .*|podman .*|groupadd .*": ("tests/lab/test_container.py", "podman"),
    r"virsh metadata .*": ("tests/contract.py", "mark"),
    r"fio job.fio .*": ("tests/functional/test_hist.py", "hist"),
    r"curl -s http://localhost:9100/metrics .*": ("tests/lab/test_monitoring.py", "plimsoll_"),
}
NOT_RUN = {
    r"/etc/\S+\.conf|Metrics: .*": "no command: the first line of a file",
    r"echo \$\?|cd .*|ls .*|mkdir .*|mv .*|rm .*|editor .*|vi .*": "the shell's own, or a person's",
    r"install .*|ch(own|mod) .*|usermod .*|useradd .*|setfacl .*|for name in .*": "changes users and files of a node",
    r"openstack .*": "an operator's own client, against the cloud of a site",
    r"openstack-ansible .*|ansible-vault .*": "OpenStack-Ansible's and Ansible's own",
}


def elsewhere(typed: Typed) -> list[str]:
    return [pattern for pattern in (*ELSEWHERE, *NOT_RUN) if re.fullmatch(pattern, typed.text)]


def runs_here(typed: Typed) -> bool:
    return typed.text.split()[0] in OURS and not elsewhere(typed)


def test_there_are_commands_of_every_kind() -> None:
    assert len(TYPED) > 200
    assert {typed.page for typed in TYPED} >= {"README.md", "tutorial.rst", "units.rst", "rollout.rst"}
    assert sum(map(runs_here, TYPED)) > 50


def test_the_users_of_the_units_can_read_the_keyring_that_a_page_installs() -> None:
    """They have it through their group (sysusers.conf): one that only root reads works by hand, and in no pass."""
    lines = [typed for typed in TYPED if re.fullmatch(r"install .*\.keyring /etc/ceph", typed.text)]
    assert {typed.page for typed in lines} == {"tutorial.rst", "safety-gates.rst"}
    assert [typed.place for typed in lines if "-o root -g plimsoll-ceph -m 640" not in typed.text] == []


def test_each_command_is_run_here_or_says_where() -> None:
    """A command that is added to a page and run by no test drifts away from the product."""
    assert [f"{typed.place}: {typed.text}" for typed in TYPED if not runs_here(typed) and not elsewhere(typed)] == []


def test_each_row_is_of_a_command_and_names_a_test_that_there_is() -> None:
    used = {pattern for typed in TYPED for pattern in elsewhere(typed)[:1]}
    assert {*ELSEWHERE, *NOT_RUN} - used == set()
    assert set(STATUS) - {typed.text for typed in TYPED} == set()
    for file, text in ELSEWHERE.values():
        assert text in (ROOT / file).read_text(), (file, text)


def files_of_the_pages(directory: Path) -> None:
    """What an operator has by then, below ``directory`` for ``/``."""
    for name in ("etc/plimsoll", "etc/grafana/plimsoll", "var/log/ceph", "logs"):
        (directory / name).mkdir(parents=True)
    (directory / "etc/plimsoll/rules.yaml.new").write_text("default:\n  limits: {total_iops_sec: 250}\n")
    (directory / "values.yaml").write_text("{}\n")
    (directory / "remote").mkdir()
    line = "2026-11-20T14:02:11+00:00 cmp-017 systemd[1]: Started plimsoll-enforce.service.\n"
    (directory / "remote/cmp-017.log").write_text(line)
    shutil.copyfile(TREE, directory / "tree.txt")
    log = "2026-11-20T08:00:00.000000+0000 mon.a (mon.0) 1 : cluster [INF] osdmap e1: 3 total, 3 up, 3 in\n"
    (directory / "var/log/ceph/ceph.log").write_text(log)
    (directory / "logs/a_clat_hist.1.log").write_text("1000, 0, 16384, " + ", ".join(["1"] * 1856) + "\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, plimsoll: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option that was renamed, or a command that fails where the page says it works, is found here."""
    node = the_node(tmp_path)
    files_of_the_pages(tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = tmp_path / "plimsoll.conf"
    settings.write_text(settings.read_text() + f"pause_file = {tmp_path}/etc/plimsoll/paused\n")
    assert plimsoll("enforce", OS_LIBVIRT__URI=node).status == 0, "the timer's pass"
    for typed in filter(runs_here, commands_of(page)):
        program, *words = shlex.split(re.split(r" [|>] ", typed.text)[0])
        if program == "check_plimsoll":
            continue  # by tests/functional/test_nagios.py, with what Nagios makes of it
        words = [
            str(place)
            for word in (re.sub(r"^/(etc|var)/", f"{tmp_path}/\\1/", word) for word in words)
            for place in (sorted(tmp_path.glob(word[len(str(tmp_path)) + 1 :])) if "*" in word else [word])
        ]
        ran = plimsoll(*words, OS_LIBVIRT__URI=node)
        assert ran.status == STATUS.get(typed.text, 0), (typed, ran.err[-1000:])
        assert "Traceback" not in ran.err, typed


def test_the_lab_gives_plimsolls_client_the_rights_of_the_pages() -> None:
    """Tests of the health gate run with them; a page with fewer would defer each raise for ever."""
    made = [typed for typed in TYPED if typed.text.startswith("ceph auth get-or-create client.plimsoll")]
    assert {typed.page for typed in made} == {"tutorial.rst", "safety-gates.rst"}
    for typed in made:
        words = shlex.split(typed.text)[4 : shlex.split(typed.text).index("-o")]
        assert dict(zip(words[::2], words[1::2], strict=True)) == cephconf.CAPABILITIES["client.plimsoll"], typed
