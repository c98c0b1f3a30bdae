//! Tests of expressions: vectors, division and remainder, powers.
//!
//! Contract: expected values are those of NumPy 2.4, written down here;
//! `python/tests/test_expressions.py` compares with NumPy itself over larger grids.

use super::*;

/// Runs `text` over `rows` records of `schema` in batches of the program's size.
fn run(
    text: &str,
    schema: &Schema,
    inputs: &[&[u8]],
    rows: usize,
) -> Result<(ColumnType, Vec<u8>)> {
    let program = Program::compile_elementwise(&text.parse()?, schema)?;
    let mut space = program.space();
    let (mut made, mut first) = (Vec::new(), 0);
    while first < rows {
        let count = program.rows_max().min(rows - first);
        let part = |input: &&[u8]| {
            let record_bytes = input.len() / rows;
            first * record_bytes..(first + count) * record_bytes
        };
        let parts: Vec<&[u8]> = inputs.iter().map(|i| &i[part(i)]).collect();
        let rows = Rows {
            first: first as u64,
            count,
            inputs: &parts,
        };
        made.extend_from_slice(program.run(&mut space, &rows)?.bytes);
        first += count;
    }
    Ok((program.kind(), made))
}

fn f64s(values: &[f64]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

/// As NumPy's `array_equal` with `equal_nan`, but distinguishes signed zeros.
fn is_same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[test]
fn floats_are_divided_and_left_over_as_in_numpy() {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    const TINY: f64 = 5e-324;
    // a, b, a // b, a % b.
    let table: [[f64; 4]; 34] = [
        [1.0, INF, 0.0, 1.0],
        [-1.0, INF, -1.0, INF],
        [1.0, -INF, -1.0, -INF],
        [-1.0, -INF, 0.0, -1.0],
        [0.0, INF, 0.0, 0.0],
        [-0.0, INF, -0.0, 0.0],
        [0.0, -INF, -0.0, -0.0],
        [-0.0, -INF, 0.0, -0.0],
        [INF, 1.0, NAN, NAN],
        [-INF, 1.0, NAN, NAN],
        [INF, INF, NAN, NAN],
        [INF, -INF, NAN, NAN],
        [INF, 0.0, INF, NAN],
        [-INF, 0.0, -INF, NAN],
        [INF, -0.0, -INF, NAN],
        [1.0, 0.0, INF, NAN],
        [-1.0, 0.0, -INF, NAN],
        [1.0, -0.0, -INF, NAN],
        [0.0, 0.0, NAN, NAN],
        [-0.0, 0.0, NAN, NAN],
        [NAN, 1.0, NAN, NAN],
        [1.0, NAN, NAN, NAN],
        [NAN, 0.0, NAN, NAN],
        [0.0, 3.0, 0.0, 0.0],
        [-0.0, 3.0, -0.0, 0.0],
        [0.0, -3.0, -0.0, -0.0],
        [-0.0, -3.0, 0.0, -0.0],
        [7.0, 2.0, 3.0, 1.0],
        [-7.0, 2.0, -4.0, 1.0],
        [7.0, -2.0, -4.0, -1.0],
        [-7.0, -2.0, 3.0, -1.0],
        [6.0, -3.0, -2.0, -0.0],
        [TINY, -1.0, -1.0, -1.0],
        [-TINY, 1.0, -1.0, 1.0],
    ];
    let f64s_schema = Schema::of_columns(&[("a", NumberType::F64), ("b", NumberType::F64)]);
    let f32s_schema = Schema::of_columns(&[("a", NumberType::F32), ("b", NumberType::F32)]);
    for [a, b, quotient, rest] in table {
        for (text, wanted) in [("a // b", quotient), ("a % b", rest)] {
            let inputs = [a.to_ne_bytes(), b.to_ne_bytes()];
            let (_, made) = run(text, &f64s_schema, &[&inputs[0], &inputs[1]], 1).unwrap();
            let made = f64::from_ne_bytes(made.try_into().unwrap());
            assert!(
                is_same(made, wanted),
                "{text} of {a:?}, {b:?}: {made:?}, not {wanted:?}"
            );
            if a.abs() == TINY {
                continue;
            }
            let inputs = [(a as f32).to_ne_bytes(), (b as f32).to_ne_bytes()];
            let (_, made) = run(text, &f32s_schema, &[&inputs[0], &inputs[1]], 1).unwrap();
            let made = f64::from(f32::from_ne_bytes(made.try_into().unwrap()));
            assert!(
                is_same(made, wanted),
                "{text} of f32 {a:?}, {b:?}: {made:?}"
            );
        }
    }
}

#[test]
fn the_least_integer_over_minus_one_wraps_around() {
    for kind in [
        NumberType::I8,
        NumberType::I16,
        NumberType::I32,
        NumberType::I64,
    ] {
        let schema = Schema::of_columns(&[("a", kind), ("b", kind)]);
        let least = i64::MIN >> (64 - 8 * kind.bytes());
        let bytes = |value: i64| value.to_le_bytes()[..kind.bytes()].to_vec();
        let (a, b) = (bytes(least), bytes(-1));
        for (text, wanted) in [
            ("a // b", least),
            ("a % b", 0),
            ("a // -1", least),
            ("a % -1", 0),
        ] {
            let (_, made) = run(text, &schema, &[&a, &b], 1).unwrap();
            assert_eq!(made, bytes(wanted), "{kind:?} {text}");
        }
    }
}

/// Records of a row number (u32, big-endian) and a vector of `width` numbers (f32).
fn vectors(width: usize, rows: usize) -> (Schema, Vec<u8>) {
    let field = |name: &str, offset_bytes, number, count| SchemaField {
        name: name.to_string(),
        input: 0,
        offset_bytes,
        number: Some(number),
        count,
    };
    let row = Number::new(NumberType::U32, Endian::Big);
    let schema = Schema {
        record_bytes: vec![4 + 4 * width],
        fields: vec![
            field("row", 0, row, 1),
            field("v", 4, Number::new(NumberType::F32, Endian::Little), width),
        ],
        has_index: true,
    };
    let mut bytes = Vec::new();
    for row in 0..rows {
        bytes.extend((row as u32).to_be_bytes());
        (0..width).for_each(|at| bytes.extend(((row * width + at) as f32).to_le_bytes()));
    }
    (schema, bytes)
}

#[test]
fn operators_and_functions_work_on_each_element_of_a_vector() {
    type Wanted = fn(f64, f64) -> f64;
    let cases: [(&str, Wanted); 9] = [
        ("f64(v * 2)", |v, _| v * 2.0),
        ("f64(-v)", |v, _| -v),
        ("f64(v) + row", |v, row| v + row),
        ("row - f64(v)", |v, row| row - v),
        ("f64(v) * index", |v, row| v * row),
        (
            "where(v > 7, f64(v), 0.5)",
            |v, _| if v > 7.0 { v } else { 0.5 },
        ),
        ("f64(max(v, v[0]) // 3 % 2)", |v, _| (v / 3.0).floor() % 2.0),
        ("f64(not (v < 5 or v >= 9))", |v, _| {
            f64::from(u8::from((5.0..9.0).contains(&v)))
        }),
        ("f64(hash(row) * 0 + 3) + v", |v, _| v + 3.0),
    ];
    for width in [2, 3, 16, 1000, 1024, 1025, 2000] {
        for rows in [1, 2, 5, 70] {
            let (schema, bytes) = vectors(width, rows);
            for (text, wanted) in cases {
                let (kind, made) = run(text, &schema, &[&bytes], rows).unwrap();
                assert_eq!(kind, ColumnType::Number(NumberType::F64));
                let wanted = (0..rows * width).map(|at| wanted(at as f64, (at / width) as f64));
                assert!(
                    made == f64s(&wanted.collect::<Vec<_>>()),
                    "{text}, {rows} x {width}"
                );
            }
        }
    }
}

#[test]
fn a_vector_where_one_value_is_wanted_is_refused_with_what_to_write() {
    let (schema, _) = vectors(16, 1);
    for text in ["v", "v * 2 > 1", "max(v, 1)", "row + v"] {
        for error in [
            Program::compile(&text.parse().unwrap(), &schema).unwrap_err(),
            Program::compile_condition(&text.parse().unwrap(), &schema).unwrap_err(),
        ] {
            assert!(error.cause().contains("`v` is a vector of 16"), "{error}");
            assert!(error.next_step().unwrap().contains("v[15]"), "{error}");
        }
    }
    let two = Schema::zip(&[vectors(16, 1).0, vectors(8, 1).0]);
    let error = Program::compile_elementwise(&"x.v + y.v".parse().unwrap(), &two).unwrap_err();
    assert!(error.cause().contains("`y.v` has 8"), "{error}");
    let error = Program::compile(&"v[16]".parse().unwrap(), &schema).unwrap_err();
    assert!(error.cause().contains("there is no v[16]"), "{error}");
}

#[test]
fn an_integer_to_a_negative_power_is_refused() {
    let schema = Schema::of_columns(&[("a", NumberType::I64), ("b", NumberType::I8)]);
    for text in ["a ** -1", "2 ** -1", "a ** -(3 - 2)", "a ** -x[0]"] {
        let error = run(text, &schema, &[&[0; 8], &[0]], 1);
        if !text.contains('x') {
            let error = error.unwrap_err();
            assert!(error.cause().contains("negative power"), "{error}");
            assert!(
                error.next_step().unwrap().contains("f64(x) ** -1"),
                "{error}"
            );
        }
    }
    let a = [5_i64; 3].map(i64::to_ne_bytes).concat();
    let (_, made) = run("a ** b", &schema, &[&a, &[0, 1, 2]], 3).unwrap();
    assert_eq!(made, [1_i64, 5, 25].map(i64::to_ne_bytes).concat());
    let error = run("a ** b", &schema, &[&a, &[0, 1, 0xFE]], 3).unwrap_err();
    assert!(
        error.cause().contains("the exponent of item 2 is -2"),
        "{error}"
    );
    let (_, made) = run("f64(a) ** -1", &schema, &[&a, &[0; 3]], 3).unwrap();
    assert_eq!(made, f64s(&[0.2; 3]));
}

#[test]
fn the_longest_expressions_are_compiled_on_a_small_stack() {
    let texts = [
        format!("x + ({})", ["1"; 998].join("+")),
        format!("x{}", " + x".repeat(999)),
        format!("{}x{}", "(".repeat(127), ")".repeat(127)),
    ];
    let work = move || {
        for text in texts {
            let compiled =
                Program::compile(&text.parse().unwrap(), &Schema::of_number(NumberType::U64));
            if let Err(error) = compiled {
                assert!(error.cause().contains("columns"), "{error}");
            }
        }
    };
    let small = std::thread::Builder::new().stack_size(1 << 20);
    small.spawn(work).unwrap().join().unwrap();
}

#[test]
fn literals_have_no_type_of_their_own_whatever_they_meet_among_each_other() {
    let (schema, _) = vectors(1, 1);
    for (text, wanted) in [
        ("v * 2.5", NumberType::F32),
        ("v + (-1.5 * (3 - 2))", NumberType::F32),
        ("v * (1 / 3)", NumberType::F32),
        ("v * -(1e10 // 3)", NumberType::F32),
        ("v - min(1, 2.5) ** 2", NumberType::F32),
        ("row + (1 / 3)", NumberType::F64),
        ("1 / 3", NumberType::F64),
    ] {
        let program = Program::compile_elementwise(&text.parse().unwrap(), &schema).unwrap();
        assert_eq!(program.kind(), ColumnType::Number(wanted), "{text}");
    }
}

#[test]
fn an_integer_divided_by_zero_is_an_error_where_its_result_is_used() {
    let schema = Schema::of_columns(&[("a", NumberType::U8), ("b", NumberType::U8)]);
    let (a, b) = ([9, 8, 7], [3, 0, 2]);
    for text in [
        "a // b",
        "a % b",
        "a // 0",
        "1 // 0",
        "a // b > 0 and b != 0",
    ] {
        let error = run(text, &schema, &[&a, &b], 3).unwrap_err();
        assert!(error.cause().contains("divided by zero"), "{text}: {error}");
        assert!(
            error.next_step().unwrap().contains("where(y == 0"),
            "{error}"
        );
    }
    let error = run("a % b", &schema, &[&a, &b], 3).unwrap_err();
    assert!(
        error.cause().contains("the divisor of item 1 is 0"),
        "{error}"
    );
    for (text, wanted) in [
        ("where(b == 0, 1, a // b)", [3, 1, 3]),
        ("where(b != 0, a % b, 5)", [0, 5, 1]),
        ("u8(b != 0 and a // b == 3)", [1, 0, 1]),
        ("u8(b == 0 or a // b == 3)", [1, 1, 1]),
        (
            "u8(case when b == 0 then 1 when a // b == 3 then 2 else 3 end)",
            [2, 1, 2],
        ),
        ("where(b == 0, 1, where(a > 0, a // b, a % b))", [3, 1, 3]),
    ] {
        let (_, made) = run(text, &schema, &[&a, &b], 3).unwrap();
        assert_eq!(made, wanted, "{text}");
    }
}

#[test]
fn the_guide_lists_the_functions_that_there_are() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/guide/expressions.md"
    );
    let guide = std::fs::read_to_string(path).unwrap();
    for entry in FUNCTIONS {
        let line = format!("| `{}`", entry.form());
        let line = guide.lines().find(|known| known.starts_with(&line));
        let line = line.unwrap_or_else(|| panic!("the guide has no {}", entry.form()));
        assert!(line.contains(entry.text), "{line}");
        assert_eq!(
            line.contains("records"),
            entry.place == Place::Both,
            "{line}"
        );
        assert!(entry.names.iter().all(|name| line.contains(name)), "{line}");
    }
    let listed = guide
        .lines()
        .filter(|line| line.starts_with("| `") && line.ends_with("tables |"));
    assert_eq!(listed.count(), FUNCTIONS.len());
    for (name, _) in CASTS {
        assert!(guide.contains(&format!("`{name}(x")), "{name}");
    }
}

/// Type and values of an expression over the bytes 0 to 3.
fn of_bytes(text: &str) -> (ColumnType, Vec<u8>) {
    let schema = Schema::of_number(NumberType::U8);
    let program = Program::compile(&text.parse().unwrap(), &schema).unwrap();
    let mut space = program.space();
    let rows = Rows {
        first: 0,
        count: 4,
        inputs: &[&[0, 1, 2, 3]],
    };
    let column = program.run(&mut space, &rows).unwrap();
    (column.kind, column.bytes.to_vec())
}

#[test]
fn dividing_by_a_constant_is_dividing_by_a_column_of_it() {
    let bits: [u64; 6] = [0, 1, 1000, u64::MAX, 1 << 63, 0x8080_8080_8080_8080];
    let bytes: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let is_whole = |kind: &NumberType| *kind != NumberType::U128 && !kind.is_float();
    for kind in NumberType::ALL.into_iter().filter(is_whole) {
        let schema = Schema::of_number(kind);
        let run = |text: &str| {
            let program = Program::compile(&text.parse().unwrap(), &schema).unwrap();
            let rows = Rows {
                first: 0,
                count: bytes.len() / kind.bytes(),
                inputs: &[&bytes],
            };
            let mut space = program.space();
            let column = program.run(&mut space, &rows).unwrap();
            (column.kind, column.bytes.to_vec())
        };
        for by in [1, 2, 3, 7, 64, 100, -1, -2, -5, -128] {
            if by < 0 && !kind.is_signed_integer() {
                continue;
            }
            for operator in ["//", "%"] {
                let constant = run(&format!("x {operator} {by}"));
                let column = run(&format!("x {operator} ((x & 0) + {by})"));
                assert_eq!(constant, column, "{kind:?} {operator} {by}");
            }
        }
    }
}

#[test]
fn whole_numbers_are_exact_and_without_a_type_until_they_meet_a_column() {
    let u8 = ColumnType::Number(NumberType::U8);
    for (text, expected) in [
        ("x + 7 // 2", [3, 4, 5, 6]),
        ("x + -7 % 4", [1, 2, 3, 4]),
        ("x + -(1 - 3)", [2, 3, 4, 5]),
        ("x + (2 ** 70 >> 69)", [2, 3, 4, 5]),
        ("x + max(-7 // 2, 3 & 6)", [2, 3, 4, 5]),
        ("x + (5 ^ 0x6 | 1)", [3, 4, 5, 6]),
    ] {
        assert_eq!(of_bytes(text), (u8, expected.to_vec()), "{text}");
    }
    let least = [i64::MIN.to_ne_bytes(); 4].concat();
    let i64 = ColumnType::Number(NumberType::I64);
    assert_eq!(of_bytes("-(2 ** 63)"), (i64, least));
}
