"""Messages between the driver and the tasks of a job on a cluster: names, totals and settings.

Contract: plain values, which go through Ray's object store. None of them holds data of the files,
except for `Borders`, a few thousand sampled keys.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Form:
    """The kind of the inputs, and how verbs read them."""

    #: `records`, `array`, `lines`, `jsonl` or `table`.
    kind: str
    #: The ending of the names of the parts of the result.
    suffix: str
    #: Arguments with which every verb reads the inputs.
    reading: dict[str, Any] = field(default_factory=dict)
    #: Arguments with which every verb reads parts of them.
    parts_reading: dict[str, Any] = field(default_factory=dict)
    #: Arguments with which every verb reads items without the header of a NumPy array.
    bare_reading: dict[str, Any] = field(default_factory=dict)
    #: Bytes of a record; 0 for lines and tables.
    record_bytes: int = 0
    #: Bytes of the header of each array.
    header_bytes: int = 0
    #: The ending of the names of the files between the stages.
    between: str = ""


@dataclass(frozen=True)
class Job:
    """Settings that all tasks of a job share."""

    id: str
    token: str
    memory_bytes: int
    threads: int
    #: Directories on each node, for parts and scratch.
    drives: tuple[str, ...]
    #: For tests: whether nodes send parts to each other even if they share a file system.
    is_apart: bool = False
    #: For tests: where a task kills its process, as `stage:number:file`. The file shows that this has happened, so it
    #: happens once.
    fault: str | None = None


@dataclass(frozen=True)
class File:
    """An input file."""

    path: str
    #: 0 for an object of a store that is not listed.
    size_bytes: int


@dataclass(frozen=True)
class Source:
    """The input of one task of the first stage."""

    number: int
    #: 0, or 1 for the right table of a join.
    side: int
    #: One file, or several small ones in their order.
    files: tuple[File, ...]
    #: The node that has the files; `None` if all nodes can read them.
    node: str | None = None

    @property
    def size_bytes(self) -> int:
        """The length of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def paths(self) -> list[str]:
        """The names of all files."""
        return [file.path for file in self.files]


@dataclass(frozen=True)
class Borders:
    """The route of the first stage: splitters, or a seed."""

    parts: int
    #: The file of splitters, as bytes; `None` for random parts.
    splitters: bytes | None
    suffix: str
    #: The key columns of tables, or the fields of JSON lines, for each side.
    by: tuple[tuple[str, ...], ...] = ((), ())
    seed: int = 0


@dataclass(frozen=True)
class Part:
    """A file of the first stage: the items of one source that belong to one part."""

    source: int
    node: str
    path: str
    size_bytes: int
    items: int
    checksum: int


@dataclass(frozen=True)
class Partitioned:
    """The result of a task of the first stage: a file for each part."""

    source: int
    node: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Finished:
    """The result of a task of the second stage."""

    number: int
    path: str
    size_bytes: int
    #: Items of the output.
    items: int
    read_bytes: int
    written_bytes: int
    #: Bytes that came from other nodes.
    fetched_bytes: int


@dataclass(frozen=True)
class Missing:
    """A task of the second stage did not find parts; these sources have to be partitioned again."""

    sources: tuple[int, ...]


def mixed(seed: int, stage: str, number: int) -> int:
    """A seed of 63 bits for one task; unrelated for different tasks."""
    text = f"{seed}:{stage}:{number}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1
