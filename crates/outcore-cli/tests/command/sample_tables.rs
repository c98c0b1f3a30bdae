//! `gen` of tables to try things on.
//!
//! Contract: all formats hold the same rows; `convert` reads them back.

use crate::support::*;

const KINDS: [&str; 3] = ["sales", "logs", "documents"];

#[test]
fn a_generated_table_is_the_same_in_each_format_and_for_any_threads() {
    let place = TestDir::new();
    for kind in KINDS {
        let gen_csv = ["gen", kind, "-n", "6000", "--seed", "3", "--force"];
        let run = |more: &[&str]| place.run(&[&gen_csv[..], more].concat()).ok();
        run(&["-o", "one.csv", "--threads", "1", "--memory", "64MiB"]);
        run(&["-o", "many.csv", "--threads", "4"]);
        assert!(place.read("one.csv") == place.read("many.csv"), "{kind}");
        for name in ["t.parquet", "t.arrow", "t.jsonl", "t.csv.gz"] {
            run(&["-o", name]);
            place
                .run(&["convert", name, "-o", "back.csv", "--force"])
                .ok();
            let wanted = String::from_utf8(place.read("one.csv")).unwrap();
            let found = String::from_utf8(place.read("back.csv")).unwrap();
            assert_eq!(found.lines().count(), 6_001, "{kind} {name}");
            // Types of text are inferred, so only their form may differ.
            if name == "t.parquet" || name == "t.arrow" {
                assert!(found == wanted, "{kind} {name}");
            }
        }
        run(&["-o", "parts", "--parts", "3"]);
        place
            .run(&["convert", "parts", "-o", "back.csv", "--force"])
            .ok();
        assert!(
            place.read("back.csv") == place.read("one.csv"),
            "{kind} in parts"
        );
        let printed = run(&["--to", "csv"]).stdout;
        assert!(
            printed == place.read("one.csv"),
            "{kind} on standard output"
        );
    }
}

#[test]
fn logs_and_documents_are_lines_where_the_name_says_text_and_on_standard_output() {
    let place = TestDir::new();
    for kind in ["logs", "documents"] {
        let words = ["gen", kind, "-n", "3000"];
        let printed = place.run(&words).ok().stdout;
        place.run(&[&words[..], &["-o", "t.log"]].concat()).ok();
        assert!(printed == place.read("t.log"));
        place.run(&[&words[..], &["-o", "t.txt.gz"]].concat()).ok();
        let unpacked = place.run(&["sort", "t.txt.gz"]).ok().stdout;
        assert_eq!(unpacked, place.run(&["sort", "t.log"]).ok().stdout);
        assert_eq!(printed.iter().filter(|byte| **byte == b'\n').count(), 3000);
        std::fs::remove_file(place.path("t.log")).unwrap();
        std::fs::remove_file(place.path("t.txt.gz")).unwrap();
    }
    let sales = place.run(&["gen", "sales", "-n", "3"]).ok().stdout;
    assert!(
        String::from_utf8(sales)
            .unwrap()
            .starts_with("id,time,customer,")
    );
}

#[test]
fn options_that_a_generated_table_does_not_have_are_rejected_by_name() {
    let place = TestDir::new();
    let cases = [
        (&["sales", "-n", "3", "--dist", "equal"][..], "--dist"),
        (&["logs", "-n", "3", "--ascii"], "--ascii"),
        (&["sales", "-n", "3", "-o", "t.txt"], "lines of text"),
        (&["logs", "-n", "3", "-o", "t.log", "--to", "text"], "--to"),
        (
            &["logs", "-n", "3", "-o", "t.log", "--parts", "2"],
            "--parts",
        ),
        (
            &["sales", "-n", "3", "-o", "t.bin"],
            "the format of the table",
        ),
        (&["u64", "-n", "3", "--to", "csv"], "--to"),
        (&["u64", "-n", "3", "-o", "o", "--parts", "2"], "--parts"),
        (&["parquet", "-n", "3"], "a format"),
    ];
    for (words, said) in cases {
        let answer = place.run(&[&["gen"], words].concat());
        assert_eq!(answer.code, Some(2), "{words:?}: {answer:?}");
        assert!(answer.stderr.contains(said), "{words:?}: {answer:?}");
        assert_eq!(place.names(), [""; 0], "{words:?}");
    }
}
