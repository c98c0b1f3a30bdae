"""The kind of an input, and the kinds that each argument applies to.

The engine decides on the kind of files by the arguments, the content and the names, as it does for
the command. `RULES` is the one table of arguments that do not apply to every kind that their
function takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Union

from . import _outcore
from ._errors import usage
from ._requests import AskedRequest, ResourcesRequest

LINES, CSV, JSON, RECORDS, ARRAY = "lines", "csv", "jsonl", "records", "array"
TABLE, CSV_TABLE, JSON_TABLE, VIEW = "table", "csv_table", "jsonl_table", "view"
#: A table that another library holds.
HELD = "held_table"

TEXT = {LINES, CSV, JSON}
RECORD_KINDS = {RECORDS, ARRAY}
TABLES = {TABLE, CSV_TABLE, JSON_TABLE, HELD}
_NAMES = {
    LINES: "lines",
    CSV: "CSV",
    JSON: "JSON lines",
    RECORDS: "records",
    ARRAY: ".npy files",
    TABLE: "tables",
    CSV_TABLE: "tables of CSV",
    JSON_TABLE: "tables of JSON lines",
    HELD: "tables",
    VIEW: "views",
}

Rule = Union["set[str]", "frozenset[str]"]

_OF_RECORDS: dict[str, Rule] = {"dtype": RECORD_KINDS, "record": RECORD_KINDS}

#: The kinds that an argument of a function applies to; other arguments apply to all kinds that the
#: function takes.
RULES: dict[str, dict[str, Rule]] = {
    "open": {
        **_OF_RECORDS,
        "lines": TEXT,
        "zero_terminated": {LINES, JSON},
        "volume": TEXT | RECORD_KINDS,
    },
    "lookup": {"dtype": RECORD_KINDS, "index": RECORD_KINDS, "lines": {LINES}, "zero_terminated": {LINES}},
    "table": {
        "schema": {CSV_TABLE, JSON_TABLE},
        "separator": {CSV_TABLE},
        "null": {CSV_TABLE},
        "on_error": {CSV_TABLE, JSON_TABLE},
    },
}


def what(
    names: list[str],
    resources: ResourcesRequest,
    *,
    records: bool = False,
    lines: bool = False,
    table: bool = False,
) -> str:
    """The kind of the files; `table` says that an argument is given that only tables have."""
    asked = AskedRequest(
        inputs=names,
        is_records=records,
        is_lines=lines,
        is_table=table,
        resources=resources,
    )
    kind = _outcore.what(asked)
    if not records:
        return kind
    # Options of records do not apply to a table, so the error is about these options.
    asked = AskedRequest({**asked, "is_records": False, "is_table": False})
    return TABLE if _outcore.what(asked) == TABLE else kind


def check(function: Callable[..., Any], kind: str, given: dict[str, Any]) -> None:
    """Rejects, by its name, an argument that does not apply to inputs of this kind."""
    name, rules = function.__name__, RULES[function.__name__]
    said = [argument for argument in rules if _is_said(function, argument, given)]
    for argument in said:
        kinds = rules[argument]
        if kind in kinds:
            continue
        # The kind may come from an argument that no input accepts together with this one.
        others = (other for other in said if kind in rules[other] and not kinds & rules[other])
        other = next(others, None)
        if other is None:
            cause = f"{argument} cannot be used with {_NAMES[kind]}; it is for {_words(kinds)}"
            raise usage(name, cause, f"leave {argument} out")
        why = f"{argument} is for {_words(kinds)}, {other} for {_words(rules[other])}"
        cause = f"{argument} cannot be used with {other}: {why}"
        raise usage(name, cause, "leave one of the two out")


def _is_said(function: Callable[..., Any], argument: str, given: dict[str, Any]) -> bool:
    """Whether an argument is given and not its default."""
    if argument not in given:
        return False
    value, default = given[argument], inspect.signature(function).parameters[argument].default
    return not (value is default or (type(value) is type(default) and value == default))


def _words(kinds: Rule) -> str:
    """The names of kinds."""
    return " and ".join(dict.fromkeys(_NAMES[kind] for kind in _NAMES if kind in kinds))
