#!/bin/sh
# Builds programs for release and puts them into target/release: scripts/build.sh OPTIONS-OF-CARGO...
# They are linked statically if a static C library is available (docs/decisions/0024-the-command-is-linked-statically.md).
# The script passes the target explicitly so that the flags apply to the programs and their libraries, not to macros.
set -eu
cd "$(dirname "$0")/.."
target_dir=${CARGO_TARGET_DIR:-target}
host=$(rustc -vV | sed -n 's/^host: //p')
case $(cc -print-file-name=libc.a) in
    /*) export RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static -C relocation-model=static" ;;
esac
# Functions with the same instructions become one, if the linker is LLVM's, as Rust's is on x86-64.
probe=$(mktemp -d)
if echo 'fn main() {}' | rustc -C link-arg=-Wl,--icf=all -o "$probe/probe" - 2>/dev/null; then
    export RUSTFLAGS="${RUSTFLAGS:-} -C link-arg=-Wl,--icf=all"
fi
rm -r "$probe"
cargo build --release --target "$host" "$@"
mkdir -p "$target_dir/release"
for program in outcore outcore-lab; do
    built=$target_dir/$host/release/$program
    [ ! -f "$built" ] || ln -f "$built" "$target_dir/release/$program"
done
