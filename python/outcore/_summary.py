"""The common part of all reports of jobs: frozen values with the names of the command's JSON.

`as_dict()` gives plain numbers, texts, lists and dictionaries, ready for JSON or a data frame.
`repr` is one line for people; `str` says more.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

_Report = TypeVar("_Report", bound="Report")


@dataclass(frozen=True)
class Report:
    """A report, or a part of one."""

    #: The types of its fields.
    _hints: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        # The types must be resolved here: `__module__` is set to the package later, and the package lacks some of their
        # names.
        cls._hints = get_type_hints(cls)

    def as_dict(self) -> dict[str, Any]:
        """Plain values under the names of the command's JSON."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


@dataclass(frozen=True, repr=False)
class JobReport(Report):
    """A report of a whole job, which has a line for people."""

    def _headline(self) -> str:
        return str(getattr(self, "_said", ""))

    def __repr__(self) -> str:
        return f"<outcore.{type(self).__name__}: {self._headline()}>"

    def __str__(self) -> str:
        return self._headline()


def report_of(kind: type[_Report], values: dict[str, Any], headline: str = "") -> _Report:
    """The report with the engine's values, and with `headline`, the line that people see."""
    hints = kind._hints
    report = kind(**{name: _value(hints[name], value) for name, value in values.items()})
    if headline:
        # Reports are frozen, and the line for people is not a field of theirs.
        object.__setattr__(report, "_said", headline)
    return report


def _value(hint: Any, value: Any) -> Any:
    """A value of the engine as a value of this type."""
    if isinstance(value, list):
        return tuple(_value(get_args(hint)[0], part) for part in value)
    kinds = [hint, *get_args(hint)]
    if Path in kinds and value is not None:
        return Path(os.fsdecode(value))
    if not isinstance(value, dict):
        return value
    return report_of(next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Report)), value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Path):
        return str(value)
    return value.as_dict() if isinstance(value, Report) else value
