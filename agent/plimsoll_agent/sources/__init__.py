"""Where the limit of a disk may come from: the sources, in the order in which they are asked."""

from plimsoll_agent.decide import Source
from plimsoll_agent.sources import attached, rules

SOURCES: tuple[Source, ...] = (rules.first_word, attached.limits_of_others, rules.last_word)
