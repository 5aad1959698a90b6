"""Reads a built site as a browser would: every link and anchor leads somewhere within it, and nothing on a page is
fetched from another host. `python docs/web/check.py FOLDER`: one line per fault, exit code 1 if there is any.

mkdocs checks the links of Markdown; this sees all there is in the end, the theme's part and drawings included.
"""

from __future__ import annotations

import posixpath
import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ELSEWHERE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
STYLE_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
FETCHED = {"src", "srcset", "data", "poster", "action", "xlink:href"}


@dataclass
class Seen:
    """What a page names, leads to and fetches."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen = Seen()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if value is None:
                continue
            if key in ("id", "name"):
                self.seen.ids.add(value)
            elif key == "href":
                (self.seen.links if tag in ("a", "area") else self.seen.fetched).append(value)
            elif key in FETCHED:
                self.seen.fetched.append(value)
            elif key == "style":
                self.seen.fetched += style_urls(value)


def style_urls(text: str) -> list[str]:
    return [a or b for a, b in STYLE_URL.findall(text)]


def faults(site: Path) -> list[str]:
    """One line each: page, what stands there, what is wrong with it."""
    pages = {str(path.relative_to(site)): _read(path) for path in sorted(site.rglob("*.html"))}
    out = []
    for name, seen in pages.items():
        # Served for any path there is not, so that its links are those of the root.
        if name == "404.html":
            continue
        for link in seen.fetched:
            if ELSEWHERE.match(link):
                out.append(f"{name}: {link}: fetched from another host")
            elif not link.startswith(("data:", "#")):
                out += _missing(site, pages, name, link)
        for link in seen.links:
            if not ELSEWHERE.match(link) and not link.startswith(("mailto:", "data:", "javascript:")):
                out += _missing(site, pages, name, link)
    for path in sorted(site.rglob("*.css")):
        name = str(path.relative_to(site))
        for link in style_urls(path.read_text(encoding="utf-8")):
            if ELSEWHERE.match(link):
                out.append(f"{name}: {link}: fetched from another host")
    return out


def _read(path: Path) -> Seen:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.seen


def _missing(site: Path, pages: dict[str, Seen], name: str, link: str) -> list[str]:
    parts = urlsplit(link)
    target = name
    if parts.path:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
        if target.startswith(".."):
            return [f"{name}: {link}: leads out of the site"]
        if (site / target).is_dir():
            target = posixpath.join(target, "index.html").removeprefix("./")
        if not (site / target).is_file():
            return [f"{name}: {link}: no such file"]
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].ids:
        return [f"{name}: {link}: no such anchor"]
    return []


def main(site: Path) -> int:
    found = faults(site)
    print("\n".join(found) or f"{site}: every link leads somewhere, nothing comes from elsewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
