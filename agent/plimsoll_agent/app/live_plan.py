"""What a pass would decide on the disks that ``plimsoll top`` follows. It changes nothing."""

from __future__ import annotations

from plimsoll_agent.app.context import PassContext, pass_context
from plimsoll_agent.app.node import state_of
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import NotFound, PlimsollError
from plimsoll_agent.messages import explain
from plimsoll_agent.messages.ceilings import ceilings_of
from plimsoll_agent.model.clusters import Clusters
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.model.usage import BUSY
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.policy.sources.cinder import per_gib
from plimsoll_agent.reconcile.observe import Observation, observe
from plimsoll_agent.reconcile.outcome import Scope
from plimsoll_agent.reconcile.run import Considered, by_sources, gated, planned
from plimsoll_agent.reconcile.savings import shares
from plimsoll_agent.store.record import Record
from plimsoll_agent.top.keys import Explained
from plimsoll_agent.top.rows import Planned, guest_words
from plimsoll_agent.top.sampler import Sample
from plimsoll_agent.util.frozen import replace


class LivePlan:
    """Decides on a sample as ``plimsoll plan`` would, on the files as they are now."""

    def __init__(self, settings: Settings, scope: Scope) -> None:
        self._settings = settings
        self._scope = scope

    def planned(self, sample: Sample) -> Planned:
        """The outcome of each disk, without Ceph's health; no guest and no cluster is asked."""
        try:
            context = self._context()
            observation = _observed(sample, context.caution.gate.clusters)
            plan = self._decided(context, observation, self._scope)
        except PlimsollError as error:
            return Planned(complaint=f"desired limits unknown: {error}")
        return Planned(
            outcomes={outcome.disk.key: outcome for outcome in plan.outcomes},
            complaint=context.complaint,
            mode=self._settings.mode if context.caution.paused() is None else "writes paused",
            saved={o.disk.key: each for o in plan.outcomes if (each := shares(o, plan.situation.accounts))},
            ceilings={o.disk.key: its for o in plan.outcomes if (its := ceilings_of(o, plan.situation))},
        )

    def explained(self, sample: Sample, guest: str, key: str, hypervisor: Hypervisor) -> Explained:
        """What ``disk explain`` prints. Only this guest is asked, and the clusters of what would change on it.

        Raises ``PlimsollError``.
        """
        context, scope = self._context(), Scope(frozenset([guest]))
        clusters, catalogue = context.caution.gate.clusters, context.situation.catalogue
        # QEMU halts the guest to read a size: only where limits depend on it.
        fresh = observe(hypervisor, scope, clusters=clusters, needs_size=lambda disk: per_gib(disk, catalogue))
        others = _observed(sample, clusters)
        observation = replace(
            fresh,
            disks=(*(disk for disk in others.disks if disk.guest.uuid != guest), *fresh.disks),
            unreachable=(*(each for each in others.unreachable if each.guest.uuid != guest), *fresh.unreachable),
        )
        plan = self._decided(context, observation, scope)
        for unreachable in fresh.unreachable:
            raise NotFound(guest_words(unreachable))
        outcome = next((each for each in gated(context.caution.gate, plan) if each.disk.key == key), None)
        if outcome is None:
            raise NotFound("the disk is no longer attached")
        rows = explain.rows(outcome, plan.situation, Record(state_of(self._settings).record))
        head = (*context.complaint.splitlines(), explain.head(outcome.disk))
        disk, at = outcome.disk, plan.situation.now
        return Explained(
            title=f"plimsoll disk explain {disk.guest.name} {disk.target}   {at:%H:%M:%S}Z", head=head, rows=rows
        )

    def _context(self) -> PassContext:
        return pass_context(self._settings, read_only=True)

    def _decided(self, context: PassContext, observation: Observation, scope: Scope) -> Considered:
        return planned(
            observation,
            self._scope,
            scope,
            context.situation,
            decider=by_sources(SOURCES),
            node_store=context.node_store,
            notes=context.notes,
            caution=context.caution,
        )


def _observed(sample: Sample, clusters: Clusters) -> Observation:
    disks = (usage.disk for usage in sample.usages)
    return Observation(
        disks=tuple(clusters.placed(replace(disk, actual=disk.actual or Unknown(BUSY))) for disk in disks),
        unreachable=sample.unreachable,
        guests=sample.guests,
        readings={usage.disk.key: usage.reading for usage in sample.usages if usage.reading is not None},
    )
