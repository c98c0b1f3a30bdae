"""Volumes: many drives as one place for sealed, checksummed datasets.

A `Volume` is named by its drives file. Every call looks at the drives anew, so it holds nothing open, may be shared
by threads and pickled. Datasets appear whole or not at all and are checked when they are read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import SupportsIndex, Union

from . import _outcore
from ._progress import Watcher, telling
from ._units import size_text, whole

StrPath = Union[str, "os.PathLike[str]"]
Size = Union[str, SupportsIndex]


@dataclass(frozen=True)
class Moved:
    """What a transfer moved."""

    #: Bytes of data.
    bytes: int
    #: Files and symbolic links.
    files: int
    #: Sockets, pipes and devices of a directory that were left out, since they hold no data.
    left_out: int = 0


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset, or a file, a symbolic link or an empty directory packed in one."""

    #: Its name, without `@`; in names of packed files `\\xHH` stands for what is not printable.
    name: str
    #: Bytes of data.
    bytes: int
    #: Packed files; 1 for a file.
    files: int
    #: Whether it is a packed directory, or an empty directory in one.
    is_directory: bool
    #: Drives that it lies on and that are missing: it cannot be read as a whole until they are back.
    missing_drives: list[str]


@dataclass(frozen=True)
class DriveStatus:
    """A drive of a volume."""

    #: Its name.
    drive: str
    #: Its directory.
    dir: str
    #: Whether it is there: mounted, with its label.
    is_present: bool
    #: Bytes of datasets on it.
    used_bytes: int
    #: Free bytes.
    free_bytes: int


@dataclass(frozen=True)
class Damage:
    """Bytes that are not what was written."""

    #: The dataset; empty where a drive's label is damaged.
    dataset: str
    #: The drive.
    drive: str
    #: The file on it.
    path: str
    #: First byte in that file of the part that its checksum covers.
    offset_bytes: int
    #: Bytes of that part.
    len_bytes: int
    #: Whether it has been written anew from another drive's copy: labels and manifests have them.
    is_repaired: bool


@dataclass(frozen=True)
class Measured:
    """What one thread reached on the drives."""

    #: What was done.
    workload: str
    #: Bytes a second.
    bytes_per_s: float
    #: Requests a second.
    requests_per_s: float
    #: Half of the requests took no longer, in microseconds.
    p50_us: float
    #: Ninety-nine in a hundred took no longer, in microseconds.
    p99_us: float


class Volume:
    """Directories on many drives that hold datasets.

    >>> volume = outcore.Volume.create("drives.toml")
    >>> volume.put("keys.bin", "keys")
    >>> volume.read("keys", offset=4096, size=4096)

    Names are those of the command without `@`; `name/inside` is a file packed in a dataset.
    """

    def __init__(self, drives: StrPath) -> None:
        """The volume of a drives file; nothing is opened yet."""
        self.drives = os.fspath(drives)

    def __repr__(self) -> str:
        return f"Volume({self.drives!r})"

    @classmethod
    def create(cls, drives: StrPath, *, stripe: Size = "1MiB") -> Volume:
        """Makes an empty volume over the directories of a drives file.

        Raises:
            UsageError: A directory belongs to a volume already; a stripe that cannot be.
        """
        path = os.fspath(drives)
        _outcore.volume_create(path, size_text("stripe", stripe) or "1MiB")
        return cls(path)

    def put(
        self, source: StrPath, name: str, *, force: bool = False, progress: Watcher | bool | None = None
    ) -> Moved:
        """Puts a file, or packs a directory, as a dataset.

        Raises:
            UsageError: The name is taken and `force` is not set.
            NoSpaceError: The drives have too little room.
        """
        with telling(progress, ("put",)) as tell:
            reply = _outcore.volume_put(self.drives, name, os.fspath(source), force, tell)
        return Moved(**reply)

    def get(
        self, name: str, target: StrPath, *, force: bool = False, progress: Watcher | bool | None = None
    ) -> Moved:
        """Gets a dataset as a file, or a packed directory as one.

        Raises:
            CorruptError: Damage, with drive, file and offset.
            UsageError: There is no such dataset; the target exists and `force` is not set.
        """
        with telling(progress, ("get",)) as tell:
            reply = _outcore.volume_get(self.drives, name, os.fspath(target), force, tell)
        return Moved(**reply)

    def read(self, name: str, offset: SupportsIndex = 0, size: SupportsIndex | None = None) -> bytes:
        """Bytes of a dataset from `offset` on; fewer than `size` at its end, all to the end without one.

        Raises:
            CorruptError: Damage, with drive, file and offset.
            UsageError: There is no such dataset, it is a whole directory, or `offset` is behind its end.
        """
        wanted = None if size is None else whole("size", size)
        return _outcore.volume_read(self.drives, name, whole("offset", offset), wanted)

    def write(self, name: str, data: bytes | bytearray | memoryview, *, force: bool = False) -> Moved:
        """Puts bytes that are in memory as a dataset.

        Raises:
            UsageError: The name is taken and `force` is not set.
        """
        return Moved(**_outcore.volume_write(self.drives, name, bytes(data), force))

    def ls(self, name: str | None = None) -> list[DatasetEntry]:
        """All datasets by name, or the files packed in one.

        While a drive is missing, what does not lie on it can still be read; `status` names the drive.
        """
        return [DatasetEntry(**entry) for entry in _outcore.volume_list(self.drives, name)]

    def rm(self, name: str) -> None:
        """Removes a dataset; all drives must be there.

        Raises:
            OutcoreError: A drive is missing, by name.
        """
        _outcore.volume_remove(self.drives, name)

    def status(self) -> list[DriveStatus]:
        """Room and use of the drives."""
        return [
            DriveStatus(
                drive=drive["drive"],
                dir=os.fspath(drive["dir"]),
                is_present=drive["is_present"],
                used_bytes=drive["used_bytes"],
                free_bytes=drive["free_bytes"],
            )
            for drive in _outcore.volume_status(self.drives)
        ]

    def scrub(self, *names: str) -> list[Damage]:
        """Reads all datasets, or those named; what is not what was written.

        Damaged or lost copies of labels and manifests are written anew from those on other drives.
        """
        return [Damage(**damage) for damage in _outcore.volume_scrub(self.drives, list(names))]

    def bench(self, *, seconds: float = 2.0, size: Size = "256MiB") -> list[Measured]:
        """What one thread reaches on the drives, on temporary files of `size` a drive.

        Random and sequential, reads and writes, each for `seconds`; the files are removed.

        Raises:
            UsageError: No time, or files too small to measure with.
            NoSpaceError: The drives have too little room.
        """
        lines = _outcore.volume_bench(self.drives, float(seconds), size_text("size", size) or "256MiB")
        return [Measured(**line) for line in lines]
