//! A campaign against volumes: random commands, each disturbed at a random moment by a kill, a
//! failed or flipped transfer, or the loss of a drive. Every read returns the right data or fails,
//! and nothing is lost.
//!
//! Contract: `VOLUME_STEPS` is the number of steps (`make volumes`), `VOLUME_SEED` the first seed;
//! without these variables, the test runs only a few steps. A failure names seed and step. Each
//! volume takes 30 steps.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::*;
use crate::volume::{run, volume_with};

/// Steps on one volume.
const STEPS_PER_VOLUME: u64 = 30;
/// Steps of the slice.
const STEPS: u64 = 60;

/// The disturbance of a command.
#[derive(Debug, Clone)]
enum Disturbance {
    Nothing,
    /// A fault at one of its operations.
    Fault(String),
    /// SIGKILL after some milliseconds.
    Kill(u64),
    /// A drive is away for the rest of the step.
    Pull(String, u64),
    /// The contents of a drive read as zeros.
    Zero(String, u64),
    /// A bit of each page on a drive is flipped.
    Flip(String, u64),
    /// The files of data on a drive are gone.
    Remove(String, u64),
}

struct Campaign {
    place: TestDir,
    is_redundant: bool,
    state: u64,
    /// The possible contents of each dataset; `None` if it may be absent.
    wanted: BTreeMap<String, Vec<Option<Vec<u8>>>>,
    directories: u64,
}

impl Campaign {
    fn new(seed: u64) -> Self {
        let options = [&["--parity", "1"][..], &["--mirror"], &[]][seed as usize % 3];
        let options = [&["--stripe", "16KiB"], options].concat();
        Campaign {
            place: volume_with(TestDir::in_memory(), &options),
            is_redundant: seed % 3 < 2,
            state: seed,
            wanted: BTreeMap::new(),
            directories: 0,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    /// The drives of the drives file, with their directories.
    fn drives(&self) -> Vec<(String, PathBuf)> {
        let status = run(&self.place, &["volume", "status", "--json"]).ok();
        let events = status.events();
        let drives = events.iter().filter(|event| event["event"] == "drive");
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        drives
            .map(|event| (text(&event["drive"]), self.place.path(&text(&event["dir"]))))
            .collect()
    }

    fn any_drive(&mut self) -> String {
        let drives = self.drives();
        drives[self.below(drives.len() as u64) as usize].0.clone()
    }

    fn dir_of(&self, drive: &str) -> PathBuf {
        let mut drives = self.drives().into_iter();
        drives.find(|(name, _)| name == drive).unwrap().1
    }

    /// The words of a command, and whether it must succeed when it is repeated undisturbed.
    fn command(&mut self) -> (Vec<String>, bool) {
        let name = format!("@n{}", self.below(4));
        let drives = self.drives().len();
        let mut new_dir = || {
            self.directories += 1;
            let dir = format!("e{}", self.directories);
            self.place.make_dir(&dir);
            dir
        };
        let new = new_dir();
        let words: Vec<String> = match self.below(12) {
            0..=2 => {
                let numbers = self.below(60_000) as usize;
                let bytes = random_u64(numbers, self.state);
                self.place.write("in", &bytes);
                vec!["put".into(), "in".into(), name, "--force".into()]
            }
            3 => vec!["rm".into(), name],
            4..=5 if drives < 6 => vec!["add".into(), new],
            6 if drives > 2 => vec!["remove".into(), self.any_drive()],
            7 => vec!["replace".into(), self.any_drive(), new],
            8..=9 => vec!["rebalance".into()],
            10 => vec!["scrub".into()],
            _ => vec!["get".into(), name, "out".into(), "--force".into()],
        };
        let is_of_drives = ["add", "remove", "replace", "rebalance"].contains(&&words[0][..]);
        // Without redundancy, only copies can replace a drive.
        let is_possible = words[0] != "replace" || self.is_redundant;
        (words, is_of_drives && is_possible)
    }

    fn disturbance(&mut self) -> Disturbance {
        let after = self.below(120);
        let drive = self.any_drive();
        let nth = 1 + self.below(300);
        match self.below(if self.is_redundant { 10 } else { 7 }) {
            0 => Disturbance::Nothing,
            1..=2 => Disturbance::Fault(format!("kill@{nth}")),
            3 => Disturbance::Fault(format!("eio@{nth}")),
            4 => Disturbance::Fault(format!("flip@{nth}:read")),
            5 => Disturbance::Kill(after),
            6 => Disturbance::Pull(drive, after),
            7 => Disturbance::Zero(drive, after),
            8 => Disturbance::Flip(drive, after),
            _ => Disturbance::Remove(drive, after),
        }
    }

    /// Runs a command; disturbs it. Returns its exit code.
    fn disturbed(&mut self, words: &[String], what: &Disturbance) -> Option<i32> {
        let mut all = vec!["volume"];
        all.extend(words.iter().map(|word| &word[..]));
        all.extend(["--volume", "drives.toml"]);
        let mut command = self.place.command(&all);
        if let Disturbance::Fault(fault) = what {
            command.env("OUTCORE_FAULT", fault);
        }
        let dir = match what {
            Disturbance::Pull(drive, _)
            | Disturbance::Zero(drive, _)
            | Disturbance::Flip(drive, _)
            | Disturbance::Remove(drive, _) => Some(self.dir_of(drive)),
            _ => None,
        };
        let dir = dir.unwrap_or_default();
        let wait = |ms: u64| std::thread::sleep(Duration::from_millis(ms));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child: Child = command.spawn().unwrap();
        match what {
            Disturbance::Nothing | Disturbance::Fault(_) => {}
            Disturbance::Kill(ms) => {
                wait(*ms);
                child.kill().unwrap();
            }
            Disturbance::Pull(_, ms) => {
                wait(*ms);
                fs::rename(&dir, self.place.path("away")).unwrap();
            }
            Disturbance::Zero(_, ms) => {
                wait(*ms);
                damage(&dir, |bytes| {
                    bytes.fill(0);
                    true
                });
            }
            Disturbance::Flip(_, ms) => {
                wait(*ms);
                damage(&dir, |bytes| {
                    bytes.iter_mut().step_by(4096).for_each(|byte| *byte ^= 16);
                    true
                });
            }
            Disturbance::Remove(_, ms) => {
                wait(*ms);
                damage(&dir, |_| false);
            }
        }
        child.wait().unwrap().code()
    }

    /// The possible contents of the datasets after a command.
    fn expect(&mut self, words: &[String], code: Option<i32>) {
        let is_certain = code == Some(0);
        let next = match &words[0][..] {
            "put" => Some(self.place.read("in")),
            "rm" => None,
            _ => return,
        };
        let name = words.iter().find(|word| word.starts_with('@')).unwrap();
        let known = self
            .wanted
            .entry(name.clone())
            .or_insert_with(|| vec![None]);
        if is_certain {
            known.clear();
        }
        known.push(next);
    }

    /// Reads all datasets: each is right or, where that is allowed, rejected.
    fn check(&mut self, may_refuse: bool, case: &str) {
        let names: Vec<String> = self.wanted.keys().cloned().collect();
        for name in names {
            let got = run(&self.place, &["volume", "get", &name, "got", "--force"]);
            let known = &self.wanted[&name];
            if got.code == Some(0) {
                let found = Some(self.place.read("got"));
                assert!(known.contains(&found), "{case}: {name} is wrong");
                if !may_refuse {
                    self.wanted.insert(name, vec![found]);
                }
                continue;
            }
            let is_absent = got.stderr.contains("not found") && known.contains(&None);
            assert!(is_absent || may_refuse, "{case}: {name} is lost: {got:?}");
            if is_absent && !may_refuse {
                self.wanted.insert(name, vec![None]);
            }
        }
    }

    fn step(&mut self, case: &str) {
        let (words, is_repeated) = self.command();
        let what = self.disturbance();
        let case = format!("{case}: {words:?}, {what:?}");
        let pulled = match &what {
            Disturbance::Pull(drive, _) => Some(self.dir_of(drive)),
            _ => None,
        };
        let code = self.disturbed(&words, &what);
        self.expect(&words, code);
        self.check(pulled.is_some() || !self.is_redundant, &case);
        if let Some(dir) = pulled {
            fs::rename(self.place.path("away"), dir).unwrap();
        }
        let scrubbed = run(&self.place, &["volume", "scrub"]);
        assert!(
            matches!(scrubbed.code, Some(0 | 3 | 4)),
            "{case}: {scrubbed:?}"
        );
        if is_repeated && code != Some(0) {
            let again: Vec<&str> = words.iter().map(|word| &word[..]).collect();
            let again = run(&self.place, &[&["volume"], &again[..]].concat());
            let is_done = again.stderr.contains("has no drive");
            assert!(again.code == Some(0) || is_done, "{case}: {again:?}");
        }
        run(&self.place, &["volume", "scrub", "--remove-orphans"]).ok();
        self.check(false, &case);
    }
}

/// Changes all files of data in the directory of a drive.
fn damage(dir: &Path, change: impl Fn(&mut Vec<u8>) -> bool) {
    let data = dir.join("outcore-volume/data");
    for share in fs::read_dir(data).into_iter().flatten().flatten() {
        // A job may move the file at the same moment.
        let Ok(mut bytes) = fs::read(share.path()) else {
            continue;
        };
        let _ = match change(&mut bytes) {
            true => {
                let _ = fs::set_permissions(share.path(), PermissionsExt::from_mode(0o600));
                fs::OpenOptions::new()
                    .write(true)
                    .open(share.path())
                    .and_then(|file| std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0))
            }
            false => fs::remove_file(share.path()),
        };
    }
}

#[test]
fn every_read_is_right_or_refused_and_nothing_is_lost() {
    let number = |name: &str, default: u64| {
        let text = std::env::var(name).ok();
        text.map_or(default, |text| text.parse().unwrap())
    };
    let (steps, seed) = (number("VOLUME_STEPS", STEPS), number("VOLUME_SEED", 1));
    for volume in 0..steps.div_ceil(STEPS_PER_VOLUME) {
        let seed = seed + volume;
        let mut campaign = Campaign::new(seed);
        for step in 0..STEPS_PER_VOLUME.min(steps - volume * STEPS_PER_VOLUME) {
            campaign.step(&format!("seed {seed}, step {step}"));
        }
    }
}
