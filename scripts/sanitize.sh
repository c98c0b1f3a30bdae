#!/bin/sh
# Runs the unit tests of modules with `unsafe` or with pure logic under tools that detect errors which no test
# asserts: AddressSanitizer (reads and writes outside allocations, use after free) and Miri (undefined behaviour).
# Both need the nightly toolchain; a missing tool is skipped with a message. Takes minutes.
set -eu
cd "$(dirname "$0")/.."
# Modules whose tests start no processes, of outcore-io and the engine. (The tests of drive::os and transfers skip the
# kernel's rings and the buffers lent to them if the kernel provides no ring.)
modules="memory:: key:: checksum:: units:: drive::os transfers:: partition::kernel partition::classify \
    sort::plan sort::radix merge:: shuffle::tree shuffle::plan"
# Modules of other crates: the matrix product, hints to the processor and their users, rows of tables.
vectors="product:: exact:: knn:: kmeans::"
simulator="drive:: event::"
tables="rows:: expr:: fuzzed::damaged_rows"
# python/src/capsule.rs is left out because it needs an interpreter. An extension with the sanitizer loads only into an
# interpreter that was started with the sanitizer's runtime, which reports the interpreter's own memory. Its only unsafe
# line moves a stream out of a capsule; python/tests/test_table.py reads such streams.
# The modules that Miri can run in minutes: it has no io_uring and almost no files, and is a thousand times slower. The
# partition kernel runs with the fallbacks of its vector instructions.
for_miri="memory:: key::word key::order units::tests::values checksum:: partition::kernel"

skip() {
    echo "SKIP: $1" >&2
}

host=$(rustc -vV | sed -n 's/^host: //p')
if ! cargo +nightly --version >/dev/null 2>&1; then
    skip "sanitizers: the nightly toolchain is missing; try 'rustup toolchain install nightly'"
    exit 0
fi
sysroot=$(rustc +nightly --print sysroot)
if ls "$sysroot/lib/rustlib/$host/lib/"*asan.a >/dev/null 2>&1; then
    echo "sanitize: AddressSanitizer: $modules"
    # The explicit target keeps the flags away from build scripts and macros. Tests on a small stack are left out,
    # because the sanitizer's guards around local values enlarge each frame several times. Leaks are not reported:
    # memory whose loan ends too early is leaked on purpose, and tests do that.
    sanitized() {
        ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/sanitize \
            cargo +nightly test --target "$host" "$@"
    }
    sanitized --package outcore-io --package outcore --lib -- $modules --skip on_a_small_stack
    echo "sanitize: AddressSanitizer: outcore-vector: $vectors; outcore-sim: $simulator; outcore-table: $tables"
    sanitized --package outcore-vector --lib -- $vectors
    sanitized --package outcore-sim --lib -- $simulator
    sanitized --package outcore-table --lib --test table -- $tables
else
    skip "AddressSanitizer: this nightly has no runtime for $host"
fi
if cargo +nightly miri --version >/dev/null 2>&1; then
    echo "sanitize: Miri: $for_miri"
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks" CARGO_TARGET_DIR=target/miri PROPTEST_CASES=4 \
        cargo +nightly miri test --package outcore-io --package outcore --lib -- $for_miri
else
    skip "Miri: try 'rustup component add --toolchain nightly miri rust-src'"
fi
