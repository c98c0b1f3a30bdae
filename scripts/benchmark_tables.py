#!/usr/bin/env python3
"""The summary tables of benchmarks in README.md and docs/benchmarks.md, generated from docs/benchmarks/summary.json.

    benchmark_tables.py            writes both tables between their markers
    benchmark_tables.py --check    exit code 1 if a table differs from what the file says

Contract: changes nothing outside the markers, and nothing at all if a row is wrong: a missing field, an unknown field, a
page or a date that does not exist, or a ratio that is more than a tenth from the ratio of the two times. Standard library
only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path("docs/benchmarks/summary.json")
BEGIN = "<!-- benchmark-table: begin (written by scripts/benchmark_tables.py) -->"
END = "<!-- benchmark-table: end -->"
NEEDED = {"area", "job", "size", "memory", "peers", "cpu", "date", "command"}
OPTIONAL = {"outcore_seconds", "outcore_rate", "unit", "ratio", "drive_share", "note", "readme"}
#: A ratio is the median of the rounds' ratios, so it may differ this much from the ratio of two medians.
RATIO_ERROR_MAX = 0.1
Row = dict[str, Any]


class WrongRow(ValueError):
    """A row of the file that no table can show."""


def checked(row: Row, root: Path) -> Row:
    """The row, if it is complete and consistent."""
    name = f"{row.get('job', '(no job)')}, {row.get('size', '(no size)')}"
    missing = NEEDED - row.keys()
    if missing:
        raise WrongRow(f"{name}: no {', '.join(sorted(missing))}")
    unknown = row.keys() - NEEDED - OPTIONAL
    if unknown:
        raise WrongRow(f"{name}: unknown {', '.join(sorted(unknown))}")
    if not (root / "docs" / "benchmarks" / f"{row['area']}.md").is_file():
        raise WrongRow(f"{name}: docs/benchmarks/{row['area']}.md does not exist")
    try:
        datetime.date.fromisoformat(row["date"])
    except ValueError as error:
        raise WrongRow(f"{name}: {error}") from None
    expected = ratio_of_medians(row)
    if expected and abs(row.get("ratio", 0) / expected - 1) > RATIO_ERROR_MAX:
        raise WrongRow(f"{name}: ratio {row.get('ratio')}, but the times give {expected:.2f}")
    return row


def ratio_of_medians(row: Row) -> float | None:
    """How many times faster outcore is than the first peer, if both were measured."""
    best = row["peers"][0] if row["peers"] else {}
    if "outcore_seconds" in row and "seconds" in best:
        return best["seconds"] / row["outcore_seconds"]
    if "outcore_rate" in row and "rate" in best:
        return row["outcore_rate"] / best["rate"]
    return None


def seconds_text(seconds: float, digits: int | None) -> str:
    """As many digits as were measured, or the given number of decimals."""
    if seconds < 0.01:
        return f"{seconds * 1000:g} ms"
    return f"{seconds} s" if digits is None else f"{seconds:.{digits}f} s"


def own_text(row: Row, digits: int | None = None) -> str:
    if "outcore_seconds" in row:
        return seconds_text(row["outcore_seconds"], digits)
    if "outcore_rate" in row:
        return f"{row['outcore_rate']:,} {row['unit']}"
    return "-"


def peer_text(row: Row, peer: Row, digits: int | None = None) -> str:
    if "result" in peer:
        return f"{peer['name']} {peer['result']}".strip()
    value = seconds_text(peer["seconds"], digits) if "seconds" in peer else f"{peer['rate']:,} {row['unit']}"
    memory = f" in {peer['memory']}" if "memory" in peer else ""
    return f"{peer['name']} {value}{memory}"


def peers_text(row: Row, digits: int | None = None) -> str:
    """All peers: first those with a time, then those without."""
    measured = [peer_text(row, peer, digits) for peer in row["peers"] if "result" not in peer]
    others = [peer_text(row, peer, digits) for peer in row["peers"] if "result" in peer]
    return "; ".join(part for part in (", ".join(measured), *others) if part) or "-"


def line(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def readme_table(rows: list[Row]) -> str:
    """The few rows that README shows."""
    lines = ["| job, on 2 cores with 512 MiB of memory | outcore | others |", "|---|---:|---|"]
    lines += [line(row["readme"], own_text(row, 1), peers_text(row, 1)) for row in rows if "readme" in row]
    return "\n".join(lines)


def page_table(rows: list[Row]) -> str:
    """All rows, and the command that repeats each."""
    lines = [
        line("area", "job", "size", "memory", "outcore", "best peer, other peers", "ratio", "drive", "note"),
        "|---|---|---|---|---:|---|---:|---:|---|",
    ]
    for row in rows:
        ratio = row.get("ratio")
        share = row.get("drive_share")
        ratio_text = "" if ratio is None else f"{ratio:.2f}" if ratio >= 1 else f"**{ratio:.2f}**"
        lines.append(
            line(
                f"[{row['area']}](benchmarks/{row['area']}.md)",
                row["job"],
                row["size"],
                row["memory"],
                own_text(row),
                peers_text(row),
                ratio_text,
                "" if share is None else f"{share:.0%}",
                row.get("note", ""),
            )
        )
    lines += ["", line("command", "measured", "machine"), "|---|---|---|"]
    runs = {(row["command"], row["date"], row["cpu"]): None for row in rows}
    lines += [line(f"`{command}`", date, cpu) for command, date, cpu in runs]
    return "\n".join(lines)


def replaced(text: str, table: str, name: str) -> str:
    """The page with another table between its markers."""
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise WrongRow(f"{name} has no line {BEGIN} followed by {END}")
    return text[: begin + len(BEGIN)] + "\n" + table + "\n" + text[end:]


def main(words: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a table is stale")
    options = parser.parse_args(words)
    pages = {"README.md": readme_table, "docs/benchmarks.md": page_table}
    try:
        rows = [checked(row, root) for row in json.loads((root / SOURCE).read_text(encoding="utf-8"))]
        old = {name: (root / name).read_text(encoding="utf-8") for name in pages}
        new = {name: replaced(old[name], table(rows), name) for name, table in pages.items()}
    except WrongRow as error:
        print(f"benchmark_tables: {error}", file=sys.stderr)
        return 1
    stale = [name for name in pages if new[name] != old[name]]
    if not options.check:
        for name in stale:
            (root / name).write_text(new[name], encoding="utf-8")
    elif stale:
        print(f"stale: {', '.join(stale)}: run scripts/benchmark_tables.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
