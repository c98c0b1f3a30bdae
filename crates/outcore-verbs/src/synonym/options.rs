//! Options of other tools, and their equivalents.
//!
//! Contract: a command gets the first hint that is for it and whose option it has.

use std::path::Path;

use clap::Command;

use super::further::FURTHER;
use super::has;
use super::meaning::{BY, Hint, Meaning, ON, always, of, with};

const COUNTED: &[&str] = &["gen", "head", "sample", "shuffle", "tail", "top"];
const FORCE: Hint = with("--force", "--force replaces an existing output");
const ORDER: Hint = with("--order", "--order COLUMN orders the rows of a group");
const MAP_FIRST: Hint = with("--map", "--map EXPR computes the values that are used");
const SPLIT_BY: Hint = always("`outcore split --by COLUMN` writes a directory per value");
const SAMPLE_RATE: Hint = always("`outcore sample --rate 0.1` draws a tenth");

/// Options that mean the same are in one entry.
const OPTIONS: [Meaning; 52] = [
    Meaning {
        words: &[
            "--agg-func",
            "--aggregate",
            "--count-distinct",
            "--mean",
            "--sum",
        ],
        hints: &[
            with(
                "--agg",
                "--agg 'sum(price), mean(price)' computes values of groups",
            ),
            always("`outcore group-by --agg 'sum(price)'` computes values of groups"),
        ],
    },
    Meaning {
        words: &["--asc", "--ascending"],
        hints: &[
            with(
                "--descending",
                "the smallest come first unless --descending is given",
            ),
            with(
                "--by",
                "the smallest come first unless --by COLUMN:desc is given",
            ),
            with(
                "--order",
                "the smallest come first unless --order COLUMN:desc is given",
            ),
        ],
    },
    Meaning {
        words: &["--batch-size", "--minibatch"],
        hints: &[with(
            "--batch",
            "--batch is the number of vectors of a batch",
        )],
    },
    Meaning {
        words: &[
            "--block-size",
            "--blocksize",
            "--buffer-size",
            "--chunk-size",
            "--chunksize",
        ],
        hints: &[with("--memory", "block sizes follow from --memory")],
    },
    Meaning {
        words: &["--additional-suffix", "--prefix", "--suffix"],
        hints: &[of(
            &["split"],
            "the names of parts come from -o 'part-{part}.csv'",
        )],
    },
    Meaning {
        words: &[
            "--block-bytes",
            "--bs",
            "--readwrite",
            "--rw",
            "--rwmixread",
        ],
        hints: &[
            of(
                &["io"],
                "--load randread:4KiB:32 is a load: pattern, block and depth",
            ),
            with(
                "--flow",
                "--flow size=4KiB is the size of requests, --flow read=0.7 the share of reads",
            ),
        ],
    },
    Meaning {
        words: &["--num-jobs", "--numjobs"],
        hints: &[of(
            &["io"],
            "--load read:1MiB:8:2 is a load of 2 threads, each 8 requests deep",
        )],
    },
    Meaning {
        words: &["--ioengine", "--iodepth", "--qd", "--queue-depth"],
        hints: &[
            of(
                &["io"],
                "--load randread:4KiB:32 is a load: pattern, block and depth",
            ),
            with(
                "--flow",
                "--flow depth=32 is the number of requests in flight",
            ),
            with("--depth", "--depth is the number of requests in flight"),
        ],
    },
    Meaning {
        words: &[
            "--cache",
            "--max-memory",
            "--mem",
            "--memory-limit",
            "--ram",
        ],
        hints: &[with("--memory", "--memory is the memory to use")],
    },
    Meaning {
        words: &["--check-order", "--order", "--sorted"],
        hints: &[
            of(&["verify"], "verify checks the order without an option"),
            of(&["unique"], "the output of unique is in order already"),
            of(&["gen"], "--dist sorted makes records in order"),
            of(
                &["group-by", "count-by", "filter", "map", "diff"],
                "`outcore sort --by COLUMN` orders the result",
            ),
            of(
                &["dedup"],
                "--keep COLUMN:desc keeps the row that comes first in this order",
            ),
            with(
                "--by",
                "--by COLUMN is the key; repeat it for further columns",
            ),
        ],
    },
    Meaning {
        words: &["--clusters", "--n-clusters", "--nclusters"],
        hints: &[of(&["kmeans"], "-k is the number of clusters")],
    },
    Meaning {
        words: &[
            "--col",
            "--cols",
            "--column",
            "--fields",
            "--project",
            "--select",
            "--usecols",
        ],
        hints: &[
            of(
                &["sort"],
                "--by COLUMN is the key; `outcore convert --columns a,b` keeps columns",
            ),
            of(
                &["knn", "kmeans"],
                "`outcore vector convert TABLE --column NAME -o OUT.npy` takes vectors out",
            ),
            with("--columns", "--columns keeps columns"),
            MAP_FIRST,
            always("`outcore convert --columns a,b` keeps columns"),
        ],
    },
    Meaning {
        words: &["--compress", "--compression", "--gzip", "--zstd"],
        hints: &[with(
            "--codec",
            "--codec is the compression of a table; for text, the ending of the output selects it: \
             out.csv.zst",
        )],
    },
    Meaning {
        words: &["--damping"],
        hints: &[with("--alpha", "--alpha is the damping factor")],
    },
    Meaning {
        words: &[
            "--delim",
            "--delimiter",
            "--field-separator",
            "--fs",
            "--ifs",
            "--sep",
            "--separator",
        ],
        hints: &[with("-t", "-t is the separator of an input that is CSV")],
    },
    Meaning {
        words: &["--desc", "--descending", "--reverse"],
        hints: &[
            with("--descending", "--descending sorts the largest first"),
            of(&["count-by"], "--by-count puts the most frequent first"),
            with("--by", "--by COLUMN:desc sorts the largest first"),
            with("--order", "--order COLUMN:desc puts the largest first"),
        ],
    },
    Meaning {
        words: &[
            "--dest",
            "--destination",
            "--out",
            "--out-file",
            "--outfile",
        ],
        hints: &[with("-o", "-o is the output")],
    },
    Meaning {
        words: &["--direct"],
        hints: &[with("--io", "--io direct bypasses the page cache")],
    },
    Meaning {
        words: &["--directed"],
        hints: &[with(
            "--undirected",
            "edges are directed unless --undirected is given",
        )],
    },
    Meaning {
        words: &["--dist-metric", "--distance", "--space"],
        hints: &[with(
            "--metric",
            "--metric is the measure of distance: l2, ip, cos or hamming",
        )],
    },
    Meaning {
        words: &["--distinct", "--uniq"],
        hints: &[
            of(&["sort"], "--unique keeps one of each key"),
            always("`outcore unique` keeps one of each line, record or row"),
        ],
    },
    Meaning {
        words: &["--dtype", "--record-type"],
        hints: &[
            Hint {
                of: &["convert"],
                needs: "--column",
                text: "the name of the output selects its type, for example -o out.f16bin",
            },
            with("--type", "--type is the type of records"),
            with(
                "--schema",
                "--schema gives types of columns: --schema price:f64",
            ),
        ],
    },
    Meaning {
        words: &["--encoding"],
        hints: &[always(
            "outcore reads UTF-8; iconv converts other encodings",
        )],
    },
    Meaning {
        words: &["--eps", "--epsilon", "--tol"],
        hints: &[with(
            "--tolerance",
            "--tolerance is the change below which iterations end",
        )],
    },
    Meaning {
        words: &["--filter", "--condition", "--query", "--where"],
        hints: &[
            with(
                "--where",
                "--where EXPR takes only items for which EXPR is true",
            ),
            of(&["knn"], "the queries are the second operand"),
            always("`outcore filter CONDITION` keeps items for which it is true"),
        ],
    },
    Meaning {
        words: &[
            "--format",
            "--informat",
            "--input-format",
            "--output-format",
        ],
        hints: &[
            of(&["convert"], "file names determine the formats"),
            with(
                "--from",
                "file names determine the formats; --from is for standard input",
            ),
            with(
                "--type",
                "the name of a file determines its format; --type is a type of records",
            ),
        ],
    },
    Meaning {
        words: &[
            "--frac",
            "--fraction",
            "--percent",
            "--probability",
            "--ratio",
            "--test-size",
            "--train-size",
        ],
        hints: &[
            of(
                &["split"],
                "--train 0.8 splits a table into parts for training and for tests",
            ),
            with("--rate", "--rate 0.1 draws a tenth"),
            SAMPLE_RATE,
        ],
    },
    Meaning {
        words: &["-p"],
        hints: &[
            with("--rate", "--rate 0.1 draws a tenth"),
            Hint {
                of: &["convert"],
                needs: "--columns",
                text: "--columns names the columns that are kept; all others are left out",
            },
        ],
    },
    Meaning {
        words: &[
            "--group",
            "--group-by",
            "--groupby",
            "--on",
            "--partition-by",
            "--subset",
        ],
        hints: &[
            ON,
            of(
                &["convert"],
                "`outcore split --by COLUMN` writes a directory per value",
            ),
            of(&["window"], "--by COLUMN makes groups of rows"),
            BY,
            SPLIT_BY,
        ],
    },
    Meaning {
        words: &["--has-header", "--header"],
        hints: &[with(
            "--no-header",
            "the first line of CSV is its header unless --no-header is given",
        )],
    },
    Meaning {
        words: &["--infile", "--input", "--inputs"],
        hints: &[always("inputs are named without an option")],
    },
    Meaning {
        words: &["--inner", "--join", "--join-type", "--left", "--outer"],
        hints: &[with(
            "--how",
            "--how left keeps rows of the left table without a partner",
        )],
    },
    Meaning {
        words: &["--full", "--right"],
        hints: &[with(
            "--how",
            "--how full keeps rows of both tables without a partner",
        )],
    },
    Meaning {
        words: &[
            "--jobs",
            "--n-jobs",
            "--nthreads",
            "--num-threads",
            "--workers",
            "-P",
            "-j",
        ],
        hints: &[
            of(
                &["join"],
                "--on COLUMN joins on a column; --threads is the number of threads",
            ),
            with("--threads", "--threads is the number of threads"),
        ],
    },
    Meaning {
        words: &["--keep"],
        hints: &[
            of(
                &["unique"],
                "`outcore dedup --by COLUMN --keep last` keeps the last row of each key",
            ),
            Hint {
                of: &["map", "convert", "filter"],
                needs: "--columns",
                text: "--columns keeps columns",
            },
        ],
    },
    Meaning {
        words: &["--key-column", "--order-by", "--sort-by", "--sort-key"],
        hints: &[
            of(
                &["group-by", "count-by", "filter", "map", "diff"],
                "`outcore sort --by COLUMN` orders the result",
            ),
            of(
                &["dedup"],
                "--keep COLUMN:desc keeps the row that comes first in this order",
            ),
            of(&["unique"], "the output of unique is in order already"),
            ORDER,
            ON,
            BY,
        ],
    },
    Meaning {
        words: &["--largest"],
        hints: &[of(
            &["top"],
            "the largest are listed unless --smallest is given",
        )],
    },
    Meaning {
        words: &["--left-key", "--left-on", "--right-key", "--right-on"],
        hints: &[ON],
    },
    Meaning {
        words: &[
            "--head",
            "--head-count",
            "--limit",
            "--max-rows",
            "--nrows",
            "--num",
            "--records",
            "--rows",
            "--top",
            "--top-n",
            "-n",
        ],
        hints: &[
            of(&["partition"], "--parts is the number of parts"),
            of(
                &["cat"],
                "`outcore view cat VIEW | head -n 10` prints the first lines",
            ),
            of(
                &["count-by"],
                "--by-count puts the most frequent first, and `outcore head -n 10` takes the first 10",
            ),
            of(&["window"], "--first N keeps the first rows of each group"),
            of(&["knn"], "-k is the number of neighbours"),
            Hint {
                of: COUNTED,
                needs: "-n",
                text: "-n is a number of lines, records or rows",
            },
            always("`outcore head -n 10` takes the first lines, records or rows"),
        ],
    },
    Meaning {
        words: &["--lines-per-file", "--rows-per-file"],
        hints: &[
            with(
                "--by-lines",
                "--by-lines cuts into parts of this many lines",
            ),
            always("`outcore split --by-lines 1000000` cuts into parts of that many lines"),
        ],
    },
    Meaning {
        words: &["--max-iter", "--max-iters", "--niter"],
        hints: &[
            with(
                "--max-iterations",
                "--max-iterations is the largest number of iterations",
            ),
            with(
                "--iterations",
                "--iterations is the largest number of iterations",
            ),
        ],
    },
    Meaning {
        words: &["--n-init"],
        hints: &[with(
            "--runs",
            "--runs is the number of runs, each with another seed",
        )],
    },
    Meaning {
        words: &[
            "--na",
            "--na-values",
            "--null-values",
            "--nulls",
            "--nullstr",
        ],
        hints: &[with("--null", "--null lists the texts that are null")],
    },
    Meaning {
        words: &["--nulls-last"],
        hints: &[with(
            "--by",
            "rows without a value come last, unless --by COLUMN:nulls-first is given",
        )],
    },
    Meaning {
        words: &["--nulls-first"],
        hints: &[with(
            "--by",
            "--by COLUMN:nulls-first puts rows without a value first",
        )],
    },
    Meaning {
        words: &["--num-files", "--number", "--chunks"],
        hints: &[with("--parts", "--parts is the number of files")],
    },
    Meaning {
        words: &["--on-bad-lines", "--ignore-errors", "--skip-errors"],
        hints: &[with("--on-error", "--on-error skip leaves bad rows out")],
    },
    Meaning {
        words: &["--overwrite", "--yes", "-y"],
        hints: &[FORCE],
    },
    Meaning {
        words: &["-f"],
        hints: &[
            of(
                &["tail"],
                "outcore tail does not follow a file that grows; the system's tail does",
            ),
            FORCE,
        ],
    },
    Meaning {
        words: &["--queries", "--xq"],
        hints: &[of(
            &["knn"],
            "the queries are the second operand: BASE QUERIES",
        )],
    },
    Meaning {
        words: &["--random-seed", "--random-state"],
        hints: &[with("--seed", "--seed is the start of random numbers")],
    },
    Meaning {
        words: &["--record-len", "--record-size", "--reclen", "--width"],
        hints: &[with(
            "--record",
            "--record is the size of a record in bytes",
        )],
    },
];

/// The hint for a word that is not an operand of `command`: the option to which the word may
/// belong.
pub(crate) fn of_operand(word: &str, command: &Command) -> Option<String> {
    match command.get_name() {
        "join" if word == "on" => return Some("write --on COLUMN".to_owned()),
        "join" => return Some("join two inputs, then join the result with the third".to_owned()),
        "comm" | "diff" => return Some("it compares two inputs".to_owned()),
        _ => {}
    }
    if has(command, "--parity") {
        let hint = "outcore drives probe DIR... -o drives.toml names the drives, then --volume drives.toml";
        return Some(hint.to_owned());
    }
    if word.ends_with(".xml") && has(command, "--ssd") {
        return Some(
            "--ssd and --workload name the files of MQSim: --ssd a.xml --workload b.xml".to_owned(),
        );
    }
    if has(command, "--trace") && Path::new(word).is_file() {
        return Some(format!("--trace {word} is a trace"));
    }
    let is_number = word.parse::<f64>().is_ok();
    let meant: &[(&str, &str)] = match is_number {
        true => &[
            ("-k", "is the number of clusters"),
            ("--source", "is a vertex"),
            ("-n", "is the number of items"),
        ],
        false => &[
            ("--preset", "is a model of a drive"),
            ("--on", "is a drive or a column"),
            ("--drive", "is a directory for scratch"),
            ("-o", "is the output"),
        ],
    };
    let is_output = |flag: &str| flag != "--drive" || Path::new(word).is_dir();
    let mut meant = meant
        .iter()
        .filter(|(flag, _)| has(command, flag) && is_output(flag));
    meant
        .next()
        .map(|(flag, what)| format!("{flag} {word} {what}"))
}

/// All words.
pub fn words() -> impl Iterator<Item = &'static str> {
    let meanings = OPTIONS.iter().chain(&FURTHER);
    meanings.flat_map(|meaning| meaning.words.iter().copied())
}

/// The hint for the option `word` of another tool, for a user of `command`.
pub fn of_option(word: &str, command: &Command) -> Option<&'static str> {
    let meanings = OPTIONS.iter().chain(&FURTHER);
    let mut hints = meanings
        .filter(|meaning| meaning.words.contains(&word))
        .flat_map(|meaning| meaning.hints);
    let name = command.get_name();
    // A program calls a verb of a group by both words.
    let name = name.rsplit(' ').next().unwrap_or(name);
    let is_for = |hint: &&Hint| {
        (hint.of.is_empty() || hint.of.contains(&name))
            && (hint.needs.is_empty() || has(command, hint.needs))
    };
    hints.find(is_for).map(|hint| hint.text)
}
