//! The process that owns something which other processes and machines can see.
//!
//! Contract: an [`Owner`] names a process of one boot of one machine. Whether it still runs is
//! known on that machine only ([`Owner::is_alive`]). An owner includes the start time of its
//! process, because the system reuses process numbers.

/// A process of one boot of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The number of the boot.
    pub boot: String,
    /// The number of the process.
    pub process: String,
    /// Start of the process, in ticks since the boot; empty if there is no such process.
    pub started: String,
}

impl Owner {
    /// The running process.
    pub fn this() -> Self {
        Owner::of(&std::process::id().to_string())
    }

    fn of(process: &str) -> Self {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name of the program, in parentheses, may contain spaces.
        let behind = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Owner {
            boot: boot.unwrap_or_default().trim().to_owned(),
            process: process.to_owned(),
            started: behind.split_whitespace().nth(19).unwrap_or("").to_owned(),
        }
    }

    /// Whether the process still runs; `None` for a process of another machine or boot, or if
    /// nothing is known.
    pub fn is_alive(&self) -> Option<bool> {
        let is_number = self.process.bytes().all(|byte| byte.is_ascii_digit());
        if self.boot.is_empty() || self.started.is_empty() || !is_number {
            return None;
        }
        let now = Owner::of(&self.process);
        (now.boot == self.boot).then(|| now == *self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_alive_until_it_ends_and_unknown_elsewhere() {
        let this = Owner::this();
        assert_eq!(this.is_alive(), Some(true));
        let ended = Owner {
            started: "1".to_owned(),
            ..this.clone()
        };
        assert_eq!(ended.is_alive(), Some(false));
        let elsewhere = Owner {
            boot: "another".to_owned(),
            ..this
        };
        assert_eq!(elsewhere.is_alive(), None);
    }
}
