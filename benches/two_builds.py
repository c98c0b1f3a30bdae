#!/usr/bin/env python3
"""Runs two builds of outcore alternately on the same jobs, and compares their speed and their outputs.

    two_builds.py OLD NEW                        every case, five rounds: about half an hour, 12 GiB of disk
    two_builds.py OLD NEW --only sort-u64,map    some cases
    two_builds.py OLD NEW --scale 16             everything at a sixteenth: does it run?

Each round runs a case with one build and then with the other, and alternates which of them is first. Before each run,
files are written back and, as root, the page cache is dropped except for the program. Speed is the old build's wall
time divided by the new one's, as a median of the rounds' ratios, so that a drift of the machine affects both. Processor
time is compared in the same way. Outputs are compared byte by byte once per case. The old build makes the inputs once;
`--keep` keeps them in `--dir` for the next run.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import platform
import shlex
import shutil
import statistics
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
#: A case that is slower than this, in the median of all rounds, is reported.
SPEED_MIN = 0.97

#: Inputs: a name, and how it is made; N is the number of 8-byte numbers, L of 100-byte lines, E of edges, V of vectors
#: and Q of queries. gensort.txt is gensort.bin under a text name. table.csv is written here: rows of three columns derived from the numbers of
#: u64.bin.
INPUTS = {
    "u64.bin": ["gen", "u64", "-n", "{N}", "-o", "u64.bin"],
    "sorted.bin": ["sort", "u64.bin", "--type", "u64", "-o", "sorted.bin"],
    "gensort.bin": ["gen", "gensort", "-a", "-n", "{L}", "-o", "gensort.bin"],
    "gensort-sorted.bin": ["sort", "gensort.bin", "--type", "gensort", "-o", "gensort-sorted.bin"],
    "lines-1": ["sort", "gensort.txt", "-o", "lines-1"],
    "table.csv": [],
    "rows.parquet": ["convert", "table.csv", "--csv", "--infer", "-o", "rows.parquet"],
    "table.parquet": ["map", "'f = f64(a) / 7.0'", "rows.parquet", "-o", "table.parquet"],
    "table.jsonl": ["convert", "table.parquet", "-o", "table.jsonl"],
    "edges.u32": ["gen", "u32x2", "-n", "{E}", "--dist", "rmat:20", "-o", "edges.u32"],
    "edges.graph": ["graph", "convert", "edges.u32", "--type", "u32", "-o", "edges.graph"],
    "both.graph": ["graph", "convert", "edges.u32", "--type", "u32", "--undirected", "--drop-loops",
                   "-o", "both.graph"],
    "base.f32": ["gen", "f32x64", "-n", "{V}", "--dist", "clusters:100", "-o", "base.f32"],
    "queries.f32": ["gen", "f32x64", "-n", "{Q}", "--dist", "clusters:100", "--seed", "2", "-o", "queries.f32"],
}
#: Cases: a name, and the arguments after the command's name. `out` is the place of the output.
CASES = {
    "sort-u64": "sort u64.bin --type u64 -o out --memory 256MiB",
    "sort-u64-64": "sort u64.bin --type u64 -o out --memory 64MiB",
    "sort-gensort": "sort gensort.txt --type gensort -o out --memory 256MiB",
    "sort-gensort-64": "sort gensort.txt --type gensort -o out --memory 64MiB",
    "sort-lines": "sort gensort.txt -o out --memory 256MiB",
    "sort-lines-64": "sort gensort.txt -o out --memory 64MiB",
    "sort-lines-key": "sort gensort.txt -k2,2 -o out --memory 256MiB",
    "sort-lines-stable": "sort -s gensort.txt -k2,2 -o out --memory 256MiB",
    "sort-lines-unique": "sort -u gensort.txt -o out --memory 256MiB",
    "sort-csv": "sort --csv --by a table.csv -o out --memory 256MiB",
    "sort-check": "sort -c lines-1",
    "merge-lines": "sort -m lines-1 lines-1 lines-1 -o out --memory 256MiB",
    "shuffle-u64": "shuffle u64.bin --type u64 -o out --memory 256MiB",
    "shuffle-lines": "shuffle gensort.txt -o out --memory 256MiB",
    "shuffle-lines-64": "shuffle gensort.txt -o out --memory 64MiB",
    "unique": "unique u64.bin --type u64 -o out --memory 256MiB",
    "count-by": "count-by 'x % 1000' u64.bin --type u64 -o out --memory 256MiB",
    "map": "map 'x * 2 + 1' u64.bin --type u64 -o out --memory 256MiB",
    "filter": "filter 'x % 3 == 0' u64.bin --type u64 -o out --memory 256MiB",
    "reduce": "reduce sum u64.bin --type u64 --memory 256MiB",
    "scan": "scan sum u64.bin --type u64 -o out --memory 256MiB",
    "top": "top -n 1000 u64.bin --type u64",
    "verify": "verify sorted.bin --type u64",
    "verify-gensort": "verify gensort-sorted.bin --type gensort",
    "view-build": "view build u64.bin --type u64 -o view --memory 256MiB",
    "view-cat": "view cat view --memory 256MiB",
    "view-build-lines": "view build gensort.txt --lines -o view-lines --memory 256MiB",
    "view-cat-lines": "view cat view-lines --memory 256MiB",
    "table-sort": "sort table.parquet --by b --by a:desc -o out.parquet --memory 256MiB",
    "table-sort-float": "sort table.parquet --by f -o out.parquet --memory 256MiB",
    "table-shuffle": "shuffle table.parquet -o out.parquet --memory 256MiB --seed 1",
    "table-filter": "filter 'a > 500000000.5' table.parquet -o out.parquet --memory 256MiB",
    "table-json": "convert table.jsonl -o out.parquet --memory 256MiB",
    "table-group": "group-by table.parquet --by b --agg 'count,sum(a),max(f)' -o out.parquet --memory 256MiB",
    "table-join": "join table.parquet table.parquet --on a,b -o out.parquet --memory 256MiB",
    "table-dedup": "dedup table.parquet --by b -o out.parquet --memory 256MiB",
    "graph-convert": "graph convert edges.u32 --type u32 -o graph --memory 256MiB",
    "graph-pagerank": "graph pagerank edges.graph -o out --memory 64MiB",
    "graph-cc": "graph cc both.graph -o out --memory 64MiB",
    "graph-bfs": "graph bfs both.graph --source 1 -o out --memory 64MiB",
    "graph-kcore": "graph kcore both.graph -o out --memory 64MiB",
    "graph-triangles": "graph triangles both.graph -o out --memory 256MiB",
    "knn": "knn base.f32 queries.f32 --type f32x64 -k 10 -o out --memory 256MiB",
    "kmeans": "kmeans base.f32 --type f32x64 -k 64 --max-iterations 5 -o out --memory 256MiB",
    "gen-u64": "gen u64 -n {N} -o out",
    "gen-gensort": "gen gensort -a -n {L} -o out",
    "tiny": "sort tiny.bin --type u64 -o out",
}
#: Cases that write to standard output, which is redirected to a file.
TO_STDOUT = ("reduce", "top", "view-cat", "view-cat-lines", "verify", "verify-gensort", "sort-check")


@dataclass
class Seen:
    """Result of a case."""

    case: str
    old_seconds: float
    new_seconds: float
    speed: float
    processor: float
    is_same: bool


class Builds:
    """The two programs and the directory that they work in."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.old, self.new = options.old.resolve(), options.new.resolve()
        self.dir: Path = options.dir.resolve() / "two-builds"
        self.dir.mkdir(parents=True, exist_ok=True)
        self.rounds: int = options.rounds
        counts = {"N": 1 << 27, "L": 10_000_000, "E": 1 << 24, "V": 1 << 20, "Q": 1 << 10}
        self.counts = {name: str(count // options.scale) for name, count in counts.items()}
        self.is_root = os.geteuid() == 0
        # The measurements of drives by one build must not affect the plans of the other.
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.dir / "cache")}

    def words(self, build: Path, text: str) -> list[str]:
        for name, count in self.counts.items():
            text = text.replace("{" + name + "}", count)
        return [str(build), *shlex.split(text)]

    def run(self, words: list[str], stdout: Path | None = None) -> None:
        with open(stdout or os.devnull, "wb") as out:
            done = subprocess.run(
                words, cwd=self.dir, stdout=out, stderr=subprocess.PIPE, env=self.environment, check=False
            )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)}: {done.returncode}\n{done.stderr.decode()}")

    def make_inputs(self) -> None:
        for name, words in INPUTS.items():
            path = self.dir / name
            if path.exists():
                continue
            if not words:
                self.make_table(path)
                continue
            self.run(self.words(self.old, " ".join(words)))
            if name == "gensort.bin":
                (self.dir / "gensort.txt").symlink_to("gensort.bin")
        (self.dir / "tiny.bin").write_bytes((self.dir / "u64.bin").open("rb").read(8192))

    def make_table(self, path: Path) -> None:
        """Rows of three columns derived from the numbers of u64.bin."""
        with open(self.dir / "u64.bin", "rb") as numbers, open(path, "w", encoding="ascii") as table:
            table.write("a,b,c\n")
            for _ in range(int(self.counts["L"]) // 2000):
                values = struct.unpack("<1000Q", numbers.read(8000))
                table.writelines(f"{value % 10**9},name{value % 10**6},x\n" for value in values)

    def once(self, build: Path, case: str) -> tuple[float, float]:
        """Wall and processor seconds of one run."""
        words = self.words(build, CASES[case])
        if case not in TO_STDOUT:
            words.append("--force")
        for out in self.dir.glob("out*"):
            out.unlink()
        os.sync()
        if self.is_root:
            Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
            # Reads the program into the page cache, because jobs are compared and not the time to load the program.
            build.read_bytes()
        before, started = os.times(), time.monotonic()
        self.run(words, self.dir / "out" if case in TO_STDOUT else None)
        wall, after = time.monotonic() - started, os.times()
        processor = after.children_user + after.children_system - before.children_user - before.children_system
        return wall, processor

    def kept(self, case: str) -> Path | None:
        """The output of a case; none for a directory."""
        if case.startswith("view-build") or case == "graph-convert":
            return None
        return self.dir / ("out.parquet" if case.startswith("table-") else "out")

    def compare(self, case: str) -> Seen:
        walls: dict[Path, list[float]] = {self.old: [], self.new: []}
        ratios, processors = [], []
        is_same = True
        for number in range(self.rounds):
            took: dict[Path, tuple[float, float]] = {}
            order = (self.old, self.new) if number % 2 == 0 else (self.new, self.old)
            for build in order:
                took[build] = self.once(build, case)
                out = self.kept(case)
                if number == 0 and out is not None:
                    if build == order[0]:
                        out.rename(self.dir / "first")
                    else:
                        is_same = filecmp.cmp(out, self.dir / "first", shallow=False)
                        (self.dir / "first").unlink()
            for build in order:
                walls[build].append(took[build][0])
            ratios.append(took[self.old][0] / took[self.new][0])
            processors.append(took[self.old][1] / max(took[self.new][1], 0.01))
        median = statistics.median
        old, new = median(walls[self.old]), median(walls[self.new])
        return Seen(case, old, new, median(ratios), median(processors), is_same)


def processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def table(seen: list[Seen], rounds: int) -> str:
    lines = [
        f"{processor_name()}, {os.cpu_count()} cores, medians of {rounds} rounds.",
        "",
        "| case | old, s | new, s | speed | processor time | bytes |",
        "|---|---|---|---|---|---|",
    ]
    for row in seen:
        speed = f"{row.speed:.2f}" if row.speed >= SPEED_MIN else f"**{row.speed:.2f}**"
        same = "same" if row.is_same else "**differ**"
        lines.append(
            f"| {row.case} | {row.old_seconds:.2f} | {row.new_seconds:.2f} | {speed} | {row.processor:.2f} | {same} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the build to compare with")
    parser.add_argument("new", type=Path, help="the build that is measured")
    parser.add_argument("--dir", type=Path, default=REPOSITORY / "benches" / "peers" / "build")
    parser.add_argument("--only", default="", help="cases, with commas between them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=int, default=1, help="divides all sizes")
    parser.add_argument("--keep", action="store_true", help="keep the inputs")
    options = parser.parse_args()
    wanted = [case for case in options.only.split(",") if case] or list(CASES)
    unknown = [case for case in wanted if case not in CASES]
    if unknown:
        parser.error(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
    builds = Builds(options)
    seen = []
    try:
        builds.make_inputs()
        for case in wanted:
            seen.append(builds.compare(case))
            print(json.dumps(vars(seen[-1])), flush=True)
    finally:
        if not options.keep:
            shutil.rmtree(builds.dir, ignore_errors=True)
    text = table(seen, options.rounds)
    print(text)
    return 0 if all(row.is_same for row in seen) else 1


if __name__ == "__main__":
    sys.exit(main())
