//! Finds what a replay waited for most.
//!
//! Contract: a pure function of measurements: the use of every drive's resources until the last
//! request was completed, the share of the time in which drives had requests, and the time of the
//! last request.

use super::DriveReport;
use crate::quantities::Ps;

/// Share of a replay that may follow the due time of its last request before the drives count as
/// the limit.
const BEHIND: f64 = 0.05;

/// The reason why a job has no request on the drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// It computes.
    Computation,
    /// Its next request is not due: the trace fixes the time. Holds the due time of the last
    /// request.
    Pace(Ps),
    /// One of its requests in flight, whose number is limited.
    Depth,
    /// Other requests, on which its next requests depend.
    Order,
}

/// The limit of the job, according to the measurements.
pub(super) fn bottleneck(
    drives: &[DriveReport],
    shared_utilisation: f64,
    between: Between,
    end: Ps,
) -> String {
    // If the trace fixes the times of requests, the drives are the limit only if they are still
    // busy well after the last request was due.
    if let Between::Pace(last) = between
        && end.saturating_sub(last) as f64 <= BEHIND * end as f64
    {
        return "the trace's own pace".to_owned();
    }
    let busiest = drives.iter().map(|drive| drive.busy).fold(0.0, f64::max);
    let idlest = drives.iter().map(|drive| drive.busy).fold(1.0, f64::min);
    let deepest = drives
        .iter()
        .map(|drive| drive.resource)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or(("nothing", 0.0));
    if shared_utilisation > 0.9 {
        return "shared ceiling".to_owned();
    }
    if deepest.1 > 0.8 {
        return format!("drives: {}", deepest.0);
    }
    if busiest > 0.9 && idlest < 0.5 {
        return format!("drives: {}; the load is uneven", deepest.0);
    }
    match between {
        Between::Pace(_) => "drives: latency of the last requests",
        Between::Depth => "drives: latency (more requests in flight would help)",
        _ if busiest > 0.9 => "drives: latency (more requests in flight would help)",
        Between::Computation => "computation between requests",
        Between::Order => "the order of the requests: they wait for one another",
    }
    .to_owned()
}
