"""Who can do what with which key or user: ``docs/reference/trust.rst`` is made from it."""

from __future__ import annotations

from typing import NamedTuple


class Trust(NamedTuple):
    who: str
    can: str
    cannot: str
    test: str
    """That shows it: its file and name."""


_REFRESHER = "the refresher's user (``plimsoll-catalogue``)"
_PASSES_REGION = "tests/unit/agent/passes/test_region.py"

ROWS = (
    Trust(
        "a tenant, by the names of guests and images",
        "",
        "choose rules: one that matches a name has to name the project too",
        "tests/unit/agent/rules/test_loader.py::test_a_guest_by_name_needs_its_project",
    ),
    Trust(
        "a user who may edit QoS specs in Cinder",
        "change the limits of attached volumes, as far as the brakes of the region and the nodes let it",
        "cut limits to a tenth, remove them or change many volumes without an approval",
        "tests/functional/test_region.py::"
        "test_a_slip_in_a_spec_stops_at_the_publisher_and_nothing_of_what_nodes_know_goes_stale",
    ),
    Trust(
        "an intruder with the credentials of a refresher",
        "read what they allow",
        "change anything in Cinder or Nova",
        "tests/lab/test_catalogue.py::"
        "test_an_application_credential_with_access_rules_reads_and_not_even_an_admins_does_more",
    ),
    Trust(
        "the web server, or what distributes the region file",
        "keep the file from the nodes, which its age shows",
        "change it, make one, or put an earlier one in its place",
        "tests/functional/test_region.py::test_older_files_and_other_files_of_the_same_generation_are_refused",
    ),
    Trust(
        _REFRESHER,
        "write this node's catalogue, with any spec, type of a volume or flavor: limits change as far as the brake"
        " lets an edit change them; a volume to which it gives another type counts as retyped, so of a few disks in"
        " an hour (:ref:`brake`) it can also remove the limits",
        "cut limits to a tenth, remove them or change many disks by specs without an approval; change disks with"
        " ``manage: false``, a rule with ``override: true`` or a hold",
        "tests/unit/agent/passes/test_catalogue.py::test_a_slip_in_a_spec_is_braked_and_named_by_rules_and_catalogue",
    ),
    Trust(
        _REFRESHER,
        "",
        "approve, hold, pause or end a pause: orders count with the signature of the region's key only, and only with"
        " ``source = region-file``",
        f"{_PASSES_REGION}::"
        "test_orders_are_those_of_the_signed_file_whatever_the_catalogue_has_and_however_old_it_is",
    ),
    Trust(
        _REFRESHER,
        "take the region file from passes, or keep newer ones back, which their age shows: then nothing is raised or"
        " removed on this node",
        "put an earlier file in its place, or end a pause or a hold so",
        f"{_PASSES_REGION}::"
        "test_a_file_that_is_not_believed_leaves_the_pause_and_the_holds_that_were_known_and_no_approval",
    ),
    Trust(
        "who has the region's signing key, or root on the region's machine",
        "set the limits of all nodes: specs, types, approvals, holds and pauses",
        "limit disks with ``manage: false``, or volumes beyond a ``ceiling`` or ``floor`` of the rules but for holds",
        "tests/functional/test_region.py::test_an_approval_lets_just_that_state_through_and_goes_out_with_its_end",
    ),
    Trust(
        "who has the congestion's signing key (``plimsoll-publish``), or answers as the Prometheus that its publisher"
        " asks",
        "reduce disks to the floors of the rules, where ``[congestion] mode`` is ``enforce``",
        "reduce a disk below its floor, or one without a floor; make a region file that nodes accept",
        "tests/unit/agent/passes/test_congestion.py::"
        "test_whatever_happens_limits_stay_between_floor_and_what_they_are_without_congestion",
    ),
    Trust(
        "who has any other key",
        "",
        "make a file that nodes accept",
        "tests/functional/test_region.py::test_another_key_is_refused",
    ),
    Trust(
        "the user of passes (``plimsoll``), and whoever may write to libvirt's socket",
        "what root can: all limits, and all guests",
        "send anything over the network",
        "tests/functional/test_units.py::test_who_holds_libvirts_socket_has_no_network",
    ),
    Trust(
        "another client of libvirt, as Nova",
        "set a limit, which is reverted",
        "raise a limit for longer than a pass takes; after a few times in a row it is left so, and reported",
        "tests/lab/faults/test_survived.py::test_a_fault_is_survived",
    ),
    Trust(
        "members of the group ``plimsoll``",
        "read the state of the node",
        "change it",
        "tests/functional/test_units.py::test_a_member_of_the_group_reads_the_state_and_cannot_write_it",
    ),
    Trust(
        "a user who may read a file of the state",
        "",
        "hold up a pass or a record by locking it",
        "tests/functional/test_hostile_reader.py::"
        "test_a_reader_who_locks_what_he_can_holds_up_no_pass_and_leaves_no_change_unrecorded",
    ),
)
