//! What a replay waited for most.
//!
//! Contract: pure, and by what was measured alone: the use of every drive's resources until the
//! last request was completed, the share of the time in which drives had requests, and when the
//! last request came.

use super::DriveReport;
use crate::quantities::Ps;

/// Share of a replay that may come after its last request was due, without the drives being what it
/// waited for.
const BEHIND: f64 = 0.05;

/// What a job does while the drives have nothing to do for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// It computes.
    Computation,
    /// Its next request is not due: the trace says when it comes. The last one came at this time.
    Pace(Ps),
    /// It waits for one of its requests in flight, whose number is limited.
    Depth,
    /// Its next requests wait for others.
    Order,
}

/// What the time of the job was spent on, by what was measured.
pub(super) fn bottleneck(
    drives: &[DriveReport],
    shared_utilisation: f64,
    between: Between,
    end: Ps,
) -> String {
    // Requests that come when the trace says so are held up by the drives only if those are not
    // done by the time the last one has come.
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
