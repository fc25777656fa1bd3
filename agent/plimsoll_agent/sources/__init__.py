"""Where the limit of a disk may come from: the sources, in the order in which they are asked."""

from plimsoll_agent.decide import Source
from plimsoll_agent.sources import attached, cinder, flavor, rules

SOURCES: tuple[Source, ...] = (
    rules.first_word,
    cinder.qos_spec,
    flavor.disk_quota,
    attached.limits_of_others,
    rules.last_word,
)
