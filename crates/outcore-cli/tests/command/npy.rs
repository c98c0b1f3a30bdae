//! Arrays of NumPy: types from headers, headers on outputs, keys by the names of fields.
//!
//! Contract: the tests write headers by hand, according to NumPy's description of the format.

use crate::support::*;

/// A version 1 header: NumPy pads it to a multiple of 64 bytes.
pub(crate) fn header(descr: &str, shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + text.len() + 1) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Header text and data of an array.
pub(crate) fn parts(bytes: &[u8]) -> (String, Vec<u8>) {
    assert!(bytes.starts_with(b"\x93NUMPY"));
    let text_bytes = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!((10 + text_bytes) % 64, 0);
    let text = String::from_utf8(bytes[10..10 + text_bytes].to_vec()).unwrap();
    (text, bytes[10 + text_bytes..].to_vec())
}

#[test]
fn the_type_comes_from_the_header_and_the_output_has_one_too() {
    let place = TestDir::new();
    let data = random_u64(500, 43);
    place.write(
        "in.npy",
        &[header("'<i8'", "(500,)"), data.clone()].concat(),
    );
    place.run(&["sort", "in.npy", "-o", "out.npy"]).ok();
    let wanted = sorted_by(&data, 8, |r| i64::from_le_bytes(r.try_into().unwrap()));
    let (text, sorted) = parts(&place.read("out.npy"));
    assert!(text.contains("'<i8'") && text.contains("(500,)"), "{text}");
    assert_eq!(sorted, wanted);
    place.run(&["sort", "in.npy", "-o", "out.bin"]).ok();
    assert_eq!(place.read("out.bin"), wanted);
    place
        .run(&["verify", "out.npy", "--against", "in.npy"])
        .ok();
    place.run(&["sort", "in.npy", "--replace"]).ok();
    assert_eq!(parts(&place.read("in.npy")).1, wanted);
}

#[test]
fn unique_shortens_the_array_and_its_header() {
    let place = TestDir::new();
    let data: Vec<u8> = (0..1000_u32).flat_map(|n| (n % 7).to_le_bytes()).collect();
    place.write("in.npy", &[header("'<u4'", "(1000,)"), data].concat());
    place
        .run(&["sort", "in.npy", "-o", "out.npy", "--unique"])
        .ok();
    let (text, sorted) = parts(&place.read("out.npy"));
    assert!(text.contains("(7,)"), "{text}");
    assert_eq!(
        sorted,
        (0..7_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
    );
}

#[test]
fn a_row_of_a_table_is_a_record() {
    let place = TestDir::new();
    let data: Vec<u8> = [3.0_f32, 1.0, 2.0, 9.0, 2.0, -1.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    place.write("in.npy", &[header("'<f4'", "(3, 2)"), data].concat());
    place.run(&["sort", "in.npy", "-o", "out.npy"]).ok();
    let (text, sorted) = parts(&place.read("out.npy"));
    assert!(text.contains("(3, 2)"), "{text}");
    let wanted = [2.0_f32, -1.0, 2.0, 9.0, 3.0, 1.0];
    assert_eq!(
        sorted,
        wanted
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<u8>>()
    );
}

#[test]
fn fields_of_a_structured_array_can_be_keys_by_name() {
    let place = TestDir::new();
    let rows: [(u8, i16); 4] = [(1, 5), (2, -7), (1, -3), (2, 9)];
    let pack = |rows: &[(u8, i16)]| -> Vec<u8> {
        rows.iter()
            .flat_map(|(a, b)| [vec![*a], b.to_le_bytes().to_vec()].concat())
            .collect()
    };
    let descr = "[('a', '|u1'), ('b', '<i2')]";
    place.write("in.npy", &[header(descr, "(4,)"), pack(&rows)].concat());
    let sorted = |keys: &[&str]| {
        place
            .run(&[&["sort", "in.npy", "-o", "out.npy", "--force"], keys].concat())
            .ok();
        parts(&place.read("out.npy")).1
    };
    assert_eq!(sorted(&[]), pack(&[(1, -3), (1, 5), (2, -7), (2, 9)]));
    assert_eq!(
        sorted(&["--key", "b"]),
        pack(&[(2, -7), (1, -3), (1, 5), (2, 9)])
    );
    assert_eq!(
        sorted(&["--key", "a:desc", "--key", "b"]),
        pack(&[(2, -7), (2, 9), (1, -3), (1, 5)])
    );
    assert_eq!(
        sorted(&["--key", "1:2:i16:desc"]),
        pack(&[(2, 9), (1, 5), (1, -3), (2, -7)])
    );
    place
        .run(&["sort", "in.npy", "-o", "x.npy", "--key", "c"])
        .fails(2, &["no field `c`"], "a, b");
}

#[test]
fn raw_numbers_can_become_an_array_and_generated_ones_too() {
    let place = TestDir::new();
    let data = random_u64(64, 47);
    place.write("in", &data);
    place
        .run(&["sort", "in", "--type", "f64", "-o", "out.npy"])
        .ok();
    assert!(parts(&place.read("out.npy")).0.contains("'<f8'"));
    place.run(&["gen", "u32be", "-n", "9", "-o", "g.npy"]).ok();
    let (text, made) = parts(&place.read("g.npy"));
    assert!(text.contains("'>u4'") && text.contains("(9,)"), "{text}");
    assert_eq!(made.len(), 36);
    place
        .run(&["sort", "in", "--type", "u128", "-o", "x.npy"])
        .fails(2, &["x.npy"], "");
    assert!(!place.path("x.npy").exists());
}

#[test]
fn headers_that_disagree_with_type_or_file_are_refused() {
    let place = TestDir::new();
    place.write(
        "a.npy",
        &[header("'<u8'", "(2,)"), random_u64(2, 1)].concat(),
    );
    place.write(
        "b.npy",
        &[header("'<f8'", "(2,)"), random_u64(2, 2)].concat(),
    );
    place.write(
        "short.npy",
        &[header("'<u8'", "(3,)"), random_u64(2, 3)].concat(),
    );
    place.write("no.npy", b"hello, world");
    place.write(
        "fortran.npy",
        &[header("'<u8'", "(2,)"), random_u64(2, 1)].concat(),
    );
    let sort = |flags: &[&str]| place.run(&[&["sort", "-o", "out"], flags].concat());
    sort(&["a.npy", "b.npy"]).fails(2, &["f64", "u64", "(b.npy)"], "one at a time");
    sort(&["a.npy", "--type", "i64"]).fails(2, &["u64", "i64", "(a.npy)"], "--type");
    sort(&["short.npy"]).fails(4, &["(short.npy)", "3 rows"], "complete");
    sort(&["no.npy"]).fails(4, &["(no.npy)"], "");
    assert!(!place.path("out").exists());
    sort(&["a.npy", "--type", "u64"]).ok();
    place.write("raw", &random_u64(5, 9));
    sort(&["a.npy", "raw", "--force"]).ok();
    assert_eq!(
        place.read("out").len(),
        7 * 8,
        "raw numbers beside an array have its type"
    );
}

/// Records of `record_bytes` as a sorted list.
fn records_of(bytes: &[u8], record_bytes: usize) -> Vec<Vec<u8>> {
    let mut records: Vec<Vec<u8>> = bytes.chunks(record_bytes).map(<[u8]>::to_vec).collect();
    records.sort();
    records
}

#[test]
fn arrays_of_any_numbers_and_dimensions_are_moved_whole() {
    for (descr, shape, record_bytes) in [
        ("'<f2'", "(40,)", 2),
        ("'>f2'", "(40, 3)", 6),
        // As NumPy writes bfloat16.
        ("'<V2'", "(40,)", 2),
        ("'<c8'", "(40,)", 8),
        ("'>c16'", "(40,)", 16),
        ("'<f16'", "(40,)", 16),
        ("'|u1'", "(40, 2, 3, 5)", 30),
        // Images have rows that are too long for a key.
        ("'<f4'", "(40, 160, 160, 3)", 307_200),
    ] {
        let place = TestDir::new();
        let data = Numbers(11).bytes(40 * record_bytes);
        place.write("in.npy", &[header(descr, shape), data.clone()].concat());
        place.write("at", &[3_u64, 39, 3].map(u64::to_le_bytes).concat());
        let run = |line: &str| {
            place.run(&line.split(' ').collect::<Vec<_>>()).ok();
            let (text, data) = parts(&place.read("out.npy"));
            assert!(text.contains(descr), "{line}: {text}");
            let count = data.len() / record_bytes;
            let wanted = shape.replacen("40", &count.to_string(), 1);
            assert!(text.contains(&wanted), "{line}: {text}");
            data
        };
        let shuffled = run("shuffle in.npy -o out.npy --seed 3");
        assert_eq!(
            records_of(&shuffled, record_bytes),
            records_of(&data, record_bytes)
        );
        assert_ne!(shuffled, data);
        let reversed = run("reverse in.npy -o out.npy --force");
        let backwards: Vec<u8> = data.chunks(record_bytes).rev().flatten().copied().collect();
        assert!(reversed == backwards, "{descr} {shape}");
        let first = run("head in.npy -n 5 -o out.npy --force");
        assert!(first == data[..5 * record_bytes], "{descr} {shape}");
        let sampled = run("sample in.npy -n 7 -o out.npy --force");
        let all = records_of(&data, record_bytes);
        assert_eq!(sampled.len(), 7 * record_bytes);
        assert!(
            sampled
                .chunks(record_bytes)
                .all(|one| all.iter().any(|other| one == other))
        );
        let gathered = run("gather in.npy --at at -o out.npy --force");
        let at = |place: usize| &data[place * record_bytes..(place + 1) * record_bytes];
        assert!(
            gathered == [at(3), at(39), at(3)].concat(),
            "{descr} {shape}"
        );
        place
            .run(&["split", "in.npy", "--parts", "2", "-o", "part-{part}.npy"])
            .ok();
        let names = place
            .names()
            .into_iter()
            .filter(|name| name.starts_with("part-"));
        let parts: Vec<Vec<u8>> = names.map(|name| parts(&place.read(&name)).1).collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(records_of(&parts.concat(), record_bytes), all);
    }
}

#[test]
fn halves_and_complex_numbers_are_sorted_as_numpy_sorts_them() {
    let place = TestDir::new();
    // -inf, -2, -0.0, 0.0, the least, 1, 65504, inf, a NaN.
    let halves = [
        0xFC00_u16, 0xC000, 0x8000, 0, 1, 0x3C00, 0x7BFF, 0x7C00, 0x7E00,
    ];
    let pack = |order: &[usize]| -> Vec<u8> {
        order
            .iter()
            .flat_map(|at| halves[*at].to_le_bytes())
            .collect()
    };
    let mixed = pack(&[7, 3, 8, 0, 5, 2, 6, 1, 4]);
    place.write("in.npy", &[header("'<f2'", "(9,)"), mixed].concat());
    place.run(&["sort", "in.npy", "-o", "out.npy"]).ok();
    assert_eq!(
        parts(&place.read("out.npy")).1,
        pack(&[0, 1, 2, 3, 4, 5, 6, 7, 8])
    );
    place
        .run(&["sort", "in.npy", "-o", "down.npy", "--descending"])
        .ok();
    assert_eq!(
        parts(&place.read("down.npy")).1,
        pack(&[8, 7, 6, 5, 4, 3, 2, 1, 0])
    );
    place
        .run(&["verify", "out.npy", "--against", "in.npy"])
        .ok();
    let doubled = place.run(&[
        "map",
        "x * 2",
        "in.npy",
        "-o",
        "doubled.npy",
        "--where",
        "x == 1",
    ]);
    doubled.ok();
    let (text, data) = parts(&place.read("doubled.npy"));
    assert!(
        text.contains("'<f4'") && data == 2.0_f32.to_le_bytes(),
        "{text}"
    );
    let complex = |parts: &[[f32; 2]]| -> Vec<u8> {
        parts
            .iter()
            .flatten()
            .flat_map(|part| part.to_le_bytes())
            .collect()
    };
    let data = complex(&[[1.0, 2.0], [-1.0, 9.0], [1.0, -3.0]]);
    place.write("in.npy", &[header("'<c8'", "(3,)"), data].concat());
    place
        .run(&["sort", "in.npy", "-o", "out.npy", "--force"])
        .ok();
    let (text, data) = parts(&place.read("out.npy"));
    assert!(text.contains("'<c8'"), "{text}");
    assert_eq!(data, complex(&[[-1.0, 9.0], [1.0, -3.0], [1.0, 2.0]]));
}

#[test]
fn rows_without_an_order_are_refused_by_name_where_one_is_needed() {
    let place = TestDir::new();
    place.write("in.npy", &[header("'<f16'", "(2,)"), vec![0; 32]].concat());
    for command in ["sort", "unique", "merge"] {
        place.run(&[command, "in.npy", "-o", "out.npy"]).fails(
            2,
            &["16 bytes of this type have no order"],
            "--key",
        );
    }
    place
        .run(&["verify", "in.npy"])
        .fails(2, &["no order"], "--key");
    place
        .run(&["view", "build", "in.npy", "-o", "view"])
        .fails(2, &["no order"], "--key");
    assert!(!place.path("out.npy").exists() && !place.path("view").exists());
}

#[test]
fn arrays_whose_rows_have_other_shapes_are_not_joined() {
    let place = TestDir::new();
    place.write("a.npy", &[header("'|u1'", "(2, 6)"), vec![0; 12]].concat());
    place.write(
        "b.npy",
        &[header("'|u1'", "(2, 2, 3)"), vec![0; 12]].concat(),
    );
    place
        .run(&["shuffle", "a.npy", "b.npy", "-o", "out.npy"])
        .fails(2, &["its rows are 2 x 3, not 6", "b.npy"], "reshape");
}
