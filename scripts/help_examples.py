#!/usr/bin/env python3
"""Runs the examples of all help texts, as a reader who copies them into a shell would.

Contract: the walk begins at `outcore --help` and `outcore-lab --help` and follows each command that
a help lists, so that no command escapes. Each line below `Examples:` or `First steps:` must
succeed. The lines of a help run in order in a directory with copies of the inputs
(`example_inputs.py`, whose `CHANGES` make lines small). An output that exists is removed before a
line writes it. `NOT_RUN` lists the lines that cannot run here; an entry that no line needs is a
failure. A help that both commands print counts once. The last line is that of `pages.py`.

    scripts/help_examples.py                    all commands
    scripts/help_examples.py sort 'view build'  some
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from example_inputs import CHANGES, PLACED, remove, small
from pages import Failure, Result, Session, has_command, parser_of, report

INPUTS = Path(__file__).with_name("example_inputs.py")
# Lines that cannot run, by their beginnings, or all lines of a command.
NOT_RUN = {
    "outcore bench io /dev/nvme1n1": "needs a block device that nothing uses",
    "outcore bench io /mnt/nvme* --write-ok --full": "takes a quarter of an hour",
    "outcore sim policies": "simulates hundreds of drives, for minutes",
    "outcore sim activesort": "simulates many sorts, for ten seconds",
    "view mount": "mounts files through FUSE, which needs privileges",
    "outcore bench sort": "sorts each distribution three times, for minutes",
}
# Commands that run before the lines of a help.
VOLUME = "outcore volume create --volume drives.toml\n"
DATASETS = "".join(f"outcore volume put {source} @{name} --volume drives.toml\n"
                   for source, name in (("keys.bin", "keys"), ("images", "images")))
UNDIRECTED = "outcore graph convert edges.txt -o g.graph --undirected --drop-loops --force\n"
PREPARED = {
    **dict.fromkeys(("graph louvain", "graph triangles", "graph kcore"), UNDIRECTED),
    **dict.fromkeys(("volume status", "volume put"), VOLUME),
    **dict.fromkeys(("volume scrub", "volume get", "volume ls", "volume cp"), VOLUME + DATASETS),
    "volume replace": "sed -i 's/name = \"b\"/name = \"nvme1\"/' drives.toml\n"
                      "outcore volume create --volume drives.toml --parity 1\nmkdir mnt/nvme4\nrm -r mnt/b\n",
    "volume add": VOLUME + "mkdir mnt/nvme4\n",
    "volume remove": "sed -i 's/name = \"b\"/name = \"nvme1\"/' drives.toml\n" + VOLUME + DATASETS,
    "volume rebalance": VOLUME + DATASETS,
    "volume rm": VOLUME + DATASETS + "outcore volume cp @keys @old --volume drives.toml\n",
    "bench diff": "for name in before after; do\n"
                  "outcore bench io mnt/a --size 4MiB --load randread:4KiB:1 --time 100ms -o $name.json\n"
                  "done\n",
}
# Programs that examples pipe to and from.
PROGRAMS = {"producer": 'cat "$(cat produced)"', "consumer": "cat > /dev/null", "display": "cat > /dev/null"}
PRODUCED = {"sample": "big.txt", "convert": "t.arrows", "view build": "keys.bin"}
PRODUCED_ELSE = "prices.bin"
# Exit codes that count as success: for tables that differ, and for a pipe whose reader stops early.
ENDS = {1: "outcore diff ", 141: "| head"}
# Options whose values are names of outputs.
OUTPUTS = {"-o", "--output", "--removed", "--distances", "--limits", "--labels", "--record-io"}
HEADING = re.compile(r"^([A-Z][^:]*):$")
COMMAND = re.compile(r"^ {2}([a-z][a-z-]*) {2,}\S")


@dataclass
class Help:
    """The examples of a command; `words` are its own, without those of the program."""

    program: str
    words: str
    examples: list[str]

    def name(self) -> str:
        """The command as one types it."""
        return f"{self.program} {self.words} --help".replace("  ", " ")


def help_of(program: Path, words: tuple[str, ...]) -> str:
    """The help text that a command prints, each paragraph on a line."""
    variables = {"PATH": os.environ.get("PATH", os.defpath), "COLUMNS": "1000", "HOME": "/nowhere"}
    done = subprocess.run([program, *words, "--help"], env=variables, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{program} {' '.join(words)} --help: {done.stderr.strip()}")
    return done.stdout


def helps_of(program: Path, words: tuple[str, ...] = ()) -> list[Help]:
    """The examples of a command and of all below it."""
    examples: list[str] = []
    commands: list[str] = []
    title = None
    for line in help_of(program, words).splitlines():
        if match := HEADING.match(line):
            title = match[1]
        elif not line.startswith(" "):
            title = None if line.strip() else title
        elif title in ("Examples", "First steps"):
            # An explanation follows three blanks.
            examples.append(line.strip().split("   ")[0])
        elif title and (match := COMMAND.match(line)):
            commands.append(match[1])
    found = [Help(program.name, " ".join(words), examples)] if examples else []
    for command in commands:
        if command != "help":
            found += helps_of(program, (*words, command))
    return found


def not_run_entry(text: Help, example: str) -> str | None:
    """The entry of `NOT_RUN` for an example."""
    is_meant = (entry for entry in NOT_RUN if example.startswith(entry) or text.words == entry)
    return next(is_meant, None)


def outputs_of(line: str) -> list[str]:
    """The names that a line writes."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise Failure(f"$ {line}\n  {error}") from None
    after = [word for option, word in zip(words, words[1:]) if option in OUTPUTS]
    # `volume get NAME FILE` has no option for its output.
    return after + (words[4:5] if words[1:3] == ["volume", "get"] else [])


def prepare(session: Session, place: Path, text: Help, inputs: Path) -> None:
    """Fills the directory of a help."""
    shutil.rmtree(session.work)
    shutil.copytree(inputs, session.work)
    for name, script in PROGRAMS.items():
        program = place / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    (session.work / "produced").write_text(PRODUCED.get(text.words, PRODUCED_ELSE))
    lines = "\n".join(text.examples)
    if wanted := [name for name in PLACED if name in lines]:
        session.shell(shlex.join(["python", str(INPUTS), str(session.work), *wanted]))
    session.shell(PREPARED.get(text.words, ""))


def run_help(text: Help, inputs: Path, options: argparse.Namespace) -> Result:
    """Runs the examples of a help."""
    result = Result(text.name())
    started = time.monotonic()
    place = Path(tempfile.mkdtemp(prefix="outcore-help-", dir=options.directory))
    session = Session(result.page, place, options)
    try:
        prepare(session, place, text, inputs)
        for example in text.examples:
            if entry := not_run_entry(text, example):
                result.not_run.append(f"{result.page}: {example}: {NOT_RUN[entry]}")
                continue
            line = small(example, session.work)
            begun = time.monotonic()
            try:
                for name in outputs_of(line):
                    remove(str(session.work / name))
                ends = "".join(f" || [ $? = {code} ]" for code, part in ENDS.items() if part in line)
                session.shell(f"cd '{session.work}'\n{line}{ends}\n")
                result.passed_count += 1
            except Failure as failure:
                result.failed.append(f"{result.page}: {failure}")
            if options.verbose:
                print(f"{time.monotonic() - begun:5.1f} s  {line}", flush=True)
    except Failure as failure:
        result.failed.append(f"{result.page}: its inputs: {failure}")
    finally:
        session.close()
        if options.keep:
            print(f"{result.page}: {place}", flush=True)
        else:
            shutil.rmtree(place, ignore_errors=True)
    result.seconds = time.monotonic() - started
    return result


def all_helps(options: argparse.Namespace) -> list[Help]:
    """The help texts of both commands that have examples."""
    command = Path(options.command).resolve()
    found = helps_of(command)
    seen = [(text.words, text.examples) for text in found]
    others = helps_of(command.with_name("outcore-lab"))
    return found + [text for text in others if (text.words, text.examples) not in seen]


def stale_entries(helps: list[Help]) -> list[str]:
    """Faults in the lists of exceptions: entries that no help needs any more."""
    used = {not_run_entry(text, example) for text in helps for example in text.examples}
    stale = [f"no help has the line of NOT_RUN `{entry}`" for entry in NOT_RUN if entry not in used]
    names = {text.words for text in helps}
    stale += [f"no command of PREPARED or PRODUCED is called `{name}`"
              for name in [*PREPARED, *PRODUCED] if name not in names]
    lines = [example for text in helps for example in text.examples]
    stale += [f"no help has what CHANGES of example_inputs.py looks for: `{pattern}`"
              for pattern, _ in CHANGES if not any(re.search(pattern, line) for line in lines)]
    return stale


def main(words: list[str]) -> int:
    """Runs the examples and prints the verdict."""
    parser = parser_of("Runs the examples of help texts.")
    parser.add_argument("commands", nargs="*", help="commands such as `view build`; default: all")
    options = parser.parse_args(words)
    if not has_command(options):
        return 2
    helps = [text for text in all_helps(options)
             if not options.commands or text.words in options.commands]
    with tempfile.TemporaryDirectory(prefix="outcore-inputs-", dir=options.directory) as folder:
        subprocess.run([options.python, str(INPUTS), folder], check=True)
        with ThreadPoolExecutor(max_workers=options.jobs) as threads:
            run = lambda text: run_help(text, Path(folder), options)  # noqa: E731
            results = list(threads.map(run, helps))
    if not options.commands and (stale := stale_entries(helps)):
        results.append(Result("the lists", failed=stale))
    return report(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
