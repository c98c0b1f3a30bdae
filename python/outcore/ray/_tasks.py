"""The tasks of a job on a cluster: look at inputs, partition a source, finish a part.

Contract: each task is a function of its arguments and of the files that they name. It can run again,
on another node and after a kill: an output appears whole or not at all, under a name of its own or
with the same bytes. Tasks need no Ray except for the id of their node.

Bounds: the memory of the job for the engine, and 1 MiB for each of four transfers.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .. import _part_verbs, _row_verbs, _table_verbs, _verbs
from .._arguments import resources_of
from .._errors import CorruptError, usage
from .._kinds import ARRAY, CSV_TABLE, JSON_TABLE, RECORD_KINDS, TABLES, what
from .._libraries import library
from . import _files
from ._job import Borders, Finished, Form, Job, Missing, Part, Partitioned, Source
from ._keeper import Silent, fetch, home_of

_FETCHES = 4
#: The longest records whose checksum a verb finds as it writes them.
_SUMMED_BYTES_MAX = 1 << 20
#: The engine's functions by the names of verbs.
_FUNCTIONS: dict[str, Any] = {
    "sort": _verbs.sort,
    "shuffle": _verbs.shuffle,
    "unique": _verbs.unique,
    "count_by": _row_verbs.count_by,
    "dedup": _table_verbs.dedup,
    "group_by": _table_verbs.group_by,
    "join": _table_verbs.join,
}
_TEXT_SUFFIXES = {"lines": ".txt", "jsonl": ".jsonl"}


def maybe_fail(job: Job, stage: str, number: int) -> None:
    """Kills this process once, if a test asks for it."""
    if job.fault is None:
        return
    at, wanted, mark = job.fault.split(":", 2)
    if (at, int(wanted)) != (stage, number):
        return
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def form_of(path: str, reading: dict[str, Any], is_table: bool) -> Form:
    """The kind of the inputs, from one of them and from the arguments that give it."""
    is_typed = reading.get("dtype") is not None or reading.get("record") is not None
    nothing = resources_of(None, None, (), None, None, 1)
    kind = what(
        [path], nothing, records=is_typed, lines=bool(reading.get("lines")), table=is_table
    )
    if kind in TABLES:
        inferred = {"infer": True} if kind in (CSV_TABLE, JSON_TABLE) else {}
        reading = {**reading, **inferred}
        # An Arrow stream is cheap to write and to read, and each batch has its own dictionaries.
        return Form("table", ".parquet", reading, between=".arrows")
    if kind in RECORD_KINDS:
        return _records(path, reading, kind)
    if kind not in _TEXT_SUFFIXES:
        cause = f"{path} is {kind}, which is not partitioned for a cluster"
        raise usage("read inputs", cause, "convert it to Parquet with outcore.convert")
    suffix = _TEXT_SUFFIXES[kind]
    # The name of a part shows its kind, whatever the name of the input is.
    parts = {"jsonl": True} if kind == "jsonl" else {"lines": True}
    return Form(kind, suffix, reading, parts, parts)


def _records(path: str, reading: dict[str, Any], kind: str) -> Form:
    with tempfile.TemporaryDirectory() as place:
        # The engine knows the length of a record, and writes the header of an array.
        one = Path(place) / ("one.npy" if kind == ARRAY else "one.bin")
        _part_verbs.head(path, one, count=1, **reading)
        if kind != ARRAY:
            return Form("records", ".bin", reading, reading, reading, one.stat().st_size or 1)
        array = library("numpy", "read .npy").load(one, mmap_mode="r")
        bare = {**reading, "dtype": reading.get("dtype") or array.dtype}
    with _files.reader(path) as file:
        header_bytes = _header_bytes(file.read_at(12, 0))
    return Form("array", ".npy", reading, reading, bare, array.dtype.itemsize, header_bytes)


def _header_bytes(front: bytes) -> int:
    """The length of the header of a NumPy array, from its first bytes (NEP 1)."""
    if front[6] == 1:
        return 10 + int.from_bytes(front[8:10], "little")
    return 12 + int.from_bytes(front[8:12], "little")


def partition(job: Job, source: Source, form: Form, borders: Borders, node: str) -> Partitioned:
    """Writes the items of a source to a file for each part, on the drives of this node."""
    drive = job.drives[source.number % len(job.drives)]
    place = home_of(job, node, drive) / f"{source.side}-{source.number}-{uuid.uuid4().hex[:12]}"
    place.mkdir(parents=True)
    route: dict[str, Any] = {"parts": borders.parts, "random": True, "seed": borders.seed}
    if borders.splitters is not None:
        splitters = place / f"splitters{borders.suffix}"
        splitters.write_bytes(borders.splitters)
        route = {"splitters": splitters}
        if borders.by[source.side]:
            route["by"] = list(borders.by[source.side])
    if form.kind == "table":
        # These files are read once.
        route["codec"] = "none"
    maybe_fail(job, "partition", source.number)
    made = _part_verbs.split(
        source.paths,
        place / ("{part}" + (form.between or form.suffix)),
        **form.reading,
        **route,
        **_resources(job),
    )
    totals = zip(made.parts, made.counts, made.checksums)
    parts = tuple(
        Part(source.number, node, str(path), os.stat(path).st_size, items, int(checksum, 16))
        for path, items, checksum in totals
    )
    return Partitioned(source.number, node, parts)


def _resources(job: Job) -> dict[str, Any]:
    return {"memory": job.memory_bytes, "threads": job.threads}


@contextmanager
def _scratch(job: Job, node: str, number: int) -> Iterator[Path]:
    """A directory for files of other nodes."""
    home = home_of(job, node, job.drives[number % len(job.drives)])
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home, prefix="fetched-") as place:
        yield Path(place)


def finish(
    job: Job,
    verb: str,
    number: int,
    forms: tuple[Form, ...],
    sides: tuple[tuple[Part, ...], ...],
    addresses: dict[str, tuple[str, int]],
    options: dict[str, Any],
    dst: str,
    node: str,
) -> Finished | Missing:
    """Collects the files of one part from all nodes, runs the verb on them, and checks totals."""
    with _scratch(job, node, number) as place:
        found, fetched_bytes = _collect(job, sides, addresses, place, node)
        if isinstance(found, Missing):
            return found
        maybe_fail(job, "finish", number)
        # These verbs write exactly the items that they read, and compute the checksum of the items themselves, except
        # for rows.
        is_permutation = verb == "shuffle" or (verb == "sort" and not options.get("unique"))
        is_summed = is_permutation and forms[0].record_bytes <= _SUMMED_BYTES_MAX
        is_summed = is_summed and forms[0].kind != "table"
        if is_summed:
            options = {**options, "checksum": True}
        if not is_permutation:
            for paths, parts, form in zip(found, sides, forms):
                _check(paths, parts, form, job)
        drives = [str(home_of(job, node, drive)) for drive in job.drives]
        made = _FUNCTIONS[verb](
            *found,
            dst,
            **forms[0].parts_reading,
            **options,
            **_resources(job),
            drives=drives,
            force=True,
        )
        items = made.records
        if is_summed:
            _compare(made.records, made.checksum, sides[0], [dst])
        elif is_permutation:
            items = _check([dst], sides[0], forms[0], job)
        size_bytes = 0 if _files.is_object(dst) else os.stat(dst).st_size
        return Finished(
            number, dst, size_bytes, items, made.read_bytes, made.written_bytes, fetched_bytes
        )


def _collect(
    job: Job,
    sides: tuple[tuple[Part, ...], ...],
    addresses: dict[str, tuple[str, int]],
    place: Path,
    node: str,
) -> tuple[list[list[str]] | Missing, int]:
    """The paths of all parts on this node, for each side, and the bytes that were fetched."""
    absent: set[int] = set()
    # A node that does not answer gets only one request, because a wait for an answer may take a minute.
    silent: set[str] = set()
    fetched_bytes = 0

    def get(number: int, side: int, part: Part) -> str:
        nonlocal fetched_bytes
        if part.node == node or not job.is_apart:
            # If another node shares the drive, its part is read in place.
            with suppress(OSError):
                if os.stat(part.path).st_size == part.size_bytes:
                    return part.path
        if part.node == node:
            absent.add(part.source)
            return part.path
        to = place / f"{side}-{number}{os.path.splitext(part.path)[1]}"
        address = addresses.get(part.node)
        is_there = False
        if address is not None and part.node not in silent:
            try:
                is_there = fetch(job, address, part.path, to)
            except Silent:
                silent.add(part.node)
        if is_there:
            fetched_bytes += part.size_bytes
        else:
            absent.add(part.source)
        return str(to)

    found = []
    with ThreadPoolExecutor(_FETCHES) as threads:
        for side, parts in enumerate(sides):
            # Empty files have no items, but one file is needed for its type.
            wanted = [part for part in parts if part.items] or list(parts[:1])
            numbers = range(len(wanted))
            found.append(list(threads.map(get, numbers, [side] * len(wanted), wanted)))
    return (Missing(tuple(sorted(absent))) if absent else found), fetched_bytes


def _check(paths: list[str], parts: tuple[Part, ...], form: Form, job: Job) -> int:
    """Fails unless the files have the items of these parts, in any order. Returns the number of items."""
    reading = {"lines": True} if form.kind in _TEXT_SUFFIXES else form.parts_reading
    found = _verbs.verify(paths, **reading, **_resources(job))
    _compare(found.records, found.checksum, parts, paths)
    return found.records


def _compare(items: int, checksum: str, parts: tuple[Part, ...], paths: list[str]) -> None:
    """Fails unless the items and the checksum of files are those of these parts."""
    wanted = sum(part.checksum for part in parts) % (1 << 128)
    wanted_items = sum(part.items for part in parts)
    if (items, int(checksum, 16)) == (wanted_items, wanted):
        return
    error = CorruptError(
        f"check parts: {paths[0]} and {len(paths) - 1} more have {items} items with "
        f"checksum {checksum}, not {wanted_items} with {wanted:x}; run the job again"
    )
    error.operation, error.path = "check parts", paths[0]
    raise error


def remove(paths: list[str]) -> None:
    """Removes directories that a job made."""
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)
