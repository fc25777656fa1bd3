"""Many volumes in the lab's Cinder: copies of the rows of a real one, that was made and attached through the API."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from uuid import UUID

from lab.cloud import Cloud

_SIZES_GIB = (1, 10, 20, 50, 100, 500)


def fill(cloud: Cloud, volumes: int, types: int) -> list[str]:
    """Returns the ids; each volume is of one of so many types, each with a QoS spec, and attached to some guest."""
    openstack = cloud.openstack
    made = [
        openstack.create_volume_type(f"bench-{n}", openstack.create_qos(f"bench-{n}", {"total_iops_sec": 100 + n}))
        for n in range(types)
    ]
    pattern = openstack.create_volume(made[0]).id
    openstack.complete(openstack.attach(pattern, uuid()))
    ids = [uuid() for _ in range(volumes)]
    with closing(sqlite3.connect(_database(cloud), timeout=60)) as database, database:
        for table, volume in (("volumes", "id"), ("volume_attachment", "volume_id")):
            _copy(database, table, volume, pattern, ids, [type.id for type in made])
    return ids


def _database(cloud: Cloud) -> Path:
    return cloud.layout.root / "openstack/cinder.db"


def _copy(
    database: sqlite3.Connection, table: str, volume: str, pattern: str, ids: Sequence[str], types: Sequence[str]
) -> None:
    found = database.execute(f"SELECT * FROM {table} WHERE {volume} = ?", (pattern,))
    columns = [column[0] for column in found.description]
    (row,) = found.fetchall()

    def copied(number: int, id: str) -> list[object]:
        new: dict[str, object] = {"id": uuid(), "instance_uuid": uuid(), "size": random.choice(_SIZES_GIB)}
        new |= {"volume_type_id": types[number % len(types)], volume: id}
        return [new.get(column, value) for column, value in zip(columns, row, strict=True)]

    rows = (copied(number, id) for number, id in enumerate(ids))
    marks = ", ".join("?" * len(columns))
    database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


def uuid() -> str:
    """Of random digits, as Cinder's are."""
    return str(UUID(int=random.getrandbits(128), version=4))
