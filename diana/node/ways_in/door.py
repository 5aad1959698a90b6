"""Interfaces the client service needs of the rest of the node: the engine's door and the stager's half for clients.

`loop/runner.py` and `adapters/staging/stager.py` fulfil these; tests bring small ones of their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from diana.engine.journal.effects import DecisionMade, GroupAccepted, GroupsAccepted, Refusal, RegisterIs
from diana.engine.journal.events import Event
from diana.model.data import DataFile, RegisteredDataset, VerifyProgress
from diana.model.ids import GroupId, SiteId
from diana.model.trust.principal import Principal
from diana.model.views.datasets import Dataset
from diana.model.views.peers import Peers
from diana.model.views.views import Answer
from diana.node.activity import Activity
from diana.ports import Store
from diana.wire.client.dashboard import DashboardRequest, DashboardResponse
from diana.wire.client.enrol import InviteRequest, InviteResponse
from diana.wire.client.peers import CheckResult, PeersResponse

ReplyBody = GroupAccepted | GroupsAccepted | DecisionMade | RegisterIs | Answer | Refusal


class GroupWatch(Protocol):
    async def changed(self) -> None:
        """Returns once the group changed since the last call; many changes count as one. Safe to cancel."""
        ...


class EngineDoor(Protocol):
    @property
    def store(self) -> Store:
        """The store, for reading facts in a thread of the caller's choice."""
        ...

    async def request(self, make: Callable[[int], Event]) -> ReplyBody:
        """Feed `make(request number)` to the engine and give its durable answer.

        Raises `errors.Overloaded` when the queue of events is full.
        """
        ...

    def watch(self, group: GroupId) -> AbstractAsyncContextManager[GroupWatch]: ...

    def now_s(self) -> float:
        """Site time."""
        ...


class FolderTrial(Protocol):
    def trouble(self, owner: str, to: str) -> str:
        """Return why the account of `owner` may not write into the folder `to`; empty: it may. Blocks."""
        ...


class ClientStager(Protocol):
    @property
    def delivery(self) -> FolderTrial | None:
        """Present where outputs for folders of users are written by accounts of theirs."""
        ...

    async def register(
        self,
        name: str,
        paths: Sequence[Path],
        *,
        new_version: bool = False,
        tell: Callable[[int, int], None] | None = None,
    ) -> RegisteredDataset:
        """Hash the files and put them in the catalogue; `tell` hears of the files and bytes done. `errors.UsageError`
        for a bad name or path, or for other content under a name that stands unless `new_version`."""
        ...

    async def datasets(self, name: str = "", version: int = 0) -> Sequence[Dataset]:
        """The datasets that stand here, registered or cached; of one name, or of all."""
        ...

    async def dataset_names(self) -> list[str]: ...

    async def newest(self, name: str) -> RegisteredDataset | None: ...

    def dataset_files(self, name: str, version: int = 0) -> AsyncIterator[Sequence[DataFile]]:
        """Pages, by name. `errors.UsageError` when it is not here."""
        ...

    def verify(self, name: str, version: int = 0) -> AsyncIterator[VerifyProgress]:
        """Read all its files again, telling how far it is."""
        ...

    async def remove_dataset(self, name: str, version: int = 0) -> int:
        """Forget that version, or all (0); gives how many there were."""
        ...

    async def write_blob(self, sha256: str, chunks: AsyncIterator[bytes]) -> int:
        """Durable and verified on return; gives its size. `errors.UsageError` when the content has another hash."""
        ...

    def put_blob_bytes(self, data: bytes) -> str:
        """Keep `data`; gives its SHA-256. Blocks on the disk."""
        ...

    def cut_blob(self, sha256: str, chunks: int, by_lines: bool) -> Sequence[tuple[str, int]]:
        """Keep so many chunks of a blob, cut by bytes or by lines; gives their hashes and sizes. ValueError when there
        are fewer bytes or lines. Blocks on the disk."""
        ...

    def has_blob(self, sha256: str) -> bool: ...

    def blob_path(self, sha256: str) -> Path:
        """`errors.UsageError` when the blob is not here."""
        ...

    def check_url(self, text: str) -> None:
        """`errors.UsageError` when this site's operator does not allow the URL, or it is none."""
        ...

    async def use_blobs(self, group: GroupId, hashes: Iterable[str]) -> None:
        """Note, durably, that the group reads these blobs: they go when it expires."""
        ...

    def read(self, site: SiteId, ref: str, offset: int = 0, length: int = 0) -> AsyncIterator[bytes]:
        """`log:SEGMENT` of another site (length 0: to its end). `errors.Unreachable` when the site does not answer."""
        ...


class Inviter(Protocol):
    async def invite(self, caller: str, request: InviteRequest) -> InviteResponse:
        """`errors.UsageError` for what cannot be invited from here."""
        ...


class Insight(Protocol):
    def describe(self, found: Peers) -> PeersResponse:
        """The engine's view of sites and machines, with what the node's links add."""
        ...

    def notes(self) -> Mapping[str, str]:
        """Notes by site on what was noticed between sites: two nodes of one name, refusals."""
        ...

    async def examine(self, found: Peers) -> tuple[CheckResult, ...]:
        """The faults that the running node alone can tell; within about 3 s."""
        ...


class Pages(Protocol):
    def let_in(self, caller: Principal, request: DashboardRequest) -> DashboardResponse:
        """`errors.UsageError` where the operator wants no dashboard, or for what it does not have."""
        ...


class Views:
    """The dashboard's pages and the site's activity; both stand from the node's start on."""

    def __init__(self, pages: Pages, activity: Activity) -> None:
        self.pages = pages
        self.activity = activity


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a node that do not change while it runs."""

    site: SiteId
    vo: str
    release: str
    address: str
    """host:port where remote clients reach it; empty: nowhere."""
