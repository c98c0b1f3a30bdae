#!/usr/bin/env python3
"""outcore's primitives on text and numbers: against terashuf, GNU sort, the drive itself, and 1 to 8 throttled drives.

Measures every case of peerbench/primitive_cases.py, prints the tables, and writes JSON, text and Markdown into the
results directory (after each case). `docs/benchmarks/primitives.md` and `text.md` explain the cases and every column.

    bench_primitives.py                        everything, about 18 minutes and 17 GiB of disk
    bench_primitives.py --quick                a smoke run at 1/16, once
    bench_primitives.py --cases shuffle-text,sort-text --rounds 5
    bench_primitives.py --from-json A.json B.json --write-docs    put stored runs into the documentation

terashuf has no packages: build it from its source (github.com/alexandres/terashuf) and pass its path with --terashuf,
or copy it to benches/peers/build/terashuf. Without it the case runs alone and says so. Root is needed for dropped
caches, memory limits and throttled drives. Exit codes as in bench_sort.py.
"""

from __future__ import annotations

import argparse
import os
import sys
from fractions import Fraction
from pathlib import Path

from peerbench import install, primitive_cases, report, session

BENCH = session.Bench(
    judge=report.PRIMITIVES,
    names=primitive_cases.NAMES,
    peers=("terashuf", "gnu"),
    parts=install.PRIMITIVE_PARTS,
    versions=("terashuf", "GNU sort", "fio", "g++", "Python"),
    opened=primitive_cases.opened,
    swept=(*primitive_cases.CASE_NAMES, primitive_cases.INPUTS_NAME),
)


def _program(text: str) -> Path:
    path = Path(text)
    if not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"{text} is not a program that can be run")
    return path.resolve()


def main() -> int:
    parser = session.parser(BENCH, __doc__.split("\n\n")[0])
    built = install.TERASHUF_BINARY
    parser.add_argument(
        "--terashuf",
        type=_program,
        default=built if os.access(built, os.X_OK) else None,
        metavar="PROGRAM",
        help="the peer of shuffle-text (default: benches/peers/build/terashuf, if it is there)",
    )
    parser.add_argument("--quick", action="store_true", help="short for --scale 1/16 --rounds 1")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.scale, arguments.rounds = Fraction(1, 16), 1
    return session.run(BENCH, arguments)


if __name__ == "__main__":
    sys.exit(main())
