"""Functions on graphs and vectors have the defaults of the verbs that do their work."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import outcore
from outcore import graph
from outcore._array_options import OPTIONS

#: A function, its verb, and the options that it calls by the names of other libraries.
FUNCTIONS: list[tuple[Callable[..., Any], str, dict[str, str]]] = [
    (graph.Graph.bfs, "graph bfs", {}),
    (graph.Graph.closeness, "graph closeness", {}),
    (graph.Graph.degrees, "graph degrees", {}),
    (graph.Graph.hits, "graph hits", {"max_iter": "iterations", "tol": "tolerance"}),
    (graph.Graph.label_propagation, "graph lp", {"max_iter": "rounds"}),
    (graph.Graph.louvain_communities, "graph louvain", {}),
    (graph.Graph.pagerank, "graph pagerank", {"max_iter": "iterations", "tol": "tolerance"}),
    (graph.Graph.random_walks, "graph walk", {"length": "steps_count"}),
    (graph.convert, "graph convert", {"weights": "", "relabel": "", "columns": ""}),
    (outcore.knn, "knn", {}),
    (outcore.convert_vectors, "vector convert", {"to": "element"}),
    (outcore.index_vectors, "vector index", {}),
    (outcore.pairs, "vector pairs", {}),
    (
        outcore.KMeans,
        "kmeans",
        {
            "n_clusters": "k",
            "n_init": "runs",
            "max_iter": "max_iterations",
            "tol": "tolerance",
            "random_state": "",
        },
    ),
]


@pytest.mark.parametrize("function, verb, names", FUNCTIONS)
def test_defaults_are_those_of_the_verb(
    function: Callable[..., Any], verb: str, names: dict[str, str]
) -> None:
    compared = 0
    for name, parameter in inspect.signature(function).parameters.items():
        option = names.get(name, name)
        known = OPTIONS.get(f"{verb}.{option}") or OPTIONS.get(option)
        if known is None or parameter.default is inspect.Parameter.empty:
            continue
        compared += 1
        assert parameter.default == known.default, name
    assert compared > 0
