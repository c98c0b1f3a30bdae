"""The common setting of a benchmark's cases: directories, sizes, and temporary places.

Invariants: a case's directory and its drives are removed when the case is over, however it ends. The next run removes
the remains of a killed run (the names below are fixed for that reason). A place without enough room raises Skipped
before anything is written.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from . import groups
from .install import Installed
from .rounds import Rounds
from .tools import Outcore
from .units import GIB, MIB, format_size

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))
import loop_drives  # noqa: E402  (a script beside the benchmark, usable on its own)

MEMORY_BYTES_MIN = 64 * MIB
SLACK_BYTES = 64 * MIB
# Names that cases use below `--tmpfs`.
TMPFS_NAMES = ("outcore-bench-tmpfs", "outcore-bench-work")
DRIVES_NAME = "outcore-bench-drives"


class Skipped(RuntimeError):
    """A case that cannot run here; the text is the reason."""


@dataclass
class Setting:
    """The setting that all cases share: directories, sizes, and how often each tool runs."""

    outcore: Outcore
    installed: Installed
    hierarchies: groups.Hierarchies
    rounds: Rounds
    disk_dir: Path
    tmpfs_dir: Path
    scale: Fraction
    count: int  # rounds
    threads: int
    limit_bytes: int | None
    peers: frozenset[str]
    log: Callable[[str], None]
    all_peers: bool = False
    terashuf: Path | None = None

    def records(self, full: int) -> int:
        return max(1, int(full * self.scale))

    def memory(self, full_bytes: int) -> int:
        return max(MEMORY_BYTES_MIN, int(full_bytes * self.scale))

    def limit(self, memory_bytes: int) -> int:
        """The group's limit for a case: twice the tools' memory, and at least 256 MiB more (interpreters,
        libraries)."""
        return self.limit_bytes or max(2 * memory_bytes, memory_bytes + 256 * MIB)

    def generate(self, kind: str, count: int, path: Path, arguments: list[str]) -> None:
        self.log(f"generating {path.name}: {count} x {kind} {' '.join(arguments)}")
        self.outcore.generate(kind, count, path, arguments)


@contextmanager
def directory(parent: Path, name: str, need_bytes: int) -> Iterator[Path]:
    """A directory for one case, removed with its contents. Raises Skipped if the file system lacks the room."""
    free_bytes = shutil.disk_usage(parent).free
    if free_bytes < need_bytes + SLACK_BYTES:
        raise Skipped(f"needs {format_size(need_bytes)} of free space, there are {format_size(free_bytes)}")
    path = parent / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def need_memory(need_bytes: int, what: str = "") -> None:
    """Raises Skipped if the machine does not have that much free memory (files on tmpfs), and 1 GiB for the rest."""
    if available_bytes() < need_bytes + GIB:
        raise Skipped(f"needs {format_size(need_bytes)} of free memory{what}")


def available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


@dataclass
class Array:
    """Throttled drives, and the files into which a process writes its PID to be throttled."""

    drives: list[loop_drives.Drive]
    joins: list[Path]

    @property
    def mounts(self) -> list[Path]:
        return [drive.mount for drive in self.drives]

    def pattern(self, name: str) -> str:
        """Names one shard on each drive; the name of a drive is that of its directory."""
        if len(self.drives) == 1:
            return str(self.mounts[0] / name)
        return str(self.mounts[0].parent / "{drive}" / name)

    def shards(self, name: str) -> list[Path]:
        return [mount / name for mount in self.mounts]


@contextmanager
def drive_array(setting: Setting, count: int, drive_bytes: int, rate_bytes_s: int) -> Iterator[Array]:
    """`count` throttled drives with images on tmpfs, removed afterwards with all their contents."""
    array_dir = setting.tmpfs_dir / DRIVES_NAME
    setting.log(f"building {count} drives of {format_size(drive_bytes)} at {rate_bytes_s // 10**6} MB/s")
    try:
        drives = loop_drives.build(count, rate_bytes_s, drive_bytes, array_dir)
        group = loop_drives.group_path(array_dir)
        assert group is not None  # build saw the controller
        yield Array(drives, [group / "cgroup.procs"])
    finally:
        # The manifest of the shards may be next to the drives, where the script would leave it and report it.
        for manifest in array_dir.glob("*.outcore.json"):
            manifest.unlink()
        loop_drives.remove(array_dir)


def need_drives() -> None:
    """Raises Skipped if throttled drives are not available."""
    reason = loop_drives.skip_reason()
    if reason:
        raise Skipped(f"throttled drives: {reason}")


def sweep(disk_dir: Path, tmpfs_dir: Path, names: Iterable[str]) -> list[str]:
    """Removes the remains of a killed run: files (`names` below the disk's directory), loop devices, mounts.

    Returns a description of them.
    """
    left = [disk_dir / name for name in names] + [tmpfs_dir / name for name in TMPFS_NAMES]
    swept = []
    for path in left:
        if path.exists():
            shutil.rmtree(path)
            swept.append(path.name)
    if (tmpfs_dir / DRIVES_NAME).exists() and loop_drives.skip_reason() is None:
        loop_drives.remove(tmpfs_dir / DRIVES_NAME)
        swept.append(DRIVES_NAME)
    return swept
