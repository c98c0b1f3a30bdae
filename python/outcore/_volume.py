"""Volumes: many drives as one place for sealed, checksummed datasets.

A drives file identifies a `Volume`. Every call examines the drives anew, so a `Volume` holds
nothing open, and may be shared by threads and pickled. Datasets appear whole or not at all and are
checked when they are read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, SupportsIndex

from . import _outcore
from ._arguments import Size, StrPath
from ._errors import absent
from ._place_reports import TransferSummary
from ._summary import report_of
from ._units import size_text, whole
from ._volume_verbs import VolumeVerbs


@dataclass(frozen=True)
class Measured:
    """The rates of one thread on the drives."""

    #: The workload.
    workload: str
    #: Bytes per second.
    bytes_per_s: float
    #: Requests per second.
    requests_per_s: float
    #: The time that half of the requests did not exceed, in microseconds.
    p50_us: float
    #: The time that 99 % of the requests did not exceed, in microseconds.
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
        """The volume of a drives file, which must exist; its drives are opened by the calls.

        Raises:
            NotFoundError: There is no such file.
        """
        self.drives = os.fspath(drives)
        if not os.path.exists(self.drives):
            raise absent("open volume", self.drives)

    def __repr__(self) -> str:
        return f"Volume({self.drives!r})"

    def _means(self) -> dict[str, Any]:
        return {"volume": self.drives}

    @classmethod
    def create(cls, drives: StrPath, *, stripe: Size = "1MiB", parity: SupportsIndex = 0, mirror: bool = False) -> Volume:
        """Makes an empty volume over the directories of a drives file, which must exist. With `parity=1` or
        `mirror=True` it survives the loss of a drive.

        Raises:
            UsageError: A directory is missing, or already belongs to a volume; an invalid stripe.
        """
        volume = cls(drives)
        volume._create(stripe=stripe, parity=parity, mirror=mirror)
        return volume

    def read(self, name: str, offset: SupportsIndex = 0, size: SupportsIndex | None = None) -> bytes:
        """Bytes of a dataset that start at `offset`; fewer than `size` at its end; without `size`, all
        bytes to the end.

        Raises:
            CorruptError: Damage, with drive, file and offset.
            UsageError: There is no such dataset, it is a whole directory, or `offset` is beyond its
                end.
        """
        wanted = None if size is None else whole("size", size)
        return _outcore.volume_read(self.drives, name, whole("offset", offset), wanted)

    def write(self, name: str, data: bytes | bytearray | memoryview, *, force: bool = False) -> TransferSummary:
        """Stores bytes in memory as a dataset.

        Raises:
            UsageError: The name is taken and `force` is not set.
        """
        return report_of(TransferSummary, *_outcore.volume_write(self.drives, name, bytes(data), force))

    def bench(self, *, seconds: float = 2.0, size: Size = "256MiB") -> list[Measured]:
        """The rates of one thread on the drives, on one temporary file of `size` per drive.

        Random and sequential, reads and writes, each for `seconds`; the files are removed.

        Raises:
            UsageError: `seconds` is 0, or the files are too small for a measurement.
            NoSpaceError: The drives have too little room.
        """
        lines = _outcore.volume_bench(self.drives, float(seconds), size_text("size", size) or "256MiB")
        return [Measured(**line) for line in lines]
