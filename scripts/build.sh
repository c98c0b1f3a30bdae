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
cargo build --release --target "$host" "$@"
mkdir -p "$target_dir/release"
for program in outcore outcore-lab; do
    built=$target_dir/$host/release/$program
    [ ! -f "$built" ] || ln -f "$built" "$target_dir/release/$program"
done
