#!/usr/bin/env python3
"""Compares the simulator's speed with MQSim's, on this machine, in five cases.

Contract: writes the same two input files for both programs, runs them alternately `--rounds` times, and prints a
Markdown table. A case's time in outcore is the processor time of the whole process, so it includes set-up. For MQSim
the table has the processor time of its event loop alone and of the whole process. `times` is the median over the
rounds of the event loop of MQSim over the whole process of outcore. Both simulate the same requests. MQSim is built
from a checkout (`--mqsim DIR`, CMU-SAFARI/MQSim at 7ec40e3 was used) in a separate folder; a timer around its event
loop is the only change. Needs g++ and make. Writes only to a temporary folder.

    python3 benches/sim_speed.py --mqsim ../MQSim --outcore target/release/outcore
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "lab/outcore-sim/tests/fixtures/mqsim"
START = "Simulator->Start_simulation();"
TIMED = (
    "std::clock_t loop_from = std::clock(); " + START + " std::cerr << \"loop_seconds \""
    " << double(std::clock() - loop_from) / CLOCKS_PER_SEC << std::endl;"
)
TRACE_REQUESTS = 100_000
TRACE_FLOW = """<?xml version="1.0" encoding="us-ascii"?>
<MQSim_IO_Scenarios><IO_Scenario><IO_Flow_Parameter_Set_Trace_Based><Priority_Class>HIGH</Priority_Class>
<Device_Level_Data_Caching_Mode>WRITE_CACHE</Device_Level_Data_Caching_Mode>
<Channel_IDs>0,1,2,3,4,5,6,7</Channel_IDs><Chip_IDs>0,1,2,3</Chip_IDs><Die_IDs>0,1</Die_IDs><Plane_IDs>0,1</Plane_IDs>
<Initial_Occupancy_Percentage>75</Initial_Occupancy_Percentage><File_Path>{trace}</File_Path>
<Percentage_To_Be_Executed>100</Percentage_To_Be_Executed><Relay_Count>1</Relay_Count>
<Time_Unit>NANOSECOND</Time_Unit></IO_Flow_Parameter_Set_Trace_Based></IO_Scenario></MQSim_IO_Scenarios>
"""


@dataclasses.dataclass
class Case:
    """A drive and a workload of the fixtures, with other values."""

    name: str
    drive: str
    drive_values: dict[str, object]
    workload: str | None
    workload_values: dict[str, object]


READS = {"Average_No_of_Reqs_in_Queue": 64, "Total_Requests_To_Generate": 128_000}
CASES = [
    Case("random reads, 64 blocks per plane", "ssd_00", {"Block_No_Per_Plane": 64}, "workload_02", READS),
    Case("random reads, 2048 blocks per plane", "ssd_00", {}, "workload_02", READS),
    Case("uncached writes, 2048 blocks per plane", "ssd_00", {}, "workload_06", READS),
    Case("uncached writes with collection", "ssd_09", {}, "workload_16", {}),
    Case("trace: 70 % reads of 4 to 64 KiB", "ssd_00", {}, None, {}),
]


def build_mqsim(source: Path, place: Path) -> Path:
    """A copy of MQSim that reports the processor time of its event loop."""
    shutil.copytree(source, place, ignore=shutil.ignore_patterns("build", ".git", "MQSim"))
    main_file = place / "src/main.cpp"
    text = main_file.read_text(encoding="utf-8")
    if START not in text:
        sys.exit(f"sim_speed: {main_file} has no `{START}`; is this CMU-SAFARI/MQSim?")
    main_file.write_text("#include <ctime>\n" + text.replace(START, TIMED), encoding="utf-8")
    subprocess.run(["make", "-j2"], cwd=place, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return place / "MQSim"


def with_values(name: str, values: dict[str, object]) -> str:
    """A fixture with other values."""
    text = (FIXTURES / f"{name}.xml").read_text(encoding="utf-8")
    for key, value in values.items():
        text, count = re.subn(rf"<{key}>[^<]+<", f"<{key}>{value}<", text)
        assert count == 1, key
    return text


def write_trace(path: Path) -> None:
    """Requests at random times and places, in MQSim's ASCII format."""
    rng = random.Random(1)
    at = 0
    with path.open("w", encoding="ascii") as file:
        for _ in range(TRACE_REQUESTS):
            at += int(rng.expovariate(1 / 20_000)) + 1
            sectors = rng.choice([8, 8, 8, 16, 32, 128])
            sector = rng.randrange(1 << 22) * 8
            file.write(f"{at} 0 {sector} {sectors} {int(rng.random() < 0.7)}\n")


def inputs(place: Path, at: int, case: Case) -> tuple[Path, Path]:
    """The two files of a case."""
    ssd, workload = place / f"ssd-{at}.xml", place / f"workload-{at}.xml"
    ssd.write_text(with_values(case.drive, case.drive_values), encoding="utf-8")
    if case.workload is None:
        trace = place / f"{at}.trace"
        write_trace(trace)
        text = TRACE_FLOW.format(trace=trace)
    else:
        text = with_values(case.workload, case.workload_values)
    workload.write_text(text, encoding="utf-8")
    return ssd, workload


def measured(command: list[str]) -> tuple[str, float]:
    """The text that a command writes to standard error, and its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"sim_speed: {' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stderr, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compare(case: Case, mqsim: list[str], outcore: list[str], rounds: int) -> str:
    """The row of a case."""
    loops, wholes, owns = [], [], []
    for _ in range(rounds):
        text, whole = measured(mqsim)
        found = re.search(r"loop_seconds ([\d.e+-]+)", text)
        if found is None:
            sys.exit("sim_speed: MQSim reports no loop_seconds")
        loops.append(float(found[1]))
        wholes.append(whole)
        owns.append(measured(outcore)[1])
    times = [loop / own for loop, own in zip(loops, owns, strict=True)]
    all_times = [whole / own for whole, own in zip(wholes, owns, strict=True)]
    return (f"| {case.name} | {statistics.median(loops):.2f} | {statistics.median(wholes):.2f} | "
            f"{statistics.median(owns):.3f} | {min(times):.1f}, {statistics.median(times):.1f}, {max(times):.1f} | "
            f"{statistics.median(all_times):.1f} |")


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mqsim", type=Path, required=True, help="checkout of MQSim")
    parser.add_argument("--outcore", type=Path, default=Path("target/release/outcore"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", type=int, action="append", help="only these cases, from 1")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        mqsim = build_mqsim(args.mqsim.resolve(), place / "mqsim")
        print("| case | MQSim: event loop, s | MQSim: process, s | outcore: process, s | "
              "times: least, median, most | process over process |")
        print("|---|---|---|---|---|---|")
        for at, case in enumerate(CASES, 1):
            if args.case and at not in args.case:
                continue
            ssd, workload = inputs(place, at, case)
            theirs = [str(mqsim), "-i", str(ssd), "-w", str(workload)]
            own = [str(args.outcore.resolve()), "sim", "run", "--ssd", str(ssd), "--workload", str(workload),
                   "--compat", "mqsim", "--json"]
            print(compare(case, theirs, own, args.rounds), flush=True)


if __name__ == "__main__":
    main()
