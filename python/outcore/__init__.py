"""Compute on data far larger than memory, at the speed of all SSDs of one machine.

    >>> import outcore
    >>> summary = outcore.sort("keys.bin", "sorted.bin", dtype="u64", memory="2GiB")

`sort`, `shuffle`, `gen`, `verify` and `plan` are the subcommands of the command `outcore`, with the
same options and the same results. `shuffled` reads in the order of a shuffle without writing it,
and `open` returns a lazy `Dataset` (map, filter, reduce, scan, sort, ...) or `Lines` of text. All
these functions release the interpreter while they work. On Ctrl-C they stop within a second and
leave nothing behind. A failure is an `OutcoreError` that names cause, place and next step.
`outcore.graph` converts edges to graphs and computes on them; `knn` and `KMeans` search and cluster
files of vectors; `outcore.sim` simulates drives.
"""

import inspect as _inspect
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import _equivalents
from . import graph as graph
from . import sim as sim
from ._api import plan
from ._column import Column, col, index, x
from ._dataset import Dataset
from ._errors import (
    AccessError,
    CheckFailedError,
    CorruptError,
    IoError,
    MemoryBudgetError,
    NoSpaceError,
    NotFoundError,
    OutcoreError,
    UsageError,
)
from ._lines import Disorder, Lines
from ._held import Held
from ._kmeans import KMeans, MiniBatchKMeans
from ._lazy import Lazy
from ._lookup import lookup
from ._machine_verbs import *
from ._open import open, tabulate
from ._outcore import __version__
from ._part_verbs import *
from ._place_reports import *
from ._progress import Progress
from ._record_verbs import *
from ._reports import *
from ._row_verbs import *
from ._shuffle import Shuffled, shuffled
from ._shuffled_table import ShuffledTable
from ._table import Table, table
from ._vector import (
    convert_vectors,
    ground_truth,
    index_vectors,
    knn,
    pairs,
    range_search,
)
from ._table_verbs import *
from ._verbs import *
from ._volume import Measured, Volume
from ._table_view import TableView
from ._view import LineView, View
from ._view_verbs import *

__all__ = [
    "AccessError",
    "CheckFailedError",
    "Column",
    "CommSummary",
    "CorruptError",
    "Dataset",
    "Disorder",
    "IoError",
    "KMeans",
    "LineView",
    "Lines",
    "Measured",
    "MemoryBudgetError",
    "MiniBatchKMeans",
    "NoSpaceError",
    "NotFoundError",
    "OutcoreError",
    "Progress",
    "Shuffled",
    "ShuffledTable",
    "Table",
    "TableView",
    "UsageError",
    "View",
    "Volume",
    "__version__",
    "col",
    "convert_vectors",
    "ground_truth",
    "index",
    "index_vectors",
    "knn",
    "lookup",
    "open",
    "pairs",
    "plan",
    "range_search",
    "shuffled",
    "table",
    "tabulate",
    "x",
]
# Generated from the definition of the verbs, like the modules that they are in.
# verbs: begin
__all__ += [
    "DriveTraffic", "IoTrace", "JobSummary", "Phase", "Rates", "Plan", "WriteSummary", "SortSummary",
    "ValueCount", "UniqueSummary", "CommSummary", "ShuffleSummary", "SampleSummary", "SplitSummary",
    "GenSummary", "VerifyReport", "ReducedValue", "ReduceSummary", "HistogramSummary", "TopSummary",
    "FindSummary", "PartitionSummary", "LookupSummary", "ViewPlan", "ViewSummary", "TableColumn",
    "InfoReport", "DedupSummary", "DiffSummary", "VolumeReport", "DriveStatus", "DatasetRisk", "VolumeStatus",
    "Damage", "Orphan", "ScrubReport", "ReplacementReport", "AdditionReport", "DriveRemovalReport",
    "RebalanceReport", "TransferSummary", "DatasetEntry", "VolumeListing", "RemovalReport", "RateAtDepth",
    "MeasuredDrive", "TogetherRates", "DriveGroup", "ProbeReport", "ResumableJob", "ScratchEntry",
    "ScratchListing", "RemovedScratch", "ScratchRemoval", "Setting", "Settings", "sort", "unique", "comm",
    "shuffle", "verify", "head", "tail", "sample", "split", "map", "filter", "merge", "count_by", "convert",
    "info", "dedup", "group_by", "window", "join", "diff", "gen", "zip", "flat_map", "enumerate", "windows",
    "reverse", "reduce", "scan", "histogram", "top", "find", "partition", "gather", "lookup_file",
    "sort_view", "probe_drives", "list_scratch", "clean_scratch", "settings",
]
# verbs: end

# An error for a keyword of another library names the equivalent. Python pickles a function by its name in its module,
# so the module must have the wrapped function as well.
for _name in __all__:
    _made = globals()[_name]
    if _inspect.isfunction(_made):
        globals()[_name] = _equivalents.with_hints(_made)
        setattr(_sys.modules[_made.__module__], _name, globals()[_name])
_equivalents.READERS_OF_TABLES.append(table)
setattr(graph, "convert", _equivalents.with_hints(graph.convert))
for _owner in (Dataset, Lines, Lazy, Held, KMeans, MiniBatchKMeans, Table, Volume, graph.Graph):
    _equivalents.add_hints(_owner)
del _made, _owner

# Tracebacks and help should show the module in which users find these names.
for _name in __all__:
    if not _name.startswith("_") and hasattr(globals()[_name], "__qualname__"):
        globals()[_name].__module__ = __name__
del _name

# Type checkers know the names.
if not _TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        classes = {"outcore.table(a)": Table, "outcore.open(a)": Dataset, 'outcore.graph.Graph("g.graph")': graph.Graph}
        raise _equivalents.unknown_name(__name__, name, __all__, classes)
