"""Objects of a store in place of files: moto's S3 on this machine, and faults on the way to it."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import outcore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stores import HOST, Cut, Proxy, Stall, Status, Web, times

try:
    import boto3  # type: ignore[import-untyped]
    from moto.server import ThreadedMotoServer
except ImportError as error:
    pytest.skip(f"moto is not installed: {error}", allow_module_level=True)

OUTCORE = str(Path(sysconfig.get_path("scripts")) / "outcore")
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "very-secret-key"}
MIB = 1 << 20
COUNT = itertools.count(1)


@pytest.fixture(scope="module")
def moto() -> Iterator[int]:
    server = ThreadedMotoServer(ip_address=HOST, port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


class Bucket:
    """One bucket, as the owner sees it."""

    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self.client: Any = boto3.client(
            "s3", endpoint_url=f"http://{HOST}:{port}", region_name="us-east-1",
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"])
        self.client.create_bucket(Bucket=name)

    def put(self, key: str, body: bytes) -> str:
        self.client.put_object(Bucket=self.name, Key=key, Body=body)
        return f"s3://{self.name}/{key}"

    def get(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return body

    def keys(self) -> list[str]:
        listed = self.client.list_objects_v2(Bucket=self.name).get("Contents", [])
        return [found["Key"] for found in listed]

    def uploads(self) -> list[str]:
        listed = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])
        return [found["Key"] for found in listed]


@pytest.fixture
def proxy(moto: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    with Proxy(moto) as proxy:
        settings = {
            **KEYS, "AWS_ENDPOINT_URL": f"http://{HOST}:{proxy.port}", "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true", "AWS_EC2_METADATA_DISABLED": "true",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        yield proxy


@pytest.fixture
def bucket(moto: int, proxy: Proxy) -> Bucket:
    return Bucket(moto, f"bucket-{next(COUNT)}")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OUTCORE, *words], capture_output=True, text=True, timeout=120)


def numbers(count: int) -> list[int]:
    return [(number * 7919) % 1_000_003 for number in range(count)]


def parquet(table: pa.Table, **options: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def test_lines_are_sorted_from_object_to_file_and_to_object(bucket: Bucket, here: Path) -> None:
    lines = [f"{number:07}\n" for number in numbers(200_000)]
    name = bucket.put("in.txt", "".join(lines).encode())
    wanted = "".join(sorted(lines)).encode()
    outcore.sort(name, "out.txt")
    assert Path("out.txt").read_bytes() == wanted
    outcore.sort(name, f"s3://{bucket.name}/dir/out.txt")
    assert bucket.get("dir/out.txt") == wanted


def test_compressed_lines_are_decompressed_from_the_store(bucket: Bucket, here: Path) -> None:
    name = bucket.put("in.txt.gz", gzip.compress(b"b\na\n"))
    outcore.sort(name, "out.txt")
    assert Path("out.txt").read_bytes() == b"a\nb\n"


def test_arrays_csv_and_json_lines_are_read_from_the_store(bucket: Bucket, here: Path) -> None:
    array = io.BytesIO()
    np.save(array, np.array(numbers(1000), dtype="u8"))
    outcore.sort(bucket.put("x.npy", array.getvalue()), "x.npy")
    assert np.load("x.npy").tolist() == sorted(numbers(1000))
    outcore.sort(bucket.put("x.csv", b"n,s\n2,b\n1,a\n"), "x.csv", by="n")
    assert Path("x.csv").read_text() == "n,s\n1,a\n2,b\n"
    outcore.sort(bucket.put("x.jsonl", b'{"n":2}\n{"n":1}\n'), "x.jsonl", by=".n")
    assert Path("x.jsonl").read_text() == '{"n":1}\n{"n":2}\n'


def test_vectors_and_edges_are_read_from_the_store(bucket: Bucket, here: Path) -> None:
    array = io.BytesIO()
    np.save(array, np.arange(64, dtype="f4").reshape(16, 4))
    name = bucket.put("v.npy", array.getvalue())
    Path("v.npy").write_bytes(array.getvalue())
    for base, out in [(name, "one.npy"), ("v.npy", "other.npy")]:
        done = run("knn", base, "v.npy", "-k", "2", "-o", out)
        assert done.returncode == 0, done.stderr
    assert Path("one.npy").read_bytes() == Path("other.npy").read_bytes()
    edges = bucket.put("e.txt", b"0 1\n1 2\n2 0\n3 1\n")
    made = run("graph", "convert", edges, "-o", "g")
    assert made.returncode == 0, made.stderr
    assert "4" in run("graph", "info", "g").stdout


def test_only_needed_columns_of_parquet_cross_the_network(
    bucket: Bucket, proxy: Proxy, here: Path
) -> None:
    wide = os.urandom(1_000_000)
    table = pa.table({
        "a": list(range(4000)),
        "wide": [wide[at * 250:(at + 1) * 250] for at in range(4000)],
    })
    body = parquet(table, row_group_size=1000, compression="none")
    name = bucket.put("t.parquet", body)
    done = run("convert", name, "--columns", "a", "-o", "a.csv")
    assert done.returncode == 0, done.stderr
    assert Path("a.csv").read_text().split() == ["a", *map(str, range(4000))]
    moved = sum(end - start for start, end in proxy.gets("t.parquet"))
    assert 0 < moved < len(body) / 2, (moved, len(body))


def test_a_pattern_means_the_objects_that_match_in_the_order_of_their_names(
    bucket: Bucket, here: Path
) -> None:
    for day in (2, 1):
        bucket.put(f"logs/d{day}.parquet", parquet(pa.table({"day": [day]})))
        bucket.put(f"logs/d{day}.txt", f"{day}\n".encode())
    bucket.put("logs/deep/d3.parquet", parquet(pa.table({"day": [3]})))
    done = run("convert", f"s3://{bucket.name}/logs/*.parquet", "-o", "days.csv")
    assert done.returncode == 0, done.stderr
    assert Path("days.csv").read_text() == "day\n1\n2\n"
    outcore.sort(f"s3://{bucket.name}/logs/*.txt", "days.txt")
    assert Path("days.txt").read_text() == "1\n2\n"
    none = run("convert", f"s3://{bucket.name}/logs/*.orc", "-o", "none.csv")
    assert none.returncode == 2 and "no object matches this pattern" in none.stderr


def test_a_result_of_several_parts_is_whole(bucket: Bucket, proxy: Proxy, here: Path) -> None:
    values = np.random.default_rng(1).integers(0, 1 << 60, 3 * MIB, dtype="u8")
    values.tofile("in.bin")
    outcore.sort("in.bin", f"s3://{bucket.name}/out.bin", dtype="uint64")
    assert bucket.get("out.bin") == np.sort(values).tobytes()
    assert bucket.keys() == ["out.bin"] and bucket.uploads() == []
    parts = [asked for asked in proxy.asked if "partNumber" in asked.path]
    assert len(parts) == 3


def test_an_existing_object_is_replaced_only_with_force(bucket: Bucket, here: Path) -> None:
    name = bucket.put("x.txt", b"old\n")
    Path("in.txt").write_text("new\n")
    refused = run("sort", "in.txt", "-o", name)
    assert refused.returncode == 2 and "exists already" in refused.stderr
    assert bucket.get("x.txt") == b"old\n"
    assert run("sort", "in.txt", "-o", name, "--force").returncode == 0
    assert bucket.get("x.txt") == b"new\n"


@pytest.mark.parametrize("what", [Status(500), Status(503), Status(429), Cut(100_000), Cut(0)], ids=str)
def test_what_fails_for_a_moment_is_asked_for_again(
    bucket: Bucket, proxy: Proxy, here: Path, what: Status | Cut
) -> None:
    lines = [f"{number:07}\n" for number in numbers(100_000)]
    name = bucket.put("in.txt", "".join(lines).encode())
    proxy.faults.append(times(3, "GET", "in.txt", what))
    outcore.sort(name, "out.txt")
    assert Path("out.txt").read_text() == "".join(sorted(lines))


def test_parts_that_fail_for_a_moment_are_sent_again(
    bucket: Bucket, proxy: Proxy, here: Path
) -> None:
    data = os.urandom(20 * MIB)
    Path("in.bin").write_bytes(data)
    proxy.faults.append(times(2, "PUT", "out.bin", Status(503)))
    outcore.sort("in.bin", f"s3://{bucket.name}/out.bin", dtype="uint64")
    wanted = np.sort(np.frombuffer(data, dtype="u8")).tobytes()
    assert bucket.get("out.bin") == wanted


def denied(method: str, _path: str, _number: int) -> Status | None:
    return Status(403) if method == "PUT" else None


def kept_in(parent: Path, name: str) -> bytes:
    """The result that a failed upload left below `parent`, in a directory of its owner."""
    [kept] = parent.glob(f"outcore-kept-*/{name}")
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(kept.parent) == [name]
    return kept.read_bytes()


def test_an_upload_that_fails_for_good_keeps_the_result_as_a_file(
    bucket: Bucket, proxy: Proxy, here: Path
) -> None:
    old = bucket.put("out.bin", b"old")
    data = os.urandom(20 * MIB)
    Path("in.bin").write_bytes(data)
    Path("out.bin").write_text("mine")

    def denied_part(method: str, path: str, _number: int) -> Status | None:
        return Status(403) if method == "PUT" and "partNumber=2" in path else None

    proxy.faults.append(denied_part)
    done = run("sort", "in.bin", "--type", "u64", "-o", old, "--force")
    assert done.returncode == 3, done.stderr
    assert "denies access" in done.stderr and "AWS_ACCESS_KEY_ID" in done.stderr
    assert bucket.get("out.bin") == b"old"
    assert bucket.keys() == ["out.bin"] and bucket.uploads() == []
    assert kept_in(here, "out.bin") == np.sort(np.frombuffer(data, dtype="u8")).tobytes()
    [kept] = Path().glob("outcore-kept-*")
    assert f"the result is kept in ./{kept}/out.bin" in done.stderr, done.stderr
    assert Path("out.bin").read_text() == "mine"
    assert sorted(os.listdir()) == ["in.bin", "out.bin", kept.name]


@pytest.mark.parametrize("words", [
    ["sort", "in.txt", "-o"], ["convert", "in.csv", "-o"], ["gen", "u64", "-n", "9", "-o"],
], ids=lambda words: words[0])
def test_a_result_is_staged_and_kept_on_the_first_named_drive(
    bucket: Bucket, proxy: Proxy, here: Path, words: list[str]
) -> None:
    Path("in.txt").write_bytes(b"b\na\n")
    Path("in.csv").write_bytes(b"n\n1\n")
    os.mkdir("drive")
    before = sorted(os.listdir())
    proxy.faults.append(denied)
    name = "out.bin" if words[0] == "gen" else "out.csv" if words[0] == "convert" else "out.txt"
    drive = ["--drive", "drive"]
    done = run(*words, f"s3://{bucket.name}/{name}", *drive)
    assert done.returncode == 3, done.stderr
    assert kept_in(here / "drive", name) and "kept in drive/outcore-kept-" in done.stderr
    assert sorted(os.listdir()) == before


def test_a_result_is_private_in_the_directory_of_all_users(
    bucket: Bucket, proxy: Proxy, here: Path
) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir():
        pytest.skip("there is no /dev/shm")
    Path("in.txt").write_bytes(b"b\na\n")
    proxy.faults.append(denied)
    words = [OUTCORE, "sort", str(here / "in.txt"), "-o", f"s3://{bucket.name}/out.txt"]
    done = subprocess.run(words, cwd=memory, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    kept = Path(done.stderr.split("kept in ")[1].split()[0].rstrip(";"))
    try:
        assert kept.parent.parent == Path("/var/tmp")
        assert kept.parent.stat().st_mode & 0o777 == 0o700
        assert kept.read_bytes() == b"a\nb\n"
    finally:
        shutil.rmtree(kept.parent)


def test_a_failed_upload_has_no_summary(bucket: Bucket, proxy: Proxy, here: Path) -> None:
    Path("t.csv").write_bytes(b"n\n1\n")
    name = f"s3://{bucket.name}/t.parquet"
    proxy.faults.append(denied)
    done = run("convert", "t.csv", "-o", name, "--json")
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert done.returncode == 3 and events == ["begin", "error"], done
    said = run("convert", "t.csv", "-o", name, "-v")
    assert said.returncode == 3 and "converted" not in said.stderr, said
    proxy.faults.clear()
    done = run("convert", "t.csv", "-o", name, "--json")
    assert json.loads(done.stdout.splitlines()[-1])["event"] == "summary", done


def test_a_plan_uploads_nothing(bucket: Bucket, here: Path) -> None:
    Path("in.bin").write_bytes(os.urandom(MIB))
    done = run("sort", "in.bin", "--type", "u64", "-o", f"s3://{bucket.name}/x.bin", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert bucket.keys() == [] and os.listdir() == ["in.bin"]


SILENT: dict[str, tuple[int, Callable[[str, str], bool]]] = {
    "a single request": (MIB, lambda method, path: method == "PUT" and path.endswith("out.bin")),
    "the first request": (20 * MIB, lambda method, path: method == "POST" and "?uploads" in path),
    "a part": (20 * MIB, lambda method, path: "partNumber=2" in path),
    "the last request": (20 * MIB, lambda method, path: method == "POST" and "uploadId=" in path),
    "the rest": (20 * MIB, lambda method, path: method == "DELETE" or "partNumber=2" in path),
}


@pytest.mark.parametrize("moment", SILENT)
@pytest.mark.parametrize("face", ["command", "python"])
def test_ctrl_c_ends_an_upload_to_a_store_that_is_silent(
    bucket: Bucket, proxy: Proxy, here: Path, moment: str, face: str
) -> None:
    size_bytes, is_silent = SILENT[moment]
    data = os.urandom(size_bytes)
    Path("in.bin").write_bytes(data)
    asked = threading.Event()

    def stall(method: str, path: str, _number: int) -> Stall | None:
        if not is_silent(method, path):
            return None
        asked.set()
        return Stall()

    proxy.faults.append(stall)
    name = f"s3://{bucket.name}/out.bin"
    call = f"import outcore; outcore.sort('in.bin', '{name}', dtype='u64')"
    words = [OUTCORE, "sort", "in.bin", "--type", "u64", "-o", name]
    words = words if face == "command" else [sys.executable, "-c", call]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as job:
        assert asked.wait(30)
        time.sleep(0.3)
        job.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, said = job.communicate(timeout=30)
    assert time.monotonic() - began < 8
    assert job.returncode != 0 and "interrupted" in said.lower(), said
    assert "nothing was left behind" not in said
    assert kept_in(here, "out.bin") == np.sort(np.frombuffer(data, dtype="u8")).tobytes()
    assert "the result is kept in ./outcore-kept-" in said, said
    assert ("it may be there" in said) == (moment in ("a single request", "the last request")), said
    assert ("scratch clean" in said) == (moment == "the rest"), said
    assert bucket.keys() == (["out.bin.outcore-upload"] if moment == "the rest" else [])


@pytest.mark.parametrize("words", [[], ["--force"]], ids=["new", "force"])
def test_a_missing_bucket_is_found_before_the_job(bucket: Bucket, here: Path, words: list[str]) -> None:
    Path("in.bin").write_bytes(os.urandom(MIB))
    done = run("sort", "in.bin", "--type", "u64", "-o", "s3://no-such-bucket-here/x.bin", "-v", *words)
    assert done.returncode == 3 and "no such bucket" in done.stderr, done.stderr
    assert "sorted" not in done.stderr and os.listdir() == ["in.bin"]


def test_inputs_are_not_deleted_for_an_object(bucket: Bucket, here: Path) -> None:
    data = os.urandom(MIB)
    Path("in.bin").write_bytes(data)
    done = run("sort", "in.bin", "--type", "u64", "-o", f"s3://{bucket.name}/x.bin", "--delete-input")
    assert done.returncode == 2 and "an output that is a file" in done.stderr, done.stderr
    assert Path("in.bin").read_bytes() == data and bucket.keys() == []


def test_a_killed_upload_is_found_and_aborted(bucket: Bucket, proxy: Proxy, here: Path) -> None:
    Path("in.bin").write_bytes(os.urandom(20 * MIB))

    def stalled(method: str, path: str, _number: int) -> Stall | None:
        return Stall() if method == "PUT" and "partNumber=3" in path else None

    proxy.faults.append(stalled)
    place = f"s3://{bucket.name}"
    words = [OUTCORE, "sort", "in.bin", "--type", "u64", "-o", f"{place}/dir/out.bin"]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as job:
        for _ in range(1000):
            if any("partNumber=3" in asked.path for asked in proxy.asked):
                break
            time.sleep(0.02)
        listed = run("scratch", "list", place)
        assert "upload in use" in listed.stdout, listed
        cleaned = run("scratch", "clean", place)
        assert bucket.uploads() == ["dir/out.bin"], cleaned
        job.send_signal(signal.SIGKILL)
    assert "dir/out.bin" not in bucket.keys()
    listed = run("scratch", "list", place)
    assert "upload left over" in listed.stdout, listed
    cleaned = run("scratch", "clean", place, ".")
    assert cleaned.returncode == 0 and f"{place}/dir/out.bin" in cleaned.stdout, cleaned
    assert bucket.keys() == [] and bucket.uploads() == []


@pytest.mark.parametrize("answered", [0, 1, 2, 4, 8, 16])
def test_ctrl_c_does_not_wait_for_a_store_that_is_silent(
    bucket: Bucket, proxy: Proxy, here: Path, answered: int
) -> None:
    """The store falls silent while outcore looks for the input, samples it, or reads it."""
    source = bucket.put("keys.bin", np.random.default_rng(1).integers(0, 1 << 60, 1 << 21).tobytes())
    del proxy.asked[:]
    silent = threading.Event()

    def stall(command: str, path: str, number: int) -> Stall | None:
        if number <= answered:
            return None
        silent.set()
        return Stall()

    proxy.faults.append(stall)
    words = [OUTCORE, "sort", source, "-o", "sorted.bin", "--type", "u64", "--memory", "64MiB"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as running:
        assert silent.wait(30)
        time.sleep(0.2)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=20)
    assert running.returncode == 130, said
    assert "interrupted" in said
    assert os.listdir(here) == []


def test_uploads_of_other_programs_stay(bucket: Bucket) -> None:
    bucket.client.create_multipart_upload(Bucket=bucket.name, Key="theirs")
    cleaned = run("scratch", "clean", f"s3://{bucket.name}")
    assert cleaned.returncode == 0 and cleaned.stdout == "", cleaned
    assert bucket.uploads() == ["theirs"]


def test_an_object_that_changes_while_it_is_read_is_an_error(
    bucket: Bucket, proxy: Proxy, here: Path
) -> None:
    name = bucket.put("in.bin", bytes(40 * MIB))
    seen = [0]

    def change(method: str, path: str, _number: int) -> None:
        if method == "GET" and path.endswith("in.bin"):
            seen[0] += 1
            if seen[0] == 3:
                bucket.put("in.bin", os.urandom(40 * MIB))

    proxy.faults.append(change)
    done = run("sort", name, "--type", "u64", "-o", "out.bin", "--memory", "32MiB")
    assert done.returncode == 4, done
    assert "changed while it was read" in done.stderr and name in done.stderr
    assert not Path("out.bin").exists()


def test_more_than_fits_in_memory_is_sorted_from_a_web_server(here: Path) -> None:
    values = np.random.default_rng(2).integers(0, 1 << 60, 12 * MIB, dtype="u8")
    with Web(values.tobytes()) as web:
        done = run("sort", f"{web.address}/dir/in.bin", "--type", "u64", "-o", "out.bin", "--memory", "64MiB")
    assert done.returncode == 0, done.stderr
    assert Path("out.bin").read_bytes() == np.sort(values).tobytes()


def test_a_web_server_without_etags_is_read_and_a_change_is_found(here: Path) -> None:
    with Web(b"b\na\n", has_tag=False) as web:
        outcore.sort(f"{web.address}/x.txt", "out.txt")
        assert Path("out.txt").read_bytes() == b"a\nb\n"
    values = np.random.default_rng(3).integers(0, 1 << 60, 4 * MIB, dtype="u8")
    with Web(values.tobytes(), has_tag=False) as web:
        words = [OUTCORE, "sort", f"{web.address}/x.bin", "--type", "u64", "-o", "out.bin"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as job:
            while web.gets < 3 and job.poll() is None:
                time.sleep(0.001)
            web.body, web.dated = bytes(32 * MIB), "Wed, 21 Oct 2026 07:28:01 GMT"
            _, said = job.communicate(timeout=60)
    assert job.returncode == 4 and "changed while it was read" in said, said


def test_a_web_server_without_ranges_is_an_error(here: Path) -> None:
    with Web(b"b\na\n", has_ranges=False) as web:
        done = run("sort", f"{web.address}/x.txt")
    assert done.returncode == 3 and "ranges" in done.stderr, done


def test_errors_name_the_object_and_the_next_step(
    bucket: Bucket, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, cause in [
        (f"s3://{bucket.name}/absent.txt", "no such object"),
        ("s3://no-such-bucket-here/x.txt", "no such bucket"),
        (f"s3://{bucket.name}", "the name of a folder"),
        ("ftp://host/x.txt", ""),
    ]:
        done = run("sort", name)
        assert done.returncode in (2, 3) and cause in done.stderr, done
    replaced = run("sort", bucket.put("x.txt", b"b\na\n"), "--replace")
    assert replaced.returncode == 2 and "not changed in place" in replaced.stderr, replaced
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    missing = run("sort", f"s3://{bucket.name}/x.txt")
    assert missing.returncode == 3 and "AWS_ACCESS_KEY_ID" in missing.stderr, missing


def test_secrets_are_neither_printed_nor_recorded(
    bucket: Bucket, proxy: Proxy, here: Path
) -> None:
    name = bucket.put("x.txt", b"b\na\n")
    done = run("sort", name, "-o", "out.txt", "--record-io", "trace", "-v", "--json")
    proxy.faults.append(times(100, "GET", "x.txt", Status(403)))
    denied = run("sort", name, "-v")
    assert done.returncode == 0 and denied.returncode == 3, (done, denied)
    said = done.stdout + done.stderr + denied.stdout + denied.stderr
    said += Path("trace").read_bytes().decode(errors="replace")
    assert "very-secret-key" not in said and "Signature" not in said


def test_web_servers_are_only_read(here: Path) -> None:
    Path("in.txt").write_bytes(b"b\na\n")
    written = run("sort", "in.txt", "-o", f"http://{HOST}:1/out.txt")
    assert written.returncode == 2 and "only read" in written.stderr, written
    secret = run("sort", f"https://{HOST}:1/x?X-Amz-Signature=1")
    assert secret.returncode == 2 and "query" in secret.stderr, secret
