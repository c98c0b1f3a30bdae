"""Generates and verifies: gensort's own checksums, distributions, and every result of verify."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import outcore

#: The output of gensort 1.5 and valsort 1.5 of sortbenchmark.org for 10^6 records.
GENSORT = [
    ({}, "7a0e0d4868cd4"),
    ({"ascii": True}, "7a19cff467438"),
    ({"skewed": True}, "79f9a7e6de673"),
]


@pytest.mark.parametrize(("options", "checksum"), GENSORT)
def test_a_million_gensort_records_keep_the_known_checksum_when_sorted(
    here: Path, options: dict[str, bool], checksum: str
) -> None:
    made = outcore.gen("gensort", "in.bin", 1_000_000, **options)  # type: ignore[arg-type]
    assert made.records == 1_000_000
    assert Path("in.bin").stat().st_size == 100_000_000 <= made.written_bytes
    outcore.sort("in.bin", "out.bin", dtype="gensort", memory="64MiB")
    report = outcore.verify("out.bin", dtype="gensort", against="in.bin", ties=True)
    assert report.ok and report.ordered and report.same_records
    assert report.checksum == report.against_checksum == checksum
    assert report.records == report.against_records == 1_000_000
    lines = str(report).splitlines()
    assert lines[:2] == ["Records: 1000000", f"Checksum: {checksum}"]
    assert lines[-1] == "SUCCESS - all records are in order"


def test_gensort_can_begin_at_any_record(here: Path) -> None:
    outcore.gen("gensort", "all.bin", 100)
    outcore.gen("gensort", "end.bin", 40, first=60)
    assert Path("all.bin").read_bytes()[6000:] == Path("end.bin").read_bytes()
    outcore.gen("gensort", "far.bin", 1, first=1 << 100)
    with pytest.raises(outcore.UsageError, match="are for the records of gensort"):
        outcore.gen("u64", "x.bin", 1, skewed=True)


def test_records_depend_on_the_seed_and_not_on_threads(here: Path) -> None:
    outcore.gen("f64", "a", 100_000, dist="exponential:2", seed=3, threads=1)
    outcore.gen("f64", "b", 100_000, dist="exponential:2", seed=3, threads=2)
    outcore.gen("f64", "c", 100_000, dist="exponential:2", seed=4)
    assert Path("a").read_bytes() == Path("b").read_bytes() != Path("c").read_bytes()
    assert np.fromfile("a", "<f8").mean() == pytest.approx(0.5, rel=0.05)


def test_generated_npy_arrays_are_what_numpy_reads(here: Path) -> None:
    outcore.gen("i32", "a.npy", 1000, dist="sorted")
    numbers = np.load("a.npy")
    assert numbers.dtype == np.int32 and (np.diff(numbers) >= 0).all()
    dtype = np.dtype([("key", "<u2"), ("rest", "V6")])
    outcore.gen(dtype, "s.npy", 1000, dist="uniform:10")
    records = np.load("s.npy")
    assert records.dtype == dtype and set(records["key"].tolist()) == set(range(10))


def test_verify_answers_what_is_wrong_and_where(here: Path) -> None:
    np.array([1, 2, 2, 5, 4, 4, 9], "<u4").tofile("a.bin")
    report = outcore.verify("a.bin", dtype="u32")
    assert not report.ok and not report.ordered
    assert (report.unordered, report.first_unordered, report.duplicate_keys) == (1, 4, 2)
    assert "First unordered record is record 4" in str(report)
    np.array([9, 5, 4, 4, 2, 2, 1], "<u4").tofile("b.bin")
    report = outcore.verify("b.bin", dtype="u32", descending=True, against=["a.bin"])
    assert report.ok and report.same_records
    assert not outcore.verify("b.bin", dtype="u32", descending=True, unique=True).ok
    np.array([9, 5, 4, 4, 2, 2, 2], "<u4").tofile("c.bin")
    report = outcore.verify("c.bin", dtype="u32", descending=True, against="b.bin")
    assert report.ordered and report.same_records is False and not report.ok


def test_verify_looks_at_tables_and_rejects_what_is_not_for_them(here: Path) -> None:
    Path("t.csv").write_text("a,b\n2,x\n1,y\n1,z\n", encoding="ascii")
    outcore.sort("t.csv", "t.parquet", by="a")
    report = outcore.verify("t.parquet", by="a", against="t.csv")
    assert report.ok and report.ordered and report.same_records and report.records == 3
    assert report.duplicate_keys == 1 and "in order" in str(report)
    assert not outcore.verify("t.parquet", by="a:desc").ok
    assert outcore.verify("t.parquet").ordered is None
    assert not outcore.verify("t.parquet", by="a", unique=True).ok
    with pytest.raises(outcore.UsageError, match="ties"):
        outcore.verify("t.parquet", by="a", ties=True)
    with pytest.raises(outcore.UsageError, match="by"):
        outcore.verify("t.parquet", dtype="u64", by="a")


def test_verify_takes_a_dtype_with_fields_and_names_of_any_bytes(here: Path) -> None:
    rows = np.array([(1, b"b"), (1, b"c"), (2, b"a")], dtype=[("id", "<u4"), ("name", "S2")])
    rows.tofile("rows.bin")
    assert outcore.verify("rows.bin", dtype=rows.dtype, key=["id", "name:desc"]).unordered == 1
    assert outcore.verify("rows.bin", dtype=rows.dtype, key="id").ok
    odd = os.fsdecode(b"odd-\xff.bin")
    os.rename("rows.bin", odd)
    report = outcore.verify(odd, record=(6, "0:4:u32"), record_io=odd + ".io")
    assert report.io_trace is not None and os.path.samefile(report.io_trace.path, odd + ".io")


def test_verify_reads_several_files_as_one(here: Path) -> None:
    np.arange(10, dtype="<u4").tofile("a.bin")
    np.arange(10, 20, dtype="<u4").tofile("b.bin")
    assert outcore.verify(["a.bin", Path("b.bin")], dtype="u32").ok
    assert outcore.verify(iter(["b.bin", "a.bin"]), dtype="u32").unordered == 1
