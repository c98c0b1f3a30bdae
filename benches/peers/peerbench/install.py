"""Installs the dependencies of the peers, and reports which peers can run.

Debian packages (fio, g++, libstxxl-dev, python3-venv if the interpreter has no ensurepip) come through apt-get when
running as root. Python packages go into a private virtual environment under `build/`. The STXXL program and the one
that makes and checks the primitives' data are compiled into `build/`. A benchmark lists the parts that it wants, and
only those are installed. A second call does nothing if nothing has changed. A missing part gives a reason (text)
instead of an exception: a benchmark with one missing peer says so and still runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PEERS_DIR = Path(__file__).resolve().parent.parent
BUILD_DIR = PEERS_DIR / "build"
PROGRAMS_DIR = PEERS_DIR / "programs"
VENV_PYTHON = BUILD_DIR / "venv" / "bin" / "python"
STXXL_BINARY = BUILD_DIR / "stxxl_sort"
STXXL_FLAGS = ["-std=c++14", "-O3", "-DNDEBUG", "-fopenmp", "-pthread", "-w"]
PRIMITIVES_BINARY = BUILD_DIR / "primitives"
PRIMITIVES_FLAGS = ["-std=c++17", "-O3"]
TERASHUF_BINARY = BUILD_DIR / "terashuf"
SORT_PARTS = frozenset({"fio", "g++", "stxxl", "venv"})
PRIMITIVE_PARTS = frozenset({"fio", "g++"})

Log = Callable[[str], None]


@dataclass
class Installed:
    """The state after `install`: for each part, None or the reason why it is missing."""

    missing: dict[str, str] = field(default_factory=dict)

    def reason(self, *parts: str) -> str | None:
        """Why a tool that needs `parts` cannot run; None if it can run."""
        reasons = [self.missing[part] for part in parts if part in self.missing]
        return "; ".join(reasons) or None


def install(log: Log, parts: frozenset[str], allow_install: bool = True) -> Installed:
    """Installs and builds the wanted parts; with `allow_install` False it only checks. Takes a minute the first
    time."""
    BUILD_DIR.mkdir(parents=True, exist_ok=True)
    found = Installed()
    _debian(found, parts, log, allow_install)
    if "venv" in parts:
        _virtual_environment(found, log, allow_install)
    if "stxxl" in parts and not found.reason("g++", "stxxl"):
        _compile(found, log, "stxxl", PROGRAMS_DIR / "stxxl_sort.cpp", STXXL_BINARY, STXXL_FLAGS, ["-lstxxl"])
    if parts == PRIMITIVE_PARTS and not found.reason("g++"):
        _compile(found, log, "data", PROGRAMS_DIR / "primitives.cpp", PRIMITIVES_BINARY, PRIMITIVES_FLAGS, [])
    return found


def _run(command: list[str], log_name: str, env: dict[str, str] | None = None) -> str | None:
    """Runs a set-up command with its output in `build/LOG_NAME.log`. Returns None or the reason of its failure."""
    log_path = BUILD_DIR / f"{log_name}.log"
    try:
        with open(log_path, "w") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
            )
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    if done.returncode == 0:
        return None
    tail = log_path.read_text(errors="replace").strip().splitlines()[-1:] or ["no output"]
    return f"{Path(command[0]).name} failed ({done.returncode}): {tail[0][:200]}"


def _has_program(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def _debian(found: Installed, parts: frozenset[str], log: Log, allow_install: bool) -> None:
    wanted: dict[str, tuple[str, Callable[[], bool]]] = {
        "fio": ("fio", _has_program("fio")),
        "g++": ("g++", _has_program("g++")),
        "stxxl": ("libstxxl-dev", Path("/usr/include/stxxl/sorter").exists),
        "venv": ("python3-venv", lambda: importlib.util.find_spec("ensurepip") is not None),
    }
    absent = {part: package for part, (package, present) in wanted.items() if part in parts and not present()}
    if not absent:
        return
    packages = sorted(absent.values())
    by_hand = f"install it with: apt-get install {' '.join(packages)}"
    failure: str | None
    if not allow_install:
        failure = by_hand
    elif shutil.which("apt-get") is None or os.geteuid() != 0:
        failure = f"needs root and apt-get; {by_hand}"
    else:
        log(f"installing Debian packages: {' '.join(packages)}")
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
        failure = _run(command, "apt", quiet)
        if failure:
            _run(["apt-get", "update"], "apt-update", quiet)
            failure = _run(command, "apt", quiet)
    for part, package in absent.items():
        if not wanted[part][1]():
            found.missing[part] = f"{package} is not installed ({failure or by_hand})"


def _virtual_environment(found: Installed, log: Log, allow_install: bool) -> None:
    requirements = PEERS_DIR / "requirements.txt"
    stamp = BUILD_DIR / "venv" / "requirements.sha256"
    wanted = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted and VENV_PYTHON.exists():
        return
    failure = found.missing.get("venv")
    if failure is None and not allow_install:
        failure = "not installed yet: run with --setup-only"
    if failure is None:
        log("installing duckdb, polars, pyarrow and numpy into a private environment")
        failure = _run([sys.executable, "-m", "venv", "--clear", str(BUILD_DIR / "venv")], "venv")
    if failure is None:
        pip = [str(VENV_PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        failure = _run([*pip, "-r", str(requirements)], "pip")
    if failure is None:
        stamp.write_text(wanted)
    else:
        found.missing["python"] = f"Python packages are missing ({failure})"


def _compile(
    found: Installed, log: Log, part: str, source: Path, binary: Path, flags: list[str], libraries: list[str]
) -> None:
    if binary.exists() and binary.stat().st_mtime >= source.stat().st_mtime:
        return
    log(f"compiling {source.name}")
    failure = _run(["g++", *flags, str(source), "-o", str(binary), *libraries], part)
    if failure:
        found.missing[part] = failure
