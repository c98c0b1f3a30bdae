#!/usr/bin/env python3
"""Compares the simulator's event loop with MQSim's, on this machine: random reads of 4 KiB, 64 in flight.

Contract: runs both alternately on the same two files, `--rounds` times, on a small drive and on the reference's own.
Prints a Markdown table of the event loop's requests per second, without set-up, and the median of the rounds' ratios.
MQSim fills its tables during set-up, while outcore gets memory for its tables when they are touched. A warm-up of
`--warm-up` requests therefore runs first and is not counted. MQSim is built from a checkout (`--mqsim DIR`,
CMU-SAFARI/MQSim at 7ec40e3 was used) in a separate folder; a timer around its event loop is the only change. The
processor time of the whole process is also printed, because a busy machine increases the wall time. Needs g++ and make.
Writes only to a temporary folder.

    python3 benches/sim_speed.py --mqsim ../MQSim --outcore target/release/outcore
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "lab/outcore-sim/tests/fixtures/mqsim"
BLOCKS = {"small": 64, "reference": 2048}
START = "Simulator->Start_simulation();"
TIMED = (
    "auto loop_from = std::chrono::steady_clock::now(); " + START + " std::cerr << \"loop_seconds \""
    " << std::chrono::duration<double>(std::chrono::steady_clock::now() - loop_from).count()"
    " << std::endl;"
)


def build_mqsim(source: Path, place: Path) -> Path:
    """A copy of MQSim that reports the time of its event loop."""
    shutil.copytree(source, place, ignore=shutil.ignore_patterns("build", ".git", "MQSim"))
    main = place / "src/main.cpp"
    text = main.read_text(encoding="utf-8")
    if START not in text:
        sys.exit(f"sim_speed: {main} has no `{START}`; is this CMU-SAFARI/MQSim?")
    main.write_text("#include <chrono>\n" + text.replace(START, TIMED), encoding="utf-8")
    subprocess.run(["make", "-j2"], cwd=place, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return place / "MQSim"


def inputs(place: Path, blocks: int, requests: int) -> tuple[Path, Path]:
    """The two files of a run."""
    ssd = (FIXTURES / "ssd_00.xml").read_text(encoding="utf-8")
    workload = (FIXTURES / "workload_02.xml").read_text(encoding="utf-8")
    values = {"Average_No_of_Reqs_in_Queue": 64, "Total_Requests_To_Generate": requests}
    for key, value in values.items():
        workload, count = re.subn(rf"<{key}>\d+<", f"<{key}>{value}<", workload)
        assert count == 1, key
    ssd, count = re.subn(r"<Block_No_Per_Plane>\d+<", f"<Block_No_Per_Plane>{blocks}<", ssd)
    assert count == 1
    files = place / f"ssd-{blocks}.xml", place / f"workload-{requests}.xml"
    for path, text in zip(files, (ssd, workload)):
        path.write_text(text, encoding="utf-8")
    return files


def timed(command: list[str], pattern: str) -> tuple[float, float]:
    """Seconds of the event loop, and processor seconds of the process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(pattern, done.stderr)
    if done.returncode != 0 or found is None:
        sys.exit(f"sim_speed: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return float(found[1]), cpu


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mqsim", type=Path, required=True, help="checkout of MQSim")
    parser.add_argument("--outcore", type=Path, default=Path("target/release/outcore"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=4_000_000, help="of this simulator")
    parser.add_argument("--warm-up", type=int, default=1_000_000, help="requests before those that count")
    parser.add_argument("--mqsim-requests", type=int, default=128_000)
    args = parser.parse_args()
    outcore = str(args.outcore.resolve())
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        mqsim = str(build_mqsim(args.mqsim.resolve(), place / "mqsim"))
        print("| drive | MQSim, k/s | here, M/s | medians | times (median of the rounds) | best of each |")
        print("|---|---|---|---|---|---|")
        for name, blocks in BLOCKS.items():
            rates: tuple[list[float], list[float]] = ([], [])
            for _ in range(args.rounds):
                ssd, workload = inputs(place, blocks, args.mqsim_requests)
                seconds, cpu = timed([mqsim, "-i", str(ssd), "-w", str(workload)],
                                     r"loop_seconds ([\d.e-]+)")
                rates[0].append(args.mqsim_requests / seconds)
                print(f"{name}: MQSim {rates[0][-1]:,.0f}/s, {cpu:.2f} s of processor",
                      file=sys.stderr)
                ssd, workload = inputs(place, blocks, args.warm_up + args.requests)
                command = [outcore, "sim", "run", "--ssd", str(ssd), "--workload", str(workload),
                           "--compat", "mqsim", "--json", "--time", "--warm-up", str(args.warm_up)]
                seconds, cpu = timed(command, r"event loop: ([\d.]+) s")
                rates[1].append(args.requests / seconds)
                print(f"{name}: here {rates[1][-1]:,.0f}/s, {cpu:.2f} s of processor",
                      file=sys.stderr)
            theirs, own = rates
            ratios = [ours_rate / their_rate for their_rate, ours_rate in zip(theirs, own, strict=True)]
            ratio = statistics.median(ratios)
            best = f"{max(rates[0]) / 1e3:.0f} k/s, {max(rates[1]) / 1e6:.2f} M/s"
            listed = [", ".join(f"{rate / scale:.{digits}f}" for rate in group)
                      for group, scale, digits in ((rates[0], 1e3, 0), (rates[1], 1e6, 2))]
            print(f"| {name}, {blocks} blocks a plane | {listed[0]} | {listed[1]} | "
                  f"{statistics.median(theirs) / 1e3:.0f} k/s, {statistics.median(own) / 1e6:.2f} M/s | {ratio:.1f} | {best} |", flush=True)


if __name__ == "__main__":
    main()
