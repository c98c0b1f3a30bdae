"""Detects kinds of files by their content, and checks the names of outputs against it."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcore

KNOWN = {
    "v.parquet": ("Parquet", b"PAR1\x15\x04\x15\0and more\n"),
    "v.arrow": ("Arrow", b"ARROW1\0\0and more\n"),
    "v.txt": ("UTF-16", "a\nb\n".encode("utf-16")),
}


def all_of(lines: outcore.Lines) -> list[bytes]:
    """The lines in iteration order."""
    return [line for batch in lines for line in batch]


def ways(name: str, lines: Any) -> list[Callable[[], Any]]:
    """Every function that takes a file of lines."""
    return [
        lambda: outcore.open(name, lines=lines).sort().write("out", force=True),
        lambda: outcore.open(name, lines=lines).count(),
        lambda: outcore.open(name, lines=lines).sample(2),
        lambda: all_of(outcore.open(name, lines=lines)),
        lambda: outcore.open(name, lines=lines).split("out-{part}", parts=2, force=True),
        lambda: outcore.shuffle(name, "out", lines=lines, force=True),
        lambda: outcore.sort_view(name, "view", lines=lines, force=True),
    ]


@pytest.mark.parametrize("name", KNOWN)
def test_known_formats_are_no_lines_unless_any_are_asked_for(here: Path, name: str) -> None:
    format_name, content = KNOWN[name]
    (here / name).write_bytes(content)
    for way in ways(name, True):
        with pytest.raises(outcore.UsageError, match=f"{format_name}.*not lines") as raised:
            way()
        assert 'lines="any"' in str(raised.value)
    assert [path.name for path in here.iterdir()] == [name]
    for way in ways(name, "any"):
        way()
    assert all_of(outcore.open(name, lines="any")) == content.removesuffix(b"\n").split(b"\n")


def test_binary_data_and_arrays_are_no_lines(here: Path) -> None:
    np.arange(10, dtype="<u8").tofile("v.bin")
    np.save("v.npy", np.arange(10, dtype="<u8"))
    for name, cause in (("v.bin", "NUL bytes"), ("v.npy", r"array of NumPy|\.npy files")):
        for way in ways(name, True):
            with pytest.raises(outcore.UsageError, match=cause):
                way()
        assert outcore.open(name, lines="any").count() > 0
    (here / "names").write_bytes(b"b\0a\0")
    assert all_of(outcore.open("names", lines=True, zero_terminated=True).sort()) == [b"a", b"b"]
    with pytest.raises(outcore.UsageError, match="lines='some'"):
        outcore.open("names", lines="some")  # type: ignore[call-overload]


def test_compressed_lines_are_told_by_content(here: Path) -> None:
    for compress in (gzip.compress, bz2.compress, lzma.compress):
        (here / "packed").write_bytes(compress(b"b\nc\na\n"))
        for way in ways("packed", True):
            way()
        packed = outcore.open("packed", lines=True)
        assert packed.count() == 3
        assert all_of(packed.sort()) == [b"a", b"b", b"c"]
        assert outcore.sort_view("packed", "view", lines=True, force=True)[0] == b"a"
    packed.sort().write("out.bz2")
    packed.sort().write("out.xz")
    assert bz2.decompress((here / "out.bz2").read_bytes()) == b"a\nb\nc\n"
    assert lzma.decompress((here / "out.xz").read_bytes()) == b"a\nb\nc\n"


def test_names_of_outputs_promise_what_they_hold(here: Path) -> None:
    keys = outcore.tabulate(10)
    for name in ("x.parquet", "x.npz", "x.csv", "x.arrow", "x.jsonl"):
        with pytest.raises(outcore.UsageError, match="binary records"):
            keys.write(name)
        with pytest.raises(outcore.UsageError, match="binary records"):
            outcore.gen("u64", name, 10)
    keys.write("x.bin")
    (here / "x.txt").write_bytes(b"b\na\n")
    for name in ("y.parquet", "y.npy", "y.npz"):
        with pytest.raises(outcore.UsageError, match="lines"):
            outcore.open("x.txt", lines=True).sort().write(name)
        with pytest.raises(outcore.UsageError, match="lines"):
            outcore.shuffle("x.txt", name, lines=True)
    with pytest.raises(outcore.UsageError, match="not a placeholder"):
        outcore.sort("x.bin", "y-{drives}.bin", dtype="u64")
    assert sorted(path.name for path in here.iterdir()) == ["x.bin", "x.txt"]
    outcore.open("x.txt", lines=True).sort().write("x.csv")


def test_parts_of_arrays_are_arrays_and_their_names_sort(here: Path) -> None:
    table = np.array([(i, i * i / 2) for i in range(100)], dtype=[("id", "<u4"), ("x", "<f8")])
    np.save("table.npy", table)
    counts = outcore.open("table.npy").partition("id % 11", "part-{part}.npy", 11)
    for part in range(11):
        found = np.load(f"part-{part:02}.npy")
        assert len(found) == counts[part]
        np.testing.assert_array_equal(found, table[table["id"] % 11 == part])
    assert outcore.open("part.npy.outcore.json").count() == 100
    outcore.tabulate(10).map("x % 3").partition("x", "n-{part}.npy", 3)
    assert np.load("n-1.npy").tolist() == [1, 1, 1]
    assert here
