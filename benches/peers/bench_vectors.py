#!/usr/bin/env python3
"""Compares nearest neighbours and k-means over files of vectors with faiss, scikit-learn and one plain read of the
file.

Contract: makes seeded Gaussian vectors of 32 and 768 dimensions, and runs each case alternately, in rounds. Prints a
table of medians in Markdown. faiss and scikit-learn run in the environment of this program, on as many threads as
outcore. faiss reads the file in batches through NumPy, with an empty page cache; scikit-learn has the vectors in memory
before its clock starts. The floor is fio with direct reads of 1 MiB by two jobs, each with 16 in flight on half of the
same file. Everything is in one directory, which is removed at the end unless `--keep` is given.

Two further tables: searches through an index on a drive of 200 MB/s (`--index-bytes`), compared with the plain pass
there, and the time to make the index compared with a read without a limit; and lookups of 65,536 keys in sorted numbers
(`--lookup-bytes`), compared with fio's best rate of random blocks of 4 KiB.

    benches/peers/bench_vectors.py --outcore target/release/outcore --dir DIR [--bytes 1e9] [--kmeans-bytes 2.56e9]
        [--index-bytes 3.07e9] [--lookup-bytes 4.3e9] [--only knn,kmeans,index,lookup] [--rounds 3]

Needs numpy, faiss-cpu, scikit-learn and fio. The index needs root and cgroup v1's blkio controller, and is omitted
without them.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

THREADS = os.cpu_count()
MEMORY = "512MiB"
BATCH_BYTES = 64 << 20


def drop_caches():
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        print("note: the page cache cannot be dropped without root", file=sys.stderr)


def make(path, rows, dimension, seed):
    random = np.random.default_rng(seed)
    with open(path, "wb") as file:
        np.array([rows, dimension], "<u4").tofile(file)
        for at in range(0, rows, 1 << 16):
            random.standard_normal((min(1 << 16, rows - at), dimension), "f4").tofile(file)


def outcore(program, *words, join=None):
    """Wall time, CPU time, peak memory in MiB and the summary of a run."""
    drop_caches()
    command = [str(word) for word in (program, *words, "--memory", MEMORY, "--json", "--force")]
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=join)
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command} failed: {output}")
    seconds = time.monotonic() - started
    facts = json.loads(output.splitlines()[-1])
    return seconds, usage.ru_utime + usage.ru_stime, facts["peak_rss_bytes"] >> 20, facts


def floor(path):
    drop_caches()
    half = ["--size=50%", "--offset_increment=50%", "--numjobs=2", "--group_reporting"]
    options = ["--rw=read", "--bs=1M", "--iodepth=16", "--direct=1", "--ioengine=io_uring", *half]
    name = ["--name=floor", f"--filename={path}", "--output-format=json", "--readonly"]
    report = subprocess.run(["fio", *name, *options], capture_output=True, text=True, check=True).stdout
    read = json.loads(report[report.index("{"):])["jobs"][0]["read"]
    return read["io_bytes"] / read["bw_bytes"]


def with_faiss(path, queries, dimension, k):
    import faiss

    faiss.omp_set_num_threads(THREADS)
    drop_caches()
    started = time.monotonic()
    best = None
    rows = max(BATCH_BYTES // (4 * dimension), 1)
    with open(path, "rb") as file:
        file.seek(8)
        first = 0
        while True:
            batch = np.fromfile(file, "<f4", rows * dimension).reshape(-1, dimension)
            if not len(batch):
                break
            distances, ids = faiss.knn(queries, batch, k)
            ids = ids + first
            first += len(batch)
            if best is not None:
                distances = np.concatenate([best[0], distances], axis=1)
                ids = np.concatenate([best[1], ids], axis=1)
                order = np.argsort(distances, axis=1, kind="stable")[:, :k]
                distances = np.take_along_axis(distances, order, axis=1)
                ids = np.take_along_axis(ids, order, axis=1)
            best = (distances, ids)
    return time.monotonic() - started, best[1]


def product_seconds(queries, rows, dimension):
    """Only the product, by NumPy's BLAS, over vectors that stay in memory."""
    block = np.random.default_rng(1).standard_normal((1 << 14, dimension), "f4")
    out = np.empty((len(queries), len(block)), "f4")
    np.matmul(queries, block.T, out=out)
    started = time.monotonic()
    for _ in range(8):
        np.matmul(queries, block.T, out=out)
    return (time.monotonic() - started) / 8 * rows / len(block)


def with_sklearn(vectors, start):
    """The time of an iteration of Lloyd's algorithm in memory: the average of four iterations and the pass for
    labels."""
    from sklearn.cluster import KMeans

    model = KMeans(len(start), init=start, n_init=1, max_iter=4, tol=0, algorithm="lloyd")
    started = time.monotonic()
    model.fit(vectors)
    return (time.monotonic() - started) / (model.n_iter_ + 1)


def show(name, ours, cpu, theirs, read, limit, peak, note):
    print(f"| {name} | {ours:.2f} | {cpu:.2f} | {theirs:.2f} | {read:.2f} | {ours / limit:.2f} | {theirs / ours:.2f} "
          f"| {peak} | {note} |", flush=True)


median = statistics.median


def knn_cases(args):
    for dimension, counts in ((768, (16, 100, 1000)), (32, (16, 100))):
        rows = int(args.bytes) // (4 * dimension)
        base = args.dir / f"base{dimension}.fbin"
        if not base.exists():
            make(base, rows, dimension, seed=dimension)
        for count in counts:
            queries = args.dir / f"queries{dimension}.fbin"
            make(queries, count, dimension, seed=7)
            wanted = np.fromfile(queries, "<f4", offset=8).reshape(count, dimension)
            ours, theirs, floors, cpu, peaks = [], [], [], [], []
            # A thousand queries take faiss long, and their times vary little.
            for _ in range(args.rounds if count < 1000 else 1):
                out = args.dir / "ids.ibin"
                seconds, used, peak, _ = outcore(args.outcore, "knn", base, queries, "-k", 10, "-o", out)
                ours.append(seconds)
                cpu.append(used)
                peaks.append(peak)
                seconds, ids = with_faiss(base, wanted, dimension, 10)
                theirs.append(seconds)
                floors.append(floor(base))
            same = (np.fromfile(out, "<i4", offset=8).reshape(count, 10) == ids).mean()
            limit = max(median(floors), product_seconds(wanted, rows, dimension))
            show(f"knn, {dimension} dimensions, {count} queries", median(ours), median(cpu),
                                  median(theirs), median(floors), limit, max(peaks), f"{same:.4f} of the ids are faiss'")


def kmeans_cases(args):
    base, rows = args.dir / "base32.fbin", int(args.kmeans_bytes or args.bytes) // 128
    if args.kmeans_bytes:
        make(base, rows, 32, seed=32)
    for k in (16, 64, 1024):
        start = args.dir / "start.fbin"
        vectors = np.fromfile(base, "<f4", offset=8).reshape(rows, 32)
        with open(start, "wb") as file:
            np.array([k, 32], "<u4").tofile(file)
            vectors[:k].tofile(file)
        ours, theirs, floors, cpu, peaks = [], [], [], [], []
        for _ in range(args.rounds if k < 1024 else 1):
            words = ["kmeans", base, "-k", k, "--init", start, "--max-iterations", 3, "--tolerance", 0]
            seconds, used, peak, facts = outcore(args.outcore, *words, "-o", args.dir / "c.npy")
            ours.append(seconds / facts["passes"])
            cpu.append(used / facts["passes"])
            peaks.append(peak)
            theirs.append(with_sklearn(vectors, vectors[:k]))
            floors.append(floor(base))
        limit = max(median(floors), product_seconds(vectors[:k].copy(), rows, 32))
        show(f"a pass of k-means, 32 dimensions, k = {k}", median(ours), median(cpu), median(theirs),
                  median(floors), limit, max(peaks), "")
        del vectors


@contextlib.contextmanager
def limited(directory, bytes_per_second):
    """A function that makes a process join a group with this limit on reads of the directory's disk; None if there is
    no such group."""
    group = Path("/sys/fs/cgroup/blkio/outcore-bench-vectors")
    device = os.stat(directory).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    disk = Path(f"/sys/dev/block/{number}")
    if (disk / "partition").exists():
        number = (disk.resolve().parent / "dev").read_text().strip()
    try:
        group.mkdir()
        (group / "blkio.throttle.read_bps_device").write_text(f"{number} {bytes_per_second}")
    except OSError as error:
        print(f"note: no drive can be made slow here ({error})", file=sys.stderr)
        yield None
        return
    try:
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        group.rmdir()


def index_cases(args):
    print("\n| index | plain, s | index, s | times | its making, s | fio, s | over fio | bytes beside the base |")
    print("|---|---|---|---|---|---|---|---|")
    for dimension in (768, 32):
        rows = int(args.index_bytes) // (4 * dimension)
        base, queries = args.dir / f"index{dimension}.fbin", args.dir / f"near{dimension}.fbin"
        index, out = args.dir / "base.vindex", args.dir / "ids.ibin"
        make(base, rows, dimension, seed=dimension)
        # Rows near those of the base, because random numbers are equally far from all neighbours.
        with open(queries, "wb") as file:
            some = np.fromfile(base, "<f4", 16 * dimension, offset=8)
            np.array([16, dimension], "<u4").tofile(file)
            (some + np.random.default_rng(2).standard_normal(len(some), "f4") / 4).tofile(file)
        making = [outcore(args.outcore, "vector", "index", base, "-o", index)[0] for _ in range(args.rounds)]
        floors = [floor(base) for _ in range(args.rounds)]
        with limited(args.dir, 200_000_000) as join:
            plain, through, found = [], [], []
            for _ in range(args.rounds if join else 0):
                for words, times in (([], plain), (["--index", index], through)):
                    words = ["knn", base, queries, "-k", 10, "--io", "direct", "-o", out, *words]
                    times.append(outcore(args.outcore, *words, join=join)[0])
                    found.append(out.read_bytes())
        if not plain:
            continue
        if len(set(found)) > 1:
            sys.exit(f"results through the index of {base} differ from those without")
        times = median(plain) / median(through)
        part = index.stat().st_size / base.stat().st_size
        print(f"| {rows:,} x {dimension} | {median(plain):.2f} | {median(through):.2f} | {times:.1f} | {median(making):.2f} "
              f"| {median(floors):.2f} | {median(making) / median(floors):.2f} | {part:.2f} |", flush=True)
        base.unlink()


def random_blocks_a_second(path):
    """fio's best rate of random reads of 4 KiB, at several depths."""
    best = 0
    for depth in (32, 64, 128):
        drop_caches()
        options = ["--rw=randread", "--bs=4k", f"--iodepth={depth}", "--numjobs=2", "--direct=1", "--ioengine=io_uring"]
        options += ["--group_reporting", "--norandommap", "--io_size=256m", "--randrepeat=0"]
        name = ["--name=blocks", f"--filename={path}", "--output-format=json", "--readonly"]
        report = subprocess.run(["fio", *name, *options], capture_output=True, text=True, check=True).stdout
        best = max(best, json.loads(report[report.index("{"):])["jobs"][0]["read"]["iops"])
    return best


def lookup_cases(args):
    numbers, keys, index = args.dir / "sorted.bin", args.dir / "keys.bin", args.dir / "sorted.index"
    made, out = args.dir / "numbers.bin", args.dir / "ranks.bin"
    subprocess.run([args.outcore, "gen", "u64", "-n", str(int(args.lookup_bytes) // 8), "-o", made, "--force"], check=True)
    outcore(args.outcore, "sort", made, "--type", "u64", "-o", numbers)
    made.unlink()
    count = 1 << 16
    np.random.default_rng(5).integers(0, 1 << 64, count, "u8").tofile(keys)
    words = ["lookup", numbers, "--keys", keys, "--type", "u64", "--io", "direct", "-o", out]
    index.unlink(missing_ok=True)
    first, *_ = outcore(args.outcore, *words, "--index", index)
    whole = floor(numbers)
    print(f"\nThe first lookup makes the index: {first:.2f} s, where fio reads the file in {whole:.2f} s.")
    print("\n| lookup | whole command, s | its own clock, s | blocks a second | fio | share |\n|---|---|---|---|---|---|")
    rate, found = random_blocks_a_second(numbers), []
    for name, more in (("with an index", ["--index", index]), ("without", [])):
        walls, clocks, blocks = [], [], []
        for _ in range(args.rounds):
            seconds, _, _, facts = outcore(args.outcore, *words, *more)
            walls.append(seconds)
            clocks.append(facts["seconds"])
            blocks.append(facts["read_bytes"] / 4096)
            found.append(out.read_bytes())
        ours = median(blocks) / median(clocks)
        print(f"| {name} | {median(walls):.2f} | {median(clocks):.2f} | {ours:,.0f} | {rate:,.0f} | {ours / rate:.2f} |", flush=True)
    if len(set(found)) > 1:
        sys.exit("ranks with the index differ from those without")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outcore", type=Path, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--bytes", type=float, default=1e9)
    parser.add_argument("--kmeans-bytes", type=float, help="of the vectors that are clustered; by default as --bytes")
    parser.add_argument("--index-bytes", type=float, default=3.07e9)
    parser.add_argument("--lookup-bytes", type=float, default=4.3e9)
    parser.add_argument("--only", help="knn, kmeans, index or lookup, several with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    args.dir.mkdir(exist_ok=True)
    cases = {"knn": knn_cases, "kmeans": kmeans_cases, "index": index_cases, "lookup": lookup_cases}
    chosen = args.only.split(",") if args.only else list(cases)
    if {"knn", "kmeans"} & set(chosen):
        print("| case | outcore, s | CPU s | peer, s | fio, s | over the larger of fio and the product | times the peer | peak, MiB | |")
        print("|---|---|---|---|---|---|---|---|---|")
    for name in chosen:
        cases[name](args)
    if not args.keep:
        shutil.rmtree(args.dir)


if __name__ == "__main__":
    main()
