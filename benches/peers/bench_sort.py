#!/usr/bin/env python3
"""outcore's sorting benchmark: outcore, STXXL, DuckDB, Polars and GNU sort, alternately, in the same memory.

Installs what the peers need, measures every case of peerbench/cases.py, prints the tables, and writes JSON, text and
Markdown into the results directory (after each case, so that an interrupted run keeps what it had).
`docs/benchmarks/sorts.md` explains every column.

    bench_sort.py                              everything, about 25 minutes and 45 GiB of disk
    bench_sort.py --scale 1/16 --rounds 1      a smoke run under a minute
    bench_sort.py --only 2g,drives             some cases
    bench_sort.py --from-json A.json B.json --write-docs    put stored runs into the documentation

Root is needed for dropped caches, memory limits and throttled drives; without it the run continues and reports what it
lacks. Exit codes: 0 measured (targets met or not), 1 a case or outcore failed or an output was wrong, 2 usage, 130
interrupted.
"""

from __future__ import annotations

import functools
import sys
from contextlib import AbstractContextManager, nullcontext

from peerbench import cases, install, report, session
from peerbench.setting import Setting


def _opened(setting: Setting) -> AbstractContextManager[dict[str, session.Group]]:
    return nullcontext({name: functools.partial(group, setting) for name, group in cases.GROUPS.items()})


BENCH = session.Bench(
    judge=report.SORT,
    names=tuple(cases.GROUPS),
    peers=("stxxl", "duckdb", "polars", "gnu"),
    parts=install.SORT_PARTS,
    versions=("STXXL", "DuckDB", "Polars", "pyarrow", "numpy", "GNU sort", "fio", "g++", "Python"),
    opened=_opened,
)


def main() -> int:
    parser = session.parser(BENCH, __doc__.split("\n\n")[0])
    parser.add_argument("--all-peers", action="store_true", help="run the peers in the 8 GiB case too")
    return session.run(BENCH, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
