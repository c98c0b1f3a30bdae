//! Files of vectors read back as written, in every format.
//!
//! Contract: each format is compared with bytes that the test builds. A damaged or inconsistent
//! file is an error that reports it.

use outcore::Kind;
use outcore_vector::convert::convert;
use outcore_vector::format::{Container, Element};
use outcore_vector::results::{Array, write};

use crate::common::*;

#[test]
fn vectors_survive_every_format_and_back() {
    let place = Place::new();
    let numbers: Vec<f32> = (0..300 * 7).map(|at| (at % 128) as f32).collect();
    let first = place.fbin("first.fbin", &numbers, 7);
    let job = job(64 << 20, 2);
    let names = [
        ("a.npy", None, 84 * 100 + 128),
        ("a.fvecs", None, 300 * 32),
        ("a.bvecs", None, 300 * 11),
        ("a.u8bin", None, 300 * 7 + 8),
        ("a.i8bin", None, 300 * 7 + 8),
        ("a.f16bin", None, 300 * 14 + 8),
        ("half.npy", Some(Element::F16), 300 * 14 + 128),
        ("wide.npy", Some(Element::F64), 300 * 56 + 128),
        ("bytes.npy", Some(Element::U8), 300 * 7 + 128),
        ("raw", Some(Element::I8), 300 * 7),
        ("a.ivecs", None, 300 * 32),
    ];
    let mut from = first.clone();
    for (name, element, len_bytes) in names {
        let path = place.path(name);
        let (to, _) = convert(&job, &from, &path, false, element).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), len_bytes, "{name}");
        let type_name = (to.container == Container::Raw).then(|| to.type_name());
        from = open(&path, type_name.as_deref()).unwrap();
        assert_eq!(from, to);
    }
    let (_, _) = convert(&job, &from, &place.path("last.fbin"), false, None).unwrap();
    let same =
        std::fs::read(place.path("last.fbin")).unwrap() == std::fs::read(&first.path).unwrap();
    assert!(same);
}

#[test]
fn arrays_of_numpy_may_be_truth_values_or_wider_than_records() {
    let place = Place::new();
    let job = job(64 << 20, 2);
    let numbers: Vec<f32> = (0..2 * 300_000).map(|at| at as f32).collect();
    let first = place.fbin("first.fbin", &numbers, 300_000);
    let (wide, _) = convert(&job, &first, &place.path("wide.npy"), false, None).unwrap();
    assert_eq!(open(&wide.path, None).unwrap(), wide);
    let (_, _) = convert(&job, &wide, &place.path("last.fbin"), false, None).unwrap();
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert!(bytes("first.fbin") == bytes("last.fbin"));
    let text = "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 2), }\n";
    let header = [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..]].concat();
    let truth = [&header, text.as_bytes(), &[1, 0, 0, 1, 1, 1]].concat();
    let truth = open(&place.write("truth.npy", &truth), None).unwrap();
    assert_eq!((truth.type_name().as_str(), truth.rows), ("u8x2", 3));
    for name in ["a.npz", "a.PARQUET", "a.csv"] {
        let error = convert(&job, &first, &place.path(name), false, None).unwrap_err();
        assert!(error.cause().contains("does not write files"), "{error}");
    }
    let index = place.path("index.FBIN");
    let error = outcore_vector::index::build(&job, &first, &index, false).unwrap_err();
    assert!(error.cause().contains("not for an index"), "{error}");
}

#[test]
fn what_the_new_kind_of_number_lacks_is_an_error_and_leaves_nothing() {
    let place = Place::new();
    for (value, cause) in [(300.0, "row 2 has 300"), (f32::NAN, "row 2 has NaN")] {
        let mut numbers = vec![1.0; 30];
        numbers[7] = value;
        let file = place.fbin("base.fbin", &numbers, 3);
        let error = convert(
            &job(64 << 20, 2),
            &file,
            &place.path("out.u8bin"),
            false,
            None,
        )
        .unwrap_err();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.cause().contains(cause), "{}", error.cause());
        assert_eq!(place.names(), ["base.fbin"]);
    }
}

#[test]
fn headers_that_lie_and_files_of_nothing_are_named() {
    let place = Place::new();
    let words = |words: &[u32]| {
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let cases = [
        (
            "a.fbin",
            words(&[1_000_000_000, 100, 7]),
            Kind::Corrupt,
            "promises",
        ),
        (
            "b.fbin",
            words(&[u32::MAX, u32::MAX]),
            Kind::Corrupt,
            "has the dimension",
        ),
        ("c.fbin", words(&[3]), Kind::Corrupt, "inside its header"),
        ("d.fbin", words(&[0, 4]), Kind::Usage, "no vectors"),
        (
            "e.fvecs",
            words(&[2, 1, 1, 2, 5]),
            Kind::Corrupt,
            "not a multiple",
        ),
        ("f.fvecs", Vec::new(), Kind::Usage, "no vectors"),
        ("g.fvecs", words(&[0, 0]), Kind::Corrupt, "dimension"),
        ("h.bin", words(&[1, 2]), Kind::Usage, "do not identify"),
        ("i.npy", words(&[1, 2]), Kind::Corrupt, "npy"),
    ];
    for (name, bytes, kind, cause) in cases {
        let path = place.write(name, &bytes);
        let error = open(&path, None).unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error}");
        assert!(error.to_string().contains(cause), "{name}: {error}");
        assert_eq!(error.file_path(), Some(path.as_path()), "{name}");
    }
    let path = place.write("j.fvecs", &words(&[1, 7, 2, 7, 1, 7]));
    let file = open(&path, None).unwrap();
    let error = convert(&job(64 << 20, 1), &file, &place.path("j.npy"), false, None).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("row 1 has dimension 2, but row 0 has 1"),
        "{error}"
    );
}

#[test]
fn ids_are_written_as_their_format_has_them() {
    let place = Place::new();
    let job = job(64 << 20, 1);
    let ids = [5, 1 << 40];
    let error = write(
        &job,
        &place.path("a.ibin"),
        false,
        Array::Ids(&ids),
        Some(2),
    )
    .unwrap_err();
    assert!(error.cause().contains("32 bits"), "{error}");
    write(&job, &place.path("a.npy"), false, Array::Ids(&ids), Some(2)).unwrap();
    let written = std::fs::read(place.path("a.npy")).unwrap();
    assert_eq!(written[128..], ids.map(u64::to_le_bytes).concat());
    write(
        &job,
        &place.path("b.ivecs"),
        false,
        Array::Labels(&[3, 4]),
        Some(2),
    )
    .unwrap();
    let written = std::fs::read(place.path("b.ivecs")).unwrap();
    assert_eq!(written, [2_u32, 3, 4].map(u32::to_le_bytes).concat());
    assert_eq!(place.names(), ["a.npy", "b.ivecs"]);
}

#[test]
fn several_results_appear_together_or_not_at_all() {
    use outcore_vector::results::{ResultFile, write_all};
    let place = Place::new();
    let (ids, numbers) = ([5, 6, 7, 8], [0.5, 1.5, 2.5, 3.5]);
    let (first, second) = (place.path("ids.ibin"), place.path("distances.npy"));
    let distances = Array::Floats {
        numbers: &numbers,
        wide: true,
    };
    let files = [
        ResultFile {
            path: &first,
            array: Array::Ids(&ids),
            dimension: Some(2),
        },
        ResultFile {
            path: &second,
            array: distances,
            dimension: None,
        },
    ];
    std::fs::write(&second, b"mine").unwrap();
    let job = job(64 << 20, 1);
    let error = write_all(&job, &files, false).unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert_eq!(place.names(), ["distances.npy"]);
    write_all(&job, &files, true).unwrap();
    assert_eq!(place.names(), ["distances.npy", "ids.ibin"]);
    let read = open(&first, None).unwrap();
    assert_eq!((read.rows, read.dimension), (2, 2));
    let words: Vec<u8> = [2_u32, 2, 5, 6, 7, 8].map(u32::to_le_bytes).concat();
    assert_eq!(std::fs::read(&first).unwrap(), words);
    let read = open(&second, None).unwrap();
    assert_eq!((read.rows, read.dimension), (4, 1));
    let bytes = std::fs::read(&second).unwrap();
    assert_eq!(
        bytes[bytes.len() - 32..],
        numbers.map(f64::to_le_bytes).concat()
    );
    assert_eq!(job.budget.used_bytes(), 0);
}
