"""Unusual tables: every type, nulls, extremes, nested payload, in files of every kind.

Contract: everything is a function of a seed. A column draws from a few values of its type, so that keys repeat. These
include the extremes of the type (least and greatest, -0.0, infinities, NaNs of both signs, empty and long strings).
Column `id` numbers the rows from 0, so that each row of an output can be found in the input. Tables that Parquet cannot
hold are written as Arrow.
"""

from __future__ import annotations

import datetime
import decimal
import random
import shutil
import sys
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

TEXTS = ["", "a", "A", "aa", "a\0", "Straße", "日本語", "z" * 40, "b" * 254, "c" * 255, "\U0010ffff", "null", "NULL", " ", "a,b", "1"]
UNITS = ["s", "ms", "us", "ns"]
ZONES = [None, None, "UTC", "Europe/Berlin", "+05:30"]
CODECS = ["none", "snappy", "zstd", "gzip", "brotli", "lz4"]
NAMES = ["country", "Country", "x y", "größe", "a.b", "key", "select", "v1", "ts", "n", "count", "日", "_", "x-y", "value"]

Value = Callable[[random.Random], Any]


def float_of(bits: int) -> float:
    """The double with these bits, including NaNs."""
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


NEGATIVE_NAN = float_of(0xFFF8_0000_0000_0000)


def _int(low: int, high: int) -> Value:
    def draw(rng: random.Random) -> int:
        kind = rng.randrange(6)
        if kind == 0:
            return rng.choice([low, high, max(low, -1), 0, 1, low + 1, high - 1])
        if kind < 4:
            return rng.randint(max(low, -20), min(high, 20))
        return rng.randint(low, high)

    return draw


def _float(rng: random.Random, tiny: float, huge: float) -> float:
    kind = rng.randrange(8)
    if kind == 0:
        extremes = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), NEGATIVE_NAN, tiny, -tiny, huge, -huge]
        return rng.choice(extremes)
    if kind < 5:
        return float(rng.randint(-9, 9))
    return rng.uniform(-1000.0, 1000.0)


def _text(rng: random.Random) -> str:
    kind = rng.randrange(5)
    if kind < 2:
        return rng.choice(TEXTS)
    if kind < 4:
        return "".join(rng.choice("abcxyz") for _ in range(rng.randrange(6)))
    return "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xA0, 0x800)])) for _ in range(rng.randrange(90)))


def _bytes(rng: random.Random) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice([b"", b"\0", b"\0\0", b"\xff", b"\xff" * 8, b"\0" * 33])
    return rng.randbytes(rng.randrange(4 if kind < 3 else 70))


def _decimal(precision: int, scale: int) -> Value:
    top = 10**precision - 1

    def draw(rng: random.Random) -> decimal.Decimal:
        unscaled = rng.choice([0, 1, -1, top, -top, rng.randint(-99, 99), rng.randint(-99, 99), rng.randint(-top, top)])
        if abs(unscaled) > top:
            unscaled = 0
        with decimal.localcontext(prec=90):
            return decimal.Decimal(unscaled).scaleb(-scale)

    return draw


def plain_type(rng: random.Random, *, views: bool = True) -> tuple[pa.DataType, Value]:
    """A type that is not nested, and the function that draws its values; pyarrow cannot take rows of nested `views`."""
    kind = rng.randrange(20)
    if kind < 5:
        bits, signed = rng.choice([8, 16, 32, 64]), rng.random() < 0.6
        made = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        return made, _int(low, high)
    if kind < 8:
        made, tiny, huge = rng.choice(
            [(pa.float16(), 6e-8, 65504.0), (pa.float32(), 1e-45, 3.4028234663852886e38), (pa.float64(), 5e-324, 1.7976931348623157e308)]
        )
        return made, lambda rng: _float(rng, tiny, huge)
    if kind < 12:
        return rng.choice([pa.string(), pa.string(), pa.large_string(), pa.string_view() if views else pa.string()]), _text
    if kind == 12:
        return rng.choice([pa.binary(), pa.large_binary(), pa.binary_view() if views else pa.binary()]), _bytes
    if kind == 13:
        width = rng.choice([1, 3, 16, 33])
        return pa.binary(width), lambda rng: rng.choice([b"\0" * width, b"\xff" * width, rng.randbytes(width)])
    if kind == 14:
        most, make = rng.choice([(9, pa.decimal32), (18, pa.decimal64), (38, pa.decimal128), (38, pa.decimal128), (76, pa.decimal256)])
        precision = rng.randint(1, most)
        scale = rng.randint(0, precision)
        return make(precision, scale), _decimal(precision, scale)
    if kind == 15:
        days = _int(-719162, 2932896)
        return pa.date32(), lambda rng: datetime.date(1970, 1, 1) + datetime.timedelta(days=days(rng))
    if kind == 16:
        made = rng.choice([pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
        return made, lambda rng: datetime.time(rng.randrange(24), rng.randrange(60), rng.choice([0, 0, 59]))
    if kind < 19:
        made, extreme = pa.timestamp(rng.choice(UNITS), rng.choice(ZONES)), 2**31
        return made, _int(-extreme, extreme)
    return rng.choice([(pa.bool_(), lambda rng: rng.random() < 0.5), (pa.duration(rng.choice(UNITS)), _int(-(2**40), 2**40))])


def nested_type(rng: random.Random, depth: int) -> tuple[pa.DataType, Value]:
    """A list, a struct or a map of values that may themselves be nested."""

    def inner() -> tuple[pa.DataType, Value]:
        made, draw = nested_type(rng, depth - 1) if depth > 1 and rng.random() < 0.4 else plain_type(rng, views=False)
        is_null = rng.choice([0.0, 0.2])
        return made, lambda rng: None if rng.random() < is_null else draw(rng)

    kind = rng.randrange(6)
    if kind < 2:
        made, draw = inner()
        return rng.choice([pa.list_, pa.large_list])(made), lambda rng: [draw(rng) for _ in range(rng.choice([0, 1, 2, 5]))]
    if kind == 2:
        (made, draw), count = inner(), rng.randrange(1, 4)
        return pa.list_(made, count), lambda rng: [draw(rng) for _ in range(count)]
    if kind == 3:
        (keys, key), (made, draw) = plain_type(rng, views=False), inner()
        while pa.types.is_floating(keys):
            keys, key = plain_type(rng, views=False)
        return pa.map_(keys, made), lambda rng: [(key(rng), draw(rng)) for _ in range(rng.randrange(3))]
    members = {f"f{index}": inner() for index in range(rng.randrange(1, 4))}
    made = pa.struct([(name, of) for name, (of, _) in members.items()])
    return made, lambda rng: {name: draw(rng) for name, (_, draw) in members.items()}


@dataclass(frozen=True)
class Column:
    """A column to be made: its type, the function that draws values, and whether it may be null."""

    name: str
    type: pa.DataType
    draw: Value
    is_dictionary: bool
    null_share: float

    @property
    def is_nested(self) -> bool:
        return pa.types.is_nested(self.type)

    def values(self, rng: random.Random, rows_count: int, distinct: int) -> pa.Array:
        """`count` values, with a limited number of distinct ones."""
        stored = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(self.type, self.type)
        pool = pa.array([self.draw(rng) for _ in range(distinct)], stored)
        places = [None if rng.random() < self.null_share else rng.randrange(distinct) for _ in range(rows_count)]
        drawn = pool.take(pa.array(places, pa.int64()))
        return drawn.dictionary_encode() if self.is_dictionary else drawn.cast(self.type) if stored != self.type else drawn


def columns(rng: random.Random) -> list[Column]:
    """One to seven columns, at least one of them not nested."""
    names = rng.sample(NAMES, rng.randint(1, 7))
    made = []
    for index, name in enumerate(names):
        of, draw = nested_type(rng, 3) if index > 0 and rng.random() < 0.3 else plain_type(rng)
        is_dictionary = pa.types.is_string(of) and rng.random() < 0.4
        made.append(Column(name, of, draw, is_dictionary, rng.choice([0.0, 0.0, 0.1, 0.5, 1.0 if index else 0.3])))
    return made


def table(rng: random.Random, wanted: list[Column], rows_count: int) -> pa.Table:
    """Rows of these columns after a column with their number."""
    distinct = rng.choice([1, 2, 5, 30, max(1, rows_count)])
    distinct = min(distinct, max(1, rows_count), 400)
    arrays = [pa.array(range(rows_count), pa.int64())]
    fields = [pa.field("id", pa.int64(), nullable=False)]
    for column in wanted:
        values = column.values(rng, rows_count, distinct)
        arrays.append(values)
        fields.append(pa.field(column.name, values.type, nullable=column.null_share > 0 or rng.random() < 0.7))
    return pa.table(arrays, schema=pa.schema(fields))


def holds(of: pa.DataType, is_it: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type is one of these, or contains one."""
    inner = [of.field(place).type for place in range(of.num_fields)] if pa.types.is_nested(of) else []
    return is_it(of) or any(holds(member, is_it) for member in inner)


def fits_parquet(schema: pa.Schema) -> bool:
    """Whether pyarrow reads the same values back from Parquet: no lists of a fixed size with nulls, and no seconds,
    which become milliseconds."""

    def is_unfit(of: pa.DataType) -> bool:
        is_second = (pa.types.is_timestamp(of) or pa.types.is_time32(of)) and of.unit == "s"
        return pa.types.is_fixed_size_list(of) or is_second

    return not any(holds(field.type, is_unfit) for field in schema)


@dataclass(frozen=True)
class Written:
    """A table in files: the arguments that name them, and the table that pyarrow reads from them."""

    names: list[Path]
    read: pa.Table
    is_parquet: bool


def write(rng: random.Random, rows: pa.Table, dir_path: Path, name: str) -> Written:
    """Writes a table as one file, several, or a directory of them, in Parquet or Arrow."""
    is_parquet = rng.random() < 0.7 and not any(holds(field.type, pa.types.is_fixed_size_list) for field in rows.schema)
    files_count = rng.choice([1, 1, 1, 2, 5])
    cuts = sorted(rng.randint(0, rows.num_rows) for _ in range(files_count - 1))
    starts, ends = [0, *cuts], [*cuts, rows.num_rows]
    ending = "parquet" if is_parquet else rng.choice(["arrow", "arrows"])
    folder = dir_path / name
    folder.mkdir()
    paths = [folder / f"{index}.{ending}" for index in range(files_count)]
    try:
        for path, start, end in zip(paths, starts, ends):
            _write_file(rng, rows.slice(start, end - start), path)
        read = pa.concat_tables([read_table(path) for path in paths])
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        # A type that Parquet does not have, or nested values that pyarrow writes but cannot read. outcore has not seen
        # the file yet.
        if not is_parquet:
            raise
        print(f"{name} is written anew, since pyarrow cannot do it: {error}", file=sys.stderr)
        shutil.rmtree(folder)
        return write(rng, rows, dir_path, name)
    is_folder = files_count > 1 and rng.random() < 0.5
    return Written([folder] if is_folder else paths, read, is_parquet)


def _write_file(rng: random.Random, rows: pa.Table, path: Path) -> None:
    batch_rows = rng.choice([1, 7, 100, 5000]) if rows.num_rows < 500 else rng.choice([100, 5000, 100_000])
    if path.suffix == ".parquet":
        pq.write_table(
            rows,
            path,
            row_group_size=batch_rows,
            compression=rng.choice(CODECS),
            use_dictionary=rng.random() < 0.7,
            data_page_version=rng.choice(["1.0", "2.0"]),
            data_page_size=rng.choice([64, 4096, 1 << 20]),
            write_page_index=rng.random() < 0.3,
            write_page_checksum=rng.random() < 0.3,
        )
    elif path.suffix == ".arrow":
        feather.write_feather(rows, path, compression=rng.choice(["uncompressed", "lz4", "zstd"]), chunksize=batch_rows)
    else:
        options = ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]), emit_dictionary_deltas=False)
        with ipc.new_stream(path, rows.schema, options=options) as writer:
            writer.write_table(rows.combine_chunks(), max_chunksize=batch_rows)


def read_table(path: Path) -> pa.Table:
    """The table that pyarrow reads from a file of any of the formats."""
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read()
    if path.suffix == ".arrow":
        return ipc.open_file(path).read_all()
    return ipc.open_stream(path).read_all()
