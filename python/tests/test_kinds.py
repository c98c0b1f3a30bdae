"""What files hold, as the command decides it, and arguments that are not for what they hold.

Every argument of every function that takes files of several kinds changes the result, is rejected by its name, or is in
`NEUTRAL` with its reason.
"""

from __future__ import annotations

import bz2
import gzip
import inspect
import warnings
from pathlib import Path
from typing import Any

import numpy
import outcore
import pytest

#: Arguments that change no result, and why; with a function and a kind, or for all.
NEUTRAL = {
    "memory": "how much may be used, not what is made",
    "threads": "as memory",
    "drives": "where scratch goes",
    "io": "as memory",
    "scratch_limit": "how much scratch may be used",
    "force": "whether a file that is there may be replaced, and none is",
    "replace": "whether an input may be the output, and it is not",
    "seed": "of a sort: chooses samples and drives",
    "progress": "tells how far the job is",
    "record_io": "records the I/O of the run in a file of its own",
    "explain": "prints the plan",
    "volume": "where datasets are",
    "union": "one file lacks no column",
    "lines": "says what text is taken for anyhow",
    "csv": "says what the file is taken for anyhow",
    "stable": "equal keys of the samples are equal in all bytes",
    "on_error": "no line of the samples lacks its key",
    "separator": "of lines: fields are only of keys, and no key is given",
    "zero_terminated": "no line of the samples holds a NUL",
    "dtype": "says what the file says of itself, or is rejected with another name of the same",
    "side": "no value of the samples is there twice",
}

VALUES: dict[str, Any] = {
    "by": "a",
    "columns": ["a"],
    "union": True,
    "codec": "none",
    "schema": {"a": "text"},
    "dtype": "u32",
    "record": 4,
    "key": "0:4",
    "lines": True,
    "csv": True,
    "separator": ";",
    "header": False,
    "order": "n",
    "on_error": "skip",
    "descending": True,
    "stable": True,
    "unique": True,
    "seed": 9,
    "epoch": 3,
    "zero_terminated": True,
    "index": "new.index",
    "side": "right",
    "volume": "drives.toml",
    "replace": True,
    "record_io": "new.iotrace",
    "explain": True,
}

NUMBERS = [300, 7, 300, 5, 1 << 40, 9, 77, 2]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_bytes(b"b 2\na 1\n10 x\n9 y\n9 y\n")
    Path("rows.csv").write_bytes(b"a,b\n10,x\n9,y\n9,y\n-2,z\n")
    Path("rows.jsonl").write_bytes(b'{"a":10}\n{"a":9}\n{"a":9}\n{"a":-2}\n')
    Path("numbers.bin").write_bytes(numpy.array(NUMBERS, "<u8").tobytes())
    numpy.save("array.npy", numpy.array(NUMBERS, "<u8"))
    numpy.save("sorted.npy", numpy.sort(numpy.array(NUMBERS, "<u8")))
    outcore.convert("rows.csv", "t.parquet")
    return tmp_path


def _sort(src: str, **options: Any) -> Any:
    out = "out.csv" if "parquet" in src or options.get("by") and not options.get("csv") else "out"
    outcore.sort(src, out, **options)
    return _taken(out)


def _shuffle(src: str, **options: Any) -> Any:
    out = "out.csv" if "parquet" in src else "out"
    outcore.shuffle(src, out, **options)
    return _taken(out)


def _taken(name: str) -> bytes:
    data = Path(name).read_bytes()
    Path(name).unlink()
    Path("new.iotrace").unlink(missing_ok=True)
    return data


def _open(src: str, **options: Any) -> Any:
    opened = outcore.open(src, **options)
    if isinstance(opened, outcore.Table):
        opened.write("out.csv")
        return _taken("out.csv")
    opened.write("out")
    return _taken("out")


def _lookup(src: str, **options: Any) -> Any:
    values: Any = ["9 y", "b"] if src.endswith("txt") else [9, 300]
    return outcore.lookup(src, values, **options).tolist()


def _sort_view(src: str, **options: Any) -> Any:
    view: Any = outcore.sort_view(src, "out.view", force=True, **options)
    rows = [view[place] for place in range(len(view))]
    return repr(rows), type(view)


def _table(src: str, **options: Any) -> Any:
    outcore.table(src, **options).write("out.csv")
    return _taken("out.csv")


CASES = [
    (outcore.sort, _sort, "lines.txt", {}),
    (outcore.sort, _sort, "rows.csv", {"csv": True, "by": "a"}),
    (outcore.sort, _sort, "rows.jsonl", {"by": ".a"}),
    (outcore.sort, _sort, "rows.csv", {"by": "a"}),
    (outcore.sort, _sort, "t.parquet", {"by": "a"}),
    (outcore.sort, _sort, "numbers.bin", {"dtype": "u64"}),
    (outcore.sort, _sort, "array.npy", {}),
    (outcore.shuffle, _shuffle, "lines.txt", {}),
    (outcore.shuffle, _shuffle, "rows.csv", {}),
    (outcore.shuffle, _shuffle, "rows.jsonl", {}),
    (outcore.shuffle, _shuffle, "t.parquet", {}),
    (outcore.shuffle, _shuffle, "numbers.bin", {"dtype": "u64"}),
    (outcore.shuffle, _shuffle, "array.npy", {}),
    (outcore.open, _open, "lines.txt", {}),
    (outcore.open, _open, "rows.csv", {}),
    (outcore.open, _open, "t.parquet", {}),
    (outcore.open, _open, "array.npy", {}),
    (outcore.lookup, _lookup, "sorted.npy", {}),
    (outcore.sort_view, _sort_view, "lines.txt", {}),
    (outcore.sort_view, _sort_view, "rows.csv", {"csv": True, "by": "a"}),
    (outcore.sort_view, _sort_view, "t.parquet", {"by": "a"}),
    (outcore.sort_view, _sort_view, "array.npy", {}),
    (outcore.table, _table, "rows.csv", {}),
    (outcore.table, _table, "t.parquet", {}),
    (outcore.table, _table, "rows.jsonl", {}),
]


@pytest.mark.parametrize(("function", "run", "src", "base"), CASES)
def test_every_argument_counts_or_is_rejected_by_name(
    files: Path, function: Any, run: Any, src: str, base: dict[str, Any]
) -> None:
    before = run(src, **base)
    silent = []
    for name in inspect.signature(function).parameters:
        if name in ("src", "dst", "values") or name in base:
            continue
        if name not in VALUES:
            assert name in NEUTRAL, f"no sample value for {name}"
            continue
        try:
            after = run(src, **{**base, name: VALUES[name]})
        except outcore.OutcoreError as error:
            if name not in str(error) and name not in NEUTRAL:
                silent.append(f"{name} fails with {error}")
            continue
        finally:
            for left in ("out", "out.csv"):
                Path(left).unlink(missing_ok=True)
        if after == before and name not in NEUTRAL:
            silent.append(f"{name} changes nothing")
    assert not silent, silent


def test_what_files_hold_follows_from_content_and_name(files: Path) -> None:
    outcore.sort("lines.txt", "o.txt")
    assert Path("o.txt").read_bytes() == b"10 x\n9 y\n9 y\na 1\nb 2\n"
    outcore.shuffle("rows.jsonl", "o.jsonl", seed=7)
    assert sorted(Path("o.jsonl").read_bytes().splitlines()) == sorted(
        Path("rows.jsonl").read_bytes().splitlines()
    )
    outcore.shuffle("rows.csv", "o.csv", seed=7)
    assert Path("o.csv").read_bytes().startswith(b"a,b\n")
    outcore.sort("rows.csv", "s.csv", by="a")
    assert Path("s.csv").read_bytes() == b"a,b\n-2,z\n9,y\n9,y\n10,x\n"
    outcore.sort("rows.csv", "t.csv", by="a", csv=True)
    assert Path("t.csv").read_bytes() == b"a,b\n-2,z\n10,x\n9,y\n9,y\n"
    assert isinstance(outcore.open("lines.txt"), outcore.Lines)
    assert isinstance(outcore.open("rows.csv"), outcore.Table)
    assert isinstance(outcore.open("rows.csv", lines=True), outcore.Lines)
    assert isinstance(outcore.open("array.npy"), outcore.Dataset)


def test_the_separator_of_csv_is_found_and_named(files: Path) -> None:
    Path("semi.csv").write_bytes(b"id;price\n2;1,5\n1;2,5\n")
    with pytest.warns(UserWarning, match="`;` between fields; separator="):
        outcore.sort("semi.csv", "o.csv", by="id")
    assert Path("o.csv").read_bytes() == b'id,price\n1,"2,5"\n2,"1,5"\n'
    with pytest.warns(UserWarning, match="`;` between fields"):
        outcore.shuffle("semi.csv", "s.csv")
    with pytest.warns(UserWarning, match="`;` between fields"):
        assert outcore.open("semi.csv", lines=True).head(1, csv=True)[0] == b"id;price"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcore.table("semi.csv", separator=";").write("t.parquet", force=True)
        outcore.table("rows.csv").write("u.parquet")
    with pytest.raises(outcore.UsageError, match="separator cannot be used"):
        outcore.table("t.parquet", separator=";")
    with pytest.raises(outcore.UsageError, match="schema cannot be used"):
        outcore.table("t.parquet", schema={"id": "text"})


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_keys_are_looked_up_in_compressed_text(files: Path, pack: Any) -> None:
    text = b"apple\nbanana\ncherry\n"
    Path("words").write_bytes(pack(text))
    for lines in (True, False):
        ranks = outcore.lookup("words", ["banana", "zebra", "a"], lines=lines)
        assert ranks.tolist() == [1, 3, 0]
