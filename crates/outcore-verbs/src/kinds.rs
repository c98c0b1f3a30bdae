//! The kinds of input that each option applies to.
//!
//! Contract: [`RULES`] is the one table. An option without a rule applies to every kind that its
//! command takes. [`Given::applies_to`] rejects, by its name, the first option on the command line
//! that does not apply to the kind of the input. Defaults, settings of the environment and operands
//! do not count as given options.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use outcore::{Error, Result};
use outcore_front::what::What;

/// A set of kinds of input.
#[derive(Clone, Copy)]
struct Kinds(u16);

impl Kinds {
    const fn of(kinds: &[What]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < kinds.len() {
            set |= 1 << kinds[at] as u16;
            at += 1;
        }
        Kinds(set)
    }

    const fn and(self, other: Kinds) -> Self {
        Kinds(self.0 | other.0)
    }

    fn has(self, kind: What) -> bool {
        self.0 & (1 << kind as u16) != 0
    }
}

const LINES: Kinds = Kinds::of(&[What::Lines]);
const CSV: Kinds = Kinds::of(&[What::Csv]);
const JSON: Kinds = Kinds::of(&[What::JsonLines]);
const FASTQ: Kinds = Kinds::of(&[What::Fastq]);
const ROWS: Kinds = LINES.and(CSV).and(JSON);
const TEXT: Kinds = ROWS.and(FASTQ);
const ARRAYS: Kinds = Kinds::of(&[What::Array]);
const RECORDS: Kinds = Kinds::of(&[What::Records, What::Array]);
const JSON_ROWS: Kinds = Kinds::of(&[What::JsonLines, What::JsonTable]);
const CSV_TABLE: Kinds = Kinds::of(&[What::CsvTable]);
const TEXT_TABLES: Kinds = Kinds::of(&[What::CsvTable, What::JsonTable]);
const TABLES: Kinds = TEXT_TABLES.and(Kinds::of(&[What::Table]));
const ALL: Kinds = Kinds::of(&What::ALL);
const NONE: Kinds = Kinds::of(&[]);

/// Options of some commands, and the kinds of input that they apply to.
struct Rule {
    /// The commands; an empty list means all commands.
    commands: &'static [&'static str],
    /// The options, by their names in the definition.
    ids: &'static [&'static str],
    kinds: Kinds,
    /// The kinds in words.
    words: &'static str,
    /// The option to suggest, if there is one.
    instead: &'static str,
}

const fn rule(ids: &'static [&'static str], kinds: Kinds, words: &'static str) -> Rule {
    Rule {
        commands: &[],
        ids,
        kinds,
        words,
        instead: "",
    }
}

impl Rule {
    const fn of(self, commands: &'static [&'static str]) -> Self {
        Rule { commands, ..self }
    }

    const fn instead(self, instead: &'static str) -> Self {
        Rule { instead, ..self }
    }
}

const BY: &str = "--by NAME[:desc][:nulls-first],... names the columns of an order";
const EXPLAIN: &str = "--explain shows the plan of a table's job and then runs it";
const INFER: &str =
    "CSV and JSON lines become a table with --infer, and standard input with --from";
const WHAT_TEXT: &str = "pass --csv or --jsonl";
const RECORD_TYPE: &str = "pass the type of the records with --type, or --record and --key; for \
                           lines `outcore sort -m` merges and `outcore sort -c` checks";
/// In place of [`WHAT_TEXT`], for a file that is a table and not text.
const SEPARATED: &str =
    "text alone has separators and headers: outputs have commas in .csv and tabs in .tsv";

/// Options that give the kind of an input.
const SAYS_WHAT: [&str; 7] = [
    "format",
    "record_bytes",
    "is_lines",
    "csv",
    "jsonl",
    "fastq",
    "from",
];

/// The first rule that names a command and an option counts.
static RULES: [Rule; 60] = [
    // Options that turn bytes into records; they apply only to records.
    rule(&["keys"], RECORDS.and(LINES), "records and lines")
        .of(&["sort", "unique", "view build"])
        .instead(BY),
    rule(&["keys"], RECORDS, "records").instead("use -k for keys of lines and --by for columns"),
    rule(&["format", "record_bytes"], RECORDS, "records")
        .of(&["lookup"])
        .instead("a view has a type of its own, and lines have none"),
    rule(&["format", "record_bytes"], RECORDS, "records"),
    rule(&["delete_input"], RECORDS, "records").instead("remove the inputs once the output exists"),
    rule(
        &["resume"],
        ROWS.and(RECORDS).and(TABLES),
        "lines, CSV, JSON lines, records and tables",
    )
    .instead("a killed job on FASTQ begins anew"),
    rule(
        &["verify_output"],
        ROWS.and(RECORDS),
        "lines, CSV, JSON lines and records",
    )
    .instead(
        "`outcore verify OUT --against IN` compares tables; --csv and --jsonl sort rows of text",
    ),
    rule(
        &["checksum"],
        ROWS.and(RECORDS),
        "lines, CSV, JSON lines and records",
    )
    .instead("`outcore verify` finds the checksum of a table; --csv and --jsonl sort rows of text"),
    rule(&["ties", "explain"], RECORDS, "records").of(&["verify"]),
    rule(&["zip"], RECORDS, "records").instead("join tables with `outcore join`"),
    rule(
        &["count"],
        LINES.and(CSV).and(RECORDS),
        "lines, CSV and records",
    )
    .of(&["unique"])
    .instead(
        "`outcore group-by --by COLUMN,... --agg n=count` counts rows of tables and of JSON lines",
    ),
    rule(
        &["repeated", "unique"],
        TEXT.and(RECORDS),
        "lines and records",
    )
    .of(&["unique"])
    .instead("`outcore group-by --by COLUMN,... --agg n=count` counts rows of tables"),
    rule(&["all_repeated"], TEXT, "lines").of(&["unique"]),
    rule(&["keep_order"], TEXT.and(TABLES), "lines and tables")
        .of(&["unique"])
        .instead("unique writes records in the order of their keys"),
    rule(
        &["skip_fields", "skip_chars", "check_chars"],
        LINES,
        "lines",
    )
    .instead(BY),
    rule(&["total"], LINES, "lines").of(&["comm"]),
    rule(
        &["by"],
        TABLES.and(ARRAYS),
        "columns of tables and fields of .npy files",
    )
    .of(&["comm"])
    .instead("lines are compared as a whole; CSV and JSON lines are tables here"),
    rule(&["dry_run"], LINES, "lines")
        .of(&["comm"])
        .instead(EXPLAIN),
    rule(&["separator"], CSV_TABLE, "CSV")
        .of(&["comm"])
        .instead(WHAT_TEXT),
    rule(&["conditions"], RECORDS, "records")
        .of(&["merge", "count-by"])
        .instead("`outcore filter` keeps some rows of tables"),
    rule(&["lookup_index"], RECORDS, "records")
        .of(&["lookup"])
        .instead("`outcore view build` makes a view, which has an index of its own"),
    rule(&["dry_run"], RECORDS, "records")
        .of(&["lookup"])
        .instead("--explain shows the cost after the run"),
    rule(&["dry_run"], TEXT.and(RECORDS), "lines and records").instead(EXPLAIN),
    rule(
        &["check", "check_silently"],
        TEXT.and(RECORDS),
        "lines and records",
    )
    .instead("`outcore verify --by NAME` checks the order of a table"),
    rule(&["cat"], TEXT.and(RECORDS), "lines and records")
        .instead("`outcore view cat` writes the view"),
    rule(
        &["drives", "drives_file"],
        TEXT.and(RECORDS),
        "lines and records",
    )
    .of(&["view materialize"]),
    // Options that order lines.
    rule(&["line_keys"], LINES, "lines").instead(BY),
    rule(
        &[
            "ignore_leading_blanks",
            "dictionary_order",
            "ignore_case",
            "general_numeric_sort",
            "human_numeric_sort",
            "ignore_nonprinting",
            "month_sort",
            "numeric_sort",
            "random_sort",
            "version_sort",
            "word",
        ],
        LINES.and(CSV),
        "lines and CSV",
    )
    .instead(BY),
    rule(
        &["separator"],
        LINES.and(CSV).and(CSV_TABLE),
        "lines and CSV",
    )
    .of(&["sort", "unique", "view build"]),
    rule(&["separator"], CSV.and(CSV_TABLE), "CSV").instead(WHAT_TEXT),
    rule(&["zero_terminated"], LINES.and(JSON), "lines"),
    rule(&["header_lines", "comment"], LINES, "lines")
        .instead("the header of CSV stays first without this option; --lines treats text as lines"),
    rule(&["lines"], LINES, "lines").of(&["lookup"]),
    rule(&["is_lines"], TEXT, "lines"),
    rule(&["debug"], LINES, "lines"),
    rule(
        &["merge", "files0_from", "batch_count", "compress_program"],
        TEXT,
        "lines",
    )
    .instead("`outcore merge` merges tables and records"),
    rule(&["random_source"], ROWS, "lines").instead("the bytes of this file are the seed of -R"),
    // CSV, JSON lines and FASTQ.
    rule(&["fastq"], FASTQ, "FASTQ"),
    rule(&["csv"], CSV.and(CSV_TABLE), "CSV"),
    rule(&["no_header"], CSV.and(CSV_TABLE), "CSV").instead(WHAT_TEXT),
    rule(&["jsonl"], JSON_ROWS, "JSON lines"),
    rule(&["on_error"], ROWS.and(TEXT_TABLES), "CSV and JSON lines").of(&["sort", "unique"]),
    rule(&["on_error"], TEXT_TABLES, "tables of CSV and JSON lines").instead(INFER),
    rule(&["null"], CSV_TABLE, "tables of CSV").instead(INFER),
    rule(
        &["by"],
        CSV.and(JSON).and(FASTQ).and(TABLES).and(ARRAYS),
        "CSV, JSON lines, FASTQ, tables and fields of .npy files",
    )
    .of(&["sort", "unique", "view build"])
    .instead(WHAT_TEXT),
    rule(&["by"], TABLES, "columns of tables")
        .of(&["head"])
        .instead("sort the input first with `outcore sort`"),
    rule(
        &["by"],
        TABLES.and(ARRAYS),
        "columns of tables and fields of .npy files",
    )
    .of(&["verify", "merge"])
    .instead(RECORD_TYPE),
    rule(
        &["by"],
        JSON.and(TABLES),
        "columns of tables and fields of JSON lines",
    )
    .of(&["split"])
    .instead(INFER),
    rule(&["by"], TABLES, "columns of tables").instead(INFER),
    // Tables.
    rule(&["parts"], ALL, "").of(&["split", "partition"]),
    rule(&["parts"], NONE, "results of a known number of rows")
        .of(&["comm", "join", "group-by", "diff", "unique", "count-by"])
        .instead("`outcore convert` cuts a table into parts"),
    rule(&["columns"], TABLES, "tables")
        .of(&["verify"])
        .instead(RECORD_TYPE),
    rule(
        &[
            "columns",
            "union",
            "codec",
            "group_rows",
            "bloom_filters",
            "parts",
            "from",
            "to",
        ],
        TABLES,
        "tables",
    )
    .instead(INFER),
    rule(&["schema", "infer"], TEXT_TABLES, "CSV and JSON lines")
        .instead("a table already has the types of its columns; `outcore map` casts them"),
    rule(&["train"], TABLES, "tables")
        .of(&["split"])
        .instead(INFER),
    rule(
        &["splitters"],
        LINES.and(JSON).and(RECORDS).and(TABLES),
        "lines, JSON lines, records and tables",
    )
    .of(&["split"])
    .instead(INFER),
    rule(&["line_bytes"], TEXT, "lines, CSV and JSON lines")
        .of(&["split"])
        .instead("give the number of rows or records with --by-lines"),
    rule(&["filter"], TEXT.and(RECORDS), "lines and records")
        .of(&["split"])
        .instead("write files with -o, and give each to the command"),
    rule(&["by_count"], TABLES, "tables")
        .of(&["count-by"])
        .instead("write the counts with -o, and sort them with --key count:desc"),
    rule(&["integers"], RECORDS, "records"),
];

/// An option on the command line.
struct GivenOption {
    id: String,
    /// All its forms, as the command spells them.
    name: String,
    /// The longest of them.
    long: String,
}

/// The options on a command line.
#[derive(Default)]
pub struct Given {
    /// The command, by its name below the root.
    command: String,
    options: Vec<GivenOption>,
}

impl Given {
    /// The given options of the command in `matches`.
    pub fn of(root: &Command, matches: &ArgMatches) -> Self {
        let (mut command, mut matches) = (root, matches);
        let mut names = Vec::new();
        while let Some((name, below)) = matches.subcommand() {
            let Some(found) = command.find_subcommand(name) else {
                break;
            };
            names.push(name);
            (command, matches) = (found, below);
        }
        let is_given = |option: &&Arg| {
            let source = matches.value_source(option.get_id().as_str());
            !option.is_positional() && source == Some(ValueSource::CommandLine)
        };
        let options = command.get_arguments().filter(is_given);
        Given {
            command: names.join(" "),
            options: options
                .map(|option| {
                    let (name, long) = name_of(option);
                    let id = option.get_id().to_string();
                    GivenOption { id, name, long }
                })
                .collect(),
        }
    }

    /// Fails for an option that does not apply to inputs of this kind.
    ///
    /// # Errors
    /// Usage, with the option's name.
    pub fn applies_to(&self, what: What) -> Result<()> {
        self.applies_to_one_of(&[what])
    }

    /// As [`Given::applies_to`], for inputs of several kinds: an option must apply to at least one
    /// kind.
    ///
    /// # Errors
    /// Usage, with the option's name.
    pub fn applies_to_one_of(&self, found: &[What]) -> Result<()> {
        for option in &self.options {
            let Some(rule) = rule_of(&self.command, &option.id) else {
                continue;
            };
            let Some(first) = found.first() else {
                continue;
            };
            if !found.iter().any(|what| rule.kinds.has(*what)) {
                return Err(self.wrong(option, rule, *first));
            }
        }
        Ok(())
    }

    fn wrong(&self, option: &GivenOption, rule: &Rule, what: What) -> Error {
        let is_said = |other: &&GivenOption| SAYS_WHAT.contains(&other.id.as_str());
        let said = self.options.iter().find(is_said);
        let said = said.filter(|said| said.id != option.id);
        let (cause, or) = match said {
            Some(said) => (
                format!(", which {} makes of the input", said.name),
                format!(" or {}", said.long),
            ),
            None => (String::new(), String::new()),
        };
        let cause = format!(
            "{} cannot be used with {}{cause}; it is for {}",
            option.name,
            what.plural(),
            rule.words
        );
        let instead = match (rule.instead, what) {
            (WHAT_TEXT, What::Table) => SEPARATED,
            (instead, _) => instead,
        };
        Error::usage("read arguments", cause).hint(match instead {
            "" => format!("leave {}{or} out", option.long),
            // `instead` needs rows, so the hint keeps the option that makes the input rows.
            instead if what.is_table() || matches!(what, What::Csv | What::JsonLines) => {
                format!("leave {} out; {instead}", option.long)
            }
            instead => format!("leave {}{or} out; {instead}", option.long),
        })
    }
}

fn rule_of(command: &str, id: &str) -> Option<&'static Rule> {
    let is_of = |rule: &&Rule| {
        (rule.commands.is_empty() || rule.commands.contains(&command)) && rule.ids.contains(&id)
    };
    RULES.iter().find(is_of)
}

/// Options of rules that no command has, or that an earlier rule covers; for a test.
pub fn unreached(root: &Command) -> Vec<String> {
    let mut all = Vec::new();
    for command in root.get_subcommands() {
        let name = command.get_name();
        let below = command.get_subcommands();
        let below = below.map(|below| (format!("{name} {}", below.get_name()), below));
        for (name, command) in below.chain([(name.to_owned(), command)]) {
            let ids = command
                .get_arguments()
                .map(|option| option.get_id().to_string());
            all.extend(ids.map(|id| (name.clone(), id)));
        }
    }
    let mut unreached = Vec::new();
    for rule in &RULES {
        let is_reached = |id: &str| {
            all.iter().any(|(command, known)| {
                known == id && rule_of(command, id).is_some_and(|found| std::ptr::eq(found, rule))
            })
        };
        let ids = rule.ids.iter().filter(|id| !is_reached(id));
        unreached.extend(ids.map(|id| format!("{id} of {:?}", rule.commands)));
        let is_there = |name: &str| all.iter().any(|(command, _)| command == name);
        let commands = rule.commands.iter().filter(|name| !is_there(name));
        unreached.extend(commands.map(|name| (*name).to_owned()));
    }
    unreached
}

/// The spelling of an option: all its forms, and the longest.
fn name_of(option: &Arg) -> (String, String) {
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    match (long, short) {
        (Some(long), Some(short)) => (format!("{long} ({short})"), long),
        (Some(only), None) | (None, Some(only)) => (only.clone(), only),
        (None, None) => (option.get_id().to_string(), option.get_id().to_string()),
    }
}
