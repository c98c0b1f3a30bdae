"""The compared tools: the call of each, its requirements, and the check of its output.

Every setting here made the tool keep its memory limit in a test; a comment says which and why. A tool never sees the
others' files: it gets a fresh directory, the input (read-only by convention), and a scratch directory on the same disk.
"""

from __future__ import annotations

import math
import os
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .install import PROGRAMS_DIR, STXXL_BINARY, VENV_PYTHON
from .measure import Command
from .units import MIB, format_size


@dataclass
class Job:
    """One sort: `inputs` are raw files, `parquet` has the same keys for the tools that read Parquet."""

    kind: str  # the value of outcore's --type: u64 or gensort
    inputs: list[Path]
    records: int
    record_bytes: int
    memory_bytes: int
    threads: int
    parquet: Path | None = None
    # Shards over several drives: outcore's output pattern, its drives, and the files that must exist afterwards.
    drives: list[Path] = field(default_factory=list)
    pattern: str | None = None
    shards: list[Path] = field(default_factory=list)

    @property
    def data_bytes(self) -> int:
        return self.records * self.record_bytes


@dataclass
class Tool:
    """A named tool: `needs` are parts of the installation, `check` is the mode of programs/check.py.

    `rounds_max` limits the time of slow tools.
    """

    name: str
    needs: tuple[str, ...]
    check: str
    command: Callable[[Job, Path], Command]
    rounds_max: int | None = None


def environment(job: Job) -> dict[str, str]:
    return {"LC_ALL": "C", "OMP_NUM_THREADS": str(job.threads)}


class Outcore:
    """The command under test; `extra` are additional arguments for every sort."""

    def __init__(self, binary: Path, extra: str = "") -> None:
        self.binary = binary
        self.extra = shlex.split(extra)

    def tool(self) -> Tool:
        return Tool("outcore", (), "", self.sort)

    def sort(self, job: Job, work: Path) -> Command:
        output = work / "sorted.bin"
        drives = job.drives or [work / "scratch"]
        argv = [str(self.binary), "sort", *map(str, job.inputs), "-o", job.pattern or str(output)]
        argv += ["--type", job.kind, "--memory", exact_size(job.memory_bytes), "--threads", str(job.threads)]
        for drive in drives:
            argv += ["--drive", str(drive)]
        argv += ["--force", "--json", *self.extra]
        return Command("outcore", argv, job.shards or [output], work)

    def missing(self) -> str | None:
        if os.access(self.binary, os.X_OK):
            return None
        return f"{self.binary.name} is not built: run `cargo build --release` or pass --outcore PATH"

    def generate(self, kind: str, count: int, path: Path, arguments: list[str]) -> None:
        """Writes a test file. Raises RuntimeError with the command's message."""
        path.unlink(missing_ok=True)
        argv = [str(self.binary), "gen", kind, *arguments, "-n", str(count), "-o", str(path)]
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(argv)} failed ({done.returncode}): {last_line(done.stderr)}")

    def verify(self, output: Path, kind: str, inputs: list[Path]) -> str | None:
        """None if `outcore verify` accepts the output, otherwise its message."""
        argv = [str(self.binary), "verify", str(output), "--type", kind, "--against", *map(str, inputs)]
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            return None
        return f"outcore verify says {done.returncode}: {last_line(done.stderr or done.stdout)}"


def last_line(output: str) -> str:
    """The last lines of a failed command's output, short enough for a table."""
    lines = output.strip().splitlines()
    return lines[-1][:300] if lines else "nothing said"


def exact_size(count_bytes: int) -> str:
    """In the form that the command parses."""
    return format_size(count_bytes) if count_bytes % MIB == 0 else str(count_bytes)


def stxxl() -> Tool:
    def command(job: Job, work: Path) -> Command:
        # STXXL reads its disks from `.stxxl` in the working directory. Runs take the data's size and a margin.
        scratch_mib = math.ceil(job.data_bytes * 1.25 / MIB) + 64
        (work / ".stxxl").write_text(f"disk={work / 'scratch' / 'stxxl.tmp'},{scratch_mib}MiB,linuxaio unlink\n")
        output = work / "sorted.bin"
        argv = [str(STXXL_BINARY), str(job.inputs[0]), str(output), str(job.memory_bytes)]
        # Makes threads sleep at OpenMP's barriers. Spinning threads doubled the CPU time, and sorting was not faster if
        # other programs ran. OMP_WAIT_POLICY=active in the caller's environment selects spinning.
        policy = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive")}
        return Command("STXXL", argv, [output], work, {**environment(job), **policy})

    return Tool("STXXL", ("g++", "stxxl"), "u64", command)


def duckdb() -> Tool:
    def command(job: Job, work: Path) -> Command:
        output = work / "sorted.parquet"
        argv = [str(VENV_PYTHON), str(PROGRAMS_DIR / "duckdb_sort.py"), str(job.parquet), str(output)]
        argv += [str(job.memory_bytes), str(job.threads), str(work / "scratch")]
        return Command("DuckDB", argv, [output], work, environment(job))

    return Tool("DuckDB", ("python",), "parquet", command)


def polars() -> Tool:
    def command(job: Job, work: Path) -> Command:
        output = work / "sorted.parquet"
        argv = [str(VENV_PYTHON), str(PROGRAMS_DIR / "polars_sort.py"), str(job.parquet), str(output)]
        settings = {
            # Without the budget, the streaming engine bases its size on the machine's memory, not on the group's.
            "POLARS_OOC_MEMORY_BUDGET_MB": str(max(1, job.memory_bytes // MIB)),
            "POLARS_MAX_THREADS": str(job.threads),
            "POLARS_OOC_SPILL_DIR": str(work / "scratch"),
            "POLARS_TEMP_DIR": str(work / "scratch"),
        }
        return Command("Polars", argv, [output], work, {**environment(job), **settings})

    return Tool("Polars", ("python",), "parquet", command)


def gnu_sort() -> Tool:
    def command(job: Job, work: Path) -> Command:
        output = work / "sorted.bin"
        argv = ["sort", "-k1.1,1.10", "-S", f"{job.memory_bytes // 1024}K", f"--parallel={job.threads}"]
        argv += ["-T", str(work / "scratch"), "-o", str(output), *map(str, job.inputs)]
        return Command("GNU sort", argv, [output], work, environment(job))

    return Tool("GNU sort", (), "gensort", command)
