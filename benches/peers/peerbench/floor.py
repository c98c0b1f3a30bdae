"""The floor of a run: the time in which the drives alone move the data that a one-pass external sort must move.

A sort of N bytes beyond memory reads N, writes N, reads N again and writes N again (Aggarwal and Vitter, CACM 1988,
with one distribution or merge level). The floor assumes that the drives read and write at the same time: fio (io_uring,
direct, 4 MiB blocks, depth 16, fsync at the end) reads a file of N bytes while another job writes a file of N bytes.
The floor is twice that time, plus the time to remove the written file once. Every such sort removes its scratch, which
costs time if a file system discards freed blocks at once. The serial sum is twice the time of reading alone plus
writing alone: the time that the same drives need when reads and writes never overlap.

fio's blocks are in huge pages if the kernel can set some aside (root). With small pages, a drive's request can cover
only a limited number of pages; on the virtual disk measured here that halves the size of a request and the rate of
reading.

Primitives of one pass have floors of their own: reading alone, reading while as much is written, or reading 4 KiB at
random places. A `Floor` belongs to a case: it defines the measurement, which runs before and after each run.

Bounds: the written file is as large as the data and removed at once. Other times are fio's own run times without its
set-up. This makes the floor lower, and the ratio to it stricter, than the wall time of the fio command would.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .groups import joined
from .measure import drop_caches

# Jobs are threads, so that ending fio ends all of them.
FIO_BLOCK_BYTES = 4 << 20
FIO_DEPTH = 16
FIO_COMMON = ["--ioengine=io_uring", "--direct=1", f"--bs={FIO_BLOCK_BYTES}", f"--iodepth={FIO_DEPTH}", "--thread"]
DIRECT_BLOCK_BYTES = 4096
HUGE_PAGE_BYTES = 2 << 20
FIO_SPARE_PAGES = 8
# Above this number, drives are throttled and the size of a request does not matter.
HUGE_PAGES_MAX = 256
# Deep enough that the drive is never idle between completions; no other depths were compared.
RANDOM_DEPTH = 128
TIMEOUT_S = 3600


@dataclass
class Floor:
    """The time that the drives alone need for a case: `measure` and, if reading and writing overlap, `serial`, in
    seconds."""

    measure: Callable[[], float]
    serial: Callable[[], float] | None = None


class FioFailure(RuntimeError):
    """fio could not run; the text has the reason."""


@contextmanager
def huge_pages(count: int, setting: Path = Path("/proc/sys/vm/nr_hugepages")) -> Iterator[bool]:
    """Sets huge pages aside during the context. Yields whether all of them were available."""
    try:
        before = setting.read_text()
        setting.write_text(str(int(before) + count))
    except (OSError, ValueError):
        yield False
        return
    try:
        yield int(setting.read_text()) >= int(before) + count
    finally:
        setting.write_text(before)


def _fio(jobs: list[list[str]], joins: list[Path], are_blocks_small: bool = False) -> list[float]:
    """Runs jobs at the same time. Returns the seconds of each, end fsync included."""
    # fio 3.33 rounds a job's memory up to more than its blocks need.
    pages = len(jobs) * (FIO_DEPTH * FIO_BLOCK_BYTES // HUGE_PAGE_BYTES + FIO_SPARE_PAGES)
    if are_blocks_small or pages > HUGE_PAGES_MAX:
        return _fio_run(jobs, joins, [])
    with huge_pages(pages) as has_pages:
        return _fio_run(jobs, joins, ["--iomem=mmaphuge"] if has_pages else [])


def _fio_run(jobs: list[list[str]], joins: list[Path], memory: list[str]) -> list[float]:
    arguments = ["fio", "--output-format=json", *FIO_COMMON, *memory]
    for number, job in enumerate(jobs):
        arguments += [f"--name=job{number}", *job]
    try:
        done = subprocess.run(
            joined(arguments, joins),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FioFailure(f"fio: {error}") from error
    if done.returncode != 0 or "{" not in done.stdout:
        raise FioFailure(f"fio failed ({done.returncode}): {(done.stderr or done.stdout).strip()[-300:]}")
    # Some versions print a note before the JSON.
    report = json.loads(done.stdout[done.stdout.index("{") :])
    seconds = []
    for job in report["jobs"]:
        if job["error"]:
            raise FioFailure(f"fio: error {job['error']} in {job['jobname']}")
        seconds.append(max(job["read"]["runtime"], job["write"]["runtime"]) / 1000)
    return seconds


def _read_job(path: Path, size_bytes: int) -> list[str]:
    return [f"--filename={path}", "--rw=read", f"--size={size_bytes}"]


def _write_job(path: Path, size_bytes: int) -> list[str]:
    return [f"--filename={path}", "--rw=write", f"--size={size_bytes}", "--end_fsync=1"]


def pairs_seconds(pairs: list[tuple[Path, Path]], size_bytes: int, joins: list[Path] | None = None) -> float:
    """Seconds to read the first file of every pair while the second one is written, `size_bytes` each, all at the same
    time.

    The read files must exist with at least that size; the written ones are removed afterwards.
    """
    written = [target for _, target in pairs]
    jobs = [_read_job(source, size_bytes) for source, _ in pairs] + [_write_job(path, size_bytes) for path in written]
    try:
        drop_caches()
        return max(_fio(jobs, joins or []))
    finally:
        for path in written:
            path.unlink(missing_ok=True)


def array_rate(inputs: list[Path], share_bytes: int, rate_bytes_s: int, joins: list[Path]) -> float:
    """Bytes per second that each of an array's throttled drives delivers in each direction, reading and writing at
    once.

    Two seconds' worth shows whether the throttle holds.
    """
    probe_bytes = min(2 * rate_bytes_s, share_bytes) // DIRECT_BLOCK_BYTES * DIRECT_BLOCK_BYTES
    pairs = [(path, path.with_name("floor.bin")) for path in inputs]
    return probe_bytes / pairs_seconds(pairs, probe_bytes, joins)


def floor_seconds(source: Path, target: Path) -> float:
    """Twice the time of reading `source` while writing `target` of the same size, plus the time of removing `target`
    once."""
    size_bytes = whole_blocks(source)
    jobs = [_read_job(source, size_bytes), _write_job(target, size_bytes)]
    try:
        drop_caches()
        both = max(_fio(jobs, []))
        started = time.perf_counter()
        target.unlink()
        return 2 * both + time.perf_counter() - started
    finally:
        target.unlink(missing_ok=True)


def serial_seconds(source: Path, target: Path) -> float:
    """Twice the sum of reading `source` alone and of writing `target` (removed afterwards) of the same size alone."""
    size_bytes = whole_blocks(source)
    try:
        drop_caches()
        read_s = _fio([_read_job(source, size_bytes)], [])[0]
        drop_caches()
        write_s = _fio([_write_job(target, size_bytes)], [])[0]
    finally:
        target.unlink(missing_ok=True)
    return 2 * (read_s + write_s)


def whole_blocks(path: Path) -> int:
    """The size of a file rounded down to a multiple that direct I/O can move."""
    return path.stat().st_size // DIRECT_BLOCK_BYTES * DIRECT_BLOCK_BYTES


def of_sort(source: Path, target: Path) -> Floor:
    """The floor of jobs that read and write their data twice."""
    return Floor(lambda: floor_seconds(source, target), lambda: serial_seconds(source, target))


def of_reduction(source: Path, target: Path, share: float) -> Floor:
    """The floor of jobs that read and write their data once, and read a `share` of it again that they write."""
    size_bytes = source.stat().st_size
    written = (size_bytes, round(share * size_bytes))
    return Floor(lambda: sum(pass_seconds(source, target, write_bytes) for write_bytes in written))


def of_pass(source: Path, target: Path, write_bytes: int) -> Floor:
    """The floor of one pass that reads `source` while it writes `write_bytes`."""
    return Floor(lambda: pass_seconds(source, target, write_bytes))


def of_random_reads(source: Path, count: int) -> Floor:
    """The floor of `count` reads of 4 KiB at random places."""
    return Floor(lambda: random_seconds(source, count))


def pass_seconds(source: Path, target: Path, write_bytes: int) -> float:
    """Seconds to read `source` while `target` (removed afterwards) of `write_bytes` is written; 0 means reading
    alone."""
    jobs = [_read_job(source, whole_blocks(source))]
    if write_bytes >= DIRECT_BLOCK_BYTES:
        jobs.append(_write_job(target, write_bytes // DIRECT_BLOCK_BYTES * DIRECT_BLOCK_BYTES))
    try:
        drop_caches()
        return max(_fio(jobs, []))
    finally:
        target.unlink(missing_ok=True)


def random_seconds(source: Path, count: int) -> float:
    """Seconds for `count` reads of 4 KiB at random places of `source`."""
    job = [f"--filename={source}", "--rw=randread", "--bs=4k", f"--iodepth={RANDOM_DEPTH}", "--norandommap"]
    job += [f"--size={whole_blocks(source)}", f"--io_size={count * DIRECT_BLOCK_BYTES}"]
    drop_caches()
    return max(_fio([job], [], are_blocks_small=True))
