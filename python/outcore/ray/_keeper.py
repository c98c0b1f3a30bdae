"""The part of a node in a job: a directory on each of its drives, and a server of the parts in them.

Contract: a `Keeper` runs once per node and job. It holds a lock in each directory for as long as it
lives, removes directories of jobs that are dead, and sends files of its own directories to tasks
that know the job's token. `fetch` receives one.

Parts go from node to node through this server, because Ray's object store would hold each of them
in shared memory and spill it to disk again. A prefix in an object store would move the data over
the network twice.

Bounds: `sendfile` sends without a copy in this process; `fetch` holds 1 MiB.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import shutil
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from ._job import Job

#: Begins the names of all directories of jobs.
PREFIX = "outcore-ray-"
#: The file that a living keeper locks.
_LOCK = "lock"
#: A directory without a lock is younger than this while its keeper starts.
_YOUNG_SECONDS = 60.0
_BLOCK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60.0
#: The length of a file that does not exist.
_ABSENT = (1 << 64) - 1


def home_of(job: Job, node: str, drive: str) -> Path:
    """The directory of a job on a drive of a node. Nodes of a test share a file system."""
    return Path(drive) / f"{PREFIX}{job.id}-{node[:16]}"


class Keeper:
    """Holds the directories of one node for one job, and serves their files."""

    def __init__(self, job: Job, node: str, host: str) -> None:
        self._job = job
        self._homes = [home_of(job, node, drive) for drive in job.drives]
        self._locks = []
        for drive, home in zip(job.drives, self._homes):
            _sweep(Path(drive))
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = open(home / _LOCK, "w")  # noqa: SIM115
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._locks.append(lock)
        self._server = socket.create_server((host, 0), backlog=128)
        threading.Thread(target=self._serve, daemon=True).start()

    def address(self) -> tuple[str, int]:
        """Where the server listens."""
        host, port = self._server.getsockname()[:2]
        return host, port

    def remove(self) -> None:
        """Removes the directories with all parts."""
        for home in self._homes:
            shutil.rmtree(home, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):
            connection.settimeout(_TIMEOUT_SECONDS)
            with connection.makefile("rb") as asked:
                token = asked.readline(256).strip()
                path = os.fsdecode(asked.readline(8192).rstrip(b"\n"))
            if not hmac.compare_digest(token, self._job.token.encode()):
                return
            real = os.path.realpath(path)
            if not any(real.startswith(os.path.realpath(home) + os.sep) for home in self._homes):
                return
            try:
                file = open(real, "rb")  # noqa: SIM115
            except OSError:
                connection.sendall(struct.pack("<Q", _ABSENT))
                return
            with file:
                connection.sendall(struct.pack("<Q", os.fstat(file.fileno()).st_size))
                connection.sendfile(file)


class Silent(Exception):
    """A node does not answer."""


def fetch(job: Job, address: tuple[str, int], path: str, to: Path) -> bool:
    """Receives a file of a keeper; false if it does not exist.

    Raises: Silent. OSError if the file cannot be written here.
    """
    try:
        connection = socket.create_connection(address, timeout=_TIMEOUT_SECONDS)
    except OSError:
        raise Silent from None
    with connection, connection.makefile("rb", buffering=_BLOCK_BYTES) as sent:
        try:
            connection.sendall(job.token.encode() + b"\n" + os.fsencode(path) + b"\n")
            (left_bytes,) = struct.unpack("<Q", sent.read(8))
        except (OSError, struct.error):
            raise Silent from None
        if left_bytes == _ABSENT:
            return False
        with open(to, "wb") as file:
            while left_bytes:
                try:
                    block = sent.read(min(left_bytes, _BLOCK_BYTES))
                except OSError:
                    raise Silent from None
                if not block:
                    raise Silent
                file.write(block)
                left_bytes -= len(block)
    return True


def _sweep(drive: Path) -> None:
    """Removes directories of jobs whose keeper is dead."""
    for home in drive.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if time.time() - home.stat().st_mtime < _YOUNG_SECONDS:
                continue
            with open(home / _LOCK, "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(home, ignore_errors=True)
