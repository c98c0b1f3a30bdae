//! Checks of the fuzz targets for the code that guards users' data. A panic also fails each of
//! them.
//!
//! Contract: each function takes arbitrary bytes. Damage: a view or a dataset with changed bytes in
//! any file is rejected, or returns the original data; it never returns anything else. Metadata
//! with a right checksum and arbitrary contents may be rejected or believed, and nothing panics,
//! hangs or takes memory without bound. Text that is accepted (headers, drives, settings) is
//! written again as text that means the same. A sort gives the result of the naive sort. Uses the
//! engine alone: tests of `outcore-front` run these checks too.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use outcore::IoMode;
use outcore::job::{Job, JobOptions, ScratchDrive};
use outcore::key::RecordFormat;
use outcore::key::npy::NpyHeader;
use outcore::runs::{BuildOptions, SortedView, build};
use outcore::sort::{SortOptions, sort};
use outcore::{Error, Kind, Result};
use outcore::{Input, Output};
use outcore_io::config::{Config, Defaults, DriveSet, Environment, Flags};
use outcore_io::drive::Device;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::{RamDevice, RamOptions};
use outcore_io::memory::Budget;
use outcore_io::metadata::{Form, Owner};
use outcore_store::dataset::manifest::Contents;
use outcore_store::dataset::pack::Index;
use outcore_store::dataset::transfer::{self, TransferResources};
use outcore_store::dataset::writer::NewDataset;
use outcore_store::dataset::{DatasetVolume, VolumeDrive, Watch};
use serde_json::Value;
use tempfile::TempDir;

#[allow(dead_code)]
#[path = "../../crates/outcore/tests/support/oracle.rs"]
mod oracle;

const VIEW: &str = "/d0/view";
const VIEW_RECORDS: u64 = 3000;

fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// The first byte as a choice, and the rest.
fn choose(data: &[u8]) -> (u8, &[u8]) {
    data.split_first()
        .map_or((0, data), |(first, rest)| (*first, rest))
}

/// `whole` with a few bytes replaced: each patch is an offset of two bytes, a length, and the new
/// bytes.
fn patched(whole: &[u8], mut patches: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    while let [low, high, len, rest @ ..] = patches {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len().max(1);
        let (new, behind) = rest.split_at(usize::from(*len % 16).min(rest.len()));
        let end = (at + new.len()).min(bytes.len());
        bytes.splice(at..end, new.iter().copied());
        patches = behind;
    }
    bytes
}

/// Metadata whose body `change` has replaced, with a valid checksum; nothing if the new body is not
/// JSON.
fn resealed(
    kind: &'static str,
    whole: &[u8],
    change: impl Fn(&[u8]) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let form = Form {
        kind,
        version: 2,
        version_min: 2,
        operation: "fuzz",
        len_bytes_max: 1 << 20,
        remedy: "",
        upgrade: "",
    };
    let envelope: Value = serde_json::from_slice(whole).ok()?;
    let body = serde_json::to_vec(&envelope["body"]).ok()?;
    let body: Value = serde_json::from_slice(&change(&body)).ok()?;
    let owner = Owner {
        name: envelope["name"].as_str()?,
        place: envelope["place"].as_str(),
    };
    form.seal(owner, &body).ok()
}

/// A header of a `.npy` file.
pub fn npy(data: &[u8]) {
    let Ok(header) = NpyHeader::parse(data) else {
        return;
    };
    assert_eq!(NpyHeader::len_bytes(data).ok(), Some(header.header_bytes));
    std::hint::black_box(header.file_bytes());
    let again = NpyHeader::parse(&header.encode(header.rows));
    let Ok(again) = again else {
        unreachable!("{again:?} of {header:?}")
    };
    assert_eq!((&again.format, again.rows), (&header.format, header.rows));
    assert_eq!(
        (&again.fields, again.row_shape()),
        (&header.fields, header.row_shape())
    );
}

/// A drives file.
pub fn drives(data: &[u8]) {
    let path = Path::new("/nowhere/drives.toml");
    if let Ok(set) = DriveSet::parse(&text(data), path)
        && let Ok(again) = set.to_text()
    {
        assert_eq!(DriveSet::parse(&again, path).ok(), Some(set), "{again}");
    }
}

/// A configuration file up to the first line `--`, then an environment with one variable per line.
pub fn config(data: &[u8]) {
    static FOLDER: OnceLock<Option<TempDir>> = OnceLock::new();
    let Some(folder) = FOLDER.get_or_init(|| tempfile::tempdir().ok()) else {
        return;
    };
    // Tests call this from several threads.
    let thread = format!("{:?}.toml", std::thread::current().id());
    let path = folder.path().join(thread);
    let text = text(data);
    let (file, variables) = text.split_once("\n--\n").unwrap_or((&text, ""));
    if std::fs::write(&path, file).is_err() {
        return;
    }
    let variables = variables.lines().filter_map(|line| line.split_once('='));
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let environment: Environment = variables
        .chain([("OUTCORE_CONFIG".into(), path.into_os_string())])
        .collect::<Vec<(std::ffi::OsString, std::ffi::OsString)>>()
        .into_iter()
        .collect();
    let defaults = Defaults {
        memory_bytes: 1 << 30,
        threads: 2,
    };
    match Config::load(&Flags::default(), &environment, &defaults) {
        Ok(config) => {
            assert!(config.threads.value >= 1);
            assert!(config.rows().iter().all(|row| !row.key.is_empty()));
        }
        Err(error) => assert!(matches!(error.kind(), Kind::Usage | Kind::Io), "{error}"),
    }
}

fn job(device: &RamDevice, memory_bytes: u64, threads: usize, drives: usize) -> Job {
    let drives = (0..drives).map(|drive| ScratchDrive::new(format!("/d{drive}")));
    let options = JobOptions {
        memory_bytes,
        threads,
        drives: drives.collect(),
        ..JobOptions::default()
    };
    Job::on(options, Arc::new(device.clone()) as Arc<dyn Device>)
}

/// A whole view: its data in order, and its files.
struct View {
    sorted: Vec<u8>,
    files: Vec<(PathBuf, Vec<u8>)>,
}

fn whole_view() -> Result<View> {
    let device = RamDevice::new(RamOptions::default());
    let mut values: Vec<u64> = (0..VIEW_RECORDS)
        .map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20)
        .collect();
    let bytes = |values: &[u64]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>()
    };
    device.put("/d0/in", bytes(&values));
    let options = BuildOptions {
        run_bytes: Some(VIEW_RECORDS * 8 / 3),
        ..BuildOptions::default()
    };
    let format = RecordFormat::parse_type("u64")?;
    let job = job(&device, 64 << 20, 1, 1);
    build(
        &job,
        &[Input::raw("/d0/in")],
        Path::new(VIEW),
        &format,
        options,
    )?;
    values.sort_unstable();
    let files = device.list().into_iter();
    let files = files.filter(|path| path != Path::new("/d0/in"));
    Ok(View {
        sorted: bytes(&values),
        files: files
            .filter_map(|path| Some((path.clone(), device.get(&path)?)))
            .collect(),
    })
}

fn read_view(device: &RamDevice) -> Result<Vec<u8>> {
    let view = SortedView::open(&job(device, 64 << 20, 1, 1), Path::new(VIEW))?;
    let mut all = Vec::new();
    view.copy_to(0..view.len(), &mut all)?;
    Ok(all)
}

/// A sorted view with one damaged file, or with other contents of the manifest.
pub fn view(data: &[u8]) {
    static WHOLE: OnceLock<Option<View>> = OnceLock::new();
    let Some(whole) = WHOLE.get_or_init(|| whole_view().ok()) else {
        unreachable!("a view of {VIEW_RECORDS} numbers is built")
    };
    assert!(
        whole.files.len() >= 2,
        "a manifest, and runs with their indexes"
    );
    let (choice, rest) = choose(data);
    let is_sealed = choice % 3 == 2;
    let is_manifest = |(path, _): &&(PathBuf, Vec<u8>)| path.ends_with("view.json");
    let damaged = match choice % 3 {
        // Any file, patched.
        0 => {
            let (which, patches) = choose(rest);
            let (path, bytes) = &whole.files[usize::from(which) % whole.files.len()];
            Some((path, patched(bytes, patches)))
        }
        // A manifest of arbitrary bytes.
        1 => whole
            .files
            .iter()
            .find(is_manifest)
            .map(|(path, _)| (path, rest.to_vec())),
        // A manifest with a valid checksum.
        _ => whole
            .files
            .iter()
            .find(is_manifest)
            .and_then(|(path, bytes)| {
                let bytes = resealed("sorted view", bytes, |body| patched(body, rest))?;
                Some((path, bytes))
            }),
    };
    let Some((path, bytes)) = damaged else { return };
    let device = RamDevice::new(RamOptions::default());
    for (path, bytes) in &whole.files {
        device.put(path, bytes.clone());
    }
    device.put(path, bytes);
    match read_view(&device) {
        Ok(all) if !is_sealed => assert!(all == whole.sorted, "damage was read as data"),
        Ok(all) => assert!(all.len() as u64 <= VIEW_RECORDS * 8),
        Err(error) => assert_ne!(error.kind(), Kind::Interrupted, "{error}"),
    }
}

/// A volume of two folders with one dataset.
struct TestDir {
    folder: TempDir,
    device: Arc<dyn Device>,
    budget: Budget,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl TestDir {
    const DATA: &[u8] = &[b'd'; 100_000];

    fn new() -> Result<Self> {
        let failed = |error: std::io::Error| Error::io("make volume", &error);
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let folder = folder.map_err(failed)?;
        let mut place = TestDir {
            folder,
            device: Arc::new(OsDevice::new(IoMode::Buffered)),
            budget: Budget::new(1 << 30),
            files: Vec::new(),
        };
        for drive in place.drives() {
            std::fs::create_dir(&drive.dir).map_err(failed)?;
        }
        let device = Arc::clone(&place.device);
        let volume = DatasetVolume::create(device, place.drives(), 1 << 14, 1)?;
        let new = NewDataset {
            name: "x".to_owned(),
            contents: Contents::File,
            files: 1,
            payload_bytes: None,
            replace: false,
            readers: 0o044,
            attributes: None,
            seed: 7,
        };
        let manifest =
            transfer::put_stream(&volume, &mut &TestDir::DATA[..], &new, place.resources())?;
        let mut paths = Vec::new();
        for (index, drive) in place.drives().iter().enumerate() {
            paths.push(volume.manifest_path("x", index));
            paths.push(drive.dir.join("outcore-volume/volume.json"));
            paths.push(volume.share_path(&manifest.id, index));
        }
        for path in paths {
            let bytes = std::fs::read(&path).map_err(failed)?;
            place.files.push((path, bytes));
        }
        Ok(place)
    }

    fn drives(&self) -> Vec<VolumeDrive> {
        let drive = |name: &str| VolumeDrive {
            name: name.to_owned(),
            dir: self.folder.path().join(name),
            weight: 1.0,
            limit_bytes: u64::MAX,
            tags: 32,
            controller: None,
        };
        ["d0", "d1"].map(drive).to_vec()
    }

    fn resources(&self) -> TransferResources<'_> {
        TransferResources {
            device: &self.device,
            budget: &self.budget,
            watch: Watch::NOBODY,
        }
    }

    fn get(&self) -> Result<Vec<u8>> {
        let volume = DatasetVolume::open(Arc::clone(&self.device), self.drives())?;
        let manifest = volume.manifest("x")?;
        let mut reader = volume.reader(&manifest, &self.budget)?;
        let mut all = Vec::new();
        transfer::get_stream(&mut reader, &mut all, Watch::NOBODY)?;
        Ok(all)
    }
}

/// Overwrites a file that may be write-protected.
fn overwrite(path: &Path, bytes: &[u8]) {
    let _ = std::fs::remove_file(path);
    let _ = std::fs::write(path, bytes);
}

/// A dataset on a volume, with damaged manifests, labels or shares, or with other contents of a
/// manifest; and the index of packed files.
pub fn dataset(data: &[u8]) {
    let (choice, rest) = choose(data);
    if choice % 4 == 3 {
        if let Ok(index) = Index::decode(rest)
            && let Ok(again) = Index::decode(&index.encode())
        {
            assert_eq!(again.encode(), index.encode());
        }
        return;
    }
    static PLACE: OnceLock<Option<Mutex<TestDir>>> = OnceLock::new();
    let Some(place) = PLACE.get_or_init(|| TestDir::new().ok().map(Mutex::new)) else {
        unreachable!("a volume is made and a dataset put")
    };
    let place = place.lock().unwrap_or_else(PoisonError::into_inner);
    let (which, rest) = choose(rest);
    let (path, bytes) = &place.files[usize::from(which) % place.files.len()];
    let is_manifest = place.files.iter().position(|(other, _)| other == path) == Some(0);
    let bytes = match choice % 4 {
        0 => patched(bytes, rest),
        1 => rest.to_vec(),
        _ if is_manifest => match resealed("dataset manifest", bytes, |body| patched(body, rest)) {
            Some(bytes) => bytes,
            None => return,
        },
        _ => return,
    };
    overwrite(path, &bytes);
    let found = place.get();
    // Opening the volume may have repaired the damage.
    for (path, whole) in &place.files {
        if std::fs::read(path).ok().as_ref() != Some(whole) {
            overwrite(path, whole);
        }
    }
    if let Ok(all) = found
        && choice % 4 != 2
    {
        assert!(all == TestDir::DATA, "damage was read as data");
    }
}

/// A whole sort, with options from the first bytes, compared with the naive sort.
pub fn sorting(data: &[u8]) {
    const FORMATS: [&str; 10] = [
        "u8",
        "u64",
        "i32be",
        "f32",
        "f64",
        "u128",
        "10/2:4:bytes",
        "7/0:7:bytes:desc",
        "100/0:10:bytes",
        "24/8:8:f64,0:8:u64:desc",
    ];
    const SIZES_BYTES: [usize; 4] = [0, 10_000, 300_000, 3_000_000];
    let [format, flags, threads, drives, size, rest @ ..] = data else {
        return;
    };
    let format = FORMATS[usize::from(*format) % FORMATS.len()];
    let Ok(format) = RecordFormat::parse_type(format) else {
        unreachable!("{format} is a type of records")
    };
    let options = SortOptions {
        descending: flags & 1 != 0,
        stable: flags & 2 != 0,
        unique: flags & 4 != 0,
        ..SortOptions::default()
    };
    let record_bytes = format.record_bytes();
    let bytes = SIZES_BYTES[usize::from(*size) % SIZES_BYTES.len()].max(rest.len());
    // Each repetition is rotated by its number, so that it has other keys.
    let turns = rest
        .chunks(rest.len().max(1))
        .cycle()
        .take(bytes)
        .enumerate();
    let mut input: Vec<u8> = turns
        .flat_map(|(turn, part)| {
            part.iter()
                .map(move |byte| byte.rotate_left(turn as u32 / 7))
        })
        .take(bytes / record_bytes * record_bytes)
        .collect();
    input.truncate(input.len() / record_bytes * record_bytes);
    let (threads, drives) = (1 + usize::from(threads % 4), 1 + usize::from(drives % 3));
    let mut memory_bytes = 1 << 20;
    loop {
        let device = RamDevice::new(RamOptions::default());
        device.put("/d0/in", input.clone());
        let output = Output::File {
            path: PathBuf::from("/d0/out"),
            header: None,
        };
        let job = job(&device, memory_bytes, threads, drives);
        match sort(&job, &[Input::raw("/d0/in")], output, &format, options) {
            Ok(_) => {
                let expected = oracle::sorted(&input, &format, options);
                assert!(device.get("/d0/out") == Some(expected), "{options:?}");
                return;
            }
            // The least memory depends on threads and drives.
            Err(error) if memory_bytes < 1 << 30 => {
                assert!(
                    matches!(error.kind(), Kind::Memory | Kind::Usage),
                    "{error}"
                );
                memory_bytes *= 2;
            }
            Err(error) => unreachable!("{error}"),
        }
    }
}
