#!/usr/bin/env python3
"""Compares `outcore bench io` with fio: the same blocks, pattern, block size and depth, in short alternating turns.

    benches/io/against_fio.py DIR [--outcore target/release/outcore] [--size 1GiB] [--seconds 1] [--rounds 11]

Prints a table with the medians of both rates and the median of the rounds' ratios for each load; the goal is within 10
%. Drives and neighbours change their speed within seconds. Therefore a round is two turns of --seconds, one after the
other, and the first program alternates.

All loads use one loop device over a file in DIR, which is written from end to end beforehand: the place of blocks on a
virtual disk, and whether they were ever written, matters more than the program. outcore writes to no existing file.
Without root and loop devices, the reads therefore use that file and the writes are skipped.

outcore's blocks are in huge pages if they have 2 MiB or more in total. fio's are also in huge pages if the kernel sets
some aside (needs root; otherwise the program says so). With small pages, a drive's request can cover only a limited
number of pages, and fio reads half as fast on a virtual disk. Needs fio 3 (Debian: fio). Exits with 1 if a ratio
deviates by more than --tolerance.
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


def fio(path: pathlib.Path, load: tuple[str, str, int], options: argparse.Namespace) -> float:
    """Bytes per second reported by fio."""
    pattern, block, depth = load
    command = [
        "fio", "--name=bench", f"--filename={path}", f"--rw={pattern}",
        f"--bs={to_bytes(block)}", f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1",
        f"--size={to_bytes(options.size)}", f"--runtime={round(options.seconds * 1000)}ms", "--time_based",
        "--norandommap", "--randrepeat=0", "--end_fsync=1", "--thread", "--output-format=json",
    ]
    if path.is_block_device():
        command.append(f"--offset={DEVICE_EDGE_BYTES}")
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


def compare(path: pathlib.Path, load: tuple[str, str, int], options: argparse.Namespace) -> float:
    """Measures one load and prints its row. Returns the median of the rounds' ratios."""
    rates: dict[str, list[float]] = {"fio": [], "outcore": []}
    for number in range(options.rounds):
        turns = [("fio", fio), ("outcore", outcore)]
        for name, measure in turns if number % 2 == 0 else reversed(turns):
            rates[name].append(measure(path, load, options) / 1e6)
    theirs, ours = (statistics.median(rates[name]) for name in ("fio", "outcore"))
    ratios = sorted(o / f for o, f in zip(rates["outcore"], rates["fio"], strict=True))
    ratio = statistics.median(ratios)
    name = f"{load[0]} {load[1]}, {load[2]} in flight"
    print(f"| {name} | {theirs:.1f} | {ours:.1f} | {ratio:.3f} | {quarter(ratios, 1):.2f} to {quarter(ratios, 3):.2f} |", flush=True)
    return ratio


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
    options = parser.parse_args()
    worst = 0.0
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
            print("| load | fio, MB/s | outcore, MB/s | outcore / fio | middle half |\n|---|---|---|---|---|")
            for load in LOADS:
                if options.loads in load[0] and (path.is_block_device() or "write" not in load[0]):
                    worst = max(worst, abs(compare(path, load, options) - 1))
    print(f"furthest from fio: {worst:.1%}, goal {options.tolerance:.0%}")
    return int(worst > options.tolerance)


if __name__ == "__main__":
    sys.exit(main())
