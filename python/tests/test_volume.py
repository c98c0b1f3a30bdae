"""Volumes from Python: `get` returns what `put` stored, and errors name damage and missing drives."""

from __future__ import annotations

import array
import random
from pathlib import Path

import pytest

import outcore


@pytest.fixture
def volume(tmp_path: Path) -> outcore.Volume:
    lines = []
    for drive in range(3):
        directory = tmp_path / f"d{drive}"
        directory.mkdir()
        lines.append(f'[[drive]]\ndir = "{directory}"\n')
    drives = tmp_path / "drives.toml"
    drives.write_text("\n".join(lines))
    return outcore.Volume.create(drives, stripe="64KiB")


def test_what_was_put_is_got_and_read_in_parts(volume: outcore.Volume, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3_000_001)
    source = tmp_path / "source"
    source.write_bytes(data)
    seen: list[outcore.Progress] = []
    put = volume.put(source, "x", progress=seen.append)
    assert (put.bytes, put.files, put.left_out) == (len(data), 1, 0)
    assert seen[-1].phase == "done"
    assert volume.write("y", memoryview(data)[:1000]).bytes == 1000
    assert volume.read("x") == data
    assert volume.read("x", 65_535, 3) == data[65_535:65_538]
    assert volume.read("y", offset=990, size=100) == data[990:1000]
    assert volume.get("x", tmp_path / "out").bytes == len(data)
    assert (tmp_path / "out").read_bytes() == data
    assert [entry.name for entry in volume.ls()] == ["x", "y"]
    volume.rm("y")
    assert [entry.name for entry in volume.ls()] == ["x"]
    assert sum(drive.used_bytes for drive in volume.status()) > len(data)
    assert not volume.scrub() and not volume.scrub().orphans
    assert volume.status().datasets == 1


def test_a_directory_is_packed_and_its_files_have_names(volume: outcore.Volume, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    for number in range(20):
        (tree / "a" / f"{number:02}").write_bytes(bytes([number]) * number * 100)
    assert volume.put(tree, "tree").files == 20
    assert volume.read("tree/a/07") == bytes([7]) * 700
    with pytest.raises(outcore.UsageError, match="directory of 20 files"):
        volume.read("tree")
    assert [entry.name for entry in volume.ls("tree")][:2] == ["a/00", "a/01"]
    volume.get("tree", tmp_path / "back")
    assert (tmp_path / "back/a/19").read_bytes() == bytes([19]) * 1900


def test_damage_missing_drives_and_taken_names_are_named(volume: outcore.Volume, tmp_path: Path) -> None:
    volume.write("x", bytes(300_000))
    with pytest.raises(outcore.UsageError, match="already"):
        volume.write("x", b"")
    volume.write("x", bytes(200_000), force=True)
    (share,) = (tmp_path / "d1/outcore-volume/data").iterdir()
    broken = bytearray(share.read_bytes())
    broken[100] ^= 1
    share.chmod(0o644)
    share.write_bytes(broken)
    (damage,) = volume.scrub("x")
    assert (damage.dataset, damage.drive, damage.path, damage.offset_bytes) == ("x", "d1", str(share), 0)
    with pytest.raises(outcore.CorruptError) as caught:
        volume.read("x")
    assert caught.value.drive == "d1"
    volume.write("small", b"one block, on one drive")
    (tmp_path / "d2").rename(tmp_path / "away")
    listed = volume.ls()
    assert [entry.name for entry in listed] == ["small", "x"]
    assert listed[1].missing_drives == ("d2",)
    assert [drive.is_present for drive in volume.status()] == [True, True, False]
    for refused in (lambda: volume.read("x"), lambda: volume.write("y", b""), lambda: volume.rm("x"), volume.scrub):
        with pytest.raises(outcore.OutcoreError, match="drive d2 is missing") as missing:
            refused()
        assert missing.value.drive == "d2"
    (tmp_path / "away").rename(tmp_path / "d2")
    assert volume.read("small") == b"one block, on one drive"
    # A lost copy of a manifest is written again.
    (tmp_path / "d1/outcore-volume/datasets/small.json").unlink()
    assert [(damage.drive, damage.is_repaired) for damage in volume.scrub("small")] == [("d1", True)]
    assert not volume.scrub("small")


def test_a_bench_measures_and_leaves_nothing(volume: outcore.Volume, tmp_path: Path) -> None:
    lines = volume.bench(seconds=0.05, size="4MiB")
    assert len(lines) == 4
    assert all(line.bytes_per_s > 0 for line in lines)
    assert [path.name for path in (tmp_path / "d0").iterdir()] == ["outcore-volume"]
    for wrong in ({"seconds": 0}, {"seconds": -1}, {"seconds": float("nan")}, {"size": "4KiB"}):
        with pytest.raises(outcore.UsageError, match="measure volume"):
            volume.bench(**wrong)


def keys(count: int, seed: int) -> array.array[int]:
    numbers = random.Random(seed)
    return array.array("Q", (numbers.getrandbits(64) for _ in range(count)))


def leftovers(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.name.startswith(".outcore")]


@pytest.mark.parametrize("count", [300_000, 1000], ids=["in place", "small"])
def test_functions_take_datasets_where_they_take_files(
    volume: outcore.Volume, tmp_path: Path, count: int
) -> None:
    given = keys(count, 2)
    volume.write("in", given.tobytes())
    drives = volume.drives
    done = outcore.sort("@in", "@out", dtype="u64", memory="64MiB", volume=drives)
    assert (str(done.output), done.records) == ("@out", count)
    assert volume.read("out") == array.array("Q", sorted(given)).tobytes()
    assert outcore.plan("@in", "@other", dtype="u64", volume=drives).passes >= 1
    assert outcore.verify("@out", dtype="u64", against="@in", volume=drives).ok
    assert not outcore.verify("@in", dtype="u64", volume=drives).ok
    # Between files and datasets, in both directions.
    outcore.shuffle("@in", tmp_path / "mixed", dtype="u64", seed=3, volume=drives)
    outcore.sort(tmp_path / "mixed", "@again", dtype="u64", volume=drives)
    assert volume.read("again") == volume.read("out")
    outcore.gen("u64", "@made", count, seed=5, volume=drives)
    outcore.gen("u64", tmp_path / "made", count, seed=5)
    assert volume.read("made") == (tmp_path / "made").read_bytes()
    assert not leftovers(tmp_path)


def test_lazy_datasets_and_orders_read_and_write_them(
    volume: outcore.Volume, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTCORE_VOLUME", str(volume.drives))
    given = keys(200_000, 4)
    volume.write("in", given.tobytes())
    data = outcore.open("@in", dtype="u64")
    assert data.filter(outcore.x % 2 == 0).count() == sum(key % 2 == 0 for key in given)
    assert data.zip(data).count() == len(given)
    wrote = data.map(outcore.x % 1000).sort().write("@small")
    assert str(wrote.output) == "@small"
    assert volume.read("small") == array.array("Q", sorted(key % 1000 for key in given)).tobytes()
    assert b"".join(batch.tobytes() for batch in data.batches(70_001)) == given.tobytes()
    order = outcore.shuffled("@in", dtype="u64", seed=7)
    outcore.shuffle("@in", "@mixed", dtype="u64", seed=7)
    assert order[:].tobytes() == volume.read("mixed")
    lines = [f"{key % 10**6}\n" for key in given]
    volume.write("log", "".join(lines).encode())
    text = outcore.open("@log", lines=True)
    assert text.count() == len(lines)
    text.sort("1,1n").unique().write("@sorted.txt.gz")
    assert outcore.open("@sorted.txt.gz", lines=True).count() == len(set(lines))
    with pytest.raises(outcore.UsageError, match="parts are files"):
        data.partition("x % 2", "@part-{part}.bin")
    assert not leftovers(tmp_path)


def test_what_cannot_be_a_dataset_or_is_damaged_has_its_name(
    volume: outcore.Volume, here: Path
) -> None:
    drives = volume.drives
    volume.write("in", keys(200_000, 6).tobytes())
    with pytest.raises(outcore.UsageError, match="no volume is given") as caught:
        outcore.sort("@in", "out", dtype="u64")
    assert "volume=" in str(caught.value.hint)
    with pytest.raises(outcore.UsageError, match="dataset @none not found"):
        outcore.open("@none", dtype="u64", volume=drives)
    with pytest.raises(outcore.UsageError, match="@in already"):
        outcore.sort("@in", "@in", dtype="u64", volume=drives)
    with pytest.raises(outcore.UsageError, match="sealed"):
        outcore.sort("@in", "@in", dtype="u64", volume=drives, replace=True)
    with pytest.raises(outcore.UsageError, match="not a dataset"):
        outcore.sort_view("@in", "@view", dtype="u64", volume=drives)
    with pytest.raises(outcore.OutcoreError) as wrong:
        outcore.sort("@in", "out", dtype="f32x3", volume=drives)
    assert str(wrong.value.path) == "@in"
    assert len(outcore.sort_view("@in", "view", dtype="u64", volume=drives)) == 200_000
    (share,) = (here / "d1/outcore-volume/data").iterdir()
    broken = bytearray(share.read_bytes())
    broken[100] ^= 1
    share.chmod(0o644)
    share.write_bytes(broken)
    with pytest.raises(outcore.CorruptError) as found:
        outcore.sort("@in", "@out", dtype="u64", volume=drives)
    assert (found.value.drive, found.value.path) == ("d1", str(share))
    assert [entry.name for entry in volume.ls()] == ["in"]
    # Without a volume, `@in` is the name of a file.
    Path("@in").write_bytes(keys(10, 8).tobytes())
    assert outcore.sort("@in", "out", dtype="u64").records == 10


def test_tables_are_read_from_datasets_and_written_to_them(volume: outcore.Volume, tmp_path: Path) -> None:
    drives = tmp_path / "drives.toml"
    rows = "".join(f"{number * 7919 % 1000},n{number % 5}\n" for number in range(1000))
    table = tmp_path / "t.csv"
    table.write_text("id,name\n" + rows)
    for name in ("@t.parquet", "@t.jsonl", "@t.csv.gz"):
        done = outcore.sort(table, name, by="id", infer=True, volume=drives)
        assert done.records == 1000
        assert outcore.info(name, volume=drives).records == 1000
        kept = outcore.filter(name, "id < 10", "@few.csv", volume=drives, force=True)
        assert kept.records == 10
        assert volume.read("few.csv").splitlines()[1].split(b",")[0] == b"0"
    with pytest.raises(outcore.UsageError, match="@t.parquet already exists"):
        outcore.sort(table, "@t.parquet", by="id", volume=drives)
    assert not leftovers(tmp_path)


def test_a_volume_with_parity_survives_a_lost_drive(tmp_path: Path) -> None:
    for drive in ("d0", "d1", "d2", "new"):
        (tmp_path / drive).mkdir()
    drives = tmp_path / "drives.toml"
    drives.write_text("".join(f'[[drive]]\ndir = "d{drive}"\n' for drive in range(3)))
    volume = outcore.Volume.create(drives, stripe="64KiB", parity=1)
    assert volume.status().redundancy == "parity"
    data = random.Random(1).randbytes(3_000_001)
    volume.write("x", data)
    (tmp_path / "d1").rename(tmp_path / "away")
    assert volume.read("x") == data
    assert volume.status().at_risk == 1
    with pytest.raises(OSError, match="d1 is missing"):
        volume.write("y", data)
    replaced = volume.replace("d1", tmp_path / "new")
    assert replaced.drive == "d1" and replaced.rebuilt_bytes > len(data) // 3
    assert not volume.scrub()
    volume.write("y", data)
    # A repeated call, as after a kill, has nothing left to do.
    assert volume.replace("d1", tmp_path / "new").rebuilt_bytes == 0
    with pytest.raises(outcore.UsageError, match="nothing to replace"):
        volume.replace("d0", tmp_path / "d0")


def test_drives_join_and_leave_and_datasets_follow(volume: outcore.Volume, tmp_path: Path) -> None:
    data = random.Random(3).randbytes(3_000_000)
    volume.write("x", data)
    assert [risk.risk for risk in volume.status().risks] == ["single"]
    (tmp_path / "d3").mkdir()
    added = volume.add(tmp_path / "d3")
    assert (added.added, added.unequal) == (("d3",), 1)
    assert volume.read("x") == data
    seen: list[outcore.Progress] = []
    moved = volume.rebalance(limit="30MB/s", progress=seen.append)
    assert (moved.moved, moved.moved_bytes) == (1, len(data))
    assert moved.seconds >= len(data) / 30e6
    assert seen[-1].phase == "done"
    status = volume.status()
    assert status.unequal == 0 and min(drive.used_bytes for drive in status) > len(data) // 5
    removed = volume.remove("d0", limit=10**9)
    assert (removed.drive, removed.moved) == ("d0", 1)
    assert [drive.drive for drive in volume.status()] == ["d1", "d2", "d3"]
    assert volume.read("x") == data
    with pytest.raises(outcore.UsageError, match="no drive `d0`"):
        volume.remove("d0")
