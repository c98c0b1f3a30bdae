//! Just enough parsing of Python to measure it: functions, typed parameters, the opening docstring.
//!
//! Contract: an approximate reading, not a parser. Strings and comments are blanked first (their
//! lines stay), so that brackets and keywords in them are ignored. A function's body ends at the
//! first line that is indented no deeper than its `def`, taking brackets into account.

/// A function of a Python source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    /// Its name.
    pub name: String,
    /// Line of `def`.
    pub line: usize,
    /// Lines below the signature.
    pub body_lines: usize,
    /// Parameters annotated as plain numbers.
    pub number_parameters: Vec<String>,
}

/// The source with the text of strings and comments replaced by blanks.
pub(super) fn blanked(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(sign) = rest.chars().next() {
        let taken = match sign {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => string_length(rest, sign),
            _ => 0,
        };
        if taken == 0 {
            kept.push(sign);
            rest = &rest[sign.len_utf8()..];
        } else {
            kept.extend(
                rest[..taken]
                    .chars()
                    .map(|c| if c == '\n' { '\n' } else { ' ' }),
            );
            rest = &rest[taken..];
        }
    }
    kept
}

/// Length in bytes of the string literal at the start of `text`, including quotes.
fn string_length(text: &str, quote: char) -> usize {
    let triple: String = [quote; 3].iter().collect();
    let is_triple = text.starts_with(&triple);
    let mark_bytes = if is_triple { 3 } else { 1 };
    let mut is_escaped = false;
    for (at, sign) in text.char_indices().skip(mark_bytes) {
        if is_escaped {
            is_escaped = false;
        } else if sign == '\\' {
            is_escaped = true;
        } else if is_triple && text[at..].starts_with(&triple) {
            return at + 3;
        } else if !is_triple && (sign == quote || sign == '\n') {
            return at + usize::from(sign == quote);
        }
    }
    text.len()
}

/// Every function, including methods and nested functions.
pub(super) fn functions(text: &str) -> Vec<Function> {
    let code = blanked(text);
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let start = line.trim_start();
        let signature = start.strip_prefix("async ").unwrap_or(start);
        let Some(after) = signature.strip_prefix("def ") else {
            continue;
        };
        let name = after
            .split('(')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        let indent = line.len() - start.len();
        let (parameters, last) = parameters_of(&lines, index);
        found.push(Function {
            name,
            line: index + 1,
            body_lines: body_lines(&lines[last + 1..], indent),
            number_parameters: number_parameters(&parameters),
        });
    }
    found
}

/// The text between a signature's brackets, and the index of the signature's last line.
fn parameters_of(lines: &[&str], first: usize) -> (String, usize) {
    let mut depth = 0_usize;
    let mut parameters = String::new();
    for (index, line) in lines.iter().enumerate().skip(first) {
        for sign in line.chars() {
            match sign {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth > 0 {
                parameters.push(sign);
            }
        }
        if depth == 0 && line.contains(':') {
            return (
                parameters
                    .split_once('(')
                    .map_or(String::new(), |p| p.1.to_owned()),
                index,
            );
        }
    }
    (String::new(), first)
}

/// Number of lines up to the last one that belongs to the block below `indent`.
fn body_lines(lines: &[&str], indent: usize) -> usize {
    let mut depth = 0_i64;
    let mut body = 0;
    for (index, line) in lines.iter().enumerate() {
        let is_blank = line.trim().is_empty();
        let own = line.len() - line.trim_start().len();
        if !is_blank && depth <= 0 && own <= indent {
            break;
        }
        depth += line
            .chars()
            .map(|c| i64::from("([{".contains(c)))
            .sum::<i64>();
        depth -= line
            .chars()
            .map(|c| i64::from(")]}".contains(c)))
            .sum::<i64>();
        if !is_blank {
            body = index + 1;
        }
    }
    body
}

fn number_parameters(parameters: &str) -> Vec<String> {
    let mut depth = 0_i64;
    let is_comma = |sign: char| {
        depth += i64::from("([{".contains(sign)) - i64::from(")]}".contains(sign));
        sign == ',' && depth == 0
    };
    let mut numbers = Vec::new();
    for parameter in parameters.split(is_comma) {
        let Some((name, rest)) = parameter.split_once(':') else {
            continue;
        };
        let kind = rest.split('=').next().unwrap_or_default();
        let is_number = kind
            .split('|')
            .map(str::trim)
            .all(|k| matches!(k, "int" | "float" | "None"));
        if is_number {
            numbers.push(name.trim().trim_start_matches('*').to_owned());
        }
    }
    numbers
}

/// Whether the source begins with a docstring that is not empty.
pub(super) fn has_docstring(text: &str) -> bool {
    let first = text
        .lines()
        .position(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    let Some(first) = first else { return false };
    let code: String = text.lines().skip(first).collect::<Vec<_>>().join("\n");
    let code = code.trim_start_matches(['r', 'R']);
    let Some(quote) = code
        .chars()
        .next()
        .filter(|sign| *sign == '"' || *sign == '\'')
    else {
        return false;
    };
    let said = &code[..string_length(code, quote)];
    said.chars().filter(|sign| sign.is_alphabetic()).count() >= 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_end_where_the_indentation_does() {
        let text = "class A:\n    def f(\n        self, size: int,\n    ) -> None:\n        x = (\n\
                    1,\n)\n        '''\ndef g():\n'''\n\n        return x\n\n    y = 1\n\
                    def h(): pass\n";
        let found = functions(text);
        let facts: Vec<_> = found
            .iter()
            .map(|f| (f.name.as_str(), f.line, f.body_lines))
            .collect();
        assert_eq!(facts, [("f", 2, 8), ("h", 15, 0)]);
        assert_eq!(found[0].number_parameters, ["size"]);
    }

    #[test]
    fn only_plain_numbers_count_as_numbers() {
        let text = "def f(a: int, b: float = 1.0, c: int | None = None, d: str, e: list[int], f=1,\n\
                    \u{20} g: dict[str, int] = {}) -> int:\n    return 1\n";
        assert_eq!(functions(text)[0].number_parameters, ["a", "b", "c"]);
    }

    #[test]
    fn strings_and_comments_are_blanked_and_lines_kept() {
        let text = "a = 'it\\'s' # def\nb = \"\"\"x\n'y\n\"\"\"\nc";
        let code = blanked(text);
        assert_eq!(code.lines().count(), text.lines().count());
        assert!(!code.contains("def") && !code.contains('y') && code.ends_with("\nc"));
    }

    #[test]
    fn an_opening_docstring_must_say_something() {
        assert!(has_docstring(
            "#!/usr/bin/env python3\n\"\"\"Sorts files.\"\"\"\nimport os\n"
        ));
        assert!(!has_docstring("import os\n\"\"\"Sorts files.\"\"\"\n"));
        assert!(!has_docstring("\"\"\" \"\"\"\n") && !has_docstring(""));
    }
}
