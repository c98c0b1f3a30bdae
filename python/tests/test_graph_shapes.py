"""Graphs of known shapes, and R-MAT graphs of many scales: compares every kernel with SciPy and networkx.

The largest scales take minutes: they run with `OUTCORE_LONG=1`.
"""

import os

import numpy as np
import pytest

import outcore
from graphs import rmat

sparse = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
csgraph = pytest.importorskip("scipy.sparse.csgraph", reason="SciPy is not installed")
networkx = pytest.importorskip("networkx", reason="networkx is not installed")

SCALES = [10, 12, 14, *([16, 18, 20] if os.environ.get("OUTCORE_LONG") else [])]


def shapes():
    """Shapes by name: vertices and edges."""
    side = 30
    at = np.arange(side * side).reshape(side, side)
    right = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    ring = np.arange(500)
    few = np.stack(np.nonzero(~np.eye(60, dtype=bool)), axis=1)
    return {
        "grid": (side * side, np.concatenate([right, down])),
        "star": (5000, np.stack([np.zeros(4999, int), np.arange(1, 5000)], axis=1)),
        "inward star": (5000, np.stack([np.arange(1, 5000), np.zeros(4999, int)], axis=1)),
        "path": (4000, np.stack([np.arange(3999), np.arange(1, 4000)], axis=1)),
        "ring": (500, np.stack([ring, (ring + 1) % 500], axis=1)),
        "clique": (60, few[few[:, 0] < few[:, 1]]),
        "no edges": (300, np.empty((0, 2), int)),
        "one vertex": (1, np.empty((0, 2), int)),
        "only loops": (40, np.stack([np.arange(40), np.arange(40)], axis=1)),
        "cliques apart": (600, np.concatenate([few + 60 * part for part in range(9)])),
        "a line of cliques": (
            480,
            np.concatenate([*(few + 60 * part for part in range(8)), [[60 * n - 1, 60 * n] for n in range(1, 8)]]),
        ),
    }


def converted(here, edges, vertices, **how):
    edges.astype("<u4").tofile(here / "edges.u32")
    return outcore.graph.convert(
        here / "edges.u32", here / "g", vertices=vertices, memory="64MiB", force=True, **how
    )


def smallest_of(labels):
    """The smallest vertex of each vertex' component."""
    smallest = np.full(labels.max() + 1, len(labels))
    np.minimum.at(smallest, labels, np.arange(len(labels)))
    return smallest[labels]


def check(here, edges, vertices, *, undirected, is_small):
    """Every kernel that SciPy or networkx can check."""
    edges = np.unique(edges, axis=0) if len(edges) else edges
    ends = (edges[:, 0].astype(int), edges[:, 1].astype(int))
    matrix = sparse.coo_array((np.ones(len(edges)), ends), shape=(vertices, vertices)).tocsr()
    if undirected:
        back = matrix.T.tolil()
        back.setdiag(0)
        matrix = ((matrix + back.tocsr()) > 0).astype(float).tocsr()
    g = converted(here, edges, vertices, undirected=undirected, dedup=True)
    _, labels = csgraph.connected_components(matrix, connection="weak")
    assert (g.components() == smallest_of(labels)).all()
    _, labels = csgraph.connected_components(matrix, connection="strong")
    assert (g.strongly_connected_components() == smallest_of(labels)).all()
    for source in {0, vertices // 2, int(edges[0, 0]) if len(edges) else 0}:
        far = csgraph.shortest_path(matrix, unweighted=True, indices=source)
        assert (g.bfs(source) == np.where(np.isinf(far), -1, far)).all()
        assert (g.shortest_path_length(source) == far).all()
    out = np.asarray(matrix.sum(axis=1)).ravel()
    ranks = np.full(vertices, 1 / vertices)
    for _ in range(200):
        flows = np.divide(ranks, out, where=out > 0, out=np.zeros(vertices))
        ranks = 0.85 * (matrix.T @ flows + ranks[out == 0].sum() / vertices) + 0.15 / vertices
    assert np.abs(g.pagerank(tol=1e-15, max_iter=500) - ranks).max() < 1e-9
    if not (undirected and is_small):
        return
    plain = converted(here, edges, vertices, undirected=True, dedup=True, drop_loops=True)
    other = networkx.Graph()
    other.add_nodes_from(range(vertices))
    other.add_edges_from((int(a), int(b)) for a, b in edges if a != b)
    cores, triangles = networkx.core_number(other), networkx.triangles(other)
    assert plain.core_number().tolist() == [cores[vertex] for vertex in range(vertices)]
    assert plain.triangles().tolist() == [triangles[vertex] for vertex in range(vertices)]
    assert plain.k_core(3).tolist() == [cores[vertex] >= 3 for vertex in range(vertices)]


@pytest.mark.parametrize("undirected", [False, True], ids=["directed", "undirected"])
@pytest.mark.parametrize("name", shapes())
def test_kernels_on_shapes_are_those_of_scipy_and_networkx(tmp_path, name, undirected):
    vertices, edges = shapes()[name]
    check(tmp_path, edges, vertices, undirected=undirected, is_small=True)


@pytest.mark.parametrize("undirected", [False, True], ids=["directed", "undirected"])
@pytest.mark.parametrize("scale", SCALES)
def test_kernels_on_rmat_are_those_of_scipy_and_networkx(tmp_path, scale, undirected):
    factor = 16 if scale <= 16 else 4
    check(tmp_path, rmat(scale, factor, scale), 1 << scale, undirected=undirected, is_small=scale <= 14)
