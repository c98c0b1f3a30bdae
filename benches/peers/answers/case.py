"""A table, its copy in DuckDB, and the jobs that run on it.

Contract: a `Case` runs `outcore` once per `run`, with random memory and threads, and reads the output with pyarrow. Any
deviation is a `Difference`, with the command. Every row of an output is compared with the input row of the same `id`,
value by value and to the bit; the types of all columns are compared as well.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from . import generate, values


class Difference(Exception):
    """An answer that is not the expected one."""


class Refused(Exception):
    """The command reported that the memory is too small."""


#: Runs a command line with settings in its environment. Returns the exit code and the text on standard error.
Runner = Callable[[list[str], dict[str, str]], tuple[int, str]]


def plainly(argv: list[str], settings: dict[str, str]) -> tuple[int, str]:
    """Runs a command without any wrapper."""
    environment = {**os.environ, **settings}
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=300, check=False, env=environment)
    return done.returncode, done.stderr


class Case:
    """One schema: see the module."""

    def __init__(self, seed: int, rows_count: int, dir_path: Path, outcore: str, how: tuple[Runner, str | None]) -> None:
        self.rng = random.Random(seed)
        self.dir = dir_path
        self.outcore = outcore
        self.runner, self.memory = how
        self.columns = generate.columns(self.rng)
        rows = generate.table(self.rng, self.columns, rows_count)
        self.source = generate.write(self.rng, rows, dir_path, "t")
        self.rows = self.source.read
        self.rows_count = rows_count
        self.bits = {name: values.bits(values.whole(self.rows[name])) for name in self.rows.column_names}
        self.plain = [column.name for column in self.columns if not column.is_nested]
        self.db = duckdb.connect(config={"threads": 1})
        self.register("t", self.rows)
        self.jobs_count = 0
        self.last: list[str] = []

    def close(self) -> None:
        self.db.close()
        shutil.rmtree(self.dir)

    def register(self, name: str, rows: pa.Table) -> None:
        """A table in DuckDB with the column `pos`, and `kN` with the key of column number N."""
        arrays: dict[str, Any] = {"pos": pa.array(range(rows.num_rows), pa.int64())}
        for place, column in enumerate(rows.column_names):
            array = values.whole(rows[column])
            arrays[f"k{place}"] = values.key(array)
        held = pa.table(arrays)
        self.db.register("held", held)
        self.db.execute(f"create table {name} as select * from held")
        self.db.unregister("held")

    def place(self, column: str) -> int:
        return self.rows.column_names.index(column)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self.db.execute(sql).fetchall()

    def ids(self, sql: str) -> list[int]:
        return [row[0] for row in self.query(sql)]

    def output(self, *more: pa.Schema) -> Path:
        """A name for an output with the columns of the table and `more`, in a format that pyarrow reads."""
        is_fit = all(generate.fits_parquet(schema) for schema in (self.rows.schema, *more))
        ending = self.rng.choice(["parquet", "parquet", "arrow", "arrows"] if is_fit else ["arrow", "arrow", "arrows"])
        self.jobs_count += 1
        return self.dir / f"out{self.jobs_count}.{ending}"

    def command(self, *args: Any) -> tuple[int, str]:
        """Runs outcore. Returns the exit code and standard error."""
        argv = [self.outcore, *map(str, args)]
        settings = {
            "OUTCORE_MEMORY": self.memory or self.rng.choice(["64MiB", "200MiB"]),
            "OUTCORE_THREADS": str(self.rng.choice([1, 2, 3])),
        }
        self.last = [*(f"{name}={value}" for name, value in settings.items()), *argv]
        code, told = self.runner(argv, settings)
        if code in (-9, 137, 134, -6, 101):
            raise Difference(f"ended with {code}: {told[-600:]}")
        return code, told

    def run(self, *args: Any) -> None:
        """Runs outcore, which must succeed."""
        code, told = self.command(*args)
        if code != 0:
            if "memory" in told and "--memory" in told:
                raise Refused(told)
            raise Difference(f"exit code {code}: {told.strip()[-600:]}")

    def told(self) -> str:
        return shlex.join(self.last)

    def made(self, out: Path) -> pa.Table:
        """The output, which must be valid."""
        found = generate.read_table(out)
        found.validate(full=True)
        return found

    def same_rows(self, found: pa.Table, ids: Sequence[int | None], columns: Sequence[str] | None = None) -> None:
        """Fails unless the columns of `found` are those of the rows with these numbers."""
        names = list(columns or self.rows.column_names)
        same_columns((self.rows, self.bits), found, ids, dict(zip(names, names)))
        if columns is None and found.column_names != names:
            raise Difference(f"columns {found.column_names}, not {names}")


def same_columns(
    of: tuple[pa.Table, dict[str, pa.Array]], found: pa.Table, ids: Sequence[int | None], names: dict[str, str]
) -> None:
    """Fails unless columns of `found` equal those of a table, matched by name, in the rows `ids`."""
    rows, held = of
    taken = pa.array(ids, pa.int64())
    if found.num_rows != len(taken):
        raise Difference(f"{found.num_rows} rows, not {len(taken)}")
    for name, found_name in names.items():
        if found_name not in found.column_names:
            raise Difference(f"no column {found_name!r}")
        one, other = rows.schema.field(name).type, found.schema.field(found_name).type
        if values.type_text(one) != values.type_text(other):
            raise Difference(f"column {name!r} is {other}, not {one}")
        expected = held[name].take(taken)
        got = values.bits(values.whole(found[found_name]))
        if not got.equals(expected):
            place = next(at for at in range(len(got)) if not got[at : at + 1].equals(expected[at : at + 1]))
            raise Difference(f"column {name!r} ({one}), row {place}: {got[place]!r}, not {expected[place]!r} of row {ids[place]}")


def same_values(name: str, found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Fails at the first value that differs. NaNs are equal to each other, and whole numbers compare by value
    regardless of their type."""
    if len(found) != len(expected):
        raise Difference(f"{name}: {len(found)} values, not {len(expected)}")
    for place, (one, other) in enumerate(zip(found, expected)):
        if one != other and not (one != one and other != other):
            raise Difference(f"{name}, row {place}: {one!r}, not {other!r}")
