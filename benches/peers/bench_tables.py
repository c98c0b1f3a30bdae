#!/usr/bin/env python3
"""Tables sorted, deduplicated, shuffled, grouped and joined beside DuckDB, Polars and DataFusion, in as much memory.

Contract: makes a seeded web log and a table of its users in Parquet, and runs each case by turns, round after round; prints a
table of medians in Markdown. Every program is told `--memory` and two threads, and runs in a control group of an eighth more,
page cache included; one that is killed, gives up or needs more than 60 s has failed, and its time without the group stands beside. All write
Parquet with zstd:1. The floor of the sort is the codec alone: pyarrow reads and writes the same file on both cores. Each output is
looked at: its rows, and for the sort its order. Everything lies in one directory, which goes at the end unless
`--keep` is given.

    benches/peers/bench_tables.py --outcore target/release/outcore --dir DIR [--rows 6e6] [--rounds 3] [--only sort,join]

The Python that runs it needs numpy, pyarrow, duckdb, polars, datafusion and rensa; without root there is no control group.
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
# Who needs longer has failed.
LIMIT_S = 60
CASES = ("sort", "dedup", "shuffle", "group-by", "join", "join-in-order", "window", "near")
# Of the rows, so many are documents.
DOCUMENTS = 30

DUCKDB = """
import duckdb
db = duckdb.connect()
db.execute("SET memory_limit='{memory}'; SET threads={threads}; SET temp_directory='{scratch}'")
db.execute("SET preserve_insertion_order=false")
db.execute("COPY ({query}) TO '{out}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)")
"""
DUCKDB_QUERIES = {
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
log, users = pl.scan_parquet('{log}'), pl.scan_parquet('{users}')
({query}).sink_parquet('{out}', compression='zstd', compression_level=1, engine='streaming')
"""
POLARS_QUERIES = {
    "sort": "log.sort(['country', 'time'])",
    "dedup": "log.unique(subset=['url'], keep='any')",
    "shuffle": "log.sort(pl.col('id').hash())",
    "group-by": "log.group_by('id').agg(pl.len().alias('n'), pl.col('bytes').sum())",
    "join": "log.join(users, on='user')",
}
DATAFUSION = """
import datafusion as df
memory = df.RuntimeEnvBuilder().with_disk_manager_specified('{scratch}').with_fair_spill_pool({memory_bytes})
db = df.SessionContext(df.SessionConfig().with_target_partitions({threads}), memory)
db.register_parquet('log', '{log}')
db.register_parquet('users', '{users}')
db.sql("COPY ({query}) TO '{out}' STORED AS PARQUET OPTIONS ('format.compression' 'zstd(1)')").collect()
"""
DATAFUSION_QUERIES = {
    "sort": "SELECT * FROM log ORDER BY country, time",
    "dedup": "SELECT DISTINCT ON (url) * FROM log",
    "shuffle": "SELECT * FROM log ORDER BY md5(CAST(id AS VARCHAR))",
    "group-by": "SELECT id, count(*) AS n, sum(bytes) AS bytes FROM log GROUP BY id",
    "join": "SELECT * FROM log JOIN users USING (user)",
    "window": "SELECT *, row_number() OVER w AS n, lag(bytes) OVER w AS before FROM log "
              "WINDOW w AS (PARTITION BY user ORDER BY time)",
}
OUTCORE = {
    "sort": ["sort", "{log}", "--by", "country", "--by", "time"],
    "dedup": ["dedup", "{log}", "--by", "url"],
    "shuffle": ["shuffle", "{log}"],
    "group-by": ["group-by", "{log}", "--by", "id", "--agg", "n=count,bytes=sum(bytes)"],
    # As the others, which promise no order.
    "join": ["join", "{log}", "{users}", "--on", "user", "--unordered"],
    "join-in-order": ["join", "{log}", "{users}", "--on", "user"],
    "window": ["window", "{log}", "--by", "user", "--order", "time", "--add", "n=row_number,before=lag(bytes)"],
    "near": ["dedup", "{documents}", "--near", "text", "--jaccard", "0.8"],
}
# The same shingles, as many hashes and bands as outcore makes of 128 hashes at 0.8, and no text that is kept.
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
    """Does some work in a process of its own: what a program takes is never less than what its parent has."""
    child = os.fork()
    if child == 0:
        work(*arguments)
        sys.stdout.flush()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(1)


def make(log, users, rows):
    """A log of visits, and its users: a quarter as many."""
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
        # Some seven in ten urls are met once, the others again and again.
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
    """Texts of 350 words, some 2 KB; one in ten differs in a few words from one before."""
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


def drop_caches():
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        print("note: the page cache cannot be dropped without root", file=sys.stderr)


def run(words, hierarchies, limit_bytes):
    """Wall time, peak memory of the process in MiB, and why it failed, if it did."""
    drop_caches()
    with groups.Group(hierarchies, limit_bytes) as group:
        # What libraries keep for each CPU of the machine does not count against them.
        environment = {**os.environ, "POLARS_MAX_THREADS": str(THREADS)}
        started = time.monotonic()
        process = subprocess.Popen(groups.joined([str(word) for word in words], group.joins), env=environment,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        late = threading.Timer(LIMIT_S, lambda: os.killpg(process.pid, signal.SIGKILL))
        late.start()
        told = process.stderr.read().decode(errors="replace").strip()
        _, status, usage = os.wait4(process.pid, 0)
        late.cancel()
        seconds = time.monotonic() - started
        killed = group.oom_kills() if limit_bytes else 0
    cpu = usage.ru_utime + usage.ru_stime
    failure = None
    if seconds >= LIMIT_S:
        failure = f"not done after {LIMIT_S} s"
    elif status:
        failure = "killed" if killed or os.WIFSIGNALED(status) else told.splitlines()[-1][:160] if told else str(status)
    return seconds, cpu, usage.ru_maxrss >> 10, failure


def check(case, out, log, rows):
    """Fails for an output that cannot be right."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.ParquetFile(out)
    found = table.metadata.num_rows
    if case == "near":
        # How many are near depends on hashes.
        wanted = found
    elif case == "dedup":
        wanted = pc.count_distinct(pq.read_table(log, columns=["url"])["url"]).as_py()
    else:
        wanted = rows
    if found != wanted:
        sys.exit(f"{case}: {out} has {found} rows, not {wanted}")
    if case == "sort":
        some = pq.read_table(out, columns=["country", "time"]).slice(0, 2_000_000)
        country, at = some["country"].to_numpy(), some["time"].to_numpy()
        in_order = (country[1:] > country[:-1]) | ((country[1:] == country[:-1]) & (at[1:] >= at[:-1]))
        if not in_order.all():
            sys.exit(f"{case}: {out} is out of order")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--outcore", type=Path, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--rows", type=float, default=6e6)
    parser.add_argument("--memory-mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--tools", default="outcore,DuckDB,Polars,DataFusion")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    rows, memory_bytes = int(args.rows), args.memory_mib << 20
    log, users = args.dir / "log.parquet", args.dir / "users.parquet"
    if not users.exists():
        apart(make, log, users, rows)
    hierarchies = groups.find()
    if hierarchies.reason:
        print(f"note: no control group: {hierarchies.reason}", file=sys.stderr)
    limit_bytes = None if hierarchies.reason else memory_bytes + (memory_bytes >> 3)
    scratch = args.dir / "scratch"
    documents = args.dir / "documents.parquet"
    if "near" in args.only.split(",") and not documents.exists():
        apart(make_documents, documents, rows // DOCUMENTS)
    names = {"log": log, "users": users, "documents": documents, "scratch": scratch, "memory": f"{args.memory_mib}MiB",
             "memory_bytes": memory_bytes, "threads": THREADS}

    def words(tool, case):
        out = args.dir / f"out-{tool}.parquet"
        fill = {**names, "out": out}
        if tool == "outcore":
            given = [word.format(**fill) for word in OUTCORE[case]]
            return [args.outcore, *given, "-o", out, "--memory", names["memory"], "--threads", THREADS, "--force"], out
        if tool == "rensa":
            return [sys.executable, "-c", RENSA.replace("{documents}", str(documents))], out
        code, queries = {"DuckDB": (DUCKDB, DUCKDB_QUERIES), "Polars": (POLARS, POLARS_QUERIES),
                         "DataFusion": (DATAFUSION, DATAFUSION_QUERIES)}[tool]
        code = code.replace("{query}", queries[case]).format(**fill)
        return [sys.executable, "-c", code], out

    print(f"{rows:,} rows, {log.stat().st_size >> 20} MiB of Parquet, users {users.stat().st_size >> 20} MiB; told "
          f"{names['memory']}, group {(limit_bytes or 0) >> 20} MiB; {args.rounds} rounds\n")
    print("| case | tool | wall s in the group | CPU s | peak MiB | without the group, s | outcore faster by | failed |")
    print("|---|---|---|---|---|---|---|---|")
    for case in args.only.split(","):
        # One program compares texts, and no other; none sorts what it joins; Polars' windows do not stream.
        alone = {"near": ["outcore", "rensa"], "join-in-order": ["outcore"], "window": ["outcore", "DuckDB", "DataFusion"]}
        tools = alone.get(case, args.tools.split(","))
        results = {tool: [] for tool in tools}
        for round_number in range(args.rounds):
            for tool in tools:
                if results[tool] and results[tool][-1][3]:
                    continue
                shutil.rmtree(scratch, ignore_errors=True)
                scratch.mkdir()
                command, out = words(tool, case)
                out.unlink(missing_ok=True)
                results[tool].append(run(command, hierarchies, limit_bytes))
                if not results[tool][-1][3] and round_number == 0 and out.exists():
                    apart(check, case, out, log, rows)
                out.unlink(missing_ok=True)
        ours = None
        for tool in tools:
            failure = results[tool][-1][3]
            free = None
            if failure and limit_bytes:
                shutil.rmtree(scratch, ignore_errors=True)
                scratch.mkdir()
                command, out = words(tool, case)
                free = run(command, hierarchies, None)
                out.unlink(missing_ok=True)
            kept = results[tool] if not failure else [free] if free else results[tool]
            wall, cpu, peak = (statistics.median(result[place] for result in kept) for place in range(3))
            if tool == "outcore":
                ours = wall
            ratio = f"{wall / ours:.2f}" if ours and not (failure and (not free or free[3])) else "-"
            without = "" if not free else f"{free[0]:.1f}" if not free[3] else "failed"
            print(f"| {case} | {tool} | {'-' if failure else f'{wall:.1f}'} | {cpu:.1f} | {peak:.0f} | {without} | {ratio} "
                  f"| {failure or ''} |", flush=True)
        if case == "sort":
            code = FLOOR.format(log=log, out=args.dir / "out-codec")
            floors = [run([sys.executable, "-c", code], hierarchies, None)[0] for _ in range(args.rounds)]
            floor = statistics.median(floors)
            print(f"| codec alone | pyarrow | {floor:.1f} | | | | {floor / (ours or floor):.2f} | |", flush=True)
            for path in args.dir.glob("out-codec.*"):
                path.unlink()
    facts = subprocess.run(["lscpu", "--json"], capture_output=True, text=True)
    if facts.returncode == 0:
        model = [entry["data"] for entry in json.loads(facts.stdout)["lscpu"] if entry["field"] == "Model name:"]
        print(f"\nprocessor: {', '.join(model) or 'unknown'}")
    if not args.keep:
        shutil.rmtree(args.dir)


if __name__ == "__main__":
    main()
