"""Every citation of docs/design in code, tests and pages leads to a heading, and every file a page or a docstring names
in backticks is there.

A citation is a document and a list: `SPEC J4, D7 and section 7`, `PROMISES 1.7 and section 2, "Leases"`, `PERFORMANCE
P9`, `papers/diana-bulk-scheduling sections IX, X`. "paper section X" without a name means the DIANA paper.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from tests.e2e.grid import REPO

DESIGN = REPO / "docs" / "design"
CITING = ("diana", "tests", "benchmarks", "docs", "scenarios", "examples", "proto")
SUFFIXES = {".py", ".md", ".toml", ".proto", ".json", ".sh"}
DIANA = "diana-bulk-scheduling"

_BETWEEN = re.compile(r"(?:, and | and |, or | or |[,;] ?| to |-)")
_CODE = re.compile(r"[JDKGU]\d+")
_GOAL = re.compile(r"P\d+")
_PROMISE = re.compile(r"\d\.\d+")
_NAMED = re.compile(
    r"sections? (\d)"
    r"(?:,? [\"`](?P<quoted>[\w ]+)|,? (?P<capital>[A-Z][a-z]+)\b|, (?P<plain>[a-z]+(?: [a-z]+)?)(?=[:;.)\"]|$))?"
)
_BARE_CODE = re.compile(r"(?<![\w.`'\"/{-])(?:D1[0-3]|D[1-9]|J[1-9]|K[1-9]|G[1-9]|U1[01]|U[1-9])(?![\w.`'\"/}])")
_STEPS = re.compile(r"steps? (\d+)((?:(?:, | and | to )\d+)*)")
_PAPER = re.compile(r"papers/([\w-]+)(?:,? sections? ((?:[IVX]+|\d)(?:(?:, | and | to )(?:[IVX]+|\d)\b)*))?")
_OF_DIANA = re.compile(
    r"(?:(?<!KOALA )(?:\bpaper|DIANA)(?:'s|,)? sections? |\(sections? |\bof sections? |^sections? )"
    r"([IVX]+(?:(?:,? and |, )[IVX]+)*)\b"
)
_FIGURES = re.compile(r"\b[Ff]igures? (\d+)((?:(?:, | and | to )\d+)*) of (?:the DIANA paper|papers/diana)")
_ANY = re.compile(r"\bSPEC\b|PROMISES|PERFORMANCE|papers/|sections? [IVX]|[Ff]igures? \d+ of|[Ii]ssue \d")


@cache
def texts(path: Path) -> tuple[str, ...]:
    return tuple(_texts(path))


def _texts(path: Path) -> Iterator[str]:
    """The prose of a file that may cite, each piece on one line: strings and runs of comments of Python, all of other
    files."""
    raw = path.read_text(encoding="utf-8")
    if not _ANY.search(raw):
        return
    if path.suffix != ".py":
        yield " ".join(re.sub(r"^\s*(?://|#)+ ?", "", line).strip() for line in raw.splitlines())
        return
    comments: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(raw).readline):
        if token.type == tokenize.COMMENT:
            comments.append(token.string.lstrip("# "))
        elif token.type == tokenize.STRING:
            yield " ".join(token.string.strip("\"' frb").split())
        elif comments and token.type not in (tokenize.NL, tokenize.NEWLINE):
            yield " ".join(comments)
            comments.clear()
    yield " ".join(comments)


@cache
def files() -> tuple[Path, ...]:
    found = [path for top in CITING for path in (REPO / top).rglob("*") if path.suffix in SUFFIXES]
    apart = {Path(__file__).resolve()}
    mine = [path for path in found if path.is_file() and "pb" not in path.parts and path.resolve() not in apart]
    return tuple(sorted([*mine, *REPO.glob("*.md")]))


@cache
def headings(page: str) -> dict[str, str]:
    """Anchor -> title of a page of docs/design, those set in tables included."""
    text = (DESIGN / page).read_text(encoding="utf-8")
    titled = {m[2]: m[1] for m in re.finditer(r"^#+ (.+?) \{#([\w-]+)\}$", text, re.MULTILINE)}
    return titled | {m[1]: "" for m in re.finditer(r'<a id="([\w-]+)"></a>', text)}


@cache
def part(page: str, number: int) -> str:
    """One numbered section of a page."""
    text = (DESIGN / page).read_text(encoding="utf-8")
    return text.partition(f"{{#section-{number}}}")[2].partition("\n## ")[0]


def items(text: str, at: int, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The list that begins at a place in the text."""
    while match := pattern.match(text, at):
        yield match
        between = _BETWEEN.match(text, match.end())
        if between is None:
            return
        at = between.end()


def names_of(match: re.Match[str]) -> str:
    return (match["quoted"] or match["capital"] or match["plain"] or "").strip()


def wrong_section(page: str, match: re.Match[str]) -> str:
    """The fault of a citation like `section 2, "Leases"`; empty: none."""
    number, name = int(match[1]), names_of(match)
    if f"section-{number}" not in headings(page):
        return f"section {number}"
    if not name:
        return ""
    known = part(page, number).lower()
    named = re.findall(r"^### (?:\d\.\d+ )?(.+?) \{|^\| \*\*([^*]+)\*\*", known, re.MULTILINE)
    return (
        "" if any(title.startswith(name.lower()) for pair in named for title in pair if title) else f"{number}, {name}"
    )


def cited(text: str) -> Iterator[tuple[str, str]]:
    """(citation, what is wrong with it, empty where it leads somewhere)."""
    for match in re.finditer(r"\bSPEC\b", text):
        found = list(items(text, match.end() + 1, re.compile(f"{_CODE.pattern}|{_NAMED.pattern}")))
        if not found:
            yield "SPEC", "no row and no section follows"
        for item in found:
            if item[0].startswith("section"):
                yield f"SPEC {item[0]}", wrong_section("spec.md", item)
            else:
                yield f"SPEC {item[0]}", "" if item[0].lower() in headings("spec.md") else "no such row"
    for match in re.finditer(r"\bPROMISES\b", text):
        found = list(items(text, match.end() + 1, re.compile(f"{_PROMISE.pattern}|{_NAMED.pattern}|\\d(?!\\d)")))
        if not found:
            yield "PROMISES", "no promise and no section follows"
        for item in found:
            if item[0].startswith("section"):
                yield f"PROMISES {item[0]}", wrong_section("promises.md", item)
            elif "." in item[0]:
                there = f"p{item[0].replace('.', '-')}" in headings("promises.md")
                yield f"PROMISES {item[0]}", "" if there else "no such promise"
            else:
                after_sections = text[match.end() :].lstrip().startswith("sections")
                there = after_sections and f"section-{item[0]}" in headings("promises.md")
                yield f"PROMISES {item[0]}", "" if there else "say 1.n for a promise, `section n` for a section"
        for steps in _STEPS.finditer(text[match.end() : match.end() + 80]):
            for number in re.findall(r"\d+", steps[0]):
                row = f"\n| {number} | " in part("promises.md", 2)
                yield f"PROMISES step {number}", "" if row else "no such step"
    for match in re.finditer(r"\bPERFORMANCE\b", text):
        found = list(items(text, match.end() + 1, _GOAL))
        if not found and not text[match.end() :].startswith(" by the name"):
            yield "PERFORMANCE", "no goal follows"
        for item in found:
            yield f"PERFORMANCE {item[0]}", "" if item[0].lower() in headings("performance.md") else "no such goal"
    yield from of_papers(text)


def of_papers(text: str) -> Iterator[tuple[str, str]]:
    for match in _PAPER.finditer(text):
        there = match[1] in headings("papers.md")
        yield match[0], "" if there else "no such paper"
        for section in re.findall(r"[IVX]+|\d", match[2] or "") if there else ():
            yield f"{match[1]} section {section}", "" if used(match[1], section) else "no such section in papers.md"
    for match in _OF_DIANA.finditer(text):
        for section in re.findall(r"[IVX]+", match[1]):
            yield f"DIANA section {section}", "" if used(DIANA, section) else "no such section in papers.md"
    for match in _FIGURES.finditer(text):
        for number in re.findall(r"\d+", match[1] + match[2]):
            known = re.search(rf"^\|.*\b{number}\b.* \| ", of_paper(DIANA).partition("| figure |")[2], re.MULTILINE)
            yield f"DIANA figure {number}", "" if known else "no such figure in papers.md"


@cache
def of_paper(name: str) -> str:
    text = (DESIGN / "papers.md").read_text(encoding="utf-8")
    return text.partition(f"{{#{name}}}")[2].partition("\n## ")[0]


def used(paper: str, section: str) -> bool:
    return bool(re.search(rf"^\| (?:<a [^|]*></a>)?{section} \|", of_paper(paper), re.MULTILINE))


def test_every_citation_leads_to_a_heading() -> None:
    found = [(path, *one) for path in files() for text in texts(path) for one in cited(text)]
    wrong = [f"{path.relative_to(REPO)}: {citation}: {fault}" for path, citation, fault in found if fault]
    assert not wrong, "\n".join(wrong)
    assert len(found) > 400


def test_a_row_named_without_its_document_is_a_row() -> None:
    """As in `(D8; PROMISES section 2)`, and in lists that a word interrupts."""
    rows = headings("spec.md")
    wrong = [
        f"{path.relative_to(REPO)}: {code}"
        for path in files()
        if path.suffix == ".py"
        for text in texts(path)
        if "SPEC" in text or "PROMISES" in text
        for code in _BARE_CODE.findall(text)
        if code.lower() not in rows
    ]
    assert not wrong, "\n".join(wrong)


def test_no_citation_leads_out_of_the_repository() -> None:
    elsewhere = re.compile(r"\b[Ii]ssue \d+\b|\b(?:HOUSE|STYLE|PEERS|LATE_BINDING|COALLOCATION|GRADS)(?:\.md)\b")
    wrong = [
        f"{path.relative_to(REPO)}: {m[0]}" for path in files() for t in texts(path) for m in elsewhere.finditer(t)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("(SPEC D7; papers/diana-bulk-scheduling sections IX, X)", ""),
        ("(SPEC D14)", "no such row"),
        ("SPEC as such", "no row and no section follows"),
        ("(SPEC D13 and section 9)", "section 9"),
        ('(PROMISES 1.7 and section 2, "Leases")', ""),
        ("PROMISES section 2, steps 1, 3 and 8; abort", ""),
        ("(PROMISES section 2, step 10)", "no such step"),
        ("(PROMISES 5.18)", "no such promise"),
        ("(PROMISES 6)", "say 1.n for a promise, `section n` for a section"),
        ("(PROMISES section 2, takeaway)", "2, takeaway"),
        ("(papers/diana-bulk-scheduling section XX)", "no such section in papers.md"),
        ("(papers/another section V)", "no such paper"),
        ("(PERFORMANCE P9, P99)", "no such goal"),
    ],
)
def test_a_citation_that_leads_nowhere_is_seen(text: str, wrong: str) -> None:
    faults = [fault for _, fault in cited(text) if fault]
    assert (faults[0] if faults else "") == wrong, list(cited(text))


# --- files that pages and docstrings name --------------------------------------------------------------------

NAMED_FILE = re.compile(r"`([\w.*/{},-]+\.(?:py|md|proto|toml|json|sh|csv|yml|yaml))(?:::\w+)?`")
CODE_FILES = {".py", ".md", ".proto"}
"""In these files any name in backticks is meant as one of the repository; of data only where its first folder is."""
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/owed.md")
MADE = {"docs/json-output.md", "json-output.md"}
"""Pages that the build makes."""


@cache
def paths() -> frozenset[str]:
    kept = {".git", ".venv", "build", "demo-out", "dist", "__pycache__"}
    return frozenset(
        path.relative_to(REPO).as_posix()
        for top in sorted(REPO.iterdir())
        if top.name not in kept
        for path in ([top] if top.is_file() else top.rglob("*"))
    )


@cache
def endings() -> frozenset[str]:
    """All that a file of the repository may be called: its path, with folders left out from the front."""
    return frozenset("/".join(parts[at:]) for path in paths() if (parts := path.split("/")) for at in range(len(parts)))


def spelled(name: str) -> list[str]:
    """`{a,b}.py` stands for both."""
    pieces = re.split(r"\{([^{}]*)\}", name)
    choices = [piece.split(",") if number % 2 else [piece] for number, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in product(*choices)]


def there(name: str) -> bool:
    if name in MADE or name in endings():
        return True
    if "*" in name:
        return any(fnmatch(ending, name) for ending in endings())
    path = Path(name)
    tops = {path.split("/")[0] for path in paths()}
    return path.suffix not in CODE_FILES and path.parts[0] not in tops


def named_in(text: str) -> list[str]:
    return [name for found in NAMED_FILE.findall(text) for name in spelled(found)]


def prose() -> list[tuple[Path, str]]:
    pages = [*(REPO / name for name in PAGES), *DESIGN.glob("*.md"), *(REPO / "docs/decisions").glob("*.md")]
    code = [path for path in files() if path.suffix == ".py"]
    return [(path, path.read_text(encoding="utf-8")) for path in [*pages, *code] if path.exists()]


OTHERS: dict[str, set[str]] = {}
"""File -> names in it that are files of a user or of another program."""


def test_every_file_named_in_backticks_is_there() -> None:
    wrong = [
        f"{path.relative_to(REPO)}: {name}"
        for path, text in prose()
        for name in named_in(text)
        if not there(name) and name not in OTHERS.get(path.relative_to(REPO).as_posix(), ())
    ]
    assert not wrong, "\n".join(wrong)


def test_a_file_that_is_gone_is_seen() -> None:
    assert named_in("`engine/{fold,folded}.py`") == ["engine/fold.py", "engine/folded.py"]
    assert there("tests/docs/test_citations.py") and there("test_citations.py") and there("tests/docs/*.py")
    assert not there("never/there.py") and not there("never_there.py") and not there("scenarios/never.toml")
    assert there("site.toml"), "a user's own"
