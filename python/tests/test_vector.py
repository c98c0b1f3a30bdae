"""Compares vectors with NumPy in f64."""

from pathlib import Path

import numpy as np
import pytest

import outcore

LIMITS = {"memory": "64MiB", "threads": 2}


def distances_of(base, queries):
    wide = base.astype("f8"), queries.astype("f8")
    return ((wide[1][:, None, :] - wide[0][None, :, :]) ** 2).sum(axis=2)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1", "i1"])
def test_neighbours_are_those_of_all_pairs(here, dtype):
    random = np.random.default_rng(3)
    base = (random.normal(size=(500, 12)) * 30 + 40).clip(0, 100).astype(dtype)
    queries = base[::50] + np.array(1).astype(dtype)
    wanted = distances_of(base, queries)
    order = np.argsort(wanted, axis=1, kind="stable")[:, :7]
    distances, ids = outcore.knn(base, queries, 7, **LIMITS)
    assert (ids == order).all() and ids.dtype == np.int64
    assert np.allclose(distances, np.take_along_axis(wanted, order, axis=1), rtol=1e-12)
    np.save("base.npy", base)
    again, same = outcore.knn("base.npy", np.ascontiguousarray(queries), k=7, **LIMITS)
    assert (again == distances).all() and (same == ids).all()


def test_an_index_changes_no_result(here):
    random = np.random.default_rng(4)
    base = random.normal(size=(6000, 40)).astype("f4")
    np.save("base.npy", base)
    queries = random.normal(size=(9, 40)).astype("f4")
    size = outcore.index_vectors("base.npy", "base.vindex", **LIMITS)
    assert size == Path("base.vindex").stat().st_size < Path("base.npy").stat().st_size / 2
    for metric in ("l2", "ip", "cos"):
        wanted = outcore.knn("base.npy", queries, 6, metric=metric, **LIMITS)
        found = outcore.knn("base.npy", queries, 6, metric=metric, index="base.vindex", **LIMITS)
        assert all((a == b).all() for a, b in zip(wanted, found, strict=True))
    with pytest.raises(outcore.UsageError, match="exists"):
        outcore.index_vectors("base.npy", "base.vindex", **LIMITS)
    np.save("base.npy", base[::-1])
    with pytest.raises(outcore.UsageError, match="has changed"):
        outcore.knn("base.npy", queries, 6, index="base.vindex", **LIMITS)


def test_lists_are_searched_in_part_and_the_recall_is_measured(here):
    random = np.random.default_rng(5)
    base = random.normal(size=(4000, 16)).astype("f4")
    np.save("base.npy", base)
    queries = random.normal(size=(8, 16)).astype("f4")
    size = outcore.index_vectors("base.npy", "base.lists", nlist=20, **LIMITS)
    assert size == Path("base.lists").stat().st_size
    wanted = outcore.knn("base.npy", queries, 5, **LIMITS)
    found = outcore.knn("base.npy", queries, 5, index="base.lists", **LIMITS)
    assert all((a == b).all() for a, b in zip(wanted, found, strict=True))
    facts: dict = {}
    _, ids = outcore.knn("base.npy", queries, 5, index="base.lists", nprobe=3, facts=facts, **LIMITS)
    hits = [len(set(a) & set(b)) for a, b in zip(ids.tolist(), wanted[1].tolist(), strict=True)]
    assert facts["recall"] == pytest.approx(sum(hits) / 40)
    assert facts["recall_queries"] == 8 and facts["lists_read"] <= 20
    with pytest.raises(outcore.UsageError, match="the index has 20"):
        outcore.knn("base.npy", queries, 5, index="base.lists", nprobe=21, **LIMITS)


def test_a_row_is_not_its_own_neighbour_and_wrong_arguments_are_named(here):
    base = np.arange(30, dtype="f4").reshape(10, 3)
    distances, ids = outcore.knn(base, k=2, **LIMITS)
    assert (ids[0] == [1, 2]).all() and (ids[5] == [4, 6]).all()
    assert distances.shape == (10, 2)
    with pytest.raises(outcore.UsageError, match="metric"):
        outcore.knn(base, base, 1, metric="l1")
    with pytest.raises(outcore.UsageError, match="shape"):
        outcore.knn(base[0], base, 1)
    with pytest.raises(outcore.UsageError, match="dimensions"):
        outcore.knn(base, base[:, :2], 1, **LIMITS)
    with pytest.raises(outcore.UsageError, match="an array of"):
        outcore.knn(np.array([["a"]]), base, 1)


def test_vectors_are_chosen_by_a_mask_or_by_a_condition_over_a_table(here):
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(8)
    base, queries = random.normal(size=(300, 5)), random.normal(size=(9, 5))
    langs = np.array(["de", "fr", "en"])[random.integers(0, 3, 300)]
    years = random.integers(1990, 2030, 300)
    pq.write_table(pa.table({"lang": langs, "year": years}), "t.parquet")
    mask = (langs == "de") & (years > 2000)
    where = {"where": "lang == 'de' and year > 2000", "table": "t.parquet"}
    wanted = distances_of(base, queries)
    wanted[:, ~mask] = np.inf
    order = np.argsort(wanted, axis=1, kind="stable")[:, :4]
    np.save("mask.npy", mask)
    for chosen in (where, {"subset": mask}, {"subset": mask.astype("u1")}, {"subset": "mask.npy"}):
        assert (outcore.knn(base, queries, 4, **chosen, **LIMITS)[1] == order).all()
        limits, _, ids = outcore.range_search(base, queries, 4.0, **chosen, **LIMITS)
        near = [np.flatnonzero(row <= 4.0) for row in wanted]
        assert (ids == np.concatenate(near)).all()
        assert (np.diff(limits) == [len(row) for row in near]).all()
    outcore.ground_truth(base, queries, "gt.bin", 4, **where, **LIMITS)
    assert (np.fromfile("gt.bin", "<u4")[2:38].reshape(9, 4) == order).all()
    for wrong in ({"where": "year > 1"}, {"table": "t.parquet"}, {**where, "subset": mask}, {"subset": mask[:5]}, {"subset": years}):
        with pytest.raises(outcore.UsageError):
            outcore.knn(base, queries, 4, **wrong, **LIMITS)


def test_no_input_is_written_over(here):
    base = np.random.default_rng(9).normal(size=(60, 4)).astype("f4")
    np.save("b.npy", base)
    np.save("q.npy", base[:5])
    before = Path("b.npy").read_bytes(), Path("q.npy").read_bytes()
    model = outcore.KMeans(3, **LIMITS).fit("b.npy")
    for write in (
        lambda: outcore.ground_truth("b.npy", "q.npy", "q.npy", 5, force=True),
        lambda: model.label("b.npy", "b.npy", force=True),
        lambda: outcore.convert_vectors("b.npy", "./b.npy", to="f16", force=True),
        lambda: outcore.index_vectors("b.npy", "b.npy", force=True),
        lambda: outcore.index_vectors("b.npy", "b.npy", nlist=4, force=True),
    ):
        with pytest.raises(outcore.UsageError, match="is an input|is not a .npy file"):
            write()
    assert (Path("b.npy").read_bytes(), Path("q.npy").read_bytes()) == before


def test_ground_truth_has_the_format_of_big_ann(here):
    random = np.random.default_rng(5)
    base, queries = random.random((300, 5), "f4"), random.random((9, 5), "f4")
    outcore.ground_truth(base, queries, "gt.bin", 4, **LIMITS)
    raw = Path("gt.bin").read_bytes()
    assert np.frombuffer(raw, "<u4", 2).tolist() == [9, 4]
    ids = np.frombuffer(raw, "<u4", 36, 8).reshape(9, 4)
    wanted = distances_of(base, queries)
    assert (ids == np.argsort(wanted, axis=1)[:, :4]).all()
    found = np.frombuffer(raw, "<f4", 36, 8 + 4 * 36).reshape(9, 4)
    assert np.allclose(found, np.sort(wanted, axis=1)[:, :4], rtol=1e-6)
    assert len(raw) == 8 + 2 * 4 * 36
    with pytest.raises(outcore.UsageError, match="exists"):
        outcore.ground_truth(base, queries, "gt.bin", 4)


def lloyd(rows, centroids, iterations):
    for _ in range(iterations):
        labels = distances_of(centroids, rows).argmin(axis=1)
        centroids = np.stack([rows[labels == c].mean(axis=0) for c in range(len(centroids))])
    return centroids, distances_of(centroids, rows).min(axis=1).sum()


def test_clusters_are_those_of_lloyd_from_the_same_start(here):
    random = np.random.default_rng(8)
    rows = random.normal(size=(2000, 6)).astype("f4")
    start = rows[:5].astype("f8")
    centroids, inertia = lloyd(rows.astype("f8"), start, 6)
    model = outcore.KMeans(5, init=start, max_iter=6, tol=0, **LIMITS).fit(rows)
    assert np.allclose(model.cluster_centers_, centroids, rtol=1e-9)
    assert abs(model.inertia_ - inertia) < 1e-9 * inertia
    assert (model.n_iter_, model.n_features_in_) == (6, 6)
    labels = distances_of(model.cluster_centers_, rows).argmin(axis=1)
    assert (model.labels_ == labels).all() and model.labels_.dtype == np.int32
    assert (model.predict(rows[:7]) == labels[:7]).all()
    rows.tofile("rows.f32")
    named = outcore.KMeans(5, init=start, max_iter=6, tol=0, dtype="f32x6", threads=1)
    assert (named.fit_predict("rows.f32") == labels).all()
    assert (named.cluster_centers_ == model.cluster_centers_).all()


def test_labels_are_those_of_the_vectors_that_were_clustered(here):
    import pickle

    base = np.random.default_rng(6).normal(size=(20_000, 4))
    model = outcore.KMeans(3, **LIMITS).fit(base)
    wanted = model.predict(base)
    kept = pickle.dumps(model)
    base[:] = 0
    assert (model.labels_ == wanted).all()
    assert len(kept) < 100_000 and (pickle.loads(kept).labels_ == wanted).all()


def test_a_model_has_parameters_and_says_what_is_wrong(here):
    model = outcore.KMeans(3, tol=1e-3)
    assert model.get_params()["tol"] == 1e-3 and model.set_params(n_clusters=2) is model
    assert repr(model) == "KMeans(n_clusters=2)"
    with pytest.raises(outcore.UsageError, match="unknown"):
        model.set_params(clusters=2)
    with pytest.raises(outcore.UsageError, match="fit first"):
        model.predict(np.ones((2, 2)))
    with pytest.raises(outcore.UsageError, match="2 clusters were requested"):
        model.fit(np.ones((1, 2)))
    model.fit(np.array([[0.0, 0], [0, 1], [9, 9], [9, 8]]))
    assert sorted(np.bincount(model.labels_)) == [2, 2] and model.inertia_ == 1
    with pytest.raises(outcore.UsageError, match="X has 3 features, but KMeans is expecting 2"):
        model.predict(np.ones((2, 3)))
    np.save("wide.npy", np.ones((2, 3)))
    with pytest.raises(outcore.UsageError, match="have 3 dimensions"):
        model.predict("wide.npy")


def test_any_array_of_numbers_is_taken_and_others_are_named(here):
    rows = np.arange(24.0).reshape(8, 3)
    wanted = outcore.knn(rows, rows, 2, **LIMITS)
    for same in (np.asfortranarray(rows), rows.astype(">f8"), rows.astype(object), rows.tolist(), rows[::-1][::-1]):
        found = outcore.knn(same, same, 2, **LIMITS)
        assert all((a == b).all() for a, b in zip(found, wanted, strict=True))
    with pytest.raises(outcore.UsageError, match="Complex"):
        outcore.knn(rows * 1j, rows, 2)
    with pytest.raises(outcore.UsageError, match="minimum of 1"):
        outcore.knn(rows[:, :0], rows, 2)
    with pytest.raises(outcore.UsageError, match="masked"):
        outcore.knn(np.ma.masked_less(rows, 3), rows, 2)


def test_errors_speak_of_arrays_and_not_of_the_files_that_they_are_written_to(here):
    rows = np.arange(24.0).reshape(8, 3)
    spoilt = rows.copy()
    spoilt[5, 1] = np.nan
    for base, queries, name in [(spoilt, rows, "base"), (rows, spoilt, "queries")]:
        with pytest.raises(outcore.UsageError, match="row 5 .* column 1") as raised:
            outcore.knn(base, queries, 2, **LIMITS)
        assert f"the array of {name}" in str(raised.value) and raised.value.path is None
        for text in (str(raised.value), raised.value.cause or "", raised.value.hint or ""):
            assert "outcore-" not in text and ".npy" not in text
    with pytest.raises(outcore.UsageError) as raised:
        outcore.knn(rows, rows[:, :2], 2, **LIMITS)
    assert ".npy" not in str(raised.value)
    distances, ids = outcore.knn(rows, rows, 2, subset=np.arange(8) == 3, **LIMITS)
    assert (ids == [3, -1]).all() and np.isinf(distances[:, 1]).all()
    with pytest.raises(outcore.UsageError, match="init is 'foo'"):
        outcore.KMeans(2, init="foo").fit(rows)


def test_metrics_have_the_names_of_others_and_zero_vectors_a_distance(here):
    rows = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    for name, alias in [("cos", "cosine"), ("l2", "euclidean"), ("ip", "dot")]:
        for one, other in zip(
            outcore.knn(rows, rows, 3, metric=name, **LIMITS),
            outcore.knn(rows, rows, 3, metric=alias, **LIMITS),
        ):
            assert (one == other).all()
    distances, ids = outcore.knn(rows, rows, 3, metric="cosine", **LIMITS)
    assert (distances[1] == 1).all() and ids[1].tolist() == [0, 1, 2]
    assert distances[0][ids[0] == 1] == 1


@pytest.mark.parametrize("model", [outcore.KMeans, outcore.MiniBatchKMeans])
@pytest.mark.filterwarnings("ignore")
def test_models_pass_the_checks_of_scikit_learn(here, model):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    found = checks.check_estimator(model(3, **LIMITS), on_fail=None, on_skip=None)
    failed = [result["check_name"] for result in found if result["status"] == "failed"]
    assert not failed and len(found) > 30


@pytest.mark.parametrize(("dtype", "error"), [("f8", 1e-6), ("f4", 1e-4)])
def test_inertia_is_that_of_scikit_learn_from_the_same_start(here, dtype, error):
    cluster = pytest.importorskip("sklearn.cluster")
    random = np.random.default_rng(21)
    centres = random.normal(size=(20, 12)) * 4
    for rows in (
        random.normal(size=(3000, 12)).astype(dtype),
        (centres[random.integers(0, 20, 3000)] + random.normal(size=(3000, 12))).astype(dtype),
    ):
        start = rows[:20].copy()
        ours = outcore.KMeans(20, init=start, max_iter=30, tol=0, **LIMITS).fit(rows)
        theirs = cluster.KMeans(20, init=start, n_init=1, max_iter=30, tol=0).fit(rows)
        assert abs(ours.inertia_ - theirs.inertia_) <= error * theirs.inertia_
        assert ours.score(rows) == -ours.inertia_ and ours.score(rows[:5]) < 0
        batches = outcore.MiniBatchKMeans(20, init=start, batch_size=500, **LIMITS).fit(rows)
        assert batches.score(rows) == -batches.inertia_


def test_vectors_are_datasets_on_the_drives_of_a_volume(here):
    drives = "drives.toml"
    text = "".join(f'[[drive]]\ndir = "{here}/d{n}"\n' for n in range(3))
    for number in range(3):
        Path(f"d{number}").mkdir()
    Path(drives).write_text(text)
    volume = outcore.Volume.create(drives, stripe="64KiB")
    random = np.random.default_rng(22)
    base = random.normal(size=(9000, 16)).astype("f4")
    np.save("base.npy", base)
    volume.put("base.npy", "@base.npy")
    queries, limits = base[:5] + 1, {**LIMITS, "volume": drives}
    wanted = outcore.knn("base.npy", queries, 4, **LIMITS)
    found = outcore.knn("@base.npy", queries, 4, **limits)
    assert all((a == b).all() for a, b in zip(found, wanted, strict=True))
    outcore.index_vectors("@base.npy", "@base.vindex", **limits)
    found = outcore.knn("@base.npy", queries, 4, index="@base.vindex", **limits)
    assert all((a == b).all() for a, b in zip(found, wanted, strict=True))
    model = outcore.KMeans(4, **limits).fit("@base.npy")
    model.label("@base.npy", "@labels.npy")
    volume.get("@labels.npy", "labels.npy")
    assert (np.load("labels.npy") == model.predict(base)).all()
    with pytest.raises(outcore.UsageError, match="@labels.npy already exists"):
        model.label("@base.npy", "@labels.npy")
    with pytest.raises(outcore.OutcoreError, match="nothing.npy"):
        outcore.knn("@nothing.npy", queries, 4, **limits)


def test_batches_are_means_so_far_and_start_anywhere(here):
    random = np.random.default_rng(9)
    rows = np.concatenate([random.normal(size=(400, 3)) + 40 * c for c in range(4)]).astype("f4")
    random.shuffle(rows)
    centroids, counts = rows[:4].astype("f8"), np.zeros(4)
    model = outcore.MiniBatchKMeans(4, init=centroids, **LIMITS)
    for batch in np.split(rows, 4):
        labels = distances_of(centroids, batch).argmin(axis=1)
        added = np.bincount(labels, minlength=4)
        sums = np.stack([batch[labels == c].astype("f8").sum(axis=0) for c in range(4)])
        means = (centroids * counts[:, None] + sums) / np.maximum(counts + added, 1)[:, None]
        centroids = np.where(added[:, None] > 0, means, centroids)
        counts += added
        assert model.partial_fit(batch) is model
    assert np.allclose(model.cluster_centers_, centroids, rtol=1e-9)
    assert (model.counts_ == counts).all() and model.n_steps_ == 4
    assert model.get_params()["batch_size"] == 1024 and repr(model) == "MiniBatchKMeans(n_clusters=4)"
    for start in ("k-means++", "k-means||"):
        model = outcore.MiniBatchKMeans(4, init=start, batch_size=200, **LIMITS).fit(rows)
        assert (model.counts_ == 400).all() and (np.bincount(model.labels_) == 400).all()
        assert model.n_iter_ == -(-model.n_steps_ * 200 // 1600)


@pytest.mark.parametrize("metric", ["l2", "ip", "cos"])
def test_rows_within_a_radius_and_pairs_are_those_of_all_rows(here, metric):
    random = np.random.default_rng(12)
    base = random.integers(1, 9, size=(300, 4)).astype("f4")
    queries = random.integers(1, 9, size=(20, 4)).astype("f4")
    table = {"l2": distances_of(base, queries), "ip": queries @ base.T}
    norms = np.linalg.norm(queries.astype("f8"), axis=1)[:, None] * np.linalg.norm(base.astype("f8"), axis=1)
    table["cos"] = 1 - table["ip"].astype("f8") / norms
    radius = {"l2": 6, "ip": 150, "cos": 0.0512345}[metric]
    near = table[metric] >= radius if metric == "ip" else table[metric] <= radius
    limits, distances, ids = outcore.range_search(base, queries, radius, metric=metric, **LIMITS)
    assert limits.tolist() == [0, *np.cumsum(near.sum(axis=1))] and limits[-1] > 20
    assert (ids == np.nonzero(near)[1]).all() and np.allclose(distances, table[metric][near])
    if metric == "l2":
        found, squares = outcore.pairs(base, max_l2=radius, **LIMITS)
        wanted = np.argwhere(np.triu(distances_of(base, base) <= radius, 1))
        assert (found == wanted).all() and squares.max() <= radius
        _, _, others = outcore.range_search(base, None, radius, **LIMITS)
        assert len(others) == 2 * len(found)
    if metric == "cos":
        found, _ = outcore.pairs(base, min_cos=1 - radius, **LIMITS)
        wide = base.astype("f8") / np.linalg.norm(base.astype("f8"), axis=1)[:, None]
        assert (found == np.argwhere(np.triu(wide @ wide.T >= 1 - radius, 1))).all()
        with pytest.raises(outcore.UsageError, match="one bound"):
            outcore.pairs(base)


def test_bits_that_differ_are_counted(here):
    random = np.random.default_rng(14)
    base, queries = (random.integers(0, 256, (rows, 9), "u1") & 0x17 for rows in (400, 15))
    table = np.unpackbits(base[None] ^ queries[:, None], axis=2).sum(axis=2, dtype=np.int64)
    distances, ids = outcore.knn(base, queries, 5, metric="hamming", **LIMITS)
    order = np.argsort(table, axis=1, kind="stable")[:, :5]
    assert (ids == order).all() and (distances == np.take_along_axis(table, order, axis=1)).all()
    found, bits = outcore.pairs(base, max_hamming=8, **LIMITS)
    near = np.unpackbits(base[None] ^ base[:, None], axis=2).sum(axis=2) <= 8
    assert (found == np.argwhere(np.triu(near, 1))).all() and len(found) > 10 and bits.max() <= 8
    with pytest.raises(outcore.UsageError, match="not packed bits"):
        outcore.knn(base.astype("f4"), queries.astype("f4"), 5, metric="hamming", **LIMITS)


def test_vectors_are_converted_and_come_out_of_tables(here):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    random = np.random.default_rng(23)
    for dtype in ("f4", "f8", "f2", "i1", "u1", "i4", "i8"):
        rows = (random.normal(size=(7000, 9)) * 30 + 60).clip(0, 100).astype(dtype)
        flat = pa.array(rows.reshape(-1))
        whole = pa.FixedSizeListArray.from_arrays(flat, 9)
        loose = pa.ListArray.from_arrays(np.arange(0, 63_001, 9, dtype="i4"), flat)
        for lists in (whole, loose, loose.cast(pa.large_list(flat.type))):
            table = pa.table({"id": np.arange(7000), "embedding": lists})
            pq.write_table(table, "t.parquet", row_group_size=1500)
            assert outcore.convert_vectors("t.parquet", "out.npy", force=True, **LIMITS) == 7000
            found = np.load("out.npy")
            assert found.dtype == rows.dtype and (found == rows).all()
    rows = random.normal(size=(500, 4)).astype("f4")
    table = pa.table({"a": pa.FixedSizeListArray.from_arrays(rows.reshape(-1), 4), "b": [[1.0]] * 500})
    with pa.OSFile("t.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(outcore.UsageError, match="2 columns"):
        outcore.convert_vectors("t.arrow", "v.fvecs", **LIMITS)
    outcore.convert_vectors("t.arrow", "v.fvecs", column="a", **LIMITS)
    outcore.convert_vectors("v.fvecs", "v.f16bin", **LIMITS)
    outcore.convert_vectors("v.fvecs", "v.npy", **LIMITS)
    assert (np.load("v.npy") == rows).all()
    assert np.fromfile("v.f16bin", "<f2", offset=8).tolist() == rows.astype("f2").reshape(-1).tolist()
    for bad, cause in (([[1.0], None], "row 1 .* is null"), ([[1.0], [1.0, 2.0]], "row 1 .* has 2"), ([[1.0], [None]], "null among")):
        pq.write_table(pa.table({"v": pa.array(bad, pa.list_(pa.float32()))}), "bad.parquet")
        with pytest.raises(outcore.UsageError, match=cause):
            outcore.convert_vectors("bad.parquet", "bad.npy", **LIMITS)
    pq.write_table(pa.table({"v": ["x"]}), "bad.parquet")
    with pytest.raises(outcore.UsageError, match="no column of lists"):
        outcore.convert_vectors("bad.parquet", "bad.npy", **LIMITS)
    with pytest.raises(outcore.UsageError, match="lists of"):
        outcore.convert_vectors("bad.parquet", "bad.npy", column="v", **LIMITS)
    assert not Path("bad.npy").exists()


def test_a_checkpoint_is_of_files_and_goes_when_the_run_is_done(here):
    rows = np.random.default_rng(24).normal(size=(900, 5))
    np.save("rows.npy", rows)
    plain = outcore.KMeans(4, **LIMITS).fit("rows.npy")
    kept = outcore.KMeans(4, checkpoint="kept", **LIMITS).fit("rows.npy")
    assert (kept.cluster_centers_ == plain.cluster_centers_).all() and not Path("kept").exists()
    with pytest.raises(outcore.UsageError, match="in files"):
        outcore.KMeans(4, checkpoint="kept", **LIMITS).fit(rows)
    Path("kept").write_text("mine")
    with pytest.raises(outcore.UsageError, match="not a checkpoint"):
        outcore.KMeans(4, checkpoint="kept", **LIMITS).fit("rows.npy")
    assert Path("kept").read_text() == "mine"


def test_a_column_is_not_written_over_its_table(here):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    Path("d").mkdir()
    pq.write_table(pa.table({"v": [[1.0, 2.0]] * 3}), "d/t.parquet")
    before = Path("d/t.parquet").read_bytes()
    Path("v.npy").hardlink_to("d/t.parquet")
    for src in ("d", "d/t.parquet"):
        with pytest.raises(outcore.UsageError, match="it is an input"):
            outcore.convert_vectors(src, "v.npy", force=True, **LIMITS)
    assert Path("d/t.parquet").read_bytes() == before


def test_labels_are_tables_with_a_row_per_vector(here):
    pq = pytest.importorskip("pyarrow.parquet")
    base = np.array([[0, 0], [1, 0], [9, 9]], "f4")
    model = outcore.KMeans(2, **LIMITS).fit(base)
    labels = model.predict(base).tolist()
    model.label(base, "labels.csv")
    wanted = "".join(f"{row},{label}\n" for row, label in enumerate(labels))
    assert Path("labels.csv").read_text() == f"row,cluster\n{wanted}"
    model.label(base, "labels.parquet")
    assert pq.read_table("labels.parquet").to_pydict() == {"row": [0, 1, 2], "cluster": labels}
