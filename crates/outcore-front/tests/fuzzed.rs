//! The checks of the fuzz targets for expressions, for text and for the code that guards users'
//! data, on a fixed number of inputs.
//!
//! Contract: inputs are well-formed, except for a few bytes that are changed, removed or doubled.
//! They follow from a seed, which a failure prints. Each target gets inputs for about a second.
//! `make fuzz` tests more inputs.

#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/src/text.rs"]
#[allow(unreachable_pub)]
mod text;

#[path = "../../../fuzz/src/data.rs"]
#[allow(unreachable_pub)]
mod data;

#[path = "../../outcore/tests/support/mutations.rs"]
#[allow(unreachable_pub)]
mod mutations;

use mutations::{INPUTS, mutations as run_bytes};

fn run(check: fn(&[u8]), seeds: &[&str]) {
    let seeds: Vec<&[u8]> = seeds.iter().map(|seed| seed.as_bytes()).collect();
    run_bytes(check, INPUTS, &seeds);
}

#[test]
fn expressions_give_each_row_its_number_whatever_is_written() {
    run(
        text::expression,
        &[
            "x * 2 + 1\n\x01\x02\x03\x04\x05\x06\x07\x08abc",
            "(x % 7 == 0) & ~(y > 1e9) | x << 3 ^ 0xff\nabcdefg",
            "where(x // 3 > 10 and not isnan(y), sqrt(abs(y)) ** 2, f64(index) / 3)\n1234567",
            "min(u8(x), i64(y), -x) - max(x, 3.5e-2) % hash(index)\n\x00",
            "((((((x))))))\n",
        ],
    );
}

#[test]
fn keys_of_gnu_sort_order_lines_the_same_from_both_sides() {
    run(
        text::line_key,
        &[
            "2,2n\n,a,10\n,b,9",
            "1.2b,3.4br\n one two three\n  four",
            "1V\nfile-1.10.tar.gz\nfile-1.9",
            "1h\n2K\n1.5M",
            "1g\n-1e-300\nnan",
            "2M\nx JAN\nx feb",
            "1df\nAb c\n-aB",
            "1R\na\nb",
        ],
    );
}

#[test]
fn csv_is_cut_into_the_same_records_whatever_pieces_it_comes_in() {
    run(
        text::csv,
        &[
            "price:n\nid,price,\"a, b\"\n1,10,x\n2,9,\"y\n\"\"z\"\"\"\n",
            "2\nid,price\r\n1,\"10\"\r\n2,\"9\"\r\n",
            "a b\n\"a b\"\n\"1\n2\"\n3",
        ],
    );
}

#[test]
fn fields_of_json_order_lines_the_same_from_both_sides() {
    run(
        text::json,
        &[
            ".user.id\n{\"user\": {\"id\": 10}}\n{\"user\": {\"id\": 9}}",
            ".a[1]:r\n{\"a\": [1, \"\\u00e9\\n\"]}\n{\"a\": [null, true]}",
            ".\"x y\"\n{\"x y\": -1.5e300, \"z\": {}}\n{\"x y\": 1e-7}",
            ".a\n{\"a\": \"\\ud83d\\ude00\"}\n{\"a\": \"\\ud83d\"}",
        ],
    );
}

#[test]
fn headers_of_npy_are_refused_or_written_again_alike() {
    let header = |text: &str| {
        [
            b"\x93NUMPY\x01\x00".as_slice(),
            &[text.len() as u8, 0],
            text.as_bytes(),
        ]
        .concat()
    };
    let whole = [
        header("{'descr': '<u8', 'fortran_order': False, 'shape': (10,), }\n"),
        header("{'descr': '>f4', 'fortran_order': False, 'shape': (3, 7), }\n"),
        header(
            "{'descr': [('a', '<i4'), ('b', '|S3'), ('c', [('d', '<f8', (2,))])], 'fortran_order': False, 'shape': (5,), }\n",
        ),
    ];
    let seeds: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
    run_bytes(data::npy, INPUTS, &seeds);
}

#[test]
fn drives_files_are_refused_or_written_again_alike() {
    run(
        data::drives,
        &[
            "[[drive]]\nname = \"a\"\ndir = \"x\"\nread_bandwidth = \"2GB/s\"\nread_iops = 100000\n",
            "[[drive]]\ndir = \"/mnt/a\"\ngroup = \"g\"\n[[group]]\nname = \"g\"\ndepth = 64\nread_bandwidth = \"6GB/s\"\n",
        ],
    );
}

#[test]
fn settings_are_refused_or_hold_whatever_is_written() {
    run_bytes(
        data::config,
        INPUTS / 2,
        &[
            b"memory = \"4GiB\"\nthreads = 8\nio = \"direct\"\nscratch_limit = \"1TB\"\n",
            b"threads = 2\n--\nOUTCORE_MEMORY=2GiB\nOUTCORE_THREADS=4\nOUTCORE_IO=buffered",
        ],
    );
}

#[test]
fn a_damaged_view_is_refused_or_gives_what_was_put_into_it() {
    run_bytes(
        data::view,
        INPUTS / 8,
        &[
            &[0, 0, 10, 0, 2, 1, 2, 200, 3, 1, 7],
            &[0, 1, 0, 1, 1, 0xff],
            &[0, 2, 0xff, 0x10, 4, 0, 0, 0, 0],
            b"\x01{\"outcore\": \"sorted view\", \"version\": 2, \"body\": {}}",
            &[2, 30, 0, 1, b'9'],
            &[2, 90, 0, 2, b'4', b'2'],
            &[2, 200, 0, 3, b'0', b'0', b'0'],
        ],
    );
}

#[test]
fn a_damaged_dataset_is_refused_or_gives_what_was_put_into_it() {
    run_bytes(
        data::dataset,
        INPUTS / 8,
        &[
            &[0, 0, 10, 0, 2, 1, 2, 200, 3, 1, 7],
            &[0, 2, 0, 1, 1, 0xff],
            &[1, 0, b'{', b'}'],
            &[2, 0, 30, 0, 1, b'9'],
            &[2, 0, 120, 0, 2, b'4', b'2'],
            b"\x03outcore directory 2 755 0 0\nf 644 0 0 10 a\nd 755 0 0 0 b\nl 777 0 0 0 c\ta\n",
        ],
    );
}

#[test]
fn sorts_with_random_options_agree_with_the_naive_one() {
    run_bytes(
        data::sorting,
        INPUTS / 80,
        &[
            b"\x01\x00\x00\x00\x03the quick brown fox",
            b"\x05\x06\x01\x02\x02jumps over the lazy dog",
            b"\x08\x02\x02\x01\x03\xff\xfe0123456789",
            b"\x09\x05\x03\x00\x01abcabcabc\x00\x00",
        ],
    );
}
