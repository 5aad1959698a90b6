"""A machine that is to lead says who it is and what it waits for before it serves (D8; PROMISES section 2, Standby)."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from diana.adapters.datadir import OpenDataDir
from diana.client import AsyncClient
from diana.errors import Unreachable, UsageError
from diana.model.ids import SiteId
from diana.model.layout import DataDir
from diana.node.config.site_file import SiteConfig
from diana.node.ground import refuse_alone
from diana.node.pair.follower import Leadership, _Follower
from diana.node.pair.pair import REPLICATED
from diana.replica import messages as ms
from diana.replica.machine import Replica
from tests.node.pair.test_replication import Uploads, following, soon


async def test_a_leader_that_waits_for_its_standby_says_so_on_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = OpenDataDir(tmp_path)
    may: list[bool] = []
    monkeypatch.setattr(Replica, "may_act", lambda self, now, seq: bool(may))
    try:
        async with following(tmp_path, Uploads()) as one, AsyncExitStack() as stack:
            config = SiteConfig(site=SiteId("alpha"), vo="vo", listen="127.0.0.1:0", machine="spare")
            follower = _Follower(opened, config, {}, stack)
            follower._replication = one
            one.leading.set_result(ms.Lead(1, forced=False, history_term=0))
            lead = Leadership(one, None, 0, follower._waiting)  # type: ignore[arg-type]
            opening = asyncio.create_task(lead.open(7))
            socket = DataDir(tmp_path).socket
            await soon(socket.exists)
            async with AsyncClient(data=tmp_path) as client:
                told = await client.info()
                assert (told.site, told.machine, told.durability) == ("alpha", "spare", 0)
                assert told.standing.startswith("spare leads alpha in term 0 and waits for its standby main")
                with pytest.raises(Unreachable, match="diana site promote --remove"):
                    await client.status([])
            may.append(True)
            one._released.set()
            async with asyncio.timeout(60):
                await opening
            assert not socket.exists()
            await lead.open(7)
    finally:
        opened.close()


async def test_a_machine_that_lost_its_promises_does_not_serve_alone(tmp_path: Path) -> None:
    async with following(tmp_path, Uploads()) as one:
        store, paths = one.thread.store, DataDir(tmp_path)
        refuse_alone(store, paths, "alpha")
        store.set_meta(REPLICATED, "1")
        with pytest.raises(UsageError, match=r"replica\.json: missing.*root = .*diana restore") as refused:
            refuse_alone(store, paths, "alpha")
        assert "\n" not in str(refused.value)
