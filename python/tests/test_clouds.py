"""Objects of Azure and of Google in place of files: emulators on this machine, and faults on the way.

`test_objects.py` has the tests that need a store of any kind; these are the differences of vendors.
"""

from __future__ import annotations

import io
import itertools
import os
import signal
import subprocess
import sysconfig
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import outcore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stores import Asked, Azurite, Cut, FakeGcs, Proxy, Stall, Status, program, times

OUTCORE = str(Path(sysconfig.get_path("scripts")) / "outcore")
MIB = 1 << 20
COUNT = itertools.count(1)
CREDENTIALS = {Azurite: "AZURE_STORAGE_ACCOUNT_NAME", FakeGcs: "GOOGLE_APPLICATION_CREDENTIALS"}


@pytest.fixture(scope="module", params=[Azurite, FakeGcs], ids=["azure", "google"])
def server(request: pytest.FixtureRequest) -> Iterator[Azurite | FakeGcs]:
    found = program(*request.param.PROGRAM)
    if found is None:
        pytest.skip(f"{request.param.PROGRAM[0]} is not installed; scripts/setup.sh installs it")
    server = request.param(found)
    yield server
    server.close()


class Store:
    """A bucket of an emulator behind a proxy."""

    def __init__(self, server: Azurite | FakeGcs, proxy: Proxy) -> None:
        self.server, self.proxy = server, proxy
        self.bucket = f"bucket-{next(COUNT)}"
        server.make(self.bucket)

    def url(self, key: str) -> str:
        return self.server.url(self.bucket, key)

    def put(self, key: str, body: bytes) -> str:
        self.server.put(self.bucket, key, body)
        return self.url(key)

    def get(self, key: str) -> bytes:
        return self.server.get(self.bucket, key)

    def keys(self) -> list[str]:
        return self.server.keys(self.bucket)

    def parts(self) -> list[Asked]:
        """The requests that sent parts."""
        return [asked for asked in self.proxy.asked if self.is_part(asked.method, asked.path)]

    def unfinished(self) -> list[str]:
        """Unfinished uploads. Those of Azure have no number, and end by themselves after a week."""
        return self.server.unfinished() if isinstance(self.server, FakeGcs) else []

    def is_part(self, method: str, path: str) -> bool:
        wanted, mark = self.server.PART
        return method == wanted and mark in f"{path}&"

    def is_last(self, method: str, path: str) -> bool:
        wanted, mark = self.server.LAST
        return method == wanted and mark in path


@pytest.fixture
def store(server: Azurite | FakeGcs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name in list(os.environ):
        if name.startswith(("AZURE_", "GOOGLE_")):
            monkeypatch.delenv(name)
    with Proxy(server.port, google=server if isinstance(server, FakeGcs) else None) as proxy:
        for name, value in server.variables(proxy.port).items():
            monkeypatch.setenv(name, value)
        yield Store(server, proxy)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OUTCORE, *words], capture_output=True, text=True, timeout=120)


def lines(count: int) -> list[str]:
    return [f"{(number * 7919) % 1_000_003:07}\n" for number in range(count)]


def test_lines_are_sorted_from_object_to_file_and_to_object(store: Store, here: Path) -> None:
    name = store.put("dir/in put.txt", "".join(lines(200_000)).encode())
    wanted = "".join(sorted(lines(200_000))).encode()
    outcore.sort(name, "out.txt")
    assert Path("out.txt").read_bytes() == wanted
    outcore.sort(name, store.url("dir/out.txt"))
    assert store.get("dir/out.txt") == wanted
    assert sorted(store.keys()) == ["dir/in put.txt", "dir/out.txt"]


def test_more_than_fits_in_memory_is_read_by_ranges(store: Store, here: Path) -> None:
    values = np.random.default_rng(2).integers(0, 1 << 60, 12 * MIB, dtype="u8")
    name = store.put("in.bin", values.tobytes())
    done = run("sort", name, "--type", "u64", "-o", "out.bin", "--memory", "64MiB")
    assert done.returncode == 0, done.stderr
    assert Path("out.bin").read_bytes() == np.sort(values).tobytes()


def test_only_needed_columns_of_parquet_cross_the_network(store: Store, here: Path) -> None:
    wide = os.urandom(1_000_000)
    table = pa.table({
        "a": list(range(4000)), "wide": [wide[at * 250:(at + 1) * 250] for at in range(4000)],
    })
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=1000, compression="none")
    name = store.put("t.parquet", file.getvalue())
    done = run("convert", name, "--columns", "a", "-o", "a.csv")
    assert done.returncode == 0, done.stderr
    assert Path("a.csv").read_text().split() == ["a", *map(str, range(4000))]
    moved = sum(end - start for start, end in store.proxy.gets("t.parquet"))
    assert 0 < moved < len(file.getvalue()) / 2, moved


def test_a_pattern_means_the_objects_that_match(store: Store, here: Path) -> None:
    for key in ("logs/d2.txt", "logs/d1.txt", "logs/deep/d3.txt", "logs/d4.csv"):
        store.put(key, f"{key}\n".encode())
    outcore.sort(store.url("logs/*.txt"), "days.txt")
    assert Path("days.txt").read_text() == "logs/d1.txt\nlogs/d2.txt\n"
    none = run("sort", store.url("logs/*.orc"))
    assert none.returncode == 2 and "no object matches this pattern" in none.stderr


def test_a_result_of_several_parts_is_whole_and_replaced_only_with_force(
    store: Store, here: Path
) -> None:
    values = np.random.default_rng(1).integers(0, 1 << 60, 3 * MIB, dtype="u8")
    values.tofile("in.bin")
    name = store.put("out.bin", b"old")
    refused = run("sort", "in.bin", "--type", "u64", "-o", name)
    assert refused.returncode == 2 and "exists already" in refused.stderr
    assert store.get("out.bin") == b"old"
    outcore.sort("in.bin", name, dtype="u64", force=True)
    assert store.get("out.bin") == np.sort(values).tobytes()
    assert store.keys() == ["out.bin"] and len(store.parts()) == 3


@pytest.mark.parametrize("what", [Status(500), Status(503), Status(429), Cut(100_000)], ids=str)
def test_what_fails_for_a_moment_is_asked_for_again(
    store: Store, here: Path, what: Status | Cut
) -> None:
    name = store.put("in.txt", "".join(lines(100_000)).encode())
    store.proxy.faults.append(times(3, "GET", "in.txt", what))
    outcore.sort(name, "out.txt")
    assert Path("out.txt").read_text() == "".join(sorted(lines(100_000)))
    assert len([asked for asked in store.proxy.asked if asked.method == "GET"]) > 3


def test_parts_that_fail_for_a_moment_are_sent_again(store: Store, here: Path) -> None:
    data = os.urandom(20 * MIB)
    Path("in.bin").write_bytes(data)
    store.proxy.faults.append(times(2, "PUT", "out.bin", Status(503)))
    outcore.sort("in.bin", store.url("out.bin"), dtype="u64")
    assert store.get("out.bin") == np.sort(np.frombuffer(data, dtype="u8")).tobytes()
    assert store.keys() == ["out.bin"] and len(store.parts()) >= 4


def test_a_failed_upload_leaves_the_old_object_and_keeps_the_result(store: Store, here: Path) -> None:
    old = store.put("out.bin", b"old")
    data = os.urandom(20 * MIB)
    Path("in.bin").write_bytes(data)
    sent = itertools.count()

    def denied(method: str, path: str, _number: int) -> Status | None:
        return Status(403) if store.is_part(method, path) and next(sent) == 1 else None

    store.proxy.faults.append(denied)
    done = run("sort", "in.bin", "--type", "u64", "-o", old, "--force")
    assert done.returncode == 3 and "denies access" in done.stderr, done.stderr
    assert CREDENTIALS[type(store.server)] in done.stderr
    assert store.get("out.bin") == b"old" and store.keys() == ["out.bin"]
    [kept] = Path().glob("outcore-kept-*/out.bin")
    assert kept.read_bytes() == np.sort(np.frombuffer(data, dtype="u8")).tobytes()
    assert store.parts() and not any(store.is_last(a.method, a.path) for a in store.proxy.asked)
    assert store.unfinished() == []


def test_a_killed_upload_is_found_and_ended(store: Store, here: Path) -> None:
    Path("in.bin").write_bytes(os.urandom(20 * MIB))
    stalled = threading.Event()

    def last(method: str, path: str, _number: int) -> Stall | None:
        if not store.is_last(method, path):
            return None
        stalled.set()
        return Stall()

    store.proxy.faults.append(last)
    words = [OUTCORE, "sort", "in.bin", "--type", "u64", "-o", store.url("dir/out.bin")]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as job:
        assert stalled.wait(30)
        listed = run("scratch", "list", store.url(""))
        assert "upload in use" in listed.stdout, listed
        job.send_signal(signal.SIGKILL)
    store.proxy.faults.clear()
    listed = run("scratch", "list", store.url(""))
    assert "upload left over" in listed.stdout, listed
    cleaned = run("scratch", "clean", store.url(""), ".")
    assert cleaned.returncode == 0 and store.url("dir/out.bin") in cleaned.stdout, cleaned
    assert store.keys() == [] and store.unfinished() == []


def test_ctrl_c_ends_an_upload_to_a_store_that_is_silent(store: Store, here: Path) -> None:
    data = os.urandom(MIB)
    Path("in.bin").write_bytes(data)
    asked = threading.Event()

    def stall(method: str, _path: str, _number: int) -> Stall | None:
        if method != "PUT":
            return None
        asked.set()
        return Stall()

    store.proxy.faults.append(stall)
    words = [OUTCORE, "sort", "in.bin", "--type", "u64", "-o", store.url("out.bin")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as job:
        assert asked.wait(30)
        time.sleep(0.3)
        job.send_signal(signal.SIGINT)
        _, said = job.communicate(timeout=10)
    assert job.returncode == 130 and "it may be there" in said, said
    [kept] = Path().glob("outcore-kept-*/out.bin")
    assert kept.read_bytes() == np.sort(np.frombuffer(data, dtype="u8")).tobytes()


def test_an_object_that_changes_while_it_is_read_is_an_error(store: Store, here: Path) -> None:
    name = store.put("in.bin", bytes(40 * MIB))
    seen = itertools.count()

    def change(method: str, path: str, _number: int) -> None:
        if method == "GET" and path.endswith("in.bin") and next(seen) == 2:
            store.put("in.bin", os.urandom(40 * MIB))

    store.proxy.faults.append(change)
    done = run("sort", name, "--type", "u64", "-o", "out.bin", "--memory", "32MiB")
    assert done.returncode == 4, done
    assert "changed while it was read" in done.stderr and name in done.stderr
    assert not Path("out.bin").exists()


def test_errors_name_the_object_and_the_next_step(
    store: Store, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, cause in [
        (store.url("absent.txt"), "no such object"),
        # The emulator of Google's store does not say that it is the bucket that is missing.
        (store.server.url("no-such-bucket-here", "x.txt"), "there is no such "),
        (store.url(""), "the name of a folder"),
    ]:
        done = run("sort", name)
        assert done.returncode in (2, 3) and cause in done.stderr, done
    name = store.put("x.txt", b"b\na\n")
    store.proxy.faults.append(times(9, "GET", "x.txt", Status(403)))
    denied = run("sort", name, "-v")
    assert denied.returncode == 3 and CREDENTIALS[type(store.server)] in denied.stderr, denied
    assert Azurite.KEY not in denied.stderr and "sig=" not in denied.stderr
    monkeypatch.setenv("AZURE_ALLOW_HTTP", "false")
    monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "false")
    plain = run("sort", name)
    assert plain.returncode == 2 and "is not encrypted" in plain.stderr, plain
