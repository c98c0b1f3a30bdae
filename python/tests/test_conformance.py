"""Runs every case of the conformance kit through Python, against oracles written with NumPy and plain Python.

The cases are those of the engine and the command (`crates/outcore/tests/conformance`), which also defines their inputs.
"""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcore

KIT = Path(__file__).parents[2] / "crates/outcore/tests/conformance/primitives.json"
CASES: list[dict[str, Any]] = json.loads(KIT.read_text())
JOINS: list[dict[str, Any]] = json.loads(KIT.with_name("joins.json").read_text())
GOLDEN = 0x9E3779B97F4A7C15


def items_of(case: dict[str, Any], further: int = 0) -> np.ndarray:
    """The numbers of the input."""
    places = np.arange(case["count"], dtype=np.uint64) + np.uint64(case["seed"] + further)
    items = (places * np.uint64(GOLDEN) >> np.uint64(1)) % np.uint64(case["below"])
    return items.astype("<u4" if case["type"] == "u32" else "<u8")


def lines_of(case: dict[str, Any]) -> list[bytes]:
    """The lines of the input."""
    return [b"%x" % item * (item % case["repeat"]) for item in items_of(case).tolist()]


def put(case: dict[str, Any], name: str, further: int = 0) -> list[str]:
    """Writes the files of the input over the drives. Returns their names."""
    names, start, files = [], 0, case["files"]
    is_in_order = case["do"] in ("merge", "segmented_reduce")
    for number in range(files):
        end = case["count"] * (number + 1) ** 2 // files**2
        if case["type"] == "lines":
            lines = lines_of(case)[start:end]
            data = b"".join(line + b"\n" for line in (sorted(lines) if is_in_order else lines))
            data = data if case["ends"] else data[:-1]
        else:
            items = items_of(case, further)[start:end]
            data = (np.sort(items) if is_in_order else items).tobytes()
        names.append(f"d{number % case['drives']}/{name}-{number}")
        Path(names[-1]).write_bytes(data)
        start = end
    return names


def digest(data: bytes) -> str:
    """FNV-1a."""
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"{state:016x}"


def written(dataset: outcore.Dataset | outcore.Lines, case: dict[str, Any]) -> bytes:
    """The output that a dataset writes: one file, or a shard on each drive. Iteration must give the same."""
    drives = [f"d{drive}" for drive in range(case["drives"])]
    if case["drives"] > 1 and case["type"] != "lines" and case["do"] != "merge":
        dataset.write("out-{drive}")
        return b"".join(Path(drive, f"out-{drive}").read_bytes() for drive in drives)
    dataset.write("out")
    data = Path("out").read_bytes()
    if isinstance(dataset, outcore.Lines):
        assert b"".join(line + b"\n" for lines in dataset for line in lines) == data
    else:
        assert b"".join(batch.tobytes() for batch in dataset) == data
    return data


def run(case: dict[str, Any]) -> Any:
    """The package's result for the case."""
    for drive in range(case["drives"]):
        Path(f"d{drive}").mkdir()
    resources: dict[str, Any] = {"memory": "64MiB", "threads": 2}
    resources["drives"] = [f"d{drive}" for drive in range(case["drives"])]
    if case["type"] == "lines":
        lines = outcore.open(put(case, "in"), lines=True, **resources)
        steps = {
            "sort": lambda: lines.sort(descending=case["descending"], unique=case["unique"]),
            "merge": lines.merge,
            "unique": lines.unique,
            "count": lambda: lines.unique(counts=True),
            "shuffle": lambda: lines.shuffle(case["shuffle_seed"], epoch=case["epoch"]),
        }
        assert lines.count() == case["count"]
        return written(steps[case["do"]](), case)
    keys = outcore.open(put(case, "in"), dtype=case["type"], **resources)
    x = outcore.x
    files = {
        "map": lambda: keys.map(x * case["a"] + case["b"]),
        "filter": lambda: keys.filter(x % case["mod"] == case["is"]),
        "scan": lambda: keys.scan(case["op"], exclusive=case["exclusive"]),
        "sort": lambda: keys.sort(descending=case["descending"], unique=case["unique"]),
        "shuffle": lambda: keys.shuffle(case["shuffle_seed"], epoch=case["epoch"]),
        "unique": keys.unique,
        "count": keys.count_by,
        "reduce_by_key": keys.count_by,
        "segmented_reduce": keys.count_by,
        "merge": keys.merge,
        "zip": lambda: keys.zip(outcore.open(put(case, "other", 1), dtype=case["type"])),
        "reverse": keys.reverse,
        "enumerate": keys.enumerate,
        "windows": lambda: keys.windows(case["length"]),
        "flat_map": lambda: keys.flat_map([x, x * case["a"] + case["b"]]),
    }
    values = {
        "reduce": lambda: keys.reduce(case["how"]),
        "map_reduce": lambda: keys.map_reduce(x * case["a"] + case["b"], case["how"]),
        "histogram": lambda: keys.histogram(case["bins"], (case["low"], case["high"]))[0].tolist(),
        "top": lambda: keys.top(case["k"], smallest=case["smallest"]).tolist(),
        "find": lambda: keys.find(x % case["mod"] == case["is"]),
        "gather": lambda: keys.gather(positions_of(case)).tobytes(),
    }
    if case["do"] == "partition":
        keys.partition(x % case["parts"], "part-{part}", case["parts"])
        return b"".join(Path(f"part-{part}").read_bytes() for part in range(case["parts"]))
    return values[case["do"]]() if case["do"] in values else written(files[case["do"]](), case)


def positions_of(case: dict[str, Any]) -> np.ndarray:
    """The positions that a gather requests."""
    places = np.arange(case["positions"], dtype=np.uint64) * np.uint64(2654435761)
    return places % np.uint64(case["count"])


def expected(case: dict[str, Any]) -> Any:
    """The expected result."""
    if case["type"] == "lines":
        return expected_lines(case)
    items = items_of(case)
    if case["do"] == "map_reduce":
        items = items * items.dtype.type(case["a"]) + items.dtype.type(case["b"])
    exact, kind = [int(item) for item in items], items.dtype.type
    values, counts = np.unique(items, return_counts=True)
    holds = [item % case["mod"] == case["is"] for item in exact] if "mod" in case else []
    ordered = sorted(exact, reverse=not case.get("smallest", True))
    folds = {
        "sum": lambda: sum(exact),
        "count": lambda: len(exact),
        "min": lambda: min(exact, default=None),
        "max": lambda: max(exact, default=None),
        "mean": lambda: float(sum(exact)) / len(exact) if exact else None,
        "a ^ b": lambda: int(np.bitwise_xor.reduce(items)) if exact else None,
    }
    found = {
        "map": lambda: (items * kind(case["a"]) + kind(case["b"])).tobytes(),
        "filter": lambda: items[holds].tobytes(),
        "reduce": lambda: folds[case["how"]](),
        "map_reduce": lambda: folds[case["how"]](),
        "scan": lambda: prefixes(items, case).tobytes(),
        "sort": lambda: (values if case["unique"] else np.sort(items))[
            :: -1 if case["descending"] else 1
        ].tobytes(),
        "histogram": lambda: np.histogram(exact, case["bins"], (case["low"], case["high"]))[
            0
        ].tolist(),
        "top": lambda: ordered[: case["k"]],
        "find": lambda: holds.index(True) if True in holds else None,
        "partition": lambda: b"".join(
            items[items % case["parts"] == part].tobytes() for part in range(case["parts"])
        ),
        "gather": lambda: items[positions_of(case).astype(int)].tobytes(),
        "zip": lambda: np.stack([items, items_of(case, 1)], axis=1).tobytes(),
        "reverse": lambda: items[::-1].tobytes(),
        "enumerate": lambda: b"".join(
            at.to_bytes(8, "little") + item.tobytes() for at, item in enumerate(items)
        ),
        "windows": lambda: b"".join(
            items[at : at + case["length"]].tobytes()
            for at in range(len(items) - case["length"] + 1)
        ),
        "flat_map": lambda: np.stack(
            [items, items * kind(case["a"]) + kind(case["b"])], axis=1
        ).tobytes(),
        "unique": lambda: values.tobytes(),
        "merge": lambda: np.sort(items).tobytes(),
        **dict.fromkeys(
            ("count", "reduce_by_key", "segmented_reduce"),
            lambda: np.stack([values, counts.astype("<u8")], axis=1).tobytes(),
        ),
    }
    return found[case["do"]]()


def prefixes(items: np.ndarray, case: dict[str, Any]) -> np.ndarray:
    """The fold up to each item, or up to the one before."""
    most = np.iinfo(items.dtype).max
    ufunc, identity = {
        "sum": (np.add, 0),
        "product": (np.multiply, 1),
        "min": (np.minimum, most),
        "max": (np.maximum, 0),
    }[case["op"]]
    folded = ufunc.accumulate(items, dtype=items.dtype)
    if not case["exclusive"]:
        return folded
    return np.concatenate([np.array([identity], items.dtype), folded])[: len(items)]


def expected_lines(case: dict[str, Any]) -> bytes:
    """The expected result for lines."""
    lines = lines_of(case)
    counts = sorted(collections.Counter(lines).items())
    if case["do"] == "unique" or case.get("unique"):
        lines = [line for line, _ in counts]
    elif case["do"] == "count":
        lines = [b"%7d " % count + line for line, count in counts]
    else:
        lines.sort()
    if case.get("descending"):
        lines.reverse()
    return b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_python_gives_what_naive_oracles_give(case: dict[str, Any], here: Path) -> None:
    found = run(case)
    if case["do"] != "shuffle":
        assert found == expected(case)
    elif case["type"] == "lines":
        assert sorted(found.splitlines()) == sorted(lines_of(case))
        assert digest(found) == case["digest"]
    else:
        shuffled = np.frombuffer(found, items_of(case).dtype)
        assert np.array_equal(np.sort(shuffled), np.sort(items_of(case)))
        assert digest(found) == case["digest"]


@pytest.mark.parametrize("case", JOINS, ids=lambda case: case["name"])
def test_joins_give_what_the_list_says(case: dict[str, Any]) -> None:
    Path("left.csv").write_text(case["left"])
    Path("right.csv").write_text(case["right"])
    schema = case["schema"] or None
    outcore.join("left.csv", "right.csv", "out.csv", case["on"], how=case["how"], schema=schema, force=True)
    assert Path("out.csv").read_text() == case["expected"]
