"""Volumes from Python: what is put is got, and damage and missing drives have names."""

from __future__ import annotations

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
    assert volume.put(source, "x", progress=seen.append) == outcore.Moved(len(data), 1)
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
    assert volume.scrub() == []


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
    (tmp_path / "d2/outcore-volume").rename(tmp_path / "away")
    with pytest.raises(outcore.OutcoreError, match="d2"):
        volume.ls()


def test_a_bench_measures_and_leaves_nothing(volume: outcore.Volume, tmp_path: Path) -> None:
    lines = volume.bench(seconds=0.05, size="4MiB")
    assert len(lines) == 4
    assert all(line.bytes_per_s > 0 for line in lines)
    assert [path.name for path in (tmp_path / "d0").iterdir()] == ["outcore-volume"]
    for wrong in ({"seconds": 0}, {"seconds": -1}, {"seconds": float("nan")}, {"size": "4KiB"}):
        with pytest.raises(outcore.UsageError, match="measure volume"):
            volume.bench(**wrong)
