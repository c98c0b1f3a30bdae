//! More options of other tools. Most of these options belong to few commands.
//!
//! Contract: as that of `options`, which looks here after its own entries.

use super::meaning::{BY, Hint, Meaning, ON, always, of, with};

const CHECKS_LINES: Hint = of(
    &["verify"],
    "`outcore sort -c -t, -k2,2` checks the order of lines by fields",
);

/// Options that mean the same are in one entry.
pub(super) const FURTHER: [Meaning; 59] = [
    Meaning {
        words: &["-1", "-2", "--using"],
        hints: &[ON],
    },
    Meaning {
        words: &["--drop", "--exclude"],
        hints: &[
            with("--columns", "--columns keeps the columns that it names"),
            always("`outcore convert --columns a,b` keeps columns"),
        ],
    },
    Meaning {
        words: &["--rename"],
        hints: &[always("`outcore map 'price as cost'` renames a column")],
    },
    Meaning {
        words: &["--having"],
        hints: &[always(
            "`outcore filter CONDITION` keeps rows of the result",
        )],
    },
    Meaning {
        words: &["--bidirectional", "--symmetric"],
        hints: &[with(
            "--undirected",
            "--undirected adds the reverse of each edge",
        )],
    },
    Meaning {
        words: &["--in-place", "--inplace"],
        hints: &[with(
            "--replace",
            "--replace writes the result over the input",
        )],
    },
    Meaning {
        words: &["--shards"],
        hints: &[
            with(
                "--parts",
                "--parts N -o DIR writes a table in parts; `outcore split -n 8 -o 'part-{part}'` cuts lines",
            ),
            always("`outcore split -n 8 -o 'part-{part}'` writes parts"),
        ],
    },
    Meaning {
        words: &["--dev", "--device"],
        hints: &[of(&["replay"], "--on names a drive or a file")],
    },
    Meaning {
        words: &["--rows-per-group", "--row-group-size"],
        hints: &[with(
            "--group-rows",
            "--group-rows is the number of rows in a row group",
        )],
    },
    Meaning {
        words: &["--repeat", "--replace", "--replacement", "-r"],
        hints: &[
            of(
                &["sample", "shuffle"],
                "`outcore sample --with-replacement` may draw a line several times",
            ),
            with("--by", "--by COLUMN:desc sorts the largest first"),
        ],
    },
    Meaning {
        words: &[
            "--scratch",
            "--scratch-dir",
            "--spill-dir",
            "--temp-dir",
            "--temp-directory",
            "--tempdir",
            "--tmp",
            "--tmp-dir",
            "--tmpdir",
        ],
        hints: &[with("--drive", "--drive is a directory for scratch")],
    },
    Meaning {
        words: &["--from", "--root", "--seeds", "--start"],
        hints: &[with(
            "--source",
            "--source is a vertex; repeat it for several",
        )],
    },
    Meaning {
        words: &["--runtime"],
        hints: &[with("--time", "--time is the approximate total time")],
    },
    Meaning {
        words: &["--source", "--src-column", "--target"],
        hints: &[with(
            "--relabel",
            "--columns names the columns of both ends: --columns source,target",
        )],
    },
    Meaning {
        words: &["--similarity", "--threshold"],
        hints: &[
            with(
                "--min-cos",
                "--min-cos is the smallest cosine of a pair, --max-l2 the largest distance",
            ),
            with(
                "--jaccard",
                "--jaccard is the smallest similarity of near duplicates",
            ),
        ],
    },
    Meaning {
        words: &["--key", "-k"],
        hints: &[CHECKS_LINES, ON, BY],
    },
    Meaning {
        words: &["--direction"],
        hints: &[with(
            "--asof",
            "--asof COLUMN takes the nearest earlier row of the right table",
        )],
    },
    Meaning {
        words: &["--sort"],
        hints: &[
            of(
                &["group-by", "filter", "map", "diff"],
                "`outcore sort --by COLUMN` orders the result",
            ),
            of(&["count-by"], "--by-count puts the most frequent first"),
        ],
    },
    Meaning {
        words: &["--count", "-c"],
        hints: &[with("--agg", "--agg count counts the rows of groups")],
    },
    Meaning {
        words: &["--echo", "-e"],
        hints: &[of(
            &["shuffle"],
            "pipe the words to it: printf '%s\\n' a b c | outcore shuffle",
        )],
    },
    Meaning {
        words: &["--input-range", "-i"],
        hints: &[of(
            &["shuffle"],
            "pipe the numbers to it: seq 1 10 | outcore shuffle",
        )],
    },
    Meaning {
        words: &["--size", "--bytes-per-file"],
        hints: &[
            of(&["split"], "--bytes 1GB cuts into parts of this size"),
            of(
                &["gen"],
                "-n is the number of records; 1 GiB of u64 is -n 134217728",
            ),
        ],
    },
    Meaning {
        words: &["--natural", "--natural-sort"],
        hints: &[with(
            "--version-sort",
            "-V sorts numbers within text by their value",
        )],
    },
    Meaning {
        words: &["--skip-header", "--skip-rows", "--skiprows"],
        hints: &[with("--header", "--header 1 keeps one line in front")],
    },
    Meaning {
        words: &["--unique-by"],
        hints: &[with(
            "--unique",
            "`outcore unique --by COLUMN` keeps one row of each key, `outcore dedup` chooses which",
        )],
    },
    Meaning {
        words: &["--num-perm", "--num-hashes"],
        hints: &[with("--hashes", "--hashes is the number of hashes")],
    },
    Meaning {
        words: &["--ngram", "--ngrams", "--ngram-size"],
        hints: &[with(
            "--shingles",
            "--shingles words:3 is the length of shingles",
        )],
    },
    Meaning {
        words: &["--types", "--dtypes", "--column-types"],
        hints: &[with(
            "--schema",
            "--schema price:f64,day:date gives types of columns",
        )],
    },
    Meaning {
        words: &["--schema", "--stats", "--statistics"],
        hints: &[of(
            &["info"],
            "info prints columns, types and counts without an option",
        )],
    },
    Meaning {
        words: &["--min", "--max", "--bounds"],
        hints: &[
            with("--range", "--range 0:100 gives both bounds"),
            of(
                &["gen"],
                "the numbers have all bits; `outcore map 'x % 100'` makes them smaller",
            ),
        ],
    },
    Meaning {
        words: &["-k", "--k"],
        hints: &[Hint {
            of: &["top", "sample", "head", "shuffle"],
            needs: "-n",
            text: "-n is a number of lines, records or rows",
        }],
    },
    Meaning {
        words: &["--by"],
        hints: &[of(
            &["top"],
            "for tables `outcore sort --by COLUMN:desc`, then `outcore head`",
        )],
    },
    Meaning {
        words: &["--src", "--dst", "--from-column", "--to-column"],
        hints: &[with(
            "--relabel",
            "--columns names the columns of both ends: --columns source,target",
        )],
    },
    Meaning {
        words: &["--no-self-loops", "--remove-self-loops"],
        hints: &[with(
            "--drop-loops",
            "--drop-loops leaves out edges from a vertex to itself",
        )],
    },
    Meaning {
        words: &["-n", "--neighbors", "--n-neighbors", "--topk"],
        hints: &[of(&["knn"], "-k is the number of neighbours")],
    },
    Meaning {
        words: &["--exact"],
        hints: &[of(&["knn"], "knn is exact unless an --index is given")],
    },
    Meaning {
        words: &["--cosine"],
        hints: &[
            with("--min-cos", "--min-cos is the smallest cosine of a pair"),
            with("--metric", "--metric cos compares directions"),
        ],
    },
    Meaning {
        words: &["--lists", "--n-lists"],
        hints: &[with("--nlist", "--nlist is the number of lists")],
    },
    Meaning {
        words: &["--columns"],
        hints: &[of(
            &["cat"],
            "`outcore convert --columns a,b` keeps columns",
        )],
    },
    Meaning {
        words: &["--from", "--start"],
        hints: &[of(
            &["cat"],
            "--range 0..10 is a range of positions, --from-key a first key",
        )],
    },
    Meaning {
        words: &["--distribution"],
        hints: &[with("--dist", "--dist is the distribution")],
    },
    Meaning {
        words: &["--rate", "--iops"],
        hints: &[of(
            &["replay"],
            "--speed 2 replays twice as fast as the trace",
        )],
    },
    Meaning {
        words: &["--preset", "--ssd"],
        hints: &[of(
            &["replay"],
            "`outcore sim run --trace FILE --preset NAME` replays on a model",
        )],
    },
    Meaning {
        words: &["--writes", "--allow-writes"],
        hints: &[with("--write-ok", "--write-ok allows writing to the drive")],
    },
    Meaning {
        words: &["--data", "--bytes"],
        hints: &[of(&["plan"], "--size is the size of the data")],
    },
    Meaning {
        words: &["--output", "-o"],
        hints: &[of(
            &["get"],
            "the file is the second operand: outcore volume get @NAME FILE",
        )],
    },
    Meaning {
        words: &["--minhash"],
        hints: &[with("--near", "--near COLUMN finds near duplicates")],
    },
    Meaning {
        words: &["--type"],
        hints: &[of(
            &["join"],
            "--how left keeps rows of the left table without a partner",
        )],
    },
    Meaning {
        words: &["-d", "--numeric-suffixes"],
        hints: &[of(
            &["split"],
            "parts are numbered without an option: -o 'part-{part}.csv'",
        )],
    },
    Meaning {
        words: &["--k"],
        hints: &[
            of(&["kmeans"], "-k is the number of clusters"),
            of(&["knn"], "-k is the number of neighbours"),
        ],
    },
    Meaning {
        words: &["--count"],
        hints: &[of(&["cat"], "--range 0..3 is a range of positions")],
    },
    Meaning {
        words: &["--dry-run"],
        hints: &[of(
            &["clean"],
            "`outcore scratch list` lists what clean removes",
        )],
    },
    Meaning {
        words: &["--list", "-l"],
        hints: &[of(&["config"], "`outcore config show` lists the settings")],
    },
    Meaning {
        words: &["--drive", "--ssd"],
        hints: &[
            of(&["replay"], "--on names a drive or a file"),
            with("--preset", "--preset NAME is a model of a drive"),
        ],
    },
    Meaning {
        words: &["--preset"],
        hints: &[of(
            &["sim"],
            "`outcore-lab sim run --preset NAME` runs a load on a model of a drive",
        )],
    },
    Meaning {
        words: &["--skip", "--offset"],
        hints: &[of(
            &["head", "tail"],
            "`outcore tail -n +11` leaves out the first 10; pipe it to `outcore head`",
        )],
    },
    Meaning {
        words: &["-r", "--reverse"],
        hints: &[of(&["tail"], "tac writes lines in the opposite order")],
    },
    Meaning {
        words: &["-t", "--field-separator"],
        hints: &[CHECKS_LINES],
    },
    Meaning {
        words: &["--sort-by", "--order-by"],
        hints: &[of(
            &["convert"],
            "`outcore sort --by COLUMN` orders rows, and writes any format of tables",
        )],
    },
];
