"""What an input is, and which arguments are for which kinds of input.

The engine says what files hold, by what is said of them, their content and their names, as it does for the command.
`RULES` is the one table of arguments that are not for every kind that their function takes.
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
#: A table that somebody else holds.
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
_OF_TEXT: dict[str, Rule] = {"lines": TEXT, "csv": {CSV}, "header": {CSV}}
_OF_TABLES: dict[str, Rule] = {
    "columns": TABLES,
    "union": TABLES,
    "codec": TABLES,
    "schema": {CSV_TABLE, JSON_TABLE},
}

#: The kinds that an argument of a function is for; what is not here is for all that the function takes.
RULES: dict[str, dict[str, Rule]] = {
    "sort": {
        **_OF_RECORDS,
        **_OF_TEXT,
        **_OF_TABLES,
        "key": RECORD_KINDS | {LINES},
        "by": TABLES | {CSV, JSON},
        "order": {LINES, CSV},
        "separator": {LINES, CSV, CSV_TABLE},
        "on_error": {CSV, JSON},
        "replace": RECORD_KINDS,
        "seed": RECORD_KINDS,
        "explain": RECORD_KINDS,
        "record_io": RECORD_KINDS,
        "volume": TEXT | RECORD_KINDS,
    },
    "shuffle": {
        **_OF_RECORDS,
        **_OF_TEXT,
        "separator": {CSV, CSV_TABLE},
        "replace": TEXT | RECORD_KINDS,
        "record_io": TEXT | RECORD_KINDS,
        "volume": TEXT | RECORD_KINDS,
    },
    "open": {
        **_OF_RECORDS,
        "lines": TEXT,
        "zero_terminated": {LINES, JSON},
        "volume": TEXT | RECORD_KINDS,
    },
    "lookup": {"dtype": RECORD_KINDS, "index": RECORD_KINDS, "lines": {LINES}, "zero_terminated": {LINES}},
    "sort_view": {
        **_OF_RECORDS,
        **_OF_TEXT,
        **_OF_TABLES,
        "key": RECORD_KINDS | {LINES},
        "by": TABLES | {CSV, JSON},
        "order": {LINES, CSV},
        "separator": {LINES, CSV, CSV_TABLE},
        "zero_terminated": {LINES, JSON},
        "stable": TEXT | RECORD_KINDS,
        "volume": TEXT | RECORD_KINDS,
    },
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
    output: str | None = None,
    records: bool = False,
    lines: bool = False,
    csv: bool = False,
    table: bool = False,
    by: list[str] | None = None,
    text_order: bool = False,
) -> str:
    """What the files hold; `table` says that something is given that only tables have."""
    asked = AskedRequest(
        inputs=names,
        output=output,
        is_records=records,
        is_lines=lines,
        is_csv=csv,
        is_table=table,
        by=by or [],
        is_text_order=text_order,
        resources=resources,
    )
    return _outcore.what(asked)


def check(function: Callable[..., Any], kind: str, given: dict[str, Any]) -> None:
    """Rejects, by its name, an argument that is not for inputs of this kind."""
    name = function.__name__
    defaults = inspect.signature(function).parameters
    for argument, kinds in RULES[name].items():
        if kind in kinds or argument not in given:
            continue
        value, default = given[argument], defaults[argument].default
        if value is default or (type(value) is type(default) and value == default):
            continue
        words = dict.fromkeys(_NAMES[other] for other in _NAMES if other in kinds)
        cause = f"{argument} cannot be used with {_NAMES[kind]}; it is for {' and '.join(words)}"
        raise usage(name, cause, f"leave {argument} out")

