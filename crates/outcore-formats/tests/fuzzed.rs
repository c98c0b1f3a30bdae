//! The checks of the fuzz targets of expressions and text, on a fixed number of inputs.
//!
//! Contract: inputs are well-formed ones with a few bytes changed, cut out or doubled, from a seed that
//! is printed where one fails; each target gets as many as take about a second. `make fuzz` looks further.

#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/src/text.rs"]
#[allow(unreachable_pub)]
mod text;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

const INPUTS: u64 = 4000;
/// What parsers give meaning to.
const TELLING: &[u8] = b"()[]{}\"\\:,.+-*/%<>=&|^~ \n\r\t0123456789eExyzrnMhVbR\x00\xff";

fn run(check: fn(&[u8]), seeds: &[&str]) {
    for seed in seeds {
        check(seed.as_bytes());
    }
    for number in 0..INPUTS {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(number);
        let mut input = seeds[random.random_range(0..seeds.len())]
            .as_bytes()
            .to_vec();
        for _ in 0..random.random_range(1..6) {
            let at = random.random_range(0..=input.len());
            let telling = TELLING[random.random_range(0..TELLING.len())];
            match random.random_range(0..4) {
                0 => input.insert(at, telling),
                1 => drop(input.drain(at..(at + 3).min(input.len()))),
                2 if at < input.len() => input[at] = telling,
                _ => {
                    let again = input[at..].to_vec();
                    input.extend(again);
                }
            }
        }
        let outcome = std::panic::catch_unwind(|| check(&input));
        assert!(outcome.is_ok(), "seed {number}: {}", input.escape_ascii());
    }
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
