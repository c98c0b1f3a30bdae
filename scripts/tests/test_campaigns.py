"""The parts of the campaigns that need no command."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from campaign_jobs import SHELL, states
from campaign_races import Outcome
from campaigns import NAMES, Counts


def test_the_last_line_counts_every_outcome() -> None:
    counts = Counts()
    for outcome in (Outcome.right("a"), Outcome.refused("b", "why"), Outcome.right("c"),
                    Outcome.wrong("d", "mixed")):
        counts.add(outcome, "races --seed 3 --from 9 --cases 1")
    assert counts.line() == "4 cases, 2 right, 1 refused, 1 wrong"
    assert counts.wrong == ["races --seed 3 --from 9 --cases 1: d: mixed"]


def test_lines_of_several_processes_are_left_out() -> None:
    for line in ("producer | outcore sort - -o out", "outcore sort in > out", "cat in", "outcore gen u64 $N"):
        assert SHELL.search(line), line
    assert not SHELL.search("outcore sort in -o out --type u64")


def test_a_directory_is_part_of_a_state(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"x")
    assert states(tmp_path) == {"a/": b"", "a/b": b"x"}


def test_each_campaign_is_a_target_of_make() -> None:
    makefile = Path(__file__).resolve().parents[2] / "Makefile"
    line = next(line for line in makefile.read_text().splitlines() if line.startswith("CAMPAIGNS ="))
    assert sorted(line.split("=")[1].split()) == sorted(NAMES)
