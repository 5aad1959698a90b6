"""The places of a cluster's arrays, such that another machine of the site can take them over: one row of numbered
folders for each machine that fed the cluster, in a folder they share.

A row is a register by which its owner and a machine that takes over agree. The owner makes an array's folder whole
beside the row and then moves it to the next number; the machine that takes over makes the next number itself, as a
file, and the row is sealed. Either fails where the other was first, by the file system's word and not by anybody's
clock: an array that the owner was about to give when it was stopped, woken or cut off either lies there whole and is
taken over, or never can be given.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from diana.adapters.batch.array.barrier import hold_s
from diana.adapters.batch.array.folder import ArrayFolder
from diana.adapters.batch.array.live import SubmittedPart
from diana.adapters.batch.array.script import Surroundings, cases, script, varies
from diana.adapters.batch.ledger import Ledger
from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.durable import replace_durably, sync
from diana.adapters.lrm.spawner.protocol import Order
from diana.errors import DianaError, of_newer
from diana.model.ids import SubgroupId
from diana.model.indexset import IndexSet
from diana.model.layout import DataDir

VERSION = 1
_IDENTITY = re.compile(r"[0-9a-f]{12}")
_OWNER, _ORDER = "data", "order"
_TAKEN = "another machine of the site took it over; this one gives it nothing any more"


class ArraysElsewhere(DianaError):
    """The arrays of this cluster are another machine's, or out of this one's sight. One line: what, where, the mend."""


class _Given(msgspec.Struct, frozen=True, kw_only=True):
    """The record of an array in its folder."""

    version: int
    order: Order


_encode = msgspec.msgpack.Encoder().encode
_given = msgspec.msgpack.Decoder(_Given)


class FoundArray(NamedTuple):
    """An array in somebody's row. `parts`: its submissions, by the ids the batch system gave, as far as tasks of
    them began; `over`: tasks whose ends the site knows."""

    token: str
    order: Order
    parts: dict[str, SubmittedPart]
    over: IndexSet


class Rows:
    """Methods block. OSError; `ArraysElsewhere` where another machine of the site feeds the cluster.

    `root` holds the rows; `local` is this machine's own folder, and the same where nothing is shared."""

    def __init__(
        self, local: Path, root: Path, data: DataDir, ledger: Ledger, around: Surroundings, before: str = ""
    ) -> None:
        """`before`: the identity whose runs the site's journal shows at this cluster; empty: nobody's. Seals what
        other machines left, and adds their arrays to the ledger, durably: they are this machine's from now on."""
        self._local, self._root, self._data, self._around = local, root, data, around
        self.identity = self._own(ledger)
        if before and not (root / before).is_dir() and before != self.identity:
            raise ArraysElsewhere(
                f"{root} does not have the jobs it was given; name one folder that both machines of the site share in"
                f" the site.toml of each, or, if these jobs are lost: diana site remove-machine {around.cluster}"
            )
        self._row = root / self.identity
        known = {array.token for array in ledger.arrays()}
        numbers = _numbers(self._row)
        self._newest = self._row / str(max(numbers)) if numbers else None
        """Folder of the row's highest number; it stays as a name when it is dropped, so that numbers only rise."""
        for number in numbers:
            self._was_newest(self._row / str(number))
        self._published = max(numbers, default=0)
        self._next = 1 + max(self._published, *map(self._number, known), 0)
        self.taken_over = 0
        """Number of arrays taken over: this machine had not given them itself."""
        self._owners: dict[str, DataDir] = {}
        for row in sorted(path for path in root.iterdir() if _IDENTITY.fullmatch(path.name)):
            if row != self._row:
                _seal(row)
            with suppress(FileNotFoundError):
                self._owners[row.name] = DataDir(Path((row / _OWNER).read_text()))
            for found in _arrays(row, known):
                ledger.take_over(found.token, found.parts, found.over, found.order)
                self.taken_over += 1

    def ours(self, token: str) -> bool:
        """True if the array is, or was, one of this cluster's and site's."""
        identity = token.partition(".")[0]
        return identity == self.identity or identity in self._owners

    def given_from(self, token: str) -> tuple[DataDir, ...]:
        """Return the data directories of an array given elsewhere; empty: it was given from here. The first is that
        of the machine that gave it, which has the jobs' own; then come all that outputs may have been collected to
        before this machine fed the cluster."""
        first = self._owners.get(token.partition(".")[0])
        others = [data for _, data in sorted(self._owners.items()) if data.root != self._data.root]
        if first is None or not others:
            return ()
        return (first, *(data for data in others if data.root != first.root))

    def new_token(self) -> str:
        """Return a token that no other array has; the same one until it is `taken`. Tokens are to be published in
        this order, without gaps: an array beyond a seal is never published."""
        return f"{self.identity}.{self._next}"

    def taken(self) -> None:
        """Note that the ledger has an array by the last token. A token that it refused is given again, or a seal
        would lie in the gap."""
        self._next += 1

    def folder(self, token: str) -> ArrayFolder:
        # As older releases named them.
        old = self._local / token
        identity, _, number = token.partition(".")
        return ArrayFolder(old if old.is_dir() else self._root / identity / number)

    def row(self) -> Path:
        return self._row

    def publish(self, token: str, order: Order) -> None:
        """Make the array's folder, whole and durable on return, unless it was there once and is no more. Elsewhere:
        never, another machine took over."""
        to, number = self.folder(token).root, self._number(token)
        if to.is_dir() or to.parent != self._row or 0 < number <= self._published:
            # Made anew, its gates would be open again.
            return
        beside = self._row / f".{to.name}"
        shutil.rmtree(beside, ignore_errors=True)
        made = ArrayFolder(beside)
        jobs = self._data.job(SubgroupId(order.subgroup), order.epoch, 0).parent
        text = script(order, str(to), str(jobs), self._around, hold_s(order))
        made.make(text, cases(order) if varies(order) else "", holds=bool(order.barrier_s))
        made.saving.make(order)
        made.memory.make(order)
        replace_durably(beside / _ORDER, _encode(_Given(version=VERSION, order=order)))
        try:
            # A name that is taken, by a seal or an array, is not replaced.
            os.rename(beside, to)
        except OSError:
            if not _sealed(self._row):
                raise
            shutil.rmtree(beside, ignore_errors=True)
            raise ArraysElsewhere(_TAKEN) from None
        sync(self._row)
        self._published = max(self._published, number)
        before, self._newest = self._newest, to
        if before is not None:
            self._was_newest(before)

    def drop(self, token: str) -> None:
        """Drop an array whose tasks are over, or never will begin. Elsewhere: another machine took over, and may yet
        look there."""
        self.check()
        root = self.folder(token).root
        # The order goes first, since it marks an array: half of one would be taken over as one that never began.
        (root / _ORDER).unlink(missing_ok=True)
        if root == self._newest:
            ArrayFolder(root).empty()
        else:
            ArrayFolder(root).remove()

    def check(self) -> None:
        """Raise Elsewhere if another machine took over, and sees to what the tasks leave."""
        if _sealed(self._row):
            raise ArraysElsewhere(_TAKEN)

    # --- whose it is -----------------------------------------------------------------------------------

    def _own(self, ledger: Ledger) -> str:
        """Return the identity of this machine's row, made if there is none that it may go on with."""
        shared = str(self._root) if self._root != self._local else ""
        path = self._local / "identity"
        identity, where = ((*path.read_text().splitlines(), "")[:2]) if path.exists() else ("", "")
        if identity and _sealed(Path(where or self._local) / identity):
            # Arrays that it was given are another machine's since.
            ledger.clear()
        elif identity and where == shared:
            if shared and not (self._root / identity).is_dir():
                raise ArraysElsewhere(f"{self._root / identity} is not there; see that its file system is mounted")
            return self._made(identity)
        elif identity and ledger.arrays():
            was = f"in {where}" if where else "without a folder of its own"
            raise ArraysElsewhere(
                f"its jobs were given {was}; leave `folder` as it was until they are over, then change it"
            )
        identity = self._made(secrets.token_hex(6))
        replace_durably(path, "\n".join(filter(None, (identity, shared))).encode())
        return identity

    def _made(self, identity: str) -> str:
        row = self._root / identity
        row.mkdir(mode=0o700, exist_ok=True)
        replace_durably(row / _OWNER, str(self._data.root).encode())
        sync(self._root)
        return identity

    def _number(self, token: str) -> int:
        """Return the number in this machine's row; 0: it is of another, or has none, as in older releases."""
        identity, _, number = token.partition(".")
        return int(number) if identity == self.identity and number.isdecimal() else 0

    def _was_newest(self, path: Path) -> None:
        """Remove what is left of a dropped array once there are higher numbers."""
        if path != self._newest and not (path / _ORDER).exists():
            ArrayFolder(path).remove()


def open_rows(data: DataDir, settings: ClusterSettings, ledger: Ledger, around: Surroundings, before: str = "") -> Rows:
    """Open the rows where the settings want them; as `Rows`."""
    root = local = data.root / "clusters" / around.cluster
    if shared := settings.folder:
        if not Path(shared).is_dir():
            raise ArraysElsewhere(f"folder {shared} is not there; make it, or see that its file system is mounted")
        root = Path(shared) / around.site / around.cluster
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if root.stat().st_uid != os.geteuid():
            raise ArraysElsewhere(f"{root} is another account's; name a folder that only the node's account writes")
    return Rows(local, root, data, ledger, around, before)


def _numbers(row: Path) -> list[int]:
    return [int(name) for name in os.listdir(row) if name.isdecimal()]


def _sealed(row: Path) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(row) as entries:
        return any(entry.name.isdecimal() and entry.is_file() for entry in entries)
    return False


def _seal(row: Path) -> None:
    """Seal a row, durably: its owner publishes nothing in it any more."""
    tried = 0
    while True:
        numbers = _numbers(row)
        if numbers and (row / str(max(numbers))).is_file():
            return
        # A listing may be old; making a name is not.
        tried = 1 + max(tried, *numbers, 0)
        with suppress(FileExistsError):
            os.close(os.open(row / str(tried), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            sync(row)


def _arrays(row: Path, known: Container[str]) -> Iterator[FoundArray]:
    """Yield the arrays in a row but for those known."""
    for number in sorted(_numbers(row)):
        path, token = row / str(number) / _ORDER, f"{row.name}.{number}"
        try:
            given = _given.decode(path.read_bytes()) if token not in known else None
        except (FileNotFoundError, NotADirectoryError):
            continue
        except msgspec.MsgspecError:
            raise ArraysElsewhere(f"{path} is not understood; run the diana that wrote it, or a later one") from None
        if given is None:
            continue
        if given.version > VERSION:
            raise ArraysElsewhere(f"{path}: {of_newer(given.version, VERSION)}; start that release instead")
        folder = ArrayFolder(path.parent)
        parts = {job: SubmittedPart(tasks) for job, tasks in folder.begun_as().items()}
        yield FoundArray(token, given.order, parts, folder.over())
