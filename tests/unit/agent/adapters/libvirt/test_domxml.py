"""Domain XML in, guest and RBD disks out: real Nova 34 definitions, and what else libvirt or a tenant may write."""

from __future__ import annotations

from pathlib import Path

import pytest

from plimsoll_agent.adapters.libvirt.domxml import parse
from plimsoll_agent.errors import UnreadableXML
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from tests import golden
from tests.unit.values import GUEST, VOLUME

DATA = Path(__file__).parents[3] / "data"
NOVA = 'xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"'
BASELINE = "01-gold-baseline.live.xml"


def sample(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


# --- what Nova writes


def test_a_nova_guest_is_read_with_its_owner_flavor_and_image() -> None:
    guest, _ = parse(sample(BASELINE))
    assert (guest.uuid, guest.name, guest.run) == (GUEST, "ospike-00000001", "1")
    assert guest.display_name == "vm1"
    assert (guest.project, guest.project_name) == ("76f321b2fd294e5fa90eb0525110f9e2", "admin")
    assert guest.user == "f1f42be43baa414a8d04a0b6807675a8"
    assert guest.flavor == "m1.spike"
    assert guest.image == "d5e1dd43-2635-4b87-96ab-b93690841e61"


def test_a_project_whose_name_nova_did_not_keep_has_none() -> None:
    """Nova then writes N/A for every project; as a name it would stand for all of them."""
    guest, _ = parse(sample(BASELINE).replace(">admin</nova:project>", ">N/A</nova:project>"))
    assert (guest.project, guest.project_name) == ("76f321b2fd294e5fa90eb0525110f9e2", None)


def test_a_nova_guests_own_disk_and_its_volume_are_read() -> None:
    _, (own, volume) = parse(sample(BASELINE))
    assert (own.target, own.bus, own.pool, own.image) == ("vda", "virtio", "osp-vms", f"{GUEST}_disk")
    assert (own.volume_id, own.defined, own.alias) == (None, Limits(), "virtio-disk0")
    assert (volume.target, volume.pool, volume.image) == ("vdb", "osp-volumes", f"volume-{VOLUME}")
    assert (volume.volume_id, volume.alias) == (VOLUME, f"ua-{VOLUME}")
    assert volume.monitors == ("127.0.0.1:26789",)
    assert (own.node, volume.node) == ("1", "2")
    assert not volume.encrypted
    assert volume.actual is None, "the definition does not say what QEMU has in force"
    assert volume.defined == Limits(
        total_bytes_sec=20971520,
        read_iops_sec=500,
        write_iops_sec=400,
        read_iops_sec_max=1000,
        write_iops_sec_max=800,
    )


def test_a_guest_that_boots_from_a_volume_has_no_image() -> None:
    guest, disks = parse(sample("21-bfv-root-gold.live.xml"))
    assert guest.image is None
    assert [(disk.target, disk.volume_id) for disk in disks] == [("vda", "3757d39e-5ec7-44d8-b01a-4e67701e1b2f")]


def test_scsi_disks_are_read_with_the_flavors_quota_on_the_own_disk() -> None:
    guest, disks = parse(sample("24-scsi-flavor-quota-root.live.xml"))
    assert guest.flavor == "m1.spike-quota"
    assert [disk.target for disk in disks] == ["sda", "sdb", "sdc", "sdd"]
    assert {disk.bus for disk in disks} == {"scsi"}
    assert disks[0].defined == Limits(write_bytes_sec=5242880, read_iops_sec=222)
    assert disks[3].defined == Limits()


def test_burst_lengths_and_groups_of_a_definition_are_read() -> None:
    _, (_own, volume, grouped) = parse(sample("41-live-group-name.live.xml"))
    assert isinstance(volume.defined, Limits)
    assert volume.defined.read_iops_sec_max_length == 30
    assert volume.defined.total_bytes_sec_max_length == 1
    assert grouped.defined == Limits(total_bytes_sec=4194304, total_iops_sec=500, group_name="vm-total")


def test_the_extra_specs_of_a_flavor_are_read() -> None:
    assert parse(sample("24-scsi-flavor-quota-root.live.xml"))[0].extra_specs == {
        "quota:disk_read_iops_sec": "222",
        "quota:disk_write_bytes_sec": "5242880",
    }


@pytest.mark.parametrize("name", [BASELINE, "21-bfv-root-gold.live.xml"])
def test_a_flavor_that_has_no_extra_specs_is_told_from_one_that_is_not_written_down(name: str) -> None:
    assert parse(sample(name))[0].extra_specs == {}
    assert parse(domain(metadata=nova("<nova:flavor name='m1.old'/>")))[0].extra_specs is None


def test_the_disk_that_a_guest_boots_from_is_its_first() -> None:
    guest, disks = parse(sample("21-bfv-root-gold.live.xml"))
    assert guest.boots_from_volume
    assert [disk.root for disk in disks] == [True]
    without = sample("21-bfv-root-gold.live.xml").replace('<nova:root type="volume" uuid=""/>', "")
    assert "nova:root" not in without, "as Nova before 2024.2 writes it"
    assert parse(without)[0].boots_from_volume
    guest, disks = parse(sample("24-scsi-flavor-quota-root.live.xml"))
    assert not guest.boots_from_volume
    assert [disk.root for disk in disks] == [True, False, False, False]


# --- what else libvirt writes


def domain(*disks: str, metadata: str = "", name: str = "db", uuid: str = GUEST) -> str:
    return (
        f"<domain type='kvm' id='7'><name>{name}</name><uuid>{uuid}</uuid>"
        f"<metadata>{metadata}</metadata><devices>{''.join(disks)}</devices></domain>"
    )


def rbd(inner: str = "", *, name: str = "volumes/img", source: str = "", attributes: str = "device='disk'") -> str:
    return (
        f"<disk type='network' {attributes}><source protocol='rbd' name='{name}' index='1'>{source}</source>"
        f"<target dev='vda' bus='virtio'/>{inner}</disk>"
    )


def disks_of(*disks: str) -> tuple[Disk, ...]:
    return parse(domain(*disks))[1]


def disk_of(*disks: str) -> Disk:
    (disk,) = disks_of(*disks)
    return disk


@pytest.mark.parametrize(
    "other",
    [
        "<disk type='file' device='disk'><source file='/x.qcow2'/><target dev='vda'/></disk>",
        "<disk type='block' device='disk'><source dev='/dev/vg/lv'/><target dev='vda'/></disk>",
        "<disk type='network' device='disk'><source protocol='iscsi' name='a/b'/><target dev='vda'/></disk>",
        "<disk type='network' device='disk'><source protocol='nbd' name='a/b'/><target dev='vda'/></disk>",
        rbd(name=f"vms/{GUEST}_disk.config", attributes="device='cdrom'"),
        rbd(attributes="device='lun'"),
        "<disk type='file' device='cdrom'><target dev='hda' bus='ide'/></disk>",
        "<disk type='network' device='cdrom'><target dev='hda' bus='ide'/></disk>",
        "<disk type='network' device='disk'><source protocol='rbd' name='a/b'/></disk>",
        "<disk type='network' device='disk'><source protocol='rbd' name='a/b'/><target bus='virtio'/></disk>",
        rbd(name="image-without-a-pool"),
        rbd(name="/image"),
        rbd(name="pool/"),
        rbd(name="pool//image"),
        rbd(name="a/b/c/d"),
        rbd(name=""),
    ],
)
def test_what_is_no_rbd_disk_of_ours_is_passed_over_and_hides_no_other(other: str) -> None:
    assert [disk.image for disk in disks_of(other, rbd(name="volumes/ours"))] == ["ours"]


@pytest.mark.parametrize(
    ("source", "mapped"),
    [
        ("<source dev='/dev/rbd0' index='1'/>", True),
        ("<source dev='/dev/rbd17p1'/>", True),
        ("<source dev='/dev/rbd/volumes/volume-1'/>", True),
        ("<source dev='/dev/rbdmirror'/>", False),
        ("<source dev='/dev/mapper/rbd0'/>", False),
        ("<source/>", False),
        ("", False),
    ],
)
def test_a_disk_that_the_kernel_maps_is_told_from_others(source: str, mapped: bool) -> None:
    other = f"<disk type='block' device='disk'>{source}<target dev='vdc'/></disk>"
    guest, disks = parse(domain(other, rbd(name="volumes/ours")))
    assert (guest.other_disks, guest.kernel_mapped) == (("vdc",), ("vdc",) if mapped else ())
    assert [disk.image for disk in disks] == ["ours"]


def nova(inner: str) -> str:
    return f"<nova:instance {NOVA}><nova:name>web</nova:name>{inner}</nova:instance>"


def extra_specs(inner: str) -> str:
    return nova(f"<nova:flavor name='f'><nova:extraSpecs>{inner}</nova:extraSpecs></nova:flavor>")


ODD = {"a:b": "5", "c": "", "d": " x "}


def test_extra_specs_are_taken_as_they_stand() -> None:
    written = "".join(f"<nova:extraSpec name='{name}'>{text}</nova:extraSpec>" for name, text in ODD.items())
    assert parse(domain(metadata=extra_specs(written)))[0].extra_specs == ODD


@pytest.mark.parametrize(
    "inner",
    [
        extra_specs("<nova:extraSpec name='a'>5</nova:extraSpec><nova:extraSpec name='a'>9</nova:extraSpec>"),
        extra_specs("<nova:extraSpec name='a'>5<x/>0</nova:extraSpec>"),
        nova("<nova:flavor name='f'><nova:extraSpecs/><nova:extraSpecs/></nova:flavor>"),
        nova("<nova:root type='volume' uuid=''/><nova:root type='volume' uuid=''/>"),
    ],
    ids=["spec twice", "more than a text", "all of them twice", "root twice"],
)
def test_what_nova_writes_once_and_stands_twice_is_unreadable(inner: str) -> None:
    """There is no telling which of the limits is meant."""
    with pytest.raises(UnreadableXML):
        parse(domain(rbd(), metadata=inner))


@pytest.mark.parametrize(
    ("first", "root"),
    [
        ("<disk type='file' device='disk'><source file='/x.qcow2'/><target dev='vda'/></disk>", False),
        ("<disk type='block'><source dev='/dev/vg/lv'/><target dev='vda'/></disk>", False),
        ("<disk type='file' device='cdrom'><target dev='hda' bus='ide'/></disk>", True),
        ("<disk type='network' device='floppy'><target dev='fda'/></disk>", True),
        ("", True),
    ],
)
def test_the_first_disk_is_the_root_though_it_be_none_of_ours(first: str, root: bool) -> None:
    """A data volume behind a local root disk must not be taken for what the guest boots from."""
    assert [disk.root for disk in disks_of(first, rbd(), rbd())] == [root, False]


def test_a_volume_that_several_guests_may_have_at_once_is_known_by_it() -> None:
    assert [disk_of(rbd(inner)).shareable for inner in ("<shareable/>", "", "<readonly/>")] == [True, False, False]


def test_a_disk_that_says_no_device_is_a_disk() -> None:
    assert disk_of(rbd(attributes="")).image == "img"


def test_a_disk_in_a_namespace_is_read_with_it() -> None:
    disk = disk_of(rbd(name="volumes/tenant/img"))
    assert (disk.pool, disk.namespace, disk.image) == ("volumes", "tenant", "img")
    assert disk_of(rbd(name="volumes/img")).namespace is None


def test_monitors_are_the_same_in_whatever_order_nova_wrote_them() -> None:
    hosts = ["<host name='10.0.0.2' port='3300'/>", "<host name='10.0.0.1' port='3300'/>", "<host name='mon3'/>"]
    expected = ("10.0.0.1:3300", "10.0.0.2:3300", "mon3:6789")
    assert disk_of(rbd(source="".join(hosts))).monitors == expected
    assert disk_of(rbd(source="".join(reversed(hosts)))).monitors == expected


def test_the_address_of_an_ipv6_monitor_is_told_apart_from_its_port() -> None:
    hosts = (
        "<host name='2001:db8::1' port='3300'/><host name='fd00:1:2:3:4:5:6:7'/><host name='10.0.0.1' port='3300'/>"
    )
    assert disk_of(rbd(source=hosts)).monitors == ("10.0.0.1:3300", "[2001:db8::1]:3300", "[fd00:1:2:3:4:5:6:7]:6789")


def test_a_monitor_without_a_name_is_no_monitor_called_none() -> None:
    assert disk_of(rbd(source="<host transport='unix' socket='/run/mon'/><host name='a' port='1'/>")).monitors == (
        "a:1",
    )
    assert disk_of(rbd()).monitors == (), "librados reads its own ceph.conf then"


@pytest.mark.parametrize(
    "disk",
    [
        rbd("<encryption format='luks'><secret type='passphrase' uuid='u'/></encryption>"),
        rbd(source="<encryption format='luks' engine='librbd'/>"),
    ],
    ids=["in the disk", "in its source"],
)
def test_an_encrypted_volume_is_known_as_such(disk: str) -> None:
    assert disk_of(disk).encrypted


def test_a_migrated_volume_is_known_by_its_serial_not_by_its_image() -> None:
    other = "a0e41de2-d6b7-47d3-8136-56883c77d09e"
    disk = disk_of(rbd(f"<serial>{VOLUME}</serial>", name=f"volumes/volume-{other}"))
    assert disk.volume_id == VOLUME
    assert other not in disk.key


def test_a_serial_in_capitals_is_the_same_volume() -> None:
    assert disk_of(rbd(f"<serial>{VOLUME.upper()}</serial>")).volume_id == VOLUME


@pytest.mark.parametrize("serial", ["", "WD-WCC4E", f"{VOLUME}x", f" {VOLUME}", VOLUME.replace("e", "é")])
def test_a_serial_that_is_no_volume_id_names_no_volume(serial: str) -> None:
    assert disk_of(rbd(f"<serial>{serial}</serial>")).volume_id is None


def test_a_copy_under_way_is_not_taken_for_the_disk() -> None:
    # The mirror of a block copy, with a source and an iotune of its own below the disk.
    mirror = (
        "<mirror type='network' job='copy'><source protocol='rbd' name='other/copy'><host name='x'/></source>"
        "<iotune><total_iops_sec>1</total_iops_sec></iotune></mirror>"
    )
    disk = disk_of(rbd(mirror, source="<host name='a'/>"))
    assert (disk.image, disk.monitors, disk.defined) == ("img", ("a:6789",), Limits())


def test_a_guest_that_nova_did_not_make_has_disks_but_no_owner() -> None:
    guest, disks = parse(domain(rbd()))
    assert (guest.project, guest.display_name, guest.flavor, guest.image) == (None, None, None, None)
    assert [disk.guest for disk in disks] == [guest]


def test_nova_metadata_that_is_half_there_costs_nothing_else() -> None:
    guest, disks = parse(domain(rbd(), metadata=f"<nova:instance {NOVA}><nova:name>a</nova:name></nova:instance>"))
    assert (guest.display_name, guest.project, guest.flavor) == ("a", None, None)
    assert len(disks) == 1


def test_a_guest_from_before_nova_23_has_its_owner_too() -> None:
    # The namespace was 1.0; the metadata stays as it is until the next cold start.
    guest, _ = parse(sample(BASELINE).replace("/nova/1.1", "/nova/1.0"))
    assert (guest.project, guest.flavor) == ("76f321b2fd294e5fa90eb0525110f9e2", "m1.spike")


def test_metadata_of_another_namespace_makes_no_owner() -> None:
    # Tenants cannot write into Nova's element; a tool that writes another one must not be taken for Nova.
    owner = "<n:owner><n:project uuid='p'>x</n:project></n:owner>"
    fake = f"<n:instance xmlns:n='http://example.org/nova'>{owner}</n:instance>"
    assert parse(domain(metadata=fake))[0].project is None


@pytest.mark.parametrize("name", ["a b", "🚢 ship", "it's", "&quot;quoted&quot;", "&lt;/nova:name&gt;", "x\u202ey"])
def test_display_names_are_read_as_they_are(name: str) -> None:
    metadata = f"<nova:instance {NOVA}><nova:name>{name}</nova:name></nova:instance>"
    plain = name.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">")
    assert parse(domain(metadata=metadata))[0].display_name == plain


def test_a_guest_that_does_not_run_has_no_run() -> None:
    assert parse(domain().replace(" id='7'", ""))[0].run is None
    assert parse(domain())[0].run == "7"


# --- limits in the definition


def defined(iotune: str) -> Limits | Unknown:
    return disk_of(rbd(f"<iotune>{iotune}</iotune>")).defined


def test_one_disk_with_impossible_limits_costs_no_other() -> None:
    bad, good = disks_of(rbd("<iotune><total_iops_sec>x</total_iops_sec></iotune>"), rbd(name="volumes/b"))
    assert isinstance(bad.defined, Unknown)
    assert good.defined == Limits()


def test_the_groups_of_disks_that_are_not_on_rbd_are_known_by_their_names() -> None:
    def grouped(name: str) -> str:
        return (
            f"<target dev='vdz'/><iotune><total_iops_sec>5</total_iops_sec><group_name>{name}</group_name></iotune>"
        )

    guest, (disk,) = parse(
        domain(
            rbd(grouped("ours").partition("/>")[2]),
            f"<disk type='file'><source file='/x'/>{grouped('file')}</disk>",
            f"<disk type='block' device='disk'><source dev='/x'/>{grouped('block')}</disk>",
            f"<disk type='network' device='disk'><source protocol='nbd' name='a/b'/>{grouped('nbd')}</disk>",
            f"<disk type='file' device='cdrom'>{grouped('cdrom')}</disk>",
            rbd(grouped("drive").partition("/>")[2], attributes="device='cdrom'"),
            f"<disk type='file' device='disk'><source file='/x'/>{grouped('/machine/peripheral/vdz')}</disk>",
            "<disk type='file' device='disk'><source file='/x'/><target dev='vdy'/></disk>",
        )
    )
    assert guest.other_groups == {"file", "block", "nbd", "cdrom", "drive"}
    assert disk.guest == guest
    assert parse(domain(rbd()))[0].other_groups == frozenset()


def test_a_number_of_thousands_of_digits_is_unknown() -> None:
    assert isinstance(defined(f"<total_iops_sec>{'9' * 5000}</total_iops_sec>"), Unknown)


def reading(kind: str, text: str) -> str:
    if kind == "consoles":
        guest, _ = parse(f"<domain><name>a</name><uuid>{GUEST}</uuid><devices>{text}</devices></domain>")
        return " ".join(guest.consoles)
    try:
        if kind == "domain":
            return repr(parse(text))
        limits = defined(text) if kind == "iotune" else disk_of(rbd(text)).defined
        return f"unknown: {limits.reason}" if isinstance(limits, Unknown) else str(limits.in_effect())
    except UnreadableXML as error:
        return f"unreadable: {error}"


def test_each_part_is_read_as_in_the_golden_file() -> None:
    golden.transcript("domain_xml.txt", reading)


# --- throttle filters


def filters(*groups: str) -> str:
    return f"<throttlefilters>{''.join(f'<throttlefilter group={group!r}/>' for group in groups)}</throttlefilters>"


def with_groups(*disks: str, **groups: str) -> str:
    """A guest with these throttle groups, as libvirt 11.3 writes them."""
    each = (
        f"<throttlegroup><total_iops_sec>{iops}</total_iops_sec><group_name>{name}</group_name></throttlegroup>"
        for name, iops in groups.items()
    )
    return domain(*disks).replace("<devices>", f"<throttlegroups>{''.join(each)}</throttlegroups><devices>")


def test_a_disk_behind_a_throttle_filter_has_the_limits_of_its_group() -> None:
    guest, (filtered, other) = parse(with_groups(rbd(filters("limit0")), rbd(), limit0="400", unused="9"))
    assert filtered.filters == (("limit0", Limits(total_iops_sec=400)),)
    assert filtered.defined == Limits(total_iops_sec=400, group_name="throttle-limit0"), "QEMU's name of the group"
    assert (other.filters, other.defined) == ((), Limits())
    assert guest.filter_groups == {"throttle-limit0", "throttle-unused"}
    assert guest.other_groups == frozenset()


def test_of_several_filters_the_tightest_counts_and_no_guess_is_made() -> None:
    _, (both,) = parse(with_groups(rbd(filters("disk", "guest")), disk="400", guest="300"))
    assert both.defined == Limits(total_iops_sec=300)
    _, (mixed,) = parse(
        with_groups(rbd(filters("disk", "reads")), disk="400", reads="7").replace(
            "<total_iops_sec>7</total_iops_sec>", "<read_iops_sec>7</read_iops_sec>"
        )
    )
    assert isinstance(mixed.defined, Unknown)
    groups = {"disk": {"total_iops_sec": 400}, "reads": {"read_iops_sec": 7}}
    assert mixed.defined.reason == because(Code.THROTTLE_FILTERS, groups=groups)


@pytest.mark.parametrize("iops", ["many", "-5", "5</total_iops_sec><total_iops_sec>6"])
def test_a_filter_whose_group_cannot_be_read_is_not_unlimited(iops: str) -> None:
    _, (disk,) = parse(with_groups(rbd(filters("limit0")), limit0=iops))
    assert isinstance(disk.defined, Unknown)
    assert disk.defined.reason.facts == {"groups": {"limit0": None}}
    _, (disk,) = parse(with_groups(rbd(filters("gone"))))
    assert isinstance(disk.defined, Unknown)


def test_a_group_whose_limits_another_disk_replaces_is_unknown() -> None:
    """Run on libvirt 11.3: QEMU then holds the group to these, and <throttlegroups> keeps the old ones."""
    taken = "<iotune><total_iops_sec>66</total_iops_sec><group_name>throttle-limit0</group_name></iotune>"
    _, (filtered, _) = parse(with_groups(rbd(filters("limit0")), rbd(taken), limit0="300"))
    assert isinstance(filtered.defined, Unknown)


def test_a_throttle_group_must_have_a_name_of_its_own() -> None:
    text = with_groups(rbd(filters("a")), a="5", b="6")
    for name in ("a", ""):
        with pytest.raises(UnreadableXML, match="a throttle group"):
            parse(text.replace("<group_name>b<", f"<group_name>{name}<"))


# --- what is no domain


@pytest.mark.parametrize(
    "text", [sample(BASELINE)[:-12], "\ud800", "<a>" * 10000], ids=["cut off", "surrogate", "deep"]
)
def test_what_is_no_whole_xml_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableXML):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE domain>" + domain(),
        f"<!DOCTYPE d [<!ENTITY e 'x'>]>{domain(name='&e;')}",
        f"<!DOCTYPE d [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>{domain(name='&e;')}",
        "<!DOCTYPE d [<!ENTITY a 'xx'><!ENTITY b '&a;&a;'><!ENTITY c '&b;&b;'>]>" + domain(name="&c;"),
    ],
)
def test_a_document_type_is_refused_before_any_entity_is_read(text: str) -> None:
    with pytest.raises(UnreadableXML, match="document type"):
        parse(text)


# --- consoles


def test_the_log_of_a_console_is_read_once_from_what_nova_writes() -> None:
    guest, _ = parse(sample(BASELINE))
    assert guest.consoles == (f"/var/tmp/oslab/var/nova/instances/{GUEST}/console.log",)


def test_a_disk_has_the_ceph_conf_that_qemu_reads_for_it() -> None:
    named, default = disks_of(rbd(source="<config file='/etc/ceph/archive.conf'/>"), rbd().replace("'vda'", "'vdb'"))
    assert (named.conf, default.conf) == ("/etc/ceph/archive.conf", None)


def test_a_snapshot_is_another_disk_than_its_image() -> None:
    image, snapshot = disks_of(rbd(), rbd(source="<snapshot name='s'/>").replace("'vda'", "'vdb'"))
    assert (image.path, snapshot.path) == (snapshot.path, "volumes/img")
    assert (image.within_guest, snapshot.within_guest) == ("volumes/img", "volumes/img@s")
    assert image.key != snapshot.key


@pytest.mark.parametrize("name", ["vms/x_disk.config", "vms/instance-1/disk.config"])
def test_a_config_drive_that_is_a_disk_is_not_the_root(name: str) -> None:
    drive, volume = disks_of(rbd(name=name).replace("'vda'", "'vdz'"), rbd())
    assert (drive.root, volume.root) == (False, True)
