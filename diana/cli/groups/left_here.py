"""Files that a command line names and that do not travel with its jobs: most likely the author takes this folder for
the jobs' own."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

_SHOWN = 2
"""Names in the note."""
_MOST_LOOKED_AT = 1000
"""Values of one list that are looked for on the disk."""
_WHOLE = re.compile(r"\{(\w+)\}")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:")


def note(job: Mapping[str, Any], options: Mapping[str, object]) -> str:
    """Return a line on the files of this folder that the command names and no input brings; empty: there are none.
    `job`: as the command line makes it; `options`: those beside it. Files may be at the sites already, so that this is
    no error."""
    if "cwd" in options or "group.cwd" in options:
        return ""
    inputs = str(options.get("input", ""))
    # A value that an input's name holds brings its own file.
    lists = {name: values for name, values in _lists(job) if f"{{{name}}}" not in inputs}
    brought = list(_brought(job, inputs))
    left = str(options.get("collect", options.get("outputs.collect", ""))).split(",")
    found = dict.fromkeys(
        word for word in _named(job["group"]["command"][1:], lists) if not _is_known(_plain(word), brought, left)
    )
    if not found:
        return ""
    shown = list(found)[:_SHOWN]
    more = len(found) - len(shown)
    names = f"{', '.join(shown)} and {more} more" if more else " and ".join(shown)
    what, them = ("a file here that does", "it") if len(found) == 1 else ("files here that do", "them")
    send = f"--input {' '.join(map(shlex.quote, shown))}{' ...' if more else ''}"
    below = next((word for word in shown if "/" in _plain(word)), "")
    as_what = f" (jobs find {below} as {os.path.basename(below)})" if below else ""
    return (
        f"{names}: {what} not travel with the jobs; send {them} with {send}{as_what}, or write --cwd . if the sites"
        " have this folder"
    )


def _lists(job: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the swept names with their values, of rows the first one's."""
    for name, values in job.get("sweep", {}).items():
        if name == "rows":
            yield from ((column, [value]) for column, value in values[0].items())
        else:
            yield name, values


def _named(words: Iterable[str], lists: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield words that are files here, and values that stand as whole words where the first one is."""
    for word in words:
        whole = _WHOLE.fullmatch(word)
        values = lists.get(whole[1], []) if whole else []
        if "{" not in word and _is_file(word):
            yield word
        elif values and _is_file(values[0]):
            yield from filter(_is_file, values[:_MOST_LOOKED_AT])


def _is_file(word: str) -> bool:
    # A number is one, and an option is one, whatever lies here.
    return not word.isdecimal() and not word.startswith(("/", "-")) and "\0" not in word and os.path.isfile(word)


def _brought(job: Mapping[str, Any], inputs: str) -> Iterator[str]:
    """Yield the paths at which jobs find their inputs."""
    yield from (one["path"] for one in job.get("inputs", ()))
    for line in inputs.splitlines():
        yield _SCHEME.sub("", line, count=1).rpartition("/")[2].replace("{{", "{").replace("}}", "}")


def _is_known(name: str, brought: Iterable[str], left: Iterable[str]) -> bool:
    """True if a job finds a file of this name among its inputs, or is to make it."""
    return any(name == path or name.startswith(f"{path}/") for path in brought) or any(
        fnmatchcase(name, output.strip()) or (output.endswith("/") and name.startswith(output)) for output in left
    )


def _plain(word: str) -> str:
    return os.path.normpath(word)
