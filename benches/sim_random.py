#!/usr/bin/env python3
"""Compares the simulator with MQSim on drives and workloads drawn at random, with one to four flows.

Contract: draws `--count` pairs of a drive and a workload from `--seed`, writes them as MQSim's two input files, and
runs both programs on them. A pair agrees if each flow's requests are equal and its mean response, its mean end-to-end
time and the end of the run are within `--tolerance`. Prints a line per pair that is not equal to 1e-6, then a table. Pairs on which
MQSim crashes, stops with an error or does not end within `--limit` seconds are counted apart. Exits with 1 if a pair
that MQSim completes does not agree. MQSim is built from a checkout (`--mqsim DIR`, CMU-SAFARI/MQSim at 7ec40e3) in a
separate folder; the only change prints the exact sums of its report. Needs g++ and make. `--keep DIR` keeps the files
of these pairs.

    python3 benches/sim_random.py --mqsim ../MQSim --outcore target/release/outcore --count 100 --seed 1
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[1] / "lab/outcore-sim/tests/fixtures/mqsim"
REPORT = "void IO_Flow_Base::Report_results_in_XML(std::string name_prefix, Utils::XmlWriter& xmlwriter)"
EXACT = (
    '\tstd::cerr << "flow " << STAT_serviced_request_count << " " << STAT_sum_device_response_time'
    ' << " " << STAT_sum_request_delay << " " << Simulator->Time() << std::endl;'
)


@dataclasses.dataclass
class Flow:
    """The results of a flow; times in nanoseconds."""

    requests: int
    response_ns: float
    end_to_end_ns: float


@dataclasses.dataclass
class Result:
    """The results of a run."""

    flows: list[Flow]
    end_ns: int


def build_mqsim(source: Path, place: Path) -> Path:
    """A copy of MQSim that reports exact sums."""
    shutil.copytree(source, place, ignore=shutil.ignore_patterns("build", ".git", "MQSim"))
    path = place / "src/host/IO_Flow_Base.cpp"
    text = path.read_text(encoding="utf-8")
    head, found, rest = text.partition(REPORT)
    if not found:
        sys.exit(f"sim_random: {path} has no `{REPORT}`; is this CMU-SAFARI/MQSim?")
    body = rest.replace("{", "{\n" + EXACT, 1)
    path.write_text("#include <iostream>\n" + head + found + body, encoding="utf-8")
    subprocess.run(["make", "-j2"], cwd=place, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return place / "MQSim"


def tag(name: str, value: object) -> str:
    """An element."""
    return f"<{name}>{value}</{name}>"


def draw_drive(rng: random.Random) -> dict[str, object]:
    """The values of a drive that differ from the fixture's."""
    return {
        "Enabled_Preconditioning": rng.choice(["false", "false", "true"]),
        "Data_Cache_Sharing_Mode": rng.choice(["SHARED", "SHARED", "EQUAL_PARTITIONING"]),
        "Data_Cache_Capacity": rng.choice([1, 4, 16, 256]) << 20,
        "Ideal_Mapping_Table": rng.choice(["true", "true", "false"]),
        "CMT_Capacity": rng.choice([64, 256, 2048]) << 10,
        "Plane_Allocation_Scheme": rng.choice(["CWDP", "PDCW", "WDPC", "DPCW", "CPWD"]),
        "Queue_Fetch_Size": rng.choice([8, 64, 512]),
        "Flash_Channel_Count": rng.choice([1, 2, 3, 4, 8]),
        "Chip_No_Per_Channel": rng.choice([1, 2, 3, 4]),
        "Die_No_Per_Chip": rng.choice([1, 2]),
        "Plane_No_Per_Die": rng.choice([1, 2, 4]),
        "Block_No_Per_Plane": rng.choice([64, 128]),
        "Page_No_Per_Block": rng.choice([64, 128, 256]),
        "Page_Capacity": rng.choice([4096, 8192, 16384]),
        "Flash_Technology": rng.choice(["SLC", "MLC", "TLC"]),
    }


def draw_flow(rng: random.Random, drive: dict[str, object], requests: int) -> str:
    """A flow that may use the whole drive."""
    def ids(key: str) -> str:
        return ",".join(str(number) for number in range(int(drive[key])))
    by_rate = rng.random() < 0.2
    values = [
        ("Priority_Class", rng.choice(["HIGH", "HIGH", "URGENT", "MEDIUM", "LOW"])),
        ("Device_Level_Data_Caching_Mode", rng.choice(["TURNED_OFF", "WRITE_CACHE", "WRITE_CACHE"])),
        ("Channel_IDs", ids("Flash_Channel_Count")),
        ("Chip_IDs", ids("Chip_No_Per_Channel")),
        ("Die_IDs", ids("Die_No_Per_Chip")),
        ("Plane_IDs", ids("Plane_No_Per_Die")),
        ("Initial_Occupancy_Percentage", rng.choice([25, 50, 70])),
        ("Working_Set_Percentage", rng.choice([20, 50, 80])),
        ("Synthetic_Generator_Type", "BANDWIDTH" if by_rate else "QUEUE_DEPTH"),
        ("Read_Percentage", rng.choice([0, 30, 50, 70, 100, 100])),
        ("Address_Distribution", rng.choice(["RANDOM_UNIFORM", "RANDOM_UNIFORM", "RANDOM_HOTCOLD", "STREAMING"])),
        ("Percentage_of_Hot_Region", rng.choice([5, 20])),
        ("Generated_Aligned_Addresses", rng.choice(["true", "true", "false"])),
        ("Address_Alignment_Unit", rng.choice([8, 16])),
        ("Request_Size_Distribution", "FIXED"),
        ("Average_Request_Size", rng.choice([1, 8, 8, 16, 64])),
        ("Variance_Request_Size", 0),
        ("Seed", rng.randrange(1, 10_000)),
        ("Average_No_of_Reqs_in_Queue", rng.choice([1, 4, 16, 64])),
        ("Bandwidth", rng.choice([10, 40]) * 1_000_000),
        ("Stop_Time", 0),
        ("Total_Requests_To_Generate", requests),
    ]
    return tag("IO_Flow_Parameter_Set_Synthetic", "".join(tag(*value) for value in values))


def draw(rng: random.Random, place: Path, flows_max: int, requests: int) -> tuple[Path, Path]:
    """The two files of a pair."""
    drive = draw_drive(rng)
    text = (FIXTURES / "ssd_00.xml").read_text(encoding="utf-8")
    for key, value in drive.items():
        text, count = re.subn(rf"<{key}>[^<]*<", f"<{key}>{value}<", text)
        assert count == 1, key
    flows = "".join(draw_flow(rng, drive, requests) for _ in range(rng.randint(1, flows_max)))
    files = place / "ssd.xml", place / "workload.xml"
    head = '<?xml version="1.0" encoding="us-ascii"?>\n'
    files[0].write_text(text, encoding="utf-8")
    files[1].write_text(head + tag("MQSim_IO_Scenarios", tag("IO_Scenario", flows)), encoding="utf-8")
    return files


def run_mqsim(mqsim: Path, files: tuple[Path, Path], limit_s: float) -> Result | str:
    """The report of MQSim, or the way in which it failed."""
    command = [str(mqsim), "-i", str(files[0]), "-w", str(files[1])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode < 0:
        return "crashes"
    rows = [[int(word) for word in line.split()[1:]]
            for line in done.stderr.splitlines() if line.startswith("flow ")]
    if done.returncode > 0 or not rows:
        return "stops with an error"
    flows = [Flow(count, response / max(count, 1), delay / max(count, 1)) for count, response, delay, _ in rows]
    return Result(flows, rows[0][3])


def run_outcore(outcore: str, files: tuple[Path, Path]) -> Result | str:
    """The report of the simulator, or its error."""
    command = [outcore, "sim", "run", "--ssd", str(files[0]), "--workload", str(files[1]),
               "--compat", "mqsim", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        return [line for line in done.stderr.splitlines() if "error" in line][0]
    told = json.loads(done.stdout.splitlines()[-1])
    flows = [Flow(flow["requests"], flow["mean_response_ns"], flow["mean_end_to_end_ns"]) for flow in told["flows"]]
    return Result(flows, told["total"]["sim_end_ns"])


def difference(own: Result, theirs: Result) -> float:
    """The largest relative difference; 1 if the numbers of requests differ."""
    worst = abs(own.end_ns / theirs.end_ns - 1)
    for mine, other in zip(own.flows, theirs.flows, strict=True):
        if mine.requests != other.requests:
            return 1.0
        for value, wanted in ((mine.response_ns, other.response_ns), (mine.end_to_end_ns, other.end_to_end_ns)):
            worst = max(worst, abs(value / wanted - 1) if wanted else 0.0)
    return worst


def main() -> None:
    """Compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mqsim", type=Path, required=True, help="checkout of MQSim")
    parser.add_argument("--outcore", type=Path, default=Path("target/release/outcore"))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--flows", type=int, default=4, help="most flows of a workload")
    parser.add_argument("--requests", type=int, default=3000, help="per flow")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a run of MQSim")
    parser.add_argument("--tolerance", type=float, default=0.03)
    parser.add_argument("--keep", type=Path, help="folder for the files of pairs that are not equal")
    args = parser.parse_args()
    outcore = str(args.outcore.resolve())
    counts: Counter[str] = Counter()
    worst = 0.0
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        mqsim = build_mqsim(args.mqsim.resolve(), place / "mqsim")
        for number in range(args.count):
            files = draw(rng, place, args.flows, args.requests)
            theirs = run_mqsim(mqsim, files, args.limit)
            if isinstance(theirs, str):
                counts[f"MQSim {theirs}"] += 1
                continue
            flows = len(theirs.flows)
            own = run_outcore(outcore, files)
            off = 1.0 if isinstance(own, str) else difference(own, theirs)
            worst = max(worst, off)
            outcome = "agrees" if off <= args.tolerance else "differs"
            exact = ", to 1e-6" if off <= 1e-6 else ""
            counts[f"{'one flow' if flows == 1 else 'several flows'}: {outcome}{exact}"] += 1
            if not exact:
                print(f"pair {number}, {flows} flows: off by {off:.2%} {own if isinstance(own, str) else ''}", flush=True)
                if args.keep:
                    kept = args.keep / f"pair-{args.seed}-{number}"
                    kept.mkdir(parents=True, exist_ok=True)
                    for path in files:
                        shutil.copy(path, kept)
    print(f"\n{args.count} pairs of seed {args.seed}; the largest difference is {worst:.2%}\n\n| outcome | pairs |\n|---|---|")
    for outcome, count in sorted(counts.items()):
        print(f"| {outcome} | {count} |")
    sys.exit(any("differs" in outcome for outcome in counts))


if __name__ == "__main__":
    main()
