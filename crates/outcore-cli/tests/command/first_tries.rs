//! The first lines that a user types, from other tools or by guess. The result is right, or a note
//! tells what happened. Each error leads to a line that works.
//!
//! Contract: every line runs unchanged in a directory with the files of [`place`].

use crate::npy::header;
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
    run("sort t3.csv n -o x").fails(3, &["(n)"], "for a column write --by n");
    let text = run("sort w.txt n -o x").stderr;
    assert!(!text.contains("--by"), "{text}");
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

const ACCESS_LOG: &str = "\
1.2.3.4 - - [01/Jan/2024:00:00:01] \"GET / HTTP/1.1\" 200 12
5.6.7.8 - - [02/Jan/2024:00:00:01] \"GET /a HTTP/1.1\" 404 34
";

/// Lines as users of other tools type them: words, exit code, a part of the cause and a part of the
/// hint. A row with exit code 0 follows a hint of another row.
const WRONG_WORDS: &str = "\
shuffle w.txt --head 2 | 2 | '--head' | -n is a number
sample w.txt --head-count 2 | 2 | count | -n is a number
split t.parquet --test-size 0.2 -o x | 2 | '--test-size' | --train 0.8
split --lines 100 t3.csv -o p-{part} | 2 | --parts | --by-lines
map y=n t3.csv --keep y | 2 | '--keep' | --columns keeps columns
knn t.parquet q --column n | 2 | '--column' | outcore vector convert TABLE
top -k 3 k.npy | 2 | '-k' | -n is a number
count-by n t3.csv --desc | 2 | '--desc' | --by-count
dedup t3.csv --by n --ngram 3 | 2 | '--ngram' | --shingles
histogram k.npy --min 0 | 2 | '--min' | --range 0:100
join a b --key id | 2 | '--key' | --on COLUMN
graph convert e --no-self-loops -o g | 2 | self-loops | --drop-loops
graph triangle-count g | 2 | triangle-count | outcore graph triangles
SORT w.txt | 2 | SORT | did you mean sort
sort --scratch nv t3.csv | 2 | unknown unit | --drive DIR
convert t.parquet -t ; -o x.csv | 2 | cannot be used with tables | outputs have commas
merge --by 1 w.txt | 2 | cannot be used with records | outcore sort -m
zip w.txt --zip w.txt -o x | 2 | lines of text | paste
scan sum w.txt -o x | 2 | lines of text | outcore window --csv
gather w.txt --at k.npy -o x | 2 | lines of text | outcore join
windows -n 2 w.txt -o x | 2 | lines of text | outcore window
comm in k.npy | 2 | inputs of one kind | --type u64
comm w.txt t.parquet | 2 | inputs of one kind | outcore convert FILE -o OUT.csv
dedup w.txt --by a | 2 | only tables | outcore unique
diff k.npy k.npy | 2 | only tables | outcore comm -3
join w.txt t3.csv --on n | 2 | only tables | --csv
diff t3.csv o.csv | 2 | missing | compare the columns that both have: --columns
diff --columns id t3.csv o.csv | 0 | - | -
sort w.txt nosuch | 3 | (nosuch) | check the path
head t3.csv n | 3 | (n) | --by n
head t3.csv m | 3 | (m) | check the path
sort --by n DESC t3.csv | 3 | (DESC) | write --by n:desc
convert --columns id n t3.csv -o x.csv | 3 | (n) | --columns id,n
histogram n t.parquet | 3 | (n) | outcore count-by n t.parquet
top n t3.csv | 3 | (n) | outcore sort --by n:desc t3.csv
graph convert v.csv --weights w -o g | 3 | (w) | --weights=w
sort help | 3 | (help) | outcore sort --help
head r2://b/x.csv | 2 | not the scheme | s3://b/x.csv, and set AWS_ENDPOINT_URL
head w.txt -2 | 2 | '-2' | -n K is the number of items
head -q -2 w.txt | 2 | '-2' | -n K is the number of items
top -3 k.npy | 2 | '-3' | -n K is the number of items
sample -5 w.txt | 2 | '-5' | -n K is the number of items
shuffle -5 w.txt | 2 | '-5' | -n K is the number of items
sort -5 w.txt | 2 | '-5' | --help lists all options
reduce -x k.npy | 2 | '-x' | -- goes before an expression
head +2 w.txt | 3 | (+2) | check the path
tail +2 w.txt | 3 | (+2) | -n +2 takes the items from number 2 on
head 2 w.txt | 3 | (2) | -n 2 is the number of items
split t.parquet --by id -o {x} | 2 | {x} is not a placeholder | name a directory, without braces
sort t3.csv --by n -o x.csv --checksum | 2 | tables of CSV | --csv and --jsonl sort rows of text
head file://w.txt | 2 | not the scheme | write w.txt
man outcore-sort | 2 | sort is a command | outcore sort --help
vector index in --type f32x2 -o b.faiss | 2 | not a .faiss file | base.vindex
info access.log | 2 | only tables | --csv -t ' ' --no-header
info k.npy | 2 | only tables | outcore reduce count
reduce count k.npy | 0 | - | -
group-by access.log --by 1 | 2 | only tables | outcore unique --count
filter n>9 access.log | 2 | lines of text | --csv -t ' ' --no-header
filter n>9 access.log --csv | 2 | no column `n` | --no-header reads it as a row
window t3.csv --by id --add r=rank --columns id,r | 2 | `r` is added | leave r out
window t3.csv --add s=n/sum(n) | 2 | no window function | outcore join
sort t.parquet.gz --by n | 2 | cannot be used | gunzip
filter n>9 t.parquet.gz | 2 | t.parquet.gz | decompress it first
histogram x k.npy | 3 | (x) | leave x out
gen normal | 2 | unknown type | --dist normal
gen normal:3:1 | 2 | normal | gen f64 -n 1e6 --dist normal -o FILE
gen f64 -n 1e2 --dist normal -o d1 | 0 | - | -
gen zipf | 2 | unknown type | --dist zipf:1.1
gen zipf:1.3 | 2 | zipf | --dist zipf:1.3
gen f64 -n 1e2 --dist zipf:1.1 -o d2 | 0 | - | -
gen exponential | 2 | unknown type | --dist exponential:1
gen f64 -n 1e2 --dist exponential:1 -o d3 | 0 | - | -
gen clusters | 2 | unknown type | --dist clusters:8
gen f64 -n 1e2 --dist clusters:8 -o d4 | 0 | - | -
gen sale | 2 | unknown type | did you mean sales
dedup t3.csv --by id --keep none | 2 | no column | write first, last
dedup t.parquet --minhash n | 2 | '--minhash' | --near COLUMN
join t3.csv o.csv --type left | 2 | '--type' | --how left
sample -k 5 w.txt | 2 | '-k' | -n is a number
split -d w.txt | 2 | '-d' | -o 'part-{part}
knn k.npy k.npy --k 5 | 2 | '--k' | -k is the number of neighbours
view cat --count 3 v | 2 | '--count' | --range 0..3
scratch clean --dry-run | 2 | '--dry-run' | outcore scratch list
config --list | 2 | '--list' | outcore config show
head --skip 10 w.txt | 2 | '--skip' | outcore tail -n +11
tail -r w.txt | 2 | '-r' | tac
verify w.txt -k2,2n | 2 | '-k' | outcore sort -c
graph random-walks g | 2 | random-walks | outcore graph walk
convert t3.csv --sort-by n | 2 | '--sort-by' | outcore sort --by
convert t3.csv --to parquet | 2 | parquet | -o OUT.parquet
dedup t3.csv --near id --jaccard 80% | 2 | not a number | write --jaccard 0.8
sort w.txt --threads auto | 2 | not a whole number | leave --threads out
sort w.txt --threads 50% | 2 | not a whole number | leave --threads out
dedup t3.csv --substring id | 2 | not a whole number | --of COLUMN
head --lines=2 w.txt | 2 | invalid value '2' | -n 2 is a number of lines
knn k.npy k.npy -k 1 --metric L2 | 2 | 'L2' | write --metric l2
info t.parquet --schema | 2 | a value is required | columns and types without
-v | 2 | a command is missing | --help lists the commands";

#[test]
fn a_wrong_word_leads_to_the_line_that_was_meant() {
    let place = place();
    place.write("v.csv", b"price,id\n1,2\n");
    place.write("o.csv", b"id,cost\na,1\nb,2\nc,3\n");
    place.run(&["convert", "t3.csv", "-o", "t.parquet"]).ok();
    place
        .run(&["sort", "in", "--type", "u64", "-o", "k.npy"])
        .ok();
    place.write("access.log", ACCESS_LOG.as_bytes());
    in_shell(&place, "gzip -c t.parquet > t.parquet.gz").ok();
    for row in WRONG_WORDS.lines() {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [line, code, cause, hint] = cells[..] else {
            panic!("{row}")
        };
        let words: Vec<&str> = line.split(' ').collect();
        let ran = place.run(&words);
        match code.parse().unwrap() {
            0 => drop(ran.ok()),
            code => drop(ran.fails(code, &[cause], hint)),
        }
    }
}

#[test]
fn a_count_of_the_first_lines_needs_no_letter() {
    let place = place();
    assert_eq!(place.run(&["head", "-2", "w.txt"]).ok().text(), "b\na\n");
    assert_eq!(place.run(&["tail", "-1", "w.txt"]).ok().text(), "a\n");
}

#[test]
fn edges_in_an_array_of_numpy_are_read_as_its_header_says() {
    let place = place();
    place
        .run(&[
            "gen", "u32x2", "-n", "1000", "--dist", "rmat:8", "-o", "e.npy",
        ])
        .ok();
    place
        .run(&[
            "gen", "u32x2", "-n", "1000", "--dist", "rmat:8", "-o", "e.u32",
        ])
        .ok();
    for (edges, graph) in [("e.npy", "a.graph"), ("e.u32", "b.graph")] {
        place.run(&["graph", "convert", edges, "-o", graph]).ok();
        let ranks = format!("{graph}.npy");
        place.run(&["graph", "pagerank", graph, "-o", &ranks]).ok();
    }
    assert!(place.read("a.graph.npy") == place.read("b.graph.npy"));
    let mut cut = place.read("e.npy");
    for (name, len_bytes) in [("short.npy", cut.len() - 8), ("head.npy", 128)] {
        place.write(name, &cut[..len_bytes]);
        place
            .run(&["graph", "convert", name, "-o", "c.graph"])
            .fails(4, &["its header promises 1,000 edges"], "complete");
    }
    cut.extend([0; 8]);
    place.write("long.npy", &cut);
    place
        .run(&["graph", "convert", "long.npy", "-o", "c.graph"])
        .fails(4, &["its header promises 1,000 edges"], "complete");
    for (line, hint) in [
        (
            "graph convert e.npy --type u32 -o c.graph",
            "leave the type out",
        ),
        ("graph convert e.npy --weights -o c.graph", "CSV or Parquet"),
        (
            "graph convert e.u32 -o e.gml",
            "name it for example e.graph",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = place.run(&words);
        assert!(ran.stderr.contains(hint), "{line}: {}", ran.stderr);
    }
    place
        .run(&[
            "gen", "f32x2", "-n", "10", "--dist", "normal", "-o", "v.npy",
        ])
        .ok();
    place
        .run(&["graph", "convert", "v.npy", "-o", "c.graph"])
        .fails(
            2,
            &["<f4 of the shape (10, 2), which is not edges"],
            "numpy.uint32",
        );
}

#[test]
fn negative_ids_in_an_array_are_named_as_such() {
    let place = place();
    let array = |descr: &str, ids: &[i64], id_bytes: usize| {
        let data = ids
            .iter()
            .flat_map(|id| id.to_le_bytes()[..id_bytes].to_vec());
        let shape = format!("({}, 2)", ids.len() / 2);
        [header(descr, &shape), data.collect()].concat()
    };
    let large = i64::from(i32::MIN);
    place.write("one.npy", &array("'<i4'", &[0, 1, -1, 2], 4));
    place.write("small.npy", &array("'<i4'", &[0, 1, large, 2], 4));
    place.write("wide.npy", &array("'<i8'", &[0, 1, -7, 2], 8));
    for name in ["one.npy", "small.npy", "wide.npy"] {
        for further in ["", " --relabel", " --vertices 10"] {
            let line = format!("graph convert {name} -o n.graph{further}");
            let words: Vec<&str> = line.split(' ').collect();
            place
                .run(&words)
                .fails(2, &["an id is negative", name], "from 0 on");
        }
    }
    place.write("right.npy", &array("'<i4'", &[0, 1, 5, 2], 4));
    place
        .run(&["graph", "convert", "right.npy", "-o", "r.graph"])
        .ok();
    let ids = [1 << 31, 1, (1 << 31) + 5, 1];
    place.write("unsigned.npy", &array("'<u4'", &ids, 4));
    place
        .run(&[
            "graph",
            "convert",
            "unsigned.npy",
            "--relabel",
            "-o",
            "u.graph",
        ])
        .ok();
}

#[test]
fn expressions_of_other_languages_lead_to_ours() {
    let place = place();
    place.write(
        "s.csv",
        b"time,country,price,rating\n2024-01-01T00:00:00,de,100066,\n2024-01-02T00:00:00,fr,7,3\n",
    );
    for (line, cause, hint) in [
        ("weekday(time) = 'Monday'", "cannot be compared", "'%A'"),
        ("month(time) = 'Jan'", "cannot be compared", "'%b'"),
        ("rating = ''", "cannot be compared", "name is null"),
        ("price = 'x'", "cannot be compared", "never equals"),
        (
            "date_trunc(time, 'month') = time",
            "needs text",
            "date_trunc(unit, t)",
        ),
        ("contains(country, img)", "`img`", "in quotes: 'img'"),
        ("u8(price) > 1", "100066 cannot become u8", "try_"),
        (
            "i64(country) > 1",
            "the text 'de' cannot become i64",
            "try_",
        ),
        ("df.price > 1", "`df.price`", "name alone: price"),
        ("rating = NaN", "`NaN`", "isnan"),
    ] {
        let ran = place.run(&["filter", line, "s.csv", "-o", "x.csv"]);
        ran.fails(2, &[cause], hint);
    }
    for text in ["x ^ 2", "x + 1 ^ 2"] {
        let told = place.run(&["map", text, "in", "--type", "u64", "-o", "x", "--force"]);
        assert!(told.ok().stderr.contains("x ** 2 is the power"), "{text}");
    }
    place
        .run(&["filter", "x > 2^10", "in", "--type", "u64", "-o", "y"])
        .fails(2, &["`2^10` is 8"], "write 2 ** 10");
    place
        .run(&["map", "y = x * 2", "in", "--type", "u64", "-o", "y"])
        .fails(2, &["`y` is unknown"], "without `y =`");
    let rounded = place.run(&[
        "map",
        "p = round(price / 3, 1)",
        "s.csv",
        "--columns",
        "price,p",
        "--to",
        "csv",
    ]);
    assert!(rounded.ok().text().contains("33355.3"));
}

#[test]
fn fields_between_blanks_are_columns_with_numbers() {
    let place = place();
    place.write("access.log", ACCESS_LOG.as_bytes());
    let read = ["--csv", "-t", " ", "--no-header"];
    let told = place.run(&[&["info", "access.log"][..], &read[..]].concat());
    assert!(told.ok().text().contains("2 rows"));
    let kept = place.run(&[&["filter", "`6` = 404", "access.log"][..], &read[..]].concat());
    assert!(kept.ok().text().contains("5.6.7.8"));
}

#[test]
fn arrays_that_lose_their_header_on_the_way_to_a_file_are_told() {
    let place = place();
    place
        .run(&["sort", "in", "--type", "u64", "-o", "k.npy"])
        .ok();
    let note = "standard output gets raw records without a header";
    for line in [
        "sort k.npy",
        "shuffle k.npy",
        "map x+1 k.npy",
        "filter x>1 k.npy",
        "head -n 2 k.npy",
        "sample -n 2 k.npy",
    ] {
        let told = in_shell(
            &place,
            &format!("\"$0\" {} > out", line.replace('>', "\\>")),
        );
        assert!(told.ok().stderr.contains(note), "{line}");
        let piped = in_shell(
            &place,
            &format!("\"$0\" {} | cat", line.replace('>', "\\>")),
        );
        assert!(!piped.ok().stderr.contains(note), "{line}");
    }
    let raw = in_shell(&place, "\"$0\" sort in --type u64 > out");
    assert!(!raw.ok().stderr.contains(note));
}

#[test]
fn v_of_filter_is_not_that_of_grep() {
    let place = place();
    let text = place.run(&["filter", "-v", "n > 9", "t3.csv"]).ok().stderr;
    assert!(
        text.contains("for the other rows write not (CONDITION)"),
        "{text}"
    );
    for meant in [
        ["filter", "--verbose", "n > 9", "t3.csv"],
        ["filter", "n > 9", "-v", "t3.csv"],
        ["filter", "n > 9", "t3.csv", "-v"],
    ] {
        let text = place.run(&meant).ok().stderr;
        assert!(!text.contains("for the other rows"), "{text}");
    }
}

#[test]
fn only_csv_has_a_header_that_may_be_a_row() {
    let place = place();
    place.write("up.csv", b"unit price\n1\n2\n");
    place.run(&["convert", "up.csv", "-o", "up.parquet"]).ok();
    let note = "--no-header reads it as a row";
    let known = "the columns are `unit price`";
    for line in [
        "sort up.parquet --by price",
        "sort up.parquet --by price -o out.csv",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let text = place
            .run(&words)
            .fails(2, &["no column `price`"], known)
            .stderr;
        assert!(!text.contains(note), "{text}");
    }
    let told = place.run(&["filter", "price>1", "up.csv"]);
    let text = told.fails(2, &["no column `price`"], known).stderr;
    assert!(text.contains(note), "{text}");
}
