#!/usr/bin/env python3
"""Compares every job on generated tables with the answers of DuckDB and pyarrow.

Contract: makes `--schemas` tables from a seed, each with its own schema, files and rows. Runs each job once on each
table, and compares rows, order, values to the bit and types. Prints each difference with the seed and the command, then
a line `N schemas, N jobs, N refused for memory, N differences`. The exit code is 1 if there is a difference. With
`--group SIZE` each command gets that much memory and runs in a control group of 64 MiB more, page cache included; a
command that the kernel kills is a difference.

    benches/peers/table_answers.py --outcore target/debug/outcore [--schemas 300] [--seed 1] [--only sort,join] [--group 64MiB]

The Python that runs it needs pyarrow and duckdb; `--group` needs root.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from answers.case import Case, Difference, Refused, Runner, plainly
from answers.jobs import JOBS
from peerbench import groups

BESIDE_BYTES = 64 << 20
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}


def in_group(limit_bytes: int) -> Runner:
    """Runs a command in a control group of its own."""
    hierarchies = groups.find()
    if hierarchies.version == 0:
        raise SystemExit(f"no control groups: {hierarchies.reason}")

    def run(argv: list[str], settings: dict[str, str]) -> tuple[int, str]:
        with groups.Group(hierarchies, limit_bytes) as group:
            return plainly(groups.joined(argv, group.joins), settings)

    return run


def bytes_of(text: str) -> int:
    """The number of bytes in a text such as `64MiB`."""
    return int(text[:-3]) * UNITS[text[-3:]]


def rows_of(rng: random.Random, rows_max: int) -> int:
    """The number of rows of a table: often few, sometimes many."""
    return rng.choice([0, 1, 2, 10, 100, 100, 400, rng.randint(1, 2000), rng.randint(1, max(1, rows_max))])


def one(seed: int, options: argparse.Namespace) -> tuple[list[str], collections.Counter[str]]:
    """Runs all jobs on the table of a seed. Returns the differences, and the number of each outcome."""
    rng = random.Random(seed)
    told: list[str] = []
    done: collections.Counter[str] = collections.Counter()
    how = (plainly, None) if options.group is None else (in_group(bytes_of(options.group) + BESIDE_BYTES), options.group)
    dir_path = Path(tempfile.mkdtemp(prefix=f"answers-{seed}-", dir=options.dir))
    case = None
    try:
        case = Case(seed, rows_of(rng, options.rows), dir_path, options.outcore, how)
        for name in options.only:
            done["jobs"] += 1
            try:
                JOBS[name](case)
            except Difference as error:
                told.append(f"seed {seed}, {name}: {error}\n  {case.told()}")
            except Refused as error:
                done["refused"] += 1
                if options.verbose:
                    print(f"seed {seed}, {name} refused: {str(error).strip()[-300:]}", flush=True)
            except subprocess.TimeoutExpired:
                told.append(f"seed {seed}, {name}: no end\n  {case.told()}")
            except Exception:
                told.append(f"seed {seed}, {name}: {traceback.format_exc()[-1500:]}\n  {case.told()}")
    except Exception:
        told.append(f"seed {seed}: {traceback.format_exc()[-1500:]}")
    if case is not None and not (told and options.keep):
        case.close()
    return told, done


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outcore", required=True)
    parser.add_argument("--schemas", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1, help="of the first table; the next ones count on")
    parser.add_argument("--rows", type=int, default=2000, help="the most rows of a table")
    parser.add_argument("--only", default=",".join(JOBS))
    parser.add_argument("--group", help="memory of each command, in a control group of 64 MiB more")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--dir", help="where files are made")
    parser.add_argument("--keep", action="store_true", help="keep the files of a table with a difference")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.outcore = str(Path(options.outcore).resolve())
    options.only = options.only.split(",")
    started = time.monotonic()
    done: collections.Counter[str] = collections.Counter()
    differences = 0
    seeds = range(options.seed, options.seed + options.schemas)
    with concurrent.futures.ProcessPoolExecutor(options.workers) as pool:
        for told, counted in pool.map(one, seeds, [options] * len(seeds), chunksize=4):
            done += counted
            differences += len(told)
            for text in told:
                print(text, flush=True)
    print(
        f"{options.schemas} schemas, {done['jobs']} jobs, {done['refused']} refused for memory, {differences} differences, "
        f"{time.monotonic() - started:.0f} s"
    )
    return min(differences, 1)


if __name__ == "__main__":
    sys.exit(main())
