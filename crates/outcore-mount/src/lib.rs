//! A sorted view as a file: a read-only FUSE file system with one file, the sorted one.
//!
//! Contract: [`serve`] mounts the view and answers until it is asked to stop or the user unmounts.
//! The file has the size and the bytes of the sorted data, merged on demand. Merged blocks are
//! cached within the job's memory, so small reads and backward seeks do not merge again. The page
//! cache holds the bytes read, so that `mmap` works, unless [`ServeOptions::is_direct`] is set. The
//! program that reads a damaged part of the view gets `EIO`; the caller gets run, drive and offset
//! of the fault.
//!
//! No mount is left behind: [`serve`] unmounts when it ends, lazily if files are open. A guardian
//! process ([`guard`]) unmounts if the server is killed. If both fail, the next [`serve`] at the
//! same place removes the mount.
//!
//! Memory: half of the job's remaining memory for readers, the rest for merged blocks.

mod blocks;
mod files;
mod mountpoint;

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use fuser::{Config, MountOption, Session};
use outcore::runs::SortedView;
use outcore::{Error, Kind, Result};

pub use blocks::Tell;
pub use mountpoint::guard;

const MOUNT: &str = "mount view";
/// Largest number of merging threads.
const THREADS_MAX: usize = 8;
/// How often the server checks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the server waits for the kernel to release a mount.
const LET_GO: Duration = Duration::from_millis(500);

/// How a view is served.
pub struct ServeOptions {
    /// Name of the file in the mounted directory.
    pub file_name: String,
    /// Whether reads bypass the page cache: faster for large reads, no `mmap`.
    pub is_direct: bool,
    /// Number of merging threads.
    pub threads: usize,
    /// A program that runs [`guard`] for the mountpoint and source, which are appended to its
    /// arguments.
    pub guardian: Option<Command>,
    /// Called with each fault that a reader received as `EIO`.
    pub tell: Tell,
}

/// Why views cannot be mounted on this machine, if they cannot.
pub fn unavailable() -> Option<String> {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => None,
        Err(error) => Some(format!("/dev/fuse: {error}")),
    }
}

/// Mounts `view` at `mountpoint`, calls `ready`, and answers until `is_over` returns true or the
/// user unmounts.
///
/// # Errors
/// [`Kind::Io`] without FUSE or the right to mount; [`Kind::Memory`] for too little memory.
pub fn serve(
    view: Arc<SortedView>,
    mountpoint: &Path,
    options: ServeOptions,
    ready: impl FnOnce(),
    is_over: impl Fn() -> bool,
) -> Result<()> {
    if let Some(why) = unavailable() {
        return Err(
            Error::new(Kind::Io, MOUNT, format!("there is no FUSE here: {why}")).hint(
                "load the kernel module fuse; `outcore view cat` and `materialize` work without it",
            ),
        );
    }
    let mountpoint = mountpoint::prepare(mountpoint)?;
    let source = mountpoint::source_name(&view.info().dir);
    let threads = options.threads.clamp(1, THREADS_MAX);
    let blocks = blocks::Blocks::start(&view, threads, options.tell)?;
    // A request that waits for a merge does not delay the others.
    let answering = blocks.threads() + 1;
    let files = files::ViewFiles::new(&view, blocks, options.file_name, options.is_direct);
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
        MountOption::FSName(source.clone()),
        MountOption::Subtype("outcore".to_string()),
    ];
    config.n_threads = Some(answering);
    config.clone_fd = true;
    // Started before the mount, so that no mount exists without it.
    let guardian = options
        .guardian
        .map(|command| start_guardian(command, &mountpoint, &source))
        .transpose()?;
    let session = Session::new(files, &mountpoint, &config).and_then(Session::spawn);
    let session = session.map_err(|error| {
        Error::io(MOUNT, &error)
            .path(&mountpoint)
            .hint("mounting needs root, or fusermount3 (package fuse3)")
    })?;
    mountpoint::read_ahead(&mountpoint);
    ready();
    while !session.guard.is_finished() && !is_over() {
        sleep(LOOK_EVERY);
    }
    let done = match session.guard.is_finished() {
        true => Ok(()),
        false => mountpoint::unmount(&mountpoint, &source),
    };
    let mut waited = Duration::ZERO;
    while !session.guard.is_finished() && waited < LET_GO {
        sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
    drop(session);
    drop(guardian);
    done
}

/// A guardian process. When this value is dropped, the process checks the mount and ends.
struct Guardian(Child);

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It may have ended already.
        let _ = self.0.wait();
    }
}

fn start_guardian(mut command: Command, mountpoint: &Path, source: &str) -> Result<Guardian> {
    use std::os::unix::process::CommandExt;
    command
        .arg(mountpoint)
        .arg(source)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C is for the server, which unmounts more cleanly.
        .process_group(0);
    let child = command
        .spawn()
        .map_err(|error| Error::io("start the mount's guardian", &error))?;
    Ok(Guardian(child))
}
