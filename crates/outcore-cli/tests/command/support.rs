//! The common parts of the tests: a directory, the command, its answer, and naive oracles.
//!
//! Contract: [`TestDir`] is removed with its contents when it is dropped. [`Answer`] has the output
//! of a finished run; if one of its checks fails, the message has all of that output. The command
//! is `crate::PROGRAM`, so that the tests of another command share this file.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A sort with scratch in which each operation has the same number in every run.
pub(crate) const SMALL_SORT: [&str; 10] = [
    "sort",
    "in",
    "-o",
    "out",
    "--type",
    "u64",
    "--memory",
    "4MiB",
    "--threads",
    "1",
];

/// A directory for one test.
pub(crate) struct TestDir(tempfile::TempDir);

impl TestDir {
    pub(crate) fn new() -> Self {
        TestDir(tempfile::tempdir().unwrap())
    }

    /// A directory in memory, if there is one. It is for tests with many runs, because each run
    /// waits for its syncs.
    pub(crate) fn in_memory() -> Self {
        let memory = tempfile::tempdir_in("/dev/shm");
        TestDir(memory.or_else(|_| tempfile::tempdir()).unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn make_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// All names here in order, including hidden ones.
    pub(crate) fn names(&self) -> Vec<String> {
        names_in(self.dir())
    }

    /// The command in this directory, without the user's settings.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        self.command_of(crate::PROGRAM, arguments)
    }

    /// Another program in this directory, without the user's settings.
    pub(crate) fn command_of<S: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        arguments: &[S],
    ) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("OUTCORE_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .current_dir(self.dir())
            .env("OUTCORE_CONFIG", "")
            // A drive is measured once for all tests.
            .env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the command to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Answer {
        Answer::of(self.command(arguments).output().unwrap())
    }

    /// Runs the command with bytes on its standard input.
    pub(crate) fn run_with_input<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> Answer {
        let mut child = self.spawn(arguments);
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feeder = std::thread::spawn(move || {
            // A command that rejects its input does not read all of it.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        Answer::of(output)
    }

    /// Starts the command with pipes to all of its streams.
    pub(crate) fn spawn<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Child {
        self.command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Runs a line of a shell, whose `$0` is the command.
pub(crate) fn in_shell(place: &TestDir, line: &str) -> Answer {
    let shell = Command::new("sh")
        // The shell stays the parent.
        .args(["-c", &format!("{line}; exit $?"), crate::PROGRAM])
        .current_dir(place.dir())
        .env("OUTCORE_CONFIG", "")
        .stdin(Stdio::null())
        .output();
    Answer::of(shell.unwrap())
}

/// Whether these tools are GNU's. Prints the reason for which a test skips a comparison.
pub(crate) fn has_gnu(tools: &[&str]) -> bool {
    let is_there = |tool: &&str| {
        let said = Command::new(tool).arg("--version").output();
        said.is_ok_and(|said| said.stdout.windows(3).any(|word| word == b"GNU"))
    };
    let are_there = tools.iter().all(is_there);
    if !are_there {
        println!(
            "SKIP: there is no GNU {} to compare with",
            tools.join(" and ")
        );
    }
    are_there
}

/// The output of a line of a shell with GNU's tools, which must succeed.
pub(crate) fn by_gnu(place: &TestDir, line: &str) -> Vec<u8> {
    let output = Command::new("sh")
        .args(["-c", line])
        .env("LC_ALL", "C")
        .current_dir(place.dir())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}");
    output.stdout
}

/// A user who has no other processes.
fn user() -> u32 {
    1_000_000 + std::process::id()
}

/// Runs a command of a user with a limited number of processes; `None` if that cannot be tried.
pub(crate) fn run_with_processes(
    place: &TestDir,
    processes: u32,
    words: &[&str],
) -> Option<Answer> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: only root can be another user");
        return None;
    }
    let mut command = Command::new("prlimit");
    command
        .arg(format!("--nproc={processes}"))
        .arg(crate::PROGRAM)
        .args(words)
        .current_dir(place.dir())
        .env("OUTCORE_CONFIG", "")
        .stdin(Stdio::null())
        .uid(user())
        .gid(user());
    match command.output() {
        Ok(output) if !matches!(output.status.code(), Some(126 | 127)) => Some(Answer::of(output)),
        refused => {
            println!("SKIP: another user may not run the command here: {refused:?}");
            None
        }
    }
}

/// A place that every user can write to.
pub(crate) fn public_place() -> TestDir {
    let place = TestDir::new();
    fs::set_permissions(place.dir(), Permissions::from_mode(0o777)).unwrap();
    place
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Answer {
    pub(crate) fn of(output: Output) -> Self {
        Answer {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Fails unless the command has succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Fails unless the command has failed with this code, one error line with all of `words`, and
    /// a hint with `hint`.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, cause: &[&str], hint: &str) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        let line = |start: &str| {
            let found = self.stderr.lines().find(|line| line.starts_with(start));
            found.unwrap_or_default().to_string()
        };
        let error = line("outcore: error: ");
        for word in cause {
            assert!(
                error.contains(word),
                "`{word}` is not in: {error}\n{self:?}"
            );
        }
        assert!(line("hint: ").contains(hint), "`{hint}`: {self:?}");
        self
    }

    /// Fails unless the command has ended with this code and no error line.
    #[track_caller]
    pub(crate) fn fails_quietly(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(!self.stderr.contains("outcore: error"), "{self:?}");
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    /// Standard output as JSON Lines.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        parse_events(&self.text())
    }

    /// The only event of this kind.
    #[track_caller]
    pub(crate) fn event(&self, name: &str) -> Value {
        let mut found = self.events().into_iter().filter(|e| e["event"] == name);
        let event = found
            .next()
            .unwrap_or_else(|| panic!("no {name}: {self:?}"));
        assert!(found.next().is_none(), "{name} twice: {self:?}");
        event
    }
}

#[track_caller]
pub(crate) fn parse_events(text: &str) -> Vec<Value> {
    let parse = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    text.lines().map(parse).collect()
}

/// A run that takes longer hangs. The limit is far above the time of any run here on a busy
/// machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for a child that must end.
pub(crate) fn wait_for(child: &mut Child) -> std::process::ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A small generator of numbers, the same everywhere (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// Random u64 in little-endian order.
pub(crate) fn random_u64(count: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    (0..count)
        .flat_map(|_| numbers.next().to_le_bytes())
        .collect()
}

/// The naive oracle: records sorted by a key, then by their bytes.
pub(crate) fn sorted_by<K: Ord>(
    bytes: &[u8],
    record_bytes: usize,
    key: impl Fn(&[u8]) -> K,
) -> Vec<u8> {
    let mut records: Vec<&[u8]> = bytes.chunks(record_bytes).collect();
    records.sort_by_cached_key(|record| (key(record), *record));
    records.concat()
}

pub(crate) fn sorted_u64(bytes: &[u8]) -> Vec<u8> {
    sorted_by(bytes, 8, u64_of)
}

pub(crate) fn u64_of(record: &[u8]) -> u64 {
    u64::from_le_bytes(record[..8].try_into().unwrap())
}
