//! Tests of private directories: what is removed, what never is, and how sets appear.
//!
//! Contract: each test works in directories of its own, as the current user; parts that need root
//! are skipped for other users.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};

use super::*;

const NAMES: [&str; 3] = [
    ".outcore-0123456789ab",
    ".outcore-112233445566",
    ".outcore-aabbccddeeff",
];

pub(in crate::drive) fn parent(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("outcore-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path).unwrap();
    path
}

fn make(parent: &Path) -> PrivateDir {
    PrivateDir::make(&Places::default(), parent).unwrap()
}

fn make_private(path: &Path) {
    fs::DirBuilder::new().mode(0o700).create(path).unwrap();
}

/// Leaves a directory as a dead owner would.
pub(in crate::drive) fn leave(path: &Path, files: &[&str]) {
    make_private(path);
    fs::write(path.join(LOCK), LOCK_TEXT).unwrap();
    for file in files {
        fs::write(path.join(file), b"data").unwrap();
    }
}

#[test]
fn a_private_directory_goes_with_its_owner_and_is_not_swept_before() {
    let parent = parent("private");
    let dir = make(&parent);
    fs::write(dir.path().join("output"), b"x").unwrap();
    assert_eq!(fs::metadata(dir.path()).unwrap().mode() & 0o777, 0o700);
    assert_eq!(sweep(&parent).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(list(&parent).unwrap(), [(dir.path().into(), State::InUse)]);
    let path = dir.path().to_path_buf();
    drop(dir);
    assert!(!path.exists());
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn what_a_dead_owner_left_is_swept() {
    let parent = parent("sweep");
    let left = parent.join(NAMES[0]);
    leave(&left, &["scratch-0", "record.part"]);
    fs::create_dir_all(left.join("tree/inner")).unwrap();
    fs::write(left.join("tree/inner/anything"), b"data").unwrap();
    fs::set_permissions(left.join("tree/inner"), PermissionsExt::from_mode(0o500)).unwrap();
    fs::create_dir(left.join("0")).unwrap();
    fs::write(left.join("0/name of a dataset"), b"data").unwrap();
    leave(&left.join(NAMES[1]), &["output-0"]);
    // The maker of this directory was killed during `make`.
    make_private(&parent.join(NAMES[1]));
    make_private(&parent.join(NAMES[2]));
    fs::write(parent.join(NAMES[2]).join(LOCK), b"").unwrap();
    fs::create_dir(parent.join("unrelated")).unwrap();
    assert_eq!(sweep(&parent).unwrap().len(), 3);
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn only_what_is_certainly_ours_is_ever_removed() {
    let parent = parent("ours");
    // A directory of the user with another name, and one of ours with a foreign file.
    leave(&parent.join(".outcore-results"), &["f"]);
    leave(&parent.join(".outcore-00112233"), &["scratch-0"]);
    leave(&parent.join(".outcore-0123456789AB"), &["scratch-0"]);
    leave(&parent.join(NAMES[0]), &["scratch-0", "work"]);
    // A directory without a lock file of ours.
    let unlocked = parent.join(NAMES[1]);
    make_private(&unlocked);
    fs::write(unlocked.join("scratch-0"), b"data").unwrap();
    let odd = parent.join(NAMES[2]);
    make_private(&odd);
    fs::write(odd.join(LOCK), b"my own lock").unwrap();
    fs::write(odd.join("scratch-0"), b"data").unwrap();
    assert_eq!(sweep(&parent).unwrap(), Vec::<PathBuf>::new());
    let all = fs::read_dir(&parent)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = all.map(|dir| fs::read_dir(dir).unwrap().count());
    assert_eq!(files.sum::<usize>(), 2 + 2 + 2 + 3 + 1 + 2);
    let listed = list(&parent).unwrap();
    assert_eq!(listed.len(), 3);
    let unknown = |(_, state): &(PathBuf, State)| matches!(state, State::Unknown(_));
    assert!(listed.iter().all(unknown), "{listed:?}");
    fs::remove_dir_all(parent).unwrap();
}

/// A file as a job creates it in its private directory.
fn write_closed(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn a_lock_that_a_power_loss_has_emptied_saves_no_scratch_and_no_file_of_another() {
    let parent = parent("emptied");
    let left = parent.join(NAMES[0]);
    for lock in [&b""[..], &[0; 39]] {
        let emptied = || {
            make_private(&left);
            write_closed(&left.join(LOCK), lock);
            write_closed(&left.join("scratch-0"), b"data");
        };
        emptied();
        write_closed(&left.join("output-12"), b"data");
        assert_eq!(sweep(&parent).unwrap(), std::slice::from_ref(&left));
        // A file that another program may have put there, or that may be the only copy, stays.
        let spoilers: [&dyn Fn(); 7] = [
            &|| fs::write(left.join("scratch-1"), b"for all to read").unwrap(),
            &|| fs::hard_link(left.join("scratch-0"), parent.join("other name")).unwrap(),
            &|| symlink("scratch-0", left.join("scratch-1")).unwrap(),
            &|| write_closed(&left.join("record"), b"decided"),
            &|| write_closed(&left.join(KEEP), b"the only copy"),
            &|| write_closed(&left.join("thesis"), b"work"),
            &|| fs::create_dir(left.join("0")).unwrap(),
        ];
        for (number, spoil) in spoilers.into_iter().enumerate() {
            emptied();
            spoil();
            assert!(sweep(&parent).unwrap().is_empty(), "{number}");
            let listed = list(&parent).unwrap();
            assert!(
                matches!(listed[..], [(_, State::Unknown(_))]),
                "{number}: {listed:?}"
            );
            fs::remove_dir_all(&left).unwrap();
            let _ = fs::remove_file(parent.join("other name"));
        }
    }
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn a_lock_is_closed_before_it_is_removed_and_what_was_hidden_is_swept() {
    use rustix::fs::inotify;
    let parent = parent("hidden");
    let dir = make(&parent);
    let events = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    let kinds = inotify::WatchFlags::CLOSE_WRITE | inotify::WatchFlags::DELETE;
    inotify::add_watch(&events, dir.path(), kinds).unwrap();
    drop(dir);
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&events, &mut buffer);
    let first = reader.next().unwrap();
    assert_eq!(first.file_name(), Some(c"lock"));
    assert!(first.events().contains(inotify::ReadFlags::CLOSE_WRITE));
    assert!(
        reader
            .next()
            .unwrap()
            .events()
            .contains(inotify::ReadFlags::DELETE)
    );
    let left = parent.join(NAMES[0]);
    leave(&left, &["scratch-0", ".nfs000000000029015c00000001"]);
    assert_eq!(sweep(&parent).unwrap(), [left]);
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn a_link_in_the_place_of_a_private_directory_leads_nobody_to_other_files() {
    let parent = parent("swapped");
    let victim = parent.join("victim");
    leave(&victim, &["scratch-0", "output"]);
    let places = Places::default();
    let dir = PrivateDir::make(&places, &parent).unwrap();
    let inside = dir.path().join("scratch-1");
    fs::write(&inside, b"ours").unwrap();
    fs::rename(dir.path(), parent.join("hidden")).unwrap();
    symlink(&victim, dir.path()).unwrap();
    // Paths below `dir.path()` still lead into the directory that was made, through its handle.
    // Without the handle, they lead nowhere.
    assert!(places.at(&inside).unwrap().stat().is_ok());
    assert_eq!(Places::default().at(&inside).unwrap_err(), Errno::NOTDIR);
    dir.write_file("keep", b"x").unwrap();
    assert!(parent.join("hidden/keep").exists());
    assert!(sweep(&parent).unwrap().is_empty());
    drop(dir);
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 3);
    assert_eq!(fs::read_dir(parent.join("hidden")).unwrap().count(), 0);
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn a_set_is_written_by_one_job_at_a_time_and_a_dead_one_is_no_hindrance() {
    let parent = parent("claim");
    let places = Places::default();
    let claim = |set: &str| PrivateDir::claim(&places, &parent, set.as_ref());
    let first = claim("a.json").unwrap();
    let other = claim("b.json").unwrap();
    let error = claim("a.json").unwrap_err();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("another job"), "{error}");
    assert!(error.to_string().contains("a.json"), "{error}");
    first.write_file("output-0", b"x").unwrap();
    first.leave();
    let second = claim("a.json").unwrap();
    assert!(!second.path().join("output-0").exists());
    drop((second, other));
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn a_set_is_free_once_the_kernel_has_ended_a_killed_job() {
    let parent = parent("ending");
    let places = Places::default();
    let claim = || PrivateDir::claim(&places, &parent, "a.json".as_ref());
    let first = claim().unwrap();
    // The lock stays taken, as by a process that was killed and still has I/O in flight.
    let lock = File::open(first.path().join(LOCK)).unwrap();
    let path = first.path().to_path_buf();
    first.leave();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let ending = std::thread::spawn(move || {
        std::thread::sleep(LOOK_AGAIN * 5);
        drop(lock);
    });
    let second = claim().unwrap();
    ending.join().unwrap();
    assert_eq!(second.path(), path);
    drop(second);
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn what_is_kept_for_a_file_stays_until_its_marker_is_gone() {
    let [parent, away] = ["keep", "keep-input"].map(parent);
    let marker = away.join(".in.marker");
    fs::write(&marker, b"data").unwrap();
    let dir = make(&parent);
    let path = dir.path().to_path_buf();
    fs::write(path.join("scratch-0"), b"the rest").unwrap();
    let file = away.join("in");
    fs::write(&file, b"holes").unwrap();
    let marked = [MarkedFile {
        file: file.clone(),
        marker: marker.clone(),
    }];
    dir.keep_for(&marked).unwrap();
    drop(dir);
    let listed = list(&parent).unwrap();
    assert_eq!(listed, [(path.clone(), State::Kept(file))]);
    assert!(sweep(&parent).unwrap().is_empty());
    // The drive of this directory is not mounted.
    let unmounted = away.with_extension("unmounted");
    fs::rename(&away, &unmounted).unwrap();
    assert!(sweep(&parent).unwrap().is_empty());
    fs::rename(&unmounted, &away).unwrap();
    fs::remove_file(&marker).unwrap();
    assert_eq!(sweep(&parent).unwrap(), [path]);
    // Data that are stored elsewhere need no directory.
    fs::write(&marker, b"data").unwrap();
    let dir = make(&parent);
    dir.keep_for(&marked).unwrap();
    dir.release();
    drop(dir);
    assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
    for dir in [parent, away] {
        fs::remove_dir_all(dir).unwrap();
    }
}

fn rename(from: PathBuf, to: PathBuf) -> Rename {
    Rename { from, to }
}

/// Leaves the directories of a job that died before or after its commit: the coordinator's below
/// `first`, and another with a staged file below `second`.
fn leave_set(first: &Path, second: &Path, is_committed: bool) -> (PathBuf, PathBuf) {
    let dirs = [first, second].map(make);
    let [home, other] = [0, 1].map(|index: usize| dirs[index].path().to_path_buf());
    fs::write(other.join("output-1"), b"data").unwrap();
    let renames = [rename(other.join("output-1"), second.join("shard"))];
    PrivateDir::commit(&dirs, &renames, true).unwrap();
    if !is_committed {
        fs::remove_file(home.join("commit")).unwrap();
    }
    dirs.into_iter().for_each(PrivateDir::leave);
    (home, other)
}

#[test]
fn a_committed_set_is_finished_from_any_of_its_directories() {
    for from_first in [false, true] {
        let [first, second] = ["commit-a", "commit-b"].map(parent);
        let (home, other) = leave_set(&first, &second, true);
        if from_first {
            assert_eq!(sweep(&first).unwrap(), [home]);
            assert_eq!(fs::read(second.join("shard")).unwrap(), b"data");
            assert_eq!(sweep(&second).unwrap(), std::slice::from_ref(&other));
        } else {
            assert_eq!(sweep(&second).unwrap(), std::slice::from_ref(&other));
            assert_eq!(sweep(&first).unwrap(), [home]);
        }
        assert_eq!(fs::read(second.join("shard")).unwrap(), b"data");
        let mode = fs::metadata(second.join("shard")).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o666 & !super::super::places::umask());
        for dir in [first, second] {
            fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn a_set_without_a_record_is_removed_once_its_coordinator_has_been_seen() {
    let [first, second] = ["abort-a", "abort-b"].map(parent);
    let (home, other) = leave_set(&first, &second, false);
    assert_eq!(sweep(&first).unwrap(), [home]);
    assert_eq!(sweep(&second).unwrap(), [other]);
    assert!(!second.join("shard").exists());
    for dir in [first, second] {
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn shards_wait_for_a_drive_that_is_not_mounted_or_a_record_that_cannot_be_read() {
    let [first, second] = ["away-a", "away-b"].map(parent);
    let (home, other) = leave_set(&first, &second, true);
    let away = first.with_extension("away");
    fs::rename(&first, &away).unwrap();
    assert!(sweep(&second).unwrap().is_empty());
    // The empty mount point.
    fs::create_dir(&first).unwrap();
    assert!(sweep(&second).unwrap().is_empty());
    fs::remove_dir(&first).unwrap();
    fs::rename(&away, &first).unwrap();
    // A record that exists but is not a file.
    let commit = home.join("commit");
    fs::rename(&commit, home.join("kept")).unwrap();
    fs::create_dir(&commit).unwrap();
    assert!(sweep(&second).unwrap().is_empty());
    fs::remove_dir(&commit).unwrap();
    fs::rename(home.join("kept"), &commit).unwrap();
    // The coordinator also waits for its members.
    let away = second.with_extension("away");
    fs::rename(&second, &away).unwrap();
    assert!(sweep(&first).unwrap().is_empty());
    fs::rename(&away, &second).unwrap();
    assert_eq!(sweep(&second).unwrap(), [other]);
    assert_eq!(fs::read(second.join("shard")).unwrap(), b"data");
    for dir in [first, second] {
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_file_that_a_job_did_not_know_is_not_overwritten_by_whoever_finishes_it() {
    // One target appears, one changes before it is replaced, and one stays as it was and is
    // replaced.
    for (before, after, is_replaced) in [
        (None, Some("the user's own"), false),
        (Some("old"), Some("the user's own"), false),
        (Some("old"), None, true),
    ] {
        let parent = parent("unknown");
        let shard = parent.join("shard");
        if let Some(before) = before {
            fs::write(&shard, before).unwrap();
        }
        leave_set(&parent, &parent, true);
        if let Some(after) = after {
            fs::write(&shard, after).unwrap();
        }
        match after {
            Some(after) => {
                let error = sweep(&parent).unwrap_err();
                let aside = parent.join("shard.outcore-unpublished");
                assert_eq!(error.file_path(), Some(aside.as_path()));
                assert_eq!(fs::read(aside).unwrap(), b"data");
                assert_eq!(fs::read(&shard).unwrap(), after.as_bytes());
            }
            None => assert_eq!(sweep(&parent).unwrap().len(), 2),
        }
        assert_eq!(fs::read(&shard).unwrap() == b"data", is_replaced);
        assert!(list(&parent).unwrap().is_empty());
        // The sweep reports the file only once.
        assert!(sweep(&parent).unwrap().is_empty());
        fs::remove_dir_all(parent).unwrap();
    }
}

#[test]
fn a_commit_without_leave_to_replace_refuses_what_is_there() {
    let parent = parent("refused");
    let dirs = [make(&parent)];
    fs::write(parent.join("shard"), b"own").unwrap();
    let renames = [rename(dirs[0].path().join("output"), parent.join("shard"))];
    let error = PrivateDir::commit(&dirs, &renames, false).unwrap_err();
    assert!(error.to_string().contains("--force"), "{error}");
    // A record must not name files of other directories either.
    let renames = [rename(
        dirs[0].path().join("output"),
        parent.join("other/shard"),
    )];
    assert!(PrivateDir::commit(&dirs, &renames, true).is_err());
    let renames = [rename(parent.join("a"), parent.join("b"))];
    assert!(PrivateDir::commit(&dirs, &renames, true).is_err());
    drop(dirs);
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn a_record_works_only_in_the_directory_that_it_was_written_for() {
    let [first, second] = ["moved-a", "moved-b"].map(parent);
    leave_set(&first, &first, true);
    // A directory that was copied by hand, from another user's USB stick.
    for entry in fs::read_dir(&first).unwrap() {
        let from = entry.unwrap().path();
        let to = second.join(from.file_name().unwrap());
        make_private(&to);
        for file in fs::read_dir(&from).unwrap() {
            let file = file.unwrap().path();
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
    assert!(sweep(&second).unwrap().is_empty());
    assert_eq!(fs::read_dir(&second).unwrap().count(), 2);
    assert!(!second.join("shard").exists());
    for dir in [first, second] {
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_flipped_bit_in_a_record_is_found_and_nothing_is_removed() {
    for name in ["record", "commit"] {
        let parent = parent("flipped");
        let dirs = [make(&parent)];
        let home = dirs[0].path().to_path_buf();
        fs::write(home.join("output-1"), b"data").unwrap();
        let renames = [rename(home.join("output-1"), parent.join("shard"))];
        PrivateDir::commit(&dirs, &renames, true).unwrap();
        dirs.into_iter().for_each(PrivateDir::leave);
        let whole = fs::read(home.join(name)).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(home.join(name), flipped).unwrap();
            assert!(sweep(&parent).unwrap().is_empty(), "{name} {at}");
            assert!(home.join("output-1").exists() && !parent.join("shard").exists());
        }
        fs::write(home.join(name), whole).unwrap();
        assert_eq!(sweep(&parent).unwrap(), [home]);
        assert_eq!(fs::read(parent.join("shard")).unwrap(), b"data");
        fs::remove_dir_all(parent).unwrap();
    }
}

#[test]
fn what_others_could_have_made_is_not_looked_into() {
    let parent = parent("planted");
    let planted = parent.join(NAMES[0]);
    leave(&planted, &["scratch-0"]);
    // A directory that is open to others, or a link to a closed directory.
    fs::set_permissions(&planted, PermissionsExt::from_mode(0o777)).unwrap();
    symlink(&planted, parent.join(NAMES[1])).unwrap();
    assert!(sweep(&parent).unwrap().is_empty());
    let causes = ["other users may read or change it", "it is not a directory"];
    let listed = list(&parent).unwrap();
    let expected = [planted.clone(), parent.join(NAMES[1])]
        .into_iter()
        .zip(causes);
    let expected = expected.map(|(path, cause)| (path, State::Unknown(cause.into())));
    assert_eq!(listed, expected.collect::<Vec<_>>());
    fs::set_permissions(&planted, PermissionsExt::from_mode(0o700)).unwrap();
    let other = rustix::process::geteuid().as_raw() + 1;
    if std::os::unix::fs::chown(&planted, Some(other), None).is_ok() {
        assert!(sweep(&parent).unwrap().is_empty());
    } else {
        eprintln!("skipped: giving a directory to another user needs root");
    }
    assert!(planted.join("scratch-0").exists());
    fs::remove_dir_all(parent).unwrap();
}

/// A file system in memory with room for one or two pages; `false` if this user may not mount one.
fn small_file_system(path: &Path) -> bool {
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4k", "outcore-test"])
        .arg(path)
        .stderr(std::process::Stdio::null())
        .status();
    mounted.is_ok_and(|status| status.success())
}

#[test]
fn a_full_file_system_is_named_and_nothing_is_left_on_it() {
    let parent = parent("full");
    if !small_file_system(&parent) {
        eprintln!("skipped: mounting needs root");
        fs::remove_dir(parent).unwrap();
        return;
    }
    let filled = fs::write(parent.join("filler"), [1; 4096]);
    let error = PrivateDir::make(&Places::default(), &parent).map(drop);
    let left = list(&parent).map(|left| left.len());
    let unmounted = std::process::Command::new("umount").arg(&parent).status();
    assert!(unmounted.unwrap().success());
    fs::remove_dir(&parent).unwrap();
    filled.unwrap();
    let error = error.unwrap_err();
    assert_eq!(error.kind(), Kind::NoSpace, "{error}");
    assert!(error.next_step().unwrap().contains("space"), "{error}");
    assert_eq!(left.unwrap(), 0);
}

#[test]
fn a_marked_directory_is_kept_until_its_journal_is_gone_or_old() {
    let parent = parent("marked");
    let week = std::time::Duration::from_secs(7 * 24 * 60 * 60);
    let (dir, other) = (make(&parent), make(&parent));
    let journal = dir.path().join("journal");
    fs::write(&journal, b"records").unwrap();
    let mark = Resumable::new(&journal, week, "outcore sort").unwrap();
    let paths = [dir.path().to_path_buf(), other.path().to_path_buf()];
    other.keep_to_resume(&mark).unwrap();
    dir.keep_to_resume(&mark).unwrap();
    assert!(
        PrivateDir::reopen(&Places::default(), &paths[0]).is_err(),
        "it is in use"
    );
    drop((dir, other));
    assert_eq!(sweep(&parent).unwrap(), Vec::<PathBuf>::new());
    let states: Vec<State> = list(&parent)
        .unwrap()
        .into_iter()
        .map(|(_, state)| state)
        .collect();
    assert_eq!(
        states,
        [
            State::Resumable(mark.clone()),
            State::Resumable(mark.clone())
        ]
    );
    assert_eq!(resumable_at(&paths[0]), Some(mark));
    // A directory has one owner at a time; dropping it again changes nothing.
    let again = PrivateDir::reopen(&Places::default(), &paths[0])
        .unwrap()
        .unwrap();
    assert!(PrivateDir::reopen(&Places::default(), &paths[0]).is_err());
    drop(again);
    assert!(journal.exists());
    let days_ago = |days: u32| std::time::SystemTime::now() - week / 7 * days;
    let set_age = |days| {
        let file = File::options().write(true).open(&journal).unwrap();
        file.set_modified(days_ago(days)).unwrap();
    };
    set_age(6);
    assert_eq!(sweep(&parent).unwrap(), Vec::<PathBuf>::new());
    // A journal that is gone frees the other directory.
    fs::rename(&journal, parent.join("aside")).unwrap();
    assert_eq!(resumable_at(&paths[1]), None);
    fs::rename(parent.join("aside"), &journal).unwrap();
    set_age(8);
    assert_eq!(sweep(&parent).unwrap().len(), 2);
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn a_marked_directory_whose_journal_cannot_be_found_is_kept_since_its_last_write() {
    let parent = parent("lost");
    let (above, drive) = (parent.join("above"), parent.join("drive"));
    fs::create_dir(&above).unwrap();
    fs::create_dir(&drive).unwrap();
    let week = std::time::Duration::from_secs(7 * 24 * 60 * 60);
    let (output, scratch) = (make(&above), make(&drive));
    let journal = output.path().join("journal");
    fs::write(&journal, b"records").unwrap();
    let log = scratch.path().join("scratch-0");
    fs::write(&log, b"data").unwrap();
    let path = scratch.path().to_path_buf();
    scratch
        .keep_to_resume(&Resumable::new(&journal, week, "outcore sort").unwrap())
        .unwrap();
    drop((output, scratch));
    fs::remove_dir_all(&above).unwrap();
    let set_age = |name: &str, days: u32| {
        let file = File::options().write(true).open(path.join(name)).unwrap();
        let written = std::time::SystemTime::now() - week / 7 * days;
        file.set_modified(written).unwrap();
    };
    for name in ["lock", "resume"] {
        set_age(name, 20);
    }
    set_age("scratch-0", 6);
    assert_eq!(sweep(&drive).unwrap(), Vec::<PathBuf>::new());
    set_age("scratch-0", 8);
    assert_eq!(sweep(&drive).unwrap().len(), 1);
    assert!(!log.exists());
    fs::remove_dir_all(parent).unwrap();
}

#[test]
fn only_a_directory_of_a_job_that_can_be_resumed_is_forgotten() {
    let parent = parent("forgotten");
    let (dir, other) = (make(&parent), make(&parent));
    let paths = [dir.path().to_path_buf(), other.path().to_path_buf()];
    let journal = paths[0].join("journal");
    fs::write(&journal, b"records").unwrap();
    let week = std::time::Duration::from_secs(7 * 24 * 60 * 60);
    dir.keep_to_resume(&Resumable::new(&journal, week, "outcore sort").unwrap())
        .unwrap();
    assert!(forget(&paths[0]).is_err(), "it is in use");
    drop(dir);
    assert!(forget(&paths[0]).unwrap() && !paths[0].exists());
    assert!(!forget(&paths[0]).unwrap());
    drop(other);
    fs::remove_dir_all(parent).unwrap();
}
