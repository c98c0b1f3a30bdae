"""Failures: the right class, one line with cause, place and next step, and nothing left behind."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcore

Refused = tuple[Callable[[], Any], type[outcore.OutcoreError], str]


def sort(*args: Any, **options: Any) -> Callable[[], Any]:
    """Tries a sort."""
    return lambda: outcore.sort(*args, **options)


REFUSED: dict[str, Refused] = {
    "unknown type": (sort("in", "out", dtype="u65"), outcore.UsageError, "unknown type `u65`"),
    "no type": (sort("in", "out"), outcore.UsageError, r'would suit dtype="u32" \(2,000 records\)'),
    "a type that means two things": (
        sort("in", "out", dtype="i8"), outcore.UsageError, "write int8 or int64",
    ),
    "objects": (sort("in", "out", dtype=object), outcore.UsageError, "holds Python objects"),
    "long doubles": (
        sort("in", "out", dtype=np.longdouble), outcore.UsageError, "have no order; give the position of the key",
    ),
    "no dtype": (sort("in", "out", dtype=3.5), outcore.UsageError, "read dtype: "),
    "fields out of order": (
        sort("in", "out", dtype=np.dtype({"names": ["a", "b"], "formats": ["<u2", "<u2"],
                                          "offsets": [2, 0]})),
        outcore.UsageError, "in the record's order",
    ),
    "dtype and record": (
        sort("in", "out", dtype="u64", record=(8, "0:8")), outcore.UsageError, "cannot be used with",
    ),
    "a key that is none": (
        sort("in", "out", record=(8, 3)), outcore.UsageError, "3 is not text",
    ),
    "a key beyond the record": (
        sort("in", "out", record=(8, "4:8")), outcore.UsageError, "4:8",
    ),
    "a field that is not there": (
        sort("in", "out", dtype=[("pos", "<u8")], key="poss"), outcore.UsageError,
        "did you mean `pos`",
    ),
    "a key beside a bare type": (
        sort("in", "out", dtype="u64", key="0:4"), outcore.UsageError, "defines its own key",
    ),
    "key without a type": (
        sort("in", "out", key="0:4"), outcore.UsageError, "pass the length of a record",
    ),
    "records that are cut": (
        sort("in", "out", record=(7, "0:7")), outcore.UsageError, "left over",
    ),
    "no input": (sort([], "out", dtype="u64"), outcore.UsageError, "no input given"),
    "missing input": (
        sort("nowhere", "out", dtype="u64"), outcore.NotFoundError, r"\(nowhere\); check the path",
    ),
    "a directory as input": (
        sort("dir", "out", dtype="u64"), outcore.UsageError, "the directory is empty",
    ),
    "a pipe as input": (sort("pipe", "out", dtype="u64"), outcore.UsageError, "is a stream"),
    "a pipe as output": (
        sort("in", "pipe", dtype="u64"), outcore.UsageError, "is not a regular file",
    ),
    "a directory as output": (
        sort("in", "dir", dtype="u64"), outcore.UsageError, "is a directory",
    ),
    "output exists": (
        sort("in", "other", dtype="u64"), outcore.UsageError,
        r"it exists already \(other\); allow overwriting with force=True",
    ),
    "output is an input": (
        sort("in", "in", dtype="u64", force=True), outcore.UsageError, "with replace=True",
    ),
    "output is an input by another name": (
        sort("in", "link", dtype="u64", force=True), outcore.UsageError, "one of the inputs",
    ),
    "nothing to replace": (
        sort("in", "other", dtype="u64", force=True, replace=True), outcore.UsageError,
        "not one of the inputs",
    ),
    "output nowhere": (
        sort("in", "no/where", dtype="u64"), outcore.NotFoundError, "make the directory first",
    ),
    "a drive that is none": (
        sort("in", "out", dtype="u64", drives="in"), outcore.UsageError, "not a directory",
    ),
    "shards without drives": (
        sort("in", "{drive}", dtype="u64"), outcore.UsageError, "needs drives",
    ),
    "too little memory": (
        sort("in", "out", dtype="u64", memory="4KiB"), outcore.MemoryBudgetError,
        "allow at least memory=",
    ),
    "an unclear size": (
        sort("in", "out", dtype="u64", memory="2G"), outcore.UsageError, "2GiB",
    ),
    "a negative size": (sort("in", "out", dtype="u64", memory=-1), outcore.UsageError, "at least 0"),
    "no threads": (sort("in", "out", dtype="u64", threads=0), outcore.UsageError, "0 is not a valid number"),
    "half a thread": (
        sort("in", "out", dtype="u64", threads=0.5), outcore.UsageError, "not a whole number",
    ),
    "too large a seed": (
        sort("in", "out", dtype="u64", seed=1 << 64), outcore.UsageError, "out of range",
    ),
    "a flag that is a text": (
        sort("in", "out", dtype="u64", descending="no"), outcore.UsageError,
        "descending='no' is neither True nor False",
    ),
    "an order per column as pandas takes it": (
        sort("in", "out", dtype="u64", descending=[True, False]), outcore.UsageError,
        r'by=\["price:desc", "country"\]',
    ),
    "a permission that is a text": (
        sort("in", "other", dtype="u64", force="yes"), outcore.UsageError, "give force=True or force=False",
    ),
    "a flag of a dataset that is a number": (
        lambda: outcore.open("in", dtype="u64").sort(stable=1), outcore.UsageError, "stable=1 is neither",
    ),
    "a flag of lines that is a text": (
        lambda: outcore.open("in", lines="yes"), outcore.UsageError, 'give True, False or "any"',
    ),
    "a number as a condition": (
        lambda: outcore.find("in", "5", dtype="u64"), outcore.UsageError, "expected a truth value, found i64",
    ),
    "a difference of truth values as a condition": (
        lambda: outcore.filter("in", "(x > 3) - (x > 2)", "out", dtype="u64"),
        outcore.UsageError, "expected a truth value, found u8",
    ),
    "two expressions for find": (
        lambda: outcore.find("in", "x > 3) or (x > 2", dtype="u64"),
        outcore.UsageError, "an operator is missing",
    ),
    "files to merge that are not sorted": (
        lambda: outcore.merge("large", "out", dtype="u64"), outcore.CorruptError,
        r"comes before record .* in the order of u64 \(large\); sort this file first",
    ),
    "vectors in a text": (
        lambda: outcore.convert_vectors("u2.npy", "v.txt"), outcore.UsageError, r"vectors cannot be written as \.txt",
    ),
    "unknown way of I/O": (
        sort("in", "out", dtype="u64", io="fast"), outcore.UsageError, "known modes: auto",
    ),
    "progress that cannot be called": (
        sort("in", "out", dtype="u64", progress=3), outcore.UsageError, "neither True nor a function",
    ),
    "too little scratch": (
        sort("large", "out", dtype="u64", memory="4MiB", threads=1, scratch_limit="1MiB"),
        outcore.NoSpaceError, "raise scratch_limit=",
    ),
    "an array that is cut": (
        sort("cut.npy", "out"), outcore.CorruptError, r"is a file of .*cut\.npy.*complete",
    ),
    "an array of another type": (
        sort("u2.npy", "out", dtype="u32"), outcore.UsageError, "its header says u16, not u32",
    ),
    "a manifest that is broken": (
        sort("x.outcore.json", "out", dtype="u64"), outcore.CorruptError, "sort again",
    ),
    "an unknown distribution": (
        lambda: outcore.gen("u64", "out", 1, dist="odd"), outcore.UsageError, "zipf:S",
    ),
    "too many records": (
        lambda: outcore.gen("u64", "out", 1 << 62), outcore.UsageError, "smaller count",
    ),
    "a negative count": (
        lambda: outcore.gen("u64", "out", -1), outcore.UsageError, "at least 0",
    ),
    "a key in a bare number": (
        lambda: outcore.verify("in", dtype="u64", key="x"), outcore.UsageError, "defines its own key",
    ),
}


@pytest.fixture
def files(here: Path) -> Path:
    """A folder with files of all sorts."""
    np.arange(1000, dtype="<u8").tofile("in")
    Path("other").write_bytes(b"precious")
    Path("link").symlink_to("in")
    Path("dir").mkdir()
    os.mkfifo("pipe")
    outcore.gen("u64", "large", 1 << 20)
    np.save("cut.npy", np.arange(100))
    os.truncate("cut.npy", 500)
    np.save("u2.npy", np.arange(100, dtype="<u2"))
    Path("x.outcore.json").write_text("{")
    return here


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_request_is_refused_by_name_and_leaves_nothing(files: Path, name: str) -> None:
    attempt, kind, text = REFUSED[name]
    before = {path.name: path.lstat().st_mtime_ns for path in files.iterdir()}
    with pytest.raises(kind, match=text) as caught:
        attempt()
    assert {path.name: path.lstat().st_mtime_ns for path in files.iterdir()} == before
    assert Path("other").read_bytes() == b"precious"
    error = caught.value
    assert "\n" not in str(error)
    assert type(error) is kind
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error) and vars(again) == vars(error)


def test_an_error_tells_all_that_is_known(files: Path) -> None:
    with pytest.raises(outcore.OutcoreError) as caught:
        outcore.sort("nowhere", "out", dtype="u64")
    error = caught.value
    assert (error.kind, error.exit_code, error.operation) == ("io", 3, "open input")
    assert (error.path, error.errno, error.hint) == ("nowhere", 2, "check the path")
    assert error.drive is None and error.offset is None
    # Code that knows nothing of outcore catches these classes.
    assert isinstance(error, FileNotFoundError)
    assert error.filename == "nowhere" and error.strerror == error.cause
    with pytest.raises(ValueError, match="unknown type") as wrong:
        outcore.sort("in", "out", dtype="u65")
    assert isinstance(wrong.value, outcore.UsageError)
    assert (wrong.value.kind, wrong.value.exit_code) == ("usage", 2)
    with pytest.raises(MemoryError) as little:
        outcore.sort("in", "out", dtype="u64", memory=1)
    assert isinstance(little.value, outcore.MemoryBudgetError)
    assert (little.value.kind, little.value.exit_code) == ("memory", 6)


def test_a_folder_that_may_not_be_written_is_named(files: Path) -> None:
    Path("dir").chmod(0o500)
    # Root may write everywhere, but cannot create folders in the kernel's file systems.
    place = "dir" if os.geteuid() != 0 else "/sys"
    with pytest.raises(outcore.IoError, match=place) as caught:
        outcore.sort("in", f"{place}/out", dtype="u64")
    is_denied = caught.value.errno in (errno.EACCES, errno.EPERM)
    assert isinstance(caught.value, PermissionError) is is_denied
    assert isinstance(caught.value, outcore.AccessError) is is_denied
    assert caught.value.kind == "io"


def test_an_unknown_variable_is_warned_of_once_and_stops_nothing(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTCORE_MEMROY", "1GiB")
    with pytest.warns(UserWarning, match="did you mean `OUTCORE_MEMORY`"):
        outcore.sort("in", "out", dtype="u64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcore.sort("in", "out", dtype="u64", force=True)


def test_numpy_is_needed_only_for_dtypes_that_are_no_text(files: Path) -> None:
    program = """
import sys
import warnings
sys.modules["numpy"] = None
import outcore
outcore.sort("in", "out", dtype="<u8")
outcore.sort("u2.npy", "out2")
try:
    outcore.sort("in", "out3", dtype=float)
except outcore.UsageError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "install NumPy, or name the type in text" in done.stdout
    assert Path("out").stat().st_size == Path("in").stat().st_size
