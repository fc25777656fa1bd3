"""How the cloud's MariaDB is run: by Nova's part, and while its databases are made."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .command import DIES_WITH_US, LabError, run

OPTIONS = (
    # Nothing of it has to survive a power failure.
    *("--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-buffer-pool-size=64M"),
    # Copied at each start; the default is 96 MiB.
    "--innodb-log-file-size=8M",
    *("--performance-schema=0", "--max-connections=400", "--skip-name-resolve"),
    *("--character-set-server=utf8mb3", "--transaction-isolation=READ-COMMITTED"),
)


def argv(home: Path, *more: str) -> list[str]:
    """With its data in ``mariadb`` below that directory, and its socket and pid beside it."""
    return [
        *("/usr/sbin/mariadbd", "--no-defaults", "--user=root", f"--datadir={home}/mariadb"),
        *(f"--socket={home}/mariadb.sock", f"--pid-file={home}/mariadb.pid", *OPTIONS, *more),
    ]


def version() -> str:
    """Of the program: another one may want other files."""
    return run(["/usr/sbin/mariadbd", "--no-defaults", "--version"]).strip()


@contextmanager
def making(home: Path, sql: str) -> Iterator[Path]:
    """A new one, for whoever has its socket, which this gives; it has been shut down at the end.

    Raises LabError where it does not start, or has not ended as it should.
    """
    (home / "mariadb").mkdir()
    begin, log = home / "begin.sql", home / "mariadb.log"
    begin.write_text(sql)
    words = [f"--datadir={home}/mariadb", "--auth-root-authentication-method=normal", "--skip-test-db", *OPTIONS]
    run(["mariadb-install-db", "--no-defaults", *words, "--user=root"], log=log, timeout=180, boxed=True)
    words = argv(home, "--skip-networking", f"--init-file={begin}")
    with log.open("ab") as out:
        server = subprocess.Popen([*DIES_WITH_US, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        _wait_for(home / "mariadb.sock", server, log)
        yield home / "mariadb.sock"
        server.send_signal(signal.SIGTERM)
        if server.wait(timeout=60):
            raise LabError(f"mariadbd ended with status {server.returncode}: {_last_line(log)}")
    except subprocess.TimeoutExpired:
        raise LabError(f"mariadbd does not end: {_last_line(log)}") from None
    finally:
        server.kill()
        server.wait()


def _wait_for(path: Path, server: subprocess.Popen[bytes], log: Path, timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
            if attempt.connect_ex(str(path)) == 0:
                return
        if server.poll() is not None or time.monotonic() > deadline:
            raise LabError(f"mariadbd does not serve: {_last_line(log)}")
        time.sleep(0.1)


def _last_line(log: Path) -> str:
    return (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
