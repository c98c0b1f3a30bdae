//! Links the command at a fixed address if it is built for Linux and linked dynamically with glibc.
//!
//! Contract: this applies only to the executables of this package; their stacks, heaps and
//! libraries stay at random addresses. For the reasons and the cost, see
//! `docs/decisions/0023-the-command-lies-at-a-fixed-address.md`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // This script does not see flags that cargo passes only to the last crate (`cargo rustc --
    // ...`). In a static build, such flags already ask for a fixed address.
    let target = |name: &str| std::env::var(name).unwrap_or_default();
    let is_static = target("CARGO_CFG_TARGET_FEATURE")
        .split(',')
        .any(|feature| feature == "crt-static");
    let is_linux = target("CARGO_CFG_TARGET_OS") == "linux";
    if is_linux && target("CARGO_CFG_TARGET_ENV") == "gnu" && !is_static {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
