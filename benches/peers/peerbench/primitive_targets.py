"""The targets of outcore's primitives, and whether a result reaches them.

Pure, like targets.py: takes cases as read from the JSON file and returns verdicts. A share of the drive's bandwidth is
the floor of a run divided by its wall time, as the median over the rounds. Linear in the drives means that with the
same share of the data on each drive, n drives take as long as one. One drive must reach its rating, so that both
together show how much of the rating of n drives is used.
"""

from __future__ import annotations

from collections.abc import Iterator

from .targets import Verdict, faster, good, judged, memory_everywhere, over_floor, wall
from .units import Json, median

SHUFFLE_FLOOR_RATIO_MAX = 1.3
TERASHUF_SPEEDUP_MIN = 3.0
SORT_SPEEDUP_MIN = 3.0
DISTINCT_SPEEDUP_MIN = 4.0
BANDWIDTH_SHARE_MIN = 0.95
GATHER_SHARE_MIN = 0.90
LINEAR_SHARE_MIN = 0.95
TMPFS_REDUCE_BYTES_S_MIN = 3e9

SPEEDUPS = {
    "shuffle-text": ("terashuf", TERASHUF_SPEEDUP_MIN),
    "sort-text": ("GNU sort", SORT_SPEEDUP_MIN),
    "unique-sort": ("GNU sort -u", DISTINCT_SPEEDUP_MIN),
    "unique-count": ("GNU sort | uniq -c", DISTINCT_SPEEDUP_MIN),
    "half-unique-sort": ("GNU sort -u", DISTINCT_SPEEDUP_MIN),
    "half-unique-count": ("GNU sort | uniq -c", DISTINCT_SPEEDUP_MIN),
}
PASSES = ("map", "filter", "reduce", "scan")


def bandwidth_share(case: Json) -> float | None:
    """The floor's share of outcore's wall time: 1 if the drives were never idle."""
    return median(run["floor_s"] / run["wall_s"] for run in good(case) if run["floor_s"])


def _bandwidth(case: Json) -> Verdict:
    share = bandwidth_share(case)
    return judged(
        case,
        f"{case['title']}: share of the drive's bandwidth",
        f"at least {BANDWIDTH_SHARE_MIN:.0%}",
        share,
        "{:.0%}",
        share is not None and share >= BANDWIDTH_SHARE_MIN,
    )


def _tmpfs(case: Json) -> Verdict:
    seconds = wall(case)
    rate = case["records"] * case["record_bytes"] / seconds if seconds else None
    return judged(
        case,
        f"{case['title']}: bytes per second",
        f"at least {TMPFS_REDUCE_BYTES_S_MIN / 1e9:g} GB/s",
        rate / 1e9 if rate else None,
        "{:.2f} GB/s",
        rate is not None and rate >= TMPFS_REDUCE_BYTES_S_MIN,
    )


def _gather(case: Json) -> Verdict:
    """Records per second divided by the drive's reads per second; there are fewer blocks than records."""
    share = bandwidth_share(case)
    blocks = case["facts"]["blocks"] / case["records"]
    also = f" ({share * blocks:.0%} if each of the {case['facts']['blocks']} blocks counts once)" if share else ""
    return judged(
        case,
        f"{case['title']}: records per second over random reads of 4 KiB per second of the drive alone",
        f"at least {GATHER_SHARE_MIN:.0%}",
        share,
        "{:.0%}" + also,
        share is not None and share >= GATHER_SHARE_MIN,
    )


def _drives(case: Json, single: Json | None) -> Verdict:
    facts, seconds = case["facts"], wall(case)
    count, primitive = facts["drives"], facts["primitive"]
    of_rating = facts["allowed_s"] / seconds if seconds else None
    title = f"{primitive} on {count} throttled drive{'s' if count > 1 else ''} of {facts['rate_bytes_s'] / 1e6:g} MB/s"
    if count == 1:
        met = of_rating is not None and of_rating >= LINEAR_SHARE_MIN
        return judged(case, title, f"at least {LINEAR_SHARE_MIN:.0%} of its rating", of_rating, "{:.0%}", met)
    alone = wall(single) if single else None
    linear = alone / seconds if alone and seconds else None
    also = f" ({of_rating:.0%} of the rating)" if of_rating else ""
    met = linear is not None and linear >= LINEAR_SHARE_MIN
    return judged(case, title, f"at least {LINEAR_SHARE_MIN:.0%} of linear", linear, "{:.0%}" + also, met)


def verdicts(cases: list[Json]) -> Iterator[Verdict]:
    """The table of targets, in the order of the cases."""
    by_key = {case["key"]: case for case in cases}
    for case in cases:
        key = case["key"]
        if key in SPEEDUPS:
            yield faster(case, *SPEEDUPS[key])
        elif key == "shuffle-u64":
            yield over_floor(case, SHUFFLE_FLOOR_RATIO_MAX)
        elif key in PASSES:
            yield _bandwidth(case)
        elif key == "tmpfs-reduce":
            yield _tmpfs(case)
        elif key == "gather":
            yield _gather(case)
        elif key.startswith("drives-"):
            yield _drives(case, by_key.get(f"drives-{case['facts']['primitive']}-1"))
    yield from memory_everywhere(cases, "these cases")
