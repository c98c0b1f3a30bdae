//! Decides which of the paper's figures are reproduced in size, in direction only, or not at all.
//!
//! Contract: pure. A statement of orders of magnitude is reproduced in size if every row gains ten
//! times, in direction if every row gains. A statement with a percentage is reproduced in size if
//! the change here is between half and twice the paper's, in direction if it has the same sign.

use std::fmt::Write;

use super::{Experiment, Point};

/// Gain of "orders of magnitude".
const MAGNITUDE: f64 = 10.0;

/// A statement of the paper, and the value found here.
struct Verdict {
    statement: String,
    paper: &'static str,
    here: String,
    reproduced: &'static str,
    why: &'static str,
}

/// The reasons. For networks, the columns with one mechanism alone show the reasons. For lavaMD,
/// its second row shows them.
const OF_NETWORKS: &str = "a sector in a page of 16 KiB costs a read and a program of the page, and \
     GPT-2 writes the same pages for each token, on the same planes if allocation is static; half \
     of BERT's requests are reads";
const OF_TRACES: &str = "unknown: the paper's traces are not public";
const OF_LAVAMD: &str = "each box is read 27 times, and neighbours in a chunk share what they read";
const OF_MEMORY: &str = "the drive receives only the forces, and round-robin + CWDP spreads the \
     forces of neighbouring boxes over channels";

/// One Markdown table for the statements on the experiments that ran; `None` if there are none.
pub(crate) fn verdict_table(experiments: &[Experiment]) -> Option<String> {
    let mut verdicts = Vec::new();
    for experiment in experiments {
        match experiment.name {
            "networks" => verdicts.extend(of_networks(experiment)),
            "schedules" => verdicts.extend(of_schedules(experiment)),
            _ => {}
        }
    }
    if verdicts.is_empty() {
        return None;
    }
    let mut text =
        String::from("| statement | paper | here | reproduced | why |\n|---|---|---|---|---|\n");
    for verdict in verdicts {
        let Verdict {
            statement,
            paper,
            here,
            reproduced,
            why,
        } = verdict;
        let _ = writeln!(
            text,
            "| {statement} | {paper} | {here} | {reproduced} | {why} |"
        );
    }
    Some(text)
}

fn of_networks(experiment: &Experiment) -> Vec<Verdict> {
    let gains = |of: fn(&Point, &Point) -> f64| -> Vec<f64> {
        let rows = experiment.rows.iter();
        rows.filter_map(|row| {
            let base = experiment.point(row, "static, page")?;
            Some(of(base, experiment.point(row, "dynamic, fine")?))
        })
        .collect()
    };
    let figures: [(&str, Vec<f64>); 3] = [
        ("Fig. 4: IOPS", gains(|base, ours| ours.iops / base.iops)),
        (
            "Fig. 5: device response",
            gains(|base, ours| base.response_us / ours.response_us),
        ),
        (
            "Fig. 6: end time",
            gains(|base, ours| base.end_ms / ours.end_ms),
        ),
    ];
    let verdict = |(name, gains): (&str, Vec<f64>)| {
        let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let most = gains.iter().copied().fold(0.0, f64::max);
        let large = gains.iter().filter(|gain| **gain >= MAGNITUDE).count();
        let reproduced = match (large, least) {
            (large, _) if large == gains.len() => "in size",
            (1.., 1.0..) => "in size in some rows, in direction in all",
            (0, 1.0..) => "in direction",
            _ => "not in all rows",
        };
        Verdict {
            statement: format!("{name}, dynamic and fine over static and page"),
            paper: "orders of magnitude",
            here: format!(
                "{least:.1} to {most:.1} times; ten in {large} of {} rows",
                gains.len()
            ),
            reproduced,
            why: OF_NETWORKS,
        }
    };
    figures.into_iter().map(verdict).collect()
}

fn of_schedules(experiment: &Experiment) -> Vec<Verdict> {
    let at = |row: &str, column: &str| experiment.point(row, column);
    let (slow, fast) = ("round-robin, CDWP", "large-chunk, WCDP");
    let mut verdicts = Vec::new();
    if let (Some(base), Some(ours)) = (at("backprop", slow), at("backprop", fast)) {
        let change = ours.iops / base.iops - 1.0;
        verdicts.push(percentage(
            "Fig. 7, backprop: IOPS of large-chunk + WCDP over round-robin + CDWP",
            &Change {
                shown: "+128 %",
                share: 1.28,
                why: OF_TRACES,
            },
            change,
        ));
    }
    if let (Some(base), Some(ours)) = (at("backprop", slow), at("backprop", "large-chunk, CWDP")) {
        let change = ours.response_us / base.response_us - 1.0;
        verdicts.push(percentage(
            "Fig. 8, backprop: response of large-chunk + CWDP over round-robin + CDWP",
            &Change {
                shown: "-85 %",
                share: -0.85,
                why: OF_TRACES,
            },
            change,
        ));
    }
    let hotspot = experiment.points.iter().filter(|p| p.row == "hotspot");
    let iops: Vec<f64> = hotspot.map(|point| point.iops).collect();
    let least = iops.iter().copied().fold(f64::INFINITY, f64::min);
    let most = iops.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        verdicts.push(percentage(
            "Fig. 7, hotspot: the best combination's IOPS over the worst's",
            &Change {
                shown: "+92 %",
                share: 0.92,
                why: OF_TRACES,
            },
            most / least - 1.0,
        ));
    }
    for (row, statement, why) in [
        (
            "lavamd",
            "Fig. 9, lavaMD: end of round-robin + CWDP over large-chunk + WCDP",
            OF_LAVAMD,
        ),
        (
            "lavamd, boxes in memory",
            "the same, boxes in memory",
            OF_MEMORY,
        ),
    ] {
        if let (Some(base), Some(ours)) = (at(row, fast), at(row, "round-robin, CWDP")) {
            let change = ours.end_ms / base.end_ms - 1.0;
            verdicts.push(percentage(
                statement,
                &Change {
                    shown: "-21 %",
                    share: -0.21,
                    why,
                },
                change,
            ));
        }
    }
    verdicts
}

/// A change that the paper states.
struct Change {
    shown: &'static str,
    share: f64,
    why: &'static str,
}

fn percentage(statement: &str, paper: &Change, change: f64) -> Verdict {
    Verdict {
        statement: statement.to_owned(),
        paper: paper.shown,
        here: format!("{:+.1} %", change * 100.0),
        reproduced: match change / paper.share {
            0.5..=2.0 => "in size",
            share if share > 0.0 => "in direction",
            _ => "no",
        },
        why: paper.why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_to_twice_the_change_is_its_size_and_the_same_sign_its_direction() {
        let of = |change| {
            percentage(
                "",
                &Change {
                    shown: "-20 %",
                    share: -0.2,
                    why: "",
                },
                change,
            )
            .reproduced
        };
        assert_eq!(of(-0.11), "in size");
        assert_eq!(of(-0.39), "in size");
        assert_eq!(of(-0.05), "in direction");
        assert_eq!(of(-0.5), "in direction");
        assert_eq!(of(0.1), "no");
    }
}
