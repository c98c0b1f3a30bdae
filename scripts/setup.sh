#!/bin/sh
# Prepares a checkout for `make demo` and `make test`; if it cannot, it says what is missing.
# Needs: rustup's stable toolchain, Python 3.10 or later, a C compiler. Adds: rustfmt and clippy
# if rustup can, and a private Python environment in .venv. Outside the checkout it changes only
# those two components. Running it again takes a moment.
#   scripts/setup.sh rust      the toolchain only (building, the demo)
#   scripts/setup.sh docs      the toolchain, and .venv-docs for the documentation site
#   scripts/setup.sh           the toolchain, its components and .venv, with emulators of stores
#                              in .venv/servers if there are npm and go
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf 'setup: %s\n' "$1" >&2
    exit 1
}

check_rust() {
    command -v cargo >/dev/null 2>&1 ||
        fail "cargo is missing; install Rust's stable toolchain from https://rustup.rs"
    found=$(rustc --version 2>/dev/null | cut -d' ' -f2 | cut -d- -f1)
    [ -n "$found" ] || fail "rustc does not run; try 'rustup default stable'"
    wanted=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' Cargo.toml)
    lowest=$(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1)
    [ "$lowest" = "$wanted" ] ||
        fail "rustc $found is older than $wanted; try 'rustup update stable'"
    command -v "${CC:-cc}" >/dev/null 2>&1 || command -v gcc >/dev/null 2>&1 ||
        command -v clang >/dev/null 2>&1 ||
        fail "no C compiler; install one (Debian: apt-get install gcc libc6-dev)"
}

add_components() {
    for component in rustfmt clippy; do
        case $component in
            rustfmt) tool=fmt ;;
            *) tool=$component ;;
        esac
        if ! cargo "$tool" --version >/dev/null 2>&1; then
            echo "setup: adding $component"
            rustup component add "$component" ||
                echo "setup: $component could not be added; its check will be skipped" >&2
        fi
    done
}

find_python() {
    for python in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    fail "no Python 3.10 or later; install one, or name it: make PYTHON=/path/to/python3 test"
}

# Some distributions ship venv without pip (Debian's python3 without python3-venv).
make_environment() {
    if "$1" -m venv --clear "$2" >/dev/null 2>&1; then
        return
    fi
    "$1" -m venv --clear --without-pip "$2" &&
        "$1" -m pip --python "$2/bin/python" install --quiet pip ||
        fail "$1 cannot make an environment; Debian: apt-get install python3-venv"
}

# $1: the environment; $2: its packages.
prepare_python() {
    python=$(find_python) || exit 1
    stamp="$("$python" --version) $(cksum <"$2")"
    if [ -x "$1/bin/python" ] && [ "$(cat "$1/prepared" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    echo "setup: preparing $1 with $("$python" --version)"
    make_environment "$python" "$1"
    "$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$2" </dev/null ||
        fail "the packages of $2 could not be installed; is there a network?"
    echo "$stamp" >"$1/prepared"
}

# $1: the environment; $2: packages that are installed one by one, as far as they can be.
prepare_optional() {
    stamp=$(cksum <"$2")
    if [ "$(cat "$1/optional" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    grep -v '^#' "$2" | while read -r package; do
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check "$package" </dev/null ||
            echo "setup: $package could not be installed; its tests will be skipped" >&2
    done
    echo "$stamp" >"$1/optional"
}

# $1: the environment. Its folder `servers` gets emulators of object stores, for tests.
prepare_servers() {
    azurite=azurite@3.37.0
    gcs=github.com/fsouza/fake-gcs-server@v1.56.1
    stamp="$azurite $gcs"
    if [ "$(cat "$1/servers/prepared" 2>/dev/null)" = "$stamp" ]; then
        return
    fi
    mkdir -p "$1/servers"
    npm install --silent --no-audit --no-fund --prefix "$1/servers" "$azurite" </dev/null ||
        echo "setup: azurite could not be installed (npm); its tests will be skipped" >&2
    GOBIN="$(pwd)/$1/servers/bin" go install "$gcs" </dev/null ||
        echo "setup: fake-gcs-server could not be installed (go); its tests will be skipped" >&2
    echo "$stamp" >"$1/servers/prepared"
}

check_rust
case ${1:-all} in
    rust) ;;
    docs) prepare_python .venv-docs scripts/docs-requirements.txt ;;
    *)
        add_components
        prepare_python .venv scripts/requirements.txt
        prepare_optional .venv scripts/optional-requirements.txt
        prepare_servers .venv
        ;;
esac
