#!/bin/sh
# Runs every fuzz target of fuzz/ for a while: scripts/fuzz.sh [SECONDS]. Stops at the first input
# that breaks a target; cargo-fuzz saves the input in fuzz/artifacts/ and prints how to run it again.
# Needs the nightly toolchain and cargo-fuzz, and prints how to install them.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}

cargo +nightly --version >/dev/null 2>&1 || {
    echo "fuzz: the nightly toolchain is missing; try 'rustup toolchain install nightly'" >&2
    exit 1
}
cargo +nightly fuzz --version >/dev/null 2>&1 || {
    echo "fuzz: cargo-fuzz is missing; try 'cargo install cargo-fuzz'" >&2
    exit 1
}
for target in $(cargo +nightly fuzz list); do
    echo "fuzz: $target for $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds"
done
