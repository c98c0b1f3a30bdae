#!/usr/bin/env python3
"""outcore's volume benchmark: one submitting thread on eight drives, compared with fio and btrfs raid0, alternately.

Builds loop drives over images in memory (scripts/loop_drives.py), measures in rounds that take turns, and prints and
stores medians with the ratios that issue and design ask for. `docs/benchmarks/volumes.md` explains every row.

    bench_volume.py                          everything, about 13 minutes and 7 GiB of memory
    bench_volume.py --quick                  does everything run? a minute
    bench_volume.py --only unthrottled       some of: unthrottled, stripes, merging, depth1, slow, throttled, copy
    bench_volume.py --write-docs             replace the section of docs/benchmarks/volumes.md

Ends with a table of goals and results. Systems: `outcore` (one thread on a striped volume), `fio1` (one fio job over
all files), `fioD` (one fio thread per drive), `btrfs` (fio on btrfs raid0 over drives of the same kind). Latency is
measured only at depth 1, and never under the throttle, which works in slices of 100 ms. The case of a slow drive among
fast ones uses in-memory drives with a virtual clock. Needs root, loop devices, cgroup v1's blkio, fio and mkfs.btrfs,
and reports what is missing. Drives, mounts and groups are removed at the end, also after Ctrl-C; the next run removes
the remains of a killed one. Exit codes: 0 measured, 1 something failed, 77 this machine lacks a requirement.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import loop_drives  # noqa: E402

DRIVES = 8
FILE_BYTES = 192 << 20
IMAGE_BYTES = 256 << 20
# btrfs writes to new places; with little room it would wait for the ones that it frees.
BTRFS_IMAGE_BYTES = 512 << 20
WORK = Path("/dev/shm/outcore-bench-volume")
MARKS = ("<!-- bench-volume: begin -->", "<!-- bench-volume: end -->")
WORKLOADS = ("random read 4k", "random write 4k", "sequential read 64k", "sequential write 64k")
#: Limits of one throttled drive: requests per second and bytes per second, read and write.
THROTTLE = {"read_iops": 8000, "write_iops": 6000, "read_bps": 64 << 20, "write_bps": 48 << 20}
TARGETS_BTRFS = (1.5, 2.7, 1.4, 1.8)
#: Falcon (Kumar and Huang, ATC 2017): the gain of direct random reads and writes of files on a volume of eight SSDs.
FALCON = ("1.77", "1.59", "", "")
Rows = dict[str, dict[str, list[float]]]


class Target:
    """A measure, its goal and its result."""

    def __init__(self, measure: str, asked: str, reached: str, is_met: bool) -> None:
        self.cells = [measure, asked, reached, "yes" if is_met else "**no**"]


def at_least(measure: str, least: float, reached: float) -> Target:
    return Target(measure, f"at least {least:g}", f"{reached:.3f}", reached >= least)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(
    *command: str, group: Path | None = None, env: dict[str, str] | None = None, workers: Workers | None = None
) -> str:
    """Runs a program, in a control group if one is given. Returns its output. Its kernel threads go to `workers`."""

    def join() -> None:
        if group is not None:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    settings = {**os.environ, **(env or {})}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=join, env=settings
    ) as child:
        try:
            with workers.of(child.pid) if workers else contextlib.nullcontext():
                out, err = child.communicate()
        except BaseException:
            child.kill()
            raise
    if child.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:3])}...: {err.strip()[-500:]}")
    return out


class Workers:
    """The largest number of kernel worker threads that did a process's I/O; the kernel names them after the process."""

    def __init__(self) -> None:
        self.most = 0

    @contextlib.contextmanager
    def of(self, pid: int) -> Iterator[None]:
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.02):
                names = [comm.read_text() for comm in Path(f"/proc/{pid}/task").glob("*/comm") if comm.exists()]
                self.most = max(self.most, sum(name.startswith("iou-wrk") for name in names))

        def look_while_there() -> None:
            # Threads may end after they are listed and before they are read.
            while not over.is_set():
                with contextlib.suppress(OSError):
                    look()

        thread = threading.Thread(target=look_while_there)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


class Bench:
    """The drives and the programs that run on them."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.example = Path(arguments.example)
        self.outcore = Path(arguments.outcore)
        WORK.mkdir(parents=True, mode=0o700)
        self.drives = loop_drives.build(DRIVES, 0, IMAGE_BYTES, WORK / "drives")
        self.files = [str(drive.mount / "volume.bin") for drive in self.drives]
        for file in self.files:
            run("dd", "if=/dev/urandom", f"of={file}", "bs=1M", f"count={FILE_BYTES >> 20}", "oflag=direct")
        found = loop_drives.group_path(WORK / "drives")
        assert found is not None
        self.group = found
        self.btrfs = self._make_btrfs() if shutil.which("mkfs.btrfs") else None
        self.workers = Workers()
        self.threads = 0
        self.targets: list[Target] = []

    def _make_btrfs(self) -> Path:
        devices = []
        for index in range(DRIVES):
            image = WORK / f"btrfs-{index}.img"
            with image.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, BTRFS_IMAGE_BYTES)
            devices.append(run("losetup", "--find", "--show", "--direct-io=on", str(image)).strip())
        mount = WORK / "btrfs"
        mount.mkdir()
        run("mkfs.btrfs", "-q", "-f", "-d", "raid0", "-m", "raid0", *devices)
        run("mount", "-o", "noatime,nodatacow,nodatasum", devices[0], str(mount))
        total = FILE_BYTES * DRIVES * 7 // 8 >> 20
        run("dd", "if=/dev/urandom", f"of={mount / 'file'}", "bs=1M", f"count={total}", "oflag=direct")
        return mount

    def throttle(self, is_on: bool) -> None:
        for name, limit in THROTTLE.items():
            for drive in self.drives:
                path = self.group / f"blkio.throttle.{name}_device"
                path.write_text(f"{drive.number} {limit if is_on else 0}")

    def volume(self, group: Path | None, stripe: str = "64KiB", **env: str) -> dict[str, dict[str, float]]:
        seconds = str(self.arguments.seconds)
        command = (str(self.example), seconds, stripe, *self.files)
        text = run(*command, group=group, env={"FILL": "0", **env}, workers=self.workers)
        lines = {line["workload"]: line for line in map(json.loads, text.splitlines())}
        self.threads = max(line["threads"] for line in lines.values())
        return lines

    def fio(self, workload: str, files: list[list[str]], depth: int, group: Path | None) -> dict[str, float]:
        """One fio thread per list of files. Returns MB/s and the mean latency, submission included."""
        kind, op, block = workload.split()
        pattern = ("rand" if kind == "random" else "") + op
        command = ["fio", "--output-format=json", "--thread", "--direct=1", "--ioengine=io_uring", "--time_based"]
        command += [f"--runtime={self.arguments.seconds}", f"--rw={pattern}", f"--bs={block}", f"--iodepth={depth}"]
        command += ["--group_reporting", "--norandommap", "--randrepeat=0", "--fixedbufs", "--registerfiles"]
        for index, names in enumerate(files):
            command += [f"--name=job{index}", f"--filename={':'.join(names)}"]
        found = json.loads(run(*command, group=group))["jobs"][0][op]
        return {"mb_s": found["bw_bytes"] / 1e6, "mean_us": found["lat_ns"]["mean"] / 1e3}

    def systems(self, group: Path | None) -> dict[str, Callable[[], dict[str, float]]]:
        alone = [[file] for file in self.files]

        def fio(files: list[list[str]], depth: int) -> Callable[[], dict[str, float]]:
            return lambda: {w: self.fio(w, files, depth, group)["mb_s"] for w in WORKLOADS}

        made = {
            "outcore": lambda: {w: line["mb_s"] for w, line in self.volume(group).items()},
            "fioD": fio(alone, 32),
        }
        if group is None:
            made["fio1"] = fio([self.files], 256)
            if self.btrfs is not None:
                made["btrfs"] = fio([[str(self.btrfs / "file")]], 256)
        return made

    def alternate(self, systems: dict[str, Callable[[], dict[str, float]]]) -> Rows:
        rows: Rows = {name: {} for name in systems}
        for number in range(self.arguments.rounds):
            for name, measure in systems.items():
                say(f"round {number + 1}: {name}")
                for workload, value in measure().items():
                    rows[name].setdefault(workload, []).append(value)
        return rows

    def close(self) -> None:
        remove()


def remove() -> None:
    """Removes what this or an earlier run has built."""
    if (WORK / "btrfs").exists() and (WORK / "btrfs").is_mount():
        # The kernel closes the files that a ring has registered some time after its process has ended.
        loop_drives.until_free("umount", str(WORK / "btrfs"))
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if Path(backing.read_text().strip()).parent == WORK:
                run("losetup", "--detach", f"/dev/{backing.parts[3]}")
    loop_drives.remove(WORK / "drives")
    shutil.rmtree(WORK, ignore_errors=True)


def median(rows: Rows, system: str, workload: str) -> float:
    return statistics.median(rows[system][workload])


def table(
    bench: Bench, rows: Rows, against: str, wanted: tuple[float, ...], what: str, paper: tuple[str, ...] = ()
) -> list[str]:
    """Medians, and outcore's ratio to another system round by round, which is compared with the goals and with a
    paper's gains."""
    systems = list(rows)
    more = " all rounds | Falcon's paper |" if paper else ""
    lines = [f"| MB/s | {' | '.join(systems)} | outcore / {against} | asked |{more}"]
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    for number, (workload, least) in enumerate(zip(WORKLOADS, wanted, strict=True)):
        values = " | ".join(f"{median(rows, system, workload):.0f}" for system in systems)
        pairs = zip(rows["outcore"][workload], rows[against][workload], strict=True)
        ratios = [own / other for own, other in pairs]
        ratio = statistics.median(ratios)
        cells = f" {min(ratios):.2f} to {max(ratios):.2f} | {paper[number]} |" if paper else ""
        lines.append(f"| {workload} | {values} | {ratio:.3f} | {least} |{cells}")
        bench.targets.append(at_least(f"{what}: {workload}, outcore / {against}", least, ratio))
    return lines


def unthrottled(bench: Bench) -> list[str]:
    rows = bench.alternate(bench.systems(None))
    against = "btrfs" if "btrfs" in rows else "fio1"
    text = ["#### Unthrottled, one submitter", "", *table(bench, rows, against, TARGETS_BTRFS, "unthrottled", FALCON)]
    bench.targets.append(
        Target("kernel worker threads (`iou-wrk`)", "none", str(bench.workers.most), bench.workers.most == 0)
    )
    return [*text, "", f"Kernel worker threads (`iou-wrk`) seen: {bench.workers.most}."]


def throttled(bench: Bench) -> list[str]:
    bench.throttle(True)
    try:
        rows = bench.alternate(bench.systems(bench.group))
    finally:
        bench.throttle(False)
    return ["#### Throttled, one submitter", "", *table(bench, rows, "fioD", (0.98,) * 4, "throttled")]


def stripes(bench: Bench) -> list[str]:
    """Sequential 64k over stripes of 4 KiB, merged and not, compared with stripes of 64 KiB."""
    kinds = {"64KiB": ("64KiB", "1"), "4KiB": ("4KiB", "1"), "4KiB, unmerged": ("4KiB", "0")}

    def measure(stripe: str, merge: str) -> Callable[[], dict[str, float]]:
        def run_once() -> dict[str, float]:
            lines = bench.volume(None, stripe, MERGE=merge, ONLY="sequential")
            return {workload: line["mb_s"] for workload, line in lines.items()}

        return run_once

    rows = bench.alternate({name: measure(*kind) for name, kind in kinds.items()})
    lines = ["#### Stripes", "", f"| MB/s | {' | '.join(kinds)} | 4KiB / 64KiB | asked |", "|---|---|---|---|---|---|"]
    for workload in WORKLOADS[2:]:
        values = " | ".join(f"{median(rows, kind, workload):.0f}" for kind in kinds)
        pairs = zip(rows["4KiB"][workload], rows["64KiB"][workload], strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        lines.append(f"| {workload} | {values} | {ratio:.3f} | 0.8 |")
        bench.targets.append(at_least(f"{workload}: stripes of 4 KiB / of 64 KiB", 0.8, ratio))
    return lines


def merging(bench: Bench) -> list[str]:
    """Number of submissions for 64 sequential requests of 64 KiB, by the longest merged transfer."""
    asked = {"64KiB": 64, "128KiB": 32, "256KiB": 16, "512KiB": 8}
    found = {}
    for cap in asked:
        settings = {"MERGE_BYTES": cap, "DEPTH": "64", "REQUESTS": "64", "ONLY": "sequential read"}
        found[cap] = int(bench.volume(None, "4KiB", **settings)[WORKLOADS[2]]["transfers"])
    reached = "/".join(map(str, found.values()))
    wanted = "/".join(map(str, asked.values()))
    measure = "64 sequential 64k requests over 4 KiB stripes, merged up to 64/128/256/512 KiB: submissions"
    bench.targets.append(Target(measure, wanted, reached, found == asked))
    return ["#### Merging", "", f"Submissions: {reached}; asked: {wanted}."]


def depth1(bench: Bench) -> list[str]:
    """Latency of one request at a time, compared with a plain ring: alternating turns of 64 reads in one process, and
    fio for comparison."""
    workload = WORKLOADS[0]
    turns = []
    command = (str(bench.example.with_name("volume_depth1")), str(bench.arguments.seconds), "64KiB", *bench.files)
    rows = bench.alternate(
        {
            "outcore": lambda: {workload: bench.volume(None, DEPTH="1", ONLY=workload)[workload]["mean_us"]},
            "fio1": lambda: {workload: bench.fio(workload, [bench.files], 1, None)["mean_us"]},
            "turns": lambda: turns.append(json.loads(run(*command))) or {workload: turns[-1]["ratio"]},
        }
    )
    ratio = median(rows, "turns", workload)
    own, ring = (statistics.median(turn[key] for turn in turns) for key in ("own_us", "ring_us"))
    measure = "depth 1: mean latency of a 4 KiB read / a plain ring's"
    bench.targets.append(Target(measure, "at most 1.05", f"{ratio:.3f}", ratio <= 1.05))
    measure = "depth 1: threads that could be woken, other than the submitter"
    bench.targets.append(Target(measure, "0", str(bench.threads - 1), bench.threads == 1))
    alone = ", ".join(f"{name} {median(rows, name, workload):.1f} us" for name in ("outcore", "fio1"))
    text = (
        f"A 4 KiB read at depth 1, alternating every 64 reads in one process: {own:.1f} us, a plain ring {ring:.1f} us; ratio "
        f"{ratio:.3f}. In processes of their own, one after the other: {alone}."
    )
    return ["#### Depth 1", "", text]


def slow(bench: Bench) -> list[str]:
    """One of eight drives is ten times slower, on in-memory drives with a virtual clock."""
    found = json.loads(run(str(bench.example.with_name("volume_slow"))))
    keep, stack, striped = found["others_keep"], found["stack_p99_us"], found["striped_keeps"]
    bench.targets.append(at_least("one of 8 drives is ten times slower: throughput kept by the others", 0.95, keep))
    bench.targets.append(
        Target("the same: submission latency of the others, p99", "under 1000 us", f"{stack:.1f} us", stack < 1000)
    )
    text = (
        f"Eight streams from one thread, one drive ten times slower: the other seven keep {keep:.3f} of their "
        f"throughput (asked: 0.95), their submission latency is {stack:.1f} us at p99 (asked: under 1000). The slow drive "
        f"keeps {found['slow_keeps']:.3f}. Requests striped over all eight wait for it: they keep {striped:.3f}."
    )
    return ["#### A slow drive", "", text]


def copy(bench: Bench) -> list[str]:
    """`put` and `get` compared with the sum of the throttled drives."""
    drives = WORK / "drives.toml"
    drives.write_text("".join(f'[[drive]]\ndir = "{drive.mount}"\n' for drive in bench.drives))
    for file in bench.files:
        os.truncate(file, 0)
    source, target = WORK / "source", WORK / "target"
    size = bench.arguments.copy_mib << 20
    source.write_bytes(os.urandom(1 << 20) * (size >> 20))
    tool = [str(bench.outcore), "--quiet"]
    run(*tool, "volume", "create", "--volume", str(drives))
    bench.throttle(True)
    rows: dict[str, list[float]] = {"put": [], "get": []}
    try:
        for _ in range(bench.arguments.rounds):
            for name, words in (("put", (str(source), "@x")), ("get", ("@x", str(target)))):
                if name == "get":
                    # Memory that was used recently: new pages may come from a hypervisor, more slowly than the drives.
                    target.write_bytes(bytes(1 << 20) * (size >> 20))
                    target.unlink()
                start = time.monotonic()
                run(*tool, "volume", name, *words, "--force", "--volume", str(drives), group=bench.group)
                rows[name].append(size / (time.monotonic() - start))
            # A drive has room for one dataset.
            run(*tool, "volume", "rm", "@x", "--volume", str(drives))
    finally:
        bench.throttle(False)
    sums = {"put": THROTTLE["write_bps"] * DRIVES, "get": THROTTLE["read_bps"] * DRIVES}
    lines = ["#### Datasets on throttled drives", "", "| | MB/s | of the drives' sum | asked |", "|---|---|---|---|"]
    for name, rates in rows.items():
        rate = statistics.median(rates)
        lines.append(f"| {name} {size >> 20} MiB | {rate / 1e6:.0f} | {rate / sums[name]:.3f} | 0.95 |")
        bench.targets.append(at_least(f"{name} on 8 throttled drives / their sum", 0.95, rate / sums[name]))
    return lines


def targets(bench: Bench) -> str:
    lines = ["#### Asked and reached", "", "| measure | asked | reached | met |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {' | '.join(target.cells)} |" for target in bench.targets)])


CASES = {
    "unthrottled": unthrottled,
    "stripes": stripes,
    "merging": merging,
    "depth1": depth1,
    "slow": slow,
    "throttled": throttled,
    "copy": copy,
}


@contextlib.contextmanager
def drives(arguments: argparse.Namespace) -> Iterator[Bench]:
    remove()
    try:
        yield Bench(arguments)
    finally:
        remove()


def install() -> None:
    """Installs fio and btrfs-progs if they are missing and apt-get is available."""
    tools = {"fio": "fio", "mkfs.btrfs": "btrfs-progs"}
    missing = [package for tool, package in tools.items() if shutil.which(tool) is None]
    if missing and shutil.which("apt-get"):
        with contextlib.suppress(RuntimeError):
            run("apt-get", "install", "--yes", "--quiet", *missing)


def parse() -> argparse.Namespace:
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release"
    made = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--seconds", type=float, default=4)
    made.add_argument("--copy-mib", type=int, default=1024, help="data of put and get")
    made.add_argument("--quick", action="store_true", help="one round of a second, 128 MiB to copy")
    made.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    made.add_argument("--example", default=str(target / "examples" / "volume_load"))
    made.add_argument("--outcore", default=str(target / "outcore"))
    made.add_argument("--no-install", action="store_true")
    made.add_argument("--write-docs", action="store_true")
    arguments = made.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds, arguments.copy_mib = 1, 1, 128
    unknown = [name for name in arguments.only if name not in CASES]
    if unknown:
        made.error(f"--only knows {', '.join(CASES)}, not {unknown[0]}")
    return arguments


def write_docs(text: str) -> None:
    page = REPOSITORY / "docs" / "benchmarks" / "volumes.md"
    before = page.read_text()
    begin, end = before.index(MARKS[0]), before.index(MARKS[1])
    page.write_text(before[:begin] + MARKS[0] + "\n" + text + "\n" + before[end:])


def main() -> int:
    arguments = parse()
    if os.geteuid() == 0 and not arguments.no_install:
        install()
    reason = loop_drives.skip_reason() or (None if shutil.which("fio") else "fio is not installed")
    if reason:
        say(f"skipped: {reason}")
        return loop_drives.EXIT_SKIPPED
    parts = []
    try:
        with drives(arguments) as bench:
            for name in arguments.only:
                parts.append("\n".join(CASES[name](bench)))
                print(parts[-1] + "\n", flush=True)
            parts.insert(0, targets(bench))
            print(parts[0], flush=True)
    except (RuntimeError, loop_drives.ArrayFailure) as error:
        say(f"bench_volume: {error}")
        return 1
    if arguments.write_docs:
        write_docs("\n\n".join(parts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
