#!/bin/sh
# Installs the man pages and the shell completions that the command itself prints, so that they
# always match it: scripts/install_docs.sh COMMAND PREFIX, or --remove PREFIX to take them away.
set -eu
prefix=$2
man_dir=$prefix/share/man/man1
bash_file=$prefix/share/bash-completion/completions/outcore
zsh_file=$prefix/share/zsh/site-functions/_outcore
fish_file=$prefix/share/fish/vendor_completions.d/outcore.fish

if [ "$1" = --remove ]; then
    rm -f "$man_dir/outcore.1" "$man_dir"/outcore-*.1 "$bash_file" "$zsh_file" "$fish_file"
    exit 0
fi

# Written aside first: a command that fails must not leave an empty page behind.
put() {
    file=$1
    shift
    mkdir -p "$(dirname "$file")"
    "$@" >"$file.new" && chmod 644 "$file.new" && mv "$file.new" "$file" || {
        rm -f "$file.new"
        echo "install: '$*' failed, so $file is missing" >&2
        exit 1
    }
    echo "$file"
}

mkdir -p "$man_dir"
"$1" man --force "$man_dir"
put "$bash_file" "$1" completions bash
put "$zsh_file" "$1" completions zsh
put "$fish_file" "$1" completions fish
