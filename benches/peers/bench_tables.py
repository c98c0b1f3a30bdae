#!/usr/bin/env python3
"""Compares tables sorted, deduplicated, shuffled, grouped and joined with DuckDB, Polars and DataFusion, in the same
memory.

Contract: makes a seeded web log and a table of its users in Parquet, and runs each case alternately, in rounds. Prints
a table of medians in Markdown. Every program gets `--memory` and two threads, and runs in a control group of an eighth
more, page cache included. A program that is killed, gives up or needs more than `--limit-s` has failed; its time
without the group is then shown next to it. All programs write Parquet with zstd:1. The floor of a sort is the codec
alone: pyarrow reads and writes the same file on both cores. The rows of each output are checked and, for sorts, their
order. Everything is in one directory, which is removed at the end unless `--keep` is given.

    benches/peers/bench_tables.py --outcore target/release/outcore --dir DIR [--rows 6e6] [--rounds 3] [--only sort,join]
    benches/peers/bench_tables.py ... --only near --near-documents 1e6 --memory-mib 1024 --limit-s 3600 --rounds 1
    benches/peers/bench_tables.py ... --only lineitem --lineitem 10 --memory-mib 1024 --limit-s 600

`near` drops near duplicates among documents of 2 KB: a thirtieth of the rows, or `--near-documents`. `lineitem` sorts
TPC-H's table of that name, at the scale factor `--lineitem`, by three keys. Only tables that a case of `--only` reads
are made.

The Python that runs it needs numpy, pyarrow, duckdb, polars and datafusion; for `near` also rensa, and datatrove with regex,
tokenizers and xxhash<4; for `lineitem` also tpchgen-cli. Without root there is no control group.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from peerbench import groups

THREADS = 2
GROUP_ROWS = 1 << 17
BATCH_ROWS = 1 << 19
CASES = ("sort", "dedup", "shuffle", "group-by", "join", "join-in-order", "window", "near")
# Programs per case: only rensa and datatrove find near duplicates, no peer writes the rows of a join in order, and
# Polars' windows do not stream.
TOOLS_OF = {"near": ["outcore", "rensa", "datatrove"], "join-in-order": ["outcore"],
            "window": ["outcore", "DuckDB", "DataFusion"]}
# The columns that a case sorts by: a text, a day and a number, or a text and a time.
ORDERS = {"sort": ("log", ["country", "time"]), "lineitem": ("lineitem", ["l_shipmode", "l_shipdate", "l_partkey"])}
# One document per this many rows.
DOCUMENTS = 30

DUCKDB = """
import duckdb
db = duckdb.connect()
db.execute("SET memory_limit='{memory}'; SET threads={threads}; SET temp_directory='{scratch}'")
db.execute("SET preserve_insertion_order=false")
db.execute("COPY ({query}) TO '{out}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)")
"""
DUCKDB_QUERIES = {
    "lineitem": "SELECT * FROM '{lineitem}' ORDER BY l_shipmode, l_shipdate, l_partkey",
    "sort": "SELECT * FROM '{log}' ORDER BY country, time",
    "dedup": "SELECT DISTINCT ON (url) * FROM '{log}'",
    "shuffle": "SELECT * FROM '{log}' ORDER BY hash(id)",
    "group-by": "SELECT id, count(*) AS n, sum(bytes) AS bytes FROM '{log}' GROUP BY id",
    "join": "SELECT * FROM '{log}' JOIN '{users}' USING (user)",
    "window": "SELECT *, row_number() OVER w AS n, lag(bytes) OVER w AS before FROM '{log}' "
              "WINDOW w AS (PARTITION BY user ORDER BY time)",
}
POLARS = """
import polars as pl
log, users = (pl.scan_parquet(path) if path else None for path in ('{log_if_made}', '{users_if_made}'))
({query}).sink_parquet('{out}', compression='zstd', compression_level=1, engine='streaming')
"""
POLARS_QUERIES = {
    "lineitem": "pl.scan_parquet('{lineitem}').sort(['l_shipmode', 'l_shipdate', 'l_partkey'])",
    "sort": "log.sort(['country', 'time'])",
    "dedup": "log.unique(subset=['url'], keep='any')",
    "shuffle": "log.sort(pl.col('id').hash())",
    "group-by": "log.group_by('id').agg(pl.len().alias('n'), pl.col('bytes').sum())",
    "join": "log.join(users, on='user')",
}
DATAFUSION = """
import os
import datafusion as df
memory = df.RuntimeEnvBuilder().with_disk_manager_specified('{scratch}').with_fair_spill_pool({memory_bytes})
db = df.SessionContext(df.SessionConfig().with_target_partitions({threads}), memory)
for name, path in [('log', '{log}'), ('users', '{users}'), ('lineitem', '{lineitem}')]:
    if os.path.exists(path):
        db.register_parquet(name, path)
db.sql("COPY ({query}) TO '{out}' STORED AS PARQUET OPTIONS ('format.compression' 'zstd(1)')").collect()
"""
DATAFUSION_QUERIES = {
    "lineitem": "SELECT * FROM lineitem ORDER BY l_shipmode, l_shipdate, l_partkey",
    "sort": "SELECT * FROM log ORDER BY country, time",
    "dedup": "SELECT DISTINCT ON (url) * FROM log",
    "shuffle": "SELECT * FROM log ORDER BY md5(CAST(id AS VARCHAR))",
    "group-by": "SELECT id, count(*) AS n, sum(bytes) AS bytes FROM log GROUP BY id",
    "join": "SELECT * FROM log JOIN users USING (user)",
    "window": "SELECT *, row_number() OVER w AS n, lag(bytes) OVER w AS before FROM log "
              "WINDOW w AS (PARTITION BY user ORDER BY time)",
}
OUTCORE = {
    "lineitem": ["sort", "{lineitem}", "--by", "l_shipmode", "--by", "l_shipdate", "--by", "l_partkey"],
    "sort": ["sort", "{log}", "--by", "country", "--by", "time"],
    "dedup": ["dedup", "{log}", "--by", "url"],
    "shuffle": ["shuffle", "{log}"],
    "group-by": ["group-by", "{log}", "--by", "id", "--agg", "n=count,bytes=sum(bytes)"],
    # Any order, because the peers promise none either.
    "join": ["join", "{log}", "{users}", "--on", "user", "--unordered"],
    "join-in-order": ["join", "{log}", "{users}", "--on", "user"],
    "window": ["window", "{log}", "--by", "user", "--order", "time", "--add", "n=row_number,before=lag(bytes)"],
    "near": ["dedup", "{documents}", "--near", "text", "--jaccard", "0.8"],
}
# The shingles are those of outcore, with as many hashes and bands as outcore makes of 128 hashes at 0.8; no text is
# kept.
RENSA = """
import pyarrow.parquet as pq
from rensa import RMinHash, RMinHashLSH
texts = pq.read_table('{documents}', columns=['text'])['text'].to_pylist()
index, parent = RMinHashLSH(threshold=0.8, num_perm=117, num_bands=9), list(range(len(texts)))
def find(row):
    while parent[row] != row:
        parent[row] = parent[parent[row]]
        row = parent[row]
    return row
for row, text in enumerate(texts):
    words = text.split()
    signature = RMinHash(num_perm=117, seed=1)
    signature.update([' '.join(words[at:at + 5]) for at in range(len(words) - 4)])
    for other in index.query(signature):
        one, two = find(row), find(other)
        parent[max(one, two)] = min(one, two)
    index.insert(row, signature)
print(sum(find(row) == row for row in range(len(texts))))
"""
# datatrove in its stages, up to the rows that are dropped: signatures, pairs in each band, and clusters of pairs.
# Words are separated by blanks; datatrove's own tokenizer does the same on these texts, but slowly. CPU and peak are
# those of its first process, without its workers.
DATATROVE = """
import glob, os, struct
import pyarrow.parquet as pq
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupSignature, minhash
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.utils.hashing import HashConfig

class Blanks:
    def word_tokenize(self, text):
        return text.split()

class Rows(PipelineStep):
    name = type = 'rows'
    def run(self, data=None, rank=0, world_size=1):
        file = pq.ParquetFile('{documents}')
        for group in range(rank, file.num_row_groups, world_size):
            for batch in file.iter_batches(1000, row_groups=[group], columns=['text']):
                for text in batch['text']:
                    yield Document(text=text.as_py(), id='')

def run(name, steps, tasks):
    LocalPipelineExecutor(steps, tasks=tasks, workers=min(tasks, {threads}), logging_dir='{scratch}/log-' + name).run()

if __name__ == '__main__':
    minhash.load_word_tokenizer = lambda language: Blanks()
    config = MinhashConfig(n_grams=5, num_buckets=9, hashes_per_bucket=13, hash_config=HashConfig(precision=64))
    run('sign', [Rows(), MinhashDedupSignature('{scratch}/signatures', config)], {threads})
    run('pair', [MinhashDedupBuckets('{scratch}/signatures', '{scratch}/pairs', config=config)], 9)
    run('cluster', [MinhashDedupCluster('{scratch}/pairs', '{scratch}/removed', config=config)], 1)
    print(sum(os.path.getsize(path) // 4 for path in glob.glob('{scratch}/removed/*.remove')), 'removed')
"""
FLOOR = """
import pyarrow as pa, pyarrow.parquet as pq
from concurrent.futures import ThreadPoolExecutor
file = pq.ParquetFile('{log}')
def copy(part):
    file = pq.ParquetFile('{log}')
    with pq.ParquetWriter('{out}.%d' % part, file.schema_arrow, compression='zstd', compression_level=1) as to:
        for group in range(part, file.num_row_groups, 2):
            to.write_table(file.read_row_group(group, use_threads=False))
pa.set_cpu_count(1)
with ThreadPoolExecutor(2) as pool:
    list(pool.map(copy, range(2)))
"""


def apart(work, *arguments):
    """Does some work in a separate process, because the peak memory of a program is never less than its parent's."""
    child = os.fork()
    if child == 0:
        work(*arguments)
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(1)


def make(log, users, rows):
    """A log of visits, and its users, a quarter as many."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(1)
    countries = np.array(["us", "in", "cn", "br", "de", "gb", "fr", "jp", "ru", "mx", "id", "ng", "it", "es", "kr", "nl"])
    agents = np.array([f"Mozilla/5.0 (X11; {chr(65 + n % 26)}{n}) AppleWebKit/537.{n}" for n in range(300)])
    ids = draw.permutation(rows)
    writer = None
    for at in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - at)
        # About seven in ten urls occur once, the others repeatedly.
        url = draw.integers(0, rows // 2, count)
        url = np.char.add("https://www.example.com/archive/", np.char.zfill(url.astype(str), 9))
        table = pa.table({
            "id": pa.array(ids[at:at + count], pa.int64()),
            "time": pa.array(1_700_000_000_000 + draw.integers(0, 10**10, count), pa.int64()),
            "user": pa.array(draw.integers(0, max(rows // 4, 1), count), pa.int64()),
            "country": pa.array(countries[np.minimum(draw.geometric(0.25, count) - 1, 15)]),
            "url": pa.array(np.char.add(url, "/index.html")),
            "agent": pa.array(agents[draw.integers(0, 300, count)]),
            "status": pa.array(draw.choice([200, 301, 404, 500], count, p=[.9, .05, .04, .01]), pa.int32()),
            "bytes": pa.array(draw.lognormal(9, 2, count).astype("i8"), mask=draw.random(count) < .03),
            "ms": pa.array(draw.exponential(40, count)),
        })
        writer = writer or pq.ParquetWriter(log, table.schema, compression="zstd", compression_level=1)
        writer.write_table(table, row_group_size=GROUP_ROWS)
    writer.close()
    count = max(rows // 4, 1)
    user = draw.permutation(count)
    pq.write_table(pa.table({
        "user": pa.array(user, pa.int64()),
        "name": pa.array(np.char.add("user-", user.astype(str))),
        "since": pa.array(draw.integers(0, 10**9, count), pa.int64()),
    }), users, compression="zstd", compression_level=1, row_group_size=GROUP_ROWS)


def make_documents(path, rows):
    """Texts of 350 words, about 2 KB; one in ten differs in a few words from an earlier one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(2)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(draw.choice(letters, draw.integers(3, 9))) for _ in range(50_000)])
    weights = 1 / (np.arange(len(words)) + 10)
    weights /= weights.sum()
    writer, kept = None, None
    for at in range(0, rows, 20_000):
        count = min(20_000, rows - at)
        chosen = draw.choice(len(words), (count, 350), p=weights)
        kept = chosen[:500].copy() if kept is None else kept
        near = np.flatnonzero(draw.random(count) < .1)
        chosen[near] = kept[draw.integers(0, len(kept), len(near))]
        for _ in range(3):
            chosen[near, draw.integers(0, 350, len(near))] = draw.integers(0, len(words), len(near))
        table = pa.table({"id": np.arange(at, at + count), "text": [" ".join(row) for row in words[chosen]]})
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd", compression_level=1)
        writer.write_table(table, row_group_size=10_000)
    writer.close()


def make_lineitem(path, scale):
    """The table lineitem of TPC-H, by the Python package tpchgen-cli."""
    tool = Path(sys.executable).with_name("tpchgen-cli")
    if not tool.exists():
        sys.exit("lineitem is made by tpchgen-cli: install that for the Python which runs this")
    subprocess.run([tool, "parquet", "--scale-factor", str(scale), "--tables=lineitem", "--compression=ZSTD(1)",
                    "--output-dir", path.parent, "--row-group-bytes=16MB", "--quiet"], check=True)


def drop_caches():
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        print("note: the page cache cannot be dropped without root", file=sys.stderr)


def run(words, hierarchies, limit_bytes, limit_s):
    """Wall time, peak memory of the process in MiB, and the reason of its failure, if it failed."""
    drop_caches()
    with groups.Group(hierarchies, limit_bytes) as group:
        # Memory that libraries reserve for each CPU of the machine does not count against them.
        environment = {**os.environ, "POLARS_MAX_THREADS": str(THREADS)}
        started = time.monotonic()
        process = subprocess.Popen(groups.joined([str(word) for word in words], group.joins), env=environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        late = threading.Timer(limit_s, lambda: os.killpg(process.pid, signal.SIGKILL))
        late.start()
        told = process.stderr.read().decode(errors="replace").strip()
        _, status, usage = os.wait4(process.pid, 0)
        late.cancel()
        seconds = time.monotonic() - started
        killed = group.oom_kills() if limit_bytes else 0
    cpu = usage.ru_utime + usage.ru_stime
    failure = None
    if seconds >= limit_s:
        failure = f"not done after {limit_s} s"
    elif status:
        failure = "killed" if killed or os.WIFSIGNALED(status) else told.splitlines()[-1][:160] if told else str(status)
    return seconds, cpu, usage.ru_maxrss >> 10, failure


def check(case, out, paths, rows):
    """Fails if an output cannot be right."""
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.ParquetFile(out)
    found = table.metadata.num_rows
    if case == "near":
        # The number of near duplicates depends on hashes.
        wanted = found
    elif case == "dedup":
        wanted = pc.count_distinct(pq.read_table(paths["log"], columns=["url"])["url"]).as_py()
    elif case == "lineitem":
        wanted = pq.ParquetFile(paths["lineitem"]).metadata.num_rows
    else:
        wanted = rows
    if found != wanted:
        sys.exit(f"{case}: {out} has {found} rows, not {wanted}")
    if case in ORDERS:
        keys = ORDERS[case][1]
        some = next(table.iter_batches(2_000_000, columns=keys))
        in_order = np.zeros(some.num_rows - 1, bool)
        for key in reversed(keys):
            values = some[key].to_numpy(zero_copy_only=False)
            in_order = (values[1:] > values[:-1]) | ((values[1:] == values[:-1]) & (in_order | (key == keys[-1])))
        if not in_order.all():
            sys.exit(f"{case}: {out} is out of order")


class Bench:
    """The programs on the tables in one directory."""

    def __init__(self, args):
        self.args = args
        self.cases = args.only.split(",")
        rows = int(args.rows)
        self.rows = rows
        self.paths = {name: args.dir / f"{name}.parquet" for name in ("log", "users", "documents", "lineitem")}
        if {"near", "lineitem"}.issuperset(self.cases):
            rows = 0
        if rows and not self.paths["users"].exists():
            apart(make, self.paths["log"], self.paths["users"], rows)
        if "near" in self.cases and not self.paths["documents"].exists():
            apart(make_documents, self.paths["documents"], int(args.near_documents or args.rows // DOCUMENTS))
        if "lineitem" in self.cases and not self.paths["lineitem"].exists():
            apart(make_lineitem, self.paths["lineitem"], args.lineitem)
        self.hierarchies = groups.find()
        if self.hierarchies.reason:
            print(f"note: no control group: {self.hierarchies.reason}", file=sys.stderr)
        memory_bytes = args.memory_mib << 20
        self.limit_bytes = None if self.hierarchies.reason else memory_bytes + (memory_bytes >> 3)
        self.scratch = args.dir / "scratch"
        made = {f"{name}_if_made": path if path.exists() else "" for name, path in self.paths.items()}
        self.names = {**self.paths, **made, "scratch": self.scratch, "memory": f"{args.memory_mib}MiB",
                      "memory_bytes": memory_bytes, "threads": THREADS}

    def words(self, tool, case):
        """The command of a program, and its output."""
        out = self.args.dir / f"out-{tool}.parquet"
        fill = {**self.names, "out": out}
        if tool == "outcore":
            given = [word.format(**fill) for word in OUTCORE[case]]
            return [self.args.outcore, *given, "-o", out, "--memory", fill["memory"], "--threads", THREADS, "--force"], out
        if tool in ("rensa", "datatrove"):
            code = {"rensa": RENSA, "datatrove": DATATROVE}[tool]
            for name in ("documents", "scratch", "threads"):
                code = code.replace("{" + name + "}", str(fill[name]))
            # Its workers load the script with which the main process was started.
            script = self.scratch / f"run_{tool}.py"
            script.write_text(code)
            return [sys.executable, script], out
        code, queries = {"DuckDB": (DUCKDB, DUCKDB_QUERIES), "Polars": (POLARS, POLARS_QUERIES),
                         "DataFusion": (DATAFUSION, DATAFUSION_QUERIES)}[tool]
        code = code.replace("{query}", queries[case]).format(**fill)
        return [sys.executable, "-c", code], out

    def run(self, tool, case, is_in_group, is_checked):
        """One run, after which its scratch and its output are removed."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir()
        command, out = self.words(tool, case)
        out.unlink(missing_ok=True)
        result = run(command, self.hierarchies, self.limit_bytes if is_in_group else None, self.args.limit_s)
        if is_checked and not result[3] and out.exists():
            apart(check, case, out, self.paths, self.rows)
        out.unlink(missing_ok=True)
        return result

    def compare(self, case):
        """Runs the programs alternately and prints a row for each. Returns outcore's own time."""
        tools = TOOLS_OF.get(case, self.args.tools.split(","))
        results = {tool: [] for tool in tools}
        for round_number in range(self.args.rounds):
            for tool in tools:
                if not results[tool] or not results[tool][-1][3]:
                    results[tool].append(self.run(tool, case, True, round_number == 0))
        ours = None
        for tool in tools:
            failure = results[tool][-1][3]
            free = self.run(tool, case, False, False) if failure and self.limit_bytes else None
            kept = results[tool] if not failure else [free] if free else results[tool]
            wall, cpu, peak = (statistics.median(result[place] for result in kept) for place in range(3))
            if tool == "outcore":
                ours = wall
            ratio = f"{wall / ours:.2f}" if ours and not (failure and (not free or free[3])) else "-"
            without = "" if not free else f"{free[0]:.1f}" if not free[3] else free[3] if "not done" in free[3] else "failed"
            print(f"| {case} | {tool} | {'-' if failure else f'{wall:.1f}'} | {cpu:.1f} | {peak:.0f} | {without} | {ratio} "
                  f"| {failure or ''} |", flush=True)
        return ours

    def floor(self, case, ours):
        """Prints the share of a sort's time that the codec alone needs."""
        code = FLOOR.format(log=self.paths[ORDERS[case][0]], out=self.args.dir / "out-codec")
        words = [sys.executable, "-c", code]
        floors = [run(words, self.hierarchies, None, self.args.limit_s)[0] for _ in range(self.args.rounds)]
        floor = statistics.median(floors)
        print(f"| codec alone | pyarrow | {floor:.1f} | | | | {floor / (ours or floor):.2f} | |", flush=True)
        for path in self.args.dir.glob("out-codec.*"):
            path.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outcore", type=Path, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--rows", type=float, default=6e6)
    parser.add_argument("--near-documents", type=float, help="documents of `near`; a thirtieth of the rows if not given")
    parser.add_argument("--lineitem", type=float, default=1, help="scale factor of TPC-H for `lineitem`")
    parser.add_argument("--memory-mib", type=int, default=512)
    parser.add_argument("--limit-s", type=int, default=60, help="who needs longer has failed")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--tools", default="outcore,DuckDB,Polars,DataFusion")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    bench = Bench(args)
    sizes = [f"{name} {path.stat().st_size >> 20} MiB" for name, path in bench.paths.items() if path.exists()]
    rows = f"{int(args.rows):,} rows; " if bench.paths["log"].exists() else ""
    print(f"{rows}Parquet: {', '.join(sizes)}; told {bench.names['memory']}, group "
          f"{(bench.limit_bytes or 0) >> 20} MiB; {args.rounds} rounds\n")
    print("| case | tool | wall s in the group | CPU s | peak MiB | without the group, s | outcore faster by | failed |")
    print("|---|---|---|---|---|---|---|---|")
    for case in bench.cases:
        ours = bench.compare(case)
        if case in ORDERS:
            bench.floor(case, ours)
    facts = subprocess.run(["lscpu", "--json"], capture_output=True, text=True)
    if facts.returncode == 0:
        model = [entry["data"] for entry in json.loads(facts.stdout)["lscpu"] if entry["field"] == "Model name:"]
        print(f"\nprocessor: {', '.join(model) or 'unknown'}")
    if not args.keep:
        shutil.rmtree(args.dir)


if __name__ == "__main__":
    main()
