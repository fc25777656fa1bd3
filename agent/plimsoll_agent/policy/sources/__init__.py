"""The sources of a disk's limits, in the order in which they are asked; a file for each. Pure.

A new source also needs a ``Code`` (``model.reason``) with its row in ``ORIGINS`` (``model.origin``) and its sentence
(``messages.sentences``). Data besides rules and catalogue must be part of ``Situation.revision``: else the
brake does not notice an edit of it.

Imports ``policy.decide``, ``catalogue``, ``rules``, ``model`` and below.
"""

from plimsoll_agent.policy.decide import Source
from plimsoll_agent.policy.sources import attached, cinder, flavor, rules

SOURCES: tuple[Source, ...] = (
    rules.overriding,
    cinder.qos_spec,
    flavor.disk_quota,
    attached.attach_time_limits,
    rules.fallback,
)
