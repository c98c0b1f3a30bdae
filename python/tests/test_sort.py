"""Sorting: compares every type and option with the naive oracle and with NumPy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import Records, same_bytes, sorted_records

import outcore

RNG_SEED = 20251121
NUMBERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]
MEMORY = "24MiB"


def random_numbers(dtype: np.dtype[Any], count: int) -> Records:
    """Numbers with all bit patterns, and with many copies of a few special ones."""
    rng = np.random.default_rng(RNG_SEED)
    numbers = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
    if dtype.kind == "f":
        odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.5], dtype)
    else:
        facts = np.iinfo(dtype)
        odd = np.array([0, 1, facts.min, facts.max], dtype)
    numbers[:: 3] = rng.choice(odd, len(numbers[:: 3]))
    return numbers


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("code", NUMBERS)
def test_numbers_of_every_dtype_are_sorted_as_the_oracle_says(
    here: Path, code: str, order: str
) -> None:
    dtype = np.dtype(order + code)
    numbers = random_numbers(dtype, 5000)
    numbers.tofile("in.bin")
    for descending in (False, True):
        summary = outcore.sort(
            "in.bin", "out.bin", dtype=dtype, descending=descending, force=True, memory=MEMORY
        )
        assert summary.records == len(numbers)
        wanted = sorted_records(numbers, descending=descending)
        assert same_bytes(np.fromfile("out.bin", dtype), wanted)


@pytest.mark.parametrize("code", ["i4", "u8", "f4", "f8"])
def test_numpy_sorts_the_same(here: Path, code: str) -> None:
    rng = np.random.default_rng(RNG_SEED)
    numbers = (rng.standard_normal(300_000) * 1e6).astype(code)
    numbers.tofile("in.bin")
    outcore.sort("in.bin", "out.bin", dtype=code if code != "u8" else "uint64", memory=MEMORY)
    np.testing.assert_array_equal(np.fromfile("out.bin", code), np.sort(numbers))


@pytest.mark.parametrize(
    "dtype",
    ["f32", "float32", "<f4", "=f4", "f4", np.float32, np.dtype("f4"), np.dtype("<f4").type],
)
def test_a_type_can_be_named_in_every_way(here: Path, dtype: Any) -> None:
    numbers = random_numbers(np.dtype("<f4"), 1000)
    numbers.tofile("in.bin")
    outcore.sort("in.bin", "out.bin", dtype=dtype)
    assert same_bytes(np.fromfile("out.bin", "<f4"), sorted_records(numbers))


def test_u128_is_known_though_numpy_lacks_it(here: Path) -> None:
    data = np.random.default_rng(RNG_SEED).bytes(16 * 2000)
    Path("in.bin").write_bytes(data)
    outcore.sort("in.bin", "out.bin", dtype="u128")
    numbers = [int.from_bytes(data[at : at + 16], "little") for at in range(0, len(data), 16)]
    wanted = b"".join(number.to_bytes(16, "little") for number in sorted(numbers))
    assert Path("out.bin").read_bytes() == wanted


STRUCT = np.dtype([("id", "<u4"), ("price", "<f8"), ("name", "S3"), ("at", "<M8[s]")])


def random_structs(count: int) -> Records:
    rng = np.random.default_rng(RNG_SEED)
    records = np.zeros(count, STRUCT)
    records["id"] = rng.integers(0, 40, count)
    records["price"] = rng.choice([0.0, -0.0, 2.5, np.nan, -np.inf, 7.25], count)
    records["name"] = rng.choice([b"", b"a", b"ab", b"\xff"], count)
    records["at"] = rng.integers(-9, 9, count).astype("M8[s]")
    return records


@pytest.mark.parametrize(
    "key",
    [None, "price", ["name", "id:desc"], ["at:desc", "price:desc"], ["id", "name", "price"]],
)
@pytest.mark.parametrize("options", [{}, {"descending": True}, {"stable": True}])
def test_structs_are_sorted_by_the_fields_that_are_named(
    here: Path, key: Any, options: dict[str, bool]
) -> None:
    records = random_structs(3000)
    records.tofile("in.bin")
    outcore.sort("in.bin", "out.bin", dtype=STRUCT, key=key, memory=MEMORY, **options)  # type: ignore[arg-type]
    names = list(STRUCT.names or ()) if key is None else [key] if isinstance(key, str) else key
    keys = [(name.removesuffix(":desc"), name.endswith(":desc")) for name in names]
    wanted = sorted_records(records, keys, **options)
    assert same_bytes(np.fromfile("out.bin", STRUCT), wanted)


def test_lexsort_gives_the_same_structs(here: Path) -> None:
    records = random_structs(100_000)
    records["price"] = np.arange(len(records))
    records.tofile("in.bin")
    outcore.sort("in.bin", "out.bin", dtype=STRUCT, key=["name", "id"], stable=True, memory=MEMORY)
    wanted = records[np.lexsort((records["id"], records["name"]))]
    assert same_bytes(np.fromfile("out.bin", STRUCT), wanted)


def test_one_record_a_key_is_kept(here: Path) -> None:
    records = random_structs(3000)
    records.tofile("in.bin")
    summary = outcore.sort("in.bin", "out.bin", dtype=STRUCT, key="id", unique=True)
    wanted = sorted_records(records, [("id", False)], unique=True)
    assert same_bytes(np.fromfile("out.bin", STRUCT), wanted)
    assert summary.records == len(wanted) == 40


def test_padding_of_an_aligned_struct_is_carried(here: Path) -> None:
    dtype = np.dtype([("a", "u1"), ("b", "<u4"), ("c", "<u2")], align=True)
    raw = np.random.default_rng(RNG_SEED).bytes(dtype.itemsize * 2000)
    Path("in.bin").write_bytes(raw)
    outcore.sort("in.bin", "out.bin", dtype=dtype, key="b")
    size = dtype.itemsize
    split = [raw[at : at + size] for at in range(0, len(raw), size)]
    split.sort(key=lambda one: (int.from_bytes(one[4:8], "little"), one))
    assert Path("out.bin").read_bytes() == b"".join(split)


def test_records_are_sorted_by_keys_that_are_named_by_place(here: Path) -> None:
    raw = np.random.default_rng(RNG_SEED).bytes(24 * 3000)
    Path("in.bin").write_bytes(raw)
    split = [raw[at : at + 24] for at in range(0, len(raw), 24)]
    split.sort()
    split.sort(key=lambda one: int.from_bytes(one[4:6], "big"), reverse=True)
    wanted = b"".join(split)
    for record, key in [
        ((24, "4:2:u16be:desc"), None),
        ((24, ["4:2:u16be:desc"]), None),
        (24, "4:2:u16be:desc"),
        ((24, "4:1:desc"), ["5:1:desc"]),
    ]:
        outcore.sort("in.bin", "out.bin", record=record, key=key, force=True)  # type: ignore[arg-type]
        assert Path("out.bin").read_bytes() == wanted
    outcore.sort("in.bin", "out.bin", dtype="24/4:2:u16be:desc", force=True)
    assert Path("out.bin").read_bytes() == wanted


def test_an_npy_array_stays_one_and_needs_no_type(here: Path) -> None:
    numbers = random_numbers(np.dtype(">i4"), 5000)
    np.save("in.npy", numbers)
    outcore.sort("in.npy", "out.npy")
    assert same_bytes(np.load("out.npy"), sorted_records(numbers))
    outcore.sort(["in.npy", "out.npy"], "both.npy", dtype=">i4")
    assert same_bytes(np.load("both.npy"), sorted_records(np.tile(numbers, 2)))
    outcore.sort("in.npy", "raw.bin")
    assert same_bytes(np.fromfile("raw.bin", ">i4"), sorted_records(numbers))


def test_rows_of_a_two_dimensional_array_are_records(here: Path) -> None:
    rows = np.random.default_rng(RNG_SEED).integers(-2, 3, (4000, 5)).astype("<f4")
    np.save("in.npy", rows)
    outcore.sort("in.npy", "out.npy", memory=MEMORY)
    wanted = rows[np.lexsort(rows.T[::-1])]
    np.testing.assert_array_equal(np.load("out.npy"), wanted)
    rows.tofile("in.bin")
    for dtype in ("f32x5", np.dtype(("<f4", 5)), np.dtype(("<f4", (5, 1)))):
        outcore.sort("in.bin", "out.npy", dtype=dtype, force=True)
        np.testing.assert_array_equal(np.load("out.npy").reshape(-1, 5), wanted)


def test_names_of_fields_survive_from_dtype_to_npy(here: Path) -> None:
    records = random_structs(500)
    records.tofile("in.bin")
    outcore.sort("in.bin", "out.npy", dtype=STRUCT, key="at")
    assert same_bytes(np.load("out.npy"), sorted_records(records, [("at", False)]))
    outcore.sort("out.npy", "again.npy", key=["name:desc", "id"])
    wanted = sorted_records(records, [("name", True), ("id", False)])
    assert same_bytes(np.load("again.npy"), wanted)


def test_an_array_is_sorted_in_place_when_asked(here: Path) -> None:
    numbers = random_numbers(np.dtype("<i8"), 5000)
    np.save("a.npy", numbers)
    outcore.sort("a.npy", "a.npy", replace=True)
    assert same_bytes(np.load("a.npy"), sorted_records(numbers))


def test_several_drives_get_a_shard_each_and_shards_are_input_again(here: Path) -> None:
    for name in ("d0", "d1", "d2"):
        Path(name).mkdir()
    numbers = random_numbers(np.dtype("<u4"), 100_000)
    numbers.tofile("in.bin")
    drives: list[str | Path] = [here / "d0", here / "d1", "d2"]
    summary = outcore.sort("in.bin", "s-{drive}.bin", dtype="u32", drives=drives, memory=MEMORY)
    assert summary.output == here / "d0" / "s.bin.outcore.json"
    shards = [np.fromfile(here / name / f"s-{name}.bin", "<u4") for name in ("d0", "d1", "d2")]
    assert same_bytes(np.concatenate(shards), sorted_records(numbers))
    assert outcore.verify(summary.output, dtype="u32", against="in.bin").ok
    outcore.sort(summary.output, "down.bin", dtype="u32", descending=True)
    assert same_bytes(np.fromfile("down.bin", "<u4"), sorted_records(numbers, descending=True))


def test_empty_files_and_single_records_are_sorted_too(here: Path) -> None:
    Path("empty.bin").touch()
    np.array([7], "<u8").tofile("one.bin")
    assert outcore.sort("empty.bin", "out0.bin", dtype="u64").records == 0
    assert Path("out0.bin").read_bytes() == b""
    assert outcore.sort("one.bin", "out1.bin", dtype="u64").records == 1
    assert Path("out1.bin").read_bytes() == Path("one.bin").read_bytes()


def test_names_that_are_no_text_are_names_all_the_same(here: Path) -> None:
    for name in ("Zahlen für Ägypten.bin", os.fsdecode(b"caf\xe9.bin")):
        np.array([3, 1, 2], "<u8").tofile(name)
        summary = outcore.sort(Path(name), name + ".out", dtype="u64")
        assert summary.output == Path(name + ".out")
        assert np.fromfile(summary.output, "<u8").tolist() == [1, 2, 3]
        with pytest.raises(outcore.UsageError) as caught:
            outcore.sort(name, name + ".out", dtype="u64")
        assert caught.value.path == name + ".out"


def test_data_beyond_the_memory_goes_through_scratch_and_comes_out_sorted(here: Path) -> None:
    outcore.gen("u64", "in.bin", (64 << 20) // 8, seed=7)
    outputs = set()
    limits: list[tuple[str, str | int, int]] = [("a", 24 << 20, 2), ("b", "40MiB", 1)]
    for name, memory, threads in limits:
        summary = outcore.sort("in.bin", name, dtype="u64", memory=memory, threads=threads)
        assert summary.passes >= 2 and summary.scratch_bytes > 0
        assert summary.as_dict()["phases"]
        outputs.add(Path(name).read_bytes())
    assert len(outputs) == 1
    wanted = np.sort(np.fromfile("in.bin", "<u8"))
    assert wanted.tobytes() in outputs
    assert sorted(path.name for path in here.iterdir()) == ["a", "b", "in.bin"]


def test_a_plan_says_what_would_be_done_and_does_nothing(here: Path) -> None:
    outcore.gen("u64", "in.bin", 1 << 20)
    plan = outcore.plan("in.bin", dtype="u64", memory="8MiB", threads=1)
    assert plan.passes == 2
    assert plan.scratch_bytes > 0
    assert str(plan).startswith("sort 8.00 MiB in 8.00 MiB of memory")
    assert [path.name for path in here.iterdir()] == ["in.bin"]
    summary = outcore.sort("in.bin", "out.bin", dtype="u64", memory="8MiB", threads=1)
    assert summary.plan == plan


def test_the_plan_is_printed_when_it_is_to_be_explained(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcore.gen("u64", "in.bin", 1000)
    outcore.sort("in.bin", "out.bin", dtype="u64", explain=True)
    assert capsys.readouterr().err.startswith("sort 7.81 KiB in ")


def test_settings_come_from_the_environment_where_none_is_given(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcore.gen("u64", "in.bin", 1 << 20)
    monkeypatch.setenv("OUTCORE_MEMORY", "12MiB")
    monkeypatch.setenv("OUTCORE_THREADS", "1")
    text = str(outcore.plan("in.bin", dtype="u64"))
    assert "in 12.0 MiB of memory on 1 thread" in text
    text = str(outcore.plan("in.bin", dtype="u64", memory="10MiB"))
    assert "in 10.0 MiB of memory on 1 thread" in text
