//! Damaged inputs for the checks of the fuzz targets, where there is no fuzzer.
//!
//! Contract: each input is one of the seeds with a few bytes changed, inserted, removed or
//! repeated; the number of an input that fails is printed and makes the same input again.
//! `OUTCORE_MUTATIONS` asks for more of them (`make mutations`).

use outcore::read::sample::random;

/// What parsers give meaning to: half of the bytes that are put in.
const TELLING: &[u8] = b"()[]{}\"\\:,.+-*/%<>=&|^~ \n\r\t0123456789eExyzrnMhVbR\x00\xff";
/// Inputs where nothing asks for more; callers give shares of it.
pub const INPUTS: u64 = 4000;

/// Checks the seeds, then `inputs` damaged ones.
pub fn mutations(check: fn(&[u8]), inputs: u64, seeds: &[&[u8]]) {
    let asked = std::env::var("OUTCORE_MUTATIONS").ok();
    let asked = asked.and_then(|text| text.parse::<u64>().ok());
    let inputs = asked.map_or(inputs, |asked| asked * inputs / INPUTS);
    for seed in seeds {
        check(seed);
    }
    for number in 0..inputs {
        let mut draws = 0;
        let mut below = |limit: usize| {
            draws += 1;
            (random(number, draws) % limit.max(1) as u64) as usize
        };
        let mut input = seeds[below(seeds.len())].to_vec();
        for _ in 0..1 + below(5) {
            let at = below(input.len() + 1);
            let byte = match below(2) {
                0 => below(256) as u8,
                _ => TELLING[below(TELLING.len())],
            };
            match below(4) {
                0 => input.insert(at, byte),
                1 => drop(input.drain(at..(at + 3).min(input.len()))),
                2 if at < input.len() => input[at] = byte,
                _ => {
                    let again = input[at..].to_vec();
                    input.extend(again);
                }
            }
        }
        let outcome = std::panic::catch_unwind(|| check(&input));
        assert!(outcome.is_ok(), "input {number}: {}", input.escape_ascii());
    }
}
