//! Which columns and lines of text are edges, and which vertices a matrix has.
//!
//! Contract: quotes are read the same way for numbers and names. Named columns are used. Ambiguous
//! text is rejected, and comments are counted.

use std::path::Path;

use outcore::{Error, Result};
use outcore_graph::convert::{ConvertOptions, ConvertSummary, convert};
use outcore_graph::edges::{ReadOptions, Relabel};
use outcore_graph::graph::{Direction, Graph};
use outcore_graph::kernels::shortest_paths;

use crate::common::job;

fn read(read: ReadOptions) -> ConvertOptions {
    ConvertOptions {
        read,
        replace: true,
        ..ConvertOptions::default()
    }
}

fn named(source: &str, target: &str) -> ReadOptions {
    ReadOptions {
        columns: vec![source.to_owned(), target.to_owned()],
        ..ReadOptions::default()
    }
}

fn made(
    dir: &Path,
    (name, text): (&str, &str),
    options: &ConvertOptions,
) -> Result<(Graph, ConvertSummary)> {
    let job = job(64 << 20, 2);
    let (path, graph) = (dir.join(name), dir.join("g"));
    std::fs::write(&path, text).unwrap();
    let done = convert(&job, &[path], &graph, options)?;
    Ok((Graph::open(&job, &graph)?, done))
}

fn refused(dir: &Path, file: (&str, &str), options: &ConvertOptions) -> Error {
    made(dir, file, options).unwrap_err()
}

#[test]
fn quotes_of_csv_hide_delimiters_from_numbers_as_from_names() {
    let dir = tempfile::tempdir().unwrap();
    let by_w = ReadOptions {
        is_weighted: true,
        weight_column: Some("w".to_owned()),
        ..ReadOptions::default()
    };
    for relabel in [Relabel::No, Relabel::Numbers, Relabel::Text] {
        let options = ConvertOptions {
            relabel,
            ..read(by_w.clone())
        };
        for text in [
            "src,dst,label,w\n0,1,\"x,7,y\",2.5\n1,2,\"\",4\n",
            "src,dst,\"a,b\",w\n0,1,\"say \"\"1,2\"\"\",2.5\n1,2,,4\n",
            "\u{FEFF}\"src\";\"dst\";\"a,b;c\";\"w\"\r\n\"0\";\"1\";\"x;7\";2.5\r\n1;2;3,5;4\r\n",
        ] {
            let (graph, _) = made(dir.path(), ("a.csv", text), &options).unwrap();
            let lengths = shortest_paths(&job(64 << 20, 1), &graph, 0).unwrap();
            assert_eq!(lengths, [0.0, 2.5, 6.5], "{relabel:?}: {text}");
        }
        // If a field continued on the next line, the rest of the field would become an edge.
        let text = "src,dst,label\n0,1,\"x\n2,3\"\n";
        let options = ConvertOptions {
            relabel,
            ..read(ReadOptions::default())
        };
        let error = refused(dir.path(), ("a.csv", text), &options).to_string();
        assert!(error.contains("is not an edge"), "{error}");
    }
}

#[test]
fn columns_of_csv_are_those_that_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let options = read(named("src", "dst"));
    for (name, text) in [
        ("a.csv", ",src,w,dst\n0,5,0.5,6\n1,6,0.5,7\n"),
        ("a.csv", "dst,src\n6,5\n7,6\n"),
        ("a.tsv", "dst\tsrc\n6\t5\n7\t6\n"),
    ] {
        let (graph, done) = made(dir.path(), (name, text), &options).unwrap();
        let degrees = graph.degrees(&job(64 << 20, 1), Direction::Out).unwrap();
        assert_eq!(degrees, [0, 0, 0, 0, 0, 1, 1, 0], "{text}");
        assert_eq!(done.edges_in, 2, "{text}");
        let names = ConvertOptions {
            relabel: Relabel::Text,
            ..options.clone()
        };
        let (graph, _) = made(dir.path(), (name, text), &names).unwrap();
        assert_eq!(graph.vertices(), 3, "{text}");
    }
    let text = ",src,dst\n0,5,6\n";
    let plain = read(ReadOptions::default());
    let no_header = ReadOptions {
        has_no_header: true,
        ..named("src", "dst")
    };
    for (options, wanted) in [
        (plain.clone(), "a column has no name"),
        (read(named("src", "to")), "no column is called `to`"),
        (read(no_header), "with --no-header there are none"),
    ] {
        let error = refused(dir.path(), ("a.csv", text), &options).to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let error = refused(
        dir.path(),
        ("a.csv", "a,b,a\n1,2,3\n"),
        &read(named("a", "b")),
    );
    assert!(
        error.to_string().contains("several columns are called `a`"),
        "{error}"
    );
    let error = refused(dir.path(), ("a.txt", "0 1\n"), &options);
    assert!(
        error
            .to_string()
            .contains("--columns is for CSV and tables"),
        "{error}"
    );
}

#[test]
fn comments_are_counted_and_csv_has_none_behind_its_header() {
    let dir = tempfile::tempdir().unwrap();
    let plain = read(ReadOptions::default());
    let text = "# a\n0 1\n% b\n\n1 2\n// c\n";
    for relabel in [Relabel::No, Relabel::Numbers] {
        let options = ConvertOptions {
            relabel,
            ..plain.clone()
        };
        let (_, done) = made(dir.path(), ("a.txt", text), &options).unwrap();
        assert_eq!((done.edges_in, done.comments), (2, 3), "{relabel:?}");
    }
    let names = ConvertOptions {
        relabel: Relabel::Text,
        ..plain.clone()
    };
    let (_, done) = made(dir.path(), ("a.txt", "# a\nx y\n\n#b c\n"), &names).unwrap();
    assert_eq!((done.edges_in, done.comments), (1, 2));
    let (_, done) = made(dir.path(), ("a.csv", "# a\n\nsrc,dst\n0,1\n"), &plain).unwrap();
    assert_eq!((done.edges_in, done.comments), (1, 1));
    let error = refused(dir.path(), ("a.csv", "src,dst\n0,1\n#2,3\n"), &plain).to_string();
    assert!(error.contains("line 3 is not an edge"), "{error}");
    let (graph, done) = made(dir.path(), ("a.csv", "src,dst\na,b\n#a,b\n"), &names).unwrap();
    assert_eq!((graph.vertices(), done.edges_in, done.comments), (3, 2, 0));
}

#[test]
fn ids_have_sixty_four_bits() {
    let dir = tempfile::tempdir().unwrap();
    let options = ConvertOptions {
        relabel: Relabel::Numbers,
        ..read(ReadOptions::default())
    };
    let (most, snowflake) = (u64::MAX, 1_212_092_628_029_698_048u64);
    let text = format!("{most} {snowflake}\n{snowflake} 281474976710656\n");
    let (graph, _) = made(dir.path(), ("a.txt", &text), &options).unwrap();
    let names = graph.names(&job(64 << 20, 1)).unwrap().unwrap();
    assert_eq!(names.numbers().unwrap(), [1 << 48, snowflake, most]);
}

#[test]
fn a_matrix_that_is_not_square_is_refused_or_bipartite() {
    let dir = tempfile::tempdir().unwrap();
    let plain = read(ReadOptions::default());
    let bipartite = read(ReadOptions {
        is_bipartite: true,
        ..ReadOptions::default()
    });
    // One percent sign, as some programs write it.
    let text = "%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 3\n2 1\n";
    let error = refused(dir.path(), ("m.mtx", text), &plain).to_string();
    assert!(
        error.contains("2 rows and 3 columns") && error.contains("--bipartite"),
        "{error}"
    );
    let (graph, _) = made(dir.path(), ("m.mtx", text), &bipartite).unwrap();
    assert_eq!(graph.vertices(), 5);
    let job = job(64 << 20, 1);
    let degrees = |direction| graph.degrees(&job, direction).unwrap();
    assert_eq!(degrees(Direction::Out), [1, 1, 0, 0, 0]);
    assert_eq!(degrees(Direction::In), [0, 0, 1, 0, 1]);
    let text = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 1\n2 1\n";
    let error = refused(dir.path(), ("m.mtx", text), &bipartite).to_string();
    assert!(error.contains("it is symmetric"), "{error}");
    let error = refused(dir.path(), ("a.txt", "0 1\n"), &bipartite).to_string();
    assert!(error.contains("--bipartite is for matrices"), "{error}");
}
