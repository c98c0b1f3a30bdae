//! Directories in datasets: `get` recreates what was put, including links, odd names, permissions
//! and times, and nobody can read more than before.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outcore_io::Kind;
use outcore_io::drive::Device;
use outcore_io::drive::testing::FaultDevice;
use outcore_store::dataset::manifest::Contents;
use outcore_store::dataset::transfer::{self, TransferResources};
use outcore_store::dataset::{Watch, directory};

use super::datasets::{TestDir, bytes, new};
use super::devices::HookDevice;
use super::random;

#[test]
fn a_directory_comes_back_file_by_file_or_one_by_its_name() {
    let place = TestDir::new(3);
    let volume = place.create(1 << 16);
    let tree = place.path("tree");
    let files: Vec<(String, Vec<u8>)> = (0..200)
        .map(|i| {
            let len = random(1, i) as usize % 9000;
            (format!("part{}/sub/file{i:03}", i % 7), bytes(len, i))
        })
        .chain([("empty".to_string(), Vec::new())])
        .chain([("part3/large".to_string(), bytes(3 << 20 | 77, 9))])
        .collect();
    for (name, contents) in &files {
        fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
        fs::write(tree.join(name), contents).unwrap();
    }
    for name in ["bare", "part1/bare/inner"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    let (manifest, left_out) =
        directory::put_dir(&volume, &tree, &new("tree"), place.resources()).unwrap();
    assert_eq!(
        (manifest.contents, manifest.files),
        (Contents::Directory, 202)
    );
    assert_eq!(left_out.count, 0);
    let out = place.path("unpacked");
    assert_eq!(
        directory::get_dir(&volume, &manifest, &out, place.resources()).unwrap(),
        202
    );
    for (name, contents) in &files {
        assert!(fs::read(out.join(name)).unwrap() == *contents, "{name}");
    }
    for name in ["bare", "part1/bare/inner"] {
        assert_eq!(fs::read_dir(out.join(name)).unwrap().count(), 0, "{name}");
        for asked in [name.to_string(), format!("{name}/")] {
            let opened = transfer::open(&volume, &manifest, Some(&asked), &place.budget);
            assert_eq!(opened.err().unwrap().kind(), Kind::Usage, "{asked}");
        }
    }
    let (name, contents) = &files[33];
    let mut reader = transfer::open(&volume, &manifest, Some(name), &place.budget)
        .unwrap()
        .reader;
    let mut found = Vec::new();
    transfer::get_stream(&mut reader, &mut found, Watch::NOBODY).unwrap();
    assert!(found == *contents);
    assert!(place.get_file(&volume, "tree", Some(name)).unwrap() == *contents);
    let missing = transfer::open(&volume, &manifest, Some("part9/x"), &place.budget);
    assert_eq!(missing.err().unwrap().kind(), Kind::Usage);
    let again = directory::get_dir(&volume, &manifest, &out, place.resources()).unwrap_err();
    assert_eq!(again.kind(), Kind::Usage);
}

#[test]
fn a_directory_with_a_file_that_cannot_be_read_is_not_packed_at_all() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..40 {
        fs::write(tree.join(format!("{number:02}")), bytes(5000, number)).unwrap();
    }
    for nth in [1, 17, 40] {
        let plan = format!("eio@{nth}:read").parse().unwrap();
        let faulty: Arc<dyn Device> = Arc::new(FaultDevice::new(Arc::clone(&place.device), plan));
        let resources = TransferResources {
            device: &faulty,
            ..place.resources()
        };
        let error = directory::put_dir(&volume, &tree, &new("tree"), resources).unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
        assert_eq!(
            error.file_path().and_then(Path::parent),
            Some(tree.as_path())
        );
    }
    // One reader stops, and the other readers stop with it.
    let stopped = TransferResources {
        watch: Watch {
            check: &|| Err(outcore_io::Error::interrupted()),
            advance: &|_| {},
            throttle: None,
        },
        ..place.resources()
    };
    let error = directory::put_dir(&volume, &tree, &new("tree"), stopped).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted);
    assert_eq!(place.files(), Vec::<PathBuf>::new());
}

#[test]
fn whoever_renames_beside_a_directory_that_is_got_leads_nothing_elsewhere() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    let (tree, victim) = (place.path("source"), place.path("victim"));
    for dir in [tree.join("sub"), victim.join("tree/sub")] {
        fs::create_dir_all(&dir).unwrap();
    }
    for name in ["a", "sub/b"] {
        fs::write(tree.join(name), name).unwrap();
    }
    symlink("b", tree.join("sub/c")).unwrap();
    let closed = fs::Permissions::from_mode(0o500);
    fs::set_permissions(tree.join("sub"), closed).unwrap();
    let (manifest, _) = directory::put_dir(&volume, &tree, &new("x"), place.resources()).unwrap();
    let home = place.path("home");
    fs::create_dir(&home).unwrap();
    // When the first file is written, the private directory gets another name, and a link takes its
    // name.
    let swap = |_| {
        let mut inside = fs::read_dir(&home).unwrap();
        let private = inside.next().unwrap().unwrap().path();
        if !private.is_symlink() && !home.join("hidden").exists() {
            fs::rename(&private, home.join("hidden")).unwrap();
            symlink(&victim, private).unwrap();
        }
    };
    let resources = TransferResources {
        watch: Watch {
            check: &|| Ok(()),
            advance: &swap,
            throttle: None,
        },
        ..place.resources()
    };
    let got = directory::get_dir(&volume, &manifest, &home.join("out"), resources);
    assert_eq!(got.unwrap(), 3);
    assert!(home.join("hidden").exists());
    assert_eq!(fs::read(home.join("out/sub/c")).unwrap(), b"sub/b");
    assert_eq!(mode_of(&home.join("out/sub")), 0o500);
    assert_eq!(fs::read_dir(victim.join("tree/sub")).unwrap().count(), 0);
    assert_eq!(mode_of(&victim.join("tree/sub")), 0o755);
}

#[test]
fn a_file_that_is_got_gets_its_permissions_back_and_no_file_that_took_its_place() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    let (source, out, victim) = (place.path("x"), place.path("out"), place.path("victim"));
    fs::write(&source, bytes(9000, 1)).unwrap();
    fs::set_permissions(&source, fs::Permissions::from_mode(0o666)).unwrap();
    let manifest = transfer::put_file(&volume, &source, &new("x"), place.resources()).unwrap();
    fs::write(&victim, "closed").unwrap();
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    let swap = {
        let (out, victim) = (out.clone(), victim.clone());
        move |_: &Path| {
            fs::remove_file(&out).unwrap();
            symlink(&victim, &out).unwrap();
        }
    };
    let hooked = HookDevice::new(Arc::clone(&place.device), |_, _| ()).after_renames(swap);
    let hooked: Arc<dyn Device> = Arc::new(hooked);
    let resources = TransferResources {
        device: &hooked,
        ..place.resources()
    };
    let source = || transfer::open(&volume, &manifest, None, &place.budget).unwrap();
    transfer::get_file(source(), &out, false, resources).unwrap();
    assert_eq!(mode_of(&victim), 0o600);
    fs::remove_file(&out).unwrap();
    transfer::get_file(source(), &out, false, place.resources()).unwrap();
    assert_eq!(mode_of(&out), 0o666);
}

fn set_time(path: &Path, time: SystemTime) {
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn links_modes_times_and_odd_names_come_back_as_they_were() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    let tree = place.path("tree");
    let closed = tree.join("closed");
    fs::create_dir_all(&closed).unwrap();
    let odd: Vec<OsString> = [
        &b"ends in CR\r"[..],
        b"two\nlines",
        b"tab\there",
        b"back\\slash",
        b"\xff\xfe not UTF-8",
        b" blanks  ",
        "\u{e4}\u{1F980}".as_bytes(),
        b"\x1b[31mred",
    ]
    .into_iter()
    .map(|name| OsString::from_vec(name.to_vec()))
    .collect();
    let old = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for (number, name) in odd.iter().enumerate() {
        fs::write(closed.join(name), bytes(1000, number as u64)).unwrap();
        set_time(&closed.join(name), old);
    }
    for (mode, name) in [(0o600, "private"), (0o755, "program"), (0o444, "sealed")] {
        fs::write(tree.join(name), name).unwrap();
        fs::set_permissions(tree.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    symlink("closed/nowhere", tree.join("dangling")).unwrap();
    symlink(OsStr::from_bytes(b"closed/ends in CR\r"), tree.join("link")).unwrap();
    symlink("/etc", tree.join("zz outside")).unwrap();
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o500)).unwrap();
    fs::set_permissions(&tree, PermissionsExt::from_mode(0o710)).unwrap();
    set_time(&closed, old);
    set_time(&tree, old + Duration::from_secs(60));

    let (manifest, _) =
        directory::put_dir(&volume, &tree, &new("tree"), place.resources()).unwrap();
    let out = place.path("out tree");
    directory::get_dir(&volume, &manifest, &out, place.resources()).unwrap();
    let mut names: Vec<PathBuf> = vec!["".into(), "closed".into()];
    names.extend(odd.iter().map(|name| Path::new("closed").join(name)));
    names.extend(["private", "program", "sealed"].map(PathBuf::from));
    for name in names {
        let (was, is) = (tree.join(&name), out.join(&name));
        assert_eq!(mode_of(&is), mode_of(&was), "{name:?}");
        let facts = [&was, &is].map(|path| fs::metadata(path).unwrap());
        assert_eq!(
            facts[1].modified().unwrap(),
            facts[0].modified().unwrap(),
            "{name:?}"
        );
        if facts[0].is_file() {
            assert!(
                fs::read(&is).unwrap() == fs::read(&was).unwrap(),
                "{name:?}"
            );
        }
    }
    for name in ["dangling", "link", "zz outside"] {
        let targets = [&tree, &out].map(|dir| fs::read_link(dir.join(name)).unwrap());
        assert_eq!(targets[1], targets[0]);
    }
    // One by one, by the name in a listing.
    let index = transfer::index_of(&volume, &manifest, &place.budget).unwrap();
    for (number, name) in odd.iter().enumerate() {
        let path = Path::new("closed").join(name);
        let entry = index
            .listed()
            .find(|entry| path == Path::new(&entry.name))
            .unwrap();
        assert!(!entry.text().contains(char::is_control));
        let found = place
            .get_file(&volume, "tree", Some(&entry.text()))
            .unwrap();
        assert!(found == bytes(1000, number as u64), "{name:?}");
        assert_eq!(
            fs::metadata(place.path("out")).unwrap().modified().unwrap(),
            old
        );
    }
    let link = transfer::open(&volume, &manifest, Some("dangling"), &place.budget);
    let error = link.err().unwrap().to_string();
    assert!(error.contains("symbolic link to closed/nowhere"), "{error}");
}

#[test]
fn sockets_and_pipes_are_left_out_and_counted() {
    let place = TestDir::new(1);
    let volume = place.create(1 << 16);
    let tree = place.path("tree");
    fs::create_dir_all(tree.join("b")).unwrap();
    fs::write(tree.join("a"), "kept").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(tree.join("b/socket")).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(
        rustix::fs::CWD,
        tree.join("c"),
        rustix::fs::FileType::Fifo,
        mode,
        0,
    )
    .unwrap();
    let (manifest, left_out) =
        directory::put_dir(&volume, &tree, &new("tree"), place.resources()).unwrap();
    assert_eq!((manifest.files, left_out.count), (1, 2));
    assert_eq!(left_out.first, Some(tree.join("b/socket")));
    assert_eq!(place.get_file(&volume, "tree", Some("a")).unwrap(), b"kept");
}

#[test]
fn what_only_its_owner_could_read_is_read_by_nobody_else_afterwards() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    let shares = |id: &str| [0, 1].map(|drive| mode_of(&volume.share_path(id, drive)));
    let source = place.path("source");
    for (mode, of_share) in [(0o600, 0o400), (0o640, 0o440), (0o644, 0o444)] {
        fs::write(&source, bytes(200_000, 1)).unwrap();
        fs::set_permissions(&source, PermissionsExt::from_mode(mode)).unwrap();
        let name = format!("f{mode:o}");
        let manifest =
            transfer::put_file(&volume, &source, &new(&name), place.resources()).unwrap();
        assert_eq!(shares(&manifest.id), [of_share; 2], "{mode:o}");
        let copy = new(&format!("copy-{name}"));
        let copied = transfer::copy(&volume, &manifest, &volume, &copy, place.resources()).unwrap();
        assert_eq!(shares(&copied.id), [of_share; 2], "{mode:o}");
        for name in [&name, &copy.name] {
            let _ = fs::remove_file(place.path("out"));
            place.get_file(&volume, name, None).unwrap();
            let (was, is) = (
                fs::metadata(&source).unwrap(),
                fs::metadata(place.path("out")).unwrap(),
            );
            assert_eq!(is.permissions().mode() & 0o777, mode);
            assert_eq!(
                (is.mtime(), is.mtime_nsec()),
                (was.mtime(), was.mtime_nsec())
            );
        }
    }
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("open"), "x").unwrap();
    fs::write(tree.join("closed"), "y").unwrap();
    fs::set_permissions(tree.join("closed"), PermissionsExt::from_mode(0o600)).unwrap();
    let (manifest, _) =
        directory::put_dir(&volume, &tree, &new("tree"), place.resources()).unwrap();
    assert_eq!(shares(&manifest.id), [0o400; 2]);
}

#[test]
fn files_of_every_length_around_the_borders_of_chunks_come_back() {
    let place = TestDir::new(2);
    let volume = place.create(1 << 16);
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    const KIB: usize = 1 << 10;
    let lens = [
        0,
        1,
        4095,
        4096,
        4097,
        255 * KIB,
        256 * KIB,
        256 * KIB + 1,
        700 * KIB + 5,
        1024 * KIB - 1,
        1024 * KIB,
        1024 * KIB + 1,
        0,
        3,
        2048 * KIB + 4097,
        100 * KIB,
        200 * KIB,
        9 * 1024 * KIB,
        5,
    ];
    for (number, len) in lens.into_iter().enumerate() {
        fs::write(tree.join(format!("{number:02}")), bytes(len, number as u64)).unwrap();
    }
    let (manifest, _) =
        directory::put_dir(&volume, &tree, &new("tree"), place.resources()).unwrap();
    let out = place.path("back");
    directory::get_dir(&volume, &manifest, &out, place.resources()).unwrap();
    for (number, len) in lens.into_iter().enumerate() {
        let name = format!("{number:02}");
        assert!(
            fs::read(out.join(&name)).unwrap() == bytes(len, number as u64),
            "{name}"
        );
        assert!(place.get_file(&volume, "tree", Some(&name)).unwrap().len() == len);
    }
}
