//! Links the command at a fixed address where it is built for Linux with glibc, loaded dynamically.
//!
//! Contract: the executables of this package alone; their stacks, heaps and libraries stay at
//! random places. Why, and what that gives up:
//! `docs/decisions/0023-the-command-lies-at-a-fixed-address.md`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Flags that cargo passes to the last crate alone, as `make build` has them, are not seen here:
    // they ask for the same.
    let target = |name: &str| std::env::var(name).unwrap_or_default();
    let is_static = target("CARGO_CFG_TARGET_FEATURE")
        .split(',')
        .any(|feature| feature == "crt-static");
    let is_linux = target("CARGO_CFG_TARGET_OS") == "linux";
    if is_linux && target("CARGO_CFG_TARGET_ENV") == "gnu" && !is_static {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
