//! Computes how many pages of a block are valid in the steady state of a collector.
//!
//! Model: B. Van Houdt, "A mean field model for a class of garbage collection algorithms in
//! flash-based solid state drives", SIGMETRICS 2013: d-choices (greedy as 30 choices), RANDOM,
//! RANDOM+ and RANDOM++ under uniform writes; hot/cold traffic as stretched uniform traffic. All
//! functions return the probabilities of 0, 1, .. `pages` valid pages. Integer powers are repeated
//! products, so that the results are the same on every machine.
//!
//! MQSim integrates the differential equation over ten units of time. For blocks of more than about
//! 800 pages the result grows without bounds, or starts with coefficients that no float can hold.
//! MQSim also has no block with all of its pages valid, so there are fewer valid pages than the
//! load implies. [`steady_field`] solves directly for the state at which the equation comes to
//! rest.

/// Power with an integer exponent by repeated multiplication; the same result on every machine.
pub(super) fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut base, mut exponent) = (1.0, base, exponent);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

fn choose(n: u32, k: u32) -> f64 {
    let k = k.min(n - k);
    let mut result = 1.0;
    for i in 1..=k {
        result *= f64::from(n - i + 1);
        result /= f64::from(i);
    }
    result
}

/// The mean field limit of d-choices collection under uniform writes, at rest. Let `w[i]` be the
/// probability of at least `i` valid pages, and `moved` the pages that a collection moves, the sum
/// of `w[i]^d`. Van Houdt's equation is then
/// `1 - w[i]^d = (b - moved) i (w[i] - w[i+1]) / (b load)`. For a given `moved` it yields `w` from
/// the last page down; only the correct `moved` reproduces itself. Cost: a few hundred steps per
/// page.
pub(super) fn steady_field(pages: u32, load: f64, choices: u32) -> Vec<f64> {
    let b = pages as usize;
    let mut w = vec![0.0; b + 2];
    w[0] = 1.0;
    let (mut least, mut most) = (0.0, b as f64);
    while load > 0.0 && most - least > 1e-12 * most {
        let moved = (least + most) / 2.0;
        let ends = moved <= least || moved >= most;
        for i in (1..=b).rev() {
            let rate = (b as f64 - moved) * i as f64 / (b as f64 * load);
            w[i] = root(rate, choices, w[i + 1]);
        }
        if w[1..=b].iter().map(|p| power(*p, choices)).sum::<f64>() > moved {
            least = moved;
        } else {
            most = moved;
        }
        if ends {
            break;
        }
    }
    (0..=b).map(|i| w[i] - w[i + 1]).collect()
}

/// The root `w` of `rate w + w^d = 1 + rate above`, between `above` and 1. Newton's method from the
/// right, where the left side, which is convex and rising, is too large.
fn root(rate: f64, choices: u32, above: f64) -> f64 {
    let mut w = 1.0;
    for _ in 0..200 {
        let lower = power(w, choices - 1);
        let excess = rate * (w - above) + lower * w - 1.0;
        let next = w - excess / (rate + f64::from(choices) * lower);
        if next >= w {
            break;
        }
        w = next;
    }
    w.max(above)
}

/// MQSim's solution: Euler's method on the differential equation, from a binomial start, with
/// MQSim's step and number of rounds. Returns the state at rest where that gives no valid numbers.
pub(super) fn mean_field(pages: u32, load: f64, choices: u32) -> Vec<f64> {
    const STEP: f64 = 0.001;
    const ROUNDS_MAX: u32 = 10_000;
    const CHANGE_MIN: f64 = 1e-10;
    let b = pages as usize;
    let start: Vec<f64> = (0..=pages)
        .map(|i| choose(pages, i) * power(load, i) * power(1.0 - load, pages - i))
        .collect();
    // w[i]: probability of at least i valid pages.
    let mut w = vec![0.0; b + 2];
    for i in (1..=b).rev() {
        w[i] = w[i + 1] + start[i];
    }
    w[0] = 1.0;
    let mut next = w.clone();
    next[b] = 0.0;
    let mut powers = Vec::with_capacity(w.len());
    for _ in 0..ROUNDS_MAX {
        powers.clear();
        powers.extend(w.iter().map(|value| power(*value, choices)));
        let sigma: f64 = powers[1..=b].iter().sum();
        for i in 1..b {
            let drain = (b as f64 - sigma) * (i as f64 * (w[i] - w[i + 1])) / (b as f64 * load);
            next[i] = w[i] + STEP * (1.0 - powers[i] - drain);
        }
        let change = (1..=b).map(|i| (next[i] - w[i]).abs()).fold(0.0, f64::max);
        w[1..].copy_from_slice(&next[1..]);
        if change <= CHANGE_MIN {
            break;
        }
    }
    if w.iter().any(|value| !(-1e-6..=1.0 + 1e-6).contains(value)) {
        return steady_field(pages, load, choices);
    }
    (0..=b).map(|i| w[i] - w[i + 1]).collect()
}

pub(super) fn random_states(pages: u32, load: f64) -> Vec<f64> {
    let mut states: Vec<f64> = (0..=pages)
        .map(|i| {
            let first = load / (load + power(1.0 - load, i));
            (i + 1..=pages).fold(first, |product, j| {
                let weight = (1.0 - load) * f64::from(j);
                product * weight / (load + weight)
            })
        })
        .collect();
    for i in (1..states.len()).rev() {
        states[i] -= states[i - 1];
    }
    states
}

pub(super) fn random_pp_states(pages: u32, load: f64, least: u32) -> Vec<f64> {
    let b = f64::from(pages);
    let sum: f64 = (least + 1..=pages).map(|j| 1.0 / f64::from(j)).sum();
    let a_r = b - f64::from(least) - b * sum;
    let b_r = load * sum + 1.0 - load;
    let c_r = -load / b;
    let mu = (-b_r + libm::sqrt(b_r * b_r - 4.0 * a_r * c_r)) / (2.0 * a_r);
    let mut states = vec![0.0; pages as usize + 2];
    for i in (0..=pages).rev() {
        let at = i as usize;
        states[at] = if i <= least {
            let drain = load / (1.0 - load - mu * (b * sum - b + f64::from(least)));
            f64::from(i + 1) * states[at + 1] / (f64::from(i) + drain)
        } else if i < pages {
            b * mu / f64::from(i)
        } else {
            mu
        };
    }
    states.truncate(pages as usize + 1);
    states
}

pub(super) fn hot_cold_states(states: &[f64], ratio: f64) -> Vec<f64> {
    let pages = states.len() - 1;
    let stretch = libm::sqrt((1.0 - ratio) / ratio);
    let mean: f64 = states.iter().enumerate().map(|(i, p)| i as f64 * p).sum();
    let mut out: Vec<f64> = (0..=pages)
        .map(|i| {
            let at = ((i as f64 - mean) * stretch) as i64;
            if at < 0 || at >= pages as i64 {
                0.0
            } else {
                stretch * states[at as usize]
            }
        })
        .collect();
    let sum: f64 = out.iter().sum();
    if sum > 0.0 {
        out.iter_mut().for_each(|p| *p /= sum);
    }
    out
}

/// Shifts a distribution of valid pages so that its mean is `mean` (a share of the pages).
pub(super) fn shift_to_mean(states: &[f64], mean: f64) -> Vec<f64> {
    let pages = states.len() - 1;
    let model: f64 = states
        .iter()
        .enumerate()
        .map(|(i, p)| p * i as f64 / pages as f64)
        .sum();
    let mut out = states.to_vec();
    if (model - mean).abs() * pages as f64 <= 0.9999 {
        return out;
    }
    let by = ((mean - model) * pages as f64) as i64;
    for (i, value) in out.iter_mut().enumerate().take(pages) {
        let from = i as i64 - by;
        let inside = if by > 0 {
            from >= 0
        } else {
            (i as i64) < pages as i64 + by
        };
        *value = if inside { states[from as usize] } else { 0.0 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_field_distribution_sums_to_one_and_has_the_load_as_its_mean() {
        for pages in [1, 64, 256, 832, 1030, 4096] {
            for (load, choices) in [(0.2, 1), (0.5, 8), (0.75, 11), (0.9, 30), (0.98, 30)] {
                let states = steady_field(pages, load, choices);
                let case = format!("{pages} pages, load {load}, {choices} choices");
                let sum: f64 = states.iter().sum();
                assert!((sum - 1.0).abs() < 1e-9, "{sum} with {case}");
                assert!(
                    (mean(&states) - load).abs() < 1e-6,
                    "{case}: {}",
                    mean(&states)
                );
                assert!(states.iter().all(|p| *p >= 0.0), "{case}");
            }
        }
    }

    fn mean(states: &[f64]) -> f64 {
        let pages = states.len() as f64 - 1.0;
        let each = states.iter().enumerate();
        each.map(|(i, p)| i as f64 * p).sum::<f64>() / pages
    }

    #[test]
    fn the_state_at_rest_is_where_the_differential_equation_leads() {
        for (pages, load, choices) in [(256, 0.5, 8), (256, 0.75, 11), (832, 0.9, 30)] {
            let rest = steady_field(pages, load, choices);
            let followed = mean_field(pages, load, choices);
            // MQSim's solution has no block whose pages are all valid, so its mean is a little
            // lower.
            let off = (mean(&rest) - mean(&followed)) * f64::from(pages);
            assert!(off > 0.0 && off < 8.0, "{off} pages with {pages} at {load}");
            let (mut below, mut other) = (0.0, 0.0);
            for at in 0..=pages as usize {
                below += rest[at];
                other += followed[at];
                assert!((below - other).abs() < 0.05, "{at}: {below} and {other}");
            }
        }
        // Cases in which the differential equation diverges.
        for (pages, load, choices) in [(832, 0.5, 8), (1030, 0.9, 30)] {
            assert_eq!(
                mean_field(pages, load, choices),
                steady_field(pages, load, choices)
            );
        }
    }

    #[test]
    fn degenerate_drives_have_states_too() {
        for (pages, load, choices) in [(1, 0.9, 30), (2, 0.5, 1), (64, 0.0, 8), (64, 0.999, 1)] {
            let states = steady_field(pages, load, choices);
            let sum: f64 = states.iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum} with {pages} at {load}");
        }
    }

    #[test]
    fn shifting_moves_the_mean_by_whole_pages() {
        let mut states = vec![0.0; 11];
        states[4] = 1.0;
        assert_eq!(shift_to_mean(&states, 0.71)[7], 1.0);
        assert_eq!(shift_to_mean(&states, 0.19)[2], 1.0);
    }
}
