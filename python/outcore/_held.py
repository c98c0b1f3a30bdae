"""Tables in the form that verbs take: files with the options for reading them.

Tables of other libraries become files. They come in and go out through the Arrow PyCapsule
interface (`__arrow_c_stream__`), batch by batch. New files are in a directory of their own, which
is removed with its holder.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol, Union, runtime_checkable

from . import _arguments as arguments
from . import _outcore
from ._errors import absent, failed, usage
from ._progress import telling
from ._reports import WriteSummary
from ._requests import ResourcesRequest, TextRequest

_SEED = 1
#: The keywords that all functions on tables share: resources, and the callback for progress.
MEANS = ("memory", "threads", "drives", "io", "scratch_limit", "progress")


@runtime_checkable
class ArrowStream(Protocol):
    """An object with record batches: tables and readers of pyarrow, frames of Polars and pandas,
    relations of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with an Arrow stream."""


#: The inputs of jobs on tables.
TableSource = Union[arguments.Paths, ArrowStream]


class Place:
    """A private directory, which is removed with its holder. Readers of the directory above ignore its name."""

    def __init__(self, given: Mapping[str, Any], others: Iterable[Place] = ()) -> None:
        #: Directories that must exist as long as this one.
        self.others = list(others)
        folders = (name for name in arguments.path_texts(given.get("drives", ())) if not name.endswith(".toml"))
        folder = next(folders, None)
        try:
            self.dir = tempfile.mkdtemp(prefix=".outcore-table-", dir=folder)
        except OSError as error:
            cause, where = error.strerror or str(error), folder or tempfile.gettempdir()
            hint = "name a directory that is there and may be written with drives="
            raise failed("keep table", "io", cause, where, hint=hint, errno=error.errno) from None
        self._gone = weakref.finalize(self, shutil.rmtree, self.dir, True)

    def path(self, name: str) -> str:
        return os.path.join(self.dir, name)


class Held:
    """Files of a table, with the keywords for reading them and for the resources. `Table` adds the
    operations."""

    _kind: ClassVar[type[Held]]

    def __init__(
        self, inputs: list[str], given: Mapping[str, Any], place: Place | None = None, summary: WriteSummary | None = None
    ) -> None:
        self._inputs = inputs
        self._given = dict(given)
        self._place = place
        #: The report of the last step; `None` before the first.
        self.summary = summary

    def __init_subclass__(cls) -> None:
        Held._kind = cls

    def _means(self) -> dict[str, Any]:
        """The keywords for resources."""
        return {name: value for name, value in self._given.items() if name in MEANS}

    def _shape(self) -> dict[str, Any]:
        """The keywords for reading the files."""
        return {name: value for name, value in self._given.items() if name not in MEANS}

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The batches for another library: `pyarrow.table(t)`, `polars.DataFrame(t)`."""
        columns, union = columns_of(self._given), bool(self._given.get("union"))
        what = self._inputs, columns, union, text_of(self._given), resources_of(self._given)
        # The files must exist until the last batch has been read.
        return _outcore.table_stream(*what, self._place)


def held(inputs: list[str], given: Mapping[str, Any], place: Place, summary: Any) -> Held:
    """The `Table` that a step has made."""
    means = {name: value for name, value in given.items() if name in MEANS}
    return Held._kind(inputs, means, place, summary)


def is_held(src: object) -> bool:
    """Whether `src` is a table, of outcore or of another library, and not the names of files."""
    if hasattr(src, "__arrow_c_stream__"):
        return True
    return any(hasattr(src, name) for name in ("scanner", "to_reader", "fetch_arrow_reader"))


def spooled(src: Any, given: Mapping[str, Any]) -> tuple[str, Place] | None:
    """An Arrow file of the rows of a table of another library; nothing for names of files."""
    stream = _stream_of(src)
    if stream is None:
        return None
    place = Place(given)
    path = place.path("in.arrow")
    with telling(given.get("progress"), ("take table",)) as tell:
        _outcore.table_spool(stream, path, resources_of(given), tell)
    return path, place


def _stream_of(src: Any) -> ArrowStream | None:
    """An object with the batches of a table, a pyarrow dataset or scanner, or a relation of an older DuckDB."""
    if isinstance(src, (str, os.PathLike)):
        return None
    if isinstance(src, ArrowStream):
        return src
    scanned = src.scanner() if hasattr(src, "scanner") else src
    for name in ("to_reader", "fetch_arrow_reader"):
        make = getattr(scanned, name, None)
        reader = None if make is None else make()
        if isinstance(reader, ArrowStream):
            return reader
    return None


def files(src: Any) -> list[str]:
    """Names of existing files, with patterns expanded."""
    found: list[str] = []
    for name in arguments.path_texts(src):
        if any(mark in name for mark in "*?[") and not os.path.lexists(name):
            matching = sorted(glob.glob(name, recursive=True))
            if not matching:
                raise usage("read tables", f"no file matches `{name}`", "check the pattern")
            found.extend(matching)
        elif os.path.lexists(name) or "://" in name:
            # The engine decides which URLs it reads.
            found.append(name)
        else:
            raise absent("open input", name)
    return found


def texts(name: str, given: Iterable[str]) -> list[str]:
    """A text, or several, as a list."""
    listed: list[Any] = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    for text in listed:
        if not isinstance(text, str):
            kind = type(text).__name__
            raise usage(
                "read arguments", f"{name} has {text!r}, of the type {kind}, not a text", "give a str, or several"
            )
    return listed


def columns_of(given: Mapping[str, Any]) -> list[str] | None:
    """The columns that are kept, if any are given."""
    columns = given.get("columns")
    return None if columns is None else texts("columns", columns)


def resources_of(given: Mapping[str, Any], seed: int = _SEED) -> ResourcesRequest:
    """The resources of a step."""
    memory, threads, io = given.get("memory"), given.get("threads"), given.get("io")
    drives, limit = given.get("drives", ()), given.get("scratch_limit")
    return arguments.resources_of(memory, threads, drives, io, limit, seed, None)


def text_of(given: Mapping[str, Any]) -> TextRequest:
    """How text is read."""
    null = given.get("null") or ()
    separator = given.get("separator")
    if separator is not None and len(os.fsencode(separator)) != 1:
        raise usage("open table", "the separator is not one byte", "give one character of ASCII")
    return {
        "schema": schema_text(given.get("schema")),
        "separator": None if separator is None else os.fsencode(separator)[0],
        "null": [null] if isinstance(null, str) else texts("null", null),
        "on_error": given.get("on_error") or "fail",
    }


def schema_text(schema: str | Mapping[str, str] | None) -> str | None:
    """Types of columns as text."""
    if schema is None or isinstance(schema, str):
        return schema
    if not isinstance(schema, Mapping):
        cause = f"schema is of the type {type(schema).__name__}, not a dictionary of types"
        raise usage("read schema", cause, 'write schema={"id": "i64", "price": "f64"}')
    return ",".join(f"{quoted(name)}:{_type_name(kind)}" for name, kind in schema.items())


def _type_name(kind: object) -> str:
    """The name of a type, which may be one of NumPy."""
    if isinstance(kind, str):
        return kind
    named = getattr(kind, "name", None) or getattr(kind, "__name__", None)
    return str(named or kind)


def quoted(column: str) -> str:
    """The name of a column in backquotes, with any characters."""
    name = column.replace("`", "``")
    return f"`{name}`"
