"""Why a disk is, or was, slow: what was measured around it, and the cause that follows from that. Pure."""

from __future__ import annotations
