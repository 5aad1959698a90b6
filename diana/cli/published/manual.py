"""Manual pages, made of the parsers: `diana.1`, and a page for each verb.

`python -m diana.cli.published.manual FOLDER` writes them; none is kept in the repository.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from diana import __version__
from diana.cli.main import VERBS, Verb
from diana.cli.published.reference import command_of, usage, value_of
from diana.cli.published.topics import ENVIRONMENT, EXIT_CODES
from diana.cli.shared.parsing import filled, parser_of

_WIDE = 10_000


def pages() -> dict[str, str]:
    """Name of the file -> its text, in the macros of man(7)."""
    return {"diana.1": _whole(), **{f"diana-{name}.1": _page(name, entry) for name, entry in VERBS.items()}}


def _whole() -> str:
    lines = [_title("diana"), ".SH NAME", "diana \\- bulk work over several sites, without a centre"]
    lines += [".SH SYNOPSIS", ".B diana", "VERB [options] ..."]
    for family in dict.fromkeys(entry.family for entry in VERBS.values()):
        lines.append(f".SH {_text(family).upper()}")
        for name, entry in VERBS.items():
            if entry.family == family:
                lines += [".TP", f".BR diana\\-{_text(name)} (1)", _line(entry.summary)]
    return "\n".join([*lines, *_codes(), *_environment(), ""])


def _page(name: str, entry: Verb) -> str:
    command = command_of(name, entry)
    parser = parser_of(name, entry.summary, command)
    lines = [_title(f"diana-{name}"), ".SH NAME", f"diana\\-{_text(name)} \\- {_text(entry.summary)}"]
    lines += [".SH SYNOPSIS", _line(usage(name, parser))]
    lines += [".SH DESCRIPTION", _line(f"{entry.summary[0].upper()}{entry.summary[1:]}.")]
    for block in filled(command.more, _WIDE).splitlines():
        lines += [".PP", _line(block.strip())]
    lines.append(".SH OPTIONS")
    for action in parser._actions:
        if not action.help:
            continue
        shown = ", ".join(f"\\fB{_text(option)}\\fR" for option in action.option_strings)
        value = "" if action.option_strings and action.nargs == 0 else f"\\fI{_text(value_of(action))}\\fR"
        text = action.help.replace("%%", "%").removesuffix(" (default: %(default)s)")
        lines += [".TP", f"{shown} {value}".strip(), _line(text)]
    if command.examples.strip():
        lines += [".SH EXAMPLES", ".nf", *(_line(line) for line in command.examples.strip().splitlines()), ".fi"]
    return "\n".join([*lines, *_codes(), ".SH SEE ALSO", ".BR diana (1)", ""])


def _title(name: str) -> str:
    return f'.TH "{_text(name).upper()}" 1 "" "diana {_text(__version__)}" "diana"'


def _codes() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", f".B {code}", _line(meaning))


def _environment() -> Iterator[str]:
    yield ".SH ENVIRONMENT"
    for name, meaning in ENVIRONMENT.items():
        yield from (".TP", f".B {_text(name)}", _line(meaning))


def _line(text: str) -> str:
    """A line of text, which no macro is made of."""
    escaped = _text(text)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _text(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for file, page in pages().items():
        (folder / file).write_text(page, encoding="utf-8")
