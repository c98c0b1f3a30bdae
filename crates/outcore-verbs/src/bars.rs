//! Counts as bars, for a terminal.
//!
//! Contract: [`chart`] gives a line per count: the label, the count, and a bar whose length is
//! proportional to the count, in eighths of a column. No line is wider than the terminal, unless
//! the labels alone are wider. Pure.

/// A shorter bar would be meaningless.
const BAR_COLUMNS_MIN: usize = 8;
const BAR_COLUMNS_MAX: usize = 60;
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A count and its label.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) count: u64,
}

/// The lines of a chart on a terminal of this many columns.
pub(crate) fn chart(bars: &[Bar], terminal_columns: usize) -> String {
    let width = |text: &str| text.chars().count();
    let labels = bars.iter().map(|bar| width(&bar.label)).max().unwrap_or(0);
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
    let counts = most.to_string().len();
    // Two spaces on either side of the count and one free column at the end make five.
    let left = terminal_columns.saturating_sub(labels + counts + 5);
    let bar_columns = match left {
        ..BAR_COLUMNS_MIN => 0,
        left => left.min(BAR_COLUMNS_MAX),
    };
    let mut text = String::new();
    for bar in bars {
        let blanks = " ".repeat(labels - width(&bar.label));
        let drawn = drawn(bar.count, most, bar_columns);
        let line = format!("{}{blanks}  {:>counts$}  {drawn}", bar.label, bar.count);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A bar whose length is proportional to the count; a count above 0 is visible.
fn drawn(count: u64, most: u64, columns: usize) -> String {
    if most == 0 || columns == 0 {
        return String::new();
    }
    let eighths = (u128::from(count) * columns as u128 * 8).div_ceil(u128::from(most)) as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A number in six digits.
pub(crate) fn short(number: f64) -> String {
    format!("{number:.5e}")
        .parse::<f64>()
        .unwrap_or(number)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(counts: &[u64]) -> Vec<Bar> {
        let label = |at: usize| format!("bin {at}");
        let bar = |(at, count): (usize, &u64)| Bar {
            label: label(at),
            count: *count,
        };
        counts.iter().enumerate().map(bar).collect()
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        let text = chart(&bars(&[0, 1, 500, 1000]), 24);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "bin 0     0");
        assert_eq!(lines[1], "bin 1     1  ▏");
        assert_eq!(lines[2], "bin 2   500  █████");
        assert_eq!(lines[3], "bin 3  1000  ██████████");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in 12..200 {
            let text = chart(&bars(&[3, 70_000, 123_456]), columns);
            for line in text.lines() {
                let wide = line.chars().count();
                assert!(wide < columns.max(14), "{columns}: {line}");
            }
        }
        assert_eq!(chart(&[], 80), "");
    }

    #[test]
    fn numbers_keep_six_digits() {
        assert_eq!(short(-4.376305812708766), "-4.37631");
        assert_eq!(short(1e20), "100000000000000000000");
        assert_eq!(short(0.0), "0");
        assert_eq!(short(f64::INFINITY), "inf");
    }
}
