"""`diana help TOPIC`: what holds for all verbs. `docs/cli.md` is made of the same."""

from __future__ import annotations

from collections.abc import Callable

WIDEST = 100
"""Columns."""

EXIT_CODES = {
    0: "done; of a wait: all jobs are done",
    1: "some jobs failed, were cancelled or are held; of checks: one failed; of simulate and scenario run: a seed, "
    "group or expectation did",
    2: "a mistake in what was asked, or something the caller may not do",
    3: "no site can take it",
    4: "a node or site cannot be reached, or asks to be tried again later",
    70: "a fault of diana's own; the line names a file with the evidence",
    124: "a wait timed out; the jobs go on",
    130: "interrupted (Ctrl-C); the jobs go on",
    141: "whoever read the output went away, as `head` does",
}
"""Exit codes of every verb. A shell's `$?` of 128 and more is otherwise a signal, as ever."""

ENVIRONMENT = {
    "DIANA_DATA": "the node's data directory where --data names none (default: ~/.diana); jobs on plain "
    "machines have that of their own node",
    "DIANA_NOTIFY": "who is told when a group is over where --notify names nobody",
    "DIANA_ROOT_JOBS": "true: init and join by root let jobs run as root, as --root-jobs does",
    "NO_COLOR": "if not empty: no colours, as --no-color",
    "COLUMNS": "how wide a terminal is taken to be",
    "TERM": "dumb: no colours, no bars that are redrawn",
}

_JSON = """\
--json prints one line of JSON for programs on standard output; progress and errors go to standard
error. Its keys are those of proto3's JSON of the messages in proto/diana/v1/client.proto: lower
camel case, seconds as numbers, bytes in base64. States and outcomes are lower-case words joined by
underscores (done, timed_out, out_of_memory), whatever the release of the node. Values that are 0,
"", false or an empty list are there; of messages within others those that are absent are left out.
results prints a line per job (--columns: many jobs a line), logs, wait and datasets show one per
chunk, group or page; demo, simulate and scenario run print a report over several lines.
docs/json-output.schema.json says what each verb prints. Keys may be added, none is taken away.
A failure prints nothing there: the exit code says of which kind it is, standard error why.
"""


def exit_codes() -> str:
    return _table("Exit codes of every verb:", {f"{code:>3}": meaning for code, meaning in EXIT_CODES.items()})


def environment() -> str:
    return _table("Variables of the environment:", {f"{name:<10}": meaning for name, meaning in ENVIRONMENT.items()})


def _table(title: str, rows: dict[str, str]) -> str:
    import textwrap

    lines = [title, ""]
    for name, meaning in rows.items():
        start = f"  {name}  "
        lines += textwrap.wrap(meaning, WIDEST, initial_indent=start, subsequent_indent=" " * len(start))
    return "\n".join(lines) + "\n"


def json() -> str:
    """The promise of `--json`."""
    return _JSON


TOPICS: dict[str, Callable[[], str]] = {"exit-codes": exit_codes, "environment": environment, "json": json}
