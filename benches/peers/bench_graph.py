#!/usr/bin/env python3
"""Compares graph kernels with a plain C prototype over the same tiles, with other systems and with the drive; and a
conversion with its floor.

Contract: makes the edges of an R-MAT graph, converts them, and runs each kernel alternately with
`programs/graph_tiles.c` and the given other systems, in rounds. Prints a table of medians in Markdown. outcore's time
is that of the whole command; the times of the others are those that they print for the kernel alone. Page caches are
dropped before each run. Floors are those of peerbench/floor.py. Everything is in one directory, which is removed at the
end unless `--keep` is given.

    benches/peers/bench_graph.py --outcore target/release/outcore --dir DIR [--scale 23] [--rounds 3]
        [--gridgraph CHECKOUT] [--gstore CHECKOUT]
    benches/peers/bench_graph.py --outcore target/release/outcore --dir DIR --soak

With `--soak`, one graph of scale 26 is made and computed on in 2 GiB of memory, each job once and alone. This takes 60
GB of disk.

GridGraph (thu-pacman/GridGraph) is a checkout built by `make` with `-include functional`, whose programs take the
memory in MiB: `sed -i 's/1024l\\*1024l\\*1024l:/1024l*1024l:/' examples/*.cpp`. It finds components only of undirected
graphs, so there it gets every edge in both directions. It reads only pairs of numbers; `programs/edge_text.c` first
turns text into pairs.

G-Store (the-data-lab/gstore) is a checkout in which `NUM_THDS` of gstore.h is the number of cores, built by
`make gstored CC="g++ '-DMAP_HUGE_2MB=(21<<26)'"`; it needs libaio. Only its conversion is measured, which works in
memory (`-c 1`; the one on disks, `-c 2`, needs scale 25) regardless of `--memory`. Its kernels did not terminate on a
machine with two cores.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from peerbench import floor
from peerbench.measure import drop_caches

FACTOR = 16
ROUNDS_OF_PAGERANK = 10
SEEDS = 20_000
FANOUT = 10
HERE = Path(__file__).resolve().parent
BLOCK_EDGES = 1 << 20


class Done(NamedTuple):
    """Time of a command, and its output; reads and writes are those of the drives."""

    seconds: float
    peak_bytes: int
    output: str
    read_bytes: int
    written_bytes: int

    def facts(self):
        """The last line of JSON."""
        return json.loads(self.output.splitlines()[-1])


def run(words):
    """Runs a command with an empty page cache."""
    drop_caches()
    started = time.monotonic()
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE)
    output = process.stdout.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{words} failed: {status}")
    seconds = time.monotonic() - started
    return Done(seconds, usage.ru_maxrss * 1024, output, usage.ru_inblock * 512, usage.ru_oublock * 512)


def prototype_seconds(words):
    return float(run(words).output.split("\t")[2].split()[0])


def printed_seconds(words, pattern):
    """The seconds that a program printed last: the first group of the pattern."""
    output = run(words).output
    found = re.findall(pattern, output)
    if not found:
        sys.exit(f"{words} printed no time: {output[-300:]}")
    return float(found[-1])


def sources_of(edges, count):
    """Vertices that have edges: the sources of edges drawn at random."""
    drawn = random.Random(1)
    with open(edges, "rb") as file:
        total = edges.stat().st_size // 8
        found = []
        while len(found) < count:
            file.seek(8 * drawn.randrange(total))
            found.append(struct.unpack("<I", file.read(4))[0])
    return found


def write_both_ways(edges, both):
    """Every edge and its reverse."""
    with open(edges, "rb") as source, open(both, "wb") as target:
        while block := source.read(8 * BLOCK_EDGES):
            ids = memoryview(block).cast("I")
            turned = bytearray(len(block))
            out = memoryview(turned).cast("I")
            out[0::2], out[1::2] = ids[1::2], ids[0::2]
            target.write(block)
            target.write(turned)


class Peers:
    """Other systems over the same edges, each with its own layout."""

    def __init__(self, args, edges, vertices):
        self.args, self.edges, self.vertices = args, edges, vertices
        self.memory_mib = {"MiB": 1, "GiB": 1024}[args.memory[-3:]] * int(args.memory[:-3])
        self.both = args.dir / "both.u32"
        self.made = {}

    def layout(self, system, is_both):
        """The edges in the system's format, and the seconds of the conversion."""
        key = (system, is_both)
        if key not in self.made:
            edges = self.edges
            if is_both:
                edges = self.both
                if not edges.exists():
                    write_both_ways(self.edges, edges)
            name = self.args.dir / f"{system}-{'both' if is_both else 'once'}"
            self.made[key] = (name, self.preprocess(edges, name))
        return self.made[key]

    def preprocess(self, pairs, grid):
        """The seconds in which GridGraph makes a grid from pairs."""
        program = self.args.gridgraph / "bin" / "preprocess"
        return run([program, "-i", pairs, "-o", grid, "-v", self.vertices, "-p", 16, "-t", 0]).seconds

    def text_by_gridgraph(self, text, reader):
        pairs, grid = self.args.dir / "text.u32", self.args.dir / "gridgraph-text"
        seconds = run([reader, "read", text, pairs]).seconds + self.preprocess(pairs, grid)
        pairs.unlink()
        shutil.rmtree(grid)
        return seconds

    def text_by_gstore(self, text, _reader):
        """gstore first writes pairs next to the text, and then makes its own files from these pairs."""
        place = self.args.dir / "gstore"
        place.mkdir()
        here, program = place / "text.txt", self.args.gstore / "gstored"
        os.link(text, here)
        seconds = run([program, "-i", here, "-c", 4]).seconds
        here.unlink()
        edges = here.with_name("text.txt.edge")
        seconds += run([program, "-v", self.vertices, "-i", edges, "-c", 1, "-o", place / "tiles"]).seconds
        shutil.rmtree(place)
        return seconds

    def gridgraph(self, kernel, source):
        bins = self.args.gridgraph / "bin"
        grid, _ = self.layout("gridgraph", kernel == "cc")
        words = {
            "cc": [bins / "wcc", grid, self.memory_mib],
            "bfs": [bins / "bfs", grid, source, self.memory_mib],
            "pagerank": [bins / "pagerank", grid, ROUNDS_OF_PAGERANK, self.memory_mib],
        }.get(kernel)
        return words and printed_seconds(words, r"([\d.]+) seconds")

    def systems(self):
        return ["gridgraph"] if self.args.gridgraph else []

    def readers_of_text(self):
        named = {"gridgraph": self.text_by_gridgraph, "gstore": self.text_by_gstore}
        return {system: reader for system, reader in named.items() if getattr(self.args, system)}


def convert_row(args, edges, graph, vertices):
    """A conversion compared with its floor. The floor reads the edges and writes 8 bytes per edge and direction, and
    then reads these bytes and writes the layout."""
    convert = [args.outcore, "graph", "convert", edges, "-o", graph, "--drop-loops", "--memory", args.memory]
    found, floors = [], []
    for _ in range(args.rounds):
        found.append(run([*convert, "--vertices", vertices, "--force", "--json"]))
        scratch, copy = args.dir / "scratch.bin", args.dir / "floor.bin"
        edge_bytes = edges.stat().st_size
        both_bytes = 2 * edge_bytes
        first = floor.pass_seconds(edges, copy, both_bytes)
        # The data that was written, to be read again.
        subprocess.run(["sh", "-c", f"cat {edges} {edges} > {scratch}"], check=True)
        layout_bytes = sum(path.stat().st_size for path in graph.iterdir())
        second = floor.pass_seconds(scratch, copy, layout_bytes)
        started = time.monotonic()
        scratch.unlink()
        floors.append(first + second + time.monotonic() - started)
    facts = found[-1].facts()
    seconds = [each.seconds for each in found]
    ratio = statistics.median(a / b for a, b in zip(seconds, floors))
    peak = max(each.peak_bytes for each in found) >> 20
    note = f"{ratio:.2f} of its floor, peak {peak} MiB, read {facts['read_bytes'] >> 20} MiB, wrote {facts['written_bytes'] >> 20} MiB"
    return ("convert", f"{statistics.median(seconds):.2f}", "-", note)


def text_row(args, edges, peers, vertices):
    """A conversion from text, alternating with the conversions of other systems. Their graphs are smaller, because they
    have one direction and no lists."""
    text, graph, reader = args.dir / "edges.txt", args.dir / "text.graph", build(args.dir, "edge_text")
    run([reader, "write", edges, text])
    convert = [args.outcore, "graph", "convert", text, "-o", graph, "--memory", args.memory, "--vertices", vertices, "--json"]
    found = []
    systems = peers.readers_of_text()
    others = {system: [] for system in systems}
    for _ in range(args.rounds):
        found.append(run(convert))
        shutil.rmtree(graph)
        for system, read in systems.items():
            others[system].append(read(text, reader))
    text_bytes = text.stat().st_size
    text.unlink()
    seconds = [each.seconds for each in found]
    note = f"{text_bytes / 1e9:.2f} GB of text, peak {max(each.peak_bytes for each in found) >> 20} MiB, {moved(found[-1])}"
    for system, theirs in others.items():
        ratio = statistics.median(b / a for a, b in zip(seconds, theirs))
        note += f"; {system} {statistics.median(theirs):.2f} s, {ratio:.2f} x"
    return ("convert from text", f"{statistics.median(seconds):.2f}", "-", note)


def moved(done):
    return f"read {done.read_bytes / 1e9:.2f} GB, wrote {done.written_bytes / 1e9:.2f} GB"


SOAK_ROOM_BYTES = 60e9
SOAK_SCALE = 26


def soak(args):
    """Runs each job once on one large graph; prints a row when the job is done."""
    vertices = 1 << args.scale
    edges, graph, result = args.dir / "edges.u32", args.dir / "g.graph", args.dir / "result.npy"
    needed = SOAK_ROOM_BYTES * 2.0 ** (args.scale - SOAK_SCALE)
    free = shutil.disk_usage(args.dir).free
    if free < needed:
        sys.exit(f"{args.dir} has {free / 1e9:.1f} GB free, and the soak takes {needed / 1e9:.1f} GB: name another --dir")
    memory = ["--memory", args.memory, "--json"]

    def row(name, words):
        done = run([args.outcore, *words])
        print(f"| {name} | {done.seconds:.1f} | {moved(done)} | {done.peak_bytes >> 20} MiB |", flush=True)

    print("| job | s | drives | peak |\n|---|---|---|---|")
    row("gen", ["gen", "u32x2", "-n", FACTOR * vertices, "-o", edges, "--dist", f"rmat:{args.scale}", "-q"])
    row("convert", ["graph", "convert", edges, "-o", graph, "--drop-loops", "--vertices", vertices, *memory])
    (source,) = sources_of(edges, 1)
    kernels = {
        "components": ["cc"],
        "BFS": ["bfs", "--source", source],
        "PageRank, 10 iterations": ["pagerank", "--iterations", ROUNDS_OF_PAGERANK, "--tolerance", 0],
        "16-core": ["kcore", "-k", 16],
    }
    for name, (kernel, *flags) in kernels.items():
        row(name, ["graph", kernel, graph, "-o", result, "--force", *flags, *memory])


def sample_row(args, graph, vertices):
    """Two hops of random neighbours compared with fio's random reads of 4 KiB on the same file."""
    seeds, drawn = args.dir / "seeds.txt", random.Random(2)
    seeds.write_text("".join(f"{drawn.randrange(vertices)}\n" for _ in range(SEEDS)))
    words = [args.outcore, "graph", "sample", graph, seeds, "--fanout", f"{FANOUT},{FANOUT}", "-o", args.dir / "sample.npy", "--force",
             "--memory", args.memory, "--json"]
    rates, reads, seconds, fio = [], [], [], []
    for _ in range(args.rounds):
        done = run(words)
        facts = done.facts()
        seconds.append(done.seconds)
        reads.append(sum(phase["read_bytes"] for phase in facts["phases"]) // 4096)
        rates.append(reads[-1] / sum(phase["seconds"] for phase in facts["phases"]))
        best = max(reads[-1] / floor.random_seconds(graph / "out", reads[-1]) for _ in range(2))
        fio.append(best)
    share = statistics.median(a / b for a, b in zip(rates, fio))
    note = f"{statistics.median(rates):,.0f} reads of 4 KiB per second, {share:.2f} of fio's; {reads[-1]:,} for {facts['vertices']:,} vertices"
    return ("sample", f"{statistics.median(seconds):.2f}", "-", note)


def kernel_row(args, name, ours, theirs, graphs, peers, program, info, sources):
    """Runs one kernel alternately with everything that it is compared with."""
    graph = graphs["undirected" if name == "triangles" else "directed"]
    tiles = graph / "tiles"
    times, others, floors, peaks = [], [], [], []
    systems = {system: [] for system in peers.systems()}
    many = sources if name == "bfs" else sources[:1] * args.rounds
    for number, source in enumerate(many):
        words = [args.outcore, "graph", ours[0], graph, *ours[1:], "--memory", args.memory, "-q"]
        words += ["--source", source] if name in ("bfs", "sssp") else []
        done = run(words)
        times.append(done.seconds)
        peaks.append(done.peak_bytes)
        if theirs is not None:
            argument = source if name == "bfs" else theirs
            others.append(prototype_seconds([program, name, graph, info["vertices"], 1, argument]))
        if number < args.rounds:
            floors.append(floor.pass_seconds(tiles, args.dir / "floor.bin", 0))
            for system, found in systems.items():
                value = getattr(peers, system)(name, source)
                if value:
                    found.append(value)
    ours_s = statistics.median(times)
    note = f"one read of the tiles {statistics.median(floors):.2f} s, peak {max(peaks) >> 20} MiB"
    if others:
        note = f"{statistics.median(b / a for a, b in zip(times, others)):.2f} x the prototype's speed, {note}"
    for system, found in systems.items():
        if found:
            note += f"; {system} {statistics.median(found):.2f} s, {statistics.median(found) / ours_s:.1f} x"
    return (name, f"{ours_s:.2f}", f"{statistics.median(others):.2f}" if others else "-", note)


def build(place, name):
    """A program of this directory, compiled."""
    program = place / name
    source = HERE / "programs" / f"{name}.c"
    subprocess.run(["cc", "-O3", "-march=native", "-w", "-pthread", source, "-o", program], check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outcore", type=Path, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--scale", type=int, help=f"default: 23, or {SOAK_SCALE} with --soak")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sources", type=int, default=16, help="sources of BFS")
    parser.add_argument("--memory", help="default: 512MiB, or 2GiB with --soak")
    parser.add_argument("--soak", action="store_true", help="each job once on one large graph")
    parser.add_argument("--only", default="convert,text,cc,bfs,pagerank,kcore,scc,sssp,sample",
                        help="jobs; triangles, too, which take minutes a round at scale 23")
    parser.add_argument("--gridgraph", type=Path)
    parser.add_argument("--gstore", type=Path)
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    args.scale = args.scale or (SOAK_SCALE if args.soak else 23)
    args.memory = args.memory or ("2GiB" if args.soak else "512MiB")
    args.dir.mkdir(exist_ok=True)
    if any(args.dir.iterdir()) and not (args.dir / "edges.u32").exists():
        sys.exit(f"{args.dir} has other files, and goes at the end: name a directory that is empty or not there yet")
    try:
        (soak if args.soak else compare)(args)
    finally:
        if not args.keep:
            shutil.rmtree(args.dir)


def compare(args):
    edges, program = args.dir / "edges.u32", build(args.dir, "graph_tiles")
    graphs = {"directed": args.dir / "g.graph", "undirected": args.dir / "u.graph"}
    vertices = 1 << args.scale
    if not edges.exists():
        make = ["gen", "u32x2", "-n", FACTOR * vertices, "-o", edges, "--dist", f"rmat:{args.scale}", "-q"]
        run([args.outcore, *make])
    rows = []
    wanted = args.only.split(",")
    to = ["--drop-loops", "--memory", args.memory, "--vertices", vertices, "-q"]
    if "convert" in wanted:
        rows.append(convert_row(args, edges, graphs["directed"], vertices))
        print(rows[-1], flush=True)
    elif not graphs["directed"].exists():
        run([args.outcore, "graph", "convert", edges, "-o", graphs["directed"], *to])
    info = run([args.outcore, "graph", "info", graphs["directed"], "--json"]).facts()
    peers = Peers(args, edges, vertices)
    if "text" in wanted:
        rows.append(text_row(args, edges, peers, vertices))
        print(rows[-1], flush=True)
    kernels = {
        "cc": (["cc"], ""),
        "bfs": (["bfs"], ""),
        "pagerank": (["pagerank", "--iterations", ROUNDS_OF_PAGERANK, "--tolerance", 0], ROUNDS_OF_PAGERANK),
        "kcore": (["kcore", "-k", 16], 16),
        # Kernels without a prototype to compare with.
        "scc": (["scc"], None),
        "sssp": (["sssp"], None),
        "triangles": (["triangles"], None),
    }
    if "triangles" in wanted and not graphs["undirected"].exists():
        run([args.outcore, "graph", "convert", edges, "-o", graphs["undirected"], "--undirected", "--dedup", *to])
    sources = sources_of(edges, args.sources)
    for name, (ours, theirs) in kernels.items():
        if name in wanted:
            rows.append(kernel_row(args, name, ours, theirs, graphs, peers, program, info, sources))
            print(rows[-1], flush=True)
    if "sample" in wanted:
        rows.append(sample_row(args, graphs["directed"], vertices))
    for (system, is_both), (_, seconds) in peers.made.items():
        rows.append((f"convert, {system}", "-", "-", f"{seconds:.1f} s{', every edge both ways' if is_both else ''}"))
    print("| job | outcore, s | C prototype, s | |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
