"""The part of a node in jobs: directories on each of its drives, and a server of the parts in them.

Contract: a `Keeper` runs once per node and driver, and serves all jobs of the driver. It holds a
lock in each directory of a job until the job ends, removes directories of jobs that are dead, and
sends files of a job's directories to tasks that know the job's token. `fetch` receives one.

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
from typing import Any

from ._job import Job

#: Begins the names of all directories of jobs.
PREFIX = "outcore-ray-"
#: The file that a living keeper locks.
_LOCK = "lock"
#: A directory that is younger than this may lack a lock because its keeper is just starting.
_YOUNG_SECONDS = 60.0
_BLOCK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 60.0
#: The length of a file that does not exist.
_ABSENT = (1 << 64) - 1


def home_of(job: Job, node: str, drive: str) -> Path:
    """The directory of a job on a drive of a node. Nodes of a test share a file system."""
    return Path(drive) / f"{PREFIX}{job.id}-{node[:16]}"


class Keeper:
    """Holds the directories of jobs on one node, and serves their files."""

    def __init__(self, node: str, host: str) -> None:
        self._node = node
        #: The directories of each job by its token, with their locks.
        self._held: dict[str, dict[Path, Any]] = {}
        #: Jobs that have ended: a call of `remove` may overtake the call of `hold` for the same job.
        self._ended: set[str] = set()
        self._holding = threading.Lock()
        self._server = socket.create_server((host, 0), backlog=128)
        threading.Thread(target=self._serve, daemon=True).start()

    def hold(self, job: Job) -> tuple[str, int]:
        """Makes the directories of a job, unless the job has ended or the directories exist. Returns the address of the
        server."""
        with self._holding:
            if job.token not in self._held and job.token not in self._ended:
                self._held[job.token] = self._locked(job)
        host, port = self._server.getsockname()[:2]
        return host, port

    def _locked(self, job: Job) -> dict[Path, Any]:
        locks = {}
        for drive in job.drives:
            _sweep(Path(drive))
            home = home_of(job, self._node, drive)
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = open(home / _LOCK, "w")  # noqa: SIM115
            fcntl.flock(lock, fcntl.LOCK_EX)
            locks[home] = lock
        return locks

    def remove(self, job: Job) -> None:
        """Removes the directories of a job with all parts."""
        with self._holding:
            self._ended.add(job.token)
            for drive in job.drives:
                shutil.rmtree(home_of(job, self._node, drive), ignore_errors=True)
            for lock in self._held.pop(job.token, {}).values():
                lock.close()

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
            real = os.path.realpath(path)
            homes = self._homes_of(token)
            if not any(real.startswith(os.path.realpath(home) + os.sep) for home in homes):
                return
            try:
                file = open(real, "rb")  # noqa: SIM115
            except OSError:
                connection.sendall(struct.pack("<Q", _ABSENT))
                return
            with file:
                connection.sendall(struct.pack("<Q", os.fstat(file.fileno()).st_size))
                connection.sendfile(file)


    def _homes_of(self, token: bytes) -> list[Path]:
        """The directories of the job with this token; none for another token."""
        found = []
        for known, locks in list(self._held.items()):
            if hmac.compare_digest(token, known.encode()):
                found += list(locks)
        return found


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
