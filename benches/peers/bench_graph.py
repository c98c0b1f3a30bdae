#!/usr/bin/env python3
"""Graph kernels beside a plain C prototype over the same tiles, and a conversion beside its floor.

Contract: makes the edges of an R-MAT graph, converts them, and runs each kernel by turns with
`programs/graph_tiles.c`, round after round; prints a table of medians in Markdown. Reads are direct, so the page cache
plays no part. The floor of a kernel is `dd` with direct I/O over the tiles. Everything lies in one directory, which goes
at the end unless `--keep` is given.

    benches/peers/bench_graph.py --outcore target/release/outcore --dir DIR [--scale 23] [--rounds 3]
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

FACTOR = 16
HERE = Path(__file__).resolve().parent


def run(words):
    """Wall time, peak memory in bytes and output of a command."""
    started = time.monotonic()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE)
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{words} failed: {status}")
    return time.monotonic() - started, usage.ru_maxrss * 1024, output


def prototype_seconds(words):
    return float(run(words)[2].split("\t")[2].split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outcore", type=Path, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--scale", type=int, default=23)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="512MiB")
    parser.add_argument("--only", default="convert,cc,bfs,pagerank,kcore,scc,sssp,triangles")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    args.dir.mkdir(exist_ok=True)
    edges, graph, program = args.dir / "edges.u32", args.dir / "g.graph", args.dir / "graph_tiles"
    source = HERE / "programs" / "graph_tiles.c"
    subprocess.run(["cc", "-O3", "-march=native", "-w", "-pthread", source, "-o", program], check=True)
    vertices = 1 << args.scale
    if not edges.exists():
        make = ["gen", "u32x2", "-n", FACTOR * vertices, "-o", edges, "--dist", f"rmat:{args.scale}", "-q"]
        run([args.outcore, *make])
    rows = []
    wanted = args.only.split(",")
    convert = [args.outcore, "graph", "convert", edges, "-o", graph, "--drop-loops", "--memory", args.memory]
    if "convert" in wanted or not graph.exists():
        found = [run([*convert, "--vertices", vertices, "--force", "--json"]) for _ in range(args.rounds)]
        facts = json.loads(found[-1][2].splitlines()[-1])
        seconds = statistics.median(seconds for seconds, _, _ in found)
        peak = max(peak for _, peak, _ in found) >> 20
        rows.append(("convert", f"{seconds:.2f}", "-", f"peak {peak} MiB, read {facts['read_bytes'] >> 20} MiB, "
                     f"wrote {facts['written_bytes'] >> 20} MiB"))
    info = json.loads(run([args.outcore, "graph", "info", graph, "--json"])[2].splitlines()[-1])
    read = ["dd", f"if={graph}/tiles", "of=/dev/null", "bs=4M", "iflag=direct", "status=none"]
    kernels = {
        "cc": (["cc"], ["cc", ""]),
        "bfs": (["bfs", "--source", 1], ["bfs", 1]),
        "pagerank": (["pagerank", "--iterations", 10, "--tolerance", 0], ["pagerank", 10]),
        "kcore": (["kcore", "-k", 16], ["kcore", 16]),
        # Without a prototype to stand beside.
        "scc": (["scc"], None),
        "sssp": (["sssp", "--source", 1], None),
        "triangles": (["triangles"], None),
    }
    undirected = args.dir / "u.graph"
    if "triangles" in wanted and not undirected.exists():
        run([args.outcore, "graph", "convert", edges, "-o", undirected, "--undirected", "--dedup", "--drop-loops", "--memory",
             args.memory, "--vertices", vertices, "-q"])
    for name, (ours, theirs) in kernels.items():
        if name not in wanted:
            continue
        times, others, floors, peaks = [], [], [], []
        for _ in range(args.rounds):
            of = undirected if name == "triangles" else graph
            seconds, peak, _ = run([args.outcore, "graph", ours[0], of, *ours[1:], "--memory", args.memory, "-q"])
            times.append(seconds)
            peaks.append(peak)
            if theirs:
                others.append(prototype_seconds([program, theirs[0], graph, info["vertices"], 1, theirs[1]]))
            floors.append(run(read)[0])
        ours_s = statistics.median(times)
        note = f"one read of the tiles {statistics.median(floors):.2f} s, peak {max(peaks) >> 20} MiB"
        if theirs:
            theirs_s = statistics.median(others)
            note = f"{theirs_s / ours_s:.2f} x the prototype's speed, {note}"
        rows.append((name, f"{ours_s:.2f}", f"{theirs_s:.2f}" if theirs else "-", note))
    print("| job | outcore, s | C prototype, s | |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    if not args.keep:
        shutil.rmtree(args.dir)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
