"""One run of a benchmark from its command line to its files; shared by bench_sort.py and bench_primitives.py.

Invariants: results are stored after each case, so an interrupted run keeps its results. A failing case does not affect
the others. Only one run at a time is possible in a clone. Exit codes: 0 measured (targets met or not), 1 a case or
outcore failed or an output was wrong, 2 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from . import groups, install, machine, profile, report, setting
from .rounds import CaseResult, Rounds
from .setting import Setting
from .tools import Outcore
from .units import Json, parse_scale, parse_size

REPOSITORY = install.PEERS_DIR.parent.parent
SCHEMA = 1
T = TypeVar("T")
Group = Callable[[], Generator[CaseResult, None, None]]


@dataclass(frozen=True)
class Bench:
    """A benchmark: its cases by name, its peers, the parts that it needs, and the programs whose versions it reports.

    `opened` holds what the cases share while they run; `swept` lists the files below `--dir` that remain if they are
    killed.
    """

    judge: report.Judge
    names: tuple[str, ...]
    peers: tuple[str, ...]
    parts: frozenset[str]
    versions: tuple[str, ...]
    opened: Callable[[Setting], AbstractContextManager[Mapping[str, Group]]]
    swept: tuple[str, ...] = ()


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """argparse shows a ValueError's text only if it has argparse's own error type."""

    def converted(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return converted


def _names(known: tuple[str, ...]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise ValueError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(known)}")
        return names

    return _argument(parse)


def parser(bench: Bench, description: str) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    made = argparse.ArgumentParser(description=description, epilog="See docs/benchmarks.md and its pages.")
    add = made.add_argument
    add(
        "--only",
        "--cases",
        type=_names(bench.names),
        default=list(bench.names),
        metavar="CASES",
        help=f"comma-separated: {', '.join(bench.names)}",
    )
    add(
        "--scale",
        type=_argument(parse_scale),
        default=parse_scale("1"),
        help="size of everything, as 1/16 (default 1)",
    )
    add("--rounds", type=int, default=3, help="runs of each tool (default 3)")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each tool (default: the cores)")
    add(
        "--peers",
        type=_names(bench.peers),
        default=list(bench.peers),
        metavar="NAMES",
        help=f"of {', '.join(bench.peers)} (default all)",
    )
    add("--no-peers", action="store_true", help="outcore alone")
    add(
        "--limit",
        type=_argument(parse_size),
        metavar="SIZE",
        help="memory limit of the group (default: twice the tools' memory, at least 256 MiB more)",
    )
    add(
        "--outcore",
        type=Path,
        default=REPOSITORY / "target" / "release" / "outcore",
        metavar="PATH",
        help="the binary",
    )
    add("--outcore-args", default="", metavar="ARGS", help="added to every command of outcore, as one string")
    add("--dir", type=Path, default=install.BUILD_DIR / "work", help="on the disk to be measured")
    add("--tmpfs", type=Path, default=Path("/dev/shm"), help="a tmpfs for the cases that need one")
    add("--results", type=Path, default=install.BUILD_DIR / "results", help="where JSON, text and Markdown go")
    add("--no-install", action="store_true", help="install nothing; leave out what is missing")
    add("--setup-only", action="store_true", help="install and build, measure nothing")
    add(
        "--profile",
        action="store_true",
        help="profile outcore once more (perf) in each case that missed a target",
    )
    add("--from-json", type=Path, nargs="+", metavar="FILE", help="render stored runs instead of measuring")
    add(
        "--write-docs",
        action="store_true",
        help="replace the marked sections of the pages in docs/benchmarks (full scale only)",
    )
    return made


def _setting(bench: Bench, arguments: argparse.Namespace, installed: install.Installed) -> Setting:
    outcore = Outcore(arguments.outcore.resolve(), arguments.outcore_args)
    reason = outcore.missing()
    if reason:
        raise ValueError(reason)
    hierarchies = groups.find()
    if hierarchies.reason:
        say(f"no memory limits: {hierarchies.reason}")
    for path in groups.sweep(hierarchies):
        say(f"removed a group that a former run left: {path.name}")
    for name in setting.sweep(arguments.dir, arguments.tmpfs, (*bench.names, *bench.swept)):
        say(f"removed what a former run left: {name}")
    return Setting(
        outcore=outcore,
        installed=installed,
        hierarchies=hierarchies,
        rounds=Rounds(outcore, installed, hierarchies, say),
        disk_dir=arguments.dir.resolve(),
        tmpfs_dir=arguments.tmpfs.resolve(),
        scale=arguments.scale,
        count=arguments.rounds,
        threads=arguments.threads,
        limit_bytes=arguments.limit,
        peers=frozenset() if arguments.no_peers else frozenset(arguments.peers),
        log=say,
        all_peers=getattr(arguments, "all_peers", False),
        terashuf=getattr(arguments, "terashuf", None),
    )


def _blank_result(bench: Bench, arguments: argparse.Namespace) -> Json:
    return {
        "schema": SCHEMA,
        "benchmark": bench.judge.name,
        "when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "scale": str(arguments.scale),
        "threads": arguments.threads,
        "machine": machine.describe(arguments.dir),
        "versions": machine.versions(arguments.outcore, bench.versions, getattr(arguments, "terashuf", None)),
        "cases": [],
        "skipped": {},
        "failed": {},
    }


def _store(bench: Bench, result: Json, stem: Path) -> None:
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    stem.with_suffix(".txt").write_text(report.text(result, bench.judge))
    stem.with_suffix(".md").write_text(report.markdown(result, bench.judge))


def _measure(bench: Bench, arguments: argparse.Namespace) -> Json:
    """Runs the chosen cases and stores the result after each. An interrupt ends the run after the clean-up."""
    for directory in (arguments.dir, arguments.results, install.BUILD_DIR):
        directory.mkdir(parents=True, exist_ok=True)
    lock = open(install.BUILD_DIR / "lock", "w")  # held until the program ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ValueError("another run of the benchmark is going on in this clone: wait for it or end it") from None
    installed = install.install(say, bench.parts, allow_install=not arguments.no_install)
    shared = _setting(bench, arguments, installed)
    result = _blank_result(bench, arguments)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    stem = arguments.results / f"{bench.judge.name}-{stamp}"
    with bench.opened(shared) as cases:
        for name in arguments.only:
            _measure_group(bench, arguments, result, stem, name, cases[name])
    _store(bench, result, stem)
    say(f"stored in {stem.with_suffix('.json')}, .txt and .md")
    return result


def _measure_group(
    bench: Bench, arguments: argparse.Namespace, result: Json, stem: Path, name: str, group: Group
) -> None:
    # Closed explicitly: a generator that holds drives or files cleans up when it is closed, not when it is dropped.
    measured = group()
    try:
        for case in measured:
            result["cases"].append(case.to_json())
            _store(bench, result, stem)
            if arguments.profile:
                _profile(bench, case, result["cases"], stem)
    except setting.Skipped as reason:
        result["skipped"][name] = str(reason)
        say(f"{name}: skipped: {reason}")
    except (RuntimeError, OSError) as error:
        # A failing case must not cost the others their results; the exit code reports it.
        result["failed"][name] = str(error)
        say(f"{name}: failed: {error}")
    finally:
        measured.close()


def _profile(bench: Bench, measured: CaseResult, stored: list[Json], stem: Path) -> None:
    """Profiles the case that was stored last if it missed a target, while its input still exists."""
    known = list(bench.judge.verdicts(stored[:-1]))
    if not any(verdict.met is False and verdict not in known for verdict in bench.judge.verdicts(stored)):
        return
    target = stem.with_name(f"{stem.name}-{measured.case.key}.perf.txt")
    reason = profile.profile(measured.case, target)
    say(f"{measured.case.key}: no profile: {reason}" if reason else f"{measured.case.key}: profile in {target.name}")


def _failed(result: Json) -> bool:
    return bool(result["failed"]) or any(
        run["failure"] for case in result["cases"] for run in case["runs"].get("outcore", [])
    )


def _write_docs(bench: Bench, result: Json) -> None:
    if result["scale"] != "1":
        raise ValueError(f"a run at scale {result['scale']} is not a result for the documentation")
    report.write_docs(result, REPOSITORY / "docs" / "benchmarks", bench.judge)


def _stored(bench: Bench, paths: list[Path]) -> Json:
    results = [json.loads(path.read_text()) for path in paths]
    # Old runs of the sort, from before other benchmarks existed, do not name their benchmark.
    strange = {result.get("benchmark", "sort") for result in results} - {bench.judge.name}
    if strange:
        raise ValueError(f"these are results of bench_{strange.pop()}.py")
    return report.merge(results)


def run(bench: Bench, arguments: argparse.Namespace) -> int:
    """Executes the arguments. Returns the exit code."""
    # Ctrl-C (even if the shell started this program with it ignored), `kill` and a closed terminal all clean up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        if arguments.from_json:
            result = _stored(bench, arguments.from_json)
        elif arguments.setup_only:
            installed = install.install(say, bench.parts)
            for reason in installed.missing.values():
                say(reason)
            return 1 if installed.missing else 0
        else:
            result = _measure(bench, arguments)
        print(report.text(result, bench.judge), end="")
        if arguments.write_docs:
            _write_docs(bench, result)
    except KeyboardInterrupt:
        say("interrupted: files, drives and groups are removed; results so far are stored")
        return 130
    except (ValueError, OSError) as error:
        say(f"bench_{bench.judge.name}: {error}")
        return 2
    return 1 if _failed(result) else 0
