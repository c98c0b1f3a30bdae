"""Samples of sources, and the splitters that are chosen from them.

Contract: a sample of a file reads a few blocks at random places, not the whole file. Compressed
text, tables that are not Parquet, and objects of stores without range requests cannot be sampled in
this way: they are read in full. Splitters are quantiles of the samples in the order of the job. They
only decide how large parts are: any splitters give a correct result.
"""

from __future__ import annotations

import io
import os
import random
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .. import _part_verbs, _verbs
from .._libraries import library
from . import _files
from ._job import Form, Source, mixed

#: Bytes that are read at a place of a file, and the most places of a file of lines.
_STRETCH_BYTES = 64 << 10
_STRETCHES = 64
#: The longest sampled line.
_LINE_BYTES_MAX = 64 << 10
#: Row groups of a Parquet file whose keys are read.
_GROUPS = 16
_PACKED = {".gz", ".zst", ".bz2", ".xz"}
#: One entry of a list of columns; a name in backquotes may contain commas.
_ENTRY = re.compile(r"(?:`[^`]*`|[^,`])+")


def entries(by: Iterable[str]) -> tuple[str, ...]:
    """Each column of a list, with its options."""
    return tuple(entry for text in by for entry in _ENTRY.findall(text))


def names(by: Iterable[str]) -> list[str]:
    """The columns of a table that hold these keys."""
    return [_parts(entry)[0].strip("`") for entry in entries(by)]


def descending(by: Iterable[str]) -> tuple[str, ...]:
    """The same order, with the largest value first in all columns that have no direction."""
    made = []
    for entry in entries(by):
        has_direction = {"desc", "asc", "r"} & set(_parts(entry)[1:])
        made.append(entry if has_direction else f"{entry}:desc")
    return tuple(made)


def _parts(entry: str) -> list[str]:
    """The name of an entry, and its options."""
    name, _, options = entry.rpartition("`")
    front, *words = options.split(":")
    return [f"{name}{front}", *words]


def sample(
    source: Source, form: Form, count: int, seed: int, by: tuple[str, ...]
) -> list[bytes]:
    """About `count` items of a source: records or lines one after another, or a Parquet file for
    each of its files."""
    rng = random.Random(mixed(seed, f"sample{source.side}", source.number))
    found = []
    for file in source.files:
        share = file.size_bytes / source.size_bytes if source.size_bytes else 1 / len(source.files)
        found.append(_of_file(file.path, form, max(1, int(count * share)), rng, by))
    return found


def _of_file(path: str, form: Form, count: int, rng: random.Random, by: tuple[str, ...]) -> bytes:
    is_ranged = _files.is_ranged(path)
    if form.kind == "table":
        return _of_table(path, is_ranged, count, rng, by)
    if is_ranged and form.record_bytes:
        return _of_records(path, form, count, rng)
    if is_ranged and os.path.splitext(path)[1] not in _PACKED:
        return _of_lines(path, count, rng)
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / f"sample{form.suffix}"
        _part_verbs.sample(path, made, count=count, seed=rng.randrange(1 << 32), **form.reading)
        return made.read_bytes()[form.header_bytes :]


def _of_records(path: str, form: Form, count: int, rng: random.Random) -> bytes:
    size, header_bytes = form.record_bytes, form.header_bytes
    with _files.reader(path) as file:
        records = max(file.size_bytes - header_bytes, 0) // size
        if not records:
            return b""
        # Records next to each other share a read, so that an object needs few requests.
        each = max(1, min(_STRETCH_BYTES // size, count // _STRETCHES, records))
        stretches = min(-(-count // each), records // each)
        places = _places(records - each + 1, stretches, rng)
        found = [file.read_at(each * size, header_bytes + place * size) for place in places]
    return b"".join(found)


def _places(room: int, count: int, rng: random.Random) -> list[int]:
    """A random place in each of several equal stretches, since a file may be in order."""
    ends = [number * room // count for number in range(count + 1)]
    return [rng.randrange(start, max(end, start + 1)) for start, end in zip(ends, ends[1:])]


def _of_lines(path: str, count: int, rng: random.Random) -> bytes:
    """Whole lines from stretches at random places."""
    found: list[bytes] = []
    with _files.reader(path) as file:
        stretches = max(1, min(_STRETCHES, file.size_bytes // _STRETCH_BYTES))
        each = -(-count // stretches)
        for at in _places(max(file.size_bytes - _STRETCH_BYTES, 0) + 1, stretches, rng):
            lines = file.read_at(_STRETCH_BYTES, at).split(b"\n")
            # The first line may be the rest of a line, and the last one may be cut.
            lines = lines[0 if at == 0 else 1 : -1] or lines[:1]
            lines = [line for line in lines if line.strip() and len(line) < _LINE_BYTES_MAX]
            found += rng.sample(lines, min(each, len(lines)))
    return b"".join(line + b"\n" for line in found)


def _of_table(path: str, is_ranged: bool, count: int, rng: random.Random, by: tuple[str, ...]) -> bytes:
    parquet = library("pyarrow.parquet", "sample a table")
    arrow = library("pyarrow", "sample a table")
    if is_ranged and path.endswith(".parquet"):
        file = parquet.ParquetFile(_files.object_file(path) if _files.is_object(path) else path)
        columns = _roots(file.schema_arrow.names, by)
        count_of_groups = min(_GROUPS, file.num_row_groups)
        groups = _places(file.num_row_groups, count_of_groups, rng) if count_of_groups else []
        table = file.read_row_groups(groups, columns=columns)
        rows = rng.sample(range(table.num_rows), min(count, table.num_rows))
        return _written(table.take(arrow.array(sorted(rows), type=arrow.int64())))
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / "sample.parquet"
        _part_verbs.sample(path, made, count=count, seed=rng.randrange(1 << 32))
        table = parquet.read_table(made)
        return _written(table.select(_roots(table.column_names, by)))


def _roots(columns: Sequence[str], by: tuple[str, ...]) -> list[str]:
    """The columns that hold the keys, which may be fields of objects; all without a key."""
    if not by:
        return list(columns)
    keys = names(by)
    return [name for name in columns if any(key == name or key.startswith(f"{name}.") for key in keys)]


def _written(table: Any) -> bytes:
    sink = io.BytesIO()
    library("pyarrow.parquet", "write splitters").write_table(table, sink)
    return sink.getvalue()


def choose(samples: list[bytes], form: Form, parts: int, order: dict[str, Any]) -> bytes:
    """The file of at most `parts - 1` splitters, as bytes, from samples of all sources. `order` has
    the arguments of `sort`."""
    with tempfile.TemporaryDirectory() as place:
        if form.kind == "table":
            return _choose_rows([part for part in samples if part], place, parts, order)
        every, ordered = Path(place) / "all.bin", Path(place) / "sorted.bin"
        every.write_bytes(b"".join(samples))
        if not every.stat().st_size:
            return b""
        _verbs.sort(every, ordered, **form.bare_reading, **order)
        data = ordered.read_bytes()
        size = form.record_bytes
        items = (
            [data[at : at + size] for at in range(0, len(data), size)]
            if size
            else [line + b"\n" for line in data.split(b"\n")[:-1]]
        )
        return b"".join(_quantiles(items, parts))


def _quantiles(items: list[bytes], parts: int) -> list[bytes]:
    """The borders between shares of equal size; a border that comes twice would make an empty part."""
    chosen = (items[number * len(items) // parts] for number in range(1, parts))
    return list(dict.fromkeys(chosen))


def _choose_rows(samples: list[bytes], place: str, parts: int, order: dict[str, Any]) -> bytes:
    parquet = library("pyarrow.parquet", "choose splitters")
    paths = []
    for number, part in enumerate(samples):
        path = Path(place) / f"sample-{number}.parquet"
        path.write_bytes(part)
        paths.append(path)
    ordered = Path(place) / "sorted.parquet"
    _verbs.sort(paths, ordered, union=True, **order)
    table = parquet.read_table(ordered)
    places = [number * table.num_rows // parts for number in range(1, parts)]
    rows = sorted(set(places)) if table.num_rows else []
    return _written(table.take(rows) if rows else table.slice(0, 0))


def count_of(splitters: bytes, form: Form) -> int:
    """The number of splitters in a file."""
    if form.kind == "table":
        return int(library("pyarrow.parquet", "count splitters").read_metadata(io.BytesIO(splitters)).num_rows)
    return len(splitters) // form.record_bytes if form.record_bytes else splitters.count(b"\n")
