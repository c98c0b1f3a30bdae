"""Compares graphs with SciPy and networkx.

If one of them is not installed, its tests say so and are skipped.
"""

import threading

import numpy as np
import pytest

import outcore
from graphs import rmat


def graph_of(tmp_path, edges, vertices, **how):
    edges.astype("<u4").tofile(tmp_path / "edges.u32")
    return outcore.graph.convert(
        tmp_path / "edges.u32", tmp_path / "g", vertices=vertices, memory="64MiB", force=True, **how
    )


def scipy_graph(edges, vertices):
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    ones = np.ones(len(edges))
    return sparse.coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(vertices, vertices)).tocsr()


@pytest.mark.parametrize("scale", [10, 13])
def test_components_and_levels_are_those_of_scipy(tmp_path, scale):
    vertices = 1 << scale
    edges = rmat(scale, 2, seed=scale)
    matrix = scipy_graph(edges, vertices)
    from scipy.sparse import csgraph

    g = graph_of(tmp_path, edges, vertices)
    assert (g.vertices, g.edges, g.directed) == (vertices, len(edges), True)
    _, labels = csgraph.connected_components(matrix, connection="weak")
    smallest = np.full(labels.max() + 1, vertices)
    np.minimum.at(smallest, labels, np.arange(vertices))
    assert (g.components() == smallest[labels]).all()
    source = int(edges[0, 0])
    far = csgraph.shortest_path(matrix, unweighted=True, indices=source)
    assert (g.bfs(source) == np.where(np.isinf(far), -1, far)).all()
    sources = [source, 1, 2]
    far = csgraph.shortest_path(matrix, unweighted=True, indices=sources).min(axis=0)
    assert (g.bfs(sources) == np.where(np.isinf(far), -1, far)).all()
    parents = g.bfs(source, parents=True)
    levels = g.bfs(source)
    reached = (levels > 0).nonzero()[0]
    assert (levels[parents[reached]] == levels[reached] - 1).all()


@pytest.mark.parametrize("undirected", [False, True])
def test_ranks_are_those_of_power_iteration(tmp_path, undirected):
    vertices = 1 << 12
    edges = rmat(12, 8, seed=2)
    matrix = scipy_graph(edges, vertices)
    if undirected:
        back = edges[edges[:, 0] != edges[:, 1]][:, ::-1]
        matrix = matrix + scipy_graph(back, vertices)
    out = np.asarray(matrix.sum(axis=1)).ravel()
    ranks = np.full(vertices, 1 / vertices)
    for _ in range(300):
        flows = np.divide(ranks, out, where=out > 0, out=np.zeros(vertices))
        dangling = ranks[out == 0].sum() / vertices
        ranks = 0.85 * (matrix.T @ flows + dangling) + 0.15 / vertices
    g = graph_of(tmp_path, edges, vertices, undirected=undirected)
    found = g.pagerank(tol=1e-15, max_iter=500)
    assert np.abs(found - ranks).max() < 1e-9
    assert abs(found.sum() - 1) < 1e-9


def test_core_numbers_and_ranks_are_those_of_networkx(tmp_path):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    vertices = 1 << 10
    edges = rmat(10, 8, seed=5)
    other = networkx.Graph()
    other.add_nodes_from(range(vertices))
    other.add_edges_from((int(a), int(b)) for a, b in edges if a != b)
    g = graph_of(tmp_path, edges, vertices, undirected=True, dedup=True, drop_loops=True)
    wanted = networkx.core_number(other)
    cores = g.core_number()
    assert cores.tolist() == [wanted[vertex] for vertex in range(vertices)]
    assert g.k_core(5).tolist() == [wanted[vertex] >= 5 for vertex in range(vertices)]
    assert g.degrees().tolist() == [other.degree(vertex) for vertex in range(vertices)]
    ranks = networkx.pagerank(other, tol=1e-12)
    found = g.pagerank(tol=1e-12)
    assert max(abs(found[vertex] - ranks[vertex]) for vertex in range(vertices)) < 1e-9


@pytest.mark.parametrize("undirected", [False, True])
def test_ranks_by_weight_are_those_of_networkx(tmp_path, undirected):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    matrix = sparse.random_array((400, 400), density=0.02, format="csr", dtype="f4", rng=5)
    if undirected:
        matrix = (matrix + matrix.T).tocsr()
    g = outcore.graph.from_scipy(
        matrix, tmp_path / "g", undirected=undirected, weights=True, memory="64MiB"
    )
    other = networkx.from_scipy_sparse_array(matrix.astype("f8"), create_using=networkx.DiGraph)
    jumps = {3: 1.0, 70: 3.0}
    for personalization in (None, jumps):
        how = {"tol": 1e-13, "max_iter": 1000, "personalization": personalization}
        ranks = networkx.pagerank(other, **how)
        found = g.pagerank(weighted=True, **how)
        assert max(abs(found[vertex] - ranks[vertex]) for vertex in range(400)) < 1e-9
    assert (g.pagerank() != g.pagerank(weighted=True)).any()
    plain = graph_of(tmp_path, np.array([[0, 1]]), 2)
    with pytest.raises(outcore.UsageError, match="no weights"):
        plain.pagerank(weighted=True)


def test_strong_components_and_lengths_are_those_of_scipy(tmp_path):
    csgraph = pytest.importorskip("scipy.sparse.csgraph", reason="SciPy is not installed")
    vertices = 1 << 11
    edges = rmat(11, 3, seed=6)
    matrix = scipy_graph(edges, vertices)
    g = graph_of(tmp_path, edges, vertices)
    _, labels = csgraph.connected_components(matrix, connection="strong")
    smallest = np.full(labels.max() + 1, vertices)
    np.minimum.at(smallest, labels, np.arange(vertices))
    assert (g.strongly_connected_components() == smallest[labels]).all()
    source = int(edges[0, 0])
    far = csgraph.dijkstra(matrix > 0, indices=source)
    assert (g.shortest_path_length(source) == far).all()
    sources = np.array([source, 1, 2])
    far = csgraph.dijkstra(matrix > 0, indices=sources, min_only=True)
    assert (g.shortest_path_length(sources) == far).all()
    assert (g.shortest_path_length(sources.tolist()) == far).all()
    assert (g.bfs(sources) == g.bfs(sources.tolist())).all()
    with pytest.raises(outcore.UsageError, match="no source"):
        g.shortest_path_length([])


def test_triangles_and_personal_ranks_are_those_of_networkx(tmp_path):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    vertices = 1 << 9
    edges = rmat(9, 8, seed=3)
    other = networkx.Graph()
    other.add_nodes_from(range(vertices))
    other.add_edges_from((int(a), int(b)) for a, b in edges if a != b)
    g = graph_of(tmp_path, edges, vertices, undirected=True, dedup=True, drop_loops=True)
    wanted = networkx.triangles(other)
    assert g.triangles().tolist() == [wanted[vertex] for vertex in range(vertices)]
    jumps = {3: 1.0, 70: 3.0}
    ranks = networkx.pagerank(other, tol=1e-12, personalization=jumps)
    found = g.pagerank(tol=1e-12, personalization=jumps)
    assert max(abs(found[vertex] - ranks[vertex]) for vertex in range(vertices)) < 1e-9


@pytest.mark.parametrize("undirected", [False, True])
def test_hubs_and_authorities_are_those_of_networkx(tmp_path, undirected):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    vertices = 1 << 10
    edges = rmat(10, 8, seed=7)
    other = networkx.Graph() if undirected else networkx.DiGraph()
    other.add_nodes_from(range(vertices))
    other.add_edges_from((int(a), int(b)) for a, b in edges)
    g = graph_of(tmp_path, edges, vertices, undirected=undirected, dedup=True)
    wanted = networkx.hits(other, tol=1e-12)
    for found, values in zip(g.hits(tol=1e-12), wanted):
        assert max(abs(found[vertex] - values[vertex]) for vertex in range(vertices)) < 1e-9


@pytest.mark.parametrize("undirected", [False, True])
def test_closeness_is_that_of_networkx(tmp_path, undirected):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    vertices = 1 << 9
    edges = rmat(9, 4, seed=7)
    other = networkx.Graph() if undirected else networkx.DiGraph()
    other.add_nodes_from(range(vertices))
    other.add_edges_from((int(a), int(b)) for a, b in edges)
    g = graph_of(tmp_path, edges, vertices, undirected=undirected)
    wanted = networkx.closeness_centrality(other)
    found = g.closeness(sources=vertices)
    assert max(abs(found[vertex] - wanted[vertex]) for vertex in range(vertices)) < 1e-12
    assert np.array_equal(g.closeness(30, seed=2), g.closeness(30, seed=2))
    assert (g.closeness(30, seed=2) != g.closeness(30, seed=3)).any()


def test_communities_are_as_modular_as_those_of_networkx(tmp_path):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    vertices = 1 << 11
    edges = rmat(11, 6, seed=8)
    other = networkx.Graph()
    other.add_nodes_from(range(vertices))
    other.add_edges_from((int(a), int(b)) for a, b in edges)
    g = graph_of(tmp_path, edges, vertices, undirected=True, dedup=True)
    labels = g.louvain_communities()
    groups = [set(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]
    found = networkx.community.modularity(other, groups)
    wanted = networkx.community.louvain_communities(other, seed=1)
    assert found > 0.97 * networkx.community.modularity(other, wanted)


def test_communities_are_as_modular_as_those_of_igraph(tmp_path):
    igraph = pytest.importorskip("igraph", reason="igraph is not installed")
    random = np.random.default_rng(6)
    group = random.integers(30, size=3_000)
    pairs = random.integers(3_000, size=(400_000, 2))
    chance = np.where(group[pairs[:, 0]] == group[pairs[:, 1]], 0.6, 0.01)
    planted = pairs[random.random(len(pairs)) < chance]
    side = np.arange(40 * 40).reshape(40, 40)
    beside = [(side[:, :-1], side[:, 1:]), (side[:-1], side[1:])]
    grid = np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in beside])
    for edges, vertices in [(planted, 3_000), (grid, 40 * 40)]:
        other = igraph.Graph(vertices, edges.tolist()).simplify()
        g = graph_of(tmp_path, edges, vertices, undirected=True, dedup=True, drop_loops=True)
        found = other.modularity(np.unique(g.louvain_communities(), return_inverse=True)[1].tolist())
        assert found > 0.999 * other.community_multilevel().modularity


def test_communities_of_a_planted_partition_are_found(tmp_path):
    random = np.random.default_rng(4)
    vertices, groups = 1 << 10, 8
    group = random.integers(groups, size=vertices)
    pairs = random.integers(vertices, size=(200_000, 2))
    same = group[pairs[:, 0]] == group[pairs[:, 1]]
    edges = pairs[np.where(same, random.random(len(pairs)) < 0.5, random.random(len(pairs)) < 0.01)]
    g = graph_of(tmp_path, edges, vertices, undirected=True, dedup=True, drop_loops=True)
    labels = g.label_propagation()
    smallest = np.full(groups, vertices)
    np.minimum.at(smallest, group, np.arange(vertices))
    assert (labels == smallest[group]).all()
    assert (g.louvain_communities() == labels).mean() > 0.97
    assert (g.label_propagation(max_iter=0) == np.arange(vertices)).all()


def test_small_graphs_have_known_triangles_lengths_and_components(tmp_path):
    edges = np.array([[0, 1], [1, 2], [2, 0], [2, 3], [3, 4], [4, 2]], "<u4")
    g = graph_of(tmp_path, edges, 6)
    assert g.strongly_connected_components().tolist() == [0, 0, 0, 0, 0, 5]
    assert g.shortest_path_length(0).tolist() == [0, 1, 2, 3, 4, float("inf")]
    with pytest.raises(outcore.UsageError, match="undirected"):
        g.triangles()
    with pytest.raises(outcore.UsageError, match="no vertex"):
        g.pagerank(personalization={})
    g = graph_of(tmp_path, edges, 6, undirected=True)
    assert g.triangles().tolist() == [1, 1, 2, 1, 1, 0]


@pytest.mark.parametrize("undirected", [False, True])
def test_a_matrix_of_scipy_comes_back(tmp_path, undirected):
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    matrix = sparse.random_array((300, 300), density=0.02, format="csr", dtype="f4", rng=3)
    if undirected:
        matrix = (matrix + matrix.T).tocsr()
    g = outcore.graph.from_scipy(
        matrix, tmp_path / "g", undirected=undirected, weights=True, memory="64MiB"
    )
    assert g.weighted
    back = g.to_scipy()
    assert abs(back - matrix).max() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g"]


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_saved_matrix_of_scipy_is_converted(tmp_path, layout, compressed):
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    matrix = sparse.random_array((300, 300), density=0.02, format=layout, dtype="f8", rng=3)
    sparse.save_npz(tmp_path / "m.npz", matrix, compressed=compressed)
    g = outcore.graph.convert(tmp_path / "m.npz", tmp_path / "g", weights=True, memory="64MiB")
    assert g.weight_type == "float64" and abs(g.to_scipy() - matrix).max() == 0
    sparse.save_npz(tmp_path / "m.npz", sparse.dia_array(np.eye(3)))
    with pytest.raises(outcore.UsageError, match="dia"):
        outcore.graph.convert(tmp_path / "m.npz", tmp_path / "h", memory="64MiB")


def test_ids_of_any_size_keep_their_names_and_bad_lines_are_told(tmp_path):
    (tmp_path / "e.txt").write_text("# far apart\n900000000000 7\n7 42\n")
    g = outcore.graph.convert(tmp_path / "e.txt", tmp_path / "g", relabel=True, memory="64MiB")
    names = g.names()
    assert names is not None and names.tolist() == [7, 42, 900000000000]
    assert g.bfs(2).tolist() == [1, 2, 0]
    assert repr(g).endswith("3 vertices, 2 edges, directed>")
    with pytest.raises(outcore.UsageError, match="not a vertex"):
        g.bfs(3)
    (tmp_path / "bad.txt").write_text("0 1\n0 x\n")
    with pytest.raises(outcore.CorruptError, match="line 2"):
        outcore.graph.convert(tmp_path / "bad.txt", tmp_path / "h", memory="64MiB")
    assert not (tmp_path / "h").exists()


def test_ids_may_be_names(tmp_path):
    lines = ["# friends", "alice bob {'weight': 2.5}", "bob carol {'weight': 1}", "dora bob {'weight': 4}"]
    (tmp_path / "e.edgelist").write_text("\n".join(lines) + "\n")
    files = tmp_path / "e.edgelist", tmp_path / "g"
    g = outcore.graph.convert(*files, relabel=True, weights=True, memory="64MiB")
    names = g.names()
    assert names is not None and names.tolist() == ["alice", "bob", "carol", "dora"]
    assert g.names([3, 0]).tolist() == ["dora", "alice"]
    assert g.vertex("carol") == 2
    assert g.bfs("alice").tolist() == [0, 1, 2, -1]
    assert g.bfs(["alice", 3]).tolist() == [0, 1, 2, 0]
    assert g.shortest_path_length("dora").tolist() == [float("inf"), 4.0, 5.0, 0.0]
    assert g.pagerank(personalization={"carol": 1.0}, tol=1e-12)[2] == pytest.approx(1.0)
    with pytest.raises(outcore.UsageError, match="'eve' is not a vertex"):
        g.bfs("eve")
    (tmp_path / "e.csv").write_text("7,x\nx,9\n")
    text = outcore.graph.convert(
        tmp_path / "e.csv", tmp_path / "c", relabel="text", header=False, memory="64MiB"
    )
    assert text.names().tolist() == ["7", "9", "x"]
    with pytest.raises(outcore.CorruptError, match="`x` is not an id"):
        how = {"relabel": "numbers", "header": False, "memory": "64MiB"}
        outcore.graph.convert(tmp_path / "e.csv", tmp_path / "d", **how)
    with pytest.raises(outcore.UsageError, match="ids cannot be `some`"):
        outcore.graph.convert(tmp_path / "e.csv", tmp_path / "d", relabel="some", memory="64MiB")


def test_edge_lists_of_networkx_are_read_as_they_are(tmp_path):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    karate = networkx.karate_club_graph()
    named = networkx.relabel_nodes(karate, lambda node: f"member-{node}")
    networkx.write_edgelist(named, tmp_path / "k.edgelist")
    files = tmp_path / "k.edgelist", tmp_path / "g"
    g = outcore.graph.convert(*files, relabel=True, weights=True, undirected=True, memory="64MiB")
    names = g.names().tolist()
    assert sorted(names) == sorted(named.nodes)
    wanted = networkx.pagerank(named, weight=None, tol=1e-12, max_iter=1000)
    ranks = dict(zip(names, g.pagerank(tol=1e-12, max_iter=1000)))
    assert all(abs(ranks[node] - wanted[node]) < 1e-8 for node in named)
    lengths = networkx.single_source_dijkstra_path_length(named, "member-0")
    found = dict(zip(names, g.shortest_path_length("member-0")))
    assert found == pytest.approx(lengths)
    # Without column names, numbers remain numbers.
    networkx.write_edgelist(karate, tmp_path / "n.edgelist")
    files = tmp_path / "n.edgelist", tmp_path / "n"
    n = outcore.graph.convert(*files, relabel=True, undirected=True, memory="64MiB")
    assert n.names().tolist() == list(range(34))


def test_edges_are_columns_of_tables(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    table = arrow.table({"km": [1.5, 2.0], "a": ["x", "y"], "b": ["y", "z"]})
    parquet.write_table(table, tmp_path / "e.parquet")
    how = {"columns": ["a", "b"], "relabel": True, "weights": "km", "memory": "64MiB"}
    g = outcore.graph.convert(tmp_path / "e.parquet", tmp_path / "g", **how)
    assert g.names().tolist() == ["x", "y", "z"]
    assert g.shortest_path_length("x").tolist() == [0.0, 1.5, 3.5]
    with pytest.raises(outcore.UsageError, match="relabel="):
        outcore.graph.convert(tmp_path / "e.parquet", tmp_path / "h", columns=["a", "b"], memory="64MiB")


def test_neighbours_are_sampled_in_batches_with_their_features(tmp_path):
    vertices = 1 << 10
    edges = rmat(10, 8, seed=4)
    g = graph_of(tmp_path, edges, vertices)
    arriving = [set() for _ in range(vertices)]
    for a, b in edges.tolist():
        arriving[b].add(a)
    features = np.arange(vertices * 3, dtype="f4").reshape(-1, 3)
    np.save(tmp_path / "x.npy", features)
    wanted = np.arange(0, vertices, 3)
    how = {"batch_size": 100, "shuffle": True, "seed": 5}
    loader = g.neighbor_loader(wanted, [4, 2], features=tmp_path / "x.npy", **how)
    assert len(loader) == 4
    seen = []
    for batch in loader:
        seeds = batch.n_id[: batch.batch_size]
        seen.extend(seeds.tolist())
        assert len(set(batch.n_id.tolist())) == len(batch.n_id)
        assert batch.x is not None and (batch.x == features[batch.n_id]).all()
        assert batch.edge_index.shape == (2, sum(batch.num_sampled_edges))
        for source, target in batch.edge_index.T.tolist():
            assert int(batch.n_id[source]) in arriving[int(batch.n_id[target])]
        drawn = np.bincount(batch.edge_index[1], minlength=len(batch.n_id))[: batch.batch_size]
        degrees = g.degrees(incoming=True)[seeds]
        assert (drawn == np.minimum(degrees, 4)).all()
    assert sorted(seen) == wanted.tolist() and seen != wanted.tolist()
    loader.set_epoch(0)
    first = [batch.n_id.tolist() for batch in loader]
    second = [batch.n_id.tolist() for batch in loader]
    assert first != second
    again = g.neighbor_loader(wanted, [4, 2], features=features, **how)
    assert [batch.n_id.tolist() for batch in again] == first
    for workers in (1, 3):
        ahead = g.neighbor_loader(wanted, [4, 2], features=tmp_path / "x.npy", workers=workers, **how)
        for one, other in zip(ahead, again_from(loader), strict=True):
            assert (one.n_id == other.n_id).all() and (one.x == other.x).all()
            assert (one.edge_index == other.edge_index).all()
        # Leaving a loop early ends its threads.
        next(iter(ahead))
    assert not [t for t in threading.enumerate() if t.name.startswith("outcore-neighbors")]
    with pytest.raises(outcore.UsageError, match="at most 256"):
        g.neighbor_loader(wanted, [4], workers=1000)
    with pytest.raises(outcore.UsageError, match="not a vertex"):
        g.neighbor_loader([vertices])
    with pytest.raises(outcore.UsageError, match="list of vertices"):
        g.neighbor_loader([0.5])


def again_from(loader):
    loader.set_epoch(0)
    return loader


def test_workers_that_do_not_fit_beside_each_other_draw_alone(tmp_path):
    graph_of(tmp_path, rmat(12, 16, seed=4), 1 << 12)
    g = outcore.graph.Graph(tmp_path / "g", memory="24MiB")
    how = {"batch_size": 512, "seed": 5}
    alone = [batch.n_id.tolist() for batch in g.neighbor_loader(None, [10, 10], **how)]
    beside = g.neighbor_loader(None, [10, 10], workers=4, **how)
    assert [batch.n_id.tolist() for batch in beside] == alone
    broken = g.neighbor_loader(None, [10, 10], workers=2, features=np.zeros((3, 1)), **how)
    with pytest.raises(IndexError):
        list(broken)


def test_walks_follow_edges(tmp_path):
    edges = np.array([[0, 1], [1, 2], [2, 0], [2, 3]], "<u4")
    g = graph_of(tmp_path, edges, 5)
    walks = g.random_walks(length=6, seed=2)
    assert walks.shape == (5, 7) and (walks[:, 0] == np.arange(5)).all()
    follow = {0: {1}, 1: {2}, 2: {0, 3}, 3: {-1}, 4: {-1}, -1: {-1}}
    assert all(b in follow[a] for walk in walks.tolist() for a, b in zip(walk, walk[1:]))
    assert (g.random_walks(length=6, seed=2) == walks).all()
    many = g.random_walks(np.full(100, 2), 1, seed=3)
    assert set(many[:, 1].tolist()) == {0, 3}
    back = g.random_walks([3], 2, incoming=True)
    assert back.tolist() == [[3, 2, 1]]


def test_a_graph_is_a_dataset_on_all_drives(tmp_path):
    lines = []
    for drive in range(2):
        (tmp_path / f"d{drive}").mkdir()
        lines.append(f'[[drive]]\ndir = "{tmp_path / f"d{drive}"}"\n')
    drives = tmp_path / "drives.toml"
    drives.write_text("\n".join(lines))
    volume = outcore.Volume.create(drives, stripe="64KiB")
    edges = rmat(9, 8, 3)
    here = graph_of(tmp_path, edges, 512, undirected=True)
    there = outcore.graph.convert(
        tmp_path / "edges.u32", "@g", vertices=512, undirected=True, memory="64MiB", volume=drives
    )
    assert [entry.name for entry in volume.ls()] == ["g"]
    assert (there.vertices, there.edges) == (here.vertices, here.edges)
    assert np.array_equal(there.components(), here.components())
    assert np.array_equal(there.pagerank(), here.pagerank())
    assert np.array_equal(there.bfs(0), here.bfs(0))
    assert np.array_equal(there.random_walks(length=4), here.random_walks(length=4))
    with pytest.raises(outcore.OutcoreError, match="@g"):
        outcore.graph.convert(tmp_path / "edges.u32", "@g", vertices=512, volume=drives)
    with pytest.raises(outcore.OutcoreError, match="@nobody"):
        outcore.graph.Graph("@nobody", volume=drives)


def test_weights_come_back_as_they_were(tmp_path):
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    how = {"weights": True, "memory": "64MiB", "force": True}
    for data, stored in [
        (np.array([1e-50, 16777217.0, 0.1]), "float64"),
        (np.array([0.5, 0.25, 3.0], "f4"), "float32"),
        (np.array([2**53 + 1, -3, 16777217]), "int64"),
        (np.array([True, True, True]), "int64"),
    ]:
        matrix = sparse.coo_array((data, ([0, 1, 2], [1, 2, 0])), shape=(3, 3))
        g = outcore.graph.from_scipy(matrix, tmp_path / "g", **how)
        assert g.weight_type == stored
        back = g.to_scipy()
        assert back.dtype == stored
        assert [back[0, 1], back[1, 2], back[2, 0]] == data.tolist()
        sparse.save_npz(tmp_path / "m.npz", matrix)
        g = outcore.graph.convert(tmp_path / "m.npz", tmp_path / "g", **how)
        assert g.weight_type == stored and (g.to_scipy() != matrix).nnz == 0
    matrix = sparse.coo_array(([2.0**53, 0.5], ([0, 1], [1, 0])), shape=(2, 2))
    for chosen, weight in [("i64", "0.5"), ("f16", "f16")]:
        with pytest.raises(outcore.UsageError, match=weight):
            outcore.graph.from_scipy(matrix, tmp_path / "g", weight_type=chosen, **how)
    g = outcore.graph.from_scipy(matrix, tmp_path / "g", weight_type="f32", **how)
    assert g.weight_type == "float32"


def test_a_matrix_that_is_not_square_is_rejected_or_bipartite(tmp_path):
    sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
    matrix = sparse.coo_array(([1.0, 2.0], ([0, 1], [2, 0])), shape=(2, 3))
    sparse.save_npz(tmp_path / "m.npz", matrix)
    with pytest.raises(outcore.UsageError, match="bipartite=True"):
        outcore.graph.from_scipy(matrix, tmp_path / "g", memory="64MiB")
    with pytest.raises(outcore.UsageError, match="2 rows and 3 columns"):
        outcore.graph.convert(tmp_path / "m.npz", tmp_path / "g", memory="64MiB")
    how = {"weights": True, "bipartite": True, "memory": "64MiB", "force": True}
    for g in (
        outcore.graph.from_scipy(matrix, tmp_path / "g", **how),
        outcore.graph.convert(tmp_path / "m.npz", tmp_path / "h", **how),
    ):
        back = g.to_scipy()
        assert back.shape == (5, 5) and back[0, 4] == 1 and back[1, 2] == 2 and back.nnz == 2


def test_columns_and_header_are_those_that_are_named(tmp_path):
    (tmp_path / "e.csv").write_text(',src,dst\n0,5,6\n1,6,7\n')
    how = {"memory": "64MiB", "force": True}
    with pytest.raises(outcore.UsageError, match="no name"):
        outcore.graph.convert(tmp_path / "e.csv", tmp_path / "g", **how)
    g = outcore.graph.convert(tmp_path / "e.csv", tmp_path / "g", columns=["src", "dst"], **how)
    assert g.bfs(5).tolist() == [-1, -1, -1, -1, -1, 0, 1, 2]
    (tmp_path / "n.csv").write_text("a,b\nb,c\n")
    g = outcore.graph.convert(tmp_path / "n.csv", tmp_path / "g", header=False, relabel=True, **how)
    assert g.edges == 2
    (tmp_path / "e.txt").write_text("0 1\n")
    for wrong in ({"columns": ["a", "b"]}, {"header": False}):
        with pytest.raises(outcore.UsageError):
            outcore.graph.convert(tmp_path / "e.txt", tmp_path / "g", **wrong, **how)


def test_the_name_of_no_vertex_is_none(tmp_path):
    (tmp_path / "e.txt").write_text("70 80\n90 90\n")
    g = outcore.graph.convert(tmp_path / "e.txt", tmp_path / "g", relabel=True, memory="64MiB")
    parents = g.bfs(0, parents=True)
    assert g.names(parents).tolist() == [70, 70, -1]
    (tmp_path / "n.txt").write_text("ann bo\nzoe zoe\n")
    g = outcore.graph.convert(tmp_path / "n.txt", tmp_path / "n", relabel=True, memory="64MiB")
    assert g.names(g.bfs("ann", parents=True)).tolist() == ["ann", "ann", None]
    assert g.names([[0, -1], [2, 1]]).tolist() == [["ann", None], ["zoe", "bo"]]
    for wrong in ([-2], [3]):
        with pytest.raises(outcore.UsageError, match="not a vertex"):
            g.names(wrong)


def test_a_mask_of_vertices_and_compressed_edges_are_taken(tmp_path):
    import gzip

    edges = rmat(8, 4, seed=4)
    text = "".join(f"{a} {b}\n" for a, b in edges.tolist())
    (tmp_path / "e.txt.gz").write_bytes(gzip.compress(text.encode()))
    g = outcore.graph.convert(tmp_path / "e.txt.gz", tmp_path / "g", vertices=256, memory="64MiB")
    assert g.edges == len(edges)
    mask = np.arange(256) % 5 == 0
    one, other = (
        [batch.n_id.tolist() for batch in g.neighbor_loader(seeds, [3], batch_size=20)]
        for seeds in (mask, np.flatnonzero(mask))
    )
    assert one == other and len(one) == 3
    with pytest.raises(outcore.UsageError, match="mask"):
        g.neighbor_loader(mask[:-1], [3])


def test_ranks_of_many_vertices_are_those_of_networkx_with_a_small_tolerance(tmp_path):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    vertices = 1 << 14
    edges = rmat(14, 2, seed=9)
    g = graph_of(tmp_path, edges, vertices)
    matrix = scipy_graph(edges, vertices)
    other = networkx.from_scipy_sparse_array(matrix, create_using=networkx.DiGraph)
    wanted = networkx.pagerank(other, tol=1e-14, max_iter=500)
    wanted = np.array([wanted[vertex] for vertex in range(vertices)])
    assert np.median(abs(g.pagerank() / wanted - 1)) < 1e-5
