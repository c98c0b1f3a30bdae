//! Words that users of other tools try first, with their equivalents here.
//!
//! Contract: a table of commands and a table of options, looked up by the word as it was typed.
//! Every hint names a command that works when it is typed with files. All functions are pure.

/// Commands of other tools, and their equivalents.
const COMMANDS: [(&str, &str); 40] = [
    ("agg", GROUP),
    ("aggregate", GROUP),
    ("bfs", "`outcore graph bfs` finds distances"),
    (
        "cat",
        "`outcore convert a.parquet b.parquet -o both.parquet` writes tables one after another; `outcore head` \
         prints rows",
    ),
    ("columns", INFO),
    (
        "components",
        "`outcore graph cc` finds connected components",
    ),
    ("concat", CONCAT),
    (
        "count",
        "`outcore info` counts rows, `outcore count-by` values",
    ),
    ("describe", INFO),
    ("distinct", "`outcore unique` keeps one of each"),
    ("drop", SELECT),
    ("export", CONVERT),
    ("extract", SELECT),
    ("fio", "`outcore bench io DIR` measures drives"),
    (
        "grep",
        "`outcore filter \"text like '%word%'\" IN -o OUT` keeps rows of tables that have a word",
    ),
    ("groupby", GROUP),
    ("hits", "`outcore graph hits` ranks hubs and authorities"),
    ("import", CONVERT),
    (
        "index",
        "`outcore view build` makes a sorted view, `outcore vector index` an index of vectors",
    ),
    ("list", "`outcore volume ls` lists datasets"),
    ("louvain", "`outcore graph louvain` finds communities"),
    (
        "mount",
        "`outcore view mount` shows a sorted view as a file",
    ),
    ("nearest", "`outcore knn` finds nearest neighbours"),
    ("order", SORT),
    ("orderby", SORT),
    ("pagerank", "`outcore graph pagerank` ranks vertices"),
    (
        "permute",
        "`outcore shuffle` puts lines, records or rows in a random order",
    ),
    (
        "rename",
        "`outcore map 'a as b' IN -o OUT` renames a column",
    ),
    ("schema", INFO),
    ("select", SELECT),
    ("show", "`outcore head` prints the first rows"),
    (
        "shuf",
        "`outcore shuffle` puts lines, records or rows in a random order",
    ),
    ("sssp", "`outcore graph sssp` finds shortest paths"),
    (
        "stats",
        "`outcore reduce sum,min,max,mean` is for numbers, `outcore group-by` for tables, `outcore info` for \
         columns",
    ),
    ("transform", "`outcore map` computes columns"),
    ("union", CONCAT),
    (
        "uniq",
        "`outcore unique` keeps one of each line, record or row",
    ),
    (
        "wc",
        "`outcore info` counts rows, `outcore count-by` values",
    ),
    ("where", "`outcore filter` keeps the rows of a condition"),
    ("with-column", "`outcore map 'c = a + b'` adds a column"),
];

const CONCAT: &str =
    "`outcore convert a.parquet b.parquet -o both.parquet` writes tables one after another";
const CONVERT: &str = "`outcore convert IN -o OUT` copies tables between formats";
const GROUP: &str = "`outcore group-by` computes sums, counts and other values of groups";
const INFO: &str = "`outcore info` prints columns, types and rows of tables";
const SELECT: &str = "`outcore convert --columns a,b` keeps columns, `outcore filter` rows, and `outcore map` computes columns";
const SORT: &str = "`outcore sort --by COLUMN` sorts";

/// Options of other tools, and their equivalents.
const OPTIONS: [(&str, &str); 40] = [
    ("--asc", ASCENDING),
    ("--ascending", ASCENDING),
    ("--cache", MEMORY),
    ("--compress", CODEC),
    ("--compression", CODEC),
    ("--delim", SEPARATOR),
    ("--delimiter", SEPARATOR),
    (
        "--desc",
        "--descending, or --by COLUMN:desc, sorts the largest first",
    ),
    ("--dest", OUTPUT),
    ("--destination", OUTPUT),
    ("--distinct", "--unique keeps one of each key"),
    ("--dtype", "--type is the type of records"),
    ("--fields", COLUMNS),
    ("--format", FORMAT),
    ("--input-format", FORMAT),
    ("--jobs", THREADS),
    ("--key-column", KEY),
    ("--limit", COUNT),
    (
        "--lines-per-file",
        "--by-lines cuts into parts of this many lines",
    ),
    ("--max-memory", MEMORY),
    ("--mem", MEMORY),
    ("--na", NULL),
    ("--na-values", NULL),
    ("--nrows", COUNT),
    ("--null-values", NULL),
    ("--num-threads", THREADS),
    ("--on-bad-lines", "--on-error skip leaves bad rows out"),
    ("--order-by", KEY),
    ("--out", OUTPUT),
    ("--output-format", FORMAT),
    ("--overwrite", "--force replaces an existing output"),
    ("--ram", MEMORY),
    ("--sep", SEPARATOR),
    ("--separator", SEPARATOR),
    ("--sort-by", KEY),
    ("--tempdir", SCRATCH),
    ("--tmp", SCRATCH),
    ("--tmpdir", SCRATCH),
    ("--workers", THREADS),
    ("-j", THREADS),
];

const ASCENDING: &str = "the smallest come first unless --descending or COLUMN:desc is given";
const CODEC: &str = "--codec is the compression of a table; for text, the ending of the output \
                     selects it: out.csv.zst";
const COLUMNS: &str = "--columns keeps columns";
const COUNT: &str = "-n is a number of lines, records or rows";
const FORMAT: &str =
    "file names determine the formats; --from and --to are for standard input and output";
const KEY: &str = "--by COLUMN is the key; repeat it for further columns";
const MEMORY: &str = "--memory is the memory to use";
const NULL: &str = "--null lists the texts that are null";
const OUTPUT: &str = "-o is the output";
const SCRATCH: &str = "--drive is a directory for scratch";
const SEPARATOR: &str = "-t is the separator of fields";
const THREADS: &str = "--threads is the number of threads";

/// The hint for the command `word` of another tool.
pub(crate) fn of_command(word: &str) -> Option<&'static str> {
    let found = COMMANDS.binary_search_by_key(&word, |(known, _)| *known);
    found.ok().map(|at| COMMANDS[at].1)
}

/// The hint for the option `word` of another tool.
pub(crate) fn of_option(word: &str) -> Option<&'static str> {
    let found = OPTIONS.binary_search_by_key(&word, |(known, _)| *known);
    found.ok().map(|at| OPTIONS[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order_so_that_each_is_found() {
        assert!(COMMANDS.is_sorted_by_key(|(word, _)| *word));
        assert!(OPTIONS.is_sorted_by_key(|(word, _)| *word));
        assert_eq!(of_option("--sep"), Some(SEPARATOR));
        assert_eq!(of_command("nothing"), None);
    }
}
