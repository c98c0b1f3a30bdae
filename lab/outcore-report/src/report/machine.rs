//! Facts about the machine of a report (processor, memory, kernel, version), and the time.
//!
//! Contract: read once, from /proc. Values that the system does not provide are omitted. No names
//! of hosts or users, because reports are meant to be shared.

use std::time::{SystemTime, UNIX_EPOCH};

use outcore_io::drive::paths;
use outcore_io::units;

use super::Fact;

/// Facts about this machine.
pub(crate) fn facts() -> Vec<Fact> {
    let read = |path: &str| paths::system_text(path).unwrap_or_default();
    let mut facts = vec![Fact::new("outcore", env!("CARGO_PKG_VERSION"))];
    let cpu = read("/proc/cpuinfo");
    if let Some(model) = field(&cpu, "model name") {
        facts.push(Fact::new("processor", model));
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    facts.push(Fact::new("hardware threads", threads.to_string()));
    let memory = field(&read("/proc/meminfo"), "MemTotal").and_then(|text| {
        text.split(' ')
            .next()
            .and_then(|kib| kib.parse::<u64>().ok())
    });
    if let Some(kib) = memory {
        facts.push(Fact::new("memory", units::bytes(kib << 10)));
    }
    let kernel = read("/proc/sys/kernel/osrelease");
    if !kernel.trim().is_empty() {
        facts.push(Fact::new("kernel", kernel.trim()));
    }
    facts
}

/// The value of `NAME : value` in a file of /proc.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The current time, as `2026-11-22T03:00:00Z`.
pub(crate) fn now_utc() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(since.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as date and time (Hinnant, "chrono-compatible low-level date algorithms").
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), wanted);
        }
    }

    #[test]
    fn facts_name_version_and_threads() {
        let names: Vec<String> = facts().into_iter().map(|fact| fact.name).collect();
        assert!(names.contains(&"outcore".to_owned()) && names.contains(&"kernel".to_owned()));
    }
}
