"""The published reference of the command line, made of the parsers, so that it says what they take.

`python -m diana.cli.published.reference docs/cli.md` writes it anew; a test keeps the published one current.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from diana.cli.main import VERBS, Verb
from diana.cli.published.topics import ENVIRONMENT, EXIT_CODES, json
from diana.cli.shared.parsing import Command, Parser, filled, parser_of

LINE = 120
_HEAD = """\
# The command line

Written by `python -m diana.cli.published.reference docs/cli.md` from what the verbs take; `diana VERB --help` says the
same.

Every verb has `--help` with examples, and `--no-color`. On a terminal tables have colours and leave out columns that do
not fit; in a pipe or a file there are neither colours nor control characters, all columns are there, and progress is a
line on standard error now and then. Names that other people chose are shown as plain text, `?` for control characters.
"""
_EVERYWHERE = ("--help", "--no-color", "--data", "--address", "--credential")
"""Options that are explained once."""
_NODE = """\
## Which node

Verbs that talk to a node talk to the one of `--data DIR`, a data directory on this machine (default: `DIANA_DATA`, else
`~/.diana`), or over TLS to the one of `--credential DIR`, a user's credential, at the address written there or at
`--address HOST:PORT`. The other verbs that take `--data DIR` mean the directory itself.
"""
_COMPLETION = """\
## Completion

`diana completion bash`, `zsh` or `tcsh` prints a script that completes verbs, options, their values, files, and the
names of groups and sites as the node knows them:

    mkdir -p ~/.local/share/bash-completion/completions
    diana completion bash > ~/.local/share/bash-completion/completions/diana
"""


def reference() -> str:
    parts = [_HEAD, *_codes(), _NODE, _environment(), f"## JSON\n\n{json()}", _COMPLETION]
    for family in dict.fromkeys(entry.family for entry in VERBS.values()):
        parts.append(f"## {family}\n")
        parts += [_verb(name, entry) for name, entry in VERBS.items() if entry.family == family]
    return "\n".join(parts)


def _codes() -> Iterator[str]:
    rows = "\n".join(f"| {code} | {_cell(meaning)} |" for code, meaning in EXIT_CODES.items())
    yield f"## Exit codes\n\n| code | of every verb |\n| --- | --- |\n{rows}\n"


def _environment() -> str:
    rows = "\n".join(f"| `{name}` | {_cell(meaning)} |" for name, meaning in ENVIRONMENT.items())
    return f"## Environment\n\n| variable | what it does |\n| --- | --- |\n{rows}\n"


def command_of(name: str, entry: Verb) -> Command:
    command: Command = import_module(f"diana.cli.{entry.module}").COMMANDS[name]
    return command


def _verb(name: str, entry: Verb) -> str:
    command = command_of(name, entry)
    parser = parser_of(name, entry.summary, command)
    rows = [row for action in parser._actions if (row := _row(action))]
    lines = [f"### diana {name}", "", f"{entry.summary[0].upper()}{entry.summary[1:]}.", ""]
    lines += [f"    {usage(name, parser)}", ""]
    if command.more:
        lines += [_listed(command.more), ""]
    if rows:
        lines += ["| argument | what it is |", "| --- | --- |", *rows, ""]
    return "\n".join([*lines, *_indented(command.examples.strip()), ""])


def _listed(text: str) -> str:
    """The help as Markdown: indented lines become a list."""
    lines: list[str] = []
    listing = False
    for block in filled(text, 10_000).splitlines():
        mark, indent = ("- ", "  ") if block.startswith(" ") else ("", "")
        if lines and bool(mark) != listing:
            lines.append("")
        listing = bool(mark)
        lines.append(textwrap.fill(mark + block.strip(), LINE, subsequent_indent=indent))
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"    {line}".rstrip() for line in text.splitlines()]


def usage(name: str, parser: Parser) -> str:
    if parser.usage:
        return parser.usage.replace("%(prog)s", parser.prog)
    names = [_positional(action) for action in parser._actions if not action.option_strings]
    needed = [f"{a.option_strings[-1]} {a.metavar}" for a in parser._actions if a.option_strings and a.required]
    return " ".join([f"diana {name}", "[options]", *needed, *names])


def _positional(action: argparse.Action) -> str:
    shown = value_of(action)
    return {"?": f"[{shown}]", "*": f"[{shown} ...]", "+": f"{shown} [{shown} ...]"}.get(str(action.nargs), shown)


def value_of(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()


def _row(action: argparse.Action) -> str:
    """Empty: it is explained once for all verbs, or has no text of its own."""
    if set(_EVERYWHERE) & set(action.option_strings) or not (action.help or action.choices):
        return ""
    shown = ", ".join(action.option_strings) if action.option_strings else value_of(action)
    if action.option_strings and action.nargs != 0:
        value = value_of(action)
        shown += f" [{value}]" if action.nargs == "?" else f" {value}"
    text = (action.help or f"one of {', '.join(map(str, action.choices or ()))}").replace("%%", "%")
    # Which some releases of Python add by themselves.
    text = text.removesuffix(" (default: %(default)s)")
    return f"| `{_cell(shown)}` | {_cell(text)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
