#!/usr/bin/env python3
"""Campaigns: one attack, repeated on jobs of all kinds until a number of cases or seconds is reached.

Contract: a case is determined by the seed and its number, so `--from` continues a campaign and
repeats a case. The last line is `N cases, N right, N refused, 0 wrong`: a case is *right* if the
result is that of an undisturbed run, *refused* if the command ended with an error and left neither
an output nor anything else, and *wrong* otherwise. Each wrong case is printed with the words that
repeat it. The exit code is 0 if no case was wrong, and at least one was right.

    campaigns.py kill     SIGKILL after an operation of any command that writes; then the same command again
    campaigns.py faults   EIO or ENOSPC in an operation of any command that writes
    campaigns.py flips    a flipped bit of a write with --verify-output, or of a read of checksummed data
    campaigns.py races    two jobs on one output, of any shape; then the next command
    campaigns.py change   an input that is written, cut, extended or replaced while it is read
    campaigns.py power    snapshots of a file system during a job with --resume (root)
    campaigns.py soak     jobs, kills, faults and races in turn, next to one volume that stays
    campaigns.py slice    a few cases of each, for `make test`; the last line is that of `pages.py`

The attacks on all commands are here; `campaign_jobs.py` has the facts about each command that these attacks need. The
others are in `campaign_races.py`, `campaign_power.py` and `campaign_soak.py`.

Options: --seed N, --cases N, --seconds S, --from N (default: what is reached first of 100,000 cases
and 60 s).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Protocol

import campaign_power
import campaign_races
import campaign_soak
from campaign_jobs import Bench, writing_jobs
from campaign_races import Outcome
from help_examples import INPUTS
from pages import has_command, parser_of

NAMES = ("kill", "faults", "flips", "races", "change", "power", "soak")
CODES = range(1, 129)
COUNTED = {"eio": ("read", "write", "sync", "control"), "enospc": ("write", "control")}


class Campaign(Protocol):
    """One attack."""

    def case(self, draw: random.Random) -> Outcome:
        """Runs one case."""
        ...

    def close(self) -> None:
        """Removes the files of the attack."""
        ...


@dataclass
class OnJobs:
    """A campaign on the commands of the help texts. Each command is prepared when it is first drawn."""

    options: argparse.Namespace
    inputs: Path
    attack: Callable[[Bench, random.Random], Outcome]
    benches: dict[str, Bench | None] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.jobs = writing_jobs(Path(self.options.command).resolve())
        if self.options.only:
            self.jobs = [job for job in self.jobs if self.options.only in job.example]

    def bench(self, draw: random.Random) -> Bench:
        """A command that writes."""
        while True:
            job = draw.choice(self.jobs)
            if job.name() not in self.benches:
                bench = None
                try:
                    bench = Bench(job, self.inputs, self.options)
                    if not bench.begin():
                        bench.close()
                        bench = None
                except RuntimeError as error:
                    self.left_out[job.name()] = str(error)
                    bench = None
                self.benches[job.name()] = bench
            if bench := self.benches[job.name()]:
                return bench

    def case(self, draw: random.Random) -> Outcome:
        """Attacks one command."""
        bench = self.bench(draw)
        try:
            return self.attack(bench, draw)
        finally:
            bench.restore()

    def close(self) -> None:
        """Removes the directories; says which commands were left out."""
        for bench in self.benches.values():
            if bench:
                bench.close()
        used = sorted({bench.job.text.words for bench in self.benches.values() if bench})
        print(f"{len(used)} commands: {', '.join(used)}")
        for name, why in self.left_out.items():
            print(f"left out: {name}: {why.splitlines()[0]}")


def kill(bench: Bench, draw: random.Random) -> Outcome:
    """SIGKILL after an operation; the outputs are whole or absent, and the next run is right."""
    fault = f"kill@{draw.randint(1, bench.count(''))}"
    what = f"OUTCORE_FAULT={fault} {bench.job.name()}"
    answer = bench.run(fault)
    if answer.code not in (-9, 0, 1):
        return Outcome.wrong(what, f"exit code {answer.code}: {answer.said}")
    bench.clean()
    verdict = bench.judge()
    if verdict.faults:
        return Outcome.wrong(what, "; ".join(verdict.faults))
    if not verdict.is_whole:
        if not verdict.is_as_before:
            # Only some of several outputs appeared, and the next run would find these.
            bench.restore()
        again = bench.run()
        if again.code not in (0, 1):
            return Outcome.wrong(what, f"the next run: exit code {again.code}: {again.said}")
        verdict = bench.judge()
        if verdict.faults or not verdict.is_whole:
            return Outcome.wrong(what, "the next run: " + "; ".join(verdict.faults or ["no output"]))
    return Outcome.right(what)


def faults(bench: Bench, draw: random.Random) -> Outcome:
    """A failed operation: the result is right, or there is an error and nothing is left."""
    kind = draw.choice(sorted(COUNTED))
    counted = draw.choice(COUNTED[kind])
    fault = f"{kind}@{draw.randint(1, bench.count(counted))}:{counted}"
    what = f"OUTCORE_FAULT={fault} {bench.job.name()}"
    answer = bench.run(fault)
    verdict = bench.judge()
    if verdict.faults:
        return Outcome.wrong(what, f"exit code {answer.code}: " + "; ".join(verdict.faults))
    # `diff` ends with 1 if the tables differ.
    if answer.code in (0, 1) and verdict.is_whole:
        return Outcome.right(what)
    is_named = answer.code in CODES and "error" in answer.said and "bug" not in answer.said
    if is_named and (verdict.is_as_before or verdict.is_whole):
        return Outcome.refused(what)
    return Outcome.wrong(what, f"exit code {answer.code}: {answer.said}")


def campaign_of(name: str, options: argparse.Namespace, inputs: Path) -> Campaign:
    """The campaign of this name."""
    if name in ("kill", "faults"):
        return OnJobs(options, inputs, {"kill": kill, "faults": faults}[name])
    if name == "power":
        return campaign_power.Power(options)
    if name == "soak" and options.name == "slice":
        return campaign_soak.Soak(options, [])
    if name == "soak":
        jobs = [OnJobs(options, inputs, attack) for attack in (kill, faults)]
        others = [campaign_races.make(other, options) for other in ("flips", "races", "change")]
        return campaign_soak.Soak(options, [*jobs, *others])
    return campaign_races.make(name, options)


@dataclass
class Counts:
    """The outcomes of cases, and the lines about wrong ones."""

    right: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome, repeated: str) -> None:
        """Counts an outcome; `repeated` are the words that repeat its case."""
        if outcome.kind == "wrong":
            self.wrong.append(f"{repeated}: {outcome.what}: {outcome.why}")
            print(f"WRONG: {self.wrong[-1]}", flush=True)
        self.right += outcome.kind == "right"
        self.refused += outcome.kind == "refused"

    def line(self) -> str:
        """The last line of a campaign."""
        count = self.right + self.refused + len(self.wrong)
        return (f"{count:,} cases, {self.right:,} right, {self.refused:,} refused, "
                f"{len(self.wrong):,} wrong")


def run(name: str, options: argparse.Namespace, inputs: Path) -> Counts:
    """Runs cases until the limit or an interrupt, and prints the counts."""
    counts, number = Counts(), options.first
    campaign = campaign_of(name, options, inputs)
    ends = time.monotonic() + options.seconds
    print(f"{name}: seed {options.seed}, from case {number}", flush=True)
    try:
        while number < options.first + options.cases and time.monotonic() < ends:
            outcome = campaign.case(random.Random(f"{name} {options.seed} {number}"))
            counts.add(outcome, f"{name} --seed {options.seed} --from {number} --cases 1")
            if options.verbose:
                print(f"{number} {outcome.kind}: {outcome.what} {outcome.why}", flush=True)
            number += 1
    finally:
        # Also after an interrupt, so that the campaign can go on later.
        campaign.close()
        print(f"{name}: seed {options.seed}, continues with --from {number}")
        print(counts.line(), flush=True)
    return counts


def run_slice(options: argparse.Namespace, inputs: Path) -> int:
    """Runs a few cases of each campaign; the exit code."""
    passed, failed, skipped = 0, 0, 0
    options.seconds = 2.5
    for name in NAMES:
        if reason := campaign_power.skip_reason() if name == "power" else None:
            print(f"SKIP: the campaign {name}: {reason}")
            skipped += 1
            continue
        options.cases = 1 if name == "power" else 6
        counts = run(name, options, inputs)
        passed += counts.right + counts.refused
        failed += len(counts.wrong)
        for line in counts.wrong:
            print(f"FAILED: {line.splitlines()[0]}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def main(words: list[str]) -> int:
    """Runs one campaign."""
    parser = parser_of("Repeats one attack on jobs of all kinds.")
    parser.add_argument("name", choices=[*NAMES, "slice"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--from", dest="first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", help="commands that contain this text (kill and faults)")
    options = parser.parse_args(words)
    if options.directory is None and Path("/dev/shm").is_dir():
        # Each run waits for its syncs.
        options.directory = Path("/dev/shm")
    if not has_command(options):
        return 2
    if reason := campaign_power.skip_reason() if options.name == "power" else None:
        print(f"SKIP: {reason}")
        return 77
    with tempfile.TemporaryDirectory(prefix="outcore-inputs-", dir=options.directory) as folder:
        if options.name in ("kill", "faults", "soak", "slice"):
            subprocess.run([options.python, str(INPUTS), folder], check=True)
        if options.name == "slice":
            return run_slice(options, Path(folder))
        counts = run(options.name, options, Path(folder))
    return 0 if counts.right and not counts.wrong else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
