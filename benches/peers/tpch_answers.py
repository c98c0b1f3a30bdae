#!/usr/bin/env python3
"""Compares TPC-H tables sorted, joined and deduplicated with DuckDB's answers: the same rows, read by pyarrow, DuckDB
and Polars.

Contract: makes the tables with `tpchgen-cli`, runs each job once in `--memory`, and compares the output with DuckDB's
answer row by row, in order if there is one. DuckDB finds rows that only one of the two has (`except all`), and pyarrow
checks the order. Prints a line per job with its seconds. The exit code is 1 if one differs. With `--group` each command
runs in a control group of 64 MiB more than `--memory`, page cache included.

    benches/peers/tpch_answers.py --outcore target/release/outcore --tpchgen tpchgen-cli --dir DIR [--scale 0.1] [--memory 256MiB] [--group]

The Python that runs it needs pyarrow, duckdb and polars; `--group` needs root.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import polars
import pyarrow.parquet as pq
from answers.case import plainly
from table_answers import BESIDE_BYTES, bytes_of, in_group

JOBS = {
    "sort": (
        "sort {lineitem} --by l_returnflag --by l_shipdate:desc --by l_orderkey --by l_linenumber",
        "select * from '{lineitem}' order by l_returnflag, l_shipdate desc, l_orderkey, l_linenumber",
        ["l_orderkey", "l_linenumber"],
    ),
    "join": (
        "join {lineitem} {orders} --on l_orderkey=o_orderkey",
        "select l.*, o.* exclude (o_orderkey) from '{lineitem}' l join '{orders}' o on l_orderkey = o_orderkey",
        None,
    ),
    "join --how anti": (
        "join {customer} {orders} --on c_custkey=o_custkey --how anti",
        "select * from '{customer}' where c_custkey not in (select o_custkey from '{orders}') order by c_custkey",
        ["c_custkey"],
    ),
    "join --how full": (
        "join {customer} {orders} --on c_custkey=o_custkey --how full",
        "select coalesce(c_custkey, o_custkey) as c_custkey, c.* exclude (c_custkey), o.* exclude (o_custkey) "
        "from '{customer}' c full join '{orders}' o on c_custkey = o_custkey",
        None,
    ),
    "dedup": (
        "dedup {lineitem} --by l_suppkey --by l_shipdate",
        "select * exclude (pos) from (select *, row_number() over () as pos from '{lineitem}') "
        "qualify row_number() over (partition by l_suppkey, l_shipdate order by pos) = 1 order by pos",
        ["l_orderkey", "l_linenumber"],
    ),
    "group-by": (
        "group-by {lineitem} --by l_returnflag --by l_linestatus --agg n=count,quantity=sum(l_quantity),price=sum(l_extendedprice)",
        "select l_returnflag, l_linestatus, count(*) as n, sum(l_quantity) as quantity, sum(l_extendedprice) as price "
        "from '{lineitem}' group by all order by all",
        ["l_returnflag", "l_linestatus"],
    ),
}


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outcore", required=True)
    parser.add_argument("--tpchgen", default="tpchgen-cli")
    parser.add_argument("--dir", required=True, type=Path)
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--memory", default="256MiB")
    parser.add_argument("--group", action="store_true")
    options = parser.parse_args()
    tables = options.dir / f"tpch-{options.scale}"
    if not tables.is_dir():
        made = [options.tpchgen, "parquet", "-s", options.scale, f"--output-dir={tables}"]
        subprocess.run([*made, "--tables=lineitem,orders,customer"], check=True)
    names = {name: tables / f"{name}.parquet" for name in ("lineitem", "orders", "customer")}
    runner = in_group(bytes_of(options.memory) + BESIDE_BYTES) if options.group else plainly
    wrong = 0
    for job, (command, sql, ordered_by) in JOBS.items():
        out = options.dir / "out.parquet"
        out.unlink(missing_ok=True)
        argv = [options.outcore, *command.format(**names).split(), "-o", str(out)]
        started = time.monotonic()
        code, told = runner(argv, {"OUTCORE_MEMORY": options.memory})
        seconds = time.monotonic() - started
        if code != 0:
            wrong += 1
            print(f"{job}: exit code {code}: {told.strip()[-300:]}", flush=True)
            continue
        faults = differences(out, sql.format(**names), ordered_by)
        wrong += bool(faults)
        print(f"{job}: {'; '.join(faults) or 'the same rows'}, {seconds:.1f} s in {options.memory}", flush=True)
    return min(wrong, 1)


def differences(out: Path, sql: str, ordered_by: list[str] | None) -> list[str]:
    """Describes the faults of an output."""
    db = duckdb.connect()
    db.execute(f"create table expected as {sql}")
    db.execute(f"create view found as select * from '{out}'")
    faults = []
    for one, other in (("expected", "found"), ("found", "expected")):
        (count,) = db.execute(f"select count(*) from (select * from {one} except all select * from {other})").fetchone() or (0,)
        if count:
            faults.append(f"{count} rows only {one}")
    (rows,) = db.execute("select count(*) from expected").fetchone() or (0,)
    if pq.ParquetFile(out).metadata.num_rows != rows or polars.scan_parquet(out).select(polars.len()).collect().item() != rows:
        faults.append("pyarrow or Polars count other rows")
    polars.read_parquet(out)
    if ordered_by is not None:
        order = db.execute(f"select {', '.join(ordered_by)} from expected").to_arrow_table()
        found = pq.read_table(out, columns=ordered_by)
        if any(found[name].to_pylist() != order[name].to_pylist() for name in ordered_by):
            faults.append("another order")
    return faults


if __name__ == "__main__":
    sys.exit(main())
