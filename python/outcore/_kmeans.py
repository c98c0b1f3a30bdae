"""k-means over vectors far larger than memory, with scikit-learn's names.

Files of vectors are read in place; arrays in memory are first written to a temporary file. Results
are the same for any memory and number of threads.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, SupportsIndex

from ._array_verbs import run_on_arrays
from ._arguments import Size, StrPath, truth
from ._errors import UsageError, usage
from ._units import whole
from ._vector import _file_of, _rows_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_STARTS = {"k-means++": "k-means++", "k-means||": "k-means||", "parallel": "k-means||", "random": "random"}


def _as_not_fitted(error: UsageError) -> UsageError:
    """The error. If scikit-learn is in use, it is also of the class that scikit-learn raises."""
    exceptions: Any = sys.modules.get("sklearn.exceptions")
    if exceptions is None:
        return error
    kind: Any = type("NotFittedError", (UsageError, exceptions.NotFittedError), {})
    made: UsageError = kind(*error.args)
    made.operation, made.cause, made.hint = error.operation, error.cause, error.hint
    return made


def _rows(X: Any, given: dict[str, Any]) -> int:
    """The number of vectors in a file or an array."""
    if not isinstance(X, (str, os.PathLike)):
        return len(X)
    report, _ = run_on_arrays("vector info", X, {name: given[name] for name in ("type_name", "volume")})
    return int(report["records"])


class KMeans:
    """k-means over vectors on drives, with scikit-learn's names.

        >>> model = outcore.KMeans(64, memory="2GiB").fit("base.fbin")
        >>> model.cluster_centers_, model.inertia_

    Args:
        n_clusters: Number of clusters.
        init: `"k-means++"` (on a sample), `"k-means||"` (on all vectors, by three passes), `"random"`, or
            an array or file of centroids to start from.
        n_init: Number of runs from different starts; the run with the least inertia is kept.
        max_iter: Maximum number of iterations.
        tol: The run ends when the squared moves of all centroids sum to at most this fraction of
            the mean variance of the columns.
        random_state: Seed of the starts; with `None`, the result is also the same each time.
        spherical: Normalise vectors and centroids to length 1.
        checkpoint: A file with the centroids between iterations: after a stop, the same call
            continues from there. It is removed when the run is done. Only for a single run over a
            file.
        dtype: The type of raw numbers, such as `"f32x768"`.
        memory: Memory to use, as `"2GiB"` or bytes; by default half of what is free.
        threads: Compute threads; by default all processors.
        io: `"auto"`, `"direct"` (past the page cache) or `"buffered"`.
        volume: The drives file of a volume, so that files may be its datasets (`"@name"`); by default the file that `OUTCORE_VOLUME` names.

    Attributes:
        cluster_centers_: Centroids, an array of `float64`.
        inertia_: The sum of the squared distances of all vectors to their centroids.
        n_iter_: Number of iterations.
        labels_: The cluster of each vector; the first access takes a pass over the base.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: int | None = None,
        spherical: bool = False,
        checkpoint: StrPath | None = None,
        dtype: str | None = None,
        memory: Size | None = None,
        threads: SupportsIndex | None = None,
        io: str | None = None,
        volume: StrPath | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.spherical = spherical
        self.dtype = dtype
        self.memory = memory
        self.threads = threads
        self.io = io
        self.volume = volume

    cluster_centers_: npt.NDArray[np.float64]
    _labels: npt.NDArray[np.int32] | None

    _PARAMETERS: tuple[str, ...] = (
        "n_clusters", "init", "n_init", "max_iter", "tol", "random_state", "spherical",
        "checkpoint", "dtype", "memory", "threads", "io", "volume",
    )  # fmt: skip

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments, by name."""
        return {name: getattr(self, name) for name in self._PARAMETERS}

    def set_params(self, **params: Any) -> KMeans:
        """Sets arguments by name."""
        for name, value in params.items():
            if name not in self._PARAMETERS:
                hint = f"there are {', '.join(self._PARAMETERS)}"
                raise usage("set parameters", f"{name!r} is unknown", hint)
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """The tags that scikit-learn needs from an estimator; only scikit-learn calls this, so it
        is installed."""
        utils: Any = importlib.import_module("sklearn.utils")
        target_tags = utils.TargetTags(required=False)
        return utils.Tags(
            estimator_type="clusterer", target_tags=target_tags, input_tags=utils.InputTags()
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cluster_centers_")

    def fit(self, X: Any, y: None = None) -> KMeans:
        """Clusters the vectors of a file or an array."""
        found = self._run(X, self.init)
        self.n_iter_ = int(found["iterations"])
        self._remember(X)
        return self

    def _remember(self, X: Any) -> None:
        """Labels the vectors of an array at once, because the array may change; those of a file are
        labelled on the first access."""
        is_file = isinstance(X, (str, os.PathLike))
        self._fitted = X if is_file else None
        self._labels = None if is_file else self.predict(X)

    def _batches(self, X: Any) -> dict[str, Any]:
        """Options of a run in batches over these vectors; none for a run over the whole base."""
        return {}

    def _run(
        self, X: Any, start: Any, row_counts: list[int] | None = None, *, is_partial: bool = False
    ) -> Any:
        """Clusters vectors, keeps the results, and returns the facts of the run."""
        centroids, found = self._cluster(X, start, row_counts, is_partial=is_partial)
        self.cluster_centers_ = centroids
        self.inertia_ = float(found["inertia"])
        self.n_features_in_ = int(found["dimension"])
        return found

    def _cluster(
        self,
        X: Any,
        start: Any,
        row_counts: list[int] | None = None,
        *,
        is_partial: bool = False,
        iterations: int | None = None,
    ) -> tuple[npt.NDArray[np.float64], Any]:
        """Clusters vectors: centroids and the facts of the run."""
        from ._numpy import numpy

        is_kept = self.checkpoint is not None and iterations is None
        is_file = all(isinstance(one, (str, os.PathLike)) for one in (X, start))
        if is_kept and not is_file:
            cause = "a checkpoint needs vectors and a start in files, which a later call can recognise"
            raise usage("cluster vectors", cause, "save the array with numpy.save, and name the file")
        with contextlib.ExitStack() as files:
            base = files.enter_context(_file_of(X, "vectors"))
            is_named = isinstance(start, str) and start in _STARTS
            if isinstance(start, str) and not is_named and not os.path.exists(start) and not start.startswith("@"):
                cause = f"init is {start!r}, neither a file of centroids nor a way to choose them"
                raise usage("cluster vectors", cause, f"give {', '.join(map(repr, _STARTS))}, an array or a file")
            init = _STARTS[start] if is_named else files.enter_context(_file_of(start, "centroids"))
            given = {
                "k": self.n_clusters if iterations is None else len(start),
                "init": init,
                "max_iterations": self.max_iter if iterations is None else iterations,
                "tolerance": float(self.tol),
                # A run that starts from given centroids runs once.
                "runs": 1 if is_partial or iterations is not None else self.n_init,
                "seed": 1 if self.random_state is None else self.random_state,
                "checkpoint": self.checkpoint if is_kept else None,
                **self._given(),
            }
            # Without iterations nothing moves, and there are no batches.
            if iterations is None and not is_partial:
                given.update(self._batches(X))
            sizes = numpy.array(row_counts or [], "=u8").tobytes()
            arrays = {"sizes": sizes} if is_partial else {}
            try:
                report, found = run_on_arrays("kmeans", base, given, arrays)
            except UsageError as error:
                error.reword("choose k= ", "choose n_clusters= ")
                raise
        return found["centroids"].reshape(-1, report["dimension"]), report

    @property
    def labels_(self) -> npt.NDArray[np.int32]:
        """The cluster of each vector that was clustered."""
        self._check_fitted()
        if self._labels is None:
            self._labels = self.predict(self._fitted)
        return self._labels

    def predict(self, X: Any) -> npt.NDArray[np.int32]:
        """The nearest centroid of each vector of a file or an array, as an array in memory."""
        from ._numpy import numpy

        with tempfile.TemporaryDirectory(prefix="outcore-") as place:
            labels = os.path.join(place, "labels.npy")
            self.label(X, labels)
            return numpy.load(labels)  # type: ignore[no-any-return]

    def label(self, X: Any, path: StrPath, *, force: bool = False) -> None:
        """Writes the nearest centroid of each vector to a file, whole or not at all.

        The ending of `path` decides on the format: `.npy`, `.ibin` or raw numbers of 32 bits; a
        table (`.parquet`, `.arrow`) or text (`.csv`, `.jsonl`) with the columns `row` and
        `cluster`.
        """
        self._check_fitted()
        X = self._check_features(X)
        with contextlib.ExitStack() as files:
            base = files.enter_context(_file_of(X, "vectors"))
            centroids = files.enter_context(_file_of(self.cluster_centers_, "centroids"))
            given = {**self._given(), "dst": path, "force": truth("force", force)}
            run_on_arrays("vector label", [base, centroids], given)

    def score(self, X: Any, y: None = None) -> float:
        """The negative of the sum of the squared distances of the vectors of a file or an array to their centroids."""
        self._check_fitted()
        _, found = self._cluster(self._check_features(X), self.cluster_centers_, iterations=0)
        return -float(found["inertia"])

    def fit_predict(self, X: Any, y: None = None) -> npt.NDArray[np.int32]:
        """Clusters vectors, and returns the cluster of each."""
        return self.fit(X).labels_

    def _check_fitted(self) -> None:
        if not hasattr(self, "cluster_centers_"):
            error = usage("cluster vectors", "nothing has been clustered", "call fit first")
            raise _as_not_fitted(error)

    def _check_features(self, X: Any) -> Any:
        """The vectors, if they are an array, after a check that they match the vectors that were clustered."""
        if isinstance(X, (str, os.PathLike)):
            return X
        array = _rows_of(X, "vectors")
        if array.shape[1] != self.n_features_in_:
            cause = (
                f"X has {array.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
            raise usage("cluster vectors", cause, "give vectors like those that were clustered")
        return array

    def _given(self) -> dict[str, Any]:
        """Options of all operations on vectors."""
        return {
            "type_name": self.dtype, "spherical": truth("spherical", self.spherical),
            "memory": self.memory, "threads": self.threads, "io": self.io, "volume": self.volume,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_clusters={self.n_clusters})"


class MiniBatchKMeans(KMeans):
    """k-means by mini-batches (Sculley 2010), with scikit-learn's names.

        >>> model = outcore.MiniBatchKMeans(4096, batch_size=65536).fit("base.fbin")
        >>> for batch in np.array_split(np.load("new.npy", mmap_mode="r"), 10):
        ...     model.partial_fit(batch)

    Each step draws rows of the file at random and moves centroids to the means of all rows that
    were assigned to them so far. `fit` reads the file once at the end, for the inertia.

    Args:
        n_clusters: Number of clusters.
        init, n_init: As in `KMeans`.
        max_iter: All batches together have at most this many times the rows of the file.
        batch_size: Number of rows in a batch; at most the number of rows in the file.
        tol: As in `KMeans`, for the moves of one batch; by default it does not end the run.
        max_no_improvement: The run ends when this many batches in a row have not improved the smoothed
            distance; `None` for never.
        random_state: Seed of the start and the batches; with `None`, the result is also the same
            each time.
        spherical, dtype, memory, threads, io, volume: As in `KMeans`.

    Attributes:
        cluster_centers_: Centroids, an array of `float64`.
        counts_: Rows that were assigned to each centroid so far; after `fit`, the rows of each
            cluster.
        inertia_: As in `KMeans`; after `partial_fit`, that of the last batch before centroids moved.
        n_steps_: Number of batches.
        n_iter_: The number of drawn rows over the number of rows in the file, rounded up.
        labels_: As in `KMeans`; after `partial_fit`, those of the last batch.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 100,
        batch_size: int = 1024,
        tol: float = 0.0,
        max_no_improvement: int | None = 10,
        random_state: int | None = None,
        spherical: bool = False,
        dtype: str | None = None,
        memory: Size | None = None,
        threads: SupportsIndex | None = None,
        io: str | None = None,
        volume: StrPath | None = None,
    ) -> None:
        super().__init__(
            n_clusters, init=init, n_init=n_init, max_iter=max_iter, tol=tol, random_state=random_state,
            spherical=spherical, dtype=dtype, memory=memory, threads=threads, io=io, volume=volume,
        )  # fmt: skip
        self.batch_size = batch_size
        self.max_no_improvement = max_no_improvement

    _PARAMETERS = (
        *(name for name in KMeans._PARAMETERS if name != "checkpoint"),
        "batch_size",
        "max_no_improvement",
    )

    def _batches(self, X: Any) -> dict[str, Any]:
        rows = _rows(X, self._given())
        batch = min(whole("batch_size", self.batch_size), rows)
        most = self.max_no_improvement
        # As scikit-learn counts them: one iteration is as many rows as the file has.
        count = whole("max_iter", self.max_iter) * rows // max(batch, 1)
        return {
            "batch": batch,
            "patience": 0 if most is None else most,
            "max_iterations": min(max(count, 1), (1 << 32) - 1),
        }

    def fit(self, X: Any, y: None = None) -> MiniBatchKMeans:
        """Clusters the vectors of a file or an array."""
        found = self._run(X, self.init)
        self._take(X, found)
        self.n_steps_ = int(found["iterations"])
        drawn = self.n_steps_ * min(whole("batch_size", self.batch_size), found["records"])
        self.n_iter_ = -(-drawn // found["records"])
        return self

    def partial_fit(self, X: Any, y: None = None) -> MiniBatchKMeans:
        """Takes the vectors of a file or an array as one batch."""
        is_first = not hasattr(self, "cluster_centers_")
        X = X if is_first else self._check_features(X)
        start = self.init if is_first else self.cluster_centers_
        counts = None if is_first else [int(count) for count in self.counts_]
        self._take(X, self._run(X, start, counts, is_partial=True))
        self.n_steps_ = 1 if is_first else self.n_steps_ + 1
        return self

    def _take(self, X: Any, found: Any) -> None:
        from ._numpy import numpy

        self.counts_: npt.NDArray[np.int64] = numpy.array(found["sizes"], "i8")
        self._remember(X)
