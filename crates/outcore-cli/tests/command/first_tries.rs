//! The first lines that a user types, from other tools or by guess. The result is right, or a note
//! tells what happened. Each error leads to a line that works.
//!
//! Contract: a place with the files of [`place`]; every line is typed there as it is.

use crate::support::*;

const NUMBERS: &str = "id,n\na,10\nb,9\nc,100\n";

fn place() -> TestDir {
    let place = TestDir::new();
    place.write("t3.csv", NUMBERS.as_bytes());
    place.write("plain.csv", b"id,n\na,10\nb,20\n");
    place.write("w.txt", b"b\na\nc\na\n");
    place.write("in", &random_u64(100, 1));
    place
}

/// The messages of a line that succeeds.
#[track_caller]
fn told(place: &TestDir, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    place.run(&words).ok().stderr
}

#[test]
fn numbers_that_are_compared_as_text_are_told_if_that_is_another_order() {
    let place = place();
    let note = "n is compared as text, so 10 comes before 9; the key n:n compares numbers";
    for line in [
        "sort --csv --by n t3.csv -o a.csv",
        "sort --csv --by n:desc t3.csv -o b.csv",
        "unique --csv --by n t3.csv -o c.csv",
    ] {
        let text = told(&place, line);
        assert!(text.contains(note), "{line}: {text}");
    }
    for line in [
        "sort --csv --by n:n t3.csv -o d.csv",
        "sort --csv --by id t3.csv -o e.csv",
        "sort --csv --by n plain.csv -o f.csv",
        "sort --by n t3.csv -o g.csv",
    ] {
        let text = told(&place, line);
        assert!(!text.contains("compared as text"), "{line}: {text}");
    }
}

#[test]
fn a_header_on_standard_input_is_told_if_it_is_a_line_like_any_other() {
    let place = place();
    let note = "standard input is read as lines, header included; --csv keeps the header first";
    for line in [
        "sort",
        "shuffle",
        "sample -n 2",
        "unique",
        "split -n 2 -o p-{part}",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let text = place.run_with_input(&words, NUMBERS.as_bytes()).ok().stderr;
        assert!(text.contains(note), "{line}: {text}");
    }
    for (line, input) in [
        ("sort --lines", NUMBERS),
        ("sort --header 1", NUMBERS),
        ("shuffle --csv", NUMBERS),
        ("head -n 2", NUMBERS),
        ("sort", "b,c\na,d\n"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let text = place.run_with_input(&words, input.as_bytes()).ok().stderr;
        assert!(!text.contains("header included"), "{line}: {text}");
    }
    let text = told(&place, "view build t3.csv -o t3.view");
    assert!(text.contains("t3.csv is sorted as lines"), "{text}");
}

#[test]
fn a_separator_that_makes_one_column_of_several_is_told() {
    let place = place();
    let note = "`;` makes one column of t3.csv, which has 2 columns between `,`";
    let text = told(&place, "sort --csv -t ; --by 1 t3.csv -o a.csv");
    assert!(text.contains(note), "{text}");
    let text = told(&place, "convert t3.csv -t ; -o x.csv");
    assert!(text.contains(note), "{text}");
}

#[test]
fn text_does_not_become_numbers_of_a_view() {
    let place = place();
    place
        .run(&["view", "build", "in", "--type", "u64", "-o", "keys.view"])
        .ok();
    let append = place.run(&["view", "append", "keys.view", "w.txt"]);
    append.fails(2, &["this is text", "u64"], "add files of records");
}

#[test]
fn the_first_thing_that_is_typed_leads_to_what_works() {
    let place = place();
    let table: [(&str, &str, &str); 21] = [
        ("merge w.txt -o m", "lines of text", "outcore sort -m"),
        ("reverse w.txt -o m", "lines of text", "tac"),
        ("enumerate w.txt -o m", "lines of text", "cat -n"),
        (
            "sort --csv --by -n t3.csv",
            "there is no column `-n`",
            "write n:desc",
        ),
        (
            "shuffle --seed -1 in",
            "`-1` is not a whole number",
            "--help",
        ),
        (
            "gen u64 -n 1e20 -o x",
            "larger than 2^64 - 1",
            "smaller number",
        ),
        (
            "sample -n 10% in",
            "invalid count `10%`",
            "outcore sample --rate",
        ),
        ("gen sales 100 -o x.csv", "'100'", "-n 100 is the number"),
        ("kmeans in 5", "'5'", "-k 5 is the number of clusters"),
        ("graph bfs g 0", "'0'", "--source 0 is a vertex"),
        (
            "knn in q --self -o x",
            "QUERIES cannot be used with --self",
            "leave one",
        ),
        (
            "group-by in --order-by n",
            "'--order-by'",
            "outcore sort --by",
        ),
        ("unique --sorted w.txt", "'--sorted'", "in order already"),
        ("count-by n in --top 3", "'--top'", "--by-count"),
        ("window in --top 3", "'--top'", "--first"),
        (
            "filter in --where n>1",
            "<IN>",
            "the condition is the first operand",
        ),
        ("graph random-walk g", "random-walk", "outcore graph walk"),
        ("view head v", "head", "outcore view cat --range"),
        ("shuffle --shards 3 in", "--shards", "--parts"),
        (
            "sort --csv -k2,2n t3.csv",
            "-k cannot be used with CSV",
            "leave -k out; --by NAME",
        ),
        ("man sort", "sort is a command", "outcore sort --help"),
    ];
    for (line, cause, hint) in table {
        let words: Vec<&str> = line.split(' ').collect();
        place.run(&words).fails(2, &[cause], hint);
    }
}

#[test]
fn a_missing_last_input_is_a_column_or_the_output_only_where_it_may_be() {
    let place = place();
    let run = |line: &str| place.run(&line.split(' ').collect::<Vec<_>>());
    run("sort w.txt n -o x").fails(3, &["(n)"], "for a column write --by n");
    run("sort w.txt out.txt").fails(3, &["out.txt"], "name it with -o");
    let text = run("sort w.txt out.txt -o x").stderr;
    assert!(!text.contains("name it with -o"), "{text}");
}

#[test]
fn a_verb_on_records_names_the_one_for_tables() {
    let place = place();
    place.run(&["convert", "t3.csv", "-o", "t.parquet"]).ok();
    for (line, hint) in [
        ("find n>9 t.parquet", "outcore filter CONDITION"),
        (
            "reverse t.parquet -o r.parquet",
            "outcore sort --by COLUMN:desc",
        ),
        ("partition id t.parquet -o p3", "outcore split --by COLUMN"),
        ("histogram t.parquet", "outcore count-by COLUMN"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        place.run(&words).fails(2, &["not records"], hint);
    }
}
