"""Others that write limits: who is found on a node, and that what is taken from cron comes back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.collection import plugin

writers = plugin("module_utils.limit_writers")

PATTERNS = ["blkdeviotune", "plimsoll enforce"]
LINE = "*/5 * * * * root /usr/local/sbin/limit-disks --all"


def put(root: Path, name: str, text: str, mode: int = 0o644) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    file.chmod(mode)
    return file


def found(root: Path, *patterns: str) -> list[tuple[str, int]]:
    return [(entry["file"], entry["line"]) for entry in writers.Writers(patterns or PATTERNS, root).cron()]


def units(root: Path) -> list[str]:
    return [entry["unit"] for entry in writers.Writers(PATTERNS, root).units()]


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    "table", ["etc/crontab", "etc/anacrontab", "etc/cron.d/x", "var/spool/cron/root", "var/spool/cron/crontabs/nova"]
)
def test_an_entry_is_found_in_every_table_that_cron_reads(tmp_path: Path, table: str):
    put(tmp_path, table, "# a word\n\n* * * * * virsh blkdeviotune a vda --total-iops-sec 5\n")
    assert found(tmp_path) == [(f"/{table}", 3)]


def test_an_entry_is_found_by_the_script_that_it_calls(tmp_path: Path):
    put(tmp_path, "etc/cron.d/x", f"{LINE}\n")
    put(tmp_path, "usr/local/sbin/limit-disks", "#!/bin/sh\nvirsh blkdeviotune $1 vda\n")
    assert found(tmp_path) == [("/etc/cron.d/x", 1)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("etc/cron.d/x", "#* * * * * root virsh blkdeviotune a\n"),
        ("etc/cron.d/x", "WHAT=blkdeviotune\n"),
        ("etc/cron.d/x.dpkg-old", "* * * * * root virsh blkdeviotune a\n"),
        ("etc/cron.d/.x", "* * * * * root virsh blkdeviotune a\n"),
        ("etc/cron.d/x", "* * * * * root plimsoll catalogue refresh\n"),
        ("etc/cron.daily/x", "#!/bin/sh\nvirsh blkdeviotune a\n"),  # that nobody may run
    ],
)
def test_what_cron_does_not_run_is_not_taken_for_a_writer(tmp_path: Path, name: str, text: str):
    put(tmp_path, name, text)
    assert found(tmp_path) == []


def test_a_program_that_could_write_limits_is_not_one_that_does(tmp_path: Path):
    """virsh itself holds the word, and an entry that lists guests with it is nobody's rival."""
    put(tmp_path, "usr/bin/virsh", "\x7fELF\0blkdeviotune\0")
    put(tmp_path, "etc/cron.d/x", "* * * * * root /usr/bin/virsh list > /var/log/guests\n")
    put(tmp_path, "etc/cron.d/y", "* * * * * root /usr/local/bin/report\n")
    put(tmp_path, "usr/local/bin/report", "#!/bin/sh\n# once it said blkdeviotune here\nvirsh list\n")
    assert found(tmp_path) == []


def test_a_script_that_cron_starts_is_found(tmp_path: Path):
    put(tmp_path, "etc/cron.hourly/limits", "#!/bin/sh\nexec /opt/limits/all\n", 0o755)
    put(tmp_path, "opt/limits/all", "import os\nos.system('virsh blkdeviotune')\n")
    assert found(tmp_path) == [("/etc/cron.hourly/limits", 0)]


@pytest.mark.parametrize(
    "text",
    [
        f"# what\nMAILTO=root\n{LINE}\n17 * * * * root /bin/true\n",
        f"{LINE}\n{LINE}",  # and no newline at the end
        f"a \udcff\udc80 byte that is no text\r\n{LINE}\r\n",
        f"17 * * * * root /bin/true\x0b\x0c\x85\n{LINE}\n\n\n",
    ],
)
def test_a_table_comes_back_byte_for_byte(tmp_path: Path, text: str):
    table = put(tmp_path, "etc/cron.d/x", text)
    put(tmp_path, "usr/local/sbin/limit-disks", "virsh blkdeviotune")
    before = table.read_bytes()
    node = writers.Writers(PATTERNS, tmp_path)
    node.retire(node.cron(), write)
    assert node.cron() == []
    assert b"17 * * * * root /bin/true" in table.read_bytes() or b"17 *" not in before
    node.restore(node.retired(), write)
    assert table.read_bytes() == before
    assert node.retired() == []


def test_a_large_table_is_not_cut_off(tmp_path: Path):
    others = "".join(f"{minute % 60} 1 * * * root /bin/true {minute}\n" for minute in range(20_000))
    table = put(tmp_path, "etc/crontab", f"* * * * * root virsh blkdeviotune a\n{others}")
    node = writers.Writers(PATTERNS, tmp_path)
    node.retire(node.cron(), write)
    assert table.read_text().endswith(others)


def test_a_script_is_kept_where_run_parts_passes_over_it_and_comes_back(tmp_path: Path):
    """run-parts of EL takes any name but a hidden one; Debian's none with a dot."""
    text = "#!/bin/sh\nvirsh blkdeviotune a\n"
    script = put(tmp_path, "etc/cron.daily/limits", text, 0o750)
    node = writers.Writers(PATTERNS, tmp_path)
    node.retire(node.cron(), write)
    (kept,) = script.parent.iterdir()
    assert kept.name.startswith(".")
    assert kept.read_text() == text
    assert [entry["file"] for entry in node.retired()] == ["/etc/cron.daily/limits"]
    node.restore(node.retired(), write)
    assert script.read_text() == text
    assert script.stat().st_mode & 0o777 == 0o750


def enable(root: Path, unit: str, text: str, wants: str = "multi-user.target.wants") -> None:
    put(root, f"etc/systemd/system/{unit}", text)
    link = root / "etc/systemd/system" / wants / unit
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"../{unit}")


def test_enabled_units_that_write_limits_are_found_by_what_they_start(tmp_path: Path):
    put(tmp_path, "usr/local/sbin/limit-disks", "virsh blkdeviotune")
    enable(tmp_path, "limits.service", "[Service]\nExecStart=/usr/local/sbin/limit-disks\n")
    enable(tmp_path, "every.timer", "[Timer]\nUnit=limit-all.service\n", "timers.target.wants")
    put(
        tmp_path,
        "usr/lib/systemd/system/limit-all.service",
        "[Service]\nExecStart=-/bin/sh -c 'virsh blkdeviotune a'\n",
    )
    enable(tmp_path, "hourly.timer", "[Timer]\nOnCalendar=hourly\n", "timers.target.requires")
    put(
        tmp_path,
        "usr/lib/systemd/system/hourly.service.d/more.conf",
        "[Service]\nExecStartPre=virsh blkdeviotune a\n",
    )
    assert units(tmp_path) == ["every.timer", "hourly.timer", "limits.service"]


def test_neither_plimsoll_nor_a_unit_that_is_not_enabled_is_another_writer(tmp_path: Path):
    enable(tmp_path, "plimsoll-enforce.timer", "[Timer]\nOnCalendar=*:0/5\n", "timers.target.wants")
    put(tmp_path, "etc/systemd/system/plimsoll-enforce.service", "[Service]\nExecStart=/x/plimsoll enforce\n")
    put(tmp_path, "etc/systemd/system/limits.service", "[Service]\nExecStart=/bin/virsh blkdeviotune\n")
    enable(tmp_path, "other.service", "[Service]\n#ExecStart=virsh blkdeviotune\nExecStart=/bin/true\n")
    assert units(tmp_path) == []


def test_a_pattern_that_is_none_is_named():
    with pytest.raises(ValueError, match=r"'blk\('"):
        writers.Writers(["fine", "blk("])
