//! Examples of the command's help as calls of Python.
//!
//! Contract: an example becomes a call of the same verb with the same options, which the verb's
//! definition reads. Those with pipes, variables or streams, and with options that Python lacks,
//! are left out.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args as _, Command};
use outcore_verbs::verb::{Verb, definition};

use super::LINE_COLUMNS;
use super::keywords::Keyword;

/// Columns in front of a call.
const INDENT: usize = 12;

/// The calls of `function`, whose positional parameters are `operands`, and which `keeps` tables
/// that have no output.
pub(crate) fn calls<V: Verb>(
    help: &str,
    function: &str,
    (operands, options): (&[&Keyword], &[&Keyword]),
    keeps: bool,
) -> Vec<String> {
    let begin = format!("  outcore {} ", V::NAME);
    let verb = V::Args::augment_args(Command::new(V::NAME));
    let ids = verb.get_arguments().map(|arg| arg.get_id().to_string());
    let ids: Vec<String> = ids.collect();
    let lines = help.lines().filter_map(|line| line.strip_prefix(&begin));
    let calls = lines.filter_map(|line| {
        let words = words_of(line.split("   #").next()?)?;
        let words = [V::NAME.to_owned()].into_iter().chain(words);
        let matches = definition::<V>().try_get_matches_from(words).ok()?;
        let (_, given) = matches.subcommand()?;
        let call = call((given, &ids), function, operands, options)?;
        // Only tables are kept without an output.
        let has_output = given
            .try_get_raw("output")
            .map_or(true, |output| output.is_some());
        let is_table = call.contains(".parquet") || call.contains("/\"");
        (has_output || is_table || !keeps).then_some(call)
    });
    // Each example as one line.
    calls
        .filter(|call| call.len() < LINE_COLUMNS - INDENT && !call.contains('\\'))
        .collect()
}

/// The call of an example; nothing where it has options that no keyword has.
fn call(
    (given, ids): (&ArgMatches, &[String]),
    function: &str,
    operands: &[&Keyword],
    options: &[&Keyword],
) -> Option<String> {
    let all = || operands.iter().chain(options);
    let is_given = |id: &&str| {
        let is_option = given.try_get_raw(id).is_ok();
        is_option && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    let is_taken = |id: &str| all().any(|keyword| keyword.ids.contains(&id));
    let mut given_ids = ids.iter().map(String::as_str).filter(|id| is_given(id));
    if !given_ids.all(is_taken) {
        return None;
    }
    let mut arguments = Vec::new();
    let mut is_positional = true;
    for keyword in all() {
        let is_operand = operands.iter().any(|operand| operand.name == keyword.name);
        is_positional &= is_operand;
        let values = keyword.ids.iter().filter(|id| is_given(id));
        let values = values.flat_map(|id| given.get_raw(id).into_iter().flatten());
        let values: Vec<String> = values
            .map(|value| value.to_string_lossy().into_owned())
            .collect();
        if values.iter().any(|value| value == "-") {
            return None;
        }
        if values.is_empty() {
            is_positional = false;
            continue;
        }
        let method = keyword
            .option
            .as_ref()
            .map_or("operands", |(method, _)| method);
        let value = literal(method, &values);
        arguments.push(match is_positional {
            true => value,
            false => format!("{}={value}", keyword.name),
        });
    }
    Some(format!("outcore.{function}({})", arguments.join(", ")))
}

/// Values as Python writes them.
fn literal(method: &str, values: &[String]) -> String {
    let first = &values[0];
    match method {
        "flag" | "lines" => "True".to_owned(),
        "columns" => {
            let names = values.iter().flat_map(|value| value.split(','));
            literal("texts", &names.map(str::to_owned).collect::<Vec<_>>())
        }
        "unless" => "False".to_owned(),
        "pair" => format!("({})", first.replace(':', ", ")),
        "number" | "wide" | "value" | "record" => match first.parse::<f64>() {
            Ok(number) if first.contains('e') => format!("{number}"),
            Ok(_) => first.clone(),
            Err(_) => quoted(first),
        },
        _ => {
            let texts: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            match texts.as_slice() {
                [only] => only.clone(),
                _ => format!("[{}]", texts.join(", ")),
            }
        }
    }
}

/// A text between double or single quotes, whichever the text does not contain.
fn quoted(text: &str) -> String {
    match text.contains('"') {
        false => format!("\"{text}\""),
        true => format!("'{text}'"),
    }
}

/// The words of a line of a shell; nothing if a shell would do more than split the line.
fn words_of(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in line.trim().chars() {
        match (quote, letter) {
            (None, '|' | '>' | '<' | '$' | '*') => return None,
            (None, '\'' | '"') => quote = Some(letter),
            (Some(mark), _) if mark == letter => quote = None,
            (None, ' ') => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            _ => word.push(letter),
        }
    }
    words.push(word);
    Some(words)
}
