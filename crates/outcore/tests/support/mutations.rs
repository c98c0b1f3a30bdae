//! Damaged inputs for the checks of the fuzz targets, without a fuzzer.
//!
//! Contract: each input is one of the seeds with a few bytes changed, inserted, removed or
//! repeated. The number of a failing input is printed and reproduces it. `OUTCORE_MUTATIONS` sets a
//! larger number of inputs (`make mutations`).

use outcore::read::sample::random;

/// Bytes with a meaning for parsers: half of the inserted bytes.
const TELLING: &[u8] = b"()[]{}\"\\:,.+-*/%<>=&|^~ \n\r\t0123456789eExyzrnMhVbR\x00\xff";
/// Default number of inputs; callers use shares of it.
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
