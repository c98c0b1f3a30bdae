"""The cases of `make bench-sort`: what is generated, sorted by whom, in how much memory, where.

Each case is a generator of results, so that a caller can store every result as soon as it exists. Inputs are generated
by outcore itself, used for one case and removed with it. Sizes scale with `--scale`; memory scales with them but never
below what outcore accepts, so a scaled run has less disk work per byte of memory and is a smoke test, not a result.

Bounds: the largest case (8 GiB) needs about 3.5 times its data on the disk; a case without the room is skipped and says
so before anything is generated.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from . import floor, groups, tools
from .install import PROGRAMS_DIR, VENV_PYTHON, Installed
from .rounds import Case, CaseResult, Rounds
from .tools import Job, Outcore
from .units import GIB, MIB, format_size

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))
import loop_drives  # noqa: E402  (a script beside the benchmark, usable on its own)

MEMORY_BYTES_MIN = 64 * MIB
KEYS_FULL = 1 << 28
GENSORT_RECORDS_FULL = 10**7
GENSORT_RECORD_BYTES = 100
SLACK_BYTES = 64 * MIB
DRIVE_RATE_BYTES_S = 50 * 10**6
DRIVE_COUNTS = (1, 2, 4, 8)
# Rate parameter for u64: mean 10^5, so that keys repeat about as often as in the sources' exponential inputs.
EXPONENTIAL_RATE = "0.00001"
DISTRIBUTIONS = {
    "uniform": "uniform",
    "zipf": "zipf:1.2",
    "exponential": f"exponential:{EXPONENTIAL_RATE}",
    "equal": "equal",
}
RSS_MEMORIES = (64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB, 2 * GIB)


# Names that cases use below `--tmpfs`; a run that was killed may have left them.
TMPFS_NAMES = ("outcore-bench-tmpfs", "outcore-bench-work")
DRIVES_NAME = "outcore-bench-drives"


class Skipped(RuntimeError):
    """A case that cannot run here; the text is the reason."""


@dataclass
class Setting:
    """What all cases share: where files go, how large they are, how often each tool runs."""

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
    all_peers: bool
    log: Callable[[str], None]

    def records(self, full: int) -> int:
        return max(1, int(full * self.scale))

    def memory(self, full_bytes: int) -> int:
        return max(MEMORY_BYTES_MIN, int(full_bytes * self.scale))

    def limit(self, memory_bytes: int) -> int:
        """The group's limit for a case: twice the tools' memory, at least 256 MiB more (interpreters, libraries)."""
        return self.limit_bytes or max(2 * memory_bytes, memory_bytes + 256 * MIB)

    def generate(self, kind: str, count: int, path: Path, arguments: list[str]) -> None:
        self.log(f"generating {path.name}: {count} x {kind} {' '.join(arguments)}")
        self.outcore.generate(kind, count, path, arguments)


@contextmanager
def directory(parent: Path, name: str, need_bytes: int) -> Iterator[Path]:
    """A directory for one case, removed with everything in it. Raises Skipped when the file system lacks the room."""
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


def sweep(disk_dir: Path, tmpfs_dir: Path) -> list[str]:
    """Removes what a killed run left: files, loop devices, mounts. Returns what it was, in words."""
    left = [disk_dir / name for name in GROUPS] + [tmpfs_dir / name for name in TMPFS_NAMES]
    swept = []
    for path in left:
        if path.exists():
            shutil.rmtree(path)
            swept.append(path.name)
    if (tmpfs_dir / DRIVES_NAME).exists() and loop_drives.skip_reason() is None:
        loop_drives.remove(tmpfs_dir / DRIVES_NAME)
        swept.append(DRIVES_NAME)
    return swept


def _u64_job(setting: Setting, inputs: list[Path], keys: int, memory_bytes: int) -> Job:
    return Job("u64", inputs, keys, 8, memory_bytes, setting.threads)


def _against_peers(
    setting: Setting, key: str, keys_full: int, memory_full: int, peers: bool
) -> Generator[CaseResult, None, None]:
    """Uniform u64 on the disk against the floor and, if asked, STXXL, DuckDB and Polars."""
    keys, memory_bytes = setting.records(keys_full), setting.memory(memory_full)
    with directory(setting.disk_dir, key, int(keys * 8 * (5 if peers else 3.5))) as path:
        source = path / "input.bin"
        setting.generate("u64", keys, source, ["--seed", "1"])
        job = _u64_job(setting, [source], keys, memory_bytes)
        compared = [setting.outcore.tool()]
        if peers:
            wanted = [tools.stxxl(), tools.duckdb(), tools.polars()]
            compared += [tool for tool in wanted if tool.name.lower() in setting.peers]
        if any(tool.check == "parquet" for tool in compared) and setting.installed.reason("python") is None:
            job.parquet = path / "input.parquet"
            _to_parquet(source, job.parquet)
        title = f"{format_size(job.data_bytes)} of uniform u64 in {format_size(memory_bytes)}"
        limit = setting.limit(memory_bytes)
        yield setting.rounds.run(Case(key, title, job, compared, path, setting.count, limit, with_floor=True))


def _to_parquet(source: Path, target: Path) -> None:
    argv = [str(VENV_PYTHON), str(PROGRAMS_DIR / "to_parquet.py"), str(source), str(target)]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"writing Parquet failed: {tools.last_line(done.stderr)}")


def small(setting: Setting) -> Generator[CaseResult, None, None]:
    """2 GiB of u64 in 512 MiB against every peer."""
    return _against_peers(setting, "2g", KEYS_FULL, 512 * MIB, peers=True)


def large(setting: Setting) -> Generator[CaseResult, None, None]:
    """8 GiB of u64 in 2 GiB; outcore only unless all peers are asked for."""
    return _against_peers(setting, "8g", 4 * KEYS_FULL, 2 * GIB, peers=setting.all_peers)


def cpu(setting: Setting) -> Generator[CaseResult, None, None]:
    """CPU seconds a key, one case a distribution."""
    keys, memory_bytes = setting.records(KEYS_FULL), setting.memory(512 * MIB)
    for name, distribution in DISTRIBUTIONS.items():
        with directory(setting.disk_dir, "cpu", int(keys * 8 * 3.5)) as path:
            source = path / "input.bin"
            setting.generate("u64", keys, source, ["--dist", distribution, "--seed", "1"])
            job = _u64_job(setting, [source], keys, memory_bytes)
            title = f"{format_size(job.data_bytes)} of u64, {distribution}, in {format_size(memory_bytes)}"
            case = Case(
                f"cpu-{name}",
                title,
                job,
                [setting.outcore.tool()],
                path,
                setting.count,
                setting.limit(memory_bytes),
            )
            yield setting.rounds.run(case)


def tmpfs(setting: Setting) -> Generator[CaseResult, None, None]:
    """Input, scratch and output on tmpfs: what is left of the time when the drives cost nothing."""
    keys, memory_bytes = setting.records(KEYS_FULL), setting.memory(512 * MIB)
    need_bytes = int(keys * 8 * 3.3) + memory_bytes
    if _available_bytes() < need_bytes + GIB:
        raise Skipped(f"needs {format_size(need_bytes)} of free memory")
    with directory(setting.tmpfs_dir, TMPFS_NAMES[0], need_bytes) as path:
        source = path / "input.bin"
        setting.generate("u64", keys, source, ["--seed", "1"])
        job = _u64_job(setting, [source], keys, memory_bytes)
        title = f"{format_size(job.data_bytes)} of uniform u64 in {format_size(memory_bytes)}, all files on tmpfs"
        case = Case("tmpfs", title, job, [setting.outcore.tool()], path, setting.count, limit_bytes=None)
        case.notes.append("no memory limit: files on tmpfs are charged to whoever writes them")
        yield setting.rounds.run(case)


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def gensort(setting: Setting) -> Generator[CaseResult, None, None]:
    """ASCII gensort records against GNU sort; both outputs must be the same bytes."""
    records, memory_bytes = setting.records(GENSORT_RECORDS_FULL), setting.memory(256 * MIB)
    with directory(setting.disk_dir, "gensort", int(records * GENSORT_RECORD_BYTES * 3.5)) as path:
        source = path / "input.bin"
        setting.generate("gensort", records, source, ["-a"])
        job = Job("gensort", [source], records, GENSORT_RECORD_BYTES, memory_bytes, setting.threads)
        title = f"{records} ASCII gensort records of 100 bytes in {format_size(memory_bytes)}"
        compared = [setting.outcore.tool()] + ([tools.gnu_sort()] if "gnu" in setting.peers else [])
        limit = setting.limit(memory_bytes)
        result = setting.rounds.run(Case("gensort", title, job, compared, path, setting.count, limit, with_floor=True))
        digests = {
            tool: run.extra["check"].get("sha256")
            for tool, runs in result.runs.items()
            for run in runs[:1]
            if run.extra.get("check")
        }
        if len(digests) == 2:
            same = len(set(digests.values())) == 1
            result.notes.append(f"the outputs of both tools are {'the same bytes' if same else 'DIFFERENT bytes'}")
        yield result


def rss(setting: Setting) -> Generator[CaseResult, None, None]:
    """Peak RSS from 64 MiB to 2 GiB on one input, each run inside a group of exactly memory + 64 MiB."""
    keys = setting.records(2 * KEYS_FULL)
    with directory(setting.disk_dir, "rss", int(keys * 8 * 3.5)) as path:
        source = path / "input.bin"
        setting.generate("u64", keys, source, ["--seed", "1"])
        for memory_bytes in RSS_MEMORIES:
            job = _u64_job(setting, [source], keys, memory_bytes)
            title = f"{format_size(job.data_bytes)} of uniform u64 in {format_size(memory_bytes)}"
            case = Case(
                f"rss-{memory_bytes // MIB}",
                title,
                job,
                [setting.outcore.tool()],
                path,
                1,
                memory_bytes + 64 * MIB,
            )
            yield setting.rounds.run(case)


def drives(setting: Setting) -> Generator[CaseResult, None, None]:
    """1, 2, 4 and 8 throttled drives that hold input, scratch and output."""
    reason = loop_drives.skip_reason()
    if reason:
        raise Skipped(f"throttled drives: {reason}")
    for count in DRIVE_COUNTS:
        yield from _drive_array(setting, count)


def _drive_array(setting: Setting, count: int) -> Generator[CaseResult, None, None]:
    # A multiple of 8 drives' blocks, so that every drive holds the same share.
    keys = max(4096, setting.records(KEYS_FULL) // 4096 * 4096)
    memory_bytes = setting.memory(512 * MIB)
    share_keys = keys // count
    share_bytes = share_keys * 8
    # Input, scratch and output, an eighth for an uneven spread, and the file system's own.
    drive_bytes = int(share_bytes * 3.4) // MIB * MIB + 96 * MIB
    if _available_bytes() < drive_bytes * count + memory_bytes + GIB:
        raise Skipped(f"needs {format_size(drive_bytes * count)} of free memory for the drives' images")
    array_dir = setting.tmpfs_dir / DRIVES_NAME
    setting.log(f"building {count} drives of {format_size(drive_bytes)} at {DRIVE_RATE_BYTES_S // 10**6} MB/s")
    try:
        array = loop_drives.build(count, DRIVE_RATE_BYTES_S, drive_bytes, array_dir)
        group = loop_drives.group_path(array_dir)
        assert group is not None  # build saw the controller
        joins = [group / "cgroup.procs"]
        inputs = [drive.mount / "input.bin" for drive in array]
        for index, path in enumerate(inputs):
            setting.generate("u64", share_keys, path, ["--seed", str(index + 1)])
        with directory(setting.tmpfs_dir, TMPFS_NAMES[1], 0) as work:
            yield _drive_case(setting, array, inputs, share_keys, memory_bytes, joins, work)
    finally:
        # The manifest of the shards may lie beside the drives, where the script would leave it and complain.
        for manifest in array_dir.glob("*.outcore.json"):
            manifest.unlink()
        loop_drives.remove(array_dir)


def _drive_case(
    setting: Setting,
    array: list[loop_drives.Drive],
    inputs: list[Path],
    share_keys: int,
    memory_bytes: int,
    joins: list[Path],
    work: Path,
) -> CaseResult:
    count, share_bytes = len(array), share_keys * 8
    job = _u64_job(setting, inputs, share_keys * count, memory_bytes)
    job.drives = [drive.mount for drive in array]
    job.shards = [drive.mount / "sorted.bin" for drive in array]
    # A drive is called like its directory, so the pattern names one shard on each.
    job.pattern = str(array[0].mount.parent / "{drive}" / "sorted.bin") if count > 1 else str(job.shards[0])
    allowed_s = 2 * share_bytes / DRIVE_RATE_BYTES_S
    pairs = [(path, path.with_name("floor.bin")) for path in inputs]
    case = Case(
        f"drives-{count}",
        f"{format_size(job.data_bytes)} of uniform u64 in {format_size(memory_bytes)} on {count} throttled drives",
        job,
        [setting.outcore.tool()],
        work,
        setting.count,
        setting.limit(memory_bytes),
        joins=joins,
    )
    case.facts = {"drives": count, "rate_bytes_s": DRIVE_RATE_BYTES_S, "allowed_s": allowed_s}
    if setting.installed.reason("fio") is None:
        # Two seconds' worth says whether the throttle holds; reading and writing at once, as the sort does.
        probe_bytes = min(2 * DRIVE_RATE_BYTES_S, share_bytes) // floor.DIRECT_BLOCK_BYTES * floor.DIRECT_BLOCK_BYTES
        seconds = floor.pairs_seconds(pairs, probe_bytes, joins)
        case.facts["measured_rate_bytes_s"] = probe_bytes / seconds
    return setting.rounds.run(case)


GROUPS: dict[str, Callable[[Setting], Generator[CaseResult, None, None]]] = {
    "2g": small,
    "8g": large,
    "cpu": cpu,
    "tmpfs": tmpfs,
    "gensort": gensort,
    "rss": rss,
    "drives": drives,
}
