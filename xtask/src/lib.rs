//! The project's own tools as a library, so that tests can call the code of `cargo xtask`.
//!
//! Contract: nothing here is shipped, and nothing of the engine is linked. The tools therefore
//! build in seconds and work even when the engine does not compile.

pub mod tidy;

use std::path::PathBuf;

/// The root of the repository: the folder above this crate, which contains the workspace manifest.
///
/// # Errors
/// The crate was moved out of its workspace.
pub fn repository_root() -> Result<PathBuf, String> {
    let crate_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let parent = crate_dir
        .parent()
        .filter(|parent| parent.join("Cargo.toml").is_file());
    parent
        .map(PathBuf::from)
        .ok_or_else(|| format!("{} has no workspace above it", crate_dir.display()))
}
