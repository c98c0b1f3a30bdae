"""Volumes: many drives as one place for sealed, checksummed datasets.

A `Volume` is named by its drives file. Every call looks at the drives anew, so it holds nothing open, may be shared
by threads and pickled. Datasets appear whole or not at all and are checked when they are read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, SupportsIndex

from . import _outcore
from ._arguments import Size, StrPath
from ._reports import TransferSummary
from ._summary import report_of
from ._units import size_text, whole
from ._volume_verbs import VolumeVerbs


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


class Volume(VolumeVerbs):
    """Directories on many drives that hold datasets.

    >>> volume = outcore.Volume.create("drives.toml")
    >>> volume.put("keys.bin", "keys")
    >>> volume.read("keys", offset=4096, size=4096)

    Names are those of the command without `@`; `name/inside` is a file packed in a dataset. The reports of `ls`,
    `status` and `scrub` are sequences of entries, of drives, and of damages.
    """

    def __init__(self, drives: StrPath) -> None:
        """The volume of a drives file; nothing is opened yet."""
        self.drives = os.fspath(drives)

    def __repr__(self) -> str:
        return f"Volume({self.drives!r})"

    def _means(self) -> dict[str, Any]:
        return {"volume": self.drives}

    @classmethod
    def create(cls, drives: StrPath, *, stripe: Size = "1MiB") -> Volume:
        """Makes an empty volume over the directories of a drives file, which must exist.

        Raises:
            UsageError: A directory is missing, or belongs to a volume already; a stripe that cannot be.
        """
        volume = cls(drives)
        volume._create(stripe=stripe)
        return volume

    def read(self, name: str, offset: SupportsIndex = 0, size: SupportsIndex | None = None) -> bytes:
        """Bytes of a dataset from `offset` on; fewer than `size` at its end, all to the end without one.

        Raises:
            CorruptError: Damage, with drive, file and offset.
            UsageError: There is no such dataset, it is a whole directory, or `offset` is behind its end.
        """
        wanted = None if size is None else whole("size", size)
        return _outcore.volume_read(self.drives, name, whole("offset", offset), wanted)

    def write(self, name: str, data: bytes | bytearray | memoryview, *, force: bool = False) -> TransferSummary:
        """Puts bytes that are in memory as a dataset.

        Raises:
            UsageError: The name is taken and `force` is not set.
        """
        return report_of(TransferSummary, *_outcore.volume_write(self.drives, name, bytes(data), force))

    def bench(self, *, seconds: float = 2.0, size: Size = "256MiB") -> list[Measured]:
        """What one thread reaches on the drives, on temporary files of `size` a drive.

        Random and sequential, reads and writes, each for `seconds`; the files are removed.

        Raises:
            UsageError: No time, or files too small to measure with.
            NoSpaceError: The drives have too little room.
        """
        lines = _outcore.volume_bench(self.drives, float(seconds), size_text("size", size) or "256MiB")
        return [Measured(**line) for line in lines]
