"""All faults, in the order in which they are tried, and those that other tests try."""

from __future__ import annotations

from typing import NamedTuple

from tests.lab.faults import ceph, cinder, files, guests, libvirtd, processes

ROWS = (*guests.ROWS, *cinder.ROWS, *libvirtd.ROWS, *files.ROWS, *processes.ROWS, *ceph.ROWS)


class Elsewhere(NamedTuple):
    fault: str
    happens: str
    test: str
    """Its file and name."""


ELSEWHERE = (
    Elsewhere(
        "disk unplugged and another one plugged in mid-call",
        "the new disk is not taken for the old one; the next pass limits it",
        "tests/lab/test_faults.py::test_a_letter_that_becomes_another_volume_between_plan_and_write_is_not_limited",
    ),
    Elsewhere(
        "QEMU stopped in the middle of a write",
        "the change is recorded as ``timed-out``, and settled by reading",
        "tests/lab/test_faults.py::test_a_qemu_that_stops_answering_in_mid_write_is_settled_by_the_next_pass",
    ),
    Elsewhere(
        "live migration cancelled in the middle",
        "the guest is left alone on both nodes while it moves, and limited when it stays",
        "tests/lab/test_migration.py::"
        "test_the_daemon_leaves_a_guest_alone_that_migrates_and_limits_it_when_that_is_cancelled",
    ),
    Elsewhere(
        "live migration there and back",
        "limits and a hold go with the guest",
        "tests/lab/test_migration.py::test_limits_and_a_hold_follow_a_live_migration_by_nova_and_back",
    ),
    Elsewhere(
        "10,000 events at once, or events lost",
        "a pass over the node takes the place of events that were dropped",
        "tests/unit/agent/daemon/test_service.py::test_events_that_find_the_queue_full_lead_to_a_full_pass",
    ),
    Elsewhere(
        "events doubled",
        "many events of a guest lead to one pass, and to one more for those that came during it",
        "tests/unit/agent/daemon/test_schedule.py::"
        "test_a_burst_of_events_leads_to_one_pass_and_one_more_for_those_that_came_during_it",
    ),
    Elsewhere(
        "consoles, metrics and the region's catalogue on, for hundreds of passes",
        "threads, descriptors and memory stay as they are",
        "tests/functional/test_daemon.py::"
        "test_hundreds_of_passes_over_the_node_with_every_option_take_no_more_of_anything",
    ),
    Elsewhere(
        "consoles read each five minutes for a week",
        "no thread and no descriptor is left",
        "tests/unit/agent/app/test_consoles.py::test_a_week_of_readings_leaves_no_thread_and_no_descriptor",
    ),
    Elsewhere(
        "no thread left, or five passes over the node failed in a row",
        "the daemon ends, to be started again",
        "tests/unit/agent/daemon/test_service.py::"
        "test_a_daemon_that_may_have_no_more_threads_ends_to_be_started_again",
    ),
    Elsewhere(
        "after an upgrade, a guest that takes other limits than it is given",
        "up to three guests are tried; if one has what was written, all get their limits",
        "tests/unit/agent/reconcile/test_apply.py::test_one_guest_that_is_odd_keeps_no_limit_from_the_others",
    ),
    Elsewhere(
        "after an upgrade, a guest that refuses the write, or hangs, or is gone",
        "the next guest is tried: the refusal tells nothing about the versions",
        "tests/unit/agent/reconcile/test_apply.py::test_a_guest_that_refuses_writes_says_nothing_about_the_versions",
    ),
    Elsewhere(
        "each file of the state directory corrupt",
        "the file is set aside, and rebuilt where it can be",
        "tests/unit/agent/passes/test_state_faults.py::"
        "test_a_corrupt_memory_is_set_aside_and_made_again_from_the_record",
    ),
    Elsewhere(
        "killed at each write of each file",
        "the next pass does as if nothing had happened",
        "tests/unit/agent/passes/test_state_faults.py::test_killed_at_any_write_of_any_file_the_next_pass_is_clean",
    ),
    Elsewhere(
        "a pass killed at a random moment",
        "the next pass settles what was open; the record has no gap",
        "tests/lab/test_killed.py::test_killed_at_any_moment_the_next_pass_is_clean_and_the_record_tells_the_truth",
    ),
    Elsewhere(
        "clock a day ahead and back",
        "no limit is raised, no hold ends, no guest is forgotten",
        "tests/lab/test_races.py::test_a_clock_that_runs_a_day_ahead_and_back_raises_nothing",
    ),
    Elsewhere(
        "machine suspended",
        "its time counts: what should have ended ends when it wakes",
        "tests/unit/agent/daemon/test_service.py::"
        "test_a_clock_that_is_set_ahead_ends_no_rule_and_a_suspended_machine_does",
    ),
    Elsewhere(
        "Keystone or Cinder gone while a volume is attached",
        "the volume keeps its limits; the QoS spec is in force soon after their return",
        "tests/lab/test_cinder_down.py::test_a_volume_attached_in_an_outage_has_its_spec_soon_after_it",
    ),
    Elsewhere(
        "Cinder slow, or with answers that make no sense",
        "no limit changes; the last catalogue stays in use",
        "tests/functional/test_catalogue.py::test_a_control_plane_in_trouble_changes_nothing_and_delays_no_pass",
    ),
    Elsewhere(
        "no name server",
        "Ceph's health and the catalogue are unknown: no limit is raised, the last catalogue stays in use",
        "tests/lab/test_storm.py::test_a_monitor_whose_name_has_no_address_is_unknown_health_at_once",
    ),
    Elsewhere(
        "Cinder or Keystone killed, frozen, or denying",
        "no limit changes; the last catalogue stays in use",
        "tests/lab/test_cinder_down.py::test_a_control_plane_in_trouble_changes_no_limit_and_delays_no_pass",
    ),
    Elsewhere(
        "an operator's day: edits, an accident, daemon and libvirtd killed, damaged files, a full disk",
        "no disk that is not as desired stands under a green ``plimsoll status`` longer than passes need to find it",
        "tests/lab/faults/test_day.py::test_no_light_is_green_over_a_disk_that_is_not_as_desired",
    ),
)
