//! Header lines and comments of lines: they stay in front, once, and are never records.
//!
//! Contract: the expected output is the header, followed by the output of the GNU tools for the
//! lines after the header. Without GNU sort, the tests skip these comparisons visibly.

use crate::support::*;

const HEADER: &str = "##fileformat=VCFv4.2\n##zzz\n#CHROM\tPOS\n";
const RECORDS: &str = "chr2\t7\nchr1\t10\nchr1\t9\n#no comment here\nchr2\t7\nchr10\t1\n";

fn place() -> TestDir {
    let place = TestDir::in_memory();
    place.write("a.vcf", format!("{HEADER}{RECORDS}").as_bytes());
    place.write("b.vcf", format!("{HEADER}chr3\t1\nchr1\t9").as_bytes());
    place.write("rest", format!("{RECORDS}chr3\t1\nchr1\t9\n").as_bytes());
    place
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn verbs_on_lines_keep_header_lines_in_front_and_work_on_the_rest() {
    if !has_gnu(&["sort", "uniq"]) {
        return;
    }
    let place = place();
    for (line, gnu) in [
        ("sort", "sort rest"),
        ("sort -k1,1V -k2,2n", "sort -k1,1V -k2,2n rest"),
        ("sort -r -u", "sort -r -u rest"),
        ("unique", "sort -u rest"),
        ("unique -c", "sort rest | uniq -c | sed 's/^ *//;s/ /\\t/'"),
        ("unique -d", "sort rest | uniq -d"),
        ("unique --keep-order", "awk '!seen[$0]++' rest"),
        ("head -n 2", "head -n 2 rest"),
        ("head -n -2", "head -n -2 rest"),
        ("tail -n 3", "tail -n 3 rest"),
        ("tail -n +3", "tail -n +3 rest"),
        ("sample -n 100", "cat rest"),
        ("sample --rate 1", "cat rest"),
    ] {
        let wanted = by_gnu(&place, gnu);
        let wanted = [HEADER.as_bytes(), &wanted].concat();
        for rule in ["--comment #", "--header 3", "--comment ## --header 1"] {
            let given = format!("{line} {rule} a.vcf b.vcf");
            let made = place.run(&words(&given)).ok();
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            if line == "unique -c" {
                let counts = |text: &str| -> Vec<String> {
                    let lines = text
                        .lines()
                        .map(|line| line.trim().replace([' ', '\t'], "|"));
                    lines.collect()
                };
                assert_eq!(counts(&shown(&made.stdout)), counts(&shown(&wanted)));
                continue;
            }
            assert_eq!(shown(&made.stdout), shown(&wanted), "{given}");
            place
                .run(&words(&format!("{given} -o out.vcf.gz --force")))
                .ok();
            let lines = place.run(&["head", "-n", "100", "out.vcf.gz"]).ok();
            assert_eq!(lines.stdout, wanted, "{given} into a file");
        }
    }
}

#[test]
fn shuffles_merges_checks_and_comm_pass_over_header_lines() {
    let place = place();
    for line in [
        "shuffle --comment # a.vcf b.vcf --seed 3",
        "shuffle -n 100 --header 3 a.vcf b.vcf",
    ] {
        let made = place.run(&words(line)).ok().text();
        let records = made.strip_prefix(HEADER).expect(&made);
        let mut records: Vec<&str> = records.lines().collect();
        records.sort_unstable();
        let rest = String::from_utf8(place.read("rest")).unwrap();
        let mut wanted: Vec<&str> = rest.lines().collect();
        wanted.sort_unstable();
        assert_eq!(records, wanted, "{line}");
    }
    for name in ["a.vcf", "b.vcf"] {
        let sorted = format!("sorted-{name}");
        place
            .run(&["sort", "--header", "3", name, "-o", &sorted])
            .ok();
        place
            .run(&["sort", "-c", "--comment", "#", "--header", "0", name])
            .fails(1, &["disorder"], "");
        place.run(&["sort", "-c", "--header", "3", &sorted]).ok();
    }
    let error = "a.vcf:5: disorder";
    place
        .run(&words("sort -c --header 3 a.vcf"))
        .fails(1, &[error], "");
    let merged = place
        .run(&words("sort -m --header 3 sorted-a.vcf sorted-b.vcf"))
        .ok();
    let sorted = place.run(&words("sort --header 3 a.vcf b.vcf")).ok();
    assert_eq!(merged.text(), sorted.text());
    let both = place.run(&words("comm -12 --header 3 a.vcf b.vcf")).ok();
    assert_eq!(both.text(), format!("{HEADER}chr1\t9\n"));
}

#[test]
fn every_part_of_a_split_begins_with_the_header_lines() {
    let place = place();
    place
        .run(&words("split --comment # -n 3 a.vcf b.vcf -o p-{part}.vcf"))
        .ok();
    let mut records = String::new();
    for part in 0..3 {
        let text = String::from_utf8(place.read(&format!("p-{part:02}.vcf"))).unwrap();
        records += text.strip_prefix(HEADER).expect(&text);
    }
    assert_eq!(records.as_bytes(), place.read("rest"));
}

#[test]
fn headers_are_taken_off_pipes_and_compressed_files_and_lines_of_any_end() {
    let place = place();
    let sorted = place.run(&words("sort --comment # a.vcf")).ok().stdout;
    let a = place.read("a.vcf");
    for verb in ["sort", "head -n 100", "tail -n 100", "sample -n 100"] {
        let plain = place.run(&words(&format!("{verb} --comment # a.vcf"))).ok();
        place
            .run(&words("head -n 100 a.vcf -o packed.zst --force"))
            .ok();
        let line = format!("{verb} --comment # packed.zst");
        assert_eq!(place.run(&words(&line)).ok().stdout, plain.stdout, "{line}");
        let line = format!("{verb} --comment # -");
        let piped = place.run_with_input(&words(&line), &a).ok();
        assert_eq!(piped.stdout, plain.stdout, "{line}");
    }
    place.write("names", b"a.vcf\0");
    let named = place
        .run(&words("sort --comment # --files0-from names"))
        .ok();
    assert_eq!(named.stdout, sorted);
    let ends = |text: &[u8], end: &str| {
        let text = String::from_utf8(text.to_vec()).unwrap();
        text.replace('\n', end).into_bytes()
    };
    place.write("crlf", &ends(&a, "\r\n"));
    let crlf = place.run(&words("sort --comment # crlf")).ok();
    assert_eq!(crlf.stdout, ends(&sorted, "\r\n"));
    // The same header, whatever ends its lines.
    place.run(&words("sort --comment # a.vcf crlf")).ok();
    place.write("nul", &ends(&a, "\0"));
    let nul = place.run(&words("sort -z --comment # nul")).ok();
    assert_eq!(nul.stdout, ends(&sorted, "\0"));
}

#[test]
fn files_without_records_or_header_are_as_they_are() {
    let place = place();
    place.write("empty", b"");
    place.write("only", HEADER.trim_end().as_bytes());
    for verb in [
        "sort",
        "shuffle",
        "unique",
        "head",
        "tail",
        "head -n -1",
        "sample -n 5",
        "comm only",
    ] {
        for rule in ["--comment #", "--header 3"] {
            let made = |name: &str| {
                place
                    .run(&words(&format!("{verb} {rule} {name}")))
                    .ok()
                    .text()
            };
            assert_eq!(made("only"), HEADER, "{verb} {rule}");
            if verb != "comm only" {
                assert_eq!(made("empty"), "", "{verb} {rule}");
                assert_eq!(made("empty only empty"), HEADER, "{verb} {rule}");
            }
        }
    }
    let piped = place.run_with_input(&words("head --header 3"), HEADER.trim_end().as_bytes());
    assert_eq!(piped.ok().text(), HEADER);
    place.write("bare", b"b\na\n");
    let made = place.run(&words("sort --comment # only bare")).ok();
    assert_eq!(made.text(), format!("{HEADER}a\nb\n"));
}

#[test]
fn files_of_other_header_lines_are_rejected_with_their_names() {
    let place = place();
    place.write("c.vcf", b"##fileformat=VCFv4.3\nchr1\t1\n");
    place.write("bare", b"chr1\t1\n");
    let cause = ["header lines differ from those of a.vcf", "c.vcf"];
    for verb in [
        "sort",
        "unique",
        "head -n 100",
        "tail",
        "split -n 2 -o p-{part}",
        "comm",
    ] {
        let line = format!("{verb} --comment # a.vcf c.vcf");
        let hint = "outcore tail --lines -n +2 c.vcf";
        place.run(&words(&line)).fails(2, &cause, hint);
    }
    let rest = place.run(&words("tail --lines -n +2 c.vcf")).ok();
    assert_eq!(rest.text(), "chr1\t1\n");
    // The sort would lose the header of one file, and the first records of the other.
    place
        .run(&words("sort --comment # bare a.vcf"))
        .fails(2, &["a.vcf"], "");
    place
        .run(&words("sort --header 1 a.vcf bare"))
        .fails(2, &["bare"], "");
}

#[test]
fn header_lines_are_options_of_lines_alone() {
    let place = place();
    place.write("rows.csv", b"a,b\n2,x\n1,y\n");
    let hint = "the header of CSV stays first";
    place
        .run(&words("head --header 1 rows.csv"))
        .fails(2, &["--header", "CSV"], hint);
    place
        .run(&words("sort --csv --by a --comment # rows.csv"))
        .fails(2, &["--comment"], hint);
    place
        .run(&["sort", "--comment", "", "a.vcf"])
        .fails(2, &["--comment"], "");
    place
        .run(&words("sort --debug --header 1 a.vcf"))
        .fails(2, &["--debug"], "");
    let lines = place.run(&words("sort --header 1 rows.csv")).ok();
    assert_eq!(lines.text(), "a,b\n1,y\n2,x\n");
    assert_eq!(lines.stderr, "");
}

#[test]
fn parts_by_lines_and_bytes_begin_with_the_header_of_pipes_and_packed_files_too() {
    let place = TestDir::new();
    place.write("t.txt", b"H\n1\n2\n3\n4\n5\n");
    place
        .run(&["head", "-n", "100", "t.txt", "-o", "t.txt.gz"])
        .ok();
    assert!(place.read("t.txt.gz").starts_with(&[0x1f, 0x8b]));
    let check = |how: &str, answer: Answer| {
        answer.ok();
        let mut names = place.names();
        names.retain(|name| name.starts_with('p'));
        let parts: Vec<String> = names
            .iter()
            .map(|name| String::from_utf8(place.read(name)).unwrap())
            .collect();
        assert_eq!(parts, ["H\n1\n2\n3\n4\n", "H\n5\n"], "{how}");
        for name in names {
            std::fs::remove_file(place.path(&name)).unwrap();
        }
    };
    for cut in [&["-l", "4"][..], &["-C", "10"]] {
        let words = [&["split", "--header", "1", "-o", "p{part}"], cut].concat();
        check("a file", place.run(&[&words[..], &["t.txt"]].concat()));
        check(
            "a packed file",
            place.run(&[&words[..], &["t.txt.gz"]].concat()),
        );
        check(
            "a pipe",
            place.run_with_input(&words, b"H\n1\n2\n3\n4\n5\n"),
        );
    }
    place.write("h.txt", b"H\n");
    place
        .run(&[
            "split", "-l", "4", "--header", "1", "h.txt", "-o", "q{part}",
        ])
        .ok();
    let only = place.names().into_iter().find(|name| name.starts_with('q'));
    assert_eq!(place.read(&only.unwrap()), b"H\n");
    for (cut, said) in [("-C", "header alone"), ("-b", "--bytes cuts anywhere")] {
        place
            .run(&["split", cut, "2", "--header", "1", "t.txt", "-o", "r{part}"])
            .fails(2, &[said], "");
    }
}
