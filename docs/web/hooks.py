"""What the build of the site adds to the pages in docs/: the reference made from the code, pages of the files of this
repository that pages link to, and pictures in the colours of the page.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keys
import rpc
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MADE = {
    "reference/job-file-keys.md": keys.job_page,
    "reference/scenario-keys.md": keys.scenario_page,
    "reference/rpc.md": rpc.page,
}
LINK = re.compile(r"(!?\[(?:[^\]\\]|\\.)*\]\()([^()\s]+)(\))")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^()\s]+\.svg)\)")
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".toml": "toml", ".proto": "protobuf", ".sh": "bash", ".yaml": "yaml", ".yml": "yaml"}
# In the style of the file itself, for whoever looks at it alone; on a page the page's colours hold.
OWN_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)

_log = logging.getLogger("mkdocs.hooks.diana")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Entries whose page is not there are left out; empty headings with them."""
    config.nav = _there(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for uri, make in MADE.items():
        files.append(File.generated(config, uri, content=make()))
    wanted: dict[str, str] = {}
    for file in list(files.documentation_pages()):
        for target in _outside(file.content_string, file.src_uri):
            wanted.setdefault(target, file.src_uri)
    for target, by in sorted(wanted.items()):
        path = ROOT / target
        if path.is_file():
            files.append(File.generated(config, _page_of(target), content=_shown(target, path)))
        else:
            _log.warning("Doc file '%s' links to '%s', which is no file of the repository.", by, target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri

    def led(match: re.Match[str]) -> str:
        path, mark, anchor = match[2].partition("#")
        target = _repository_file(path, uri)
        if target is None:
            return match[0]
        there = posixpath.relpath(_page_of(target), posixpath.dirname(uri) or ".")
        return f"{match[1]}{there}{mark}{anchor}{match[3]}"

    def drawn(match: re.Match[str]) -> str:
        svg = DOCS / posixpath.normpath(posixpath.join(posixpath.dirname(uri), match[2]))
        return f'<figure class="drawn">{_inline(svg, match[1])}</figure>'

    return _outside_fences(markdown, lambda text: LINK.sub(led, PICTURE.sub(drawn, text)))


def _there(nav: Any) -> Any:
    """The part of a navigation that has pages."""
    if isinstance(nav, str):
        return nav if nav in MADE or (DOCS / nav).is_file() else None
    if isinstance(nav, list):
        return [kept for entry in nav if (kept := _there(entry))]
    return {title: kept for title, below in nav.items() if (kept := _there(below))}


def _outside_fences(markdown: str, change: Any) -> str:
    out, done = [], 0
    for fence in FENCE.finditer(markdown):
        out += [change(markdown[done : fence.start()]), fence[0]]
        done = fence.end()
    return "".join([*out, change(markdown[done:])])


def _outside(markdown: str, uri: str) -> Iterator[str]:
    for match in LINK.finditer(FENCE.sub("", markdown)):
        if target := _repository_file(match[2].partition("#")[0], uri):
            yield target


def _repository_file(link: str, uri: str) -> str | None:
    """The path in the repository that a link of a page names, if it lies outside docs/."""
    if not link or re.match(r"[a-z]+:|/", link):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(uri), link))
    return None if path.startswith("docs/") else path


def _page_of(target: str) -> str:
    return f"source/{target}.md"


def _shown(target: str, path: Path) -> str:
    """A page with the text of a file. It is not searched: the pages are what is to be found."""
    text = path.read_text(encoding="utf-8")
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in re.findall(r"`{3,}", text))])
    return (
        f"---\ntitle: {target}\nsearch:\n  exclude: true\nhide: [toc]\n---\n# {target}\n\n"
        f"{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text.rstrip()}\n{fence}\n"
    )


def _inline(svg: Path, words: str) -> str:
    """The drawing as part of the page, named for who cannot see it."""
    text = OWN_STYLE.sub("", svg.read_text(encoding="utf-8"))
    text = re.sub(r"<\?xml.*?\?>|<!--.*?-->", "", text, flags=re.DOTALL).strip()
    # An empty line would end the block of HTML.
    return re.sub(r"\n\s*\n", "\n", text.replace("<svg ", f'<svg role="img" aria-label="{words}" ', 1))
