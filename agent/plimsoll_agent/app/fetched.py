"""The catalogue and the orders for the region, as far as they count now.

The refresher's user writes both files, and talks to the network. So a pass believes orders only with the signature of
the region's key, which it checks itself, and needs no network for it.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import datetime
from functools import partial
from pathlib import Path

from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue import signed_file
from plimsoll_agent.catalogue.model import Catalogue, CatalogueError
from plimsoll_agent.catalogue.orders import Orders, RegionApproval
from plimsoll_agent.catalogue.signed_file import SignedOrders
from plimsoll_agent.config.settings import CatalogueSettings, CongestionSettings
from plimsoll_agent.congestion import published
from plimsoll_agent.congestion.published import FactorFile, Factors
from plimsoll_agent.errors import ConfigError, PlimsollError
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.store.state import CorruptState, State, StateError
from plimsoll_agent.util import files
from plimsoll_agent.util.cached import Cached
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import minute

LOG = logging.getLogger(__name__)

REGION_FILE = "region-file"
_LONGEST_KEY = 2**16

# For a process that lives on.
_CATALOGUES: Cached[Catalogue | None] = Cached()
_SIGNED: Cached[SignedOrders] = Cached()
_FACTORS: Cached[FactorFile] = Cached()
_NEWEST: dict[Path, int] = {}


def catalogue_actual(settings: CatalogueSettings, now: datetime) -> tuple[Catalogue | Unknown | None, Reason | None]:
    """The catalogue, and a note about it. A stale one is used for ``keep_for``."""
    if settings.source == "none":
        return None, None
    try:
        last = load_catalogue(settings)
    except CatalogueError as error:
        return _unknown(Code.CATALOGUE_UNREADABLE, str(error))
    if last is None:
        return _unknown(Code.NO_CATALOGUE, f"{settings.directory} is empty; run plimsoll catalogue refresh")
    age = last.age(now)
    since = f"since {minute(last.issued)}"
    if 0 < settings.keep_for < age.total_seconds():
        return _unknown(Code.CATALOGUE_EXPIRED, f"not refreshed from {last.source} {since}")
    if age.total_seconds() > settings.stale_after:
        return last, because(Code.CATALOGUE_STALE, detail=f"not refreshed from {last.source} {since}")
    return last, None


def load_catalogue(settings: CatalogueSettings) -> Catalogue | None:
    """The catalogue of this node, None if there is none yet. Raises ``CatalogueError``."""
    return _CATALOGUES.get(settings.directory / catalogue.NAME, lambda: catalogue.load(settings.directory))


def _unknown(code: Code, detail: str) -> tuple[Unknown, Reason]:
    reason = because(code, detail=detail)
    return Unknown(reason), reason


def congestion_actual(settings: CongestionSettings, directory: Path, now: datetime) -> Factors | None:
    """The newest factors of each cluster, of the files in the catalogue's directory that count now.

    A pass believes only the signature, so an earlier file that is still valid may count in a new process; one that
    lives on refuses it. None if congestion is switched off.
    """
    if not settings.files:
        return None
    clusters, faults = dict[str, FactorFile](), list[str]()
    for index in range(len(settings.files)):
        path = directory / published.NAME.format(index)
        try:
            file = _FACTORS.get(path, partial(_factors, settings, path), files.stamp_of(settings.key))
            published.check_fit(file, _NEWEST.get(path, 0), now, str(path))
        except PlimsollError as error:
            faults.append(str(error))
            continue
        _NEWEST[path] = file.generation
        for fsid in {factor.cluster for factor in file.factors}:
            clusters[fsid] = max(file, clusters.get(fsid, file), key=lambda each: each.generation)
    return Factors(clusters, "; ".join(faults))


def _factors(settings: CongestionSettings, path: Path) -> FactorFile:
    """Raises ``CatalogueError``, ``ConfigError``, ``BadSignature``."""
    whole = _kept(path, published.MOST_BYTES, "plimsoll congestion fetch")
    return published.decode(_verified(whole, settings.key, path), str(path))


def _kept(path: Path, most: int, command: str) -> bytes:
    """A signed file as the command has kept it. Raises ``CatalogueError``."""
    try:
        return files.read_whole(path, most)
    except FileNotFoundError as error:
        raise CatalogueError(f"{path}: does not exist yet; run {command}") from error
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be read: {error.strerror}") from error


def _verified(whole: bytes, key: Path, path: Path) -> bytes:
    """Its content, without the signature. Raises ``ConfigError``, ``BadSignature``."""
    # Imported here: most passes find a file that was checked before.
    from plimsoll_agent.adapters.ed25519 import read_public, unsealed

    content, signature = unsealed(whole)
    read_public(key).verify(content, signature or b"", str(path))
    return content


@frozen(kw_only=True)
class RegionOrders:
    """The orders that count on this node."""

    orders: Orders = Orders()
    unknown: Reason | None = None
    """Why the present ones are unknown; then ``orders`` has the last known pause and holds, and no approval."""
    begun: datetime | None = None
    """When the region's machine began to read for the file that has them; None without one."""
    news: tuple[RegionApproval, ...] = ()
    """The approvals with stages that have reached this node since the file before."""

    def stale(self, settings: CatalogueSettings, now: datetime) -> Reason | None:
        """The signature covers that time, which in the catalogue anybody may write who writes it."""
        if self.begun is None or (now - self.begun).total_seconds() <= settings.stale_after:
            return None
        return because(Code.CATALOGUE_STALE, detail=f"the region's orders are from {minute(self.begun)}")


def region_orders(settings: CatalogueSettings, state: State, *, keep: bool) -> RegionOrders:
    """Orders have ends of their own, so they count at any age of their file. ``keep`` remembers them on this node."""
    if settings.source != REGION_FILE:
        return RegionOrders()
    try:
        last = state.load_orders()
    except CorruptState as error:
        LOG.info("%s", error)
        last = None
    except StateError as error:  # of a newer plimsoll, say: they are not written over
        return RegionOrders(unknown=because(Code.ORDERS_UNKNOWN, detail=str(error)))
    file = settings.directory / signed_file.NAME
    try:
        signed_orders = _SIGNED.get(file, lambda: _checked(settings, last), files.stamp_of(settings.region_key))
    except PlimsollError as error:
        unknown = because(Code.ORDERS_UNKNOWN, detail=str(error))
        if last is not None:
            return RegionOrders(orders=Orders(pause=last.orders.pause, holds=last.orders.holds), unknown=unknown)
        return RegionOrders(unknown=unknown)
    orders, news = signed_orders.orders.on_node(settings.position), tuple[RegionApproval, ...]()
    if keep and signed_orders != last:
        news = orders.new_stages(Orders() if last is None else last.orders.on_node(settings.position))
        try:
            state.save_orders(signed_orders)
        except StateError as error:
            LOG.warning("%s", error)
    return RegionOrders(orders=orders, begun=signed_orders.begun, news=news)


def _checked(settings: CatalogueSettings, last: SignedOrders | None) -> SignedOrders:
    """The orders in the kept region file. Raises ``CatalogueError``, ``ConfigError``, ``BadSignature``."""
    path = settings.directory / signed_file.NAME
    whole = _kept(path, signed_file.MOST_BYTES + 1, "plimsoll catalogue refresh")
    try:
        key = hashlib.sha256(files.read_whole(settings.region_key, _LONGEST_KEY, follow=True)).hexdigest()
    except OSError as error:
        raise ConfigError(f"{settings.region_key}: cannot be read: {error.strerror}") from error
    file = hashlib.sha256(whole).hexdigest()
    if last is not None and (last.file, last.key) == (file, key):
        return last
    content = _verified(whole, settings.region_key, path)
    region = signed_file.decode(content, str(path), whole=False)
    if last is not None and last.key == key:  # else an earlier file, whose orders have been withdrawn, would count
        signed_file.check_follows(region, file, (last.generation, last.file), str(path))
    return SignedOrders(orders=region.orders, generation=region.generation, begun=region.begun, file=file, key=key)
