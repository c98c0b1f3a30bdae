"""A verb's arguments in words, as the command has them, and its report as a value.

Contract: an argument that is not given is no word, so that the verb's default counts. What the words
mean, and whether they make sense, is for the verb to say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

from . import _outcore
from ._arguments import Keys, Paths, Record, Size, StrPath, optional_path, path_text, path_texts, texts
from ._progress import Watcher, telling
from ._records import records
from ._summary import DriveTraffic, IoTrace, JobSummary, Phase
from ._units import size_text, whole

if TYPE_CHECKING:
    import numpy.typing as npt

_Report = TypeVar("_Report", bound=JobSummary)


class Words:
    """The words of one call."""

    def __init__(self) -> None:
        self._options: list[str] = []
        self._operands: list[str] = []

    def operands(self, paths: Paths) -> None:
        """Files that stand behind the options."""
        self._operands += path_texts(paths)

    def paths(self, option: str, paths: Paths) -> None:
        """Files of an option."""
        self._add(option, path_texts(paths))

    def path(self, option: str, path: StrPath | None) -> None:
        """One file."""
        self._add(option, [] if path is None else [path_text(path)])

    def drives(self, drives: Paths) -> None:
        """Directories on drives, or a file that describes them."""
        for drive in path_texts(drives):
            self._add("--drives" if drive.endswith(".toml") else "--drive", [drive])

    def texts(self, option: str, values: Keys | None) -> None:
        """Texts, each with the option before it."""
        self._add(option, texts(values))

    def text(self, option: str, value: str | None) -> None:
        """A text."""
        self._add(option, [] if value is None else [value])

    def size(self, option: str, value: Size | None) -> None:
        """A size in bytes, or with a unit."""
        self.text(option, size_text(option.strip("-").replace("-", " "), value))

    def number(self, option: str, value: SupportsIndex | None) -> None:
        """A whole number."""
        self.text(option, None if value is None else str(whole(option.strip("-"), value)))

    def flag(self, option: str, is_set: bool) -> None:
        """An option without a value."""
        if is_set:
            self._options.append(option)

    def dtype(self, dtype: npt.DTypeLike) -> None:
        """A type of records, behind the options."""
        self._operands.append(_type_text(dtype))

    def records(
        self, dtype: npt.DTypeLike | None, record: Record | None, key: Keys | None
    ) -> None:
        """What the records are."""
        request = records(dtype, record, key)
        self.text("--type", None if dtype is None else _type_text(dtype))
        self.number("--record", request["record_bytes"])
        self._add("--key", request["keys"])

    def _add(self, option: str, values: Iterable[str]) -> None:
        self._options += [f"{option}={value}" for value in values]

    def run(
        self,
        name: str,
        kind: type[_Report],
        volume: StrPath | None,
        progress: Watcher | bool | None,
        phases: tuple[str, ...],
    ) -> _Report:
        """Runs the verb, whose report is a `kind`."""
        words = [*self._options, "--", *self._operands]
        with telling(progress, phases) as tell:
            fields, headline = _outcore.run_verb(name, words, optional_path(volume), tell)
        values = {field: _value_of(field, value) for field, value in fields.items()}
        report = kind(**values)
        # Reports are frozen, and this is not one of their values.
        object.__setattr__(report, "_said", headline)
        return report


def _type_text(dtype: npt.DTypeLike) -> str:
    """A type as text: a name, or what the header of a `.npy` file says of a dtype."""
    request = records(dtype, None, None)
    described = request["descr"]
    if described is None:
        return request["name"] or ""
    if request["row_shape"]:
        return f"({described}, ({', '.join(map(str, request['row_shape']))}))"
    return described


def _phases(values: list[dict[str, Any]]) -> tuple[Phase, ...]:
    return tuple(Phase(**value) for value in values)


def _drives(values: list[dict[str, Any]]) -> tuple[DriveTraffic, ...]:
    return tuple(DriveTraffic(**value) for value in values)


def _trace(value: dict[str, Any] | None) -> IoTrace | None:
    return None if value is None else IoTrace(**{**value, "path": _path(value["path"])})


def _path(value: bytes) -> Path:
    return Path(os.fsdecode(value))


#: Fields of reports that are more than numbers and texts.
_VALUES: dict[str, Callable[[Any], Any]] = {"phases": _phases, "drives": _drives, "io_trace": _trace, "output": _path}


def _value_of(field: str, value: Any) -> Any:
    make = _VALUES.get(field)
    return value if make is None else make(value)
