"""Names of the files that a job leaves: those that its group collects, and its own stdout and stderr.

The site that runs a job makes them by this rule, and the origin holds what another site reports to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec

from diana.model.facts import Facts, Outcome
from diana.model.ids import GroupId
from diana.model.job.checkpoint import folder_of
from diana.model.job.spec import GroupSpec
from diana.model.job.sweep import Parameters
from diana.model.job.template import Template, compile_template

_ANY = "\ue000"
"""Stands in a name for a value of a table."""
MOST_PASSED = 200_000
"""Lacking files that one message may pass over: more than fit into it (`MAX_MESSAGE_BYTES`)."""


class LeftFile(NamedTuple):
    """A file that a job leaves."""

    path: str
    """Path below the job's directory."""
    name: str
    """Path below the folder of the group's outputs."""
    always: bool
    """True if it is kept whatever the exit (own stdout, stderr)."""


def parts_below(text: str) -> tuple[str, ...]:
    """Components of a relative path; ValueError when it is empty, absolute, or leads upwards."""
    parts = tuple(part for part in text.split("/") if part not in ("", "."))
    if not parts or text.startswith("/") or ".." in parts or "\0" in text:
        raise ValueError(f"path {text!r} does not stay below the job's directory; write a relative path without '..'")
    return parts


class OutputNames:
    """Compiled names of one group. ValueError for a template that cannot stand."""

    def __init__(self, spec: GroupSpec) -> None:
        self.stdout, self.stderr = compile_template(spec.stdout), compile_template(spec.stderr)
        self._collect = [compile_template(text) for text in spec.outputs.collect]
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
            left = self._left(template, params, index, always=False)
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
        all in their order. Values of a table, whose rows are not at hand here, may be any.

        Costs by the files that are named and at most `MOST_PASSED` others, however many the group collects.
        """
        outcomes = dict(zip(facts.indices, facts.outcomes, strict=True))
        attempts = dict(zip(facts.indices, facts.attempts, strict=True))
        passed = 0
        for index, outputs in groupby(facts.outputs, key=attrgetter("index")):
            outcome = outcomes.get(index)
            names = self._names(group, index, outcome, attempts.get(index, 0))
            for output in outputs:
                for left in names:
                    if _fits(output.name, left.name):
                        break
                    passed += 1
                    if not (left.always or outcome == Outcome.STAGING_FAILED) or passed > MOST_PASSED:
                        return str(output.name)
                else:
                    return str(output.name)
        return ""

    def _names(self, group: GroupId, index: int, outcome: int | None, attempt: int) -> Iterator[LeftFile]:
        """`outcome`: None for a job that nothing is told of."""
        if outcome is None:
            return
        values = {**self._columns, **self._axes.of(index % self._axes.size), "index": str(index), "group": group}
        with suppress(ValueError, LookupError):
            if outcome == Outcome.CHECKPOINTED:
                yield from self.saved(values, index, attempt)
                return
            whole = outcome in (Outcome.DONE, Outcome.STAGING_FAILED)
            yield from self.of(values, index) if whole else self._own(values, index)

    def _own(self, params: Mapping[str, str], index: int) -> Iterator[LeftFile]:
        for template in (self.stdout, self.stderr):
            if template.text:
                yield self._left(template, params, index, always=True)

    def _left(self, template: Template, params: Mapping[str, str], index: int, *, always: bool) -> LeftFile:
        path = "/".join(parts_below(template.render(params)))
        # A name that is the same for all jobs would make them overwrite each other.
        return LeftFile(path, path if template.names & self._varying else f"{index}/{path}", always)


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
