"""Describes the machine of the measurements: processor, memory, kernel, disk, and the version of every tool.

Nothing that identifies the machine or its owner (host, user, paths) is collected, because the result goes into the
documentation.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from .install import PEERS_DIR, VENV_PYTHON
from .measure import device_of
from .units import GIB


def describe(work_dir: Path) -> dict[str, str]:
    """Labels and texts, in the order of a table."""
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": _memory(),
        "kernel": f"{platform.system()} {platform.release()}",
        "disk": _disk(work_dir),
    }


def versions(outcore: Path, tools: Iterable[str], terashuf: Path | None = None) -> dict[str, str]:
    """Versions of the given tools; `absent` if a tool is missing."""
    asked: dict[str, Callable[[], str]] = {
        "STXXL": lambda: _first(["dpkg-query", "-W", "-f", "${Version}", "libstxxl-dev"]),
        "DuckDB": lambda: _python_version("duckdb"),
        "Polars": lambda: _python_version("polars"),
        "pyarrow": lambda: _python_version("pyarrow"),
        "numpy": lambda: _python_version("numpy"),
        "GNU sort": lambda: _first(["sort", "--version"]),
        "terashuf": lambda: _of_bytes(terashuf),
        "fio": lambda: _first(["fio", "--version"]),
        "g++": lambda: _first(["g++", "-dumpfullversion"]),
        "Python": lambda: sys.version.split()[0],
    }
    return {"outcore": _outcore_version(outcore), **{tool: asked[tool]() for tool in tools}}


def _of_bytes(binary: Path | None) -> str:
    """For a program that does not report its version."""
    if binary is None:
        return "absent"
    return f"program with SHA-256 {hashlib.sha256(binary.read_bytes()).hexdigest()[:16]}"


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _first(command: list[str]) -> str:
    """The version in the first line that a tool prints."""
    output = _output(command)
    if not output:
        return "absent"
    return re.sub(r"^(sort \(GNU coreutils\) |fio-)", "", output.splitlines()[0])


def _python_version(module: str) -> str:
    return _first([str(VENV_PYTHON), "-c", f"import importlib.metadata as m; print(m.version('{module}'))"])


def _outcore_version(binary: Path) -> str:
    version = _first([str(binary), "--version"]).removeprefix("outcore ")
    # The last commit that touched the code, so that runs can be merged if only other files changed between them.
    code = ["--", ":/crates", ":/Cargo.toml", ":/Cargo.lock"]
    commit = _output(["git", "-C", str(PEERS_DIR), "log", "-1", "--format=%h", "--abbrev=10", *code])
    changed = _output(["git", "-C", str(PEERS_DIR), "status", "--porcelain", "--untracked-files=no", *code])
    return f"{version} ({commit}{', changed' if changed else ''})" if commit else version


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _memory() -> str:
    total_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return f"{total_bytes / GIB:.1f} GiB"


def _disk(work_dir: Path) -> str:
    kind = _file_system(work_dir)
    number = device_of(work_dir)
    if number is None:
        return f"none ({kind})"
    # A partition's attributes are in its parent.
    block = Path(f"/sys/dev/block/{number}").resolve()
    disk = block if (block / "queue").exists() else block.parent
    size_gib = int((disk / "size").read_text()) * 512 / GIB
    model = disk / "device" / "model"
    name = model.read_text().strip() if model.exists() else _transport(disk)
    return f"{name}, {size_gib:.0f} GiB, {kind}, scheduler {_scheduler(disk)}"


def _transport(disk: Path) -> str:
    names = {"vd": "virtio disk", "nv": "NVMe disk", "sd": "SCSI disk", "lo": "loop device"}
    return names.get(disk.name[:2], disk.name)


def _scheduler(disk: Path) -> str:
    active = re.search(r"\[(\S+)\]", (disk / "queue" / "scheduler").read_text())
    return active.group(1) if active else "none"


def _file_system(path: Path) -> str:
    """The file system that holds a path, by the longest mount point above it."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, found = line.split()[:3]
        inside = str(path.resolve()).startswith(target.rstrip("/") + "/")
        if inside and len(target) >= len(best):
            best, kind = target, found
    return kind
