"""Messages of the client service that control jobs and groups: cancel, hold, move, release, retry, drop."""

from __future__ import annotations

from diana.wire.client.base import Message


class CancelRequest(Message, frozen=True):
    target: str
    """`alpha-12`, `alpha-12.3`, `alpha-12.[3-9,12]`."""
    dependents: bool = False
    """True: also every group that waits for it; with the whole of a group only."""


class CancelResponse(Message, frozen=True):
    jobs: int = 0


class CancelHeldRequest(Message, frozen=True):
    """Request to cancel held jobs only. It is a call of its own, so that a node that does not know it says so instead
    of cancelling running jobs."""

    target: str
    """As for CancelRequest."""
    release: bool = False
    """True: the other jobs of the target are held no longer, whether they wait, run or are over."""


class CancelHeldResponse(Message, frozen=True):
    indices: str = ""
    """The jobs that will never run, as `0-7,12`."""
    unsure: int = 0
    """Held jobs whose site has not said yet whether they had started; ask again."""


class HoldRequest(Message, frozen=True):
    target: str
    """As for CancelRequest."""


class HoldResponse(Message, frozen=True):
    jobs: int = 0
    started: int = 0
    """Number of jobs that had started already, and run on."""


class MoveRequest(Message, frozen=True):
    target: str
    """As for CancelRequest."""
    to: str
    """The site its jobs are to run at. Empty: those that run save their state and go on from it where it is best."""


class MoveResponse(Message, frozen=True):
    jobs: int = 0
    started: int = 0
    """Number of jobs that had started already, and run on where they are."""


class ReleaseRequest(Message, frozen=True):
    target: str
    """As for CancelRequest; everything named must be held."""


class ReleaseResponse(Message, frozen=True):
    jobs: int = 0


class RetryRequest(Message, frozen=True):
    """Request to place failed jobs anew, and the others asked for; done ones never."""

    target: str
    """As for CancelRequest."""
    held: bool = False
    """True: also jobs held because nobody knows their outcome."""
    cancelled: bool = False
    """True: also cancelled jobs."""
    unreachable: bool = False
    """True: also jobs at sites out of reach, with the whole of a group only; they may run on there for a while."""
    memory: str = ""
    """Those alone that ran out of memory, each with more: a size (`8G`), or a factor (`2x`). Empty: not asked for."""


class RetryResponse(Message, frozen=True):
    jobs: int = 0


class DropRequest(Message, frozen=True):
    """Request to forget groups that are over: rows, logs, uploads. All that are named, or none."""

    groups: tuple[str, ...]
    outputs: bool = False
    """True: also the outputs that lie in the node's own folder. False: a group that has some there is refused."""
    each: bool = False
    """True: those of them that can be forgotten; the answer says why the others stay."""


class GroupLeft(Message, frozen=True):
    group: str
    why: str
    """One line."""


class DropResponse(Message, frozen=True):
    groups: tuple[str, ...] = ()
    """Groups that are forgotten now."""
    left: tuple[GroupLeft, ...] = ()
