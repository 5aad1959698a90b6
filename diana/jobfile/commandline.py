"""`diana submit -- cmd {x} ::: 1 2 3`: words of the command line as a job file's data.

Loads no reader: the command line uses it to build a JSON job file and counts milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from diana.model.job.template import braces

MARKS = frozenset({":::", ":::+", "::::", "::::+"})
"""Words that begin lists, as GNU parallel has them: values, or files whose lines are values; with a plus each list is
linked to the one before, value by value."""
MOST_ROWS = 1_000_000
"""Combinations that are written out, where a linked list is not the first."""

_OF_PARALLEL = re.compile(r"(?:[+-]?\d+)?(?:\.|/|//|/\.)|##?|%|=.*=")
"""Other words that it has in braces."""


def from_words(words: list[str], tell: Callable[[str], object] = lambda line: None) -> dict[str, object]:
    """Return the job file (a dict to be written as JSON) for a command and its lists of values; several lists make the
    product, linked ones are taken value by value as far as the shortest goes, which `tell` hears.

    The lists belong to the placeholders `{name}` in the order of their first appearance; as in GNU parallel, `{}`
    and `{1}` stand for the first list, `{2}` for the second; with no placeholder the values follow the command.
    ValueError says what does not fit.
    """
    at = next((at for at, word in enumerate(words) if word in MARKS), len(words))
    command = words[:at]
    if not command:
        raise ValueError("no command before :::; write: -- COMMAND {x} ::: VALUE ...")
    lists, linked = _lists(words[at:])
    if not lists:
        numbers = (name for word in command for _, name in _placeholders(word) if name == "" or name.isdecimal())
        if (number := next(numbers, None)) is not None:
            raise ValueError(
                f"{{{number}}} stands for a value of a list, and there is none; end with ::: VALUE ..., with :::: FILE"
                f" (- for standard input), or write {{{{{number}}}}} for the text itself"
            )
        return {"group": {"command": command}}
    names, command = _names(command, len(lists))
    return {"group": {"command": command}, "sweep": _sweep(names, lists, linked, tell)}


def _lists(words: list[str]) -> tuple[list[list[str]], list[bool]]:
    """Return the lists, and of each whether it is linked to the one before."""
    lists: list[list[str]] = []
    linked: list[bool] = []
    mark = ""
    for word in words:
        if word in MARKS:
            mark = word
            if mark.endswith("+") and not lists:
                raise ValueError(f"{mark} links a list to the one before, and there is none; begin with {mark[:-1]}")
            # Of files, each is a list of its own.
            if not mark.startswith("::::"):
                lists.append([])
                linked.append(mark.endswith("+"))
        elif mark.startswith("::::"):
            lists.append(_lines(word))
            linked.append(mark.endswith("+"))
        else:
            lists[-1].append(word)
    if mark.startswith("::::") and words[-1] == mark:
        raise ValueError(f"no file after {mark}; name one whose lines are values")
    for number, values in enumerate(lists, 1):
        if not values:
            raise ValueError(f"list {number} after ::: is empty; write at least one value")
    return lists, linked


def _lines(path: str) -> list[str]:
    """Return the lines of a file, `-`: of standard input."""
    # Few commands name one.
    import sys

    from diana.bounds import MOST_JOB_FILE_BYTES as most

    try:
        if path == "-":
            content = sys.stdin.buffer.read(most + 1)
        else:
            with open(path, "rb") as file:
                content = file.read(most + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f":::: {path}: {error.strerror}; mend its name") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(f":::: {path}: line {line}: not UTF-8 text; save the file as UTF-8") from None
    if len(content) > most:
        raise ValueError(
            f":::: {path}: more than {most >> 20} MiB; put the values into a CSV file named by --set from="
        )
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def _sweep(
    names: list[str], lists: list[list[str]], linked: list[bool], tell: Callable[[str], object]
) -> dict[str, object]:
    """Linked lists become rows, which come first, so that rows hold whatever is before them, too."""
    last = max((at for at, one in enumerate(linked) if one), default=-1) + 1
    sources: list[list[tuple[str, ...]]] = []
    at = 0
    while at < last:
        end = next((k for k in range(at + 1, last) if not linked[k]), last)
        lengths = [len(values) for values in lists[at:end]]
        if min(lengths) < max(lengths):
            tell(
                f"lists {at + 1} to {end} are linked and have {', '.join(map(str, lengths))} values: as in GNU"
                f" parallel, the first {min(lengths)} of each are taken"
            )
        sources.append(list(zip(*lists[at:end], strict=False)))
        at = end
    axes = dict(zip(names[last:], lists[last:], strict=True))
    if not sources:
        return dict(axes)
    if len(sources) > 1 and (count := prod(map(len, sources))) > MOST_ROWS:
        raise ValueError(f"{count} combinations up to the last linked list; write the linked lists first")
    rows = [dict(zip(names, (value for part in parts for value in part), strict=False)) for parts in product(*sources)]
    return {"rows": rows, **axes}


def _names(command: list[str], count: int) -> tuple[list[str], list[str]]:
    """Return the swept names, one per list, and the command with its numbered placeholders turned into named ones."""
    found = list(dict.fromkeys(name for word in command for _, name in _placeholders(word)))
    if foreign := next((name for name in found if _OF_PARALLEL.fullmatch(name)), None):
        mend = "leave it out" if foreign[0] in "=%" else 'let a shell cut it, as in "${1%.*}"'
        mend = "write {index}, which counts from 0" if foreign[0] == "#" else mend
        raise ValueError(f"{{{foreign}}} of GNU parallel is not known here; {mend}")
    found = [name for name in found if name == "" or name.replace("_", "a").isalnum()]
    if not found:
        names = [f"arg{number}" for number in range(1, count + 1)]
        return names, [*command, *(f"{{{name}}}" for name in names)]
    if any(name == "" or name.isdecimal() for name in found):
        return _numbered(command, found, count)
    swept = [name for name in found if name not in ("index", "group")]
    if len(swept) != count:
        shown = ", ".join(f"{{{name}}}" for name in swept) or "none"
        raise ValueError(f"{count} lists after ::: but {len(swept)} placeholders ({shown}); give each its list")
    return swept, command


def _numbered(command: list[str], found: list[str], count: int) -> tuple[list[str], list[str]]:
    names = [f"arg{number}" for number in range(1, count + 1)]
    for name in found:
        if name not in ("index", "group") and not (name == "" or (name.isdecimal() and 1 <= int(name) <= count)):
            raise ValueError(f"placeholder {{{name}}}: want {{}} or {{1}} to {{{count}}}, or names only")
    return names, [_named(word, names) for word in command]


def by_number(text: str, job: Mapping[str, Any]) -> str:
    """Return `text`, of an option beside the command, with `{}` and `{1}` standing for what they do in the command.
    `job`: of `from_words`; where its lists have names of the user's, the text stays as it is."""
    sweep = job.get("sweep", {})
    names = [*sweep["rows"][0]] if "rows" in sweep else []
    names += [name for name in sweep if name != "rows"]
    is_numbered = bool(names) and names == [f"arg{number}" for number in range(1, len(names) + 1)]
    return _named(text, names) if is_numbered else text


def _named(word: str, names: list[str]) -> str:
    """Return `word` with names in place of numbers. As in GNU parallel `{}` is the values of all lists, separated by
    blanks; one list is the usual case."""
    for start, name in reversed(list(_placeholders(word))):
        if name == "":
            word = f"{word[:start]}{' '.join(f'{{{one}}}' for one in names)}{word[start + 2 :]}"
        elif name.isdecimal() and 1 <= int(name) <= len(names):
            word = f"{word[:start]}{{{names[int(name) - 1]}}}{word[start + len(name) + 2 :]}"
    return word


def _placeholders(word: str) -> Iterator[tuple[int, str]]:
    """Yield what stands in braces, and where; `{{`, `}}` and the shell's own are passed over, and what is no name is
    left for the check of the template."""
    for start, token, is_shells in braces(word):
        if not is_shells and len(token) > 1 and token not in ("{{", "}}"):
            yield start, token[1:-1]
