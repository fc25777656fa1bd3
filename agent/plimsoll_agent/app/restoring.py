"""Restores what is reduced, and changes nothing else: before a node is left to itself."""

from __future__ import annotations

from plimsoll_agent.app.congestion_following import Follow
from plimsoll_agent.app.context import PATIENCE, pass_context
from plimsoll_agent.app.node import state_of
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.decide import Decision, Situation, Unmanaged
from plimsoll_agent.reconcile.consider import outcome_of
from plimsoll_agent.reconcile.observe import Observation
from plimsoll_agent.reconcile.outcome import Mode, Outcome, PassReport, Scope
from plimsoll_agent.reconcile.run import Decider, run_pass
from plimsoll_agent.util.frozen import replace


def restore(settings: Settings, hypervisor: Hypervisor) -> PassReport:
    """A pass over the node that also writes while it is paused.

    Raises ``Busy`` while another one runs, ``Unreachable``, ``ConfigError`` and ``StateError`` as others do.
    """
    state = state_of(settings)
    state.prepare()
    with state.locked(patience=PATIENCE):
        context = pass_context(settings, read_only=False, without_rules=True, follow=Follow.END)
        return run_pass(
            Scope(),
            context.situation,
            Mode.ENFORCE,
            hypervisor=hypervisor,
            decider=Decider(_left_alone, lasting=False),
            node_store=context.node_store,
            notes=context.notes,
            bounds=settings.bounds,
            caution=replace(context.caution, paused=lambda: None),
            tell=lambda _: None,
        )


def _left_alone(observation: Observation, situation: Situation) -> list[Outcome]:
    def outcome(disk: Disk) -> Outcome:
        desired = Unmanaged(because(Code.NOT_UNDONE))
        return outcome_of(disk, Decision(desired=desired, trail=(), ours=situation.ours(disk)))

    return [outcome(disk) for disk in observation.disks]
