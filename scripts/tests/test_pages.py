"""The runner of code blocks: each kind of block, and the message for a block that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pages import arguments, blocks_of, commands_of, is_same, run_page  # noqa: E402
from tally import pages_tally  # noqa: E402


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path):
    """Runs a page with a command that only prints its arguments."""
    command = tmp_path / "outcore"
    command.write_text('#!/bin/sh\necho "outcore $*"\n')
    command.chmod(0o755)

    def run(text: str, *more: str):
        page = tmp_path / "page.md"
        page.write_text(text.replace("~~~", "```"))
        words = [str(page), "--command", str(command), "--python", sys.executable, *more]
        options = arguments(words)
        return run_page(page, options)

    return run


def test_state_is_kept_from_block_to_block(run) -> None:
    result = run("""
~~~sh
export NAME=one
mkdir in && cd in
outcore sort > out.txt
~~~
~~~console
$ cat out.txt
outcore sort
$ echo $NAME took 5.2 ms
one took 7 s
~~~
~~~python
text = open("in/out.txt").read()
~~~
~~~python
print(text)
~~~
<!-- output -->
~~~text
outcore ...
~~~
~~~pycon
>>> text
'outcore sort\\n'

~~~
""")
    assert (result.failed, result.passed_count) == ([], 6)


@pytest.mark.parametrize("block, place, message", [
    ("~~~sh\ntrue\nfalse\ntrue\n~~~\n", 3, "$ false\n  exit code 1"),
    ("~~~sh\nfalse | cat\n~~~\n", 2, "exit code 1"),
    ("~~~console\n$ echo a \\\n    b\na b\n$ echo c\nd\n~~~\n", 5, "it printed:\n    c"),
    ("~~~python\n\nx = 1\n1 / 0\n~~~\n", 2, "page.md\", line 4"),
    ("~~~python\nimport os; os._exit(3)\n~~~\n", 2, "ended with 3"),
    ("~~~pycon\n>>> 1 + 1\n3\n\n~~~\n", 2, "Got:\n        2"),
    ("~~~\ntext\n~~~\n", 2, "the language `` is none of"),
    ("<!-- part of: Makefile -->\n~~~rust\nnothing like it\n~~~\n", 3, "has no line"),
])
def test_a_failure_says_where_and_what(run, block: str, place: int, message: str) -> None:
    failed = run(block).failed
    assert len(failed) == 1 and f"page.md:{place}: " in failed[0] and message in failed[0]


def test_blocks_are_left_out_with_a_reason(run) -> None:
    result = run("""
<!-- not run: needs eight drives -->
~~~sh
false
~~~
<!-- needs: no_such_module -->
~~~python
import no_such_module
~~~
<!-- needs: $NO_SUCH_VARIABLE, three machines -->
~~~sh
false
~~~
""")
    assert not result.failed and result.passed_count == 0
    assert [line.split(": ", 1)[1] for line in result.not_run] == ["needs eight drives"]
    assert [line.split(": ", 1)[1] for line in result.skipped] == [
        "no_such_module is not installed",
        "NO_SUCH_VARIABLE is not set: three machines",
    ]


def test_a_block_becomes_a_file(run) -> None:
    result = run("<!-- file: flows.toml -->\n~~~toml\na = 1\n~~~\n~~~console\n$ cat flows.toml\na = 1\n~~~\n")
    assert (result.failed, result.passed_count) == ([], 2)


def test_comparisons_ignore_what_differs_in_every_run() -> None:
    assert is_same("kept 5 rows, 1.5 KiB, in 3 ms: 4.1 MB/s", "kept 5 rows, 2 MiB, in 1.2 s: 7 kB/s\n")
    assert not is_same("kept 5 rows, 1.5 KiB", "kept 6 rows, 1.5 KiB")
    assert is_same("first\n...\nlast", "first\nsecond\nlast")
    assert not is_same("5 sheep", "6 sheep")


def test_a_note_belongs_to_the_block_below_it() -> None:
    first, second = blocks_of("<!-- not run: a -->\n\n```sh\nx\n```\n```sh\ny\n```\n")
    assert (first.notes, second.notes, second.line) == ({"not run": "a"}, {}, 7)
    assert commands_of("$ a\nb\n$ c\n") == [(0, "a", "b\n"), (2, "c", "")]


def test_the_tally_reads_what_the_runner_prints() -> None:
    tally = pages_tally(["SKIP: a.md:1: why", "FAILED: b.md:2: how", "3 passed, 1 failed, 1 skipped"], 1)
    assert tally.line() == "3 passed, 1 failed, 1 skipped"
    assert pages_tally([], 2).failed


def test_an_unknown_command_is_said_at_once(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[1] / "pages.py"
    words = [sys.executable, str(script), "--command", str(tmp_path / "none")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "does not exist" in done.stderr
