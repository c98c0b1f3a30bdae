"""Control groups: one memory limit, page cache included, around every measured process, and its CPU time.

Version 1 (controllers mounted separately, as `memory`, `cpuacct`, `blkio`) and version 2 (one tree) behind one
interface. Without root, or if neither is mounted writable, `find` gives a reason and runs continue without a limit.

Invariants: a group is made for one run and removed after it; its remaining processes are ended first. Groups have the
prefix `outcore-bench-` and the PID of their creator. The swap limit equals the memory limit, so that nothing is hidden
in swap.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

PREFIX = "outcore-bench"
REMOVAL_TIMEOUT_S = 5.0
# Joins every group whose file is among the first $1 arguments, then becomes the command.
_JOIN = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 125; shift; n=$((n-1)); done; exec "$@"'


def joined(argv: list[str], joins: list[Path]) -> list[str]:
    """The command line that joins the groups first. Every child and thread of `argv` is inside from its start."""
    return ["/bin/sh", "-c", _JOIN, "sh", str(len(joins)), *map(str, joins), *argv]


@dataclass
class Hierarchies:
    """The places of the controllers: `version` 1, 2 or 0 (none), `roots` by controller, `reason` when none."""

    version: int
    roots: dict[str, Path] = field(default_factory=dict)
    reason: str | None = None


def find(mounts_text: str | None = None) -> Hierarchies:
    """Looks through the mount table; `mounts_text` stands in for /proc/self/mounts in tests."""
    if mounts_text is None:
        mounts_text = Path("/proc/self/mounts").read_text()
    roots: dict[str, Path] = {}
    unified = None
    for line in mounts_text.splitlines():
        _, target, kind, options = line.split()[:4]
        if kind == "cgroup":
            for controller in {"memory", "cpuacct", "blkio"} & set(options.split(",")):
                roots[controller] = Path(target)
        elif kind == "cgroup2":
            unified = Path(target)
    if "memory" in roots:
        return _if_writable(Hierarchies(1, roots))
    if unified is not None and _controllers(unified) >= {"memory"}:
        return _if_writable(Hierarchies(2, {"memory": unified}))
    return Hierarchies(0, {}, "no memory controller is mounted (cgroup v1 or v2)")


def _controllers(unified: Path) -> set[str]:
    try:
        return set((unified / "cgroup.controllers").read_text().split())
    except OSError:
        return set()


def _if_writable(found: Hierarchies) -> Hierarchies:
    if not os.access(found.roots["memory"], os.W_OK):
        return Hierarchies(0, {}, f"{found.roots['memory']} is not writable: limits need root")
    return found


class Group:
    """One group over the hierarchies that exist; a context manager. `limit_bytes` None: CPU time only."""

    _serial = itertools.count()

    def __init__(self, hierarchies: Hierarchies, limit_bytes: int | None) -> None:
        self._hierarchies = hierarchies
        self.limit_bytes = limit_bytes
        self._paths: dict[str, Path] = {}

    def __enter__(self) -> Group:
        name = f"{PREFIX}-{os.getpid()}-{next(self._serial)}"
        controllers = ("memory", "cpuacct") if self._hierarchies.version == 1 else ("memory",)
        try:
            for controller in controllers:
                if controller in self._hierarchies.roots and (controller != "memory" or self._wants_memory()):
                    self._make(controller, name)
            if self.limit_bytes is not None and "memory" in self._paths:
                self._set_limit(self._paths["memory"])
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _wants_memory(self) -> bool:
        return self.limit_bytes is not None or self._hierarchies.version == 2

    def _make(self, controller: str, name: str) -> None:
        root = self._hierarchies.roots[controller]
        if self._hierarchies.version == 2:
            # Harmless if the controller is on already; a refusal shows when the limit is written.
            with contextlib.suppress(OSError):
                (root / "cgroup.subtree_control").write_text("+memory")
        (root / name).mkdir()
        self._paths[controller] = root / name

    def _set_limit(self, path: Path) -> None:
        if self._hierarchies.version == 1:
            (path / "memory.limit_in_bytes").write_text(str(self.limit_bytes))
            swap = path / "memory.memsw.limit_in_bytes"
            if swap.exists():
                swap.write_text(str(self.limit_bytes))
        else:
            (path / "memory.max").write_text(str(self.limit_bytes))
            swap = path / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")

    @property
    def joins(self) -> list[Path]:
        """The files into which a process writes its PID to join."""
        return [path / "cgroup.procs" for path in self._paths.values()]

    def peak_bytes(self) -> int | None:
        """Peak memory ever charged, page cache and kernel memory included."""
        name = "memory.max_usage_in_bytes" if self._hierarchies.version == 1 else "memory.peak"
        return self._number("memory", name)

    def oom_kills(self) -> int:
        """Number of processes that the kernel killed because they exceeded the limit."""
        name = "memory.oom_control" if self._hierarchies.version == 1 else "memory.events"
        return int(self._fields("memory", name).get("oom_kill", 0))

    def cpu_seconds(self) -> tuple[float, float] | None:
        """User and system seconds of everything that ever ran inside; None if no controller counts them."""
        if self._hierarchies.version == 2:
            stat = self._fields("memory", "cpu.stat")
            if "user_usec" not in stat:
                return None
            return stat["user_usec"] / 1e6, stat["system_usec"] / 1e6
        user_ns = self._number("cpuacct", "cpuacct.usage_user")
        system_ns = self._number("cpuacct", "cpuacct.usage_sys")
        if user_ns is None or system_ns is None:
            return None
        return user_ns / 1e9, system_ns / 1e9

    def _number(self, controller: str, name: str) -> int | None:
        try:
            return int((self._paths[controller] / name).read_text())
        except (KeyError, OSError, ValueError):
            return None

    def _fields(self, controller: str, name: str) -> dict[str, int]:
        try:
            lines = (self._paths[controller] / name).read_text().splitlines()
        except (KeyError, OSError):
            return {}
        return {key: int(value) for key, value in (line.split() for line in lines)}

    def close(self) -> None:
        """Ends the processes that are still inside and removes the group; fails after REMOVAL_TIMEOUT_S."""
        remove_groups(self._paths.values())
        self._paths.clear()


def remove_groups(paths: Iterable[Path]) -> None:
    """Ends the processes in each group directory and removes it. An absent directory is not an error."""
    for path in list(paths):
        deadline = time.monotonic() + REMOVAL_TIMEOUT_S
        while path.exists():
            for pid in _members(path):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                path.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                # Ended processes leave the group a moment later.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


def _members(path: Path) -> list[int]:
    try:
        return [int(line) for line in (path / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def sweep(hierarchies: Hierarchies) -> list[Path]:
    """Removes groups whose creator no longer runs (a benchmark ended by SIGKILL). Returns them."""
    swept = []
    for root in set(hierarchies.roots.values()):
        for path in root.glob(f"{PREFIX}-*-*"):
            maker = path.name.split("-")[2]
            if maker.isdigit() and not Path(f"/proc/{maker}").exists():
                remove_groups([path])
                swept.append(path)
    return swept
