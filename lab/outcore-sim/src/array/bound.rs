//! Finds what a replay waited for most.
//!
//! Contract: a pure function of measurements: the use of every drive's resources until the last
//! request was completed, the shares of the time in which each drive and the whole array had
//! requests, and the time of the last request. The limit is the resource that takes most of the
//! time. If the drives, one after another, have requests for most of the time, they limit the job.

use super::DriveReport;
use crate::quantities::Ps;

/// If a larger share of a replay follows the due time of its last request, the drives count as the
/// limit.
const BEHIND: f64 = 0.05;

/// If there are requests on any drive for at least this share of the time, the drives count as the
/// limit, even if no single drive has requests for that long.
const OCCUPIED: f64 = 0.5;

/// Shares of the time of a replay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    /// The share of the time in which the shared ceiling was in use.
    pub(super) shared: f64,
    /// The share of the time in which any request was in flight.
    pub(super) occupied: f64,
}

/// The reason why a job has no request on the drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// It computes.
    Computation,
    /// Its next request is not due: the trace fixes the time. Holds the due time of the last
    /// request.
    Pace(Ps),
    /// It waits for one of its requests in flight, because their number is limited.
    Depth,
    /// It waits for other requests, on which its next requests depend.
    Order,
}

/// The limit of the job, according to the measurements.
pub(super) fn bottleneck(
    drives: &[DriveReport],
    shares: Shares,
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
    if shares.shared > 0.9 {
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
        Between::Computation | Between::Order if drives.len() > 1 && shares.occupied > OCCUPIED => {
            let busiest = drives.iter().max_by(|a, b| a.busy.total_cmp(&b.busy));
            let resource = busiest.map_or("nothing", |drive| drive.resource.0);
            return format!("drives, one after another: {resource}; the load is uneven in time");
        }
        Between::Computation => "computation between requests",
        Between::Order => "the order of the requests: they wait for one another",
    }
    .to_owned()
}
