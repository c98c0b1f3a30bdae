"""How outcore's primitives and their peers are called, and how their outputs are checked.

The functions that the primitives compute are defined here and, independently, in programs/primitives.cpp, which makes
the data and checks every output. A peer gets the same memory, threads and scratch directory as outcore.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .checks import Wrong
from .install import PRIMITIVES_BINARY
from .measure import Command, last_json_line
from .tools import Job, Outcore, Tool, environment, exact_size, last_line
from .units import GIB, Json

SLOW_ROUNDS_MAX = 2
MAP = "x * 3 + 1"
FILTER = "x % 2 == 0"
REDUCE = "sum"
SCAN = "sum"

Check = Callable[[Command], tuple[str, Json]]


def outcore_tool(outcore: Outcore, subcommand: Sequence[str], output: str | None, typed: bool = True) -> Tool:
    """`outcore SUBCOMMAND... INPUTS -o OUTPUT`; with `output` None the result is a number on stdout."""

    def command(job: Job, work: Path) -> Command:
        argv = [str(outcore.binary), *subcommand, *map(str, job.inputs)]
        if output is not None:
            argv += ["-o", job.pattern or str(work / output), "--force"]
        if typed:
            argv += ["--type", job.kind]
        argv += ["--memory", exact_size(job.memory_bytes), "--threads", str(job.threads)]
        for drive in job.drives or [work / "scratch"]:
            argv += ["--drive", str(drive)]
        outputs = (job.shards or [work / output]) if output is not None else []
        return Command("outcore", [*argv, "--json", *outcore.extra], outputs, work, environment(job))

    return Tool("outcore", (), "", command)


def outcore_volume(outcore: Outcore, drives: Sequence[Path], file: Path) -> None:
    """A volume over `drives`, described by `file`; speeds are not measured, so that all drives have the same weight."""
    tables = (f'[[drive]]\nname = "{drive.name}"\ndir = "{drive}"\n' for drive in drives)
    file.write_text("".join(tables))
    _quietly(outcore, "volume", "create", "--volume", file)


def outcore_dataset(outcore: Outcore, volume: Path, source: Sequence[Path], name: str) -> None:
    """The files as one dataset."""
    _quietly(outcore, "map", "x", *source, "--type", "u64", "-o", name, "--force", "--volume", volume)


def outcore_on_dataset(
    outcore: Outcore, volume: Path, subcommand: Sequence[str], source: str, target: str | None
) -> Tool:
    """`outcore SUBCOMMAND... SOURCE -o TARGET` on datasets; an existing target is removed first."""

    def command(job: Job, work: Path) -> Command:
        if target is not None:
            outcore_forget(outcore, volume, [target])
        argv = [str(outcore.binary), *subcommand, source, "--volume", str(volume), "--type", job.kind]
        if target is not None:
            argv += ["-o", target]
        argv += ["--memory", exact_size(job.memory_bytes), "--threads", str(job.threads)]
        return Command("outcore", [*argv, "--json", *outcore.extra], [], work, environment(job))

    return Tool("outcore", (), "", command)


def outcore_forget(outcore: Outcore, volume: Path, names: Sequence[str]) -> None:
    """Removes datasets if they exist."""
    for name in names:
        argv = [str(outcore.binary), "volume", "rm", name, "--volume", str(volume)]
        subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL)


def _quietly(outcore: Outcore, *words: object) -> None:
    argv = [str(outcore.binary), *map(str, words), "--quiet"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"outcore {words[0]}: {last_line(done.stderr)}")


def _through_shell(script: str, *words: object) -> list[str]:
    """The arguments are $1, $2, ..., so that no path is part of the script."""
    return ["/bin/sh", "-c", script, "sh", *map(str, words)]


def terashuf(binary: Path) -> Tool:
    """Shuffles lines from stdin to stdout. MEMORY is its buffer in GiB; an index of the lines comes on top."""

    def command(job: Job, work: Path) -> Command:
        output = work / "shuffled.txt"
        argv = _through_shell('exec "$1" < "$2" > "$3"', binary, job.inputs[0], output)
        settings = {"TMPDIR": str(work / "scratch"), "MEMORY": f"{job.memory_bytes / GIB:g}", "SEED": "1"}
        return Command("terashuf", argv, [output], work, {**environment(job), **settings})

    return Tool("terashuf", ("terashuf",), "", command, SLOW_ROUNDS_MAX)


def _sort_words(job: Job, work: Path) -> list[str]:
    memory = f"{job.memory_bytes // 1024}K"
    return ["sort", "-S", memory, f"--parallel={job.threads}", "-T", str(work / "scratch")]


def gnu_sort(name: str, *options: str) -> Tool:
    def command(job: Job, work: Path) -> Command:
        output = work / "sorted.txt"
        argv = [*_sort_words(job, work), *options, "-o", str(output), *map(str, job.inputs)]
        return Command(name, argv, [output], work, environment(job))

    return Tool(name, (), "", command, SLOW_ROUNDS_MAX)


def gnu_count() -> Tool:
    def command(job: Job, work: Path) -> Command:
        output = work / "counted.txt"
        words = [*_sort_words(job, work), *map(str, job.inputs)]
        argv = _through_shell('out=$1; shift; "$@" | uniq -c > "$out"', output, *words)
        return Command("GNU sort | uniq -c", argv, [output], work, environment(job))

    return Tool("GNU sort | uniq -c", (), "", command, SLOW_ROUNDS_MAX)


class Data:
    """programs/primitives.cpp: makes text and positions, and checks outputs."""

    def make(self, kind: str, *words: object) -> None:
        """Writes a file. Raises RuntimeError with the program's message."""
        self._run(kind, *words)

    def summary(self, kind: str, paths: Sequence[Path]) -> Json:
        """Counts and checksums of `lines` or `keys`, independent of their order."""
        found: Json = json.loads(self._run(kind, *paths))
        return found

    def right(self, primitive: str, before: Sequence[object], outputs: Sequence[Path]) -> Json:
        """Raises Wrong unless the outputs are the primitive's result for `before`."""
        report: Json = json.loads(self._run(primitive, *before, "--", *outputs))
        if not report["right"]:
            raise Wrong(f"record {report['records']} is not what {primitive} should give")
        return report

    def _run(self, *words: object) -> str:
        argv = [str(PRIMITIVES_BINARY), *map(str, words)]
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"{words[0]}: {last_line(done.stderr)}")
        return done.stdout


@dataclass
class Checks:
    """Checks of first outputs; each check caches the facts about its input."""

    data: Data

    def shuffled(self, kind: str, inputs: Sequence[Path]) -> Check:
        """The same lines or keys, in a different order."""
        known: list[Json] = []

        def check(command: Command) -> tuple[str, Json]:
            if not known:
                known.append(self.data.summary(kind, inputs))
            found = self.data.summary(kind, command.outputs)
            if found != known[0]:
                raise Wrong(f"not the input's {kind}: {found} instead of {known[0]}")
            if _head(command.outputs[0]) == _head(inputs[0]):
                raise Wrong("the output begins like the input")
            return f"checksum of {found['records']} {kind}", found

        return check

    def sequence(self, primitive: str, inputs: Sequence[Path]) -> Check:
        """A map, a filter or a scan."""

        def check(command: Command) -> tuple[str, Json]:
            report = self.data.right(primitive, inputs, command.outputs)
            return f"all {report['records']} records", report

        return check

    def dataset(self, outcore: Outcore, volume: Path, primitive: str, target: str, inputs: Sequence[Path]) -> Check:
        """A map, a filter or a scan whose result is a dataset."""

        def check(command: Command) -> tuple[str, Json]:
            result = command.work_dir / "result.bin"
            _quietly(outcore, "volume", "get", target, result, "--volume", volume)
            report = self.data.right(primitive, inputs, [result])
            return f"all {report['records']} records", report

        return check

    def gathered(self, positions: Path, inputs: Sequence[Path]) -> Check:
        def check(command: Command) -> tuple[str, Json]:
            report = self.data.right("gather", [positions, *inputs], command.outputs)
            return f"all {report['records']} records", report

        return check

    def reduced(self, inputs: Sequence[Path]) -> Check:
        """The exact sum from the summary on stdout."""

        def check(command: Command) -> tuple[str, Json]:
            summary = last_json_line(command.work_dir / "stdout.txt") or {}
            found = [str(result.get("value")) for result in summary.get("results", [])]
            wanted = str(self.data.summary("keys", inputs)["sum"])
            if found != [wanted]:
                raise Wrong(f"the sum is {wanted}, found {found}")
            return "the sum", {"sum": wanted}

        return check

    def digested(self) -> Check:
        """Stores the SHA-256 of the bytes, which `must_agree` compares between tools."""

        def check(command: Command) -> tuple[str, Json]:
            argv = ["sha256sum", "--", *map(str, command.outputs)]
            done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                raise Wrong(f"sha256sum failed: {last_line(done.stderr)}")
            return "SHA-256 beside the peer's", {"sha256": done.stdout.split()[0]}

        return check


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(1 << 20)
