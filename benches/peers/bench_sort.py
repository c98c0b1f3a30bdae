#!/usr/bin/env python3
"""outcore's sorting benchmark: outcore, STXXL, DuckDB, Polars and GNU sort, alternately, in the same memory.

Installs what the peers need, measures every case of peerbench/cases.py, prints the tables, and writes JSON, text and
Markdown into the results directory (after each case, so that an interrupted run keeps what it had).
`docs/benchmarks.md` explains every column.

    bench_sort.py                              everything, about 25 minutes and 45 GiB of disk
    bench_sort.py --scale 1/16 --rounds 1      a smoke run under a minute
    bench_sort.py --only 2g,drives             some cases
    bench_sort.py --from-json A.json B.json --write-docs    put stored runs into the documentation

Root is needed for dropped caches, memory limits and throttled drives; without it the run goes on and says what it
lacks. Exit codes: 0 measured (targets met or not), 1 a case or outcore failed or an output was wrong, 2 usage,
130 interrupted.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from peerbench import cases, groups, install, machine, profile, report, targets
from peerbench.rounds import CaseResult, Rounds
from peerbench.tools import Outcore
from peerbench.units import Json, parse_scale, parse_size

REPOSITORY = install.PEERS_DIR.parent.parent
PEERS = ("stxxl", "duckdb", "polars", "gnu")
SCHEMA = 1
T = TypeVar("T")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """argparse shows a ValueError's text only through its own error type."""

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


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog="See docs/benchmarks.md.")
    add = made.add_argument
    add(
        "--only",
        type=_names(tuple(cases.GROUPS)),
        default=list(cases.GROUPS),
        metavar="CASES",
        help=f"comma-separated: {', '.join(cases.GROUPS)}",
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
        type=_names(PEERS),
        default=list(PEERS),
        metavar="NAMES",
        help=f"of {', '.join(PEERS)} (default all)",
    )
    add("--no-peers", action="store_true", help="outcore alone")
    add("--all-peers", action="store_true", help="run the peers in the 8 GiB case too")
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
    add("--outcore-args", default="", metavar="ARGS", help="added to every `outcore sort`, as one string")
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
        help="replace the marked section of docs/benchmarks.md (full scale only)",
    )
    return made


def _setting(arguments: argparse.Namespace, installed: install.Installed) -> cases.Setting:
    outcore = Outcore(arguments.outcore.resolve(), arguments.outcore_args)
    reason = outcore.missing()
    if reason:
        raise ValueError(reason)
    hierarchies = groups.find()
    if hierarchies.reason:
        say(f"no memory limits: {hierarchies.reason}")
    for path in groups.sweep(hierarchies):
        say(f"removed a group that a former run left: {path.name}")
    for name in cases.sweep(arguments.dir, arguments.tmpfs):
        say(f"removed what a former run left: {name}")
    return cases.Setting(
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
        all_peers=arguments.all_peers,
        log=say,
    )


def _blank_result(arguments: argparse.Namespace) -> Json:
    return {
        "schema": SCHEMA,
        "when": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "scale": str(arguments.scale),
        "threads": arguments.threads,
        "machine": machine.describe(arguments.dir),
        "versions": machine.versions(arguments.outcore),
        "cases": [],
        "skipped": {},
        "failed": {},
    }


def _store(result: Json, stem: Path) -> None:
    stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    stem.with_suffix(".txt").write_text(report.text(result))
    stem.with_suffix(".md").write_text(report.markdown(result))


def _measure(arguments: argparse.Namespace) -> Json:
    """Runs the chosen cases and stores the result after each; an interrupt ends it after the clean-up."""
    for directory in (arguments.dir, arguments.results, install.BUILD_DIR):
        directory.mkdir(parents=True, exist_ok=True)
    lock = open(install.BUILD_DIR / "lock", "w")  # held until the program ends
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ValueError("another run of the benchmark is going on in this clone: wait for it or end it") from None
    installed = install.install(say, allow_install=not arguments.no_install)
    setting = _setting(arguments, installed)
    result = _blank_result(arguments)
    stem = arguments.results / f"sort-{datetime.datetime.now().strftime('%Y%m%d-%H%M%S')}"
    for name in arguments.only:
        # Closed by hand: a generator that holds drives or files cleans up when it is closed, not when it is dropped.
        measured = cases.GROUPS[name](setting)
        try:
            for case in measured:
                result["cases"].append(case.to_json())
                _store(result, stem)
                if arguments.profile:
                    _profile(case, result["cases"][-1], stem)
        except cases.Skipped as reason:
            result["skipped"][name] = str(reason)
            say(f"{name}: skipped: {reason}")
        except (RuntimeError, OSError) as error:
            # One broken case must not cost the others their results; the exit code tells.
            result["failed"][name] = str(error)
            say(f"{name}: failed: {error}")
        finally:
            measured.close()
    _store(result, stem)
    say(f"stored in {stem.with_suffix('.json')}, .txt and .md")
    return result


def _profile(measured: CaseResult, stored: Json, stem: Path) -> None:
    """Profiles a case that missed a target, while its input is still there."""
    if not any(verdict.met is False for verdict in targets.verdicts([stored])):
        return
    target = stem.with_name(f"{stem.name}-{measured.case.key}.perf.txt")
    reason = profile.profile(measured.case, target)
    say(f"{measured.case.key}: no profile: {reason}" if reason else f"{measured.case.key}: profile in {target.name}")


def _failed(result: Json) -> bool:
    return bool(result["failed"]) or any(
        run["failure"] for case in result["cases"] for run in case["runs"].get("outcore", [])
    )


def _write_docs(result: Json) -> None:
    if result["scale"] != "1":
        raise ValueError(f"a run at scale {result['scale']} is no result for the documentation")
    report.write_docs(result, REPOSITORY / "docs" / "benchmarks.md")


def main() -> int:
    arguments = parser().parse_args()
    # Ctrl-C (even where a shell started us ignoring it), `kill` and a closed terminal all clean up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        if arguments.from_json:
            result = report.merge([json.loads(path.read_text()) for path in arguments.from_json])
        elif arguments.setup_only:
            installed = install.install(say)
            for reason in installed.missing.values():
                say(reason)
            return 1 if installed.missing else 0
        else:
            result = _measure(arguments)
        print(report.text(result), end="")
        if arguments.write_docs:
            _write_docs(result)
    except KeyboardInterrupt:
        say("interrupted: files, drives and groups are removed; results so far are stored")
        return 130
    except (ValueError, OSError) as error:
        say(f"bench_sort: {error}")
        return 2
    return 1 if _failed(result) else 0


if __name__ == "__main__":
    sys.exit(main())
