"""The cases of `make bench-sort`: the generated data, the sorting programs, their memory, and the drives.

Each case is a generator of results, so that a caller can store every result as soon as it exists. outcore itself
generates the inputs; they are used for one case and removed with it. Sizes scale with `--scale`. Memory scales with
them, but never below the minimum of outcore. A scaled run therefore has less disk work per byte of memory and is a
smoke test, not a result.

Bounds: the largest case (8 GiB) needs about 3.5 times its data on the disk. A case without enough room is skipped and
says so before anything is generated.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

from . import floor, tools
from .install import PROGRAMS_DIR, VENV_PYTHON
from .rounds import Case, CaseResult
from .setting import TMPFS_NAMES, Array, Setting, directory, drive_array, need_drives, need_memory
from .tools import Job
from .units import GIB, MIB, format_size

KEYS_FULL = 1 << 28
GENSORT_RECORDS_FULL = 10**7
GENSORT_RECORD_BYTES = 100
DRIVE_RATE_BYTES_S = 50 * 10**6
DRIVE_COUNTS = (1, 2, 4, 8)
# Rate parameter for u64: mean 10^5, so that keys repeat about as often as in the exponential inputs of the sources.
EXPONENTIAL_RATE = "0.00001"
DISTRIBUTIONS = {
    "uniform": "uniform",
    "zipf": "zipf:1.2",
    "exponential": f"exponential:{EXPONENTIAL_RATE}",
    "equal": "equal",
}
RSS_MEMORIES = (64 * MIB, 128 * MIB, 256 * MIB, 512 * MIB, 2 * GIB)


def _u64_job(setting: Setting, inputs: list[Path], keys: int, memory_bytes: int) -> Job:
    return Job("u64", inputs, keys, 8, memory_bytes, setting.threads)


def _against_peers(
    setting: Setting, key: str, keys_full: int, memory_full: int, peers: bool
) -> Generator[CaseResult, None, None]:
    """Uniform u64 on the disk against the floor and, on request, STXXL, DuckDB and Polars."""
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
        lower = floor.of_sort(source, path / "floor.bin")
        yield setting.rounds.run(Case(key, title, job, compared, path, setting.count, limit, lower))


def _to_parquet(source: Path, target: Path) -> None:
    argv = [str(VENV_PYTHON), str(PROGRAMS_DIR / "to_parquet.py"), str(source), str(target)]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"writing Parquet failed: {tools.last_line(done.stderr)}")


def small(setting: Setting) -> Generator[CaseResult, None, None]:
    """2 GiB of u64 in 512 MiB against every peer."""
    return _against_peers(setting, "2g", KEYS_FULL, 512 * MIB, peers=True)


def large(setting: Setting) -> Generator[CaseResult, None, None]:
    """8 GiB of u64 in 2 GiB; outcore only unless all peers are requested."""
    return _against_peers(setting, "8g", 4 * KEYS_FULL, 2 * GIB, peers=setting.all_peers)


def cpu(setting: Setting) -> Generator[CaseResult, None, None]:
    """CPU seconds per key, one case per distribution."""
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
    """Input, scratch and output on tmpfs: the time that remains when the drives cost nothing."""
    keys, memory_bytes = setting.records(KEYS_FULL), setting.memory(512 * MIB)
    need_bytes = int(keys * 8 * 3.3) + memory_bytes
    need_memory(need_bytes)
    with directory(setting.tmpfs_dir, TMPFS_NAMES[0], need_bytes) as path:
        source = path / "input.bin"
        setting.generate("u64", keys, source, ["--seed", "1"])
        job = _u64_job(setting, [source], keys, memory_bytes)
        title = f"{format_size(job.data_bytes)} of uniform u64 in {format_size(memory_bytes)}, all files on tmpfs"
        case = Case("tmpfs", title, job, [setting.outcore.tool()], path, setting.count, limit_bytes=None)
        case.notes.append("no memory limit: files on tmpfs count as memory of the process that writes them")
        yield setting.rounds.run(case)


def gensort(setting: Setting) -> Generator[CaseResult, None, None]:
    """ASCII gensort records against GNU sort; both outputs must be identical."""
    records, memory_bytes = setting.records(GENSORT_RECORDS_FULL), setting.memory(256 * MIB)
    with directory(setting.disk_dir, "gensort", int(records * GENSORT_RECORD_BYTES * 3.5)) as path:
        source = path / "input.bin"
        setting.generate("gensort", records, source, ["-a"])
        job = Job("gensort", [source], records, GENSORT_RECORD_BYTES, memory_bytes, setting.threads)
        title = f"{records} ASCII gensort records of 100 bytes in {format_size(memory_bytes)}"
        compared = [setting.outcore.tool()] + ([tools.gnu_sort()] if "gnu" in setting.peers else [])
        limit = setting.limit(memory_bytes)
        lower = floor.of_sort(source, path / "floor.bin")
        result = setting.rounds.run(Case("gensort", title, job, compared, path, setting.count, limit, lower))
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
    need_drives()
    for count in DRIVE_COUNTS:
        yield from _drive_array(setting, count)


def _drive_array(setting: Setting, count: int) -> Generator[CaseResult, None, None]:
    # A multiple of 8 drives' blocks, so that every drive holds an equal share.
    keys = max(4096, setting.records(KEYS_FULL) // 4096 * 4096)
    memory_bytes = setting.memory(512 * MIB)
    share_keys = keys // count
    # Input, scratch and output, an eighth for an uneven spread, and the file system's overhead.
    drive_bytes = int(share_keys * 8 * 3.4) // MIB * MIB + 96 * MIB
    need_memory(drive_bytes * count + memory_bytes, " for the drives' images")
    with drive_array(setting, count, drive_bytes, DRIVE_RATE_BYTES_S) as array:
        inputs = array.shards("input.bin")
        for index, path in enumerate(inputs):
            setting.generate("u64", share_keys, path, ["--seed", str(index + 1)])
        with directory(setting.tmpfs_dir, TMPFS_NAMES[1], 0) as work:
            yield _drive_case(setting, array, inputs, share_keys, memory_bytes, work)


def _drive_case(
    setting: Setting, array: Array, inputs: list[Path], share_keys: int, memory_bytes: int, work: Path
) -> CaseResult:
    count, share_bytes = len(array.drives), share_keys * 8
    job = _u64_job(setting, inputs, share_keys * count, memory_bytes)
    job.drives = array.mounts
    job.shards = array.shards("sorted.bin")
    job.pattern = array.pattern("sorted.bin")
    case = Case(
        f"drives-{count}",
        f"{format_size(job.data_bytes)} of uniform u64 in {format_size(memory_bytes)} on {count} throttled drives",
        job,
        [setting.outcore.tool()],
        work,
        setting.count,
        setting.limit(memory_bytes),
        joins=array.joins,
    )
    case.facts = {
        "drives": count,
        "rate_bytes_s": DRIVE_RATE_BYTES_S,
        "allowed_s": 2 * share_bytes / DRIVE_RATE_BYTES_S,
    }
    if setting.installed.reason("fio") is None:
        case.facts["measured_rate_bytes_s"] = floor.array_rate(inputs, share_bytes, DRIVE_RATE_BYTES_S, array.joins)
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
