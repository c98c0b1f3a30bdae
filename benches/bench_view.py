#!/usr/bin/env python3
"""Measures sorted views: bytes moved, a throttled drive, merge and mount throughput, seeks, materializing.

    bench_view.py                         everything, about 14 minutes and 20 GiB of disk, 13 GiB of memory for tmpfs
    bench_view.py --only bytes,merge      some cases
    bench_view.py --scale 16              everything at a sixteenth: does it run?
    bench_view.py --write-docs            everything, and the table in docs/benchmarks/views.md

Prints a table with one row per measure (seen, target). Writes it as JSON, together with the report of
`outcore bench view` (ActiveSort's Table 2 and Fig. 3), into `--results`. Compared programs run alternately, `--rounds`
times, and medians are given; the throttled drive runs at most twice, because one round takes two and a half minutes.
The case `drive` needs root and cgroup v1 (scripts/loop_drives.py), `mount` needs FUSE; cases that lack these say so and
are omitted.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

REPOSITORY = Path(__file__).resolve().parent.parent
MIB = 1 << 20
GIB = 1 << 30
CASES = ("bytes", "lines", "drive", "merge", "mount", "seek", "materialize", "figure3")
DOCS = REPOSITORY / "docs" / "benchmarks" / "views.md"
MARKS = ("<!-- bench-view: begin (written by benches/bench_view.py --write-docs) -->", "<!-- bench-view: end -->")
#: The columns of a row of any measure.
KNOWN = ("case", "measure", "seen", "target", "met")
Json = dict[str, Any]


class Bench:
    """The programs, the directories, and the results."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.command = str(options.outcore)
        self.rates = str(options.rates)
        self.disk = Path(tempfile.mkdtemp(prefix="bench-view-", dir=options.dir))
        self.memory = Path(tempfile.mkdtemp(prefix="bench-view-", dir="/dev/shm"))
        self.scale: int = options.scale
        self.rounds: int = options.rounds
        self.results: Path = options.results
        self.results.mkdir(exist_ok=True)
        self.rows: list[Json] = []

    def close(self) -> None:
        shutil.rmtree(self.disk, ignore_errors=True)
        shutil.rmtree(self.memory, ignore_errors=True)

    def say(self, case: str, measure: str, seen: float, target: str, is_met: bool, **more: Any) -> None:
        row = {"case": case, "measure": measure, "seen": seen, "target": target, "met": is_met, **more}
        self.rows.append(row)
        details = "  ".join(f"{key} {value}" for key, value in more.items())
        print(f"{case:12} {measure:44} {seen:>14.4g}  {target:16} {'met' if is_met else 'MISSED'}  {details}", flush=True)

    def skip(self, case: str, why: str) -> None:
        self.rows.append({"case": case, "skipped": why})
        print(f"{case:12} SKIP: {why}", flush=True)

    def run(self, *arguments: str | Path, group: Path | None = None, stdout: int | Any = subprocess.PIPE) -> Json:
        """Runs the command with --json. Returns its summary and the wall time."""
        words = [self.command, *map(str, arguments), "--json"]
        join: Callable[[], Any] | None = None
        if group is not None:
            join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        started = time.monotonic()
        done = subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, preexec_fn=join, check=False)
        wall = time.monotonic() - started
        text = done.stdout if stdout == subprocess.PIPE else done.stderr
        lines = [json.loads(line) for line in text.decode().splitlines() if line.startswith("{")]
        summaries = [line for line in lines if line["event"] == "summary"]
        if done.returncode != 0 or not summaries:
            raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stderr.decode()}")
        return {**summaries[-1], "wall": wall}

    def to_nowhere(self, *arguments: str | Path, group: Path | None = None) -> Json:
        with open(os.devnull, "wb") as nowhere:
            return self.run(*arguments, group=group, stdout=nowhere)

    def gen(self, kind: str, count: int, path: Path) -> None:
        self.run("gen", kind, "-n", str(count), "-o", path)


def read_direct(path: Path, group: Path | None = None) -> float:
    """Seconds to read a file once, past the page cache."""
    join: Callable[[], Any] | None = None
    if group is not None:
        join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
    started = time.monotonic()
    words = ["dd", f"if={path}", "of=/dev/null", "bs=4M", "iflag=direct", "status=none"]
    subprocess.run(words, check=True, preexec_fn=join)
    return time.monotonic() - started


def remove(*paths: Path) -> None:
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def say_traffic(bench: Bench, part: str, data: int, runs: tuple[dict, dict, dict]) -> None:
    """Bytes moved by a view that is read once, and by a sort whose result is read once, as multiples of the data."""
    built, read, eager = runs
    reads = (built["read_bytes"] + read["read_bytes"]) / data
    writes = built["written_bytes"] / data
    bench.say(part, "view: reads / N", reads, "<= 2.02", reads <= 2.02)
    bench.say(part, "view: writes / N", writes, "<= 1.01", writes <= 1.01)
    bench.say(part, "eager sort and one read: reads / N", eager["read_bytes"] / data + 1, "3", True)
    bench.say(part, "eager sort: writes / N", eager["written_bytes"] / data, "2", True)


def case_bytes(bench: Bench) -> None:
    count = (2 << 30) // 8 // bench.scale
    source, view, out = bench.disk / "in", bench.disk / "view", bench.disk / "out"
    bench.gen("u64", count, source)
    data = count * 8
    memory = f"{512 // bench.scale + 64}MiB"
    built = bench.run("view", "build", source, "-o", view, "--type", "u64", "--memory", memory)
    read = bench.to_nowhere("view", "cat", view, "--memory", memory)
    eager = bench.run("sort", source, "-o", out, "--type", "u64", "--memory", memory)
    say_traffic(bench, "bytes", data, (built, read, eager))
    remove(source, view, out)


def case_lines(bench: Bench) -> None:
    """Text: a view that is built and read once, compared with a sort whose result is read once."""
    source, view, out = bench.disk / "in.txt", bench.disk / "view", bench.disk / "out.txt"
    write_text(source, GIB // bench.scale)
    data = source.stat().st_size
    memory = f"{256 // bench.scale + 64}MiB"
    eager: list[float] = []
    viewed: list[float] = []
    for _ in range(bench.rounds):
        sort = bench.run("sort", source, "-o", out, "--memory", memory)
        eager.append(sort["wall"] + read_direct(out))
        built = bench.run("view", "build", source, "-o", view, "--lines", "--memory", memory)
        read = bench.to_nowhere("view", "cat", view, "--memory", memory)
        viewed.append(built["wall"] + read["wall"])
        remove(view, out)
    say_traffic(bench, "lines", data, (built, read, sort))
    bench.say("lines", "eager sort and read / view and read", statistics.median(eager) / statistics.median(viewed), "-",
              True, eager_s=[round(s, 2) for s in eager], view_s=[round(s, 2) for s in viewed])
    remove(source)


def write_text(path: Path, size_bytes: int) -> None:
    """Lines of 76 random letters and digits, the same in every run."""
    generator = random.Random(1)
    with path.open("wb") as file:
        while file.tell() < size_bytes:
            file.write(base64.encodebytes(generator.randbytes(57 << 14)))


def case_drive(bench: Bench) -> None:
    """The paper's drive: reads at 137 MB/s, writes at 61 MB/s; 2 GB of 4 KiB records, 1 GB of memory."""
    script = [sys.executable, str(REPOSITORY / "scripts" / "loop_drives.py")]
    checked = subprocess.run([*script, "check"], capture_output=True, check=False)
    if checked.returncode != 0:
        return bench.skip("drive", checked.stderr.decode().strip())
    count = 2_000_000_000 // 4096 // bench.scale
    home = bench.memory / "drives"
    size = str(7 * GIB // bench.scale + 256 * MIB)
    up = subprocess.run([*script, "up", "1", "--rate", "137MB", "--size", size, "--dir", str(home)],
                        capture_output=True, check=True)
    try:
        array = json.loads(up.stdout)
        group, drive = Path(array["group"]), array["drives"][0]
        (group / "blkio.throttle.write_bps_device").write_text(f"{drive['number']} 61000000")
        mount = Path(drive["mount"])
        source = mount / "in"
        bench.gen("4096/0:10", count, source)
        data = count * 4096
        memory = str(max(1_000_000_000 // bench.scale, 64 * MIB))
        means = ("--record", "4096", "--key", "0:10", "--memory", memory)
        eager: list[float] = []
        viewed: list[float] = []
        moved: Json = {}
        for _ in range(min(bench.rounds, 2)):
            out, view = mount / "out", mount / "view"
            done = bench.run("sort", source, "-o", out, *means, group=group)
            eager.append(done["wall"] + read_direct(out, group))
            moved["eager"] = (round(done["read_bytes"] / data + 1, 3), round(done["written_bytes"] / data, 3))
            remove(out)
            done = bench.to_nowhere("view", "build", source, "-o", view, *means, "--cat", group=group)
            viewed.append(done["wall"])
            moved["view"] = (round(done["read_bytes"] / data, 3), round(done["written_bytes"] / data, 3))
            remove(view)
        ratio = statistics.median(eager) / statistics.median(viewed)
        bench.say("drive", "eager sort and read / view and read", ratio, ">= 1.5", ratio >= 1.5,
                  eager_s=[round(s, 1) for s in eager], view_s=[round(s, 1) for s in viewed],
                  reads_and_writes_of_N=moved)
    finally:
        subprocess.run([*script, "down", "--dir", str(home)], capture_output=True, check=False)


def rates(bench: Bench, view: Path, memory: str, threads: int, seeks: int) -> Json:
    words = [bench.rates, str(view), memory, str(threads), str(seeks)]
    done = subprocess.run(words, capture_output=True, check=True)
    result: Json = json.loads(done.stdout)
    return result


def case_merge(bench: Bench) -> None:
    count = (1 << 28) // bench.scale
    source, view = bench.memory / "in", bench.memory / "view"
    bench.gen("u64", count, source)
    bench.run("view", "build", source, "-o", view, "--type", "u64", "--memory", "1GiB",
              "--run-size", str(count * 8 // 64))
    source.unlink()
    seen = [rates(bench, view, "512MiB", 2, 10) for _ in range(bench.rounds)]
    rate = statistics.median(one["records_per_s"] for one in seen)
    bench.say("merge", "u64, tmpfs, 2 threads: records/s", rate, ">= 6e7", rate >= 6e7, runs=seen[0]["runs"])
    bench.say("merge", "first record: s", seen[0]["first_record_seconds"], "-", True,
              open_s=seen[0]["open_seconds"])
    remove(view)


def case_mount(bench: Bench) -> None:
    count = GIB // 1024 // bench.scale
    source, view, mountpoint = bench.memory / "in", bench.memory / "view", bench.memory / "mount"
    bench.gen("4096/0:10", count, source)
    bench.run("view", "build", source, "-o", view, "--record", "4096", "--key", "0:10", "--memory", "1GiB")
    source.unlink()
    mountpoint.mkdir()
    data = count * 4096
    cat: list[float] = []
    through: dict[str, list[float]] = {"page-cached": [], "--direct": []}
    hashes = set()
    for turn in range(bench.rounds):
        cat.append(bench.to_nowhere("view", "cat", view, "--memory", "1GiB")["wall"])
        for how, flags in (("page-cached", []), ("--direct", ["--direct"])):
            words = [bench.command, "view", "mount", str(view), str(mountpoint), "--memory", "1GiB", *flags]
            server = subprocess.Popen(words, stderr=subprocess.PIPE)
            file = mountpoint / "sorted.bin"
            try:
                while not file.exists():
                    if server.poll() is not None:
                        assert server.stderr is not None
                        return bench.skip("mount", server.stderr.read().decode().strip())
                    time.sleep(0.01)
                started = time.monotonic()
                subprocess.run(["dd", f"if={file}", "of=/dev/null", "bs=1M", "status=none"], check=True)
                through[how].append(time.monotonic() - started)
                if turn == 0:
                    hashes.add(sha256(file))
            finally:
                server.terminate()
                server.wait()
    base = data / statistics.median(cat)
    for how, share, least in (("page-cached", 0.5, 0.6e9), ("--direct", 0.7, 1e9)):
        rate = data / statistics.median(through[how])
        bench.say("mount", f"{how}: bytes/s", rate, f">= {least:.1g}", rate >= least)
        bench.say("mount", f"{how} / view cat", rate / base, f">= {share}", rate / base >= share, cat=f"{base:.3g}")
    bench.say("mount", "different sha256 sums of the file", len(hashes), "1", len(hashes) == 1)
    remove(view)


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(4 * MIB):
            digest.update(block)
    return digest.hexdigest()


def case_seek(bench: Bench) -> None:
    count = (1 << 30) // bench.scale
    source, view = bench.disk / "in", bench.disk / "view"
    bench.gen("u64", count, source)
    bench.run("view", "build", source, "-o", view, "--type", "u64", "--memory", "2GiB",
              "--run-size", str(count * 8 // 64))
    source.unlink()
    os.sync()
    if os.geteuid() == 0:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    seen = rates(bench, view, "1GiB", 1, 400)
    bench.say("seek", "2^30 u64: seeks/s", seen["seeks_per_s"], ">= 200", seen["seeks_per_s"] >= 200,
              runs=seen["runs"], open_s=seen["open_seconds"])
    bench.say("seek", "blocks per run", seen["blocks_per_run"], "<= 2", seen["blocks_per_run"] <= 2)
    remove(view)


def case_materialize(bench: Bench) -> None:
    count = 10_000_000 // bench.scale
    source, view, out = bench.disk / "in", bench.disk / "view", bench.disk / "out"
    bench.gen("gensort", count, source)
    means = ("--type", "gensort", "--memory", "256MiB")
    bench.run("view", "build", source, "-o", view, *means)
    eager: list[float] = []
    viewed: list[float] = []
    for _ in range(bench.rounds):
        done = bench.run("sort", source, "-o", out, *means)
        phases = {phase["name"]: phase["seconds"] for phase in done["phases"]}
        eager.append(phases["sort"] + phases["publish"])
        remove(out)
        viewed.append(bench.run("view", "materialize", view, "-o", out, "--memory", "256MiB")["seconds"])
        remove(out)
    ratio = statistics.median(viewed) / statistics.median(eager)
    bench.say("materialize", "10^7 gensort / eager second phase", ratio, "<= 1.15", ratio <= 1.15,
              eager_s=[round(s, 2) for s in eager], view_s=[round(s, 2) for s in viewed])
    remove(source, view)


def case_figure3(bench: Bench) -> None:
    """ActiveSort's Table 2 and Fig. 3, time to the first record, random ranges, second read: `outcore bench view`."""
    size = str(GIB // bench.scale)
    page, values = bench.results / "bench-view.html", bench.results / "bench-view.json"
    bench.run("bench", "view", bench.disk, "--size", size, "--rounds", "1", "-o", page, "-o", values,
              "--charts", bench.results, "--force")
    report = json.loads(values.read_text())
    for section in report["sections"]:
        for table in section["tables"]:
            for cells in table["rows"]:
                print(f"figure3      {table['id']:10} {cells}", flush=True)


def write_docs(rows: list[Json]) -> None:
    """Writes the measured values between the marks in docs/benchmarks/views.md."""
    begin, end = MARKS
    before, rest = DOCS.read_text().split(begin)
    _, after = rest.split(end)
    lines = [f"Run on {time.strftime('%d %B %Y')}.", "", "| case | measure | asked | reached | met |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        if "skipped" in row:
            lines.append(f"| {row['case']} | skipped: {row['skipped']} | | | |")
            continue
        asked = "" if row["target"] == "-" else row["target"]
        met = "" if not asked else "yes" if row["met"] else "**no**"
        more = [f"{key} {value}" for key, value in row.items() if key not in KNOWN]
        seen = f"{row['seen']:.4g}" + (f" ({'; '.join(more)})" if more else "")
        lines.append(f"| {row['case']} | {row['measure']} | {asked} | {seen} | {met} |")
    DOCS.write_text(f"{before}{begin}\n" + "\n".join(lines) + f"\n{end}{after}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release"
    parser.add_argument("--outcore", type=Path, default=target / "outcore", help="the command")
    parser.add_argument("--rates", type=Path, default=target / "examples" / "view_rates", help="the example")
    parser.add_argument("--only", default=",".join(CASES), help=f"comma-separated: {', '.join(CASES)}")
    parser.add_argument("--scale", type=int, default=1, help="divide all sizes by that")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=Path("/var/tmp"), help="where the drive's files go")
    parser.add_argument("--results", type=Path, default=Path("bench-view"))
    parser.add_argument("--write-docs", action="store_true", help="write the table of docs/benchmarks/views.md")
    options = parser.parse_args()
    wanted = options.only.split(",")
    unknown = [name for name in wanted if name not in CASES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: choose from {', '.join(CASES)}")
    bench = Bench(options)
    try:
        for name in wanted:
            globals()[f"case_{name}"](bench)
    finally:
        bench.close()
        (bench.results / "view.json").write_text(json.dumps(bench.rows, indent=2) + "\n")
    if options.write_docs:
        write_docs(bench.rows)
    missed = [row["measure"] for row in bench.rows if not row.get("met", True)]
    print(f"{len(bench.rows)} measures, {len(missed)} missed" + "".join(f"\n  {name}" for name in missed))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
