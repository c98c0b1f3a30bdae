#!/usr/bin/env python3
"""Measures the distance between outcore and its limits: drives, memory, the start of a process; and, for text, the best
peer.

Each measure runs outcore and its counterpart alternately, in rounds. Its result is the median of the rounds' ratios.
Caches are dropped before each run on the disk. Floors are those of peerbench/floor.py: fio with direct I/O, huge pages
and new files, and the removal of scratch if a sort needs some.

    bench_limits.py --outcore target/release/outcore --dir DISK              everything: about 13 minutes, 30 GiB of disk
    bench_limits.py --outcore ... --dir DISK --only tmpfs,passes --rounds 5
    bench_limits.py --outcore ... --dir DISK --quick                         1/16 of the sizes, once: does everything run?

NumPy (its sort of u64 is x86-simd-sort) represents the best sort in memory, with AVX-512 or AVX2, whichever is faster:
Zen 4 takes ten times as long with AVX-512, because its compress stores are microcoded. DuckDB and Miller represent CSV
and JSON lines; both must be installed for the Python that runs this. Root is needed for dropped caches, huge pages and
throttled drives. The program reports what is missing. Prints a table in Markdown.

The host of a virtual machine may provide memory only when it is touched, which is slow, and may take back free memory
after a while. With --given-memory, 3 GiB are touched and freed before each run on the disk (Linux 5.14), so that
outcore gets memory as quickly as on a physical machine; floors need almost none.

A peer gets as much memory as outcore. Text outputs are compared with the peer's rows, outputs of numbers are verified.
"""

from __future__ import annotations

import argparse
import csv
import json
import mmap
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peerbench import floor, machine
from peerbench.measure import drop_caches

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import loop_drives  # noqa: E402

PROGRAMS = Path(__file__).resolve().parent / "programs"
TMPFS = Path("/dev/shm")
STARTS = 200
GIVEN_MEMORY_BYTES = 3 << 30  # More than any measure on the disk may use.
MADV_POPULATE_WRITE = 23  # Linux 5.14; Python has no name for it yet.
IN_MEMORY = """
import sys, time, numpy as np
keys = np.fromfile(sys.argv[1], dtype="<u8")
began = time.process_time()
keys.sort()
print(time.process_time() - began)
"""
# Two halves, each sorted by a thread, without a merge: less work than a sort with two threads needs.
IN_MEMORY_BY_TWO = """
import sys, time, threading, numpy as np
keys = np.fromfile(sys.argv[1], dtype="<u8")
keys = np.partition(keys, len(keys) // 2)
began = time.monotonic()
halves = [threading.Thread(target=part.sort) for part in (keys[: len(keys) // 2], keys[len(keys) // 2 :])]
[half.start() for half in halves]
[half.join() for half in halves]
print(time.monotonic() - began)
"""
DUCKDB = """
import sys, duckdb
kind, source, out, order, memory, scratch = sys.argv[1:]
db = duckdb.connect(config={"memory_limit": memory, "threads": 2, "temp_directory": scratch})
read = f"read_csv('{source}', header=true)" if kind == "csv" else f"read_json('{source}', format='newline_delimited')"
form = "CSV, HEADER" if kind == "csv" else "JSON"
db.execute(f"COPY (SELECT * FROM {read} ORDER BY {order}) TO '{out}' (FORMAT {form})")
"""


class Bench:
    """State shared by all measures: the command, the directory, the sizes."""

    def __init__(self, args: argparse.Namespace, place: Path) -> None:
        self.outcore = str(args.outcore.resolve())
        self.place = place
        self.rounds = args.rounds
        self.scale = 16 if args.quick else 1
        self.given_memory = args.given_memory
        self.rows: list[tuple[str, str, str, str]] = []

    def count(self, records: int) -> int:
        return records // self.scale

    def memory(self, mib: int) -> str:
        return f"{max(mib // self.scale, 16)}MiB"

    def run(self, *words: object, cold: bool = True, group: Path | None = None) -> tuple[float, float]:
        """(wall, processor) seconds of one run."""
        if cold:
            drop_caches()
            if self.given_memory:
                touch_memory()
        command = [str(word) for word in words]
        if group is not None:
            command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]
        before, began = os.times(), time.monotonic()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        wall, after = time.monotonic() - began, os.times()
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command[:3])} failed: {done.stderr.decode()[-300:]}")
        used = after.children_user - before.children_user + after.children_system - before.children_system
        return wall, used

    def our(self, *words: object, **how: object) -> tuple[float, float]:
        return self.run(self.outcore, *words, "-q", **how)

    def keys(self, records: int, name: str = "keys.bin", kind: str = "u64", place: Path | None = None) -> Path:
        path = (place or self.place) / name
        self.our("gen", kind, "-n", self.count(records), "-o", path, "--force", cold=False)
        return path

    def verify(self, sorted_file: Path, source: Path, *kind: str) -> None:
        self.our("verify", sorted_file, *kind, "--against", source, cold=False)

    def tell(self, measure: str, ratios: list[float], reach: str, more: str = "") -> None:
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else ""
        row = (measure, f"{statistics.median(ratios):.2f}", spread, reach)
        self.rows.append(row)
        print(f"| {' | '.join(row)} | {more} |", flush=True)


def touch_memory() -> None:
    """Makes the host provide memory to this machine, and frees it."""
    with mmap.mmap(-1, GIVEN_MEMORY_BYTES) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        memory.madvise(MADV_POPULATE_WRITE)


def over_floor(bench: Bench, what: str, source: Path, words: list[object], reach: str, rounds: int) -> None:
    """Time of outcore divided by the mean of the floors before and after it."""
    out, copy = bench.place / "out", bench.place / "floor"
    ratios, walls, used = [], [], []
    before = floor.floor_seconds(source, copy)
    for _ in range(rounds):
        out.unlink(missing_ok=True)
        wall, cpu = bench.our(*words, "-o", out)
        after = floor.floor_seconds(source, copy)
        ratios.append(wall / ((before + after) / 2))
        walls.append(wall)
        used.append(cpu)
        before = after
    bench.tell(what, ratios, reach, f"{statistics.median(walls):.2f} s, {statistics.median(used):.2f} s of processor")


def in_memory_s(program: str, source: Path) -> float:
    """Seconds of a sort in memory with the faster one of the processor's vector instruction sets."""
    seconds = []
    for disabled in ("", "X86_V4 AVX512_ICL AVX512_SPR"):
        peer = [sys.executable, "-c", program, str(source)]
        environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": disabled}
        done = subprocess.run(peer, capture_output=True, text=True, check=True, env=environment)
        seconds.append(float(done.stdout))
    return min(seconds)


def numbers(bench: Bench) -> None:
    source = bench.keys(1 << 28)
    kind = ("--type", "u64")
    sort = ["sort", source, *kind, "--memory", bench.memory(512)]
    over_floor(bench, "2 GiB of u64 in 512 MiB, over the floor", source, sort, "1.1", bench.rounds)
    bench.verify(bench.place / "out", source, *kind)
    ratios = []
    for _ in range(bench.rounds):
        (bench.place / "out").unlink()
        _, used = bench.our(*sort, "-o", bench.place / "out")
        ratios.append(used / in_memory_s(IN_MEMORY, source))
    bench.tell("2 GiB of u64 in 512 MiB: processor time, over NumPy's sort of the same keys in memory", ratios, "1.5")
    shuffle = ["shuffle", source, *kind, "--memory", bench.memory(512)]
    over_floor(bench, "shuffle of 2 GiB of u64 in 512 MiB, over the floor", source, shuffle, "1.1", bench.rounds)
    source.unlink()


def large(bench: Bench) -> None:
    source = bench.keys(1 << 30)
    for memory, text in ((512, "512 MiB"), (2048, "2 GiB")):
        words = ["sort", source, "--type", "u64", "--memory", bench.memory(memory)]
        over_floor(bench, f"8 GiB of u64 in {text}, over the floor", source, words, "1.15", max(bench.rounds - 1, 1))
    source.unlink()
    (bench.place / "out").unlink()


def gensort(bench: Bench) -> None:
    source = bench.place / "gensort"
    words = ("gen", "gensort", "--ascii", "-n", bench.count(10_000_000), "-o", source, "--force")
    bench.our(*words, cold=False)
    sort = ["sort", source, "--type", "gensort", "--memory", bench.memory(256)]
    over_floor(bench, "10^7 ASCII gensort records in 256 MiB, over the floor", source, sort, "1.15", bench.rounds)
    source.unlink()


def records(bench: Bench) -> None:
    source, out = bench.keys(1 << 26, kind="u128"), bench.place / "out"
    ratios = []
    for _ in range(bench.rounds):
        walls = []
        for kind in (("--record", "16", "--key", "0:8:u64"), ("--type", "u128")):
            out.unlink(missing_ok=True)
            walls.append(bench.our("sort", source, *kind, "--memory", bench.memory(256), "-o", out)[1])
        ratios.append(walls[0] / walls[1])
    bench.tell("records of 16 bytes over u128, processor time", ratios, "1.2")
    source.unlink()


def tmpfs(bench: Bench) -> None:
    with tempfile.TemporaryDirectory(dir=TMPFS) as name:
        place = Path(name)
        source, out = bench.keys(1 << 28, place=place), place / "out"
        ratios = []
        for _ in range(bench.rounds):
            out.unlink(missing_ok=True)
            wall, _ = bench.our("sort", source, "--type", "u64", "--memory", bench.memory(512), "-o", out, cold=False)
            out.unlink()
            copies = sum(bench.run("cp", source, out, cold=False)[0] for _ in range(2))
            ratios.append(wall / (copies + in_memory_s(IN_MEMORY_BY_TWO, source)))
        bench.tell("2 GiB of u64 on tmpfs, over two copies and the sort in memory of two halves", ratios, "1.15")


def make_rows(path: Path, kind: str, rows: int) -> None:
    """Rows of a web log: id, time, country, price, text."""
    random.seed(1)
    countries = ["de", "fr", "us", "jp", "br", "in", "it", "se"]
    with open(path, "w", encoding="ascii", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        if kind == "csv":
            table.writerow(["id", "time", "country", "price", "text"])
        for number in range(rows):
            row = [number, f"2026-{random.randrange(1, 13):02}-{random.randrange(1, 29):02} 12:00:00",
                   random.choice(countries), random.randrange(10**6) / 100, f"{random.getrandbits(160):040x}"]
            if kind == "csv":
                table.writerow(row)
            else:
                file.write(json.dumps(dict(zip(("id", "time", "country", "price", "text"), row))) + "\n")


def text(bench: Bench) -> None:
    scratch = bench.place / "scratch"
    scratch.mkdir(exist_ok=True)
    for kind, rows in (("csv", 8_000_000), ("jsonl", 5_000_000)):
        source, out, other = bench.place / f"rows.{kind}", bench.place / f"out.{kind}", bench.place / f"peer.{kind}"
        make_rows(source, kind, bench.count(rows))
        by = ("country", "id") if kind == "csv" else (".country", ".id")
        letters = (":n" if kind == "csv" else "")
        ours = ("sort", f"--{kind}", source, "--by", by[0], "--by", by[1] + letters, "--memory", bench.memory(512), "-o", out)
        peers = {"DuckDB": [sys.executable, "-c", DUCKDB, kind, source, other, "country, id", bench.memory(512), scratch]}
        if shutil.which("mlr"):
            form = "--icsv --ocsv" if kind == "csv" else "--ijsonl --ojsonl"
            peers["Miller"] = ["sh", "-c", f"exec mlr {form} sort -f country -nf id {source} > {other}"]
        ratios: dict[str, list[float]] = {}
        for number in range(max(bench.rounds - 1, 1)):
            out.unlink(missing_ok=True)
            wall, _ = bench.our(*ours)
            for name, words in peers.items():
                if name == "Miller" and number > 0:
                    continue
                other.unlink(missing_ok=True)
                try:
                    ratios.setdefault(name, []).append(bench.run(*words)[0] / wall)
                except RuntimeError as error:
                    print(f"{name} on {kind} did not finish: {error}", flush=True)
                    continue
                if name == "DuckDB" and number == 0:
                    compare_rows(kind, out, other)
        for name, values in ratios.items():
            bench.tell(f"sort of {source.stat().st_size / 1e9:.2f} GB of {kind}: {name} over outcore", values, "3")
        for path in (source, out, other):
            path.unlink(missing_ok=True)


def compare_rows(kind: str, ours: Path, theirs: Path) -> None:
    """Checks that the ids of both, in order, are the same."""
    def ids(path: Path) -> list[str]:
        with open(path, encoding="ascii") as file:
            if kind == "csv":
                return [line.split(",", 1)[0] for line in file]
            return [str(json.loads(line)["id"]) for line in file]

    if ids(ours) != ids(theirs):
        raise RuntimeError(f"{ours} and {theirs} are in different orders")


def views(bench: Bench) -> None:
    source, view, out = bench.keys(1 << 28), bench.place / "view", bench.place / "out"
    kind, memory = ("--type", "u64"), ("--memory", bench.memory(512))
    over, beside = [], []
    for _ in range(bench.rounds):
        shutil.rmtree(view, ignore_errors=True)
        out.unlink(missing_ok=True)
        built, _ = bench.our("view", "build", source, *kind, *memory, "-o", view)
        shutil.rmtree(view)
        once = floor.pass_seconds(source, bench.place / "floor", source.stat().st_size)
        sorted_in, _ = bench.our("sort", source, *kind, *memory, "-o", out)
        over.append(built / once)
        beside.append(built / sorted_in)
    bench.tell("view build of 2 GiB of u64, over one read and one write at once", over, "1.15")
    bench.tell("view build, over a sort of the same", beside, "0.85")
    source.unlink()
    out.unlink()


def drives_of(count: int, rate_bytes_s: int, size_bytes: int) -> tuple[Path, list[Path], Path] | None:
    reason = loop_drives.skip_reason()
    if reason:
        print(f"drives: not measured: {reason}", flush=True)
        return None
    root = TMPFS / "outcore-limits"
    found = loop_drives.build(count, rate_bytes_s, size_bytes, root)
    group = loop_drives.group_path(root)
    assert group is not None
    return root, [drive.mount for drive in found], group


def passes(bench: Bench) -> None:
    made = drives_of(1, 10**9, 5 << 30)
    if made is None:
        return
    root, (drive,), group = made
    try:
        source, out = bench.keys(1 << 28, place=drive), drive / "out"
        size_bytes = source.stat().st_size
        kind = ("--type", "u64", "--memory", bench.memory(512))
        steps = {
            "reduce": (["reduce", "sum", source], 0),
            "map": (["map", "x + 1", source, "-o", out], size_bytes),
            "filter": (["filter", "x % 2 == 0", source, "-o", out], size_bytes // 2),
            "scan": (["scan", "sum", source, "-o", out], size_bytes),
        }
        for name, (words, _) in steps.items():
            ratios = []
            for _ in range(bench.rounds):
                out.unlink(missing_ok=True)
                wall, _ = bench.our(*words, *kind, "--io", "direct", group=group)
                ratios.append(size_bytes / 10**9 / wall)
            bench.tell(f"{name} of 2 GiB of u64 on a drive of 1 GB/s, of its rate", ratios, "0.97")
    finally:
        loop_drives.remove(root)


def array(bench: Bench) -> None:
    rate_bytes_s, count = 100_000_000, 8
    made = drives_of(count, rate_bytes_s, 2 << 30)
    if made is None:
        return
    root, mounts, group = made
    try:
        inputs = [bench.keys(1 << 25, name=f"in-{number}.bin", place=mount) for number, mount in enumerate(mounts)]
        total_bytes = sum(path.stat().st_size for path in inputs)
        rating = 2 * total_bytes / count / rate_bytes_s
        drives = [word for mount in mounts for word in ("--drive", mount)]
        outputs = lambda: [path for mount in mounts for path in mount.glob("out-*")]  # noqa: E731
        for job, reach in (("sort", "0.85"), ("shuffle", "0.97")):
            ratios = []
            for _ in range(bench.rounds):
                words = (job, *inputs, "-o", "out-{drive}.bin", "--type", "u64", "--memory", bench.memory(512), *drives, "--force")
                wall, _ = bench.our(*words, group=group)
                ratios.append(rating / wall)
                for path in outputs():
                    path.unlink()
            bench.tell(f"{job} of 2 GiB of u64 on 8 drives of 100 MB/s, of their rating", ratios, reach)
    finally:
        loop_drives.remove(root)


def start(bench: Bench) -> None:
    line = bench.place / "line"
    line.write_text("".join(f"{random.randrange(10**6)}\n" for _ in range(150)))
    publish = bench.place / "publish"
    subprocess.run(["cc", "-O2", "-o", publish, PROGRAMS / "publish.c"], check=True)
    own = bench.place / "own"
    own.mkdir()
    pairs = {
        "a sort of 1 KB to standard output: time beyond /bin/true, ms": ((bench.outcore, "sort", line), ("/bin/true",)),
        "the same with -o: time beyond fsync, rename and fsync in C, ms": (
            (bench.outcore, "sort", line, "-o", own / "sorted"), (publish, own)),
        "GNU sort of the same: time beyond /bin/true, ms": (("sort", line), ("/bin/true",)),
    }
    for name, (ours, theirs) in pairs.items():
        spent: tuple[list[float], list[float]] = ([], [])
        for _ in range(STARTS // bench.scale):
            for words, into in zip((ours, theirs), spent):
                into.append(bench.run(*words, cold=False)[0])
        above = statistics.median(spent[0]) - statistics.median(spent[1])
        bench.tell(name, [above * 1e3], "-" if name.startswith("GNU") else "1.5")
    many = bench.place / "many"
    many.mkdir()
    files = []
    for number in range(1000 // bench.scale):
        files.append(many / f"{number}.txt")
        files[-1].write_text(f"{random.getrandbits(64)}\n")
    walls = [bench.run(bench.outcore, "sort", *files, cold=False)[0] for _ in range(bench.rounds)]
    theirs = [bench.run("sort", *files, cold=False)[0] for _ in range(bench.rounds)]
    bench.tell("a thousand small files, s", walls, "0.05", f"GNU sort {statistics.median(theirs):.3f} s")


MEASURES = {"numbers": numbers, "large": large, "gensort": gensort, "records": records, "tmpfs": tmpfs, "text": text,
            "views": views, "passes": passes, "array": array, "start": start}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--outcore", type=Path, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--only", default=",".join(MEASURES), metavar="NAME,...")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--given-memory", action="store_true", help="touch and free memory before each run on the disk")
    args = parser.parse_args()
    if args.quick:
        args.rounds = 1
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(MEASURES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    given = ", given memory" if args.given_memory else ""
    processor = machine.describe(args.dir)["processor"]
    print(f"{processor}, {os.cpu_count()} processors, medians of {args.rounds} rounds{given}\n")
    print("| measure | ratio | of the rounds | reach | |\n|---|---:|---|---:|---|", flush=True)
    with tempfile.TemporaryDirectory(dir=args.dir, prefix="bench-limits-") as place:
        bench = Bench(args, Path(place))
        for name in wanted:
            try:
                MEASURES[name](bench)
            except (RuntimeError, subprocess.CalledProcessError, OSError) as error:
                print(f"{name}: not measured: {error}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
