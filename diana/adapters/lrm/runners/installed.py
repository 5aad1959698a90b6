"""Runners that an operator installed under the entry-point group `diana.runners`. They are not trusted: an answer that
cannot be words of a command is refused, and so is one that raises."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from diana.adapters.lrm.runners.interface import GangToRun, Launch, Runner
from diana.errors import said
from diana.model.job.software import OWN_RUNNERS, is_runner

GROUP = "diana.runners"
"""Group of entry points, each a `Runner`. A name that diana has itself stays diana's."""
MOST_WORDS = 256
MOST_BYTES = 64 * 1024
"""Bytes of all words together."""


@cache
def found() -> dict[str, Runner | str]:
    """Return the installed runners by name, read once; the text of why it does not load in place of one that does
    not."""
    points = [one for one in entry_points(group=GROUP) if is_runner(one.name) and one.name not in OWN_RUNNERS]
    return {one.name: _loaded(one) for one in points}


def names() -> tuple[str, ...]:
    """Return the names of those that load."""
    return tuple(sorted(name for name, runner in found().items() if callable(runner)))


def launch(name: str, gang: GangToRun) -> Launch:
    """Return the words of an installed runner. ValueError: there is none, or its answer is of no use."""
    runner = found().get(name, "it is not installed here")
    if isinstance(runner, str):
        raise ValueError(f"its gang's runner {name}: {runner}")
    try:
        answer = runner(gang)
        return _checked(answer)
    except (Exception, SystemExit) as fault:  # Whatever a plug-in raises, its answer's own methods included.
        raise ValueError(f"its gang's runner {name} failed: {said(fault)}") from None


def _checked(answer: object) -> Launch:
    if not isinstance(answer, Launch):
        raise TypeError(f"it answered with {type(answer).__name__}, which is no Launch")
    words, programs = _texts(answer.words), _texts(answer.programs)
    if not all(programs):
        raise ValueError("it answered with a program that has no name")
    if len(words) + len(programs) > MOST_WORDS or len("".join((*words, *programs)).encode()) > MOST_BYTES:
        raise ValueError(f"it answered with more than {MOST_WORDS} words or {MOST_BYTES} bytes")
    return Launch(words, programs)


def _texts(some: object) -> tuple[str, ...]:
    if not isinstance(some, tuple | list):
        raise TypeError(f"it answered with {type(some).__name__} in place of words")
    if not all(isinstance(each, str) and "\0" not in each for each in some):
        raise TypeError("it answered with what cannot be words of a command")
    return tuple(some)


def _loaded(point: EntryPoint) -> Runner | str:
    try:
        runner = point.load()
    except (Exception, SystemExit) as fault:  # A plug-in's module may raise anything.
        return f"it does not load: {said(fault)}"
    return cast("Runner", runner) if callable(runner) else f"it does not load: {point.value} is no function"
