#!/bin/sh
# Checks every dependency: licences, one version of each, known vulnerabilities (deny.toml), and that each is
# used. Installs cargo-deny and cargo-machete if they are missing, which takes some minutes. The list of
# vulnerabilities comes over the network; without a network, that check says that it is skipped.
set -eu
cd "$(dirname "$0")/.."

for tool in deny machete; do
    cargo "$tool" --version >/dev/null 2>&1 || cargo install --locked "cargo-$tool"
done
cargo machete
cargo deny --all-features check licenses bans sources
if cargo deny --all-features fetch db >/dev/null 2>&1; then
    cargo deny --all-features check advisories
else
    echo "SKIP: advisories: the list of vulnerabilities cannot be fetched here"
fi
