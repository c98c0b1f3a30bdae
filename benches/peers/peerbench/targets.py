"""The targets of outcore's sort, whether a result reaches them, and the code for verdicts that other benchmarks share.

Pure: takes cases as read from the JSON file and returns verdicts, so a stored run can be judged again. Medians are over
the rounds whose run succeeded. A failed run of outcore misses its target, whatever the others did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .units import MIB, Json, format_size, median

FLOOR_RATIO_MAX = 1.2
STXXL_SPEEDUP_MIN = 3.0
GNU_SPEEDUP_MIN = 3.0
CPU_NS_KEY_MAX = 20.0
TMPFS_NS_KEY_MAX = 15.0
RSS_OVER_MEMORY_MAX_BYTES = 64 * MIB
DRIVE_EFFICIENCY_MIN = 0.95


@dataclass
class Verdict:
    """One line of the table of targets; `met` None means not measured."""

    measure: str
    reach: str
    got: str
    met: bool | None


def good(case: Json, tool: str = "outcore") -> list[Json]:
    """A tool's successful runs."""
    return [run for run in case["runs"].get(tool, []) if run["failure"] is None]


def failure(case: Json, tool: str = "outcore") -> str | None:
    """Why a tool has no result in a case: not run, or its first failure."""
    if tool in case["skipped"]:
        return str(case["skipped"][tool])
    failed = [str(run["failure"]) for run in case["runs"].get(tool, []) if run["failure"]]
    if failed:
        return failed[0]
    return None if case["runs"].get(tool) else "not run"


def wall(case: Json, tool: str = "outcore") -> float | None:
    return median(run["wall_s"] for run in good(case, tool))


def cpu(case: Json, tool: str = "outcore") -> float | None:
    return median(run["cpu_s"] for run in good(case, tool))


def floor_ratio(case: Json, tool: str = "outcore") -> float | None:
    """For outcore, the median of each run divided by the floor around it; for others, the median wall time divided by
    the median floor."""
    if tool == "outcore":
        return median(run["wall_s"] / run["floor_s"] for run in good(case) if run["floor_s"])
    seconds, floor = wall(case, tool), median(case["floors_s"])
    return seconds / floor if seconds and floor else None


def speedup(case: Json, tool: str) -> float | None:
    """The factor by which outcore is faster than a tool."""
    own, other = wall(case), wall(case, tool)
    return other / own if own and other else None


def judged(
    case: Json,
    measure: str,
    reach: str,
    value: float | None,
    form: str,
    met: bool | None,
    tool: str = "outcore",
) -> Verdict:
    """A verdict on a case: failed if outcore failed, not measured if there is no value."""
    own = failure(case)
    if own and case["runs"].get("outcore"):
        return Verdict(measure, reach, f"failed: {own}", False)
    if value is None:
        return Verdict(measure, reach, f"not measured: {own or failure(case, tool) or 'no floor'}", None)
    return Verdict(measure, reach, form.format(value), met)


def over_floor(case: Json, most: float) -> Verdict:
    ratio = floor_ratio(case)
    return judged(
        case,
        f"{case['title']}: wall time over the run's floor",
        f"at most {most}",
        ratio,
        "{:.2f}",
        ratio is not None and ratio <= most,
    )


def faster(case: Json, tool: str, least: float) -> Verdict:
    times = speedup(case, tool)
    return judged(
        case,
        f"{case['title']}: against {tool}",
        f"at least {least:g} times faster",
        times,
        "{:.2f} times",
        times is not None and times >= least,
        tool,
    )


def _per_key(case: Json, what: str, seconds: float | None, most_ns: float) -> Verdict:
    ns_key = seconds * 1e9 / case["records"] if seconds is not None else None
    return judged(
        case,
        f"{case['title']}: {what} time per key",
        f"at most {most_ns:g} ns",
        ns_key,
        "{:.1f} ns",
        ns_key is not None and ns_key <= most_ns,
    )


def rss_over_memory(case: Json) -> int | None:
    """Bytes by which the largest peak RSS of outcore exceeded `--memory` (negative: it stayed below)."""
    peaks = [run["peak_rss_bytes"] for run in good(case)]
    return max(peaks) - case["memory_bytes"] if peaks else None


def _memory(case: Json) -> Verdict:
    over = rss_over_memory(case)
    got = None if over is None else (over + case["memory_bytes"]) / MIB
    return judged(
        case,
        f"peak RSS, --memory {format_size(case['memory_bytes'])}",
        f"at most {(case['memory_bytes'] + RSS_OVER_MEMORY_MAX_BYTES) / MIB:.0f} MiB",
        got,
        "{:.0f} MiB",
        over is not None and over <= RSS_OVER_MEMORY_MAX_BYTES,
    )


def _drives(case: Json) -> Verdict:
    seconds, facts = wall(case), case["facts"]
    most_s = facts["allowed_s"] / DRIVE_EFFICIENCY_MIN
    count = facts["drives"]
    return judged(
        case,
        f"{count} throttled drive{'s' if count > 1 else ''} of {facts['rate_bytes_s'] / 1e6:g} MB/s",
        f"at most {most_s:.2f} s ({facts['allowed_s']:.2f} s by the rates / {DRIVE_EFFICIENCY_MIN})",
        seconds,
        "{:.2f} s",
        seconds is not None and seconds <= most_s,
    )


def verdicts(cases: list[Json]) -> Iterator[Verdict]:
    """The table of targets, in the order of the cases."""
    for case in cases:
        key = case["key"]
        if key in ("2g", "8g"):
            yield over_floor(case, FLOOR_RATIO_MAX)
        if key == "2g":
            yield faster(case, "STXXL", STXXL_SPEEDUP_MIN)
        if key.startswith("cpu-"):
            yield _per_key(case, "CPU", cpu(case), CPU_NS_KEY_MAX)
        if key == "tmpfs":
            yield _per_key(case, "wall", wall(case), TMPFS_NS_KEY_MAX)
        if key == "gensort":
            yield faster(case, "GNU sort", GNU_SPEEDUP_MIN)
        if key.startswith("rss-"):
            yield _memory(case)
        if key.startswith("drives-"):
            yield _drives(case)
    yield from memory_everywhere([case for case in cases if not case["key"].startswith("rss-")])


def memory_everywhere(cases: list[Json], which: str = "all other cases") -> Iterator[Verdict]:
    """The memory target applies to every run of the benchmark, not only to the runs that demonstrate it."""
    over = [(excess, case) for case in cases if (excess := rss_over_memory(case)) is not None]
    if over:
        excess, case = max(over, key=lambda pair: pair[0])
        got = f"{excess / MIB:+.0f} MiB ({case['key']})"
        yield Verdict(
            f"peak RSS over --memory, worst of {which}",
            "at most +64 MiB",
            got,
            excess <= RSS_OVER_MEMORY_MAX_BYTES,
        )


def losses(cases: list[Json], judge: Callable[[list[Json]], Iterator[Verdict]] = verdicts) -> list[str]:
    """Every comparison that outcore lost, missed targets included, in words."""
    lost = []
    for case in cases:
        for tool in case["runs"]:
            times = speedup(case, tool) if tool != "outcore" else None
            if times is not None and times < 1:
                lost.append(f"{case['title']}: {tool} is {1 / times:.2f} times faster than outcore")
            own_cpu, other_cpu = cpu(case), cpu(case, tool)
            if tool != "outcore" and own_cpu and other_cpu and other_cpu < own_cpu:
                lost.append(f"{case['title']}: {tool} takes {other_cpu:.1f} s of CPU, outcore {own_cpu:.1f} s")
    lost += [
        f"missed: {verdict.measure}: {verdict.got}, {verdict.reach} wanted"
        for verdict in judge(cases)
        if verdict.met is False
    ]
    return lost
