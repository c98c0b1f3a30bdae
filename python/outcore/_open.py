"""Opens files as datasets: `open` and `tabulate`."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Union, overload

from . import _arguments as arguments
from . import _kinds
from ._column import Expression
from ._dataset import Dataset
from ._errors import usage
from ._held import is_held
from ._lines import Lines
from ._records import records
from ._requests import DatasetRequest, ResourcesRequest
from ._units import whole

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ._held import ArrowStream, TableSource
    from ._table import Table

Paths = Union[str, "os.PathLike[str]", Iterable[Union[str, "os.PathLike[str]"]]]


@overload
def open(
    src: ArrowStream,
    *,
    memory: arguments.Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: arguments.Size | None = None,
) -> Table: ...
@overload
def open(
    src: Paths,
    *,
    dtype: npt.DTypeLike | None = None,
    record: arguments.Record | None = None,
    lines: Literal[False] = False,
    zero_terminated: Literal[False] = False,
    memory: arguments.Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: arguments.Size | None = None,
    volume: arguments.StrPath | None = None,
) -> Dataset: ...
@overload
def open(
    src: Paths,
    *,
    lines: Literal[True, "any"],
    zero_terminated: bool = False,
    memory: arguments.Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: arguments.Size | None = None,
    volume: arguments.StrPath | None = None,
) -> Lines: ...
def open(
    src: Paths | TableSource,
    *,
    dtype: npt.DTypeLike | None = None,
    record: arguments.Record | None = None,
    lines: arguments.LinesHow = False,
    zero_terminated: bool = False,
    memory: arguments.Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: arguments.Size | None = None,
    volume: arguments.StrPath | None = None,
) -> Dataset | Lines | Table:
    """A dataset over files; only headers are read. Parquet and Arrow files, and tables of other
    libraries, become a `Table`, as by `table`, which has more options. Without `lines`, CSV and
    JSON lines also become a `Table`, by their names. Files with a type and `.npy` become a
    `Dataset`, and other text becomes `Lines`.

    Args:
        src: Files in order, as if they were one: raw records, `.npy`, the manifest of shards, or a
            pattern (`"part-*.bin"`, sorted by name).
        dtype, record: The type of a record, as in `sort`.
        lines: The files are text, whatever their names are: the result is a `Lines` of lines that
            end with a newline, as with `--lines` of the command. A blank line is a line, also in
            `.jsonl`, where `outcore.shuffle` leaves it out. Compressed files (gzip, zstd, bzip2 or
            xz, recognised by their content) are decompressed while they are read, or to scratch if
            a step needs all lines. Files with binary data (NULs, Parquet, Arrow, `.npy`, UTF-16,
            ...) are rejected; `"any"` treats their bytes as lines.
        zero_terminated: Lines end with NUL, not newline.
        memory, threads, drives, io, scratch_limit: The resources of each pass, as in `sort`. If no
            drive is given, scratch is next to the output, or in the current directory.
        volume: The drives file of a volume. `src` and outputs may be its datasets (`"@name"`), as
            in `sort`. Compressed text is copied to its first drive for each question.

    Raises: What `sort` raises.
    """
    given = dict(locals())
    src = arguments.looked_at_twice(src)
    if isinstance(dtype, Mapping):
        hint = 'outcore.table(src, schema={"id": "i32"}) gives the types of columns'
        raise usage("read dtype", "dtype= is the type of a record, not of columns", hint)
    from ._table import table

    resources = arguments.resources_of(memory, threads, drives, io, scratch_limit, arguments.SEED, volume)
    kind = _kinds.HELD
    if not is_held(src):
        typed = dtype is not None or record is not None
        names = _found(src)  # type: ignore[arg-type]
        kind = _kinds.what(names, resources, records=typed, lines=bool(lines))
        if kind in (_kinds.CSV, _kinds.JSON) and not lines:
            kind = _kinds.LINES if arguments.truth("zero_terminated", zero_terminated) else f"{kind}_table"
    _kinds.check(open, kind, given)
    if kind in _kinds.TABLES:
        how = {"memory": memory, "threads": threads, "drives": drives, "io": io}
        return table(src, scratch_limit=scratch_limit, **how)  # type: ignore[arg-type]
    if kind in _kinds.TEXT:
        return open_lines(src, lines or True, resources, zero_terminated)  # type: ignore[arg-type]
    request = _request(src, resources, dtype, record)  # type: ignore[arg-type]
    return Dataset(request, _dtype_of(dtype))


def open_lines(
    src: Paths,
    lines: arguments.LinesHow,
    resources: ResourcesRequest,
    zero_terminated: bool = False,
) -> Lines:
    """The lines of files."""
    terminator = 0 if arguments.truth("zero_terminated", zero_terminated) else ord("\n")
    request = _request(src, resources, None, None)
    return Lines({**request, "lines": True, "insists": arguments.insists(lines), "terminator": terminator})


def _request(
    src: Paths,
    resources: ResourcesRequest,
    dtype: npt.DTypeLike | None,
    record: arguments.Record | None,
) -> DatasetRequest:
    """Records of files."""
    return DatasetRequest(
        inputs=_found(src),
        records=records(dtype, record, None),
        lines=False,
        insists=False,
        terminator=ord("\n"),
        count=None,
        zipped=[],
        resources=resources,
        steps=[],
    )


def tabulate(
    count: SupportsIndex,
    f: Expression | None = None,
    *,
    memory: arguments.Size | None = None,
    threads: SupportsIndex | None = None,
    drives: Paths = (),
    io: str | None = None,
    scratch_limit: arguments.Size | None = None,
    volume: arguments.StrPath | None = None,
) -> Dataset:
    """The numbers 0 to `count` - 1 (u64), or the values of `f` for each; nothing is stored.

        >>> outcore.tabulate(10**9, "hash(x) % 100").write("random.bin")

    Args:
        count: The number of values.
        f: An expression over `outcore.x`, as in `Dataset.map`.
        memory, threads, drives, io, scratch_limit, volume: As in `open`.
    """
    request = DatasetRequest(
        inputs=[],
        records=records(None, None, None),
        lines=False,
        insists=False,
        terminator=ord("\n"),
        count=whole("count", count),
        zipped=[],
        resources=arguments.resources_of(memory, threads, drives, io, scratch_limit, arguments.SEED, volume),
        steps=[],
    )
    numbers = Dataset(request, None)
    return numbers if f is None else numbers.map(f)


def _found(src: Paths) -> list[str]:
    names = arguments.path_texts(src)
    if isinstance(src, str) and glob.has_magic(src) and not os.path.exists(src):
        names = sorted(glob.glob(src))
        if not names:
            raise usage("open input", f"no file is called {src}", "check the pattern")
    return names


def _dtype_of(dtype: npt.DTypeLike | None) -> np.dtype[Any] | None:
    """The given dtype, if it is a NumPy dtype."""
    if dtype is None or isinstance(dtype, str):
        return None
    from ._numpy import numpy

    return numpy.dtype(dtype)
