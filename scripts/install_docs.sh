#!/bin/sh
# Installs the man pages and the shell completions that a program itself prints, so that they
# always match it: scripts/install_docs.sh PROGRAM PREFIX, or --remove PREFIX to remove those of all programs.
set -eu
prefix=$2
man_dir=$prefix/share/man/man1
bash_dir=$prefix/share/bash-completion/completions
zsh_dir=$prefix/share/zsh/site-functions
fish_dir=$prefix/share/fish/vendor_completions.d

if [ "$1" = --remove ]; then
    rm -f "$man_dir/outcore.1" "$man_dir"/outcore-*.1
    for name in outcore outcore-lab; do
        rm -f "$bash_dir/$name" "$zsh_dir/_$name" "$fish_dir/$name.fish"
    done
    exit 0
fi

# Written to another name first, so that a command that fails leaves no empty page behind.
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

name=$(basename "$1")
mkdir -p "$man_dir"
"$1" man --force "$man_dir"
put "$bash_dir/$name" "$1" completions bash
put "$zsh_dir/_$name" "$1" completions zsh
put "$fish_dir/$name.fish" "$1" completions fish
