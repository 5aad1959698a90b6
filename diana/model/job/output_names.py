"""Names of the files that a job leaves: those that its group collects, and its own stdout and stderr.

What a pattern or a folder finds has names that are known when the job has ended. They lie in a folder of the job's,
by its index, so that no two jobs can leave the same one.

The site that runs a job makes them by this rule, and the origin holds what another site reports to it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from diana.model.facts import Facts, Outcome
from diana.model.ids import GroupId
from diana.model.job.checkpoint import folder_of
from diana.model.job.patterns import MOST_FOUND, MOST_NAME_BYTES, is_found, literal, loosened, pattern
from diana.model.job.spec import GroupSpec
from diana.model.job.sweep import Parameters
from diana.model.job.template import Template, compile_template

_ANY = "\ue000"
"""Stands in a name for a value of a table."""
OWN_NAMES = ".diana-"
"""Begins the names of diana's own files in a job's directory, and of files that are not complete yet."""
MOST_PASSED = 200_000
"""Lacking files that one message may pass over (`most_told`)."""
_LEFT_WHATEVER = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CANCELLED})
"""Ends of jobs that may have left some of their outputs."""


class LeftFile(NamedTuple):
    """A file that a job leaves, or some that are found."""

    path: str
    """Path below the job's directory; of files that are found, a pattern of it."""
    name: str
    """Path below the folder of the group's outputs; of files that are found, the folder that their paths come below,
    with a slash behind it."""
    always: bool
    """True if it is kept whatever the exit, and may be lacking (own stdout, stderr)."""
    kept: bool = False
    """True if it is kept whatever the exit, and may be a folder, whose files come below `name`."""

    @property
    def found(self) -> bool:
        return self.name.endswith("/")


def keeps_all(outcome: int) -> bool:
    """True for the end of a job that may have left any of its outputs, and need not."""
    return outcome in _LEFT_WHATEVER


def most_told(spec: GroupSpec) -> int:
    """Return the most jobs whose ends may stand in one message: its reader looks for the names that each may leave."""
    saved = len(spec.checkpoint.paths) if spec.checkpoint else 0
    return max(1, MOST_PASSED // max(len(spec.outputs.collect) + 2, saved))


def parts_below(text: str) -> tuple[str, ...]:
    """Components of a relative path; ValueError when it is empty, absolute, or leads upwards."""
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    if not parts or text.startswith("/") or ".." in parts or "\0" in text:
        raise ValueError(f"path {text!r} does not stay below the job's directory; write a relative path without '..'")
    return parts


def may_begin_with_index(text: str) -> bool:
    """True if the output that this template names may lie in a folder named by a job's index: it is the same for all
    jobs, or begins with a value."""
    template = compile_template(text)
    return not template.names - {"group"} or not text.partition("/")[0].partition("{")[0].strip("0123456789.")


class OutputNames:
    """Compiled names of one group. ValueError for a template that cannot stand."""

    def __init__(self, spec: GroupSpec) -> None:
        self.stdout, self.stderr = compile_template(spec.stdout), compile_template(spec.stderr)
        self._collect = [compile_template(text) for text in spec.outputs.collect]
        self._kept = spec.outputs.kept
        self._own_in_folder = "/" in spec.stdout + spec.stderr
        self._saved = [compile_template(text) for text in (spec.checkpoint.paths if spec.checkpoint else ())]
        columns = spec.sweep.table.columns if spec.sweep.table else ()
        self._varying = frozenset({"index"}).union(columns, (axis.name for axis in spec.sweep.axes))
        self._columns = dict.fromkeys(columns, _ANY)
        self._axes = Parameters(msgspec.structs.replace(spec.sweep, table=None))

    def of(self, params: Mapping[str, str], index: int) -> Iterator[LeftFile]:
        """Yield the files of one job, by all its parameters, in the order in which they are reported. ValueError for a
        path that leaves the job's directory."""
        seen = set()
        for template in self._collect:
            left = self._collected(template, params, index)
            seen.add(left.path)
            yield left
        for left in self._own(params, index):
            # Two unknown paths look the same.
            if left.path not in seen or _ANY in left.path:
                seen.add(left.path)
                yield left

    def saved(self, params: Mapping[str, str], index: int, attempt: int) -> Iterator[LeftFile]:
        """Yield the files of an attempt's checkpoint. ValueError for a path that leaves the job's directory."""
        for template in self._saved:
            path = "/".join(parts_below(template.render(params)))
            yield LeftFile(path, f"{folder_of(index, attempt)}/{path}", always=False)

    def strange(self, group: GroupId, facts: Facts) -> str:
        """Name of the first file among `facts.outputs` that its job cannot have left; empty: all can be. A job that ran
        well leaves all files, one of which some were lost any of them, each other only its own stdout and stderr, and
        all in their order. With `Outputs.kept` a file may be found in several ways and is told once, so what is found
        may be lacking, and a plain name where it, or a file below it, is told in another place; what is found in one
        way comes in the order of its names. Values of a table, whose rows are not at hand here, may be any.

        Costs by the files that are named and at most `MOST_PASSED` others, however many the group collects.
        """
        outcomes = dict(zip(facts.indices, facts.outcomes, strict=True))
        attempts = dict(zip(facts.indices, facts.attempts, strict=True))
        passed = 0
        for index, told in groupby(facts.outputs, key=attrgetter("index")):
            outputs, in_order = list(told), list[str]()
            outcome = outcomes.get(index)
            names = self._names(group, index, outcome, attempts.get(index, 0))
            whole = outcome in (Outcome.DONE, Outcome.CHECKPOINTED)
            left, before = next(names, None), ""
            found, found_bytes = 0, 0
            for output in outputs:
                while left is not None and not _leaves(left, output.name, before):
                    passed += not before
                    in_order = in_order or sorted(each.name for each in outputs)
                    lost = whole and not (before or left.always or self._may_lack(left, in_order))
                    if lost or passed > MOST_PASSED:
                        return str(output.name)
                    left, before = next(names, None), ""
                if left is None:
                    return str(output.name)
                before = output.name
                if left.found or not _fits(before, left.name):
                    found, found_bytes = found + 1, found_bytes + len(before.encode(errors="replace"))
                    if found > MOST_FOUND or found_bytes > MOST_NAME_BYTES:
                        return str(output.name)
        return ""

    def _may_lack(self, left: LeftFile, told: Sequence[str]) -> bool:
        """True if a job that ran well may have left this and told nothing in its place; `told`: all that it told, in
        order. A folder may have held no more than its own stdout, which it removed."""
        if not left.kept or left.found or _ANY in left.name or self._own_in_folder:
            return left.kept
        at, below = bisect_left(told, left.name), bisect_left(told, f"{left.name}/")
        return left.name in told[at : at + 1] or any(
            name.startswith(f"{left.name}/") for name in told[below : below + 1]
        )

    def _names(self, group: GroupId, index: int, outcome: int | None, attempt: int) -> Iterator[LeftFile]:
        """`outcome`: None for a job that nothing is told of."""
        if outcome is None:
            return
        values = {**self._columns, **self._axes.of(index % self._axes.size), "index": str(index), "group": group}
        with suppress(ValueError, LookupError):
            if outcome == Outcome.CHECKPOINTED:
                yield from self.saved(values, index, attempt)
                return
            whole = outcome in (Outcome.DONE, Outcome.STAGING_FAILED) or (self._kept and keeps_all(outcome))
            yield from self.of(values, index) if whole else self._own(values, index)

    def _own(self, params: Mapping[str, str], index: int) -> Iterator[LeftFile]:
        for template in (self.stdout, self.stderr):
            if template.text:
                yield self._left(template, params, index, always=True)

    def _collected(self, template: Template, params: Mapping[str, str], index: int) -> LeftFile:
        if not self._kept:
            return self._left(template, params, index, always=False)
        if not is_found(template.text):
            return self._left(template, params, index, always=False)._replace(kept=True)
        path = "/".join(parts_below(template.render(literal(params))))
        return LeftFile(path, f"{index}/", always=False, kept=True)

    def _left(self, template: Template, params: Mapping[str, str], index: int, *, always: bool) -> LeftFile:
        path = "/".join(parts_below(template.render(params)))
        # A name that is the same for all jobs would make them overwrite each other.
        return LeftFile(path, path if template.names & self._varying else f"{index}/{path}", always)


def _leaves(left: LeftFile, name: str, before: str) -> bool:
    """True if a job that leaves `left` may have left a file of this name, behind one that came from it `before`
    (empty: none did)."""
    if not _is_plain(name):
        return False
    if left.found:
        return before < name and _is_found(left, name)
    if _fits(name, left.name) and not before:
        return True
    if not left.kept or before == left.name:
        return False
    within = f"{left.name}/"
    inside = _fits(name, within + _ANY) if _ANY in within else name.startswith(within)
    return inside and before < name


def _is_found(left: LeftFile, name: str) -> bool:
    if not name.startswith(left.name):
        return False
    path = name.removeprefix(left.name)
    if _ANY in left.path:
        loose = loosened(left.path, _ANY)
        return _fits(path, loose) or _fits(path, f"{loose}/{_ANY}")
    return pattern(left.path).matches(path.split("/"))


def _is_plain(name: str) -> bool:
    """True if each of its components names something below the one before."""
    return not any(part in ("", ".", "..") for part in name.split("/")) and "\0" not in name


def _fits(name: str, pattern: str) -> bool:
    """True if `name` is `pattern` with some text for each `_ANY`. Such text may take away dots and slashes beside it,
    as those of `./` and `//` in a path."""
    if _ANY not in pattern:
        return name == pattern
    first, *between, last = pattern.split(_ANY)
    first, last = first.rstrip("./"), last.lstrip("./")
    if not (name.startswith(first) and name.endswith(last) and len(name) >= len(first) + len(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in between:
        found = name.find(piece.strip("./"), at, end)
        if found < 0:
            return False
        at = found + len(piece.strip("./"))
    return True
