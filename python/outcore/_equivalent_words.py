"""Words of pandas, Polars, scikit-learn, NumPy and networkx, each with what does the same here.

Contract: this module holds only data. A test runs the code of each `Use` and looks for each keyword in the
signature of its function, so no hint names something that does not exist.
"""

from __future__ import annotations

from typing import NamedTuple

#: The name of an `Equivalent` that is not a keyword and applies to methods alone.
OF_METHOD = "self"
#: The name of an `Equivalent` that is not a keyword and applies to every function.
OF_ANY = ""


class Equivalent(NamedTuple):
    """A keyword that does the same, and its use."""

    keyword: str
    use: str


class Use(NamedTuple):
    """An expression, and the words that follow it in a hint."""

    code: str
    meaning: str


def by_word(uses: tuple[tuple[str, Use], ...]) -> dict[str, Use]:
    """The use of each word of a list."""
    return {word: use for words, use in uses for word in words.split()}


_DESCENDING = Equivalent("descending", "descending=True sorts the largest first")
_BY = Equivalent("by", "by= names the columns of the key")
_THREADS = Equivalent("threads", "threads= is the number of threads")
_SEED = Equivalent("seed", "seed= chooses the random order")
_FORCE = Equivalent("force", "force=True overwrites an existing output")
_RATE = Equivalent("rate", "rate=0.1 draws this share of the items")
_SHARE = Equivalent("rows", "rows=10 is the number of rows, and outcore.sample(table, rate=0.1) draws a share")
_TRAIN = Equivalent("train", "train=0.8 is the share of the first part")
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
_ITEMS = Equivalent("k", "k= is the number of items")
_NULLS = Equivalent("by", 'by="price:nulls-first" puts rows without a value first; otherwise they come last')
_CLUSTERS = Equivalent("n_clusters", "n_clusters= is the number of clusters")
_DST = Equivalent("dst", "dst= is the output")
_PROGRESS = Equivalent("progress", "progress=True shows the progress")
_HEADER = Equivalent("header", "header=False if there is no line of names")
_ALPHA = Equivalent("alpha", "alpha= is the damping factor")
_JACCARD = Equivalent("jaccard", "jaccard= is the smallest similarity of near duplicates")
_ORDER = Equivalent("order", "order= names the columns of the order")
_KEY = Equivalent("key", "key= names the fields of the key")
_EXPLAIN = Equivalent("explain", "explain=True shows the plan")
_MAX_ITER = Equivalent("max_iter", "max_iter= is the largest number of iterations")
_SUFFIX = Equivalent("suffix", 'suffix="_right" is added to names that both tables have')
_REPLACEMENT = Equivalent("with_replacement", "with_replacement=True may draw an item several times")
_REPLACED = Equivalent(OF_METHOD, "outcore.sample(table, count=10, with_replacement=True) may draw a row several times")
_FOLDERS = Equivalent(OF_METHOD, 'outcore.split(t, "folder", by="country") writes a directory per value')
_SIZE = Equivalent("size", "size= is the number of items in a batch")
_WRITE = Equivalent(OF_METHOD, "write(...) of the result writes a file")
_HEAD = Equivalent(OF_METHOD, "head(10) of the result is its first items")
_NEW = Equivalent(OF_METHOD, "leave it out: a step returns a new object, and the old one does not change")
_ONE_AXIS = Equivalent(OF_METHOD, "leave it out: items are one sequence")
_KEEP = Equivalent(OF_METHOD, 'dedup(by="id", keep="last") keeps the last row of each key')
_COUNTS = Equivalent("counts", "counts=True puts the number of equal lines in front")
_COUNT_BY = Equivalent(OF_METHOD, "count_by() counts each value")
_FORMAT = Equivalent(OF_ANY, "leave it out: the name and the content of a file decide on its format")
_JOIN = Equivalent(OF_ANY, 'join(other, on="id") joins two tables, and merge unites files that are in order')
_EDGES = Equivalent("columns", 'columns=["src", "dst"] are the columns of the edges')
_UNDIRECTED = Equivalent("undirected", "undirected=True if edges have no direction")
_WEIGHTS = Equivalent("weights", "weights=True reads weights, and weights=\"cost\" the column of this name")
_LARGEST = Equivalent(OF_METHOD, "numpy.argsort(ranks)[::-1][:10] of the result is the largest")

#: Groups of keywords of other libraries. The first equivalent that the called function has is the hint. A word
#: with a function before it, as in `merge.on`, is only for functions with this name.
_KEYWORDS: tuple[tuple[str, tuple[Equivalent, ...]], ...] = (
    ("merge.on merge.how merge.left_on merge.right_on", (_JOIN,)),
    ("window.order_by", (_ORDER,)),
    ("sort.order", (_KEY, _BY, _DESCENDING)),
    ("sample.replace", (_REPLACEMENT, _REPLACED)),
    ("write.partition_by write.partition_cols", (_FOLDERS,)),
    ("pagerank.top", (_LARGEST,)),
    ("ascending reverse desc", (_DESCENDING,)),
    ("subset on", (_BY, _KEY)),
    ("partition_by partition_cols", (_BY, _PARTS)),
    ("keys", (_BY, _ON, _KEY)),
    ("by order sort_by", (_KEY, _BY)),
    ("order_by", (_BY, _ORDER, _KEY)),
    ("key", (_BY,)),
    ("n_jobs workers num_threads num_workers max_workers nthreads cores", (_THREADS,)),
    ("random_state random_seed rng", (_SEED,)),
    ("overwrite exist_ok if_exists exists_ok", (_FORCE,)),
    ("count", (_ROWS, _COUNTS, _COUNT_BY)),
    ("counts return_counts", (_COUNTS, _COUNT_BY)),
    ("frac fraction", (_RATE, _SHARE, _TRAIN)),
    ("ratio share train_size test_size", (_TRAIN, _RATE, _SHARE)),
    ("knn.n knn.size", (_K,)),
    ("n size", (_COUNT, _ROWS, _ITEMS, _PARTS)),
    ("n_rows nrows limit", (_COUNT, _ROWS, _ITEMS, _HEAD)),
    ("rows num n_samples num_samples", (_COUNT, _ROWS, _ITEMS)),
    ("nulls_last na_position nulls_first", (_NULLS,)),
    ("left_on right_on", (_ON,)),
    ("suffixes rsuffix", (_SUFFIX,)),
    ("compression", (_CODEC,)),
    ("sep delimiter", (_SEPARATOR,)),
    ("usecols select cols", (_COLUMNS,)),
    ("dtypes", (_SCHEMA, _DTYPE)),
    ("schema_overrides", (_SCHEMA,)),
    ("na_values null_values", (_NULL,)),
    ("row_group_size", (_GROUP_ROWS,)),
    ("npartitions n_parts", (_PARTS,)),
    ("agg aggs", (_AGGREGATES,)),
    ("memory_limit max_memory mem", (_MEMORY,)),
    ("tmp_dir temp_dir temp_directory tmpdir temp_folder scratch scratch_dir spill_dir", (_DRIVES,)),
    ("n_neighbors top_k", (_K,)),
    ("k", (_CLUSTERS, _COUNT)),
    ("output out path filename", (_DST, _WRITE)),
    ("dst", (_WRITE,)),
    ("verbose show_progress", (_PROGRESS,)),
    ("has_header", (_HEADER,)),
    ("type", (_DTYPE,)),
    ("dtype", (_SCHEMA,)),
    ("damping", (_ALPHA,)),
    ("threshold", (_JACCARD,)),
    ("iterations n_iter num_iterations max_iterations", (_MAX_ITER,)),
    ("inplace", (Equivalent("replace", "replace=True writes the result over the input"), _NEW)),
    ("axis", (_ONE_AXIS,)),
    ("numeric numbers", (Equivalent("order", 'order="n" compares numbers'),)),
    ("ignore_case", (Equivalent("order", 'order="f" ignores case'),)),
    ("kind", (Equivalent("stable", "stable=True keeps the order of equal keys"),)),
    ("keep", (_KEEP,)),
    ("dry_run", (_EXPLAIN,)),
    ("batch_size chunksize chunk_size", (_SIZE,)),
    ("buffer_size", (Equivalent("seed", "leave it out: the whole input is shuffled, and seed= chooses its order"),)),
    ("format engine encoding lazy", (_FORMAT,)),
    ("directed", (_UNDIRECTED,)),
    ("weighted weight", (_WEIGHTS, Equivalent("weighted", "weighted=True follows edges by their weights"))),
    ("source target src_col dst_col", (_EDGES,)),
)
KEYWORDS = {word: equivalents for words, equivalents in _KEYWORDS for word in words.split()}

_WRITES = "writes a file; its name decides the format"
_FIRST_ROWS = "shows the first rows"
_SORTS = "sorts the rows; price:desc puts the largest first"

#: Attributes of tables of other libraries, over a table `t`.
OF_TABLES = by_word(
    (
        ("sort_values sort_by order_by arrange", Use('t.sort(by="price")', _SORTS)),
        ("sort_index", Use('t.sort(by="id")', "sorts the rows")),
        ("drop_duplicates", Use('t.dedup(by="id")', "keeps one row per key")),
        ("distinct", Use("t.unique()", "keeps one of equal rows")),
        ("groupby", Use('t.group_by("country", total="sum(price)")', "aggregates groups")),
        (
            "agg aggregate",
            Use('t.group_by("country", total="sum(price)")', "aggregates groups, and without a column all rows"),
        ),
        ("drop", Use('t.select("id", "price")', "keeps columns")),
        ("rename", Use('t.map(cost="price").select("id", "cost")', "is a column under another name")),
        ("sum", Use('t.group_by(total="sum(price)")', "aggregates all rows")),
        ("mean", Use('t.group_by(average="mean(price)")', "aggregates all rows")),
        ("min", Use('t.group_by(least="min(price)")', "aggregates all rows")),
        ("max", Use('t.group_by(most="max(price)")', "aggregates all rows")),
        ("median quantile", Use('t.group_by(middle="median(price)")', "aggregates all rows")),
        ("value_counts", Use('t.count_by("country")', "counts the values of a column")),
        ("n_unique nunique", Use('t.group_by(n="count_distinct(country)")', "counts different values")),
        ("with_columns assign mutate", Use('t.map(total="price * 2")', "adds columns")),
        ("with_column insert", Use('t.map(total="price * 2")', "adds a column")),
        ("apply transform map_rows", Use('t.map(total="price * 2")', "computes columns from expressions")),
        ("astype cast", Use('t.map(price="f32(price)")', "converts a column")),
        ("fillna fill_null", Use('t.map(price="coalesce(price, 0)")', "replaces values that are missing")),
        ("round", Use('t.map(price="round(price, 1)")', "rounds a column")),
        ("isna isnull is_null", Use('t.filter("price is null")', "keeps rows without a value")),
        ("query where", Use('t.filter("price > 100")', "keeps rows")),
        ("isin is_in", Use("t.filter(\"country in ('de', 'fr')\")", "keeps rows")),
        ("merge_asof join_asof", Use('t.join(other, asof="time")', "joins the nearest earlier rows")),
        ("concat append vstack extend union union_all", Use("outcore.table([t, other])", "is the rows of several tables")),
        ("rolling rolling_mean rolling_sum", Use('t.window("country", order="time", before="lag(price)")', "looks at rows nearby")),
        ("shift lag", Use('t.window((), order="time", before="lag(price)")', "is the value of the row before")),
        ("cumsum cum_sum", Use('t.window((), order="time", so_far="cum_sum(price)")', "is the sum up to a row")),
        ("rank", Use('t.window((), order="price", place="rank()")', "numbers the rows by a column")),
        ("first", Use("t.head(1)", "is the first row")),
        ("last", Use("t.tail(1)", "is the last row")),
        ("left_join outer_join inner_join", Use('t.join(other, on="id", how="left")', "joins two tables")),
        ("intersect semi_join", Use('t.join(other, on="id", how="semi")', "keeps rows with a partner")),
        ("except_ subtract anti_join", Use('t.join(other, on="id", how="anti")', "keeps rows without a partner")),
        ("col", Use('outcore.col("price")', "is a column in an expression")),
        ("over", Use('t.window("country", "row_number", order="time")', "computes per group")),
        ("shape", Use("(len(t), len(t.columns))", "is the number of rows and columns")),
        ("height num_rows", Use("len(t)", "is the number of rows")),
        ("size count", Use("len(t)", 'is the number of rows, and t.group_by("country") counts the rows of each group')),
        ("width num_columns", Use("len(t.columns)", "is the number of columns")),
        ("empty is_empty", Use("len(t) == 0", "is whether there are no rows")),
        ("column_names keys", Use("t.columns", "are the names of the columns")),
        ("dtypes", Use("t.schema", "are the columns and their types")),
        ("info", Use("outcore.info(t)", "describes the columns")),
        (
            "describe",
            Use('t.group_by(least="min(price)", most="max(price)", mean="mean(price)")', "describes a column"),
        ),
        ("show print display explain glimpse", Use("print(t)", f"{_FIRST_ROWS}; each step has run already")),
        (
            "collect compute execute",
            Use("t.to_arrow()", "loads the rows, as t.to_pandas() and t.to_polars() do; each step has run already"),
        ),
        ("to_parquet write_parquet sink_parquet", Use('t.write("out.parquet")', _WRITES)),
        ("to_csv write_csv sink_csv", Use('t.write("out.csv")', _WRITES)),
        ("to_json write_ndjson", Use('t.write("out.jsonl")', _WRITES)),
        ("to_feather write_ipc", Use('t.write("out.arrow")', _WRITES)),
        ("save", Use('t.write("out.parquet")', _WRITES)),
        ("to_numpy values", Use("t.to_arrow()", "loads the rows, and its columns have to_numpy()")),
        (
            "iterrows itertuples iter_rows iter_slices to_batches iter_batches",
            Use("t.batches()", "is the rows, batch by batch"),
        ),
        ("slice iloc", Use("t[10:20]", "is the rows from 10 to 19")),
        ("limit", Use("t.head(10)", "is the first rows")),
        ("loc", Use('t.filter("id == 7")', "keeps rows")),
        ("nlargest top_k top topk", Use('t.sort(by="price:desc").head(10)', "is the largest")),
        ("nsmallest bottom_k", Use('t.sort(by="price").head(10)', "is the smallest")),
        ("dropna drop_nulls", Use('t.filter("price is not null")', "leaves rows out")),
        ("to_dict to_list to_dicts to_pylist tolist", Use("t.to_arrow().to_pylist()", "loads the rows")),
        (
            "index reset_index with_row_index",
            Use('t.map(place="index")', "numbers the rows, which have no other index"),
        ),
        ("split partition", Use('outcore.split(t, "part-{part}.parquet", parts=3)', "writes several files")),
        (
            "train_test_split random_split",
            Use('outcore.split(t, "{part}.parquet", train=0.8)', "writes two files"),
        ),
    )
)

_LOADS = "loads the records"
#: Attributes of arrays of other libraries, over a dataset `d` of records.
OF_DATASETS = by_word(
    (
        ("to_numpy collect compute load", Use("numpy.asarray(d)", _LOADS)),
        ("to_pandas to_series", Use("numpy.asarray(d)", f"{_LOADS}, and pandas.Series takes them")),
        ("tolist to_list", Use("numpy.asarray(d).tolist()", _LOADS)),
        ("shape size", Use("d.count()", "is the number of records")),
        ("nbytes", Use("d.count() * d.dtype.itemsize", "is the number of bytes")),
        ("argsort", Use("d.enumerate()", "numbers the records before a sort")),
        ("apply", Use('d.map("x * 2")', "computes values from expressions")),
        ("astype cast", Use('d.map("f32(x)")', "converts the values")),
        ("query where", Use('d.filter("x > 5")', "keeps records")),
        ("nonzero argmax argmin index", Use('d.find("x == 5")', "is the first position")),
        ("cumsum cumprod accumulate cum_sum", Use('d.scan("sum")', "folds the values up to each one")),
        ("tail", Use("d.gather(range(d.count() - 5, d.count()))", "is the last records")),
        ("take iloc", Use("d.gather([3, 1])", "is the records at positions")),
        ("nlargest topk top_k", Use("d.top(10)", "is the largest values")),
        ("nsmallest", Use("d.top(10, smallest=True)", "is the smallest values")),
        ("value_counts counts", Use("d.count_by()", "counts each value")),
        ("nunique n_unique", Use("d.unique().count()", "counts different values")),
        ("dedup drop_duplicates distinct", Use("d.unique()", "keeps one of equal values")),
        ("save tofile to_file dump to_npy", Use('d.write("out.npy")', "writes a file")),
        (
            "to_csv to_parquet",
            Use('d.write("out.npy")', "writes the records; for a table, give outcore.table a frame of them"),
        ),
        ("iter iter_batches chunks to_batches", Use("d.batches(1000)", "is the records, 1000 at a time")),
        ("split", Use('d.partition("index % 3", "part-{part}.npy", parts=3)', "writes several files")),
        ("join", Use("outcore.zip", "puts records of several files side by side")),
        ("close", Use("d.count()", "opens the files and closes them, as every method does")),
    )
)

_LINES = "[line for lines in l for line in lines]"
#: Attributes of texts and arrays of other libraries, over `l` for lines.
OF_LINES = by_word(
    (
        ("to_list tolist to_pylist readlines read collect compute", Use(_LINES, "loads all lines")),
        ("filter grep contains", Use("[line for lines in l for line in lines if b'a' in line]", "keeps lines, in memory")),
        ("map apply upper lower strip", Use("[line.upper() for lines in l for line in lines]", "computes lines, in memory")),
        ("to_pandas to_polars to_arrow", Use("outcore.table(a)", "reads CSV and JSON lines as a table")),
        ("shape size", Use("l.count()", "is the number of lines")),
        ("value_counts count_by", Use("l.unique(counts=True)", "counts each line")),
        ("dedup drop_duplicates distinct", Use("l.unique()", "keeps one of equal lines")),
        ("sort_values sorted", Use("l.sort()", "sorts the lines")),
        ("save to_csv to_text", Use('l.write("out.txt")', "writes a file")),
        ("iter batches iter_lines", Use("iter(l)", "is the lines, a list at a time")),
        ("close", Use("l.count()", "opens the files and closes them, as every method does")),
    )
)

#: Attributes of columns of other libraries, over a column `c`.
OF_COLUMNS = by_word(
    (
        ("between is_between", Use("(c >= 1) & (c <= 9)", "compares with two bounds")),
        ("isin is_in", Use("t.filter(\"country in ('de', 'fr')\")", "compares with several values")),
        ("is_null isnull isna", Use('t.filter("price is null")', "keeps rows without a value")),
        ("is_not_null notnull notna", Use('t.filter("price is not null")', "keeps rows with a value")),
        ("alias name", Use('t.map(total=outcore.col("price") * 2)', "names a computed column")),
        ("cast", Use('c.astype("f64")', "converts the values")),
        (
            "sum mean min max count median",
            Use('t.group_by("country", total="sum(price)")', "aggregates groups, and without a column all rows"),
        ),
        ("str dt", Use("t.filter(\"starts_with(country, 'd')\")", "uses a function of texts or times")),
        ("startswith starts_with", Use("t.filter(\"starts_with(country, 'd')\")", "compares the beginning")),
        ("endswith ends_with", Use("t.filter(\"ends_with(country, 'e')\")", "compares the end")),
        ("contains", Use("t.filter(\"contains(country, 'd')\")", "looks for a part")),
        ("like", Use("t.filter(\"country like 'd%'\")", "compares with a pattern")),
        ("round", Use('t.map(price="round(price, 1)")', "rounds")),
        ("floor ceil sqrt exp log log2 hash", Use('t.map(root="sqrt(price)")', "uses a function of numbers")),
        ("gt lt ge le eq ne", Use("c > 9", "compares, as < >= <= == and != do")),
        ("abs", Use("abs(c)", "is the absolute value")),
        ("upper lower length strip trim replace", Use('t.map(name="upper(country)")', "uses a function of texts")),
        ("year month day hour minute second weekday", Use('t.map(year="year(time)")', "uses a function of times")),
        ("fill_null fillna coalesce", Use('t.map(price="coalesce(price, 0)")', "replaces values that are missing")),
        ("shift lag diff", Use('t.window((), order="time", before="lag(price)")', "is the value of the row before")),
        ("cum_sum cumsum", Use('t.window((), order="time", so_far="cum_sum(price)")', "is the sum up to a row")),
        ("rank over", Use('t.window("country", order="price", place="rank()")', "computes per group")),
        ("desc sort", Use('t.sort(by="price:desc")', "sorts the largest first")),
        ("unique value_counts", Use('t.count_by("country")', "counts the values of a column")),
    )
)

_MATRIX = "is a matrix in memory, which networkx.from_scipy_sparse_array takes"
#: Attributes of graphs of other libraries, over a graph `g`.
OF_GRAPHS = by_word(
    (
        ("louvain communities", Use("g.louvain_communities()", "finds communities")),
        ("lp label_prop", Use("g.label_propagation()", "finds communities")),
        (
            "sssp shortest_path shortest_paths dijkstra",
            Use("g.shortest_path_length(0)", "finds the lengths of paths"),
        ),
        ("breadth_first_search", Use("g.bfs(0)", "finds the numbers of edges to a vertex")),
        ("connected_components cc wcc", Use("g.components()", "finds components")),
        ("scc", Use("g.strongly_connected_components()", "finds strong components")),
        ("kcore coreness", Use("g.core_number()", "finds the core of each vertex")),
        ("number_of_nodes num_nodes nodes num_vertices vcount n", Use("g.vertices", "is the number of vertices")),
        ("number_of_edges num_edges ecount m", Use("g.edges", "is the number of edges")),
        ("degree out_degree", Use("g.degrees()", "counts the edges of each vertex")),
        ("in_degree", Use("g.degrees(incoming=True)", "counts the edges to each vertex")),
        (
            "neighbors neighbours successors adj",
            Use("g.to_scipy()[[0]].indices", "is the neighbours of a vertex, from a matrix in memory"),
        ),
        ("triangle_count", Use("g.triangles().sum() // 3", "is the number of triangles")),
        ("page_rank", Use("g.pagerank()", "ranks the vertices")),
        ("closeness_centrality", Use("g.closeness()", "finds how near each vertex is to others")),
        ("to_networkx adjacency to_csr adjacency_matrix", Use("g.to_scipy()", _MATRIX)),
        ("walk random_walk", Use("g.random_walks(length=10)", "walks from every vertex")),
        ("sample_neighbors", Use("g.neighbor_loader(num_neighbors=[10])", "samples neighbours, batch by batch")),
        ("is_directed", Use("g.directed", "is whether edges have a direction")),
        ("summary info", Use("repr(g)", "has the number of vertices and of edges")),
    )
)

_OPENS = "opens a table; its name and content decide the format"
_NEIGHBOURS = "searches arrays and files of vectors"
#: Names of other libraries' modules.
OF_MODULE = by_word(
    (
        (
            "read_csv read_parquet read_json read_ndjson read_feather read_table from_csv from_parquet scan_csv scan_parquet load_table DataFrame",
            Use("outcore.table(a)", _OPENS),
        ),
        (
            "from_pandas from_arrow from_polars from_dataframe",
            Use("outcore.table(frame)", "takes a frame or a table of another library"),
        ),
        ("load fromfile memmap read_npy", Use('outcore.open("keys.npy")', "opens records, an array or lines")),
        ("read read_text read_lines", Use("outcore.open(a)", "opens a table, records, an array or lines")),
        (
            "array asarray from_numpy",
            Use('outcore.open("keys.npy")', "opens a file; save an array with numpy.save first"),
        ),
        ("arange", Use("outcore.tabulate(10)", "is the numbers from 0 to 9")),
        ("kmeans", Use("outcore.KMeans(n_clusters=8)", "finds clusters")),
        ("concat", Use("outcore.table([a, b])", "is the rows of several files")),
        ("groupby", Use('outcore.table(a).group_by("country", total="sum(price)")', "aggregates groups")),
        ("lit field", Use('outcore.col("price") * 2', "is an expression; numbers and texts are written as they are")),
        ("order_by sort_values", Use('outcore.table(a).sort(by="price")', "sorts the rows")),
        ("when if_else case", Use("outcore.table(a).map(b=\"where(price > 9, 'x', 'y')\")", "chooses a value per row")),
        ("drop_duplicates distinct", Use('outcore.table(a).dedup(by="id")', "keeps one row per key")),
        ("value_counts", Use('outcore.table(a).count_by("country")', "counts the values of a column")),
        ("count len", Use("len(outcore.table(a))", "is the number of rows, and outcore.open(a).count() that of other items")),
        ("view create_view SortedView view_create", Use("outcore.sort_view", "makes a sorted view")),
        ("open_view", Use("outcore.View", "opens a sorted view")),
        (
            "Index VectorIndex create_index build_index",
            Use("outcore.index_vectors", "makes an index of a file of vectors"),
        ),
        ("NearestNeighbors IndexFlatL2 IndexFlatIP IndexIVFFlat nearest", Use("outcore.knn", _NEIGHBOURS)),
        (
            "torch DataLoader ShuffledDataset IterableDataset",
            Use("outcore.shuffled", "reads records in a random order, and `import outcore.torch` has datasets of PyTorch"),
        ),
        ("config options set_option", Use("outcore.settings()", "lists the settings and where they come from")),
        ("Graph read_graph", Use("outcore.graph.Graph", "opens a graph")),
        ("read_edgelist from_edgelist", Use("outcore.graph.convert", "makes a graph of files of edges")),
    )
)

#: Names of the modules of graphs of other libraries.
OF_GRAPH_MODULE = by_word(
    (
        ("read open load from_file", Use("outcore.graph.Graph", "opens a graph that convert has made")),
        (
            "read_edgelist from_edgelist read_edges from_edges from_csv from_numpy from_pandas build create",
            Use("outcore.graph.convert", "makes a graph of files of edges"),
        ),
        (
            "from_networkx",
            Use("outcore.graph.from_scipy", "makes a graph of the result of networkx.to_scipy_sparse_array"),
        ),
    )
)

_COMPARISONS = "__lt__ __le__ __gt__ __ge__"
_ARITHMETIC = "__add__ __sub__ __mul__ __truediv__ __mod__"
#: What Python calls the operations of classes.
OPERATIONS = {
    **{name: "comparisons" for name in _COMPARISONS.split()},
    **{name: "arithmetic" for name in _ARITHMETIC.split()},
    "__len__": "len()",
    "__getitem__": "[...]",
    "__setitem__": "[...] =",
    "__delitem__": "del",
    "__contains__": "in",
    "__iter__": "iteration",
    "__enter__": "with",
    "__exit__": "with",
}
_CLOSED = "and every method opens its files and closes them"
#: Operations of objects of other libraries.
OPERATIONS_OF: dict[str, dict[str, Use]] = {
    "Table": by_word(
        (
            (_COMPARISONS, Use('t.filter(outcore.col("price") > 100)', "keeps rows")),
            (_ARITHMETIC, Use('t.map(total=outcore.col("price") * 2)', "adds a column")),
            ("__setitem__", Use('t.map(total="price * 2")', "adds a column")),
            ("__delitem__", Use('t.select("id", "price")', "keeps columns")),
            ("__iter__", Use("t.batches()", "is the rows, batch by batch, and t.to_pandas() a frame in memory")),
            ("__enter__ __exit__", Use("t.head()", f"is a step, {_CLOSED}")),
        )
    ),
    "Dataset": by_word(
        (
            (_COMPARISONS, Use('d.filter("x > 5")', "keeps records")),
            (_ARITHMETIC, Use('d.map("x + 1")', "computes values")),
            ("__len__", Use("d.count()", "is the number of records")),
            ("__getitem__", Use("d.head(5)", "is the first records, and d.gather([3, 1]) those at positions")),
            ("__contains__", Use('d.find("x == 5")', "is the first position, or None")),
            ("__enter__ __exit__", Use("d.count()", f"is a question, {_CLOSED}")),
        )
    ),
    "Lines": by_word(
        (
            ("__len__", Use("l.count()", "is the number of lines")),
            ("__getitem__", Use("l.head(5)", "is the first lines")),
            ("__contains__", Use("any(b'a' in lines for lines in l)", "looks for a line")),
            ("__enter__ __exit__", Use("l.count()", f"is a question, {_CLOSED}")),
        )
    ),
    "Graph": by_word(
        (
            ("__len__", Use("g.vertices", "is the number of vertices")),
            ("__iter__", Use("range(g.vertices)", "is the vertices")),
            ("__getitem__", Use("g.to_scipy()[[0]].indices", "is the neighbours of a vertex, from a matrix in memory")),
            ("__contains__", Use("0 <= 7 < g.vertices", "is whether 7 is a vertex")),
            ("__enter__ __exit__", Use("g.vertices", f"is read at once, {_CLOSED}")),
        )
    ),
}
