//! Maps values to places on an axis, and chooses its ticks.
//!
//! Contract: pure. A linear axis begins at zero or below and ends at a round number. A logarithmic
//! axis spans its values, with ticks at powers of two, or at 1, 2 and 5 times powers of ten. Bytes
//! are counted in powers of two on both.

use libm::{ceil, exp2, floor, log2, log10, pow};

use outcore_io::units::Unit;

use crate::chart::{Axis, Scale};

/// Approximate maximum number of ticks on an axis.
const TICKS_MAX: f64 = 9.0;

/// An axis with its extent; places run from 0 to 1.
#[derive(Debug)]
pub(crate) struct Span<'a> {
    axis: &'a Axis,
    low: f64,
    high: f64,
    /// The values of the ticks, not their places.
    pub(crate) ticks: Vec<f64>,
}

/// Whether the axis can show a value.
pub(crate) fn is_shown(axis: &Axis, value: f64) -> bool {
    value.is_finite() && (axis.scale == Scale::Linear || value > 0.0)
}

impl<'a> Span<'a> {
    /// An axis over values that can all be shown; `None` if there are none.
    pub(crate) fn of(
        axis: &'a Axis,
        values: impl Iterator<Item = f64>,
        is_y: bool,
    ) -> Option<Self> {
        let mut are_whole = axis.unit == Unit::Count;
        let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
            are_whole &= floor(value) == value;
            (low.min(value), high.max(value))
        });
        if low > high {
            return None;
        }
        let (low, high, ticks) = if !axis.names.is_empty() {
            let count = axis.names.len() as f64;
            (
                -0.5,
                count - 0.5,
                (0..axis.names.len()).map(|at| at as f64).collect(),
            )
        } else {
            match axis.scale {
                Scale::Linear => {
                    let low = if is_y { low.min(0.0) } else { low };
                    let wide = (high - low).max(high.abs() * 1e-3).max(1e-9);
                    let step = match axis.unit {
                        Unit::Bytes => exp2(ceil(log2(wide / 6.0)).max(0.0)),
                        _ => nice_step(wide / 6.0, are_whole),
                    };
                    linear(low, high, step)
                }
                Scale::Log2 => powers_of_two(low, high),
                Scale::Log10 => powers_of_ten(low, high),
            }
        };
        Some(Span {
            axis,
            low,
            high,
            ticks,
        })
    }

    /// The place of a value, from 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let (low, high, value) = match self.axis.scale {
            Scale::Linear => (self.low, self.high, value),
            Scale::Log2 | Scale::Log10 => (log2(self.low), log2(self.high), log2(value)),
        };
        if high > low {
            (value - low) / (high - low)
        } else {
            0.5
        }
    }

    /// Whether its values are names.
    pub(crate) fn has_names(&self) -> bool {
        !self.axis.names.is_empty()
    }

    /// The text of a value next to its tick.
    pub(crate) fn show(&self, value: f64) -> String {
        match self.axis.names.get(value.round().max(0.0) as usize) {
            Some(name) => name.clone(),
            None => self.axis.unit.show(value),
        }
    }
}

/// Ticks at multiples of the step.
fn linear(low: f64, high: f64, step: f64) -> (f64, f64, Vec<f64>) {
    let first = floor(low / step + 1e-9) * step;
    let last = ceil(high / step - 1e-9) * step;
    let last = if last > first { last } else { first + step };
    let count = ((last - first) / step).round() as usize;
    let ticks = (0..=count).map(|at| first + at as f64 * step).collect();
    (first, last, ticks)
}

/// The smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is not below `step`. With
/// `are_whole` the step is at least 1, because there is nothing to show between whole values.
fn nice_step(step: f64, are_whole: bool) -> f64 {
    let power = pow(10.0, floor(log10(step)));
    let factors = [1.0, 2.0, 2.5, 5.0, 10.0];
    let fits = factors
        .iter()
        .find(|factor| **factor * power >= step * 0.999);
    match fits.unwrap_or(&10.0) * power {
        step if are_whole && step < 1.0 => 1.0,
        step if are_whole && step == 2.5 => 5.0,
        step => step,
    }
}

fn powers_of_two(low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let (first, last) = (floor(log2(low) + 1e-9), ceil(log2(high) - 1e-9));
    let every = ceil((last - first + 1.0) / (TICKS_MAX + 3.0)).max(1.0);
    let mut ticks = Vec::new();
    let mut power = first;
    while power <= last {
        ticks.push(exp2(power));
        power += every;
    }
    let margin = 1.06;
    (exp2(first) / margin, exp2(last) * margin, ticks)
}

fn powers_of_ten(low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let decades = log10(high / low);
    let factors: &[f64] = match decades {
        d if d < 2.5 => &[1.0, 2.0, 5.0],
        d if d < 5.0 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let mut all = Vec::new();
    let mut power = floor(log10(low)) - 1.0;
    while power <= log10(high) + 2.0 {
        all.extend(factors.iter().map(|factor| factor * pow(10.0, power)));
        power += 1.0;
    }
    let bottom = all.iter().copied().rfind(|tick| *tick <= low * 1.001);
    let top = all.iter().copied().find(|tick| *tick >= high * 0.999);
    let (bottom, top) = (bottom.unwrap_or(low), top.unwrap_or(high));
    let inside = |tick: &f64| *tick >= bottom * 0.999 && *tick <= top * 1.001;
    (
        bottom,
        top.max(bottom * 1.01),
        all.into_iter().filter(inside).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, values: &[f64]) -> Vec<f64> {
        let axis = Axis::new("x", Unit::Count).on(scale);
        let span = Span::of(&axis, values.iter().copied(), true).unwrap();
        for tick in &span.ticks {
            let place = span.place(*tick);
            assert!((-0.01..=1.01).contains(&place), "{tick} at {place}");
        }
        span.ticks
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        assert_eq!(
            ticks(Scale::Linear, &[37.0, 81.0]),
            [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        );
        assert_eq!(ticks(Scale::Linear, &[1.0, 2.0]), [0.0, 1.0, 2.0]);
        assert_eq!(
            ticks(Scale::Linear, &[1.0, 12.0]),
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
        );
        assert_eq!(ticks(Scale::Linear, &[0.5, 1.5]).len(), 7);
        assert_eq!(ticks(Scale::Log2, &[1.0, 8.0]), [1.0, 2.0, 4.0, 8.0]);
        let sizes = ticks(Scale::Log2, &[512.0, 16_777_216.0]);
        assert!(sizes.len() <= 12 && sizes.iter().all(|size| log2(*size).fract() == 0.0));
        let decades = ticks(Scale::Log10, &[3.0, 900_000.0]);
        assert_eq!(decades.first(), Some(&1.0));
        assert!(decades.last() >= Some(&900_000.0));
    }

    #[test]
    fn ticks_of_bytes_are_round_as_bytes_are_shown() {
        let axis = Axis::new("x", Unit::Bytes);
        let values = [411_299_840.0, 134_426_624.0].into_iter();
        let span = Span::of(&axis, values, true).unwrap();
        let shown: Vec<String> = span.ticks.iter().map(|tick| span.show(*tick)).collect();
        assert_eq!(shown, ["0", "128 MiB", "256 MiB", "384 MiB", "512 MiB"]);
        let span = Span::of(&axis, [0.0, 3.0].into_iter(), true).unwrap();
        assert_eq!(span.ticks, [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn one_value_and_equal_values_have_an_axis() {
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
            for values in [&[5.0][..], &[7.0, 7.0]] {
                assert!(!ticks(scale, values).is_empty(), "{scale:?}");
            }
        }
        assert!(!ticks(Scale::Linear, &[0.0]).is_empty());
    }
}
