"""Inputs of a cluster: the files behind names and patterns, and reads at any place of one.

Contract: local files and objects are listed in the order of their names, with their sizes. Objects of
S3 and Google Cloud Storage are read by ranges through pyarrow; credentials come from the environment.
Objects of other stores can only be named one by one, and their size counts as 0.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from .._errors import usage
from .._libraries import library
from ._job import File

_RANGED = ("s3://", "gs://")
#: Up to this many files are read one by one.
_ALONE_MAX = 64
#: The most files that are read together, and their length.
_TOGETHER_MAX = 64
_TOGETHER_BYTES = 32 << 20


def is_object(path: str) -> bool:
    """Whether a name is that of an object in a store."""
    return "://" in path


def is_ranged(path: str) -> bool:
    """Whether any place of a file can be read."""
    return not is_object(path) or path.startswith(_RANGED)


def look(paths: list[str]) -> list[File]:
    """The files of names, patterns and directories."""
    found = []
    for path in paths:
        files = _objects(path) if is_object(path) else _local(path)
        if not files:
            raise usage("read inputs", f"no file matches {path}", "check the path")
        found += files
    return found


def grouped(files: list[File]) -> list[tuple[File, ...]]:
    """The files in their order, small ones together if there are many. The groups depend only on
    the files, since a shuffle draws by the place in a group."""
    if len(files) <= _ALONE_MAX:
        return [(file,) for file in files]
    groups: list[list[File]] = []
    room_bytes = 0
    for file in files:
        is_known = file.size_bytes > 0 or not is_object(file.path)
        fits = groups and file.size_bytes <= room_bytes and len(groups[-1]) < _TOGETHER_MAX
        if fits and is_known:
            groups[-1].append(file)
            room_bytes -= file.size_bytes
        else:
            groups.append([file])
            room_bytes = _TOGETHER_BYTES - file.size_bytes if is_known else 0
    return [tuple(group) for group in groups]


def _local(path: str) -> list[File]:
    names = [path]
    if glob.has_magic(path) and not os.path.exists(path):
        names = sorted(glob.glob(path))
    elif os.path.isdir(path):
        entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        names = [entry.path for entry in entries if entry.is_file() and entry.name[0] not in "._"]
    return [File(os.path.abspath(name), os.stat(name).st_size) for name in names]


def _objects(path: str) -> list[File]:
    if not path.startswith(_RANGED):
        return [File(path, 0)]
    fs = library("pyarrow.fs", "list objects")
    scheme, _, place = path.rstrip("/").partition("://")
    has_magic = "*" in place
    folder = place.split("*")[0].rpartition("/")[0] if has_magic else place
    store, _ = fs.FileSystem.from_uri(f"{scheme}://{folder}")
    if not has_magic:
        info = store.get_file_info(place)
        if info.type == fs.FileType.File:
            return [File(path, info.size)]
    selector = fs.FileSelector(folder, recursive=has_magic, allow_not_found=True)
    wanted = place if has_magic else f"{folder}/*"
    found = [
        File(f"{scheme}://{entry.path}", entry.size)
        for entry in store.get_file_info(selector)
        if entry.type == fs.FileType.File
        and fnmatch.fnmatchcase(entry.path, wanted)
        and entry.base_name[0] not in "._"
    ]
    return sorted(found, key=lambda file: file.path)


@dataclass(frozen=True)
class Reader:
    """A file that is read at any place."""

    size_bytes: int
    #: Reads so many bytes from an offset: `read_at(bytes, offset)`.
    read_at: Callable[[int, int], bytes]


@contextmanager
def reader(path: str) -> Iterator[Reader]:
    """Opens a file of `is_ranged`."""
    if is_object(path):
        file: Any = object_file(path)
        with file:
            yield Reader(file.size(), file.read_at)
        return
    with open(path, "rb", buffering=0) as local:
        number = local.fileno()
        yield Reader(os.fstat(number).st_size, lambda count, at: os.pread(number, count, at))


def object_file(path: str) -> Any:
    """An object, as a file of pyarrow."""
    fs = library("pyarrow.fs", "read objects")
    store, place = fs.FileSystem.from_uri(path)
    return store.open_input_file(place)


def has_objects(prefix: str) -> bool:
    """Whether an object begins with a prefix and a slash; false for stores that are not listed."""
    return prefix.startswith(_RANGED) and bool(_objects(f"{prefix}/*"))


def remove_objects(names: list[str]) -> None:
    """Removes objects, as far as they exist and the store lets them be removed."""
    for name in names:
        with suppress(OSError):
            store, place = library("pyarrow.fs", "remove objects").FileSystem.from_uri(name)
            store.delete_file(place)
