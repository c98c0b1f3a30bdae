//! Publishes several files together; all multi-file outputs use this module.
//!
//! Contract: [`publish_together`] decides by a commit record ([`PrivateDir::commit`]) and then
//! renames. Jobs that put several files into one directory do so one after another, so two jobs
//! that write the same names never mix. The second job finds the files of the first, and fails or
//! replaces all of them. If a file that must not be replaced appears at that very moment, the
//! renames are undone, and no file of the output remains. After any other failure, the next sweep
//! finishes the renames.
//!
//! N.B. The lock of a directory is a `flock` on the directory itself, which leaves no file behind.
//! A process that holds one for other reasons delays a job by at most [`WAIT`].

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::drive::private_dir::is_inside;
use crate::drive::{Device, PrivateDir, Rename, parent_of};
use crate::error::{Kind, Result};
use crate::threads;

/// Longest wait for another job that puts files in the same directory.
const WAIT: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(5);

/// Does `renames` out of `dirs`, or into them for files to be removed: first those of the first
/// group, then those of the second. Without `replace`, none of the new names may exist.
///
/// # Errors
/// Usage: a file has the name of an output, and nothing has changed. I/O: the hint says whether the
/// output exists.
pub fn publish_together(
    device: &dyn Device,
    dirs: Vec<PrivateDir>,
    groups: [&[Rename]; 2],
    replace: bool,
) -> Result<()> {
    let all: Vec<Rename> = groups.concat();
    let _locks = lock_dirs(&all);
    PrivateDir::commit(&dirs, &all, replace)?;
    // From here on the output exists: a sweep that finds the record finishes the renames.
    let is_done: Vec<AtomicBool> = all.iter().map(|_| AtomicBool::new(false)).collect();
    let rename = |number: &usize| {
        let Rename { from, to } = &all[*number];
        let once = || device.rename(from, to, replace);
        let done = once().or_else(|first| match first.kind() {
            Kind::Usage => Err(first),
            _ => once().map_err(|_| first),
        });
        is_done[*number].store(done.is_ok(), Ordering::Relaxed);
        done
    };
    let border = groups[0].len();
    let numbers: Vec<usize> = (0..all.len()).collect();
    // A failed rename does not hold up the others.
    let done = [&numbers[..border], &numbers[border..]]
        .map(|numbers| threads::each("outcore-publish", numbers, rename));
    let Some(error) = done.into_iter().find_map(Result::err) else {
        dirs.iter().for_each(PrivateDir::release);
        return Ok(());
    };
    let done = all.iter().zip(&is_done);
    let done = done.filter(|(_, is_done)| is_done.load(Ordering::Relaxed));
    let taken_back = error.kind() == Kind::Usage
        && !replace
        && done
            .map(|(done, _)| device.rename(&done.to, &done.from, false))
            .all(|done| done.is_ok());
    if taken_back {
        // The record is removed with the directories.
        return Err(error);
    }
    dirs.into_iter().for_each(PrivateDir::leave);
    Err(error.hint(
        "the output is whole: a run of outcore with the same output directories, or `outcore \
         scratch clean`, publishes the rest of it",
    ))
}

/// The directories in which names change, locked in a fixed order.
fn lock_dirs(renames: &[Rename]) -> Vec<File> {
    let ends = renames.iter().flat_map(|rename| [&rename.from, &rename.to]);
    let public = ends.filter(|path| !is_inside(path));
    let dirs: BTreeSet<PathBuf> = public
        .filter_map(|path| parent_of(path).canonicalize().ok())
        .collect();
    let started = Instant::now();
    dirs.iter()
        .filter_map(|dir| lock_dir(dir, started))
        .collect()
}

fn lock_dir(dir: &Path, started: Instant) -> Option<File> {
    let dir = File::open(dir).ok()?;
    loop {
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(dir),
            Err(rustix::io::Errno::WOULDBLOCK) if started.elapsed() < WAIT => {
                std::thread::sleep(STEP)
            }
            // File systems without locks.
            Err(_) => return None,
        }
    }
}
