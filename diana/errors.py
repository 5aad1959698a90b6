"""Errors that cross layers. The text of a user's mistake says how to mend it; an internal fault keeps its evidence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from diana import __version__


def one_line(text: str) -> str:
    """Return `text` as one line, without control characters for a terminal, whatever names from outside it holds."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else _escaped(c) for c in joined)


def quoted(name: str) -> str:
    """Return a name from outside between quotes, as `repr` has it; a byte of it that is no UTF-8 as `\\xe9`."""
    return repr(name).replace("\\udc", "\\x")


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode().replace("\\udc", "\\x")


def said(fault: BaseException, most: int = 300) -> str:
    """Return in one line, of `most` characters at most, what foreign code raised, whose own words may raise as well."""
    try:
        words = str(fault)
    except Exception:
        words = ""
    return one_line(f"{type(fault).__name__}{': ' * bool(words)}{words}"[: 4 * most])[:most]


def of_newer(found: int, known: int, by: str = "") -> str:
    """Words that refuse what a later release left: both releases are named, where it is known which one wrote it."""
    return f"{newer(by)} (schema {found}); this one, {__version__}, reads up to schema {known}"


def newer(by: str) -> str:
    """Words for a later release; `by`: which, empty where that is not known."""
    return f"written by a newer diana, {by}," if by else "written by a newer diana"


class DianaError(Exception):
    """Base of the errors. `str()` is one line for a person: the fault, its place, the mend. `code` names the kind,
    `exit_code` is the exit code of the CLI."""

    code = "internal"
    exit_code = 1


class UsageError(DianaError):
    """A mistake of the user."""

    code = "usage"
    exit_code = 2


class UnknownCall(UsageError):
    """The node is of a release that has no such call. On the wire it is the user's mistake, as in 0.1.0."""


class Denied(DianaError):
    code = "denied"
    exit_code = 2


class Unplaceable(DianaError):
    """No site can take the jobs now. `planned`: the node's answer to a plan, whose decisions tell of each site what it
    lacks (`PlanResponse`); None: it was no plan, or an older node's."""

    code = "unplaceable"
    exit_code = 3
    planned: object | None = None


class Unreachable(DianaError):
    """A node or site does not answer."""

    code = "unreachable"
    exit_code = 4


class NodeAway(Unreachable):
    """The node that was called is not there, or went away during the call; it may come back."""


class NodeLeft(NodeAway):
    """The node took the call, and went away before it answered."""


class Overloaded(DianaError):
    """The node has too much to do now; try again after `retry_after_s`."""

    code = "retry"
    exit_code = 4

    def __init__(self, text: str, retry_after_s: float = 1.0) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class WaitTimedOut(DianaError):
    code = "timeout"
    exit_code = 124


class JobFailed(DianaError):
    """A job ended without the result somebody waits for. `log`: the end of its log, where that could be had."""

    code = "failed"

    def __init__(
        self, text: str, *, job: str, outcome: str, job_exit_code: int = 0, log: str = "", job_signal: int = 0
    ) -> None:
        super().__init__(text)
        self.job = job
        self.outcome = outcome
        """Outcome as in `JobResult`; held for a job that will not start by itself."""
        self.job_exit_code = job_exit_code
        self.job_signal = job_signal
        """Signal that ended its process, as in `JobResult`."""
        self.log = log


class StoreFailed(DianaError):
    """The disk refused to store something; never retried."""


class StoreFull(StoreFailed):
    """The disk has no room; nothing of it was stored, and the same may be stored once there is room."""


class StoreNewer(DianaError):
    exit_code = 4


class StoreBusy(UsageError):
    """Another node holds the data directory or its store."""


_EXTRAS = {"calls": "cloudpickle", "charts": "matplotlib", "top": "textual"}
"""Extras of the distribution, and the package that each is for."""


@contextmanager
def of_extra(extra: str, what: str) -> Iterator[None]:
    """Import in here what an extra brings: where it is not installed, a UsageError says which one `what` wants."""
    try:
        yield
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] != _EXTRAS[extra]:
            raise
        text = f"{what} wants the package {_EXTRAS[extra]}; pip install 'diana-grid[{extra}]'"
        raise UsageError(text) from None
