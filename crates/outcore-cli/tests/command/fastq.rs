//! FASTQ: records of four lines through every verb that takes them, compared with a naive reader.
//!
//! Contract: the reader of this file takes four lines at a time. Random qualities may also begin
//! with `@` or `+`.

use crate::support::*;

/// A record, by its four lines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Read([String; 4]);

impl Read {
    fn name(&self) -> &str {
        let title = self.0[0].strip_prefix('@').unwrap();
        title.split([' ', '\t']).next().unwrap()
    }

    fn text(&self, end: &str) -> String {
        self.0.iter().map(|line| format!("{line}{end}")).collect()
    }
}

fn text_of(reads: &[Read], end: &str) -> String {
    reads.iter().map(|read| read.text(end)).collect()
}

/// The naive reader: four lines are a record.
fn reads_of(bytes: &[u8]) -> Vec<Read> {
    let text = std::str::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len().is_multiple_of(4), "{text}");
    let of_four = |lines: &[&str]| Read(std::array::from_fn(|at| lines[at].to_owned()));
    lines.chunks(4).map(of_four).collect()
}

/// Records of all kinds; some names and sequences occur several times.
fn random_reads(count: usize, letters_max: u64, seed: u64) -> Vec<Read> {
    let mut numbers = Numbers(seed);
    let mut read = |number: usize| {
        let letters = numbers.next() % (letters_max + 1);
        let mut signs = |from: &[u8]| -> String {
            let sign = |_| from[numbers.next() as usize % from.len()] as char;
            (0..letters).map(sign).collect()
        };
        let (sequence, quality) = (signs(b"ACGT"), signs(b"@+I#\"!"));
        let name = numbers.next() % (count as u64);
        let title = match number % 3 {
            0 => format!("@r{name} length={letters}"),
            1 => format!("@r{name}\tx"),
            _ => format!("@r{name}"),
        };
        let plus = if number.is_multiple_of(2) {
            "+".to_owned()
        } else {
            format!("+r{name}")
        };
        Read([title, sequence, plus, quality])
    };
    (0..count).map(&mut read).collect()
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

fn sorted_by<K: Ord>(reads: &[Read], key: impl Fn(&Read) -> K) -> Vec<Read> {
    let mut sorted = reads.to_vec();
    sorted.sort_by_key(|read| key(read));
    sorted
}

/// The first record of each key, in the order of the keys.
fn firsts<K: Ord + Clone>(reads: &[Read], key: impl Fn(&Read) -> K) -> Vec<Read> {
    let mut sorted = sorted_by(reads, &key);
    sorted.dedup_by(|a, b| key(a) == key(b));
    sorted
}

#[test]
fn records_are_sorted_and_deduplicated_by_their_parts() {
    let place = TestDir::in_memory();
    let reads = random_reads(500, 12, 1);
    for end in ["\n", "\r\n"] {
        place.write("a.fastq", text_of(&reads, end).as_bytes());
        let quality = |read: &Read| read.0[3].clone();
        let name = |read: &Read| read.name().to_owned();
        let sequence = |read: &Read| read.0[1].clone();
        let length = |read: &Read| read.0[1].len();
        // Records with equal keys are in the order of their bytes.
        let whole = |read: &Read| read.text(end);
        for (line, wanted) in [
            (
                "sort a.fastq",
                sorted_by(&reads, |read| (name(read), whole(read))),
            ),
            ("sort -s a.fastq", sorted_by(&reads, name)),
            ("sort a.fastq -s --by sequence", sorted_by(&reads, sequence)),
            ("sort a.fastq -s --by quality", sorted_by(&reads, quality)),
            ("sort a.fastq -s --by length", sorted_by(&reads, length)),
            (
                "sort a.fastq -s --by length:desc,name",
                sorted_by(&reads, |read| (std::cmp::Reverse(length(read)), name(read))),
            ),
            ("sort a.fastq -u", firsts(&reads, name)),
            ("unique a.fastq", firsts(&reads, name)),
            ("unique a.fastq --by sequence", firsts(&reads, sequence)),
        ] {
            let made = place.run(&words(line)).ok();
            assert_eq!(made.text(), text_of(&wanted, end), "{line}");
        }
        let kept = place
            .run(&words("unique --keep-order --by sequence a.fastq"))
            .ok();
        let mut seen = std::collections::HashSet::new();
        let wanted: Vec<Read> = reads
            .iter()
            .filter(|read| seen.insert(sequence(read)))
            .cloned()
            .collect();
        assert_eq!(kept.text(), text_of(&wanted, end));
        let repeated = place.run(&words("unique -D --by sequence a.fastq")).ok();
        let count = |read: &Read| reads.iter().filter(|other| other.0[1] == read.0[1]).count();
        let wanted: Vec<Read> = reads
            .iter()
            .filter(|read| count(read) > 1)
            .cloned()
            .collect();
        assert_eq!(repeated.text(), text_of(&sorted_by(&wanted, sequence), end));
    }
}

#[test]
fn records_are_moved_whole() {
    let place = TestDir::in_memory();
    let reads = random_reads(300, 40, 2);
    let text = text_of(&reads, "\n");
    place.write("a.fq", text.as_bytes());
    let shuffled = place.run(&words("shuffle a.fq --seed 3")).ok();
    assert_ne!(shuffled.text(), text);
    let sorted = |bytes: &[u8]| sorted_by(&reads_of(bytes), Read::clone);
    assert_eq!(sorted(&shuffled.stdout), sorted(text.as_bytes()));
    let some = place.run(&words("shuffle -n 7 a.fq")).ok();
    assert_eq!(reads_of(&some.stdout).len(), 7);
    for (line, wanted) in [
        ("head -n 3", &reads[..3]),
        ("head -n -3", &reads[..297]),
        ("tail -n 3", &reads[297..]),
        ("tail -n +4", &reads[3..]),
        ("sample -n 1000", &reads[..]),
        ("sample --rate 1", &reads[..]),
    ] {
        let made = place.run(&words(&format!("{line} a.fq"))).ok();
        assert_eq!(made.text(), text_of(wanted, "\n"), "{line}");
    }
    place.run(&words("split -n 3 a.fq -o part-{part}.fq")).ok();
    let parts: Vec<Vec<Read>> = (0..3)
        .map(|part| reads_of(&place.read(&format!("part-{part:02}.fq"))))
        .collect();
    assert!(parts.iter().all(|part| part.len() > 50));
    assert_eq!(parts.concat(), reads);
    let merged = "sort part-00.fq -o s0.fq; sort part-01.fq -o s1.fq; sort -m s0.fq s1.fq -o m.fq";
    for line in merged.split("; ") {
        place.run(&words(line)).ok();
    }
    place.run(&words("sort -c m.fq")).ok();
    place
        .run(&words("sort -c a.fq"))
        .fails(1, &["a.fq:", "disorder: @r"], "");
}

#[test]
fn fastq_is_recognised_by_name_content_and_option_and_read_from_anywhere() {
    let place = TestDir::in_memory();
    let reads = random_reads(90, 30, 3);
    let text = text_of(&reads, "\n");
    for name in ["a.fastq", "a.fq", "a.txt", "plain"] {
        place.write(name, text.as_bytes());
    }
    let wanted = place.run(&words("sort a.fastq")).ok().stdout;
    assert_ne!(wanted, text.as_bytes());
    for packed in ["b.fastq.gz", "b.fq.zst"] {
        place
            .run(&["head", "-n", "1000", "a.fastq", "-o", packed])
            .ok();
    }
    for name in [
        "a.fq",
        "a.txt",
        "plain",
        "b.fastq.gz",
        "b.fq.zst",
        "--fastq a.fastq",
    ] {
        let made = place.run(&words(&format!("sort {name}"))).ok();
        assert_eq!(made.stdout, wanted, "{name}");
    }
    for verb in [
        "sort",
        "unique --by name,sequence",
        "shuffle",
        "head -n 1000",
        "tail -n 1000",
    ] {
        let plain = place.run(&words(&format!("{verb} a.fastq"))).ok().stdout;
        let piped = place.run_with_input(&words(&format!("{verb} --fastq -")), text.as_bytes());
        assert_eq!(piped.ok().stdout, plain, "{verb}");
        let packed = place.run(&words(&format!("{verb} b.fastq.gz"))).ok().stdout;
        assert_eq!(packed, plain, "{verb}");
    }
    // Several inputs, the first without its last end of line, and blank lines between.
    place.write("open.fq", text.trim_end().as_bytes());
    place.write("more.fq", b"\n@zz\n\n+\n\n\n@zy\r\nA\r\n+\r\n@");
    let made = place.run(&words("sort open.fq more.fq -o all.fq.zst")).ok();
    assert_eq!(made.stdout, b"");
    let all = place.run(&words("head -n 1000 all.fq.zst")).ok().text();
    assert!(all.ends_with("@zy\r\nA\r\n+\r\n@\r\n@zz\n\n+\n\n"), "{all}");
    // With `--lines`, the input is read as lines.
    let lines = place.run(&words("sort --lines a.fastq")).ok().text();
    assert!(lines.starts_with('\n') || lines.starts_with('!'), "{lines}");
    place.write("empty.fq", b"");
    for verb in ["sort", "unique", "shuffle", "head", "tail", "sample -n 5"] {
        assert_eq!(
            place.run(&words(&format!("{verb} empty.fq"))).ok().text(),
            ""
        );
    }
}

#[test]
fn a_damaged_record_is_named_with_its_file_number_and_offset() {
    let place = TestDir::in_memory();
    let good = "@r\nAC\n+\nII\n";
    for (bad, cause, hint) in [
        ("r\nAC\n+\nII\n", "does not begin with `@`", "repair"),
        (
            "@r\nAC\nGT\n+\nIIII\n",
            "third line that does not begin with `+`",
            "seqtk seq",
        ),
        (
            "@r\nAC\n+\nIII\n",
            "a sequence of length 2 and a quality of length 3",
            "repair",
        ),
        (
            "@r\nAC\n+\nI",
            "a sequence of length 2 and a quality of length 1",
            "repair",
        ),
        (
            "@r\nAC\n",
            "is cut short after 2 of 4 lines",
            "copy the file again",
        ),
    ] {
        place.write("bad.fq", format!("{good}{good}{bad}").as_bytes());
        place.write("good.fq", good.as_bytes());
        for verb in [
            "sort",
            "shuffle",
            "unique",
            "head",
            "tail",
            "sample -n 9",
            "shuffle -n 9",
        ] {
            let line = format!("{verb} good.fq bad.fq -o out.fq");
            let cause = ["record 3", cause, "bad.fq", "22"];
            place.run(&words(&line)).fails(4, &cause, hint);
            assert!(!place.path("out.fq").exists(), "{line}");
        }
    }
}

#[test]
fn records_cross_blocks_and_long_reads_stay_within_the_memory() {
    let place = TestDir::in_memory();
    // Blocks of 1 MiB are read, and each of these is longer.
    let mut reads = random_reads(6, 3 << 20, 4);
    reads.extend(random_reads(4000, 300, 5));
    let text = text_of(&reads, "\n");
    place.write("a.fq", text.as_bytes());
    for threads in ["1", "4"] {
        let line = format!("sort a.fq -s -o s.fq --memory 64MiB --threads {threads} --force");
        place.run(&words(&line)).ok();
        let wanted = sorted_by(&reads, |read| read.name().to_owned());
        assert!(
            place.read("s.fq") == text_of(&wanted, "\n").as_bytes(),
            "{line}"
        );
        let line = format!("shuffle a.fq -o m.fq --memory 64MiB --threads {threads} --force");
        place.run(&words(&line)).ok();
        let sorted = |bytes: &[u8]| sorted_by(&reads_of(bytes), Read::clone);
        assert!(
            sorted(&place.read("m.fq")) == sorted(text.as_bytes()),
            "{line}"
        );
    }
}

#[test]
fn options_and_verbs_that_are_not_for_fastq_are_rejected() {
    let place = TestDir::in_memory();
    place.write("a.fq", b"@r\nAC\n+\nII\n");
    for (line, cause) in [
        ("sort -k1 a.fq", "-k"),
        ("sort -n a.fq", "--numeric-sort"),
        ("sort --by price a.fq", "`price` is not a key of FASTQ"),
        ("sort --by name:nulls-first a.fq", "is not a key of FASTQ"),
        ("unique -c a.fq", "--count"),
        ("head --header 1 a.fq", "--header"),
        ("comm a.fq a.fq", "comm takes lines, records and tables"),
        ("view build a.fq -o v", "FASTQ"),
        ("convert a.fq -o t.parquet", "a.fq"),
        ("sort a.fq --csv --fastq --by 1", "--fastq"),
    ] {
        place.run(&words(line)).fails(2, &[cause], "");
    }
}
