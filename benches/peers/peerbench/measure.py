"""Runs one command and measures it: wall, CPU, peak memory, bytes moved, and the time to sync its output.

The numbers:
  wall_s            from just before the fork to the exit of the process
  user_s, system_s  of the process, its threads and its children: the cgroup's if it counts them, otherwise wait4's.
                    Both include io_uring's kernel workers, which are threads of the process
  peak_rss_bytes    wait4's ru_maxrss: the largest resident set of one process. The kernel keeps it over an exec, so
                    it is never below this program's own size (about 20 MiB, which is why it imports no library)
  read/written      /proc/PID/io, read just before the process is reaped: the process's own traffic to storage, direct
                    or through the page cache. Dirty pages that were dropped before they were written (a deleted
                    scratch file) do not count. `device_*` is /proc/diskstats over the run and the sync, including
                    the traffic of other processes
  settle_s          fsync of the output and its directory after the exit: writes that the tool left in the page cache

Invariants: the command runs in a session of its own, so a Ctrl-C reaches only the benchmark, which ends that session's
processes and then cleans up. The command's output goes to files, never to a pipe that could fill.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .groups import Group, joined
from .units import Json

SECTOR_BYTES = 512
OUTPUT_KEPT_BYTES = 4000


@dataclass
class Run:
    """One measured run of one tool; None for a number that could not be measured."""

    tool: str
    argv: list[str]
    exit_code: int
    wall_s: float
    user_s: float
    system_s: float
    peak_rss_bytes: int
    group_peak_bytes: int | None
    read_bytes: int
    written_bytes: int
    device_read_bytes: int | None
    device_written_bytes: int | None
    settle_s: float | None = None
    failure: str | None = None
    summary: Json | None = None
    floor_s: float | None = None
    checked: str | None = None
    extra: Json = field(default_factory=dict)

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s

    def to_json(self) -> Json:
        return {**asdict(self), "cpu_s": self.cpu_s}


@dataclass
class Command:
    """A command to measure. The place of its output decides which files are synced; `device` is the disk that is
    counted."""

    tool: str
    argv: list[str]
    outputs: list[Path]
    work_dir: Path
    env: dict[str, str] = field(default_factory=dict)
    timeout_s: float = 3600.0
    extra_joins: list[Path] = field(default_factory=list)


def drop_caches() -> str | None:
    """Writes back and drops the page cache. Returns the reason if that is not allowed."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError as error:
        return f"page cache not dropped: {error.strerror}"
    return None


def device_of(path: Path) -> str | None:
    """`MAJ:MIN` of the disk under a path; None if it has none (tmpfs, overlay)."""
    number = os.stat(path).st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    return name if Path(f"/sys/dev/block/{name}").exists() else None


def device_bytes(device: str | None) -> tuple[int, int] | None:
    """Bytes read and written by a device since boot, from /proc/diskstats."""
    if device is None:
        return None
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if f"{fields[0]}:{fields[1]}" == device:
            return int(fields[5]) * SECTOR_BYTES, int(fields[9]) * SECTOR_BYTES
    return None


def measure(command: Command, group: Group) -> Run:
    """Runs the command inside the group and measures it. A failure is a field of the result, not an exception."""
    device = device_of(command.work_dir)
    before = device_bytes(device)
    stdout_path = command.work_dir / "stdout.txt"
    stderr_path = command.work_dir / "stderr.txt"
    launcher = joined(command.argv, [*group.joins, *command.extra_joins])
    with open(stdout_path, "wb") as stdout, open(stderr_path, "wb") as stderr:
        start = time.monotonic()
        process = subprocess.Popen(
            launcher,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=command.work_dir,
            env={**os.environ, **command.env},
            start_new_session=True,
        )
        timed_out = threading.Event()
        status, usage, moved, wall_s = _wait(process, start, command.timeout_s, timed_out)
    cpu = group.cpu_seconds() or (usage.ru_utime, usage.ru_stime)
    run = Run(
        tool=command.tool,
        argv=command.argv,
        exit_code=os.waitstatus_to_exitcode(status),
        wall_s=wall_s,
        user_s=cpu[0],
        system_s=cpu[1],
        peak_rss_bytes=usage.ru_maxrss * 1024,
        group_peak_bytes=group.peak_bytes(),
        read_bytes=moved["read_bytes"],
        written_bytes=moved["write_bytes"] - moved["cancelled_write_bytes"],
        device_read_bytes=None,
        device_written_bytes=None,
    )
    run.failure = _failure(run, command, group, timed_out.is_set(), stderr_path)
    if run.failure is None:
        run.settle_s = settle(command.outputs)
        run.summary = last_json_line(stdout_path)
    after = device_bytes(device)
    if before and after:
        run.device_read_bytes, run.device_written_bytes = after[0] - before[0], after[1] - before[1]
    return run


def _wait(
    process: subprocess.Popen[bytes], start: float, timeout_s: float, timed_out: threading.Event
) -> tuple[int, resource.struct_rusage, dict[str, int], float]:
    """Waits for the exit, reads the process's I/O counters while it is a zombie, and reaps it."""

    def end_late() -> None:
        timed_out.set()
        end_session(process.pid)

    timer = threading.Timer(timeout_s, end_late)
    timer.daemon = True
    timer.start()
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall_s = time.monotonic() - start
    except BaseException:
        end_session(process.pid)
        process.wait()
        raise
    finally:
        timer.cancel()
    moved = _process_io(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    if not moved:
        # Without root a zombie's counters cannot be read; wait4 has the same ones, except for cancelled writes.
        moved = {
            "read_bytes": usage.ru_inblock * SECTOR_BYTES,
            "write_bytes": usage.ru_oublock * SECTOR_BYTES,
            "cancelled_write_bytes": 0,
        }
    process.returncode = os.waitstatus_to_exitcode(status)
    return status, usage, moved, wall_s


def end_session(pid: int) -> None:
    """Kills the process group that a measured command leads."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _process_io(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return {}
    return {key: int(value) for key, value in (line.split(": ") for line in lines)}


def _failure(run: Run, command: Command, group: Group, timed_out: bool, stderr_path: Path) -> str | None:
    if timed_out:
        return f"ended after {command.timeout_s:.0f} s"
    if group.oom_kills() > 0:
        return "killed by the kernel: passed its memory limit"
    if run.exit_code != 0:
        said = stderr_path.read_bytes()[-OUTPUT_KEPT_BYTES:].decode(errors="replace").strip().splitlines()
        # The cause comes before the hint.
        tail = [line for line in said if not line.startswith("hint:")]
        return f"exit code {run.exit_code}: {tail[-1][:300] if tail else 'nothing on stderr'}"
    missing = [path.name for path in command.outputs if not path.exists()]
    return f"no output: {', '.join(missing)}" if missing else None


def settle(outputs: list[Path]) -> float:
    """Seconds that fsync of the outputs and their directories takes after the run."""
    start = time.monotonic()
    for path in [*outputs, *{output.parent for output in outputs}]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return time.monotonic() - start


def last_json_line(path: Path) -> Json | None:
    """The last line of a JSON Lines file if it is an object with `event` = `summary`."""
    lines = path.read_bytes().strip().splitlines()
    if not lines:
        return None
    try:
        value = json.loads(lines[-1])
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("event") == "summary" else None
