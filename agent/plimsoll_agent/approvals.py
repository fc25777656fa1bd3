"""What a person, or the region, approved of: values."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from plimsoll_agent.limits import Limits

LEAST_DIGITS = 16
"""So many hexadecimal digits of a digest have to be given, and are printed.

Cinder accepts any key in a QoS spec, so whoever edits specs may look for one that has the digest of another: of 6
digits that takes seconds, of 16 more than 10^19 tries.
"""
_TYPED = re.compile(f"[0-9a-f]{{{LEAST_DIGITS},64}}")


@dataclass(frozen=True, slots=True)
class Approval:
    """Lets the brake pass what ``digest`` stands for: a revision, or the change of one disk."""

    digest: str
    """Hexadecimal: whole, or at least its first 16 digits."""
    remove: bool = False
    """Removals too."""

    def covers(self, *digests: str, removal: bool) -> bool:
        """Whether one of these digests is meant, where it is a ``removal`` too."""
        return (self.remove or not removal) and any(digest.startswith(self.digest) for digest in digests)


def is_digest(typed: str) -> bool:
    """Whether that can stand for a digest."""
    return _TYPED.fullmatch(typed) is not None


def digest_of_change(key: str, limits: Limits) -> str:
    """Stands for just these limits on just this disk (``Disk.key``): 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps([key, limits.in_effect()]).encode()).hexdigest()
