//! The manifest of a view: any flipped bit is detected, and no figure in it makes a reader run on.
//!
//! Contract: as in `faults`. The engine's own writer writes manifests with a correct checksum and
//! wrong contents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use outcore::runs::SortedView;
use outcore::{Error, Kind};
use outcore_io::drive::testing::RamDevice;
use outcore_io::metadata::{Form, Owner};
use serde_json::Value;

use super::kit::{Case, DIR};

const FORM: Form = Form {
    kind: "sorted view",
    version: 2,
    version_min: 2,
    operation: "test",
    len_bytes_max: 1 << 30,
    remedy: "",
    upgrade: "",
};

pub(crate) fn manifest_path() -> PathBuf {
    PathBuf::from(DIR).join("view.json")
}

/// The manifest with changed contents and a correct checksum.
pub(crate) fn resealed(whole: &[u8], change: impl Fn(&mut Value)) -> Vec<u8> {
    let envelope: Value = serde_json::from_slice(whole).unwrap();
    let mut body = envelope["body"].clone();
    change(&mut body);
    let owner = Owner {
        name: "view.json",
        place: envelope["place"].as_str(),
    };
    FORM.seal(owner, &body).unwrap()
}

fn built(case: &Case) -> (RamDevice, Vec<u8>) {
    let ram = case.ram();
    ram.put("/d0/in", case.input());
    case.build(&case.job(Arc::new(ram.clone()))).unwrap();
    let whole = ram.get(manifest_path()).unwrap();
    (ram, whole)
}

fn open(case: &Case, ram: &RamDevice) -> Result<SortedView, Error> {
    SortedView::open(&case.job(Arc::new(ram.clone())), Path::new(DIR))
}

fn is_damage(found: Result<SortedView, Error>) -> Error {
    let Err(error) = found else {
        panic!("a damaged manifest was opened");
    };
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert_eq!(
        error.file_path(),
        Some(manifest_path().as_path()),
        "{error}"
    );
    error
}

#[test]
fn a_flipped_bit_or_a_cut_anywhere_in_the_manifest_is_found_and_names_it() {
    let case = Case::of("u64", 300, 2);
    let (ram, whole) = built(&case);
    for bit in 0..whole.len() as u64 * 8 {
        ram.flip_bit(manifest_path(), bit);
        is_damage(open(&case, &ram));
        ram.flip_bit(manifest_path(), bit);
    }
    for len in 0..whole.len() {
        ram.put(manifest_path(), whole[..len].to_vec());
        is_damage(open(&case, &ram));
    }
    ram.put(manifest_path(), [&whole[..], b" "].concat());
    is_damage(open(&case, &ram));
    ram.put(manifest_path(), whole);
    assert_eq!(open(&case, &ram).unwrap().len(), 300);
}

#[test]
fn manifests_of_other_versions_fields_and_views_are_refused_by_name() {
    let case = Case::of("u64", 300, 2);
    let (ram, whole) = built(&case);
    let old = br#"{"format": "outcore sorted view", "version": 1, "id": "00"}"#;
    ram.put(manifest_path(), old.to_vec());
    let error = open(&case, &ram).err().unwrap();
    assert_eq!(error.kind(), Kind::Usage);
    assert!(error.to_string().contains("of version 1"), "{error}");
    assert!(error.next_step().unwrap().contains("view build"), "{error}");
    let colour = resealed(&whole, |body| body["colour"] = 1.into());
    ram.put(manifest_path(), colour);
    assert!(is_damage(open(&case, &ram)).cause().contains("`colour`"));
    // The view's own id differs from the file's place.
    let other = resealed(&whole, |body| body["id"] = "00".into());
    ram.put(manifest_path(), other);
    assert!(
        is_damage(open(&case, &ram))
            .cause()
            .contains("another view")
    );
}

#[test]
fn sizes_in_a_manifest_that_no_view_has_are_damage_and_no_overflow() {
    let case = Case::of("u64", 1000, 2);
    let (ram, whole) = built(&case);
    let manifest: Value = serde_json::from_slice(&whole).unwrap();
    let block = manifest["body"]["block_records"].as_u64().unwrap();
    for (key, sizes) in [
        (
            "block_records",
            vec![0, u64::MAX, u64::MAX / 8, (1 << 61) + block],
        ),
        ("records", vec![u64::MAX, 1 << 61]),
    ] {
        for size in sizes {
            let changed = resealed(&whole, |body| {
                body[key] = size.into();
                if key == "records" {
                    body["runs"][0]["records"] = size.into();
                    body["runs"][1]["records"] = 0.into();
                }
            });
            ram.put(manifest_path(), changed);
            is_damage(open(&case, &ram));
        }
    }
    ram.put(manifest_path(), whole);
    assert_eq!(open(&case, &ram).unwrap().len(), 1000);
}
