#!/usr/bin/env python3
"""Builds everything that a release consists of into `dist/`: `make release`, or parts of it.

Contract: for each machine (x86_64, aarch64) it makes an archive of the two static programs with their man
pages and completions, a Debian package, a wheel for glibc 2.17 and one for musl 1.2; then a list of all
libraries (CycloneDX) and SHA256SUMS. The C compiler is zig, so one machine builds for both. Each
artifact that this machine can run is tried; for the others, the reason is reported. The same
sources give the same archives and packages: times are those of the last commit. `dist/` is absent
or whole: files are made aside and moved there last. The exit code is 0 only if everything was built
and nothing that was tried failed.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / ".venv-release"
REQUIREMENTS = ROOT / "scripts" / "release-requirements.txt"
DIST = ROOT / "dist"
PROGRAMS = ("outcore", "outcore-lab")
PACKAGES = ("outcore-cli", "outcore-lab")
TEXTS = ("README.md", "LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md")
# The programs carry no addresses that a loader would have to rewrite: docs/decisions/0024.
STATIC = "-C target-feature=+crt-static -C relocation-model=static"
GLIBC = "manylinux_2_17"
MUSL = "musllinux_1_2"


@dataclass(frozen=True)
class Machine:
    """A kind of processor, and its names in other tools."""

    name: str
    debian: str

    @property
    def static_target(self) -> str:
        return f"{self.name}-unknown-linux-musl"

    @property
    def shared_target(self) -> str:
        return f"{self.name}-unknown-linux-gnu"


MACHINES = (Machine("x86_64", "amd64"), Machine("aarch64", "arm64"))


class Failed(Exception):
    """A step that failed; the text names the step."""


class Release:
    """One run: the directories that it builds in, and the artifacts that it made and tried."""

    def __init__(self, profile: str, place: Path) -> None:
        words = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
        facts = json.loads(subprocess.check_output(words, cwd=ROOT))
        package = next(package for package in facts["packages"] if package["name"] == PACKAGES[0])
        self.version: str = package["version"]
        self.homepage: str = package["homepage"]
        self.profile = profile
        self.place = place
        self.untried: list[str] = []
        target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
        self.target = Path(target).resolve()
        log = ["git", "log", "-1", "--format=%ct"]
        self.time = int(subprocess.check_output(log, cwd=ROOT, text=True))

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of the tools: private tools come first in the path, and the caller's
        flags are left out."""
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        variables["PATH"] = f"{TOOLS / 'bin'}{os.pathsep}{variables.get('PATH', '')}"
        variables["CARGO_TARGET_DIR"] = str(self.target)
        variables["SOURCE_DATE_EPOCH"] = str(self.time)
        return {**variables, **more}

    def run(self, *words: str | Path, **more: str) -> None:
        """Runs a tool from the root."""
        print(f"\n$ {' '.join(map(str, words))}", flush=True)
        done = subprocess.run(words, cwd=ROOT, env=self.environment(**more))
        if done.returncode != 0:
            raise Failed(f"{words[0]} ended with exit code {done.returncode}")

    def prepare(self, machines: list[Machine], kinds: set[str]) -> None:
        """Installs the tools into the checkout, and Rust's libraries for the targets."""
        stamp = TOOLS / "prepared"
        wanted = REQUIREMENTS.read_text()
        if not stamp.is_file() or stamp.read_text() != wanted:
            venv.create(TOOLS, clear=True, with_pip=True)
            self.run(TOOLS / "bin" / "pip", "install", "--quiet", "-r", REQUIREMENTS)
            stamp.write_text(wanted)
        targets = [machine.static_target for machine in machines]
        if "wheel" in kinds:
            targets += [machine.shared_target for machine in machines]
        self.run("rustup", "target", "add", *targets)

    def programs(self, machine: Machine) -> Path:
        """Builds the static programs; the folder that has them."""
        packages = [word for package in PACKAGES for word in ("--package", package)]
        options = ["--profile", self.profile, "--target", machine.static_target, "--locked"]
        self.run("cargo-zigbuild", "zigbuild", *options, *packages, RUSTFLAGS=STATIC)
        folder = "debug" if self.profile == "dev" else self.profile
        return self.target / machine.static_target / folder

    def tree(self, machine: Machine, programs: Path) -> Path:
        """Lays out the files that are installed below a prefix. The programs print the same pages on every machine."""
        tree = self.place / f"tree-{machine.name}"
        (tree / "bin").mkdir(parents=True)
        for name in PROGRAMS:
            shutil.copy(programs / name, tree / "bin" / name)
            (tree / "bin" / name).chmod(0o755)
        runner = self.runner(machine)
        if runner is None:
            raise Failed(f"man pages need a program that runs; install qemu-user-static for {machine.name}")
        for name in PROGRAMS:
            script = self.place / name
            script.write_text(f"#!/bin/sh\nexec {' '.join([*runner, str(tree / 'bin' / name)])} \"$@\"\n")
            script.chmod(0o755)
            self.run("scripts/install_docs.sh", script, tree)
        return tree

    def runner(self, machine: Machine) -> list[str] | None:
        """The command that starts a program of that machine here; nothing if that is not possible."""
        if os.uname().machine == machine.name:
            return []
        emulator = shutil.which(f"qemu-{machine.name}-static") or shutil.which(f"qemu-{machine.name}")
        return None if emulator is None else [emulator]

    def archive(self, machine: Machine, tree: Path) -> Path:
        """The programs with everything that belongs to them, below one folder."""
        name = f"outcore-{self.version}-{machine.name}-linux"
        path = self.place / f"{name}.tar.xz"
        self.pack(path, name, tree, [ROOT / text for text in TEXTS])
        return path

    def pack(self, path: Path, folder: str, tree: Path, texts: list[Path]) -> None:
        """Writes a reproducible archive of a tree and some texts next to it."""
        members = {str(file.relative_to(tree)): file for file in tree.rglob("*") if file.is_file()}
        members.update({text.name: text for text in texts})
        with lzma.open(path, "wb", preset=9) as packed:
            with tarfile.open(fileobj=packed, mode="w") as archive:
                for name in sorted(members):
                    data = members[name].read_bytes()
                    member = tarfile.TarInfo(f"{folder}/{name}")
                    member.size, member.mtime = len(data), self.time
                    member.mode = 0o755 if name.startswith("bin/") else 0o644
                    archive.addfile(member, io.BytesIO(data))

    def debian(self, machine: Machine, tree: Path) -> Path | None:
        """The Debian package, if its tool is installed."""
        name = f"outcore_{self.version}_{machine.debian}.deb"
        if shutil.which("dpkg-deb") is None:
            self.untried.append(f"{name}: not built, since dpkg-deb is not installed")
            return None
        root = self.place / f"deb-{machine.name}"
        shutil.copytree(tree, root / "usr")
        for page in (root / "usr/share/man/man1").iterdir():
            page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), 9, mtime=0))
            page.unlink()
        notes = root / "usr/share/doc/outcore"
        notes.mkdir(parents=True)
        licences = (ROOT / "LICENSE-MIT").read_text() + "\n\n" + (ROOT / "LICENSE-APACHE").read_text()
        (notes / "copyright").write_text(f"outcore is MIT OR Apache-2.0: {self.homepage}\n\n{licences}")
        bytes_installed = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN/control").write_text(
            f"Package: outcore\nVersion: {self.version}\nArchitecture: {machine.debian}\n"
            f"Maintainer: outcore developers <{self.homepage}>\nHomepage: {self.homepage}\n"
            f"Installed-Size: {bytes_installed // 1024}\nSection: utils\nPriority: optional\n"
            "Description: compute on data far larger than memory\n"
            " outcore sorts, shuffles, deduplicates, joins, searches and clusters files far\n"
            " larger than memory at the full speed of the drives. outcore-lab measures,\n"
            " replays and simulates drives.\n"
        )
        # The permissions must not depend on the umask of this process.
        for file in root.rglob("*"):
            is_program = file.is_dir() or file.parent.name == "bin"
            file.chmod(0o755 if is_program else 0o644)
        path = self.place / name
        self.run("dpkg-deb", "--root-owner-group", "-Zxz", "-z9", "--build", root, path)
        return path

    def wheel(self, machine: Machine, target: str, system: str) -> Path:
        """A wheel for one C library. It holds both commands."""
        folder = self.place / "wheels" / f"{machine.name}-{system}"
        options = ["--profile", self.profile, "--target", target, "--compatibility", system, "--locked"]
        flags = {"RUSTFLAGS": "-C target-feature=-crt-static"} if "musl" in target else {"RUSTFLAGS": ""}
        manifest: list[str | Path] = ["--manifest-path", "python/Cargo.toml", "--out", folder]
        self.run("maturin", "build", "--zig", *options, *manifest, **flags)
        (built,) = folder.glob("*.whl")
        return Path(shutil.move(built, self.place / built.name))

    def try_program(self, machine: Machine, path: Path) -> None:
        """Unpacks an archive or a package in another directory, and sorts with the unpacked program."""
        runner = self.runner(machine)
        with tempfile.TemporaryDirectory() as place:
            if path.suffix == ".deb":
                self.run("dpkg-deb", "-x", path, place)
                (program,) = Path(place).glob("usr/bin/outcore")
            else:
                self.run("tar", "-xf", path, "-C", place)
                (program,) = Path(place).glob("*/bin/outcore")
            words = [*(runner or []), str(program)]
            sort_something(words, Path(place))
            lab = [*words[:-1], f"{program}-lab", "sim", "presets"]
            if b"pm9a3" not in subprocess.check_output(lab):
                raise Failed(f"{path.name}: outcore-lab does not list its drives")
        print(f"{path.name}: sorts, and lists drives")

    def try_wheel(self, machine: Machine, path: Path) -> None:
        """Installs a wheel into an environment of its own and sorts with it, without a network."""
        if os.uname().machine != machine.name or MUSL in path.name:
            self.untried.append(f"{path.name}: this machine has another processor or C library")
            return
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "environment"
            venv.create(folder, with_pip=True)
            self.run(folder / "bin/pip", "install", "--quiet", "--no-index", path)
            for words in ([str(folder / "bin/outcore")], [str(folder / "bin/python"), "-m", "outcore"]):
                sort_something(words, Path(place))
        print(f"{path.name}: sorts as a command")

    def libraries(self, wheel: Path) -> Path:
        """The list of all libraries in the wheel, which contains both commands."""
        with zipfile.ZipFile(wheel) as files:
            (name,) = [name for name in files.namelist() if name.endswith(".cyclonedx.json")]
            text = files.read(name).decode()
        path = self.place / f"outcore-{self.version}.cyclonedx.json"
        path.write_text(text.replace(f"path+file://{ROOT}", "path+file://"))
        return path


def sort_something(words: list[str], place: Path) -> None:
    """Sorts lines and a table through the command."""
    lines = place / "lines.txt"
    lines.write_bytes(b"b\nc\na\n")
    if subprocess.check_output([*words, "sort", lines]) != b"a\nb\nc\n":
        raise Failed(f"{words[-1]} does not sort lines")
    table, output = place / "table.parquet", place / "sorted.parquet"
    for arguments in (
        ["gen", "sales", "-n", "1000", "-o", str(table), "--force"],
        ["sort", str(table), "-o", str(output), "--by", "price", "--force"],
    ):
        done = subprocess.run([*words, *arguments], capture_output=True)
        if done.returncode != 0:
            raise Failed(f"{words[-1]} {arguments[0]}: {done.stderr.decode(errors='replace')}")


def build(release: Release, machines: list[Machine], kinds: set[str]) -> list[Path]:
    """Builds and tries everything that was requested; returns the files in their order."""
    made: list[Path] = []
    for machine in machines:
        if "program" in kinds:
            tree = release.tree(machine, release.programs(machine))
            built = [release.archive(machine, tree), release.debian(machine, tree)]
            for path in filter(None, built):
                release.try_program(machine, path)
                made.append(path)
        if "wheel" in kinds:
            for target, system in ((machine.shared_target, GLIBC), (machine.static_target, MUSL)):
                path = release.wheel(machine, target, system)
                release.try_wheel(machine, path)
                made.append(path)
    wheels = [path for path in made if path.suffix == ".whl"]
    if wheels:
        made.append(release.libraries(wheels[0]))
    return made


def publish(made: list[Path]) -> None:
    """Moves the files to `dist/`, with their checksums."""
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(made)]
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    for path in made:
        shutil.move(path, DIST / path.name)
    (DIST / "SHA256SUMS").write_text("".join(sums))


def main() -> int:
    """Reads the options, builds, and lists the results."""
    parser = argparse.ArgumentParser(description="Builds what a release consists of into dist/.")
    names = [machine.name for machine in MACHINES]
    parser.add_argument("--machine", action="append", choices=names, help="default: all")
    parser.add_argument("--only", choices=("program", "wheel"), help="default: both")
    parser.add_argument("--profile", default="release", help="of cargo; dev tries the steps sooner")
    asked = parser.parse_args()
    machines = [machine for machine in MACHINES if machine.name in (asked.machine or names)]
    kinds = {asked.only} if asked.only else {"program", "wheel"}
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".release-") as place:
        release = Release(asked.profile, Path(place))
        try:
            release.prepare(machines, kinds)
            publish(build(release, machines, kinds))
        except (Failed, subprocess.CalledProcessError) as error:
            print(f"release: {error}", file=sys.stderr)
            return 1
    print()
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")
    for line in release.untried:
        print(f"not tried: {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
