"""Words of pandas, Polars, scikit-learn and NumPy, and their equivalents here.

Contract: `of_keyword` and `unknown_attribute` return a hint for a word that outcore does not have, if there is
one. A hint names only keywords of the called function, and functions that exist. `with_hints` adds the hint
to the `TypeError` of a call. Nothing else changes: signature, documentation and pickling are those of the
function.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ._errors import OutcoreError

_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Equivalent(NamedTuple):
    """A keyword that does the same, and its use."""

    keyword: str
    use: str


class Use(NamedTuple):
    """An expression over a table `t`, and the words that follow it in a hint."""

    code: str
    meaning: str


_DESCENDING = Equivalent("descending", "descending=True sorts the largest first")
_BY = Equivalent("by", "by= names the columns of the key")
_THREADS = Equivalent("threads", "threads= is the number of threads")
_SEED = Equivalent("seed", "seed= chooses the random order")
_FORCE = Equivalent("force", "force=True overwrites an existing output")
_RATE = Equivalent("rate", "rate=0.1 draws this share of the items")
_SHARE = Equivalent("rows", "rows=10 is the number of rows, and outcore.sample(table, rate=0.1) draws a share")
_COUNT = Equivalent("count", "count= is the number of items")
_ROWS = Equivalent("rows", "rows=10 is the number of rows")
_ON = Equivalent("on", 'on="id=user_id" names the columns of both tables')
_CODEC = Equivalent("codec", 'codec="zstd" compresses; names in .gz and .zst do it too')
_SEPARATOR = Equivalent("separator", "separator= is the byte between fields")
_COLUMNS = Equivalent("columns", "columns= keeps these columns")
_SCHEMA = Equivalent("schema", 'schema={"price": "f64"} gives the types of columns')
_NULL = Equivalent("null", "null= names texts that are null")
_DTYPE = Equivalent("dtype", 'dtype="u64" is the type of a record')
_GROUP_ROWS = Equivalent("group_rows", "group_rows= is the number of rows of a row group")
_PARTS = Equivalent("parts", "parts= is the number of files")
_AGGREGATES = Equivalent("aggregates", 'aggregates="total=sum(price)" names the results')
_MEMORY = Equivalent("memory", 'memory="2GiB" is the limit of the job')
_DRIVES = Equivalent("drives", "drives= are the directories for scratch")
_K = Equivalent("k", "k= is the number of neighbours")
_CLUSTERS = Equivalent("n_clusters", "n_clusters= is the number of clusters")
_DST = Equivalent("dst", "dst= is the output")
_PROGRESS = Equivalent("progress", "progress=True shows the progress")
_HEADER = Equivalent("header", "header=False if there is no line of names")

_ALPHA = Equivalent("alpha", "alpha= is the damping factor")
_JACCARD = Equivalent("jaccard", "jaccard= is the smallest similarity of near duplicates")

#: Keywords of other libraries. The first equivalent that the called function has is the hint.
KEYWORDS: dict[str, tuple[Equivalent, ...]] = {
    "ascending": (_DESCENDING,),
    "reverse": (_DESCENDING,),
    "desc": (_DESCENDING,),
    "subset": (_BY,),
    "partition_by": (_BY, _PARTS),
    "partition_cols": (_BY, _PARTS),
    "keys": (_BY, _ON),
    "n_jobs": (_THREADS,),
    "workers": (_THREADS,),
    "num_threads": (_THREADS,),
    "num_workers": (_THREADS,),
    "random_state": (_SEED,),
    "random_seed": (_SEED,),
    "overwrite": (_FORCE,),
    "exist_ok": (_FORCE,),
    "count": (_ROWS,),
    "frac": (_RATE, _SHARE),
    "fraction": (_RATE, _SHARE),
    "n": (_COUNT, _ROWS, _K, _PARTS),
    "size": (_COUNT, _ROWS),
    "n_rows": (_COUNT, _ROWS),
    "nrows": (_COUNT, _ROWS),
    "limit": (_COUNT, _ROWS),
    "left_on": (_ON,),
    "right_on": (_ON,),
    "compression": (_CODEC,),
    "sep": (_SEPARATOR,),
    "delimiter": (_SEPARATOR,),
    "usecols": (_COLUMNS,),
    "select": (_COLUMNS,),
    "dtypes": (_SCHEMA, _DTYPE),
    "schema_overrides": (_SCHEMA,),
    "na_values": (_NULL,),
    "null_values": (_NULL,),
    "row_group_size": (_GROUP_ROWS,),
    "npartitions": (_PARTS,),
    "n_parts": (_PARTS,),
    "agg": (_AGGREGATES,),
    "aggs": (_AGGREGATES,),
    "memory_limit": (_MEMORY,),
    "max_memory": (_MEMORY,),
    "tmp_dir": (_DRIVES,),
    "temp_dir": (_DRIVES,),
    "temp_directory": (_DRIVES,),
    "n_neighbors": (_K,),
    "top_k": (_K,),
    "k": (_CLUSTERS, _COUNT),
    "output": (_DST,),
    "out": (_DST,),
    "verbose": (_PROGRESS,),
    "show_progress": (_PROGRESS,),
    "has_header": (_HEADER,),
    "type": (_DTYPE,),
    "dtype": (_SCHEMA,),
    "cols": (_COLUMNS,),
    "damping": (_ALPHA,),
    "threshold": (_JACCARD,),
}

#: Attributes of tables of other libraries, and their equivalents.
_ATTRIBUTES: tuple[tuple[str, Use], ...] = (
    ("sort_values order_by", Use('t.sort(by="price")', "sorts the rows; price:desc puts the largest first")),
    ("sort_index", Use('t.sort(by="id")', "sorts the rows")),
    ("drop_duplicates", Use('t.dedup(by="id")', "keeps one row per key")),
    ("distinct", Use("t.unique()", "keeps one of equal rows")),
    ("groupby", Use('t.group_by("country", total="sum(price)")', "aggregates groups")),
    ("agg aggregate", Use('t.group_by("country", total="sum(price)")', "aggregates groups, and without a column all rows")),
    ("drop", Use('t.select("id", "price")', "keeps columns")),
    ("rename", Use('t.map(cost="price").select("id", "cost")', "is a column under another name")),
    ("sum mean min max", Use('t.group_by(total="sum(price)")', "aggregates all rows")),
    ("value_counts", Use('t.count_by("country")', "counts the values of a column")),
    ("n_unique nunique", Use('t.group_by(n="count_distinct(country)")', "counts different values")),
    ("with_columns assign", Use('t.map(total="price * 2")', "adds columns")),
    ("with_column", Use('t.map(total="price * 2")', "adds a column")),
    ("apply", Use('t.map(total="price * 2")', "computes columns from expressions")),
    ("query where", Use('t.filter("price > 100")', "keeps rows")),
    ("merge_asof join_asof", Use('t.join(other, asof="time")', "joins the nearest earlier rows")),
    ("concat append", Use("outcore.table([a, b])", "is the rows of several files")),
    ("rolling", Use('t.window("country", order="time", before="lag(price)")', "looks at rows nearby")),
    ("over", Use('t.window("country", "row_number", order="time")', "computes per group")),
    ("shape", Use("(len(t), len(t.columns))", "is the number of rows and columns")),
    ("height size count num_rows", Use("len(t)", "is the number of rows")),
    ("width num_columns", Use("len(t.columns)", "is the number of columns")),
    ("column_names", Use("t.columns", "are the names of the columns")),
    ("dtypes", Use("t.schema", "are the columns and their types")),
    ("info", Use("outcore.info(t)", "describes the columns")),
    ("describe", Use('t.group_by(least="min(price)", most="max(price)", mean="mean(price)")', "describes a column")),
    (
        "collect compute",
        Use("t.to_arrow()", "loads the rows, as t.to_pandas() and t.to_polars() do; each step has run already"),
    ),
    (
        "to_parquet write_parquet sink_parquet",
        Use('t.write("out.parquet")', "writes a file; its name decides the format"),
    ),
    ("to_csv write_csv sink_csv", Use('t.write("out.csv")', "writes a file; its name decides the format")),
    ("to_json write_ndjson", Use('t.write("out.jsonl")', "writes a file; its name decides the format")),
    ("to_feather write_ipc", Use('t.write("out.arrow")', "writes a file; its name decides the format")),
    ("to_numpy", Use("t.to_arrow()", "loads the rows, and its columns have to_numpy()")),
    ("iterrows itertuples iter_rows iter_slices to_batches", Use("t.batches()", "is the rows, batch by batch")),
    ("slice iloc", Use("t[10:20]", "is the rows from 10 to 19")),
    ("limit", Use("t.head(10)", "is the first rows")),
    ("loc", Use('t.filter("id == 7")', "keeps rows")),
    ("nlargest top_k", Use('t.sort(by="price:desc").head(10)', "is the largest")),
    ("nsmallest", Use('t.sort(by="price").head(10)', "is the smallest")),
    ("dropna drop_nulls", Use('t.filter("price is not null")', "leaves rows out")),
    ("save", Use('t.write("out.parquet")', "writes a file; its name decides the format")),
    ("to_dict to_list to_dicts to_pylist", Use("t.to_arrow().to_pylist()", "loads the rows")),
    ("split", Use('outcore.split(t, "part-{part}.parquet", parts=3)', "writes several files")),
)
ATTRIBUTES = {word: use for words, use in _ATTRIBUTES for word in words.split()}

#: Attributes of columns of other libraries.
_OF_COLUMNS: tuple[tuple[str, Use], ...] = (
    ("between is_between", Use('(c >= 1) & (c <= 9)', "compares with two bounds")),
    ("isin is_in", Use('t.filter("country in (\'de\', \'fr\')")', "compares with several values")),
    ("is_null isnull isna", Use('t.filter("price is null")', "keeps rows without a value")),
    ("is_not_null notnull notna", Use('t.filter("price is not null")', "keeps rows with a value")),
    ("alias", Use('t.map(total=outcore.col("price") * 2)', "names a computed column")),
    ("cast", Use('c.astype("f64")', "converts the values")),
    (
        "sum mean min max count median",
        Use('t.group_by("country", total="sum(price)")', "aggregates groups, and without a column all rows"),
    ),
    ("str dt", Use('t.filter("starts_with(country, \'d\')")', "uses a function of texts or times")),
    ("desc sort", Use('t.sort(by="price:desc")', "sorts the largest first")),
)
#: Attributes of graphs of other libraries.
_OF_GRAPHS: tuple[tuple[str, Use], ...] = (
    ("louvain", Use("g.louvain_communities()", "finds communities")),
    ("sssp shortest_path shortest_paths dijkstra", Use("g.shortest_path_length(0)", "finds the lengths of paths")),
    ("connected_components cc wcc", Use("g.components()", "finds components")),
    ("scc", Use("g.strongly_connected_components()", "finds strong components")),
    ("kcore coreness", Use("g.core_number()", "finds the core of each vertex")),
    ("number_of_nodes num_nodes nodes", Use("g.vertices", "is the number of vertices")),
    ("number_of_edges num_edges", Use("g.edges", "is the number of edges")),
    ("degree", Use("g.degrees()", "counts the edges of each vertex")),
)
#: Attributes of arrays of other libraries.
_OF_DATASETS: tuple[tuple[str, Use], ...] = (
    ("to_numpy", Use("numpy.asarray(d)", "loads the records")),
    ("tolist to_list", Use("numpy.asarray(d).tolist()", "loads the records")),
    ("shape size", Use("d.count()", "is the number of records")),
    ("argsort", Use("d.enumerate()", "numbers the records before a sort")),
    ("apply", Use('d.map("x * 2")', "computes values from expressions")),
)
_OWNERS = {
    "Table": ATTRIBUTES,
    "Column": {word: use for words, use in _OF_COLUMNS for word in words.split()},
    "Graph": {word: use for words, use in _OF_GRAPHS for word in words.split()},
    "Dataset": {word: use for words, use in _OF_DATASETS for word in words.split()},
}


#: Names of other libraries' modules.
_OF_MODULE: tuple[tuple[str, Use], ...] = (
    (
        "read_csv read_parquet read_json read_ndjson read_feather scan_csv scan_parquet DataFrame",
        Use("outcore.table(a)", "opens a table; its name and content decide the format"),
    ),
    ("load fromfile memmap", Use('outcore.open("keys.npy")', "opens records, an array or lines")),
    ("kmeans", Use("outcore.KMeans(n_clusters=8)", "finds clusters")),
    ("concat", Use("outcore.table([a, b])", "is the rows of several files")),
    ("groupby", Use('outcore.table(a).group_by("country", total="sum(price)")', "aggregates groups")),
    ("lit field", Use('outcore.col("price") * 2', "is an expression; numbers and texts are written as they are")),
    ("order_by sort_values", Use('outcore.table(a).sort(by="price")', "sorts the rows")),
)
OF_MODULE = {word: use for words, use in _OF_MODULE for word in words.split()}


def unknown_name(name: str) -> AttributeError:
    """The error for a name that the package does not have, with the equivalent of another library's."""
    use = OF_MODULE.get(name)
    hint = "" if use is None else f"; {use.code} {use.meaning}"
    return AttributeError(f"module 'outcore' has no attribute {name!r}{hint}")


def of_keyword(function: Callable[..., Any], keyword: str) -> str | None:
    """The hint for a keyword that a function does not have."""
    known = inspect.signature(function).parameters
    uses = (equivalent.use for equivalent in KEYWORDS.get(keyword, ()) if equivalent.keyword in known)
    return next(uses, None)


def _is_column(table: Any, name: str) -> bool:
    """Whether a table has a column of this name; not if it cannot be read."""
    try:
        return not name.startswith("_") and name in table.columns
    except OutcoreError:
        return False


def unknown_attribute(owner: object, name: str) -> AttributeError:
    """The error for an attribute that an object does not have, with the equivalent of another library's."""
    kind = type(owner).__name__
    use = _OWNERS.get(kind, {}).get(name)
    hint = "" if use is None else f"; {use.code} {use.meaning}"
    if use is None and kind == "Table" and not hasattr(type(owner), name) and _is_column(owner, name):
        hint = f'; t["{name}"] takes a column of this name'
    return AttributeError(f"{kind} has no attribute {name!r}{hint}", name=name, obj=owner)


def with_hints(function: _Function) -> _Function:
    """The function, with a hint in the error for an unknown keyword of another library."""

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except TypeError as error:
            # An error of the call itself has no frame of the function.
            frame = error.__traceback__
            unexpected = _UNEXPECTED.search(str(error))
            if unexpected is None or frame is None or frame.tb_next is not None:
                raise
            use = of_keyword(function, unexpected[1])
            if use is None:
                raise
            raise TypeError(f"{error}; {use}") from None

    return call  # type: ignore[return-value]


def add_hints(owner: type) -> None:
    """Adds the hints to all public methods of a class."""
    for name, method in list(vars(owner).items()):
        if inspect.isfunction(method) and (not name.startswith("_") or name == "__init__"):
            setattr(owner, name, with_hints(method))
