"""Arguments that many functions take: their types, and the words of requests that they become.

Contract: nothing is opened or started here. Invalid arguments are a `UsageError`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, SupportsIndex, Union

from . import _outcore
from ._column import Column
from ._errors import UsageError, usage
from ._requests import ResourcesRequest
from ._units import size_text, whole

StrPath = Union[str, "os.PathLike[str]"]
Paths = Union[StrPath, Iterable[StrPath]]
Keys = Union[str, Iterable[str]]
Size = Union[str, SupportsIndex]
Record = Union[int, "tuple[int, Keys]"]
#: Whether files hold lines; `"any"` takes them for lines whatever they look like.
LinesHow = Union[bool, Literal["any"]]

SEED = 1
#: Attributes that mark tables of pandas, Polars and Arrow.
_TABLES = ("__dataframe__", "__arrow_c_stream__")


def looked_at_twice(src: Any) -> Any:
    """Names that can be iterated twice. Readers of batches stay unchanged."""
    if hasattr(src, "read") and isinstance(src, Iterator):
        raise _no_path(src)
    is_reader = hasattr(src, "__arrow_c_stream__")
    return list(src) if isinstance(src, Iterator) and not is_reader else src


#: The variables that a warning has already named.
_unknown_variables: set[str] = set()


def warn_of_unknown_variables() -> None:
    """Warns once about each unknown `OUTCORE_` variable in the environment."""
    for text in _outcore.unknown_variables():
        if text not in _unknown_variables:
            _unknown_variables.add(text)
            warnings.warn(text, stacklevel=4)


def resources_of(
    memory: Size | None,
    threads: SupportsIndex | None,
    drives: Paths,
    io: str | None,
    scratch_limit: Size | None,
    seed: SupportsIndex,
    volume: StrPath | None = None,
) -> ResourcesRequest:
    warn_of_unknown_variables()
    return ResourcesRequest(
        memory=size_text("memory", memory),
        threads=None if threads is None else number("threads", threads),
        io=io,
        drives=path_texts(drives),
        scratch_limit=size_text("scratch limit", scratch_limit),
        seed=number("seed", seed),
        volume=optional_path(volume),
    )


def texts(keys: Keys | None) -> list[str]:
    """Keys as a list."""
    if keys is None:
        return []
    return [str(keys)] if isinstance(keys, (str, Column)) else [str(key) for key in keys]


def insists(lines: LinesHow) -> bool:
    """Whether files are read as lines whatever they look like."""
    if isinstance(lines, str) and lines == "any":
        return True
    if isinstance(lines, str):
        raise usage("read arguments", f"lines={lines!r} is invalid", 'give True, False or "any"')
    truth("lines", lines)
    return False


def truth(name: str, value: Any) -> bool:
    """The value of a keyword that is on or off: a bool of Python or NumPy."""
    if isinstance(value, bool) or type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    hint = f"give {name}=True or {name}=False"
    if name == "descending":
        hint += ', or an order for each column: by=["price:desc", "country"]'
    raise usage("read arguments", f"{name}={value!r} is neither True nor False", hint)


def number(name: str, value: SupportsIndex) -> int:
    number = whole(name, value)
    if number >= 1 << 64:
        raise usage(f"read {name}", f"{number} is out of range", "give at most 2**64 - 1")
    return number


def path_text(path: StrPath) -> str:
    return os.fsdecode(path)


def optional_path(path: StrPath | None) -> str | None:
    return None if path is None else path_text(path)


def path_texts(paths: Paths) -> list[str]:
    if isinstance(paths, (str, bytes, os.PathLike)):
        return [os.fsdecode(paths)]
    if hasattr(paths, "read"):
        raise _no_path(paths)
    # Iterating over a table or a dictionary would return the names of its columns.
    is_table = isinstance(paths, Mapping) or any(hasattr(paths, mark) for mark in _TABLES)
    try:
        given = None if is_table else list(paths)
    except TypeError:
        given = None
    if given is None:
        raise _no_path(paths)
    found = []
    for path in given:
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise _no_path(paths if hasattr(paths, "__array__") else path)
        found.append(os.fsdecode(path))
    return found


def _no_path(given: object) -> UsageError:
    name = type(given).__qualname__
    cause = f"an object of type {name} is neither the name of a file nor a list of names"
    hint = "outcore reads files: save data that is in memory first, for example with numpy.save"
    if hasattr(given, "read"):
        cause = f"an open file ({name}) is not the name of a file"
        hint = "pass its name" if isinstance(getattr(given, "name", None), str) else "write it to a file, and pass its name"
    if given is None:
        hint = "give the name of a file, or a table"
    if isinstance(given, Mapping):
        hint = "outcore.table takes what pyarrow.table(...) or pandas.DataFrame(...) makes of it"
    if hasattr(given, "__arrow_c_stream__"):
        hint = "outcore.table takes tables, alone or in a list"
    if hasattr(given, "collect"):
        hint = "a lazy frame has no rows yet: give what its collect() returns"
    return usage("read paths", cause, hint)
