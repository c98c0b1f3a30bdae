"""`outcore.ray` on three nodes of this machine: each verb has the result of one machine, and killed
workers and lost nodes change nothing.

The nodes are Ray's own (`ray.cluster_utils.Cluster`). They share a file system, but parts still go
from node to node through the keepers, as on three machines.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import outcore

ray: Any = pytest.importorskip("ray", reason="Ray is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import outcore.ray as cluster_verbs  # noqa: E402
from outcore.ray._files import grouped  # noqa: E402
from outcore.ray._job import File, Job  # noqa: E402
from outcore.ray._keeper import Keeper, Silent, fetch, home_of  # noqa: E402
from outcore.ray._sample import descending, names  # noqa: E402

#: A dead node is noticed within a second.
_HEALTH = {
    "health_check_initial_delay_ms": 0, "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000, "health_check_failure_threshold": 3,
}
_NODE: dict[str, Any] = {"num_cpus": 1, "memory": 1 << 30, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module")
def store() -> Iterator[Any]:
    """moto's S3; `None` without moto. Nodes get its address from the environment."""
    try:
        import boto3  # type: ignore[import-untyped]
        from moto.server import ThreadedMotoServer
    except ImportError:
        yield None
        return
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    settings = {
        "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.get_host_and_port()[1]}",
        "AWS_ALLOW_HTTP": "true", "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        yield client
    server.stop()


@pytest.fixture(scope="module")
def cluster(store: Any) -> Iterator[Any]:
    """Three nodes of one processor each."""
    from ray.cluster_utils import Cluster

    head = {**_NODE, "include_dashboard": False, "_system_config": _HEALTH}
    nodes: Any = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        nodes.add_node(**_NODE)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="error")
    yield nodes
    ray.shutdown()
    nodes.shutdown()


@pytest.fixture
def options(
    here: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """Arguments of all jobs; checks that nothing is left on the drives."""
    monkeypatch.setenv("_OUTCORE_RAY_APART", "1")
    drive = here / "drive"
    drive.mkdir()
    yield {"memory": "64MiB", "drives": [drive]}
    assert list(drive.iterdir()) == []
    left = [path.name for path in here.iterdir() if ".outcore-" in path.name or ".input-" in path.name]
    assert left == []


@pytest.fixture
def keys(here: Path) -> list[Path]:
    """Four files of numbers."""
    paths = [here / f"keys-{number}.bin" for number in range(4)]
    for number, path in enumerate(paths):
        outcore.gen("u64", path, 20_000, seed=number, dist="zipf:1.1:5000" if number == 3 else None)
    return paths


def joined(done: cluster_verbs.ClusterSummary) -> bytes:
    """All parts, one after another."""
    return b"".join(Path(part).read_bytes() for part in done.parts)


def one_machine(verb: Any, *given: Any, **options: Any) -> bytes:
    verb(*given, "one", **options)
    return Path("one").read_bytes()


def rows_of(done: cluster_verbs.ClusterSummary) -> pa.Table:
    return pa.concat_tables([pq.read_table(part) for part in done.parts])


def test_import_does_not_need_ray() -> None:
    text = "import sys, outcore; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text]).returncode == 0


def job_on(drive: Path) -> Job:
    drive.mkdir()
    return Job(id="id", token="secret", memory_bytes=1 << 26, threads=1, drives=(str(drive),))


def test_a_keeper_sends_files_of_its_job_to_those_who_know_the_token(here: Path) -> None:
    job = job_on(here / "drive")
    keeper = Keeper("node", "127.0.0.1")
    address = keeper.hold(job)
    assert address == keeper.hold(job)
    home = home_of(job, "node", str(here / "drive"))
    (home / "part").write_bytes(b"x" * 3_000_000)
    (here / "other").write_bytes(b"private")
    to = here / "fetched"
    assert fetch(job, address, str(home / "part"), to)
    assert to.read_bytes() == (home / "part").read_bytes()
    assert not fetch(job, address, str(home / "absent"), to)
    with pytest.raises(Silent):
        fetch(job, address, str(home / ".." / ".." / "other"), to)
    with pytest.raises(Silent):
        fetch(replace(job, token="wrong"), address, str(home / "part"), to)
    keeper.remove(job)
    keeper.hold(job)
    assert list((here / "drive").iterdir()) == [], "a job that has ended is not held again"
    with pytest.raises(Silent):
        fetch(job, address, str(home / "part"), to)


def test_directories_of_dead_jobs_are_removed(here: Path) -> None:
    job = job_on(here / "drive")
    living, other = Keeper("node", "127.0.0.1"), replace(job, id="living", token="other")
    living.hold(other)
    for name in ("outcore-ray-dead-node", "outcore-ray-young-node", "mine"):
        (here / "drive" / name).mkdir()
        (here / "drive" / name / "part").touch()
    for home in (here / "drive").iterdir():
        if "young" not in home.name:
            os.utime(home, (0, 0))
    keeper = Keeper("node", "127.0.0.1")
    keeper.hold(job)
    found = {home.name for home in (here / "drive").iterdir()}
    assert found == {"mine", "outcore-ray-id-node", "outcore-ray-living-node", "outcore-ray-young-node"}
    keeper.remove(job)
    living.remove(other)


def test_keys_have_names_and_directions() -> None:
    given = ["a,b:f64:desc", "`x,y:z`:asc:nulls-first", "st.f:r"]
    assert names(given) == ["a", "b", "x,y:z", "st.f"]
    given = ["a,b:desc", "c:nulls-first", ".d:asc", "`e:asc`"]
    assert descending(given) == ("a:desc", "b:desc", "c:nulls-first:desc", ".d:asc", "`e:asc`:desc")


def test_many_small_files_are_read_together_in_their_order() -> None:
    few = [File(f"{number}", 1000) for number in range(64)]
    assert grouped(few) == [(file,) for file in few]
    mixed = [File(f"{number}", 40 << 20 if number == 80 else 1 << 20) for number in range(100)]
    groups = grouped(mixed)
    assert [file for group in groups for file in group] == mixed
    assert [len(group) for group in groups] == [32, 32, 16, 1, 19]
    unknown = [File(f"https://host/{number}", 0) for number in range(65)]
    assert grouped(unknown) == [(file,) for file in unknown]


def test_groups_of_small_files_are_sorted_as_on_one_machine(
    here: Path, options: dict[str, Any]
) -> None:
    paths = [here / f"small-{number:02}.bin" for number in range(70)]
    for number, path in enumerate(paths):
        outcore.gen("u64", path, 0 if number == 3 else 1000, seed=number, dist="zipf:1.1:900")
    done = cluster_verbs.sort(paths, "sorted", record=8, key="0:2:u16", stable=True, parts=3, **options)
    assert joined(done) == one_machine(outcore.sort, paths, record=8, key="0:2:u16", stable=True)
    assert (done.sources, done.items_in) == (70, 69_000)
    kept = cluster_verbs.unique(paths, "unique", dtype="u64", **options)
    assert joined(kept) == one_machine(outcore.unique, paths, dtype="u64", force=True)


def test_sorted_numbers_are_those_of_one_machine(keys: list[Path], options: dict[str, Any]) -> None:
    done = cluster_verbs.sort(keys, "sorted", dtype="u64", parts=5, **options)
    assert joined(done) == one_machine(outcore.sort, keys, dtype="u64")
    assert (done.items_in, done.items_out, sum(done.counts)) == (80_000, 80_000, 80_000)
    assert int(done.checksum, 16) == int(outcore.verify(keys, dtype="u64").checksum, 16)
    assert len(done.parts) > 2 and done.sources == 4 and done.repeated == 0
    assert done.fetched_bytes > 0


def test_parts_on_a_drive_that_nodes_share_are_not_sent(
    keys: list[Path], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("_OUTCORE_RAY_APART")
    done = cluster_verbs.sort(keys, "sorted", dtype="u64", parts=3, **options)
    assert joined(done) == one_machine(outcore.sort, keys, dtype="u64")
    assert done.fetched_bytes == 0


def test_files_in_order_make_parts_of_about_equal_sizes(
    here: Path, options: dict[str, Any]
) -> None:
    outcore.gen("u64", "sorted-keys.bin", 60_000, dist="sorted")
    done = cluster_verbs.sort("sorted-keys.bin", "sorted", dtype="u64", parts=4, **options)
    assert joined(done) == Path("sorted-keys.bin").read_bytes()
    assert all(10_000 < count < 20_000 for count in done.counts)


def test_descending_records_by_key_are_those_of_one_machine(here: Path, options: dict[str, Any]) -> None:
    paths = [here / f"{number}.dat" for number in range(3)]
    for number, path in enumerate(paths):
        outcore.gen("gensort", path, 500, first=500 * number)
    given: dict[str, Any] = {"record": (100, "0:2"), "descending": True}
    done = cluster_verbs.sort(paths, "sorted", parts=4, **given, **options)
    assert joined(done) == one_machine(outcore.sort, paths, **given)
    stable = cluster_verbs.sort(paths, "stable", parts=4, stable=True, **given, **options)
    assert joined(stable) == one_machine(outcore.sort, paths, stable=True, force=True, **given)


def test_arrays_keep_their_headers(here: Path, options: dict[str, Any]) -> None:
    numpy = pytest.importorskip("numpy")
    rng = numpy.random.default_rng(3)
    arrays = [rng.integers(-1000, 1000, 5000).astype("i4") for _ in range(3)]
    for number, array in enumerate(arrays):
        numpy.save(here / f"a{number}.npy", array)
    done = cluster_verbs.sort("a*.npy", "sorted", parts=3, **options)
    found = numpy.concatenate([numpy.load(part) for part in done.parts])
    assert (found == numpy.sort(numpy.concatenate(arrays))).all()


def write_lines(here: Path, count: int = 3000) -> list[Path]:
    """Lines in several files; many lines are in more than one file."""
    paths = [here / f"lines-{number}.txt" for number in range(3)]
    for number, path in enumerate(paths):
        lines = (f"{(7 * number + line * 7919) % 1999} {'x' * (line % 40)}\n" for line in range(count))
        path.write_text("".join(lines))
    return paths


def test_sorted_and_unique_lines_are_those_of_one_machine(here: Path, options: dict[str, Any]) -> None:
    paths = write_lines(here)
    done = cluster_verbs.sort(paths, "sorted", parts=4, descending=True, **options)
    assert joined(done) == one_machine(outcore.sort, paths, descending=True)
    done = cluster_verbs.unique(paths, "unique", parts=4, **options)
    assert joined(done) == one_machine(outcore.unique, paths, force=True)
    done = cluster_verbs.unique(paths, "counts", parts=4, count=True, **options)
    assert joined(done) == one_machine(outcore.unique, paths, count=True, force=True)


def test_json_lines_are_sorted_by_fields(here: Path, options: dict[str, Any]) -> None:
    paths = [here / f"rows-{number}.jsonl" for number in range(3)]
    for number, path in enumerate(paths):
        rows = (
            f'{{"id": {line}, "user": {{"age": {(line * 37 + number) % 90}}}, "s": "é{line % 7}"}}\n'
            for line in range(2000)
        )
        path.write_text("".join(rows))
    by = [".user.age", ".s:desc"]
    done = cluster_verbs.sort(paths, "sorted", by=by, parts=4, **options)
    Path("one.jsonl").write_bytes(b"")
    outcore.sort(paths, "one.jsonl", by=by, force=True)
    assert joined(done) == Path("one.jsonl").read_bytes()
    assert len(done.parts) == 4


def test_json_lines_with_keys_of_all_kinds_are_sorted_as_on_one_machine(
    here: Path, options: dict[str, Any]
) -> None:
    paths = [here / f"odd-{number}.jsonl" for number in range(3)]
    kinds = ['{{"k": {0}}}', '{{"k": "t{0}"}}', '{{"k": null, "n": {0}}}', '{{"k": true, "n": {0}}}', '{{"k": {0}.5}}']
    for number, path in enumerate(paths):
        rows = (kinds[(line + number) % 5].format(line % 40) for line in range(1500))
        path.write_text("".join(f"{row}\n" for row in rows))
    for name in ("force", "stable", "descending", "unique"):
        given: dict[str, Any] = {name: True}
        done = cluster_verbs.sort(paths, name, by=[".k"], parts=3, **given, **options)
        outcore.sort(paths, "one.jsonl", by=[".k"], **{"force": True, **given})
        assert joined(done) == Path("one.jsonl").read_bytes(), name
    with paths[1].open("a") as file:
        file.write('{"n": 1}\n')
    with pytest.raises(outcore.CorruptError, match="no field .k"):
        cluster_verbs.sort(paths, "missing", by=[".k"], parts=3, **options)


def test_csv_is_not_sorted_on_a_cluster(here: Path, options: dict[str, Any]) -> None:
    Path("t.csv").write_text("n,s\n2,b\n1,a\n")
    with pytest.raises(outcore.UsageError, match="not partitioned for a cluster"):
        cluster_verbs.sort("t.csv", "sorted", by="n", **options)
    assert not Path("sorted").exists()


def test_a_shuffle_depends_only_on_its_seed(here: Path, options: dict[str, Any]) -> None:
    paths = write_lines(here, 1000)
    lines = sorted(b"".join(path.read_bytes() for path in paths).splitlines())
    given = {"parts": 3, **options}
    first = cluster_verbs.shuffle(paths, "first", seed=4, **given)
    again = cluster_verbs.shuffle(paths, "again", seed=4, **given)
    other = cluster_verbs.shuffle(paths, "other", seed=5, **given)
    assert joined(first) == joined(again) != joined(other)
    assert sorted(joined(first).splitlines()) == lines == sorted(joined(other).splitlines())
    # Lines of each file are in all parts, and in no order.
    assert all(600 < count < 1400 for count in first.counts)


def tables(here: Path) -> list[Path]:
    """Three tables of sales."""
    paths = [here / f"sales-{number}.parquet" for number in range(3)]
    for number, path in enumerate(paths):
        outcore.gen("sales", path, 3000, seed=number)
    return paths


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(column.to_pylist() for column in table.columns)), key=repr)


def test_tables_are_sorted_with_nulls_in_place(here: Path, options: dict[str, Any]) -> None:
    paths = tables(here)
    done = cluster_verbs.sort(paths, "sorted", by=["rating", "price"], descending=True, parts=4, **options)
    outcore.sort(paths, "one.parquet", by=["rating", "price"], descending=True)
    found, wanted = rows_of(done), pq.read_table("one.parquet")
    assert found.equals(wanted)
    assert len(done.parts) == 4


def test_dedup_groups_and_counts_are_those_of_one_machine(here: Path, options: dict[str, Any]) -> None:
    paths = tables(here)
    done = cluster_verbs.dedup(paths, "dedup", by="id", parts=3, **options)
    outcore.dedup(paths, "one.parquet", by="id")
    assert sorted_rows(rows_of(done)) == sorted_rows(pq.read_table("one.parquet"))
    assert done.items_out < done.items_in == 9000
    aggregates = "count,total=sum(quantity),best=max(price)"
    by = ["country", "category"]
    done = cluster_verbs.group_by(paths, "groups", by=by, aggregates=aggregates, parts=3, **options)
    outcore.group_by(paths, "groups.parquet", by=by, aggregates=aggregates)
    assert rows_of(done).equals(pq.read_table("groups.parquet"))
    done = cluster_verbs.count_by(paths, "counts", by="country", parts=3, **options)
    outcore.count_by(paths, "counts.parquet", by="country")
    assert rows_of(done).equals(pq.read_table("counts.parquet"))


def test_json_lines_are_deduplicated_as_tables(here: Path, options: dict[str, Any]) -> None:
    for number in range(3):
        rows = (f'{{"id": {row % 400}, "from": {number}}}\n' for row in range(600))
        Path(f"rows-{number}.jsonl").write_text("".join(rows))
    done = cluster_verbs.dedup("rows-*.jsonl", "kept", by="id", parts=2, **options)
    kept = rows_of(done)
    assert kept["id"].to_pylist() == list(range(400))
    assert set(kept["from"].to_pylist()) == {0}, "the first row of the input"


def test_files_of_nodes_are_read_there(
    keys: list[Path], options: dict[str, Any], cluster: Any
) -> None:
    nodes = [node.node_id for node in cluster.list_all_nodes()][:2]
    sources = {nodes[0]: keys[:1], nodes[1]: keys[1:]}
    done = cluster_verbs.sort(sources, "sorted", dtype="u64", parts=2, **options)
    assert joined(done) == one_machine(outcore.sort, keys, dtype="u64")
    with pytest.raises(outcore.UsageError, match="Ray has no node 000"):
        cluster_verbs.sort({"0" * 56: keys}, "nowhere", dtype="u64", **options)


def test_a_join_is_that_of_one_machine(here: Path, options: dict[str, Any]) -> None:
    paths = tables(here)
    people = pa.table({"customer": list(range(0, 3000, 2)), "name": [f"n{at}" for at in range(1500)]})
    pq.write_table(people.slice(0, 900), "names-0.parquet")
    pq.write_table(people.slice(900), "names-1.parquet")
    right = ["names-0.parquet", "names-1.parquet"]
    done = cluster_verbs.join(paths, right, "joined", on="customer", how="left", parts=4, **options)
    outcore.join(paths, right, "one.parquet", on="customer", how="left")
    assert sorted_rows(rows_of(done)) == sorted_rows(pq.read_table("one.parquet"))


def test_a_dataset_of_ray_is_sorted(here: Path, options: dict[str, Any]) -> None:
    data = pytest.importorskip("ray.data")
    table = pa.table({"k": [(number * 7919) % 1000 for number in range(4000)]})
    done = cluster_verbs.sort(data.from_arrow(table), "sorted", by="k", parts=3, **options)
    assert rows_of(done)["k"].to_pylist() == sorted(table["k"].to_pylist())


def test_a_bucket_is_sorted_into_objects(
    keys: list[Path], options: dict[str, Any], store: Any
) -> None:
    if store is None:
        pytest.skip("moto is not installed")
    for number, path in enumerate(keys):
        store.put_object(Bucket="bucket", Key=f"in/{number}.bin", Body=path.read_bytes())
    given: dict[str, Any] = {"dtype": "u64", "parts": 3, **options}
    done = cluster_verbs.sort("s3://bucket/in/*.bin", "s3://bucket/sorted", **given)
    bodies = [
        store.get_object(Bucket="bucket", Key=str(part).removeprefix("s3://bucket/"))["Body"].read()
        for part in done.parts
    ]
    assert b"".join(bodies) == one_machine(outcore.sort, keys, dtype="u64")
    assert done.sources == 4
    with pytest.raises(outcore.UsageError, match="exists"):
        cluster_verbs.sort("s3://bucket/in/*.bin", "s3://bucket/sorted", **given)
    tables(Path())
    for number in range(3):
        body = Path(f"sales-{number}.parquet").read_bytes()
        store.put_object(Bucket="bucket", Key=f"tables/{number}.parquet", Body=body)
    done = cluster_verbs.dedup("s3://bucket/tables/", "s3://bucket/dedup", by="id", **options)
    assert (done.items_in, done.items_out) == (9000, 3000)


def test_a_killed_worker_changes_nothing(
    keys: list[Path], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = one_machine(outcore.sort, keys, dtype="u64")
    for stage in ("partition", "finish"):
        mark = Path(f"killed-{stage}").absolute()
        monkeypatch.setenv("_OUTCORE_RAY_FAULT", f"{stage}:1:{mark}")
        done = cluster_verbs.sort(keys, f"sorted-{stage}", dtype="u64", parts=3, **options)
        assert mark.exists(), "the worker was killed"
        assert joined(done) == wanted


def test_lost_parts_cost_only_their_source(
    keys: list[Path], options: dict[str, Any], here: Path
) -> None:
    removed: list[Path] = []

    def remove(progress: outcore.Progress) -> None:
        if progress.phase == "partition" and progress.done_bytes == progress.total_bytes and not removed:
            removed.extend(here.glob("drive/*/0-2-*"))
            subprocess.run(["rm", "-r", *removed], check=True)

    done = cluster_verbs.sort(keys, "sorted", dtype="u64", parts=3, progress=remove, **options)
    assert len(removed) == 1
    assert joined(done) == one_machine(outcore.sort, keys, dtype="u64")
    assert done.repeated == 1


def test_an_interrupt_leaves_nothing(keys: list[Path], options: dict[str, Any], here: Path) -> None:
    def stop(progress: outcore.Progress) -> None:
        if progress.phase == "finish":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cluster_verbs.sort(keys, "sorted", dtype="u64", progress=stop, **options)
    assert not Path("sorted").exists()


def test_errors_of_tasks_are_those_of_the_engine(keys: list[Path], options: dict[str, Any]) -> None:
    with pytest.raises(FileNotFoundError):
        cluster_verbs.sort("absent.bin", "sorted", dtype="u64", **options)
    Path("odd.bin").write_bytes(bytes(9))
    with pytest.raises(outcore.UsageError, match="odd.bin"):
        cluster_verbs.sort([*keys, "odd.bin"], "sorted", dtype="u64", **options)
    with pytest.raises(outcore.UsageError, match="largest node of Ray has 1.00 GiB"):
        cluster_verbs.sort(keys, "sorted", dtype="u64", **{**options, "memory": "8GiB"})
    Path("sorted").mkdir()
    with pytest.raises(outcore.UsageError, match="exists"):
        cluster_verbs.sort(keys, "sorted", dtype="u64", **options)
    assert list(Path("sorted").iterdir()) == []
    done = cluster_verbs.sort(keys, "sorted", dtype="u64", force=True, **options)
    written = {Path(part).name for part in done.parts}
    assert {path.name for path in Path("sorted").iterdir()} == {*written, "_outcore.json"}


def test_parts_of_a_lost_node_are_made_again(
    keys: list[Path], options: dict[str, Any], cluster: Any
) -> None:
    """The last test, since the cluster has a node less afterwards."""
    lost = cluster.list_all_nodes()[-1]
    wanted = one_machine(outcore.sort, keys, dtype="u64")
    removed: list[Any] = []

    def remove(progress: outcore.Progress) -> None:
        # All sources are partitioned, and no part is finished.
        if progress.phase == "partition" and progress.done_bytes == progress.total_bytes and not removed:
            removed.append(lost)
            cluster.remove_node(lost, allow_graceful=False)

    done = cluster_verbs.sort(keys, "sorted", dtype="u64", parts=3, progress=remove, **options)
    assert removed and joined(done) == wanted
    assert 0 < done.repeated < len(keys)
    # A keeper that is gone does not remove the directory of its node.
    for home in Path("drive").iterdir():
        assert lost.node_id[:16] in home.name
        subprocess.run(["rm", "-r", str(home)], check=True)
