#!/usr/bin/env python3
"""`outcore bench io` beside fio: the same file, pattern, block and depth, by short turns.

    benches/io/against_fio.py DIR [--outcore target/release/outcore] [--size 1GiB] [--seconds 1] [--rounds 11]

Prints a table with the medians of both rates and the median of the rounds' ratios for each load; the goal is
within 10 %. Drives and neighbours change their speed within seconds: a round is two turns of --seconds, one after
the other, and who begins alternates. Reads are of one file that lies in DIR while this runs; a write load writes
over the data of a file of the same size that each program lays out first, the same way (outcore never writes to a
file that is there). N.B. without that, fio would write to room that is only reserved, which takes ext4 twice as long; and just
after a file was laid out small writes are up to half as fast on a virtual disk: both run two turns first that do not count. Where outcore's blocks lie in huge
pages, from 2 MiB in all on, fio's do too if the kernel sets some aside (root; else it says so): of small pages a drive's request
names only so many, and fio then reads half as fast on a virtual disk. Needs fio 3 (Debian: fio). Ends with
1 if a ratio is further off than --tolerance.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

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
# What a load of writes runs, uncounted, between laying its file out and the turn that counts.
SETTLE_TURNS = 2
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def to_bytes(text: str) -> int:
    """`64KiB` as a number."""
    for unit, size in UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * size
    return int(text)


def fio(path: pathlib.Path, load: tuple[str, str, int], options: argparse.Namespace) -> float:
    """Bytes a second that fio reports."""
    if "write" not in load[0]:
        return fio_on(path, load, options)
    with tempfile.TemporaryDirectory(dir=path.parent) as home:
        own = pathlib.Path(home) / "written-by-fio"
        # As outcore lays its file out: in a directory of its own, as that decides where on the drive it comes to lie;
        # room for all of it, then direct writes from end to end.
        lay_out = ["fio", "--name=lay-out", f"--filename={own}", f"--size={to_bytes(options.size)}", "--rw=write", "--bs=1m",
                   "--iodepth=8", "--ioengine=io_uring", "--direct=1", "--end_fsync=1", "--thread", "--output-format=json"]
        fio_rate(lay_out, "write")
        return fio_on(own, load, options, f"--ramp_time={round(SETTLE_TURNS * options.seconds * 1000)}ms")


def fio_on(path: pathlib.Path, load: tuple[str, str, int], options: argparse.Namespace, *more: str) -> float:
    """The same on a file, with more of fio's options."""
    pattern, block, depth = load
    command = [
        "fio", "--name=bench", f"--filename={path}", f"--rw={pattern}",
        f"--bs={to_bytes(block)}", f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1",
        f"--size={to_bytes(options.size)}", f"--runtime={round(options.seconds * 1000)}ms", "--time_based",
        "--norandommap", "--randrepeat=0", "--end_fsync=1", "--thread", "--output-format=json", *more,
    ]
    blocks_bytes = depth * to_bytes(block)
    if blocks_bytes < HUGE_PAGE_BYTES:
        return fio_rate(command, pattern)
    with huge_pages(blocks_bytes // HUGE_PAGE_BYTES + FIO_SPARE_PAGES) as has_pages:
        if not has_pages:
            print("fio: no huge pages to be had, its blocks lie in small ones", file=sys.stderr)
            return fio_rate(command, pattern)
        return fio_rate([*command, "--iomem=mmaphuge"], pattern)


def fio_rate(command: list[str], pattern: str) -> float:
    """Bytes a second that this command of one job reports."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    job = json.loads(done.stdout)["jobs"][0]
    return float(job["write" if "write" in pattern else "read"]["bw_bytes"])


def outcore(path: pathlib.Path, load: tuple[str, str, int], options: argparse.Namespace) -> float:
    """Bytes a second that outcore reports."""
    pattern, block, depth = load
    is_write = "write" in pattern
    loads = 1 + SETTLE_TURNS * is_write
    command = [
        options.outcore, "bench", "io", str(path.parent if is_write else path),
        *["--load", f"{pattern}:{block}:{depth}"] * loads, "--time", f"{loads * options.seconds}s",
        "--size", options.size, "--json",
    ]
    done = subprocess.run(command + ["--write-ok"] * is_write, check=True, capture_output=True, text=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    row = summary["report"]["sections"][0]["tables"][0]["rows"][-1]
    return float(row[1])


def quarter(ratios: list[float], number: int) -> float:
    """A quartile of sorted ratios."""
    return ratios[number * (len(ratios) - 1) // 4]


def main() -> int:
    """Measures all loads; the exit code."""
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
        path = pathlib.Path(home) / "data"
        block = os.urandom(1 << 20)
        with path.open("wb") as file:
            for _ in range(to_bytes(options.size) >> 20):
                file.write(block)
            os.fsync(file.fileno())
        print("| load | fio, MB/s | outcore, MB/s | outcore / fio | middle half |\n|---|---|---|---|---|")
        for load in LOADS:
            if options.loads not in load[0]:
                continue
            rates: dict[str, list[float]] = {"fio": [], "outcore": []}
            for number in range(options.rounds):
                turns = [("fio", fio), ("outcore", outcore)]
                for name, measure in turns if number % 2 == 0 else reversed(turns):
                    rates[name].append(measure(path, load, options) / 1e6)
            theirs, ours = (statistics.median(rates[name]) for name in ("fio", "outcore"))
            ratios = sorted(o / f for o, f in zip(rates["outcore"], rates["fio"], strict=True))
            ratio = statistics.median(ratios)
            worst = max(worst, abs(ratio - 1))
            name = f"{load[0]} {load[1]}, {load[2]} in flight"
            print(f"| {name} | {theirs:.1f} | {ours:.1f} | {ratio:.3f} | {quarter(ratios, 1):.2f} to {quarter(ratios, 3):.2f} |", flush=True)
    print(f"furthest from fio: {worst:.1%}, goal {options.tolerance:.0%}")
    return int(worst > options.tolerance)


if __name__ == "__main__":
    sys.exit(main())
