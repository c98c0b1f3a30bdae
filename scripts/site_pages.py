"""Hooks of MkDocs: the pages and charts of the site that are generated while it is built.

Contract: writes no files. It adds one page per command, made from the output of `outcore COMMAND
--help`. It also adds the Python guide and the changelog, which are outside `docs/`, the notebooks
of `docs/notebooks`, which are run for this, and lists of decisions and benchmarks. The chart of the
front page is made from `docs/benchmarks/summary.json`. Links that leave `docs/` go to the page of
the site that shows the file, or else to the repository. `OUTCORE` names the command; the default is
the last build in `target/`.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = ROOT / "docs" / "benchmarks" / "summary.json"
NOTEBOOKS = ROOT / "docs" / "notebooks"
NOTEBOOK_SECONDS_MAX = 120
# Files outside of docs/, and the pages of the site that show them.
SHOWN = {"python/README.md": "python.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^([A-Z][^:]*):$")
ENTRY = re.compile(r"^ {2,6}(-|\[|<)")
COMMAND = re.compile(r"^ {2}([a-z][a-z-]*) {2,}(\S.*)$")
# Sections that every command has; they are on the page of all commands.
COMMON = {"Messages", "Volume"}
LAB = {"bench", "replay", "sim"}
HIDDEN = {"help"}


@cache
def program() -> Path:
    """The command whose help is shown."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    named = os.environ.get("OUTCORE")
    found = [Path(named)] if named else [target / "release/outcore", target / "debug/outcore"]
    built = [path for path in found if path.is_file()]
    if not built:
        raise PluginError("the reference of commands needs outcore; try `make build`")
    return max(built, key=lambda path: path.stat().st_mtime)


@cache
def help_of(*words: str) -> str:
    """The help text that a command prints."""
    path = program()
    if words and words[0] in LAB:
        path = path.with_name("outcore-lab")
    environment = {"PATH": os.environ.get("PATH", os.defpath), "COLUMNS": "100", "HOME": "/nowhere"}
    done = subprocess.run([path, *words, "--help"], env=environment, capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise PluginError(f"{path} {' '.join(words)} --help: {done.stderr.strip()}")
    return done.stdout


def commands_of(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """The groups of commands that a help lists: title, then name and purpose of each command."""
    groups: list[tuple[str, list[tuple[str, str]]]] = []
    title = None
    for line in text.splitlines():
        if match := HEADING.match(line):
            title = match[1]
        elif not line.startswith(" "):
            title = None if line.strip() else title
        elif title and (match := COMMAND.match(line)) and match[1] not in HIDDEN:
            if title in ("First steps", "Examples"):
                continue
            if not groups or groups[-1][0] != title:
                groups.append((title, []))
            groups[-1][1].append((match[1], match[2]))
    return groups


def plain(text: str) -> str:
    """Text of a help as Markdown: only what is in backquotes is code."""
    parts = re.split(r"(`[^`]+`)", text)
    escaped = [part if number % 2 else re.sub(r"([\\*_\[\]>|{}])", r"\\\1", part).replace("<", "&lt;")
               for number, part in enumerate(parts)]
    return "".join(escaped)


def sections_of(text: str) -> list[tuple[str, list[str]]]:
    """A help in parts: a heading (empty for paragraphs) and its lines."""
    parts: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if match := HEADING.match(line):
            parts.append((match[1], []))
        elif line.startswith("Usage: "):
            parts.append(("Usage", [line.removeprefix("Usage: ")]))
        elif line.strip() and not line.startswith(" "):
            if not parts or parts[-1][0] or parts[-1][1][-1] == "":
                parts.append(("", []))
            parts[-1][1].append(line)
        elif parts:
            parts[-1][1].append(line.rstrip())
    return parts


def options(lines: list[str]) -> list[str]:
    """Options as a list of definitions."""
    written: list[str] = []
    for line in lines:
        if ENTRY.match(line):
            head = ", ".join(f"`{part.strip()}`" for part in line.strip().split(", "))
            written += ["", head, ""]
            is_first = True
        elif not line.strip():
            written.append("")
        elif line.strip() == "Possible values:":
            written += ["    Possible values:", ""]
        elif match := re.match(r"^\s*- ([^:]+):\s+(.*)$", line):
            written.append(f"    - `{match[1]}`: {plain(match[2])}")
        else:
            text = line.strip()
            shown = re.sub(r"^\[(default|env|aliases): (.*?)=?\]$", r"\1: `\2`", text)
            written.append(("    " if not is_first else ":   ")
                           + (shown if shown != text else plain(text)))
            is_first = False
    return written


def page_of(words: tuple[str, ...], level: int) -> str:
    """The page of a command, or its part of the page of its group."""
    text = help_of(*words)
    name = " ".join(words)
    written = [f"{'#' * level} outcore {name}"]
    groups = commands_of(text)
    titles = {title for title, _ in groups}
    for title, lines in sections_of(text):
        if title in titles or title in COMMON:
            continue
        if title == "":
            written += ["", plain(" ".join(line.strip() for line in lines if line.strip()))]
        elif title == "Usage":
            body = "\n".join(line.strip() for line in lines if line.strip())
            written += ["", "```text", body, "```"]
        elif any(ENTRY.match(line) for line in lines):
            written += ["", f"**{title}**", *options(lines)]
        else:
            body = "\n".join(line[2:] for line in lines).rstrip()
            written += ["", f"**{title}**", "", "```sh", body, "```"]
    for title, commands in groups:
        if len(groups) > 1:
            written += ["", f"{'#' * (level + 1)} {title}"]
        for command, _ in commands:
            deeper = level + (2 if len(groups) > 1 else 1)
            written += ["", page_of((*words, command), deeper)]
    return "\n".join(written)


def commands_page() -> str:
    """The list of all commands, and the options that all of them have."""
    text = help_of()
    written = ["# Commands", "", "`outcore COMMAND --help` and the man pages print the same text.", ""]
    for title, commands in commands_of(text):
        written += ["", f"## {title}", "", "| command | purpose |", "|---|---|"]
        written += [f"| [{name}]({name}.md) | {plain(purpose)} |" for name, purpose in commands]
    for title, lines in sections_of(text):
        if title in COMMON:
            written += ["", f"**{title}, for every command**", *options(lines)]
    return "\n".join(written)


def relinked(text: str, source: PurePosixPath, page: PurePosixPath, repository: str) -> str:
    """Markdown of the file `source` for the page `page`: links to other files lead to their pages."""
    def target(match: re.Match[str]) -> str:
        words, link = match[1], match[2]
        path, _, anchor = link.partition("#")
        if not path or re.match(r"^[a-z]+:", link):
            return match[0]
        place = PurePosixPath(os.path.normpath(source.parent / path))
        if (ROOT / place).is_dir() and (ROOT / place / "README.md").is_file():
            place = place / "README.md"
        if str(place) in SHOWN:
            shown = PurePosixPath(SHOWN[str(place)])
        elif place.suffix == ".ipynb":
            shown = place.with_suffix(".md").relative_to("docs")
        elif place.is_relative_to("docs"):
            shown = place.relative_to("docs")
        else:
            kind = "tree" if (ROOT / place).is_dir() else "blob"
            return f"[{words}]({repository}/{kind}/main/{place})"
        new = os.path.relpath(shown, page.parent)
        return f"[{words}]({new}{'#' + anchor if anchor else ''})"

    lines = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else LINK.sub(target, part)
                   for number, part in enumerate(lines))


def seconds(value: float) -> str:
    """A time in as many digits as a chart needs."""
    return f"{value:.1f} s"


def chart() -> str:
    """The jobs of the README's table as bars: outcore, and the peers that finished."""
    if not SUMMARY.is_file():
        return ""
    rows = [row for row in json.loads(SUMMARY.read_text(encoding="utf-8")) if row.get("readme")]
    parts: list[str] = []
    y = 0
    for row in rows:
        job = re.sub(r"`", "", row["readme"])
        y += 20
        parts.append(f'<text class="job" x="0" y="{y}">{html.escape(job)}</text>')
        bars = [("outcore", row["outcore_seconds"])]
        bars += [(peer["name"].replace("`", ""), peer["seconds"])
                 for peer in row["peers"] if peer.get("seconds")]
        longest = max(value for _, value in bars)
        for name, value in bars:
            y += 18
            kind = "own" if name == "outcore" else "peer"
            label = f"{html.escape(name)}, {seconds(value)}"
            width = f"calc((100% - 190px) * {value / longest:.4f})"
            parts.append(f'<text x="0" y="{y}">{label}</text>'
                         f'<rect class="{kind}" x="185" y="{y - 10}" height="11" '
                         f'style="width:{width}"/>')
        for peer in row["peers"]:
            if peer.get("result"):
                y += 18
                label = html.escape(f"{peer['name']} {peer['result']}")
                parts.append(f'<text x="0" y="{y}">{label}</text>')
        y += 10
    title = "Seconds per job: outcore and other programs"
    body = "".join(parts)
    return (f'<svg class="chart" role="img" aria-label="{title}" height="{y}" '
            f'xmlns="http://www.w3.org/2000/svg">{body}</svg>')


@dataclass(frozen=True)
class Notebook:
    """A notebook after it ran: its page, and the images of the page by name."""

    text: str
    images: dict[str, bytes]

    @staticmethod
    def run(path: Path) -> Notebook:
        """Runs all cells in an empty directory."""
        book = nbformat.read(path, as_version=4)
        with TemporaryDirectory() as place:
            client = NotebookClient(book, timeout=NOTEBOOK_SECONDS_MAX, resources={"metadata": {"path": place}})
            try:
                client.execute()
            except CellExecutionError as error:
                raise PluginError(f"{path.name}: {error}") from None
        files = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
        text, resources = MarkdownExporter().from_notebook_node(book, resources=files)
        title, _, rest = text.strip().partition("\n")
        download = f"[Download this notebook]({path.name}){{: download }}"
        images = {name: data for name, data in resources["outputs"].items()}
        return Notebook(f"{title}\n{download}\n\n{rest}\n", images)


def titled(path: Path) -> str:
    """The title of a page."""
    first = path.read_text(encoding="utf-8").splitlines()[0]
    return first.lstrip("# ").replace("`", "")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the pages that are generated, and those of whole folders, to the navigation."""
    commands: list[object] = ["reference/commands/index.md"]
    for title, names in commands_of(help_of()):
        commands.append({title: [{name: f"reference/commands/{name}.md"} for name, _ in names]})
    folder = ROOT / "docs" / "decisions"
    decisions: list[object] = ["decisions/README.md"]
    decisions += [{titled(path): f"decisions/{path.name}"} for path in sorted(folder.glob("0*.md"))]
    for part in config.nav or []:
        if "Which tool" in part:
            pages = sorted((ROOT / "docs" / "benchmarks").glob("*.md"))
            part["Which tool"] += [{f"Benchmarks: {path.stem}": f"benchmarks/{path.name}"}
                                   for path in pages]
    assert config.nav is not None
    config.nav += [{"Commands": commands},
                   {"Project": [{"Changes": "changelog.md"}, {"Decisions": decisions}]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    def add(name: str, text: str) -> None:
        files.append(File.generated(config, name, content=text))

    repository = str(config.extra["repository"])
    for source, name in SHOWN.items():
        if name != "index.md":
            text = (ROOT / source).read_text(encoding="utf-8")
            add(name, relinked(text, PurePosixPath(source), PurePosixPath(name), repository))
    add("reference/commands/index.md", commands_page())
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = Notebook.run(path)
        add(f"notebooks/{path.stem}.md", notebook.text)
        for image, data in notebook.images.items():
            files.append(File.generated(config, f"notebooks/{image}", content=data))
    for _, commands in commands_of(help_of()):
        for name, _ in commands:
            add(f"reference/commands/{name}.md", page_of((name,), 1))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Puts charts in, and turns links that leave docs/."""
    del files
    markdown = markdown.replace("<!-- chart: speed -->", chart())
    if page.file.generated_by:
        return markdown
    name = PurePosixPath(page.file.src_uri)
    return relinked(markdown, PurePosixPath("docs") / name, name, str(config.extra["repository"]))


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns `[:TYPE][:desc]` of a docstring back into text: it is the form of a key, not a link."""
    del page, config, files
    return re.sub(r'<autoref [^>]*identifier="(:[^"]*)"[^>]*>(.*?)</autoref>', r"[\2][\1]", content)
