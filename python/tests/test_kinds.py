"""Kinds of files as the command determines them, and arguments that do not apply to a kind.

Every argument of every function that takes files of several kinds changes the result, is rejected by its name, or is
neutral with a stated reason.
"""

from __future__ import annotations

import bz2
import gzip
import inspect
import json
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import outcore
import pytest

#: Arguments that change no result, with the reason.
NEUTRAL = {
    "memory": "how much memory may be used, not the result",
    "threads": "how many threads run, not the result",
    "drives": "where scratch goes",
    "io": "how files are read, not the result",
    "scratch_limit": "how much scratch may be used",
    "force": "whether an existing file may be replaced, and no file exists",
    "replace": "whether an input may be the output, and it is not",
    "resume": "how a killed run continues, not the result",
    "verify_output": "checks the result",
    "progress": "reports how far the job is",
    "checksum": "is reported, and changes no output",
    "record_io": "records the I/O of the run in a file of its own",
    "explain": "prints the plan",
    "volume": "where datasets are",
    "union": "a single file lacks no column",
    "infer": "a table is written as the lines were",
    "group_rows": "how many rows are stored together, not their values",
    "bloom": "how fast a value is found",
    "run_size": "how a view is cut, not its contents",
    "parts": "how many files there are",
    "jsonl": "names the kind that the file has anyway",
    "fastq": "names the kind that the file has anyway",
}

VALUES: dict[str, Any] = {
    "by": "a",
    "columns": ["a"],
    "union": True,
    "codec": "snappy",
    "schema": {"a": "f64"},
    "null": "9",
    "infer": True,
    "group_rows": 2,
    "bloom": "a",
    "jsonl": True,
    "fastq": True,
    "count": 2,
    "dtype": "uint8",
    "record": 1,
    "key": "0:4",
    "lines": True,
    "csv": True,
    "separator": ";",
    "header": False,
    "header_lines": 1,
    "comment": "b 2",
    "order": "r",
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
    "resume": True,
    "verify_output": True,
    "checksum": True,
    "record_io": "new.iotrace",
    "explain": True,
}

NUMBERS = [300, 7, 300, 5, 1 << 40, 9, 77, 2]
ROWS = [(10, "x"), (9, "z"), (9, "y"), (9, "y"), (-2, "z"), (31, "c"), (4, "d"), (100, "e")]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_bytes(b"b 2\na 1\n10 x\n1 x\n9 y\n9 y\n")
    Path("sorted.txt").write_bytes(b"1 x\n10 x\n9 y\n9 y\na 1\nb 2\n")
    Path("rows.csv").write_bytes(b"a,b\n" + b"".join(b"%d,%s\n" % (a, b.encode()) for a, b in ROWS))
    # Column `a` is the second one when split at commas, and the first one when split at semicolons.
    Path("two.csv").write_bytes(b"a;,a\n3;,1\n1;,2\n2;,3\n")
    # Only after a comma does the quote begin a field.
    Path("quoted.csv").write_bytes(b'a;,a\n3;,"x\ny"\n' + b"5;,6\n" * 9)
    Path("short.csv").write_bytes(b"b,a\nx,10\ny\nz,9\n")
    rows = "".join(json.dumps({"a": a, "b": b}) + "\n" for a, b in ROWS)
    Path("rows.jsonl").write_text(rows)
    Path("short.jsonl").write_text(rows + "{\n" + "[]\n")
    Path("ended.jsonl").write_bytes(b'{"a":2}\0{"a":1}\0')
    Path("numbers.bin").write_bytes(numpy.array(NUMBERS, "<u8").tobytes())
    numpy.save("array.npy", numpy.array(NUMBERS, "<u8"))
    numpy.save("fields.npy", numpy.array([(1, 9), (2, 3), (3, 7)], [("b", "<u4"), ("a", "<u4")]))
    numpy.save("sorted.npy", numpy.sort(numpy.array(NUMBERS, "<u8")))
    outcore.convert("rows.csv", "t.parquet")
    return tmp_path


def _sort(src: str, **options: Any) -> Any:
    by = str(options.get("by") or ".")
    is_by_column = not by.startswith(".") and not options.get("csv") and not src.endswith(".npy")
    makes_table = {"columns", "codec", "schema", "null", "infer"} & options.keys()
    is_table = (is_by_column or bool(makes_table)) and not {"lines", "dtype", "record"} & options.keys()
    out = _output(src, True) if is_table and not src.endswith(".npy") else "out"
    outcore.sort(src, out, **options)
    return _taken(out)


def _shuffle(src: str, **options: Any) -> Any:
    makes_table = {"by", "columns", "codec", "schema", "null"} & options.keys()
    out = "out" if options.get("lines") else _output(src, bool(makes_table))
    outcore.shuffle(src, out, **options)
    return _taken(out)


def _output(src: str, is_table: bool) -> str:
    """A name for the result, for functions that need one."""
    if src.endswith(".parquet"):
        return "out.parquet"
    return "out.csv" if is_table else "out"


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
    opened.sort().write("out")
    return _taken("out")


def _lookup(src: str, **options: Any) -> Any:
    is_text = src.endswith("txt") and "dtype" not in options
    values: Any = ["9 y", "b"] if is_text else [9, 200]
    ranks = outcore.lookup(src, values, **options).tolist()
    made = Path("new.index").exists()
    Path("new.index").unlink(missing_ok=True)
    return ranks, made


def _sort_view(src: str, **options: Any) -> Any:
    view: Any = outcore.sort_view(src, "out.view", force=True, **options)
    rows = [view[place] for place in range(len(view))]
    Path("new.iotrace").unlink(missing_ok=True)
    return repr(rows), type(view)


def _table(src: str, **options: Any) -> Any:
    outcore.table(src, **options).write("out.csv")
    return _taken("out.csv")


def _outcome(run: Any, src: str, options: dict[str, Any]) -> Any:
    """The result of a function, or its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run(src, **options)
    except outcore.OutcoreError as error:
        return str(error)
    finally:
        for left in ("out", "out.csv", "out.parquet"):
            Path(left).unlink(missing_ok=True)


def _is_named(name: str, error: str) -> bool:
    """Whether an error names an argument and not the contents of files."""
    said = rf"\b{name}( cannot be used|=| out\b)|cannot be used with {name}\b"
    return bool(re.search(said, error))


@dataclass
class Other:
    """A replacement for parts of the case when an argument is tried."""

    #: A file of the same kind on which the argument has an effect.
    src: str | None = None
    base: dict[str, Any] | None = None
    value: Any = None


@dataclass
class Case:
    """A function and a kind of file."""

    function: Any
    run: Any
    src: str
    base: dict[str, Any]
    others: dict[str, Other] = field(default_factory=dict)
    #: Arguments that change no result here, with the reason.
    neutral: dict[str, str] = field(default_factory=dict)


IS_LINES = {"lines": "names the kind that the file has anyway"}
IS_CSV = {"csv": "names the kind that the file has anyway"}
SEED = {"seed": "chooses samples, the first drive and the order of R"}
#: With a type, files are records, and the numbers of the samples have no fields.
OF_FIELDS = {name: "`by` names a field of records, and the error says that there is none" for name in ("dtype", "by")}
IS_RECORDS = {name: "makes records of any file" for name in ("dtype", "record")}
NO_KEY = {"key": "no key takes part in a shuffle"}
SHAPE = {"record": "the header says how long a record is, and another length is an error"}

OF_LINES = {
    "key": Other(value="2,2"),
    "separator": Other(base={"key": "2,2"}),
    "stable": Other(base={"key": "2,2"}),
}
OF_CSV = {
    "separator": Other(src="two.csv"),
    "header": Other(base={"csv": True, "by": "1"}),
    "on_error": Other(src="short.csv"),
}
OF_CSV_TABLES = {"separator": Other(src="two.csv"), "on_error": Other(src="short.csv")}
OF_JSON = {
    "columns": Other(base={"by": "a"}),
    "codec": Other(base={"by": "a"}),
    "schema": Other(base={"by": "a"}),
    "csv": Other(base={"by": "1"}),
    "on_error": Other(src="short.jsonl"),
    "zero_terminated": Other(src="ended.jsonl"),
}
#: Positions at which all records of the sample are equal.
OF_RECORDS = {"stable": Other(base={"record": (8, "7:1")})}
OF_ARRAYS = {**OF_RECORDS, "record": Other(value=8), "by": Other("fields.npy")}

CASES = [
    Case(outcore.sort, _sort, "lines.txt", {}, OF_LINES, {**IS_LINES, **SEED}),
    Case(outcore.sort, _sort, "rows.csv", {"csv": True, "by": "a"}, OF_CSV, {**IS_LINES, **SEED}),
    Case(outcore.sort, _sort, "rows.jsonl", {"by": ".a"}, OF_JSON, {**IS_LINES, **SEED, **OF_FIELDS}),
    Case(outcore.sort, _sort, "rows.csv", {"by": "a"}, {**OF_CSV_TABLES, "header": Other(base={"infer": True})}, {**SEED, **OF_FIELDS}),
    Case(outcore.sort, _sort, "t.parquet", {"by": "a"}, neutral={**SEED, **OF_FIELDS}),
    Case(outcore.sort, _sort, "numbers.bin", {"dtype": "u64"}, OF_RECORDS, SEED),
    Case(outcore.sort, _sort, "array.npy", {}, OF_ARRAYS, {**SEED, **OF_FIELDS}),
    Case(outcore.shuffle, _shuffle, "lines.txt", {}, neutral=IS_LINES),
    Case(outcore.shuffle, _shuffle, "rows.csv", {}, {"separator": Other("quoted.csv")}, IS_CSV),
    Case(outcore.shuffle, _shuffle, "rows.jsonl", {}, neutral=IS_LINES),
    Case(outcore.shuffle, _shuffle, "t.parquet", {}, neutral=IS_RECORDS),
    Case(outcore.shuffle, _shuffle, "numbers.bin", {"dtype": "u64"}),
    Case(outcore.shuffle, _shuffle, "array.npy", {}, OF_ARRAYS, {**SHAPE, **NO_KEY}),
    Case(outcore.open, _open, "lines.txt", {}, neutral=IS_LINES),
    Case(outcore.open, _open, "rows.csv", {}),
    Case(outcore.open, _open, "rows.jsonl", {}),
    Case(outcore.open, _open, "t.parquet", {}),
    Case(outcore.open, _open, "array.npy", {}, OF_ARRAYS),
    Case(outcore.lookup, _lookup, "sorted.txt", {}, neutral=IS_LINES),
    Case(outcore.lookup, _lookup, "sorted.npy", {}),
    Case(outcore.sort_view, _sort_view, "lines.txt", {}, OF_LINES, IS_LINES),
    Case(outcore.sort_view, _sort_view, "rows.csv", {"csv": True, "by": "a"}, OF_CSV, IS_LINES),
    Case(outcore.sort_view, _sort_view, "rows.jsonl", {"by": ".a"}, OF_JSON, IS_LINES),
    Case(outcore.sort_view, _sort_view, "t.parquet", {"by": "a"}),
    Case(outcore.sort_view, _sort_view, "array.npy", {}, OF_ARRAYS),
    Case(outcore.table, _table, "rows.csv", {}, OF_CSV_TABLES),
    Case(outcore.table, _table, "t.parquet", {}),
    Case(outcore.table, _table, "rows.jsonl", {}, {"on_error": Other("short.jsonl")}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.function.__name__}-{case.src}")
def test_every_argument_counts_or_is_rejected_by_name(files: Path, case: Case) -> None:
    assert not isinstance(_outcome(case.run, case.src, case.base), str)
    neutral = {**NEUTRAL, **case.neutral}
    silent = []
    for name in inspect.signature(case.function).parameters:
        if name in ("src", "dst", "values") or name in case.base:
            continue
        if name not in VALUES:
            assert name in NEUTRAL, f"no sample value for {name}"
            continue
        other = case.others.get(name, Other())
        src = other.src or case.src
        base = case.base if other.base is None else other.base
        value = VALUES[name] if other.value is None else other.value
        before = _outcome(case.run, src, base)
        after = _outcome(case.run, src, {**base, name: value})
        if isinstance(after, str):
            if not _is_named(name, after) and name not in neutral:
                silent.append(f"{name} fails with {after}")
        elif after == before and name not in neutral:
            silent.append(f"{name} changes nothing")
    assert not silent, "\n".join(silent)


def test_what_files_hold_follows_from_content_and_name(files: Path) -> None:
    Path("rows.csv").write_bytes(b"a,b\n10,x\n9,y\n9,y\n-2,z\n")
    outcore.sort("lines.txt", "o.txt")
    assert Path("o.txt").read_bytes() == b"1 x\n10 x\n9 y\n9 y\na 1\nb 2\n"
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


def test_a_codec_without_a_file_to_write_is_rejected(files: Path) -> None:
    with pytest.raises(outcore.UsageError, match="codec cannot be used without dst"):
        outcore.sort("t.parquet", by="a", codec="zstd")
    for job in (outcore.dedup, outcore.unique):
        with pytest.raises(outcore.UsageError, match="codec cannot be used without dst"):
            job("t.parquet", by="a", codec="zstd")


def test_arguments_that_contradict_one_another_are_both_named(files: Path) -> None:
    with pytest.raises(outcore.UsageError, match="lines cannot be used with dtype: lines is for lines"):
        outcore.open("lines.txt", lines=True, dtype="u64")
    with pytest.raises(outcore.UsageError, match="dtype cannot be used with tables"):
        outcore.open("t.parquet", dtype="u64")
    with pytest.raises(outcore.UsageError, match="zero_terminated cannot be used with .npy files"):
        outcore.lookup("sorted.npy", [9], zero_terminated=True)
