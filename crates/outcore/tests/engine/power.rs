//! Power losses: the power goes off after a drawn operation, and any subset of the blocks that were
//! not synced is lost.
//!
//! Contract: expected bytes are those of a run without a loss. An output that has its name
//! after a loss is whole. A job with a journal is continued or begun anew, and writes the same
//! bytes. `OUTCORE_POWER_SEEDS` sets how many losses each test tries (divided by 50 on files of the
//! system), `OUTCORE_POWER_FROM` the first seed. A failure names the seed.

use std::path::Path;
use std::sync::Arc;

use outcore::job::JobOptions;
use outcore::shuffle::{ShuffleOptions, Unit, shuffle};
use outcore::sort::lines::{LineSortOptions, sort_lines};
use outcore::sort::{SortOptions, sort};
use outcore::{ByteOrder, Device, Input, IoMode, Job, Output, RecordFormat, Result, ResumeOptions};
use outcore_io::drive::FileSystem;
use outcore_io::drive::os::OsDevice;
use outcore_io::drive::testing::{PowerDevice, RamDevice, RamOptions};

/// A kind of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Numbers,
    Records,
    Lines,
    Shuffle,
}

const KINDS: [Kind; 4] = [Kind::Numbers, Kind::Records, Kind::Lines, Kind::Shuffle];

/// A number that the environment may set.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// splitmix64.
fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// About this many bytes for a job.
fn input_of(kind: Kind, len_bytes: usize) -> Vec<u8> {
    match kind {
        Kind::Lines => {
            let lines = (0..len_bytes as u64 / 12).map(|line| format!("{}\n", mixed(line) >> 28));
            lines.collect::<String>().into_bytes()
        }
        _ => (0..len_bytes as u64 / 16)
            .flat_map(|at| [mixed(at), at])
            .flat_map(u64::to_le_bytes)
            .collect(),
    }
}

fn run(job: &Job, kind: Kind, dir: &Path) -> Result<()> {
    let inputs = [Input::raw(dir.join("in"))];
    let output = Output::from(dir.join("out").as_path());
    match kind {
        Kind::Numbers | Kind::Records => {
            let format = match kind {
                Kind::Numbers => RecordFormat::parse_type("u64")?,
                _ => RecordFormat::parse_type("u64x2")?,
            };
            sort(job, &inputs, output, &format, SortOptions::default()).map(drop)
        }
        Kind::Lines => {
            let options = LineSortOptions::default();
            sort_lines(job, &inputs, output, &ByteOrder, options).map(drop)
        }
        Kind::Shuffle => {
            let options = ShuffleOptions {
                unit: Unit::Records { record_bytes: 16 },
                seed: 3,
                epoch: 0,
                replace: false,
            };
            shuffle(job, &inputs, output, options).map(drop)
        }
    }
}

fn job_on(device: Arc<dyn Device>, memory_bytes: u64, is_resumed: bool) -> Job {
    let options = JobOptions {
        threads: 1,
        memory_bytes,
        resume: is_resumed.then(ResumeOptions::default),
        ..JobOptions::default()
    };
    Job::on(options, device)
}

#[test]
fn what_has_its_name_after_a_power_loss_is_whole() {
    const LEN_BYTES: u64 = 100_000;
    const MEMORY_BYTES: u64 = 8 << 20;
    let first = setting("OUTCORE_POWER_FROM", 0);
    let seeds = setting("OUTCORE_POWER_SEEDS", 120);
    let ready = KINDS.map(|kind| {
        let ram = RamDevice::new(RamOptions::default());
        let input = input_of(kind, LEN_BYTES as usize);
        ram.put("/d0/in", input.clone());
        let device = PowerDevice::new(Arc::new(ram.clone()), u64::MAX);
        let job = job_on(Arc::new(device.clone()), MEMORY_BYTES, false);
        run(&job, kind, Path::new("/d0")).unwrap();
        (input, ram.get("/d0/out").unwrap(), device.operations())
    });
    let (mut whole, mut absent) = (0, 0);
    for seed in first..first + seeds {
        let which = (mixed(seed) % 4) as usize;
        let (kind, (input, expected, operations)) = (KINDS[which], &ready[which]);
        let ram = RamDevice::new(RamOptions {
            seed,
            ..RamOptions::default()
        });
        ram.put("/d0/in", input.clone());
        let off_after = mixed(seed ^ 0xF00D) % (operations + 4);
        let device = PowerDevice::new(Arc::new(ram.clone()), off_after);
        let job = job_on(Arc::new(device.clone()), MEMORY_BYTES, false);
        let done = run(&job, kind, Path::new("/d0"));
        let after = device.lose(mixed(seed));
        match after.iter().find(|file| file.path == Path::new("/d0/out")) {
            Some(file) => {
                whole += 1;
                let is_whole = file.bytes.as_ref() == Some(expected);
                assert!(is_whole, "seed {seed}: {kind:?} off after {off_after}");
            }
            None => {
                absent += 1;
                assert!(done.is_err(), "seed {seed}: {kind:?} is lost");
            }
        }
    }
    println!("{seeds} losses from seed {first}: {whole} whole, {absent} absent, 0 lost");
    assert!(absent > 0 && (whole > 0 || seeds < 50), "{whole} {absent}");
}

#[test]
fn a_job_with_a_journal_is_right_after_power_losses() {
    const LEN_BYTES: u64 = 8 << 20;
    let first = setting("OUTCORE_POWER_FROM", 0);
    let seeds = setting("OUTCORE_POWER_SEEDS", 600) / 50;
    let mut known: [Option<(Vec<u8>, u64)>; 4] = Default::default();
    let (mut kept, mut anew) = (0, 0);
    for seed in first..first + seeds {
        let which = (seed % 4) as usize;
        let kind = KINDS[which];
        let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let place = place.unwrap();
        let (dir, out) = (place.path(), place.path().join("out"));
        std::fs::write(dir.join("in"), input_of(kind, LEN_BYTES as usize)).unwrap();
        let powered =
            |off_after| PowerDevice::new(Arc::new(OsDevice::new(IoMode::Auto)), off_after);
        let start = |device: &PowerDevice| {
            // Memory is smaller than the data, so that most data go to scratch.
            let memory_bytes = match kind {
                Kind::Numbers => 5 << 20,
                Kind::Records | Kind::Lines => 6 << 20,
                Kind::Shuffle => 8 << 20,
            };
            let job = job_on(Arc::new(device.clone()), memory_bytes, true);
            run(&job, kind, dir)
        };
        let (expected, operations) = known[which].get_or_insert_with(|| {
            let device = powered(u64::MAX);
            start(&device).unwrap();
            let expected = std::fs::read(&out).unwrap();
            std::fs::remove_file(&out).unwrap();
            (expected, device.operations())
        });
        // The power may go off again while the job is continued.
        for loss in 0..1 + mixed(seed) % 3 {
            let drawn = mixed(seed.wrapping_mul(8).wrapping_add(loss));
            let device = powered(drawn % (*operations + 8));
            let done = start(&device);
            assert!(done.is_ok() || device.is_off(), "seed {seed}: {done:?}");
            for file in device.lose(drawn >> 8) {
                match file.bytes.filter(|_| file.path.exists()) {
                    Some(bytes) => std::fs::write(&file.path, bytes).unwrap(),
                    None => drop(std::fs::remove_file(&file.path)),
                }
            }
            let is_kept = outcore::resumable(&out).is_some();
            kept += u64::from(is_kept);
            anew += u64::from(!is_kept);
            if out.exists() {
                assert!(
                    std::fs::read(&out).unwrap() == *expected,
                    "seed {seed}: not whole"
                );
                break;
            }
        }
        // The next run finishes the rest, even if the output already has its name.
        let last = start(&powered(u64::MAX));
        assert!(last.is_ok() || out.exists(), "seed {seed}: {last:?}");
        assert!(
            std::fs::read(&out).unwrap() == *expected,
            "seed {seed}: wrong"
        );
        OsDevice::new(IoMode::Auto).sweep_private_dirs(dir).unwrap();
        let names = std::fs::read_dir(dir).unwrap().count();
        assert_eq!(names, 2, "seed {seed}: something is left");
    }
    println!("{seeds} jobs from seed {first}: {kept} losses kept checkpoints, {anew} did not");
    assert!(kept > 0, "{kept}");
}
