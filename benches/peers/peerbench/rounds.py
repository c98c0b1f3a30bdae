"""One case of the benchmark: its tools run alternately, round after round, around measured floors.

A round is: floor, outcore, floor, peer, peer, ... Each tool's median over the rounds is compared. Caches are dropped
before each run. Every run has a fresh directory and a group of its own with the case's memory limit. The first output
of each tool is checked. A tool with `rounds_max` stops after that many rounds.

Bounds: in addition to the inputs, a case holds one output, one tool's scratch, and, between runs, the floor's file.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from . import groups
from .checks import Checker, Wrong
from .floor import Floor
from .install import Installed
from .measure import Command, Run, drop_caches, measure
from .tools import Job, Outcore, Tool
from .units import Json


@dataclass
class Case:
    """The measurement: one job, some tools. `limit_bytes` None means no memory limit (files on tmpfs count as memory).

    `check` examines a tool's first output. It returns the checks that found it right and other observations, or raises
    Wrong. None means that the output is the sorted input of the job.
    """

    key: str
    title: str
    job: Job
    tools: list[Tool]
    work_dir: Path
    rounds: int
    limit_bytes: int | None
    floor: Floor | None = None
    check: Callable[[Command], tuple[str, Json]] | None = None
    joins: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: Json = field(default_factory=dict)


@dataclass
class CaseResult:
    """All observations of a case, in the form of the JSON file."""

    case: Case
    runs: dict[str, list[Run]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    floors_s: list[float] = field(default_factory=list)
    serial_s: float | None = None
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> Json:
        job = self.case.job
        return {
            "key": self.case.key,
            "title": self.case.title,
            "kind": job.kind,
            "records": job.records,
            "record_bytes": job.record_bytes,
            "memory_bytes": job.memory_bytes,
            "threads": job.threads,
            "limit_bytes": self.case.limit_bytes,
            "rounds": self.case.rounds,
            "floors_s": self.floors_s,
            "serial_s": self.serial_s,
            "skipped": self.skipped,
            "notes": self.case.notes + self.notes,
            "facts": self.case.facts,
            "runs": {tool: [run.to_json() for run in runs] for tool, runs in self.runs.items()},
        }


class Rounds:
    """Runs cases and holds their shared state."""

    def __init__(
        self,
        outcore: Outcore,
        installed: Installed,
        hierarchies: groups.Hierarchies,
        log: Callable[[str], None],
    ) -> None:
        self._checker = Checker(outcore, installed)
        self._installed = installed
        self._hierarchies = hierarchies
        self._log = log

    def run(self, case: Case) -> CaseResult:
        """Runs all rounds. A tool that fails is not run again; its failure is part of the result."""
        result = CaseResult(case)
        tools = []
        for tool in case.tools:
            reason = self._installed.reason(*tool.needs)
            if reason:
                result.skipped[tool.name] = reason
                self._log(f"{case.key}: {tool.name} left out: {reason}")
            else:
                tools.append(tool)
                result.runs[tool.name] = []
        self._say_what_is_missing(case, result)
        self._serial(case, result)
        for number in range(case.rounds):
            for tool in tools:
                is_done = tool.rounds_max is not None and number >= tool.rounds_max
                if not is_done and not any(run.failure for run in result.runs[tool.name]):
                    self._one(case, result, tool, number)
        return result

    def _say_what_is_missing(self, case: Case, result: CaseResult) -> None:
        if case.limit_bytes is not None and self._hierarchies.version == 0:
            result.notes.append(f"ran without a memory limit: {self._hierarchies.reason}")
            case.limit_bytes = None
        reason = drop_caches()
        if reason:
            result.notes.append(reason)

    def _serial(self, case: Case, result: CaseResult) -> None:
        if case.floor and case.floor.serial and self._fio(result):
            result.serial_s = case.floor.serial()

    def _fio(self, result: CaseResult) -> bool:
        reason = self._installed.reason("fio")
        if reason and reason not in result.notes:
            result.notes.append(f"no floor: {reason}")
        return reason is None

    def _floor(self, case: Case, result: CaseResult) -> float | None:
        if case.floor is None or not self._fio(result):
            return None
        seconds = case.floor.measure()
        result.floors_s.append(seconds)
        return seconds

    def _one(self, case: Case, result: CaseResult, tool: Tool, number: int) -> None:
        """One run of one tool, with floors just before and after it if the tool is outcore."""
        own = tool.name == "outcore"
        before = self._floor(case, result) if own else None
        run = self._measured(case, tool, check=number == 0)
        after = self._floor(case, result) if own else None
        if before is not None and after is not None:
            run.floor_s = (before + after) / 2
        result.runs[tool.name].append(run)
        told = run.failure or f"{run.wall_s:.2f} s, CPU {run.cpu_s:.2f} s, {run.peak_rss_bytes / 2**20:.0f} MiB"
        ratio = f", {run.wall_s / run.floor_s:.2f} x floor" if run.floor_s and not run.failure else ""
        self._log(f"{case.key} {number + 1}/{case.rounds}: {tool.name:8} {told}{ratio}")

    def _measured(self, case: Case, tool: Tool, check: bool) -> Run:
        with fresh_directory(case) as work:
            command = tool.command(case.job, work)
            command.extra_joins = case.joins
            drop_caches()
            with groups.Group(self._hierarchies, case.limit_bytes) as group:
                run = measure(command, group)
            if check and run.failure is None:
                self._check(case, tool, command, run)
            return run

    def _check(self, case: Case, tool: Tool, command: Command, run: Run) -> None:
        try:
            if case.check is not None:
                run.checked, run.extra["check"] = case.check(command)
            else:
                mode = tool.check or case.job.kind
                run.checked, run.extra["check"] = self._checker.check(case.job, command.outputs, mode)
        except Wrong as error:
            run.failure = f"wrong output: {error}"


@contextmanager
def fresh_directory(case: Case) -> Iterator[Path]:
    """An empty directory with an empty `scratch` for one run; it and the job's shards are removed afterwards."""
    work = case.work_dir / "run"

    def remove() -> None:
        shutil.rmtree(work, ignore_errors=True)
        for shard in case.job.shards:
            shard.unlink(missing_ok=True)

    remove()
    (work / "scratch").mkdir(parents=True)
    try:
        yield work
    finally:
        remove()
