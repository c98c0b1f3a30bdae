#!/usr/bin/env python3
"""Compares `outcore bench io` with fio: the same blocks, pattern, block size and depth, in short alternating turns.

    benches/io/against_fio.py DIR [--outcore target/release/outcore] [--size 1GiB] [--seconds 1] [--rounds 11]

Prints a table with the medians of both rates, and the median and the spread of the rounds' ratios for each load; the
goal is within 10 %. --write-docs puts it into docs/benchmarks/volumes.md. Drives and neighbours change their speed
within seconds. Therefore a round is two turns of --seconds, one after the other, and the first program alternates.

All loads use one loop device over a file in DIR, which is written from end to end beforehand: the place of blocks on a
virtual disk, and whether they were ever written, matters more than the program. outcore writes to no existing file.
Without root and loop devices, the reads therefore use that file and the writes are skipped.

outcore's blocks are in huge pages if they have 2 MiB or more in total. fio's are also in huge pages if the kernel sets
some aside (needs root; otherwise the program says so). With small pages, a drive's request can cover only a limited
number of pages, and fio reads half as fast on a virtual disk. Both programs register their buffers with the ring
(outcore if the kernel has 6.15's transfers of registered memory); fio also registers its file. Needs fio 3 (Debian:
fio). Exits with 1 if a ratio deviates by more than --tolerance.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
from peerbench.floor import FIO_SPARE_PAGES, HUGE_PAGE_BYTES, huge_pages  # noqa: E402

LOADS = [
    ("read", "1MiB", 8),
    ("read", "64KiB", 16),
    ("randread", "4KiB", 1),
    ("randread", "4KiB", 32),
    ("write", "1MiB", 8),
    ("randwrite", "4KiB", 32),
]
# `bench io` writes to a device only if both its edges are empty, and never writes to the edges.
DEVICE_EDGE_BYTES = 1 << 20
# A median of fewer rounds says nothing about their spread.
ROUNDS_MIN = 5
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "volumes.md"
MARKS = ("<!-- bench-fio: begin -->", "<!-- bench-fio: end -->")
HEAD = (
    "| load | fio, MB/s | outcore, MB/s | outcore / fio | middle half of the rounds | all rounds | met |",
    "|---|---|---|---|---|---|---|",
)
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def to_bytes(text: str) -> int:
    """The number of bytes in a text such as `64KiB`."""
    for unit, size in UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * size
    return int(text)


@contextlib.contextmanager
def blocks_of(file: pathlib.Path) -> Iterator[pathlib.Path]:
    """A loop device over the file; the file itself if loop devices are not available."""
    made = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", str(file)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        print(f"SKIP the writes, as there is no loop device: {made.stderr.strip()}", file=sys.stderr)
        yield file
        return
    device = made.stdout.strip()
    try:
        yield pathlib.Path(device)
    finally:
        subprocess.run(["losetup", "--detach", device], check=False)


def fio_command(path: pathlib.Path, load: tuple[str, str, int], options: argparse.Namespace) -> list[str]:
    """fio's command for one load, without the memory of its blocks."""
    pattern, block, depth = load
    command = [
        "fio", "--name=bench", f"--filename={path}", f"--rw={pattern}",
        f"--bs={to_bytes(block)}", f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1",
        f"--size={to_bytes(options.size)}", f"--runtime={round(options.seconds * 1000)}ms", "--time_based",
        "--norandommap", "--randrepeat=0", "--end_fsync=1", "--thread", "--output-format=json",
    ]
    if not options.plain:
        command += ["--fixedbufs", "--registerfiles"]
    if path.is_block_device():
        command.append(f"--offset={DEVICE_EDGE_BYTES}")
    return command


def fio(path: pathlib.Path, load: tuple[str, str, int], options: argparse.Namespace) -> float:
    """Bytes per second reported by fio."""
    pattern, block, depth = load
    command = fio_command(path, load, options)
    blocks_bytes = depth * to_bytes(block)
    if blocks_bytes < HUGE_PAGE_BYTES:
        return fio_rate(command, pattern)
    with huge_pages(blocks_bytes // HUGE_PAGE_BYTES + FIO_SPARE_PAGES) as has_pages:
        if not has_pages:
            print("fio: no huge pages to be had, its blocks lie in small ones", file=sys.stderr)
            return fio_rate(command, pattern)
        return fio_rate([*command, "--iomem=mmaphuge"], pattern)


def fio_rate(command: list[str], pattern: str) -> float:
    """Bytes per second reported by this command, which runs one job."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    job = json.loads(done.stdout)["jobs"][0]
    return float(job["write" if "write" in pattern else "read"]["bw_bytes"])


def outcore(path: pathlib.Path, load: tuple[str, str, int], options: argparse.Namespace) -> float:
    """Bytes per second reported by outcore."""
    pattern, block, depth = load
    command = [
        options.outcore, "bench", "io", str(path), "--load", f"{pattern}:{block}:{depth}", "--time", f"{options.seconds}s",
        "--size", options.size, "--json",
    ]
    command += ["--write-ok"] * ("write" in pattern)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    row = summary["report"]["sections"][0]["tables"][0]["rows"][-1]
    return float(row[1])


def quarter(ratios: list[float], number: int) -> float:
    """A quartile of sorted ratios."""
    return ratios[number * (len(ratios) - 1) // 4]


class Row:
    """One load: the rates of both programs in every round, in MB/s."""

    def __init__(self, load: tuple[str, str, int], theirs: list[float], ours: list[float]) -> None:
        self.load = load
        self.theirs, self.ours = statistics.median(theirs), statistics.median(ours)
        self.ratios = sorted(own / other for own, other in zip(ours, theirs, strict=True))
        self.ratio = statistics.median(self.ratios)

    def text(self, tolerance: float) -> str:
        """The row of the table."""
        pattern, block, depth = self.load
        name = pattern.replace("rand", "random ")
        size = f"{block[:-3]} {block[-3:]}"
        if abs(self.ratio - 1) <= tolerance:
            met = "yes"
        else:
            met = "**no**, outcore is faster" if self.ratio > 1 else "**no**"
        spread = f"{quarter(self.ratios, 1):.2f} to {quarter(self.ratios, 3):.2f}"
        ends = f"{self.ratios[0]:.2f} to {self.ratios[-1]:.2f}"
        rates = f"{self.theirs:.4g} | {self.ours:.4g}"
        return f"| {name} {size}, {depth} in flight | {rates} | {self.ratio:.3f} | {spread} | {ends} | {met} |"


def compare(path: pathlib.Path, load: tuple[str, str, int], options: argparse.Namespace) -> Row:
    """Measures one load in alternating turns."""
    rates: dict[str, list[float]] = {"fio": [], "outcore": []}
    for number in range(options.rounds):
        turns = [("fio", fio), ("outcore", outcore)]
        for name, measure in turns if number % 2 == 0 else reversed(turns):
            rates[name].append(measure(path, load, options) / 1e6)
    return Row(load, rates["fio"], rates["outcore"])


def write_docs(lines: list[str]) -> None:
    """Replaces the table of the page."""
    before = PAGE.read_text()
    begin, end = before.index(MARKS[0]) + len(MARKS[0]), before.index(MARKS[1])
    PAGE.write_text(before[:begin] + "\n" + "\n".join(lines) + "\n" + before[end:])


def main() -> int:
    """Measures all loads. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--outcore", default="target/release/outcore")
    parser.add_argument("--size", default="1GiB")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--loads", default="", help="only those whose name has this in it, as `rand` or `write`")
    parser.add_argument("--tolerance", type=float, default=0.10)
    parser.add_argument("--plain", action="store_true", help="fio registers neither its buffers nor its file")
    parser.add_argument("--write-docs", action="store_true", help="replace the table of docs/benchmarks/volumes.md")
    options = parser.parse_args()
    if options.rounds < ROUNDS_MIN:
        parser.error(f"--rounds must be at least {ROUNDS_MIN}: fewer show no spread")
    worst = 0.0
    lines = list(HEAD)
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="against-fio-") as home:
        file = pathlib.Path(home) / "data"
        block = os.urandom(1 << 20)
        with file.open("wb") as out:
            edge = bytes(DEVICE_EDGE_BYTES)
            out.write(edge)
            for _ in range(to_bytes(options.size) >> 20):
                out.write(block)
            out.write(edge)
            os.fsync(out.fileno())
        with blocks_of(file) as path:
            print("\n".join(HEAD))
            for load in LOADS:
                if options.loads in load[0] and (path.is_block_device() or "write" not in load[0]):
                    row = compare(path, load, options)
                    lines.append(row.text(options.tolerance))
                    print(lines[-1], flush=True)
                    worst = max(worst, abs(row.ratio - 1))
    if options.write_docs:
        write_docs(lines)
    print(f"furthest from fio: {worst:.1%}, goal {options.tolerance:.0%}")
    return int(worst > options.tolerance)


if __name__ == "__main__":
    sys.exit(main())
