"""What an operator approved, on this node or for the region: values."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated

from msgspec import Meta

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import frozen

LEAST_DIGITS = 16
"""How many hexadecimal digits of a digest are printed, and are needed to name it.

Cinder accepts any key in a QoS spec, so an editor of specs could search for a spec with the same digest as another.
With 6 digits that takes seconds, with 16 more than 10^19 tries.
"""
_TYPED = rf"\A[0-9a-f]{{{LEAST_DIGITS},64}}\Z"


@frozen
class Approval:
    """The brake allows what ``digest`` stands for: a revision, or the change of one disk."""

    digest: Annotated[str, Meta(pattern=_TYPED)]
    """Hexadecimal, at least the first 16 digits."""
    remove: bool = False
    """Removals are approved too."""

    def covers(self, *digests: str, removal: bool) -> bool:
        """Whether it approves one of these digests; a ``removal`` needs ``remove``."""
        return (self.remove or not removal) and any(digest.startswith(self.digest) for digest in digests)


def is_digest(text: str) -> bool:
    """Whether an operator may name a digest by this text."""
    return re.match(_TYPED, text) is not None


def digest_of_change(key: str, limits: Limits) -> str:
    """The digest, 64 hexadecimal digits, of setting exactly these limits on this disk (``Disk.key``)."""
    return hashlib.sha256(json.dumps([key, limits.in_effect()]).encode()).hexdigest()
