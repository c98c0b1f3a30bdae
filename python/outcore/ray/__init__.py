"""Sort, shuffle, deduplicate, join and group on a cluster, with Ray.

    >>> import outcore.ray
    >>> done = outcore.ray.sort("/shared/keys/*.bin", "/shared/sorted", dtype="u64")
    >>> done.parts
    (PosixPath('/shared/sorted/part-00000.bin'), ...)

Ray starts the tasks, and outcore does their work: a task per input file partitions it by key to the
drives of its node, and a task per part collects the part from all nodes and writes it. Each verb
has the result of the function of the same name in `outcore`, in a directory of parts. The parts of
`sort`, one after another, have the bytes that `outcore.sort` writes.

Inputs are paths that all nodes can read (a shared file system, or objects such as `s3://...`), a
dictionary from the ID of a node to paths on its drives, or a `ray.data.Dataset`. A file is the unit
of work: give at least as many files as the cluster has processors. All nodes need outcore, and a
directory for parts in each of `drives`.

Only this module needs Ray: `pip install outcore[ray]`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex, Union

try:
    import ray as _ray  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "ray":
        raise
    _text = "outcore.ray needs Ray, which is not installed; install it: python -m pip install 'outcore[ray]'"
    raise ModuleNotFoundError(_text, name="ray") from None

from .. import _outcore
from .._arguments import Keys, Paths, Record, Size, StrPath, path_texts, resources_of, texts
from .._errors import usage
from .._progress import Watcher
from .._units import whole
from . import _driver, _files, _sample

__all__ = [
    "ClusterSummary", "count_by", "dedup", "group_by", "join", "shuffle", "sort", "unique",
]

#: Paths that all nodes can read, paths by the ID of the node that has them, or a `ray.data.Dataset`.
Source = Union[Paths, Mapping[str, Paths], Any]


@dataclass(frozen=True)
class ClusterSummary:
    """The result of a job on a cluster."""

    #: The files of the result, in order.
    parts: tuple[Path | str, ...]
    #: Items of each file: records, lines or rows.
    counts: tuple[int, ...]
    #: Items read.
    items_in: int
    #: Items written.
    items_out: int
    #: The sum of the hashes of all items read, in hexadecimal, as `verify` computes it.
    checksum: str
    #: Input files.
    sources: int
    #: Input files that were partitioned again because a node was lost.
    repeated: int
    #: Bytes that went from node to node.
    fetched_bytes: int

    def dataset(self) -> Any:
        """The parts of a table as a `ray.data.Dataset`."""
        from ray.data import read_parquet

        return read_parquet([str(part) for part in self.parts])


def sort(
    src: Source, dst: StrPath, *, by: Keys | None = None, dtype: Any = None,
    record: Record | None = None, key: Keys | None = None, descending: bool = False,
    stable: bool = False, unique: bool = False, lines: bool = False, jsonl: bool = False,
    parts: SupportsIndex | None = None, memory: Size | None = None, cpus: SupportsIndex = 1,
    drives: Paths = ("/var/tmp",), seed: SupportsIndex = 1, force: bool = False,
    progress: Watcher | bool | None = None,
) -> ClusterSummary:
    """Sort files on a cluster.

    The parts, one after another, have the bytes that `outcore.sort` writes to one file. Parts of
    Parquet have the same rows in the same order.

    Args:
        src: See the module.
        dst: A directory that all nodes can write, which appears when the whole result is in it; or a
            prefix of objects, whose parts appear one by one.
        by: Columns of tables or fields of JSON lines, as in `outcore.sort`.
        dtype, record, key, descending, stable, unique: As in `outcore.sort`.
        lines, jsonl: Take the input for lines or JSON lines, whatever its names.
        parts: The number of parts; equal keys share a part, so there may be fewer. Default: as many
            as there are processors, or more so that a part fits in the memory of a task.
        memory: Memory of the engine in each task. Ray reserves 256 MiB more for its worker. Default:
            an equal share of the memory of the node.
        cpus: Processors of each task.
        drives: Directories on each node for the files between the two stages, and for scratch.
        seed: Chooses the sampled keys, which decide only how large parts are.
        force: Replace an existing directory.
        progress: As in `outcore.sort`. An exception in a function stops the job.

    Raises: What `outcore.sort` raises. IoError: a task was lost several times.
    """
    fields = texts(by)
    given = {"by": fields} if fields else {}
    options = {**given, "stable": stable, "unique": unique, "descending": descending}
    if fields and descending:
        # Splitters are in the order of the parts. Only the sort itself also reverses equal keys.
        fields, descending = list(_sample.descending(fields)), False
    order = {"by": fields} if fields else {}
    return _run(
        "sort", [src], dst, locals(), order=order, options=options, by=[fields],
        is_reversed=descending,
    )


def shuffle(
    src: Source, dst: StrPath, *, dtype: Any = None, record: Record | None = None,
    lines: bool = False, jsonl: bool = False, parts: SupportsIndex | None = None,
    memory: Size | None = None, cpus: SupportsIndex = 1, drives: Paths = ("/var/tmp",),
    seed: SupportsIndex = 1, force: bool = False, progress: Watcher | bool | None = None,
) -> ClusterSummary:
    """Shuffle lines, records or rows of all files into a uniformly random order.

    Each item goes to a part that is chosen at random, and each part is shuffled, so all orders of all
    items are equally likely. The order depends only on the seed, the inputs and the number of parts;
    give `parts` to repeat it on another cluster.

    Args: As in `sort`.

    Raises: What `sort` raises.
    """
    return _run("shuffle", [src], dst, locals(), order=None, options={})


def unique(
    src: Source, dst: StrPath, *, by: Keys | None = None, dtype: Any = None,
    record: Record | None = None, key: Keys | None = None, count: bool = False,
    lines: bool = False, jsonl: bool = False, parts: SupportsIndex | None = None,
    memory: Size | None = None, cpus: SupportsIndex = 1, drives: Paths = ("/var/tmp",),
    seed: SupportsIndex = 1, force: bool = False, progress: Watcher | bool | None = None,
) -> ClusterSummary:
    """Keep one of each line, record or row, in order.

    Args:
        by: Keep one row or JSON line of each of these keys.
        count: Write how often each occurs, as `outcore.unique` does.
        src, dst, dtype, record, key, lines, jsonl, parts, memory, cpus, drives, seed, force, progress:
            As in `sort`.

    Raises: What `sort` raises.
    """
    order = {"by": texts(by)} if by is not None else {}
    options = {**order, "count": True} if count else order
    return _run("unique", [src], dst, locals(), order=order, options=options, by=[texts(by)])


def count_by(
    src: Source, dst: StrPath, by: Keys, *, parts: SupportsIndex | None = None,
    memory: Size | None = None, cpus: SupportsIndex = 1, drives: Paths = ("/var/tmp",),
    seed: SupportsIndex = 1, force: bool = False, progress: Watcher | bool | None = None,
) -> ClusterSummary:
    """Count how often each value of columns of a table occurs, in the order of the values.

    `unique` with `count` counts whole lines and records.

    Args:
        by: One column or several.
        src, dst, parts, memory, cpus, drives, seed, force, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    return _of_table("count_by", [src], dst, locals(), [texts(by)], {"by": texts(by)})


def dedup(
    src: Source, dst: StrPath, by: Keys, *, keep: str = "first", parts: SupportsIndex | None = None,
    memory: Size | None = None, cpus: SupportsIndex = 1, drives: Paths = ("/var/tmp",),
    seed: SupportsIndex = 1, force: bool = False, progress: Watcher | bool | None = None,
) -> ClusterSummary:
    """Keep one row of each key of a table, or of JSON lines, which become Parquet.

    The kept rows are those of `outcore.dedup`. Within a part they are in the order of the input.

    Args:
        by: The columns of the key.
        keep: Which row of a key to keep: the first in the input, the last, or the best by another
            column, as in `outcore.dedup`.
        src, dst, parts, memory, cpus, drives, seed, force, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    options = {"by": texts(by), "keep": keep}
    return _of_table("dedup", [src], dst, locals(), [texts(by)], options)


def group_by(
    src: Source, dst: StrPath, by: Keys, *, aggregates: Keys, parts: SupportsIndex | None = None,
    memory: Size | None = None, cpus: SupportsIndex = 1, drives: Paths = ("/var/tmp",),
    seed: SupportsIndex = 1, force: bool = False, progress: Watcher | bool | None = None,
) -> ClusterSummary:
    """Compute aggregates of each group of rows, in the order of the groups' columns.

    Args:
        by: The columns of the groups.
        aggregates: As in `outcore.group_by`: `"count,total=sum(price)"`.
        src, dst, parts, memory, cpus, drives, seed, force, progress: As in `sort`.

    Raises: What `sort` raises.
    """
    options = {"by": texts(by), "aggregates": texts(aggregates)}
    return _of_table("group_by", [src], dst, locals(), [texts(by)], options)


def join(
    left: Source, right: Source, dst: StrPath, on: Keys, *, how: str | None = None,
    suffix: str = "_right", parts: SupportsIndex | None = None, memory: Size | None = None,
    cpus: SupportsIndex = 1, drives: Paths = ("/var/tmp",), seed: SupportsIndex = 1,
    force: bool = False, progress: Watcher | bool | None = None,
) -> ClusterSummary:
    """Join two tables by columns that both have.

    The result has the rows of `outcore.join`, each part with those of a range of keys.

    Args:
        on: The columns, which have the same names in both tables.
        how, suffix: As in `outcore.join`.
        src, dst, parts, memory, cpus, drives, seed, force, progress: As in `sort`.

    Raises: What `sort` raises. UsageError: columns with different names.
    """
    keys = texts(on)
    if any("=" in key for key in keys):
        raise usage("join", "columns of different names", "rename the columns of one table first")
    options = {"on": keys, "how": how, "suffix": suffix}
    return _of_table("join", [left, right], dst, locals(), [keys, keys], options)


def _of_table(
    verb: str, sides: list[Source], dst: StrPath, given: dict[str, Any], by: list[list[str]],
    options: dict[str, Any],
) -> ClusterSummary:
    """Runs a verb on tables, partitioned by columns."""
    order = {"by": _sample.names(by[0])}
    routes = [_sample.names(keys) for keys in by]
    return _run(
        verb, sides, dst, given, order=order, options=options, by=routes, is_table=True
    )


def _run(
    verb: str, sides: list[Source], dst: StrPath, given: dict[str, Any], *,
    order: dict[str, Any] | None, options: dict[str, Any], by: list[list[str]] | None = None,
    is_table: bool = False, is_reversed: bool = False,
) -> ClusterSummary:
    """Runs a verb with the arguments that its function was given."""
    reading = {
        name: given[name]
        for name in ("dtype", "record", "key", "lines", "jsonl")
        if given.get(name) not in (None, False)
    }
    memory = given["memory"]
    resources = resources_of(memory, None, (), None, None, 1)
    keys = [tuple(one) for one in by or [[]]] + [()]
    parts = given["parts"]
    with _staged(sides, dst) as paths:
        request = _driver.Request(
            verb=verb, dst=_place(dst), sides=paths, reading=reading, options=options, order=order,
            by=(keys[0], keys[1]), is_table=is_table, is_reversed=is_reversed,
            seed=whole("seed", given["seed"]), parts=None if parts is None else whole("parts", parts),
            memory_bytes=None if memory is None else _outcore.memory_bytes(resources),
            cpus=whole("cpus", given["cpus"]), drives=tuple(map(os.path.abspath, path_texts(given["drives"]))),
            is_replacing=bool(given["force"]),
        )
        finished, totals = _driver.run(request, given["progress"])
    named = (one.path if _files.is_object(one.path) else Path(one.path) for one in finished)
    return ClusterSummary(
        parts=tuple(named),
        counts=tuple(one.items for one in finished),
        items_in=totals.items_in,
        items_out=totals.items_out,
        checksum=f"{totals.checksum:x}",
        sources=totals.sources,
        repeated=totals.repeated,
        fetched_bytes=totals.fetched_bytes,
    )


def _place(dst: StrPath) -> str:
    """The destination as all nodes name it."""
    text = os.fsdecode(dst)
    return text.rstrip("/") if _files.is_object(text) else os.path.abspath(text)


@contextmanager
def _staged(
    sides: list[Source], dst: StrPath
) -> Iterator[tuple[tuple[tuple[str | None, list[str]], ...], ...]]:
    """The paths of each side by node; those of a `ray.data.Dataset` exist until the job ends."""
    found: list[tuple[tuple[str | None, list[str]], ...]] = []
    written = []
    try:
        for side, src in enumerate(sides):
            if hasattr(src, "write_parquet"):
                place = f"{_place(dst)}.input-{side}"
                written.append(place)
                src.write_parquet(place)
                found.append(((None, [place]),))
            elif isinstance(src, Mapping):
                found.append(tuple((node, path_texts(paths)) for node, paths in src.items()))
            else:
                found.append(((None, [_place(path) for path in path_texts(src)]),))
        yield tuple(found)
    finally:
        for place in written:
            if _files.is_object(place):
                _files.remove_objects([file.path for file in _files.look([place])])
            shutil.rmtree(place, ignore_errors=True)
