"""The runner of the examples of help texts: the examples that it finds, its changes to them, and its messages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from example_inputs import remove, small  # noqa: E402
from help_examples import (  # noqa: E402
    NOT_RUN, Help, helps_of, outputs_of, run_help, stale_entries,
)
from pages import parser_of  # noqa: E402

HELPS = {
    "": "Does things\n\nFirst steps:\n  outcore make -o a    makes a\n\n"
        "Files:\n  make    Makes a file\n  group   Has commands\n  help    Prints this\n",
    "make": "Makes\n\nExamples:\n  outcore make -o a     # a comment\n\nOptions:\n  -o, --output <OUT>\n",
    "group": "Has\n\nCommands:\n  inner  Is inside\n",
    "group inner": "Is\n\nExamples:\n  outcore group inner | consumer\n",
}


@pytest.fixture(name="command")
def fixture_command(tmp_path: Path) -> Path:
    """A command that prints these helps; `make -o FILE` makes a file that was not there."""
    cases = "".join(f"'{words} --help'|'--help{words}') cat <<'END'\n{text}END\n;;\n"
                    for words, text in HELPS.items())
    command = tmp_path / "outcore"
    command.write_text(f"#!/bin/sh\ncase \"$*\" in\n{cases}"
                       "'make -o '*) [ ! -e \"$3\" ] && echo made > \"$3\" ;;\n"
                       "'group inner') echo inner ;;\n"
                       "*) echo \"no $*\" >&2; exit 2 ;;\nesac\n")
    command.chmod(0o755)
    return command


def run(command: Path, *examples: str):
    inputs = command.parent / "inputs"
    inputs.mkdir(exist_ok=True)
    (inputs / "a").write_text("there before")
    parser = parser_of("")
    options = parser.parse_args(["--command", str(command), "--python", sys.executable])
    return run_help(Help("outcore", "make", list(examples)), inputs, options)


def test_every_command_with_examples_is_found(command: Path) -> None:
    found = [(text.words, text.examples) for text in helps_of(command)]
    assert found == [
        ("", ["outcore make -o a"]),
        ("make", ["outcore make -o a"]),
        ("group inner", ["outcore group inner | consumer"]),
    ]


def test_an_output_that_exists_is_removed_first(command: Path) -> None:
    result = run(command, "outcore make -o a", "outcore make -o a   # again", "cat a | consumer")
    assert (result.passed_count, result.failed) == (3, [])


def test_a_line_that_fails_is_named_and_those_below_it_run(command: Path) -> None:
    result = run(command, "outcore make --wrong", "outcore group inner | consumer")
    assert result.passed_count == 1
    assert len(result.failed) == 1
    assert "outcore make --wrong\n  exit code 2\n    no make --wrong" in result.failed[0]


def test_a_file_that_is_no_input_and_that_no_line_makes_is_a_failure(command: Path) -> None:
    assert "absent" in run(command, "cat absent | consumer").failed[0]


def test_an_entry_that_no_help_needs_is_found(command: Path) -> None:
    stale = stale_entries(helps_of(command))
    assert set(NOT_RUN) <= {line.split("`")[1] for line in stale}


def test_numbers_and_places_change_and_nothing_else() -> None:
    line = "outcore gen u64 -n 1e9 -o /mnt/a/keys.bin --dist zipf:1.2"
    assert small(line, Path("/x")) == "outcore gen u64 -n 10000 -o /x/mnt/a/keys.bin --dist zipf:1.2"
    for same in ("outcore filter 'key0 >= 1700000000' log.bin", "outcore sample -n 1e5 t.parquet",
                 "outcore graph pagerank g.graph --tolerance 1e-14"):
        assert small(same, Path("/x")) == same


def test_outputs_are_the_values_of_their_options() -> None:
    line = "outcore knn a.npy b.npy --index i -o ids.npy --distances d.npy | sort -o 'x y'"
    assert outputs_of(line) == ["ids.npy", "d.npy", "x y"]
    assert outputs_of("outcore volume get @keys keys.bin --volume drives.toml") == ["keys.bin"]


def test_the_parts_of_an_output_are_removed_with_their_manifest(tmp_path: Path) -> None:
    for name in ("part-0.bin", "part-12.bin", "part.bin.outcore.json", "part-list.bin", "keys.bin"):
        (tmp_path / name).touch()
    remove(str(tmp_path / "part-{part}.bin"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys.bin", "part-list.bin"]
