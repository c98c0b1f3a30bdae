"""Graphs for several test modules."""

from __future__ import annotations

import numpy as np


def rmat(scale, factor, seed):
    """The edges of an R-MAT graph with Graph500's probabilities."""
    random = np.random.default_rng(seed)
    edges = np.zeros((factor << scale, 2), dtype="<u4")
    for _ in range(scale):
        quarter = random.choice(4, size=len(edges), p=[0.57, 0.19, 0.19, 0.05])
        edges = edges << 1 | np.stack([quarter >> 1, quarter & 1], axis=1).astype("<u4")
    return edges
