#!/usr/bin/env python3
"""Looks at the built site in headless Chromium: `scripts/check_site.py [--shots DIR]`.

Contract: serves `site/` on this machine and opens every page at 400 and 1280 pixels. A page fails if
it scrolls sideways, asks for anything from the network, or logs an error. The search fails if it
does not find a command. `--shots` saves an image of each page, in light and dark colours. Needs
playwright and Chromium; without them it prints `SKIP: reason` and succeeds.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import shutil
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTHS = (400, 1280)
COLOURS = ("light", "dark")
OVERFLOW = """() => {
  const wide = document.scrollingElement.clientWidth;
  if (document.scrollingElement.scrollWidth <= wide) return '';
  for (const element of document.querySelectorAll('article *')) {
    const clipped = element.closest('.md-typeset__scrollwrap, pre, .highlight');
    if (!clipped && element.getBoundingClientRect().right > wide + 1)
      return element.tagName + ': ' + element.textContent.trim().slice(0, 60);
  }
  return 'something';
}"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, format: str, *words: object) -> None:
        """Says nothing."""


def main() -> int:
    """Opens all pages; the exit code is 1 if one is wrong."""
    parser = argparse.ArgumentParser(description="Opens every page of the site in Chromium.")
    parser.add_argument("--shots", type=Path, help="a directory for images of the pages")
    parser.add_argument("pages", nargs="*", help="parts of names; default: all")
    options = parser.parse_args()
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import TimeoutError as PlaywrightTimeout
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("SKIP: playwright is not installed")
        return 0
    if browser_path is None:
        print("SKIP: there is no Chromium")
        return 0
    site = ROOT / "site"
    pages = [page for page in sorted(site.rglob("*.html"))
             if not options.pages or any(part in str(page) for part in options.pages)]
    wrong: list[str] = []
    handler = functools.partial(QuietHandler, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}/"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for width in WIDTHS:
            for colour in COLOURS if options.shots else COLOURS[:1]:
                context = browser.new_context(viewport={"width": width, "height": 900},
                                              color_scheme=colour)
                tab = context.new_page()
                asked: list[str] = []
                tab.on("request", lambda request: asked.append(request.url))
                tab.on("console", lambda said: asked.append(f"error: {said.text}")
                       if said.type == "error" and "load resource" not in said.text else None)
                tab.on("response", lambda answer: asked.append(f"{answer.status}: {answer.url}")
                       if answer.status >= 400 else None)
                for page in pages:
                    name = str(page.relative_to(site))
                    asked.clear()
                    tab.goto(base + name)
                    if overflow := tab.evaluate(OVERFLOW):
                        wrong.append(f"{name} at {width} px: scrolls sideways: {overflow}")
                    wrong += [f"{name}: {url}" for url in asked
                              if not url.startswith((base, "data:", "blob:"))]
                    if options.shots:
                        options.shots.mkdir(parents=True, exist_ok=True)
                        shot = f"{name.replace('/', '_')}-{width}-{colour}.png"
                        tab.screenshot(path=options.shots / shot, full_page=False)
                context.close()
        tab = browser.new_page(viewport={"width": WIDTHS[1], "height": 900})
        tab.goto(f"{base}index.html")
        tab.click("input[name=query]")
        tab.fill("input[name=query]", "pagerank")
        try:
            tab.wait_for_selector(".md-search-result__item a[href*=graph]", timeout=60_000)
        except PlaywrightTimeout:
            wrong.append("the search does not find `pagerank`")
        browser.close()
    server.shutdown()
    for line in dict.fromkeys(wrong):
        print(f"FAILED: {line}")
    print(f"{len(pages)} pages, {len(set(wrong))} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
