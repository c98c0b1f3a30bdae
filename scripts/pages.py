#!/usr/bin/env python3
"""Runs the code blocks of Markdown pages and notebooks, as a reader who types them in order would.

Contract: each page starts in an empty temporary directory with a home directory of its own. Blocks
run from the top of the page to its end, and files, variables of Python and exported variables of
the shell stay from block to block:

- cells of a notebook: as `python`, in order;
- `sh`: one script that stops at the first command that fails;
- `console`: each `$ ` line is a command, and the lines below it are its output, compared;
- `python`, `pycon`: one interpreter per page; the output of `pycon` is compared, as doctest does;
- `rust` below `<!-- part of: FILE -->`: each line but comments occurs in that file, in this order
  (tests compile the file, or its documentation);
- a block below `<!-- file: NAME -->` becomes that file, for the commands below it;
- `text` and `json` below `<!-- output -->`: what the block before printed;
- `text`, `json`, `toml`, `csv`, `rust`: not run. A block of an unknown language, or of none, is a
  failure, so that no block escapes by its name.

Comparisons ignore sizes, times and rates, and `...` matches any text. Above a block,
`<!-- not run: REASON -->` skips it, and the number of such blocks may not exceed `NOT_RUN_CEILING`;
`<!-- needs: MODULE -->` skips it where Python does not have the module, and `<!-- needs: $NAME, REASON -->`
where that variable is not set, for blocks that need more than one machine. The last line is
`N passed, N failed, N skipped`; the exit code is 0 if nothing failed.

    scripts/pages.py                                              all pages
    scripts/pages.py docs/guide/tables.md --command target/debug/outcore
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The longest pages come first, so that none of them runs alone at the end.
PAGES = [
    "docs/sim/README.md",
    "docs/guide/*.md",
    "README.md",
    "python/README.md",
    "docs/index.md",
    "docs/install.md",
    "docs/tasks/*.md",
    "docs/migrate/*.md",
    "docs/notebooks/*.ipynb",
]
# Lower it when a block that was skipped can run; never raise it.
NOT_RUN_CEILING = 14
LIMIT_SECONDS = 60
QUIET = {"text", "json", "toml", "csv", "rust"}
RUN = {"sh", "console", "python", "pycon"}
FENCE = re.compile(r"^( *)(```+)(\S*)(.*)$")
COMMENT = re.compile(r"^\s*<!--\s*(not run|needs|part of|file|output)\s*(?::\s*(.*?))?\s*-->\s*$")
UNITS = r"(?:ns|us|µs|ms|s|min|h|B|kB|MB|GB|TB|KiB|MiB|GiB|TiB|[kMG]?B/s)"
MEASURED = re.compile(rf"\b\d[\d,]*(?:\.\d+)? {UNITS}(?![\w/])")

# Stops at the first failed command, and stores the number of its line, the directory and the exported variables. The
# block is sourced, so that lines count from its first one.
SHELL = r"""
set -eE -o pipefail
cd "$(cat "$1/cwd")"
. "$1/exports"
trap 'echo "$LINENO" > "'"$1"'/line"' ERR
. "$1/block.sh"
trap - ERR
export -p > "$1/exports"
pwd > "$1/cwd"
"""

INTERPRETER = r"""
import contextlib, doctest, io, json, os, sys, traceback
replies = os.fdopen(int(sys.argv[1]), "w")
names = {"__name__": "__main__"}
sys.path.insert(0, os.getcwd())
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
for request in sys.stdin:
    request = json.loads(request)
    printed, is_right = io.StringIO(), True
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            if request["language"] == "pycon":
                parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=FLAGS)
                test = parser.get_doctest(request["text"], names, "block", request["page"], 0)
                runner.run(test, clear_globs=False, out=printed.write)
                names.update(test.globs)
                is_right = not runner.summarize(verbose=False).failed
            else:
                text = "\n" * (request["line"] - 1) + request["text"]
                exec(compile(text, request["page"], "exec"), names)
        except BaseException:
            is_right = False
            traceback.print_exc(limit=-3, file=printed)
    replies.write(json.dumps({"right": is_right, "printed": printed.getvalue()}) + "\n")
    replies.flush()
"""


@dataclass
class Block:
    """A fenced block: `line` is that of its first line of text, from 1."""

    line: int
    language: str
    text: str
    notes: dict[str, str] = field(default_factory=dict)


@dataclass
class Result:
    """The result of a page."""

    page: str
    passed_count: int = 0
    seconds: float = 0.0
    not_run: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Failure(Exception):
    """A block that did not do what the page says; `line` is counted from its first line."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, with the comments right above each."""
    found: list[Block] = []
    notes: dict[str, str] = {}
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if match := FENCE.match(line):
            indent, ticks, language = len(match[1]), match[2], match[3]
            first = number
            while number < len(lines) and lines[number].strip() != ticks:
                number += 1
            body = [inner[min(indent, len(inner) - len(inner.lstrip())):]
                    for inner in lines[first:number]]
            found.append(Block(first + 1, language, "\n".join(body) + "\n", notes))
            number += 1
            notes = {}
        elif match := COMMENT.match(line):
            notes[match[1]] = match[2] or ""
        elif line.strip():
            notes = {}
    return found


def cells_of(text: str) -> list[Block]:
    """The cells of a notebook with code; the line is the number of the cell, from 1."""
    cells = enumerate(json.loads(text)["cells"], 1)
    return [Block(number, "python", "".join(cell["source"]) + "\n", {"needs": "matplotlib"})
            for number, cell in cells if cell["cell_type"] == "code"]


def commands_of(text: str) -> list[tuple[int, str, str]]:
    """The commands of a console block: line within it, command, expected output."""
    found: list[tuple[int, str, str]] = []
    is_open = False
    for number, line in enumerate(text.splitlines()):
        if line.startswith("$ "):
            found.append((number, line[2:], ""))
            is_open = line.endswith("\\")
        elif is_open:
            first, command, _ = found[-1]
            found[-1] = (first, f"{command}\n{line.removeprefix('> ')}", "")
            is_open = line.endswith("\\")
        elif found:
            first, command, output = found[-1]
            found[-1] = (first, command, f"{output}{line}\n")
        elif line.strip():
            raise Failure("output above the first `$ ` line", number)
    return found


def is_same(expected: str, printed: str) -> bool:
    """Whether output matches the page, except for the parts that differ in every run."""
    def plain(text: str) -> str:
        lines = [re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines()]
        return MEASURED.sub("<measured>", "\n".join(lines))

    parts = [re.escape(part) for part in re.split(r"\.\.\.|…", plain(expected))]
    return re.fullmatch(".*".join(parts), plain(printed), re.DOTALL) is not None


def compare(expected: str, printed: str, line: int = 0) -> None:
    """Fails if output does not match the page."""
    if not is_same(expected, printed):
        raise Failure(f"the page says:\n{indented(expected)}\nit printed:\n{indented(printed)}",
                      line)


def indented(text: str) -> str:
    """The end of a long text, set off."""
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines()[-30:])


class Session:
    """The directory, shell and interpreter of one page."""

    def __init__(self, page: str, place: Path, options: argparse.Namespace) -> None:
        self.page = page
        self.state = place / "state"
        self.work = place / "work"
        for folder in (self.state, self.work, place / "home", place / "bin", place / "tmp"):
            folder.mkdir()
        (self.state / "cwd").write_text(f"{self.work}\n")
        (self.state / "exports").write_text("")
        command = Path(options.command).resolve()
        (place / "bin" / "outcore").symlink_to(command)
        (place / "bin" / "outcore-lab").symlink_to(command.with_name("outcore-lab"))
        wrapper = place / "bin" / "python"
        wrapper.write_text(f'#!/bin/sh\nexec "{options.python}" "$@"\n')
        wrapper.chmod(0o755)
        self.python = str(options.python)
        kept = ("LANG", "LD_LIBRARY_PATH", "TERM", "PYTHONPATH")
        self.variables = {name: os.environ[name] for name in kept if name in os.environ}
        self.variables |= {
            "PATH": f"{place / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(place / "home"),
            "TMPDIR": str(place / "tmp"),
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "MPLBACKEND": "Agg",
        }
        self.interpreter: subprocess.Popen[str] | None = None
        self.replies = -1

    def close(self) -> None:
        """Ends the interpreter."""
        if self.interpreter:
            stop(self.interpreter)
            os.close(self.replies)

    def shell(self, text: str) -> str:
        """Runs a script; its output, or a failure with the line of the command."""
        (self.state / "block.sh").write_text(text)
        (self.state / "line").unlink(missing_ok=True)
        process = subprocess.Popen(
            ["bash", "-c", SHELL, "bash", str(self.state)],
            env=self.variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            stop(process)
            raise Failure(f"stopped after {LIMIT_SECONDS} s:\n{indented(text)}") from None
        if process.returncode != 0:
            number = 1
            if (self.state / "line").is_file():
                number = int((self.state / "line").read_text())
            lines = text.splitlines()
            shown = lines[number - 1] if 0 < number <= len(lines) else text.strip()
            raise Failure(f"$ {shown}\n  exit code {process.returncode}\n{indented(printed)}",
                          number - 1)
        return printed

    def interpret(self, block: Block) -> str:
        """Runs a block of Python in the page's interpreter; returns the printed text."""
        if self.interpreter is None:
            self.replies, theirs = os.pipe()
            self.interpreter = subprocess.Popen(
                [self.python, "-c", INTERPRETER, str(theirs)], cwd=self.work, env=self.variables,
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                text=True, pass_fds=[theirs], start_new_session=True,
            )
            os.close(theirs)
        request = {"language": block.language, "text": block.text, "page": self.page,
                   "line": block.line}
        assert self.interpreter.stdin is not None
        self.interpreter.stdin.write(json.dumps(request) + "\n")
        self.interpreter.stdin.flush()
        reply = self.reply()
        if not reply["right"]:
            raise Failure(f"Python:\n{indented(str(reply['printed']))}")
        return str(reply["printed"])

    def reply(self) -> dict[str, object]:
        """One line from the interpreter, which has a limited time for it."""
        assert self.interpreter is not None
        deadline = time.monotonic() + LIMIT_SECONDS
        received = b""
        while not received.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.replies], [], [], left)[0]:
                stop(self.interpreter)
                raise Failure(f"stopped after {LIMIT_SECONDS} s")
            piece = os.read(self.replies, 1 << 16)
            if not piece:
                raise Failure(f"the interpreter ended with {self.interpreter.wait()}")
            received += piece
        return dict(json.loads(received))

    def lacks(self, need: str) -> str:
        """The reason why a block cannot run; empty if it can."""
        if need.startswith("$"):
            name, _, reason = need[1:].partition(", ")
            return "" if os.environ.get(name) else f"{name} is not set: {reason}"
        search = "import importlib.util as i, sys; sys.exit(i.find_spec(sys.argv[1]) is None)"
        found = not need or subprocess.run(
            [self.python, "-c", search, need], env=self.variables, capture_output=True, check=False
        ).returncode == 0
        return "" if found else f"{need} is not installed"


def stop(process: subprocess.Popen[str]) -> None:
    """Ends a process and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def check_part(block: Block, name: str) -> None:
    """Fails if a line of a block is not in a file of the repository, in this order."""
    lines = iter((ROOT / name).read_text(encoding="utf-8").splitlines())
    have = [line.strip().removeprefix("//! ") for line in lines]
    at = 0
    for number, line in enumerate(block.text.splitlines()):
        if not line.strip() or line.strip().startswith("//"):
            continue
        if line.strip() not in have[at:]:
            raise Failure(f"{name} has no line `{line.strip()}` at this place", number)
        at = have.index(line.strip(), at) + 1


def run_block(session: Session, block: Block, before: str) -> str:
    """Runs or checks one block; returns the printed text."""
    if block.language == "sh":
        return session.shell(block.text)
    if block.language == "console":
        printed = ""
        for number, command, expected in commands_of(block.text):
            try:
                printed = session.shell(command + "\n")
            except Failure as failure:
                raise Failure(str(failure), number + failure.line) from None
            if expected.strip():
                compare(expected, printed, number)
        return printed
    if block.language in ("python", "pycon"):
        return session.interpret(block)
    if "file" in block.notes:
        (session.work / block.notes["file"]).write_text(block.text)
    elif "output" in block.notes:
        compare(block.text, before)
    elif "part of" in block.notes:
        check_part(block, block.notes["part of"])
    elif block.language not in QUIET:
        known = ", ".join(sorted(RUN | QUIET))
        raise Failure(f"the language `{block.language}` is none of {known}")
    return before


def run_page(path: Path, options: argparse.Namespace) -> Result:
    """Runs a page from an empty directory."""
    path = path.resolve()
    page = str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    result = Result(page)
    started = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="outcore-page-", dir=options.directory))
    session = Session(page, place, options)
    printed = ""
    try:
        read = cells_of if path.suffix == ".ipynb" else blocks_of
        for block in read(path.read_text(encoding="utf-8")):
            at = f"{page}:{block.line}"
            if reason := block.notes.get("not run"):
                result.not_run.append(f"{at}: {reason}")
                continue
            if lacks := session.lacks(block.notes.get("needs", "")):
                result.skipped.append(f"{at}: {lacks}")
                continue
            begun = time.monotonic()
            try:
                printed = run_block(session, block, printed)
            except Failure as failure:
                result.failed.append(f"{page}:{block.line + failure.line}: {failure}")
                if not options.keep_going:
                    break
                continue
            took = time.monotonic() - begun
            if options.verbose:
                print(f"{at}: {block.language}: {took:.1f} s", flush=True)
            if block.language in RUN or block.notes:
                result.passed_count += 1
    finally:
        session.close()
        if options.keep:
            print(f"{page}: {place}", flush=True)
        else:
            shutil.rmtree(place, ignore_errors=True)
    result.seconds = time.monotonic() - started
    return result


def all_pages() -> list[Path]:
    """The pages that have blocks to run."""
    return [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]


def parser_of(description: str) -> argparse.ArgumentParser:
    """The options of this script and of `help_examples.py`."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    own = ROOT / ".venv" / "bin" / "python"
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--command", default=target / "debug" / "outcore", type=Path,
                        help="the outcore to run, next to its outcore-lab")
    parser.add_argument("--python", default=own if own.exists() else Path(sys.executable),
                        type=Path, help="an interpreter that has the package")
    parser.add_argument("--directory", type=Path, help="where the pages get their directories")
    parser.add_argument("--jobs", type=int, default=2, help="pages that run at once")
    parser.add_argument("--keep", action="store_true", help="keep the directories")
    parser.add_argument("-v", "--verbose", action="store_true", help="the time of each block")
    return parser


def arguments(words: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = parser_of("Runs the code blocks of Markdown pages.")
    parser.add_argument("pages", nargs="*", type=Path, help="default: all pages")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failed block")
    return parser.parse_args(words)


def has_command(options: argparse.Namespace) -> bool:
    """Whether the command is built; prints a message if it is not."""
    if Path(options.command).is_file():
        return True
    print(f"{options.command} does not exist; try `cargo build -p outcore-cli -p outcore-lab`",
          file=sys.stderr)
    return False


def report(results: list[Result]) -> int:
    """Prints the results of pages and the verdict; returns the exit code."""
    for result in results:
        counts = f"{result.passed_count} passed, {len(result.failed)} failed"
        left_out = len(result.not_run) + len(result.skipped)
        print(f"{result.page}: {counts}, {left_out} skipped in {result.seconds:.1f} s")
    not_run = [line for result in results for line in result.not_run]
    skipped = not_run + [line for result in results for line in result.skipped]
    failed = [line for result in results for line in result.failed]
    for line in skipped:
        print(f"SKIP: {line}")
    for line in failed:
        print(f"FAILED: {line}")
    passed_count = sum(result.passed_count for result in results)
    print(f"{passed_count} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


def main(words: list[str]) -> int:
    """Runs the pages and prints the verdict."""
    options = arguments(words)
    if not has_command(options):
        return 2
    pages = options.pages or all_pages()
    if missing := [str(page) for page in pages if not page.is_file()]:
        print(f"there is no page {missing[0]}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(max_workers=options.jobs) as threads:
        results = list(threads.map(lambda page: run_page(page, options), pages))
    not_run_count = sum(len(result.not_run) for result in results)
    if not_run_count > NOT_RUN_CEILING:
        results.append(Result("NOT_RUN_CEILING", failed=[
            f"{not_run_count} blocks are marked as not run; the ceiling of scripts/pages.py is "
            f"{NOT_RUN_CEILING}"]))
    return report(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
