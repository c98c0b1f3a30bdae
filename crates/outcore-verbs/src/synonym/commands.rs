//! Commands of other tools, and their equivalents.
//!
//! Contract: each group of commands has words of its own, in order; those of the root are under an
//! empty name. Every hint names a command that works when it is typed with files.

/// Words of the root, or of a group.
struct Words {
    group: &'static str,
    meanings: &'static [(&'static str, &'static str)],
}

const GROUPS: [Words; 9] = [
    Words {
        group: "",
        meanings: ROOT,
    },
    Words {
        group: "bench",
        meanings: &[
            ("disk", "`outcore bench io` measures drives"),
            ("drives", "`outcore bench io` measures drives"),
            ("fio", "`outcore bench io` measures drives"),
        ],
    },
    Words {
        group: "config",
        meanings: &[
            ("edit", SETTINGS),
            ("get", SETTINGS),
            ("list", SETTINGS),
            ("ls", SETTINGS),
            ("set", SETTINGS),
        ],
    },
    Words {
        group: "drives",
        meanings: &[
            ("bench", PROBE),
            ("info", PROBE),
            ("list", PROBE),
            ("ls", PROBE),
            ("measure", PROBE),
            ("scan", PROBE),
        ],
    },
    Words {
        group: "graph",
        meanings: &[
            ("build", "`outcore graph convert` makes a graph of edges"),
            ("centrality", "`outcore graph closeness` computes closeness"),
            ("communities", "`outcore graph louvain` finds communities"),
            (
                "components",
                "`outcore graph cc` finds connected components, scc strongly connected ones",
            ),
            (
                "connected-components",
                "`outcore graph cc` finds connected components, scc strongly connected ones",
            ),
            ("create", "`outcore graph convert` makes a graph of edges"),
            ("dijkstra", "`outcore graph sssp` finds shortest paths"),
            ("import", "`outcore graph convert` makes a graph of edges"),
            ("k-core", "`outcore graph kcore` finds cores"),
            ("label-propagation", "`outcore graph lp` propagates labels"),
            ("labels", "`outcore graph lp` propagates labels"),
            ("neighbors", "`outcore graph sample` draws neighbours"),
            ("neighbours", "`outcore graph sample` draws neighbours"),
            ("random-walk", "`outcore graph walk` makes random walks"),
            ("random-walks", "`outcore graph walk` makes random walks"),
            ("shortest-path", "`outcore graph sssp` finds shortest paths"),
            (
                "shortest-paths",
                "`outcore graph sssp` finds shortest paths",
            ),
            ("stats", "`outcore graph info` describes a graph"),
            (
                "triangle-count",
                "`outcore graph triangles` counts triangles",
            ),
            ("wcc", "`outcore graph cc` finds connected components"),
        ],
    },
    Words {
        group: "scratch",
        meanings: &[
            ("delete", "`outcore scratch clean` removes scratch"),
            ("ls", "`outcore scratch list` lists scratch"),
            ("prune", "`outcore scratch clean` removes scratch"),
            ("purge", "`outcore scratch clean` removes scratch"),
            ("remove", "`outcore scratch clean` removes scratch"),
            ("rm", "`outcore scratch clean` removes scratch"),
            ("show", "`outcore scratch list` lists scratch"),
        ],
    },
    Words {
        group: "sim",
        meanings: &[
            ("list", "`outcore sim presets` lists drives"),
            ("ls", "`outcore sim presets` lists drives"),
            ("trace", "`outcore sim replay` replays a trace"),
        ],
    },
    Words {
        group: "vector",
        meanings: &[
            ("build", "`outcore vector index` makes an index"),
            ("cluster", "`outcore kmeans` finds clusters"),
            ("create", "`outcore vector index` makes an index"),
            ("dedup", "`outcore vector pairs` finds near-duplicates"),
            ("import", "`outcore vector convert` copies between formats"),
            ("kmeans", "`outcore kmeans` finds clusters"),
            ("knn", "`outcore knn` finds nearest neighbours"),
            ("query", "`outcore knn` finds nearest neighbours"),
            ("search", "`outcore knn` finds nearest neighbours"),
            ("stats", "`outcore vector info` describes a file of vectors"),
        ],
    },
    Words {
        group: "view",
        meanings: &[
            ("add", "`outcore view append` adds files"),
            (
                "compact",
                "`outcore view materialize` writes the sorted file",
            ),
            ("create", "`outcore view build` makes a sorted view"),
            (
                "export",
                "`outcore view materialize` writes the sorted file",
            ),
            (
                "find",
                "`outcore view cat --key KEY` prints the items with a key",
            ),
            (
                "get",
                "`outcore view cat --key KEY` prints the items with a key",
            ),
            (
                "head",
                "`outcore view cat --range 0..10` prints the first 10",
            ),
            ("index", "`outcore view build` makes a sorted view"),
            ("insert", "`outcore view append` adds files"),
            ("list", "`outcore view info` describes a view"),
            ("ls", "`outcore view info` describes a view"),
            ("make", "`outcore view build` makes a sorted view"),
            ("print", "`outcore view cat` prints a view"),
            ("rm", "a view is a directory: rm -r VIEW removes it"),
            (
                "search",
                "`outcore view cat --key KEY` prints the items with a key",
            ),
            ("show", "`outcore view cat` prints a view"),
            ("umount", "`umount DIR` ends `outcore view mount`"),
            ("unmount", "`umount DIR` ends `outcore view mount`"),
            ("write", "`outcore view materialize` writes the sorted file"),
        ],
    },
];

const VOLUMES: Words = Words {
    group: "volume",
    meanings: &[
        ("cat", "`outcore volume get @NAME -` prints a dataset"),
        (
            "check",
            "`outcore volume scrub` reads everything and reports damage",
        ),
        ("delete", "`outcore volume rm` removes datasets"),
        ("destroy", "`outcore volume rm` removes datasets"),
        ("df", "`outcore volume status` shows used and free space"),
        ("du", "`outcore volume ls` lists datasets with their sizes"),
        (
            "fsck",
            "`outcore volume scrub` reads everything and reports damage",
        ),
        (
            "info",
            "`outcore volume status` shows drives, `outcore volume ls` datasets",
        ),
        ("init", "`outcore volume create` makes a volume"),
        ("list", "`outcore volume ls` lists datasets"),
        ("make", "`outcore volume create` makes a volume"),
        ("mount", "`outcore volume get` copies a dataset to a file"),
        (
            "mv",
            "`outcore volume cp @OLD @NEW` copies, `outcore volume rm @OLD` removes",
        ),
        ("new", "`outcore volume create` makes a volume"),
        ("rebuild", "`outcore volume replace` rebuilds a lost drive"),
        (
            "rename",
            "`outcore volume cp @OLD @NEW` copies, `outcore volume rm @OLD` removes",
        ),
        (
            "repair",
            "`outcore volume scrub` repairs data, `outcore volume replace` a lost drive",
        ),
        (
            "show",
            "`outcore volume status` shows drives, `outcore volume ls` datasets",
        ),
        (
            "verify",
            "`outcore volume scrub` reads everything and reports damage",
        ),
    ],
};

const ROOT: &[(&str, &str)] = &[
    ("agg", GROUP),
    ("aggregate", GROUP),
    ("bfs", "`outcore graph bfs` finds distances"),
    (
        "cat",
        "`outcore convert a.parquet b.parquet -o both.parquet` writes tables one after another; `outcore head` \
         prints rows",
    ),
    ("cluster", "`outcore kmeans` finds clusters of vectors"),
    ("columns", INFO),
    (
        "components",
        "`outcore graph cc` finds connected components",
    ),
    ("concat", CONCAT),
    ("count", COUNT),
    ("cp", OBJECTS),
    ("cut", SELECT),
    (
        "dedupe",
        "`outcore unique` keeps one of each, `outcore dedup` one row of each key",
    ),
    ("describe", INFO),
    ("distinct", "`outcore unique` keeps one of each"),
    ("drop", SELECT),
    ("export", CONVERT),
    ("extract", SELECT),
    ("fio", "`outcore bench io` measures drives"),
    ("frequency", "`outcore count-by` counts values"),
    ("generate", "`outcore gen` makes data to try"),
    ("gensort", "`outcore gen gensort` makes its records"),
    (
        "grep",
        "`outcore filter \"text like '%word%'\"` keeps rows of tables that have a word; grep searches text",
    ),
    ("groupby", GROUP),
    ("headers", INFO),
    ("hits", "`outcore graph hits` ranks hubs and authorities"),
    ("import", CONVERT),
    (
        "index",
        "`outcore view build` makes a sorted view, `outcore vector index` an index of vectors",
    ),
    ("list", "`outcore volume ls` lists datasets"),
    ("louvain", "`outcore graph louvain` finds communities"),
    ("ls", OBJECTS),
    (
        "mount",
        "`outcore view mount` shows a sorted view as a file",
    ),
    ("nearest", "`outcore knn` finds nearest neighbours"),
    ("order", SORT),
    ("orderby", SORT),
    ("pagerank", "`outcore graph pagerank` ranks vertices"),
    (
        "paste",
        "`outcore join` joins tables by a column, `outcore zip` records by position",
    ),
    ("permute", SHUFFLE),
    (
        "query",
        "`outcore filter` keeps rows, `outcore group-by` computes values of groups",
    ),
    ("rename", "`outcore map 'a as b'` renames a column"),
    ("reservoir", "`outcore sample` draws lines, records or rows"),
    ("rm", OBJECTS),
    ("schema", INFO),
    (
        "search",
        "`outcore filter` keeps rows, `outcore lookup` finds keys, `outcore knn` vectors",
    ),
    ("select", SELECT),
    ("show", "`outcore head` prints the first rows"),
    ("shuf", SHUFFLE),
    (
        "slice",
        "`outcore head` takes the first rows, `outcore tail` the last",
    ),
    ("sssp", "`outcore graph sssp` finds shortest paths"),
    (
        "stats",
        "`outcore reduce sum,min,max,mean` is for numbers, `outcore group-by` for tables, `outcore info` for \
         columns",
    ),
    ("to", CONVERT),
    ("transform", "`outcore map` computes columns"),
    ("union", CONCAT),
    (
        "uniq",
        "`outcore unique` keeps one of each line, record or row",
    ),
    ("validate", "`outcore verify` checks order and counts"),
    (
        "valsort",
        "`outcore verify --type gensort` checks the order and the checksum",
    ),
    ("value-counts", "`outcore count-by` counts values"),
    ("version", "`outcore --version` prints it"),
    ("wc", COUNT),
    (
        "where",
        "`outcore filter` keeps the rows for which a condition is true",
    ),
    ("with-column", "`outcore map 'c = a + b'` adds a column"),
];

const CONCAT: &str =
    "`outcore convert a.parquet b.parquet -o both.parquet` writes tables one after another";
const CONVERT: &str = "`outcore convert IN -o OUT` copies tables between formats";
const COUNT: &str = "`outcore verify --lines` counts lines, `outcore info` rows of tables, `outcore count-by` values";
const GROUP: &str = "`outcore group-by` computes sums, counts and other values of groups";
const INFO: &str = "`outcore info` prints columns, types and rows of tables";
const OBJECTS: &str =
    "`outcore volume` stores datasets; for objects use the store's own tool, such as `aws s3`";
const PROBE: &str = "`outcore drives probe` measures drives";
const SELECT: &str = "`outcore convert --columns a,b` keeps columns, `outcore filter` rows, and `outcore map` computes columns";
const SETTINGS: &str =
    "`outcore config show` lists the settings; change them in ~/.config/outcore/config.toml";
const SHUFFLE: &str = "`outcore shuffle` puts lines, records or rows in a random order";
const SORT: &str = "`outcore sort --by COLUMN` sorts";

/// The hint for the command `word` of another tool, typed below `group` or, if that is empty, at
/// the root.
pub(crate) fn of_command(group: &str, word: &str) -> Option<&'static str> {
    let mut groups = GROUPS.iter().chain(std::iter::once(&VOLUMES));
    let words = groups.find(|words| words.group == group)?;
    let known = words
        .meanings
        .binary_search_by_key(&word, |(known, _)| *known);
    known.ok().map(|at| words.meanings[at].1)
}

/// All words, each with its group and its hint.
pub fn words() -> impl Iterator<Item = Known> {
    let groups = GROUPS.iter().chain(std::iter::once(&VOLUMES));
    groups.flat_map(|words| {
        words.meanings.iter().map(|(word, hint)| Known {
            group: words.group,
            word,
            hint,
        })
    })
}

/// A word of another tool.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The group that it is typed below; empty for the root.
    pub group: &'static str,
    /// The word.
    pub word: &'static str,
    /// Its equivalent.
    pub hint: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order_so_that_each_is_found() {
        for words in GROUPS.iter().chain(std::iter::once(&VOLUMES)) {
            assert!(
                words.meanings.is_sorted_by_key(|(word, _)| *word),
                "{}",
                words.group
            );
        }
        assert_eq!(of_command("", "nothing"), None);
        assert_eq!(of_command("drives", "list"), Some(PROBE));
    }
}
