#!/usr/bin/env python3
"""Five ratios that show within minutes whether outcore has become slower: each against a floor or a peer of the same
run.

Contract: measures alternately, in rounds, and takes medians of ratios. Prints a table that also has the medians of
earlier runs on the same processor, and adds a line to a history file (JSON lines). Exits with 1 if a ratio is worse
than 1.3 times the median of at least three earlier runs. Uses only the standard library; GNU sort and fio are omitted
if they are missing. All files are in one directory below `--dir`, which is removed at the end.

    benches/bench_quick.py --outcore target/release/outcore --dir DIR [--rounds 3] [--history FILE]

| ratio | of | over |
|---|---|---|
| sort | 1 GiB of u64 in 256 MiB, on the drive | reads and writes of as much at once, twice, which `outcore demo` measures |
| text | GNU sort of 256 MiB of lines, two threads, as much memory | outcore's (so less is worse) |
| shuffle | 1 GiB of u64 in 256 MiB, on the drive | the floor of the sort |
| reduce | the sum of 1 GiB of u64, read directly | fio's direct read of the file, two jobs of 16 reads of 1 MiB |
| start | sorting a line to standard output | `/bin/true` |
"""

import argparse
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

MEMORY = "256MiB"
# Runs on a shared machine differ by a fifth.
WORSE = 1.3
STARTS = 50


def seconds(words, **options):
    """Wall time of a command that must succeed."""
    started = time.monotonic()
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, **options)
    return time.monotonic() - started


def facts(words):
    output = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def read_by_fio(path):
    half = ["--size=50%", "--offset_increment=50%", "--numjobs=2", "--group_reporting", "--readonly"]
    how = ["--name=read", "--rw=read", "--bs=1M", "--iodepth=16", "--direct=1", "--ioengine=io_uring"]
    words = ["fio", *how, *half, f"--filename={path}", "--output-format=json"]
    report = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    read = json.loads(report[report.index("{"):])["jobs"][0]["read"]
    return read["io_bytes"] / read["bw_bytes"]


def make_text(path, wanted_bytes):
    random.seed(1)
    with open(path, "w", encoding="ascii") as file:
        written = 0
        while written < wanted_bytes:
            lines = "".join(f"{random.getrandbits(64):016x} user{random.randrange(10**6)} some words of a log\n"
                            for _ in range(10_000))
            written += file.write(lines)


def ratios(outcore, place, rounds):
    """Each ratio of each round."""
    found = {name: [] for name in ("sort", "text", "shuffle", "reduce", "start")}
    keys, text, out, line = (place / name for name in ("keys.bin", "text", "out", "line"))
    subprocess.run([outcore, "gen", "u64", "-n", str(1 << 27), "-o", keys, "-q"], check=True)
    line.write_text("b\na\n")
    has_gnu, has_fio = shutil.which("sort"), shutil.which("fio")
    if has_gnu:
        make_text(text, 256 << 20)
    limits = ["--memory", MEMORY, "-q"]
    for _ in range(rounds):
        demo = facts([outcore, "demo", "--size", "1GiB", "--memory", MEMORY, "--dir", place, "--json"])
        found["sort"].append(demo["floor_ratio"])
        took = seconds([outcore, "shuffle", keys, "-o", out, "--type", "u64", "--force", *limits])
        found["shuffle"].append(took / demo["floor_seconds"])
        if has_gnu:
            environment = {**os.environ, "LC_ALL": "C"}
            gnu = ["sort", "--parallel=2", "-S", "256M", "-T", place, text, "-o", out]
            theirs = seconds(gnu, env=environment)
            found["text"].append(theirs / seconds([outcore, "sort", text, "-o", out, "--force", *limits]))
        if has_fio:
            took = seconds([outcore, "reduce", "sum", keys, "--type", "u64", "--io", "direct", *limits])
            found["reduce"].append(took / read_by_fio(keys))
        ours, theirs = [], []
        for _ in range(STARTS):
            ours.append(seconds([outcore, "sort", line]))
            theirs.append(seconds(["/bin/true"]))
        found["start"].append(statistics.median(ours) / statistics.median(theirs))
    return {name: statistics.median(values) for name, values in found.items() if values}


def cpu():
    names = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    return f"{names[0] if names else 'unknown'}, {len(names)} processors"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outcore", type=Path, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--history", type=Path, default=Path(".bench-history.jsonl"))
    args = parser.parse_args()
    outcore = args.outcore.resolve()
    with tempfile.TemporaryDirectory(dir=args.dir, prefix="bench-quick-") as place:
        found = ratios(outcore, Path(place), args.rounds)
    machine = cpu()
    entries = args.history.read_text().splitlines() if args.history.exists() else []
    earlier = [entry["ratios"] for entry in map(json.loads, entries) if entry["cpu"] == machine]
    worse = []
    print(f"{machine}; medians of {args.rounds} rounds\n\n| ratio | now | before | |\n|---|---|---|---|")
    for name, value in found.items():
        known = [ratios[name] for ratios in earlier if name in ratios]
        before = statistics.median(known) if known else None
        change = 0 if before is None else (before / value if name == "text" else value / before)
        is_worse = len(known) >= 3 and change > WORSE
        worse += [name] if is_worse else []
        shown = "-" if before is None else f"{before:.2f} ({len(known)} runs)"
        print(f"| {name} | {value:.2f} | {shown} | {'worse' if is_worse else ''} |")
    version = subprocess.run([outcore, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    entry = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cpu": machine, "version": version,
             "ratios": {name: round(value, 4) for name, value in found.items()}}
    args.history.parent.mkdir(parents=True, exist_ok=True)
    with open(args.history, "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
