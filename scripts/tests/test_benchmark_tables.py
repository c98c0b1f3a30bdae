"""The summary tables of benchmarks: the written tables, and the detection of stale or wrong ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import benchmark_tables as tables  # noqa: E402

ROW = {
    "area": "sorts",
    "job": "sort keys",
    "size": "2 GiB",
    "memory": "512 MiB",
    "outcore_seconds": 4.0,
    "peers": [{"name": "GNU `a | b`", "seconds": 20.0}, {"name": "X", "result": "does not finish"}],
    "ratio": 5.1,
    "cpu": "AMD EPYC",
    "date": "2026-11-28",
    "command": "make bench-sort",
    "readme": "sort keys",
}


def made(root: Path, *rows: dict[str, object]) -> Path:
    (root / "docs" / "benchmarks").mkdir(parents=True)
    (root / "docs" / "benchmarks" / "sorts.md").write_text("")
    (root / tables.SOURCE).write_text(json.dumps(rows))
    for name in ("README.md", "docs/benchmarks.md"):
        (root / name).write_text(f"head\n{tables.BEGIN}\nold\n{tables.END}\ntail\n")
    return root


def test_only_the_text_between_the_markers_changes_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    root = made(tmp_path, ROW)
    assert tables.main(["--check"], root) == 1
    assert "old" in (root / "README.md").read_text()
    assert tables.main([], root) == 0
    text = (root / "README.md").read_text()
    assert text.startswith("head\n") and text.endswith("tail\n") and "old" not in text
    assert "| sort keys | 4.0 s | GNU `a \\| b` 20.0 s; X does not finish |" in text
    assert tables.main(["--check"], root) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ratio": 6.0}, "the times give 5.00"),
        ({"area": "nothing"}, "docs/benchmarks/nothing.md does not exist"),
        ({"date": "yesterday"}, "yesterday"),
        ({"speed": 1}, "unknown speed"),
    ],
)
def test_a_wrong_row_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], message: str
) -> None:
    root = made(tmp_path, {**ROW, **change})
    assert tables.main([], root) == 1
    assert message in capsys.readouterr().err
    assert "old" in (root / "README.md").read_text()


def test_a_page_without_markers_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = made(tmp_path, ROW)
    (root / "README.md").write_text("no markers")
    assert tables.main([], root) == 1
    assert "README.md" in capsys.readouterr().err


def test_the_tables_of_this_repository_are_those_of_the_file() -> None:
    assert tables.main(["--check"]) == 0
