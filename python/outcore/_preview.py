"""A preview of a table: its columns and its first rows, for `repr` and for notebooks.

Contract: a `Preview` is made from the first rows of a table, through the verbs `head`, `info` and
`convert`; no more of the input is read than these rows need. Nothing here needs another library.
Cells are truncated to a width, and markup is escaped.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Rows that are shown.
ROWS = 5
#: Columns of text that a row may take in a terminal.
_WIDTH = 100
#: Characters of a cell that are shown.
_CELL = 24


@dataclass(frozen=True)
class Preview:
    """The columns of a table with their types, and its first rows."""

    schema: Mapping[str, str]
    rows: Sequence[Sequence[str]]

    @staticmethod
    def of(schema: Mapping[str, str], lines: bytes) -> Preview:
        """The preview of rows as JSON lines."""
        rows = [json.loads(line) for line in lines.splitlines()]
        return Preview(schema, [[_cell(row.get(name)) for name in schema] for row in rows])

    def text(self, title: str) -> str:
        """A grid that fits a terminal; columns that do not fit are counted."""
        grid = [
            [cut(name, _CELL), cut(kind, _CELL), *cells]
            for (name, kind), cells in zip(self.schema.items(), self._cells())
        ]
        widths = [max(map(len, column)) for column in grid]
        shown = 0
        while shown < len(grid) and sum(widths[: shown + 1]) + 2 * shown <= _WIDTH:
            shown += 1
        lines = [title]
        for row in zip(*grid[:shown]):
            padded = (cell.ljust(width) for cell, width in zip(row, widths))
            lines.append("  ".join(padded).rstrip())
        left = list(self.schema)[shown:]
        if left:
            count = "1 more column" if len(left) == 1 else f"{len(left)} more columns"
            lines.append(cut(f"and {count}: {', '.join(left)}", _WIDTH))
        return "\n".join(lines)

    def html(self, title: str) -> str:
        """The preview for a notebook, with all columns."""
        heads = "".join(
            f"<th>{html.escape(name)}<br><small>{html.escape(kind)}</small></th>"
            for name, kind in self.schema.items()
        )
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows
        )
        caption = f"<p>{html.escape(title)}</p>"
        return f"<div>{caption}<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"

    def _cells(self) -> list[list[str]]:
        """The cells by column."""
        return [[row[at] for row in self.rows] for at in range(len(self.schema))]


def _cell(value: Any) -> str:
    """A value in one line."""
    if value is None:
        return "null"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(" ".join(text.split()), _CELL)


def cut(text: str, width: int) -> str:
    """The text, truncated to `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"
