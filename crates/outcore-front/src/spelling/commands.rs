//! Names commands in texts as Python's functions.
//!
//! Contract: [`in_python`] replaces each quoted command of a verb that Python has (`` `outcore view
//! build` ``) by its function (`` `outcore.sort_view(...)` ``). Its options do not change, except
//! for `-o`, which is the last positional argument, and `--volume` of a method of a volume. A
//! command that Python does not have stays unchanged, as does one with an expression before its
//! files. Pure.

const START: &str = "`outcore ";

/// Commands of two words, and the functions or methods that do the same.
const PAIRS: [(&str, &str); 27] = [
    ("graph bfs", "Graph.bfs"),
    ("graph cc", "Graph.components"),
    ("graph convert", "outcore.graph.convert"),
    ("graph hits", "Graph.hits"),
    ("graph info", "outcore.graph.Graph"),
    ("graph louvain", "Graph.louvain_communities"),
    ("graph pagerank", "Graph.pagerank"),
    ("graph sssp", "Graph.shortest_path_length"),
    ("vector convert", "outcore.convert_vectors"),
    ("vector index", "outcore.index_vectors"),
    ("view build", "outcore.sort_view"),
    ("view cat", "View.batches"),
    ("volume add", "Volume(...).add"),
    ("volume bench", "Volume(...).bench"),
    ("volume cp", "Volume(...).cp"),
    ("volume create", "outcore.Volume.create"),
    ("volume get", "Volume(...).get"),
    ("volume ls", "Volume(...).ls"),
    ("volume put", "Volume(...).put"),
    ("volume rebalance", "Volume(...).rebalance"),
    ("volume remove", "Volume(...).remove"),
    ("volume replace", "Volume(...).replace"),
    ("volume rm", "Volume(...).rm"),
    ("volume scrub", "Volume(...).scrub"),
    ("volume status", "Volume(...).status"),
    ("sort -m", "outcore.merge"),
    ("sort -u", "outcore.unique"),
];

/// Verbs that are functions under their own names, with `_` for `-`.
const VERBS: [&str; 35] = [
    "comm",
    "convert",
    "count-by",
    "dedup",
    "diff",
    "enumerate",
    "filter",
    "find",
    "flat-map",
    "gather",
    "gen",
    "group-by",
    "head",
    "histogram",
    "info",
    "join",
    "knn",
    "lookup",
    "map",
    "merge",
    "partition",
    "reduce",
    "reverse",
    "sample",
    "scan",
    "shuffle",
    "sort",
    "split",
    "tail",
    "top",
    "unique",
    "verify",
    "window",
    "windows",
    "zip",
];
/// Verbs whose first operand is not a file.
const FIRST_EXPRESSION: [&str; 13] = [
    "count-by",
    "filter",
    "find",
    "flat-map",
    "gen",
    "histogram",
    "lookup",
    "map",
    "partition",
    "reduce",
    "scan",
    "top",
    "volume",
];

/// The text with Python's functions in the place of quoted commands.
pub(super) fn in_python(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START)
        && let Some((command, behind)) = after.split_once('`')
    {
        out.push_str(before);
        match function_of(command) {
            Some(function) => out.push_str(&format!("`{function}`")),
            None => out.push_str(&format!("{START}{command}`")),
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// The call of Python that does the same as a command, if there is one.
fn function_of(command: &str) -> Option<String> {
    let pair = PAIRS.iter().find_map(|(pair, function)| {
        let operands = command.strip_prefix(pair)?;
        let is_word = operands.is_empty() || operands.starts_with(' ');
        is_word.then(|| (function.to_string(), operands))
    });
    let (function, operands) = pair.or_else(|| {
        let verb = command.split(' ').next()?;
        let is_known = VERBS.contains(&verb);
        let function = format!("outcore.{}", verb.replace('-', "_"));
        is_known.then(|| (function, &command[verb.len()..]))
    })?;
    let mut operands = operands.trim_start();
    if function.starts_with("Volume(...).") {
        operands = operands.strip_prefix("--volume FILE").unwrap_or(operands);
    }
    match operands {
        "" => Some(format!("{function}(...)")),
        "--help" => Some(format!("help({function})")),
        _ if operands.starts_with("--") => Some(format!("{function}(..., {operands})")),
        _ if operands.contains(' ') => {
            let is_file_first = !FIRST_EXPRESSION.contains(&command.split(' ').next()?);
            let files = files_of(operands).filter(|_| is_file_first)?;
            Some(format!("{function}({files})"))
        }
        _ if operands.starts_with('-') => None,
        name => Some(format!("{function}(\"{}\")", name.trim_start_matches('@'))),
    }
}

/// An input and the output as positional arguments: `IN -o OUT` is `"IN", "OUT"`. Nothing if there
/// is another option, a second input or a quotation.
fn files_of(operands: &str) -> Option<String> {
    let (input, output) = operands.split_once(" -o ")?;
    let is_name = |name: &str| !name.starts_with('-') && !name.contains(['\'', '"', ' ']);
    (is_name(input) && is_name(output)).then(|| format!("\"{input}\", \"{output}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_called_as_functions_and_what_python_lacks_stays() {
        for (command, python) in [
            (
                "use `outcore view build`, or not",
                "use `outcore.sort_view(...)`, or not",
            ),
            ("`outcore unique --count`", "`outcore.unique(..., --count)`"),
            (
                "`outcore count-by` and `outcore gen --help`",
                "`outcore.count_by(...)` and `help(outcore.gen)`",
            ),
            ("`outcore volume ls @NAME`", "`Volume(...).ls(\"NAME\")`"),
            ("`outcore gen gensort`", "`outcore.gen(\"gensort\")`"),
            ("`outcore scratch list -v`", "`outcore scratch list -v`"),
            (
                "`outcore convert IN -o OUT`",
                "`outcore.convert(\"IN\", \"OUT\")`",
            ),
            (
                "`outcore graph convert EDGES -o G.graph`",
                "`outcore.graph.convert(\"EDGES\", \"G.graph\")`",
            ),
            (
                "`outcore map 'a as b' IN -o OUT`",
                "`outcore map 'a as b' IN -o OUT`",
            ),
            (
                "`outcore convert a b --parts 2 -o OUT`",
                "`outcore convert a b --parts 2 -o OUT`",
            ),
            (
                "`outcore volume ls --volume FILE` lists",
                "`Volume(...).ls(...)` lists",
            ),
            ("`outcore sort", "`outcore sort"),
        ] {
            assert_eq!(in_python(command), python);
        }
    }
}
