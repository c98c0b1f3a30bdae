//! Arrays of NumPy: types from headers, headers on outputs, keys by the names of fields.
//!
//! Contract: headers are written here by hand, as NumPy's format description says.

use crate::support::*;

/// A version 1 header: NumPy pads it to a multiple of 64 bytes.
fn header(descr: &str, shape: &str) -> Vec<u8> {
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
fn parts(bytes: &[u8]) -> (String, Vec<u8>) {
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
    sort(&["a.npy", "b.npy"]).fails(2, &["f64", "u64", "(b.npy)"], "one by one");
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
