"""Tables of results: plain text for the terminal, Markdown for the documentation.

Pure: the content of the JSON file goes in, text comes out. A page of docs/benchmarks holds a section between two
markers; everything outside them is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import primitive_targets, targets
from .units import GIB, MIB, Json, format_count, format_size, median

NONE = "-"


@dataclass(frozen=True)
class Page:
    """A page of docs/benchmarks and the cases that its marked section shows."""

    file: str
    mark: str
    shows: Callable[[Json], bool]

    @property
    def mark_begin(self) -> str:
        return f"<!-- {self.mark}: begin (written with --write-docs) -->"

    @property
    def mark_end(self) -> str:
        return f"<!-- {self.mark}: end -->"


@dataclass(frozen=True)
class Judge:
    """A benchmark by name: its targets, and its pages of the documentation."""

    name: str
    verdicts: Callable[[list[Json]], Iterator[targets.Verdict]]
    pages: tuple[Page, ...]


def _is_text(case: Json) -> bool:
    return case["key"] in primitive_targets.SPEEDUPS


SORT = Judge("sort", targets.verdicts, (Page("sorts.md", "bench-sort", lambda _case: True),))
PRIMITIVES = Judge(
    "primitives",
    primitive_targets.verdicts,
    (
        Page("text.md", "bench-text", _is_text),
        Page("primitives.md", "bench-primitives", lambda case: not _is_text(case)),
    ),
)


@dataclass
class Table:
    """A table with a title; the first `left` columns are words, the others numbers."""

    title: str
    head: list[str]
    rows: list[list[str]] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    left: int = 1

    def text(self) -> str:
        cells = [self.head, *self.rows]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.head))]
        lines = [self.title, "=" * len(self.title), *self.before]
        for number, row in enumerate(cells):
            parts = [
                cell.ljust(width) if column < self.left else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  ".join(parts).rstrip())
            if number == 0:
                lines.append("  ".join("-" * width for width in widths))
        return "\n".join([*lines, *self.after])

    def markdown(self) -> str:
        rule = ["---" if column < self.left else "---:" for column in range(len(self.head))]
        rows = [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in [self.head, rule, *self.rows]
        ]
        parts = [
            f"### {self.title}",
            "\n".join(self.before),
            "\n".join(rows),
            "\n".join(f"- {line}" for line in self.after),
        ]
        return "\n\n".join(part for part in parts if part)


def _number(value: float | None, form: str) -> str:
    return form.format(value) if value is not None else NONE


def _median_of(runs: list[Json], name: str, unit: float = 1.0) -> float | None:
    value = median(run[name] for run in runs)
    return value / unit if value is not None else None


def machine_table(result: Json) -> Table:
    rows = [[label, text] for label, text in result["machine"].items()]
    rows += [[f"{tool} version", version] for tool, version in result["versions"].items()]
    rows += [["threads of every tool", str(result["threads"])], ["run at", result["when"]]]
    return Table("Machine and versions", ["what", "value"], rows, left=2)


def case_table(case: Json) -> Table:
    """One case: one row per tool, with medians of its successful runs."""
    head = [
        "tool",
        "wall s",
        "min..max",
        "user s",
        "sys s",
        "ns wall per record",
        "ns CPU per record",
        "peak RSS MiB",
        "GiB read",
        "GiB written",
        "fsync after s",
        "x floor",
        "outcore faster by",
        "output checked by",
    ]
    table = Table(f"{case['key']}: {case['title']}", head)
    table.before.append(_case_line(case))
    for tool in case["runs"]:
        table.rows.append(_tool_row(case, tool))
    table.after += [f"{tool}: not run: {reason}" for tool, reason in case["skipped"].items()]
    table.after += [
        f"{tool}: failed: {run['failure']}" for tool, runs in case["runs"].items() for run in runs if run["failure"]
    ]
    table.after += case["notes"]
    table.after += _memory_notes(case)
    return table


def _case_line(case: Json) -> str:
    limit = format_size(case["limit_bytes"]) if case["limit_bytes"] else "none"
    parts = [
        case["facts"].get("data") or f"{format_count(case['records'])} records of {case['record_bytes']} bytes",
        f"memory {format_size(case['memory_bytes'])}",
        f"limit of the group {limit}",
        f"median of {case['rounds']}",
    ]
    if case["floors_s"]:
        floors = case["floors_s"]
        parts.append(f"floor {median(floors):.2f} s ({min(floors):.2f}..{max(floors):.2f})")
    if case["serial_s"] is not None:
        parts[-1] += f", serial sum {case['serial_s']:.2f} s"
    facts = case["facts"]
    if "allowed_s" in facts:
        measured = facts.get("measured_rate_bytes_s")
        seen = f", fio sees {measured / 1e6:.1f} MB/s each way" if measured else ""
        parts.append(
            f"{facts['drives']} x {facts['rate_bytes_s'] / 1e6:g} MB/s{seen}: {facts['allowed_s']:.2f} s by their rates"
        )
    return "; ".join(parts) + "."


def _tool_row(case: Json, tool: str) -> list[str]:
    runs = targets.good(case, tool)
    if not runs:
        return [tool, "failed", *[NONE] * 12]
    walls = [run["wall_s"] for run in runs]
    records = case["records"]
    times = targets.speedup(case, tool) if tool != "outcore" else None
    checked = next((run["checked"] for run in runs if run["checked"]), None)
    return [
        tool,
        f"{targets.wall(case, tool):.2f}",
        f"{min(walls):.2f}..{max(walls):.2f}",
        _number(_median_of(runs, "user_s"), "{:.2f}"),
        _number(_median_of(runs, "system_s"), "{:.2f}"),
        _number(_median_of(runs, "wall_s", records * 1e-9), "{:.1f}"),
        _number(_median_of(runs, "cpu_s", records * 1e-9), "{:.1f}"),
        f"{max(run['peak_rss_bytes'] for run in runs) / MIB:.0f}",
        _number(_median_of(runs, "read_bytes", GIB), "{:.2f}"),
        _number(_median_of(runs, "written_bytes", GIB), "{:.2f}"),
        _number(_median_of(runs, "settle_s"), "{:.2f}"),
        _number(targets.floor_ratio(case, tool), "{:.2f}"),
        _number(times, "{:.2f}"),
        checked or NONE,
    ]


def _memory_notes(case: Json) -> list[str]:
    """Reports a peer that exceeded its memory, because the peer competed with more memory than it was allowed."""
    notes = []
    for tool in case["runs"]:
        peaks = [run["peak_rss_bytes"] for run in targets.good(case, tool)]
        if tool != "outcore" and peaks and max(peaks) > case["memory_bytes"] + targets.RSS_OVER_MEMORY_MAX_BYTES:
            notes.append(
                f"{tool} took {max(peaks) / MIB:.0f} MiB where {case['memory_bytes'] / MIB:.0f} MiB were allowed"
            )
    return notes


def target_table(result: Json, judge: Judge) -> Table:
    words = {True: "met", False: "MISSED", None: "not measured"}
    table = Table("What outcore must reach", ["measure", "reach", "measured", "verdict"], left=4)
    table.rows = [[v.measure, v.reach, v.got, words[v.met]] for v in judge.verdicts(result["cases"])]
    if result["scale"] != "1":
        table.before.append(f"Scale {result['scale']}: a smoke run, its verdicts say nothing about the targets.")
    table.after = [f"skipped: {group}: {reason}" for group, reason in result["skipped"].items()]
    table.after += [f"failed: {group}: {reason}" for group, reason in result["failed"].items()]
    return table


def _losses(result: Json, judge: Judge) -> list[str]:
    return targets.losses(result["cases"], judge.verdicts) or ["none in this run"]


def tables(result: Json, judge: Judge = SORT) -> list[Table]:
    return [machine_table(result), *[case_table(case) for case in result["cases"]], target_table(result, judge)]


def text(result: Json, judge: Judge = SORT) -> str:
    """The whole report for a terminal."""
    lost = ["Losses", "======", *[f"- {line}" for line in _losses(result, judge)]]
    return "\n\n".join([*[table.text() for table in tables(result, judge)], "\n".join(lost)]) + "\n"


def markdown(result: Json, judge: Judge = SORT) -> str:
    """The whole report as Markdown, with headings from the third level on."""
    lost = "\n".join(["### Losses", "", *[f"- {line}" for line in _losses(result, judge)]])
    return "\n\n".join([*[table.markdown() for table in tables(result, judge)], lost]) + "\n"


#: The columns of a case's table that the documentation shows, of all cases in one table.
SHOWN = (0, 1, 2, 6, 7, 8, 9, 11, 12)


#: The columns of the table that describes the cases.
SETTING = [
    "case",
    "job",
    "data",
    "memory",
    "limit of the group",
    "runs",
    "floor s",
    "serial sum s",
    "MB/s per drive",
    "fio MB/s",
    "floor of the drives s",
]
SETTING_NOTE = (
    "The floor is the time that the drive alone needs: the median, with its range. On throttled drives, it is computed "
    "from their rates; fio measured the rate that each drive reaches in each direction."
)


def _setting(case: Json) -> list[str]:
    """The row of a case in the table that describes the cases."""
    facts, floors = case["facts"], case["floors_s"]
    is_rated = "allowed_s" in facts
    measured = facts.get("measured_rate_bytes_s") if is_rated else None
    return [
        f"`{case['key']}`",
        _spaced(case["title"]),
        facts.get("data") or f"{format_count(case['records'])} records of {case['record_bytes']} bytes",
        _spaced(format_size(case["memory_bytes"])),
        _spaced(format_size(case["limit_bytes"])) if case["limit_bytes"] else NONE,
        str(case["rounds"]),
        f"{median(floors):.2f} ({min(floors):.2f}..{max(floors):.2f})" if floors else NONE,
        _number(case["serial_s"], "{:.2f}"),
        f"{facts['rate_bytes_s'] / 1e6:g}" if is_rated else NONE,
        _number(measured and measured / 1e6, "{:.1f}"),
        f"{facts['allowed_s']:.2f}" if is_rated else NONE,
    ]


def _spaced(text: str) -> str:
    """Sizes with a space before their unit."""
    return re.sub(r"(\d)([KMGT]i?B)\b", r"\1 \2", text)


def section(result: Json, judge: Judge, page: Page) -> str:
    """The section of a page of the documentation: one table of all its cases, headings from the third level."""
    shown = [case for case in result["cases"] if page.shows(case)]
    machine = machine_table(result).rows
    facts = "; ".join(f"{label} {text}" for label, text in machine)
    made = [(case, case_table(case)) for case in shown]
    head = ["case"] + [made[0][1].head[column] for column in SHOWN] if made else ["case"]
    results = Table("Results", head, left=2)
    for case, table in made:
        results.rows += [[f"`{case['key']}`", *[row[column] for column in SHOWN]] for row in table.rows]
    for case, table in made:
        results.after += [f"`{case['key']}`: {note}" for note in table.after]
    settings = Table("Cases", SETTING, [_setting(case) for case in shown], [SETTING_NOTE], left=3)
    part = {**result, "cases": shown}
    lost = "\n".join(["### Losses", "", *[f"- {line}" for line in _losses(part, judge)]])
    parts = [results.markdown(), settings.markdown(), target_table(part, judge).markdown(), lost]
    return "\n\n".join([f"Machine and versions: {facts}.", *parts])


def write_docs(result: Json, directory: Path, judge: Judge = SORT) -> None:
    """Replaces the marked section of each page. Raises ValueError when a file has no such section."""
    for page in judge.pages:
        path = directory / page.file
        text = path.read_text()
        begin, end = text.find(page.mark_begin), text.find(page.mark_end)
        if begin < 0 or end < begin:
            raise ValueError(f"{path} has no section between {page.mark_begin!r} and {page.mark_end!r}")
        inner = section(result, judge, page)
        path.write_text(text[: begin + len(page.mark_begin)] + "\n" + inner + "\n" + text[end:])


def merge(results: list[Json]) -> Json:
    """Merges the results of several runs: the machine of the last run, and the latest measurement of each case.

    Raises ValueError if scales or machines differ, because such numbers do not belong in one table.
    """
    for result in results[1:]:
        for name in ("scale", "machine", "threads", "versions"):
            if result[name] != results[0][name]:
                raise ValueError(f"cannot merge: {name} differs: {results[0][name]} and {result[name]}")
    order: dict[str, Json] = {}
    left_out: dict[str, dict[str, str]] = {"skipped": {}, "failed": {}}
    for result in results:
        order.update({case["key"]: case for case in result["cases"]})
        for name, reasons in left_out.items():
            reasons.update(result[name])

    def is_measured(group: str) -> bool:
        return any(key == group or key.startswith(f"{group}-") for key in order)

    return {
        **results[-1],
        "when": ", ".join(sorted({result["when"] for result in results})),
        "cases": list(order.values()),
        **{
            name: {group: reason for group, reason in reasons.items() if not is_measured(group)}
            for name, reasons in left_out.items()
        },
    }
