"""Answers with long tables by gRPC: written bit by bit, read as one."""

from __future__ import annotations

import asyncio

import pytest

from diana.errors import UsageError
from diana.model.views.group import GroupStatus
from diana.node.ways_in import client_service
from diana.wire import BadMessage, peer_codec
from diana.wire.client import messages as wire


def answer(groups: int) -> wire.StatusResponse:
    return wire.StatusResponse(
        groups=tuple(GroupStatus(group=f"alpha-{n}", name="é", state="done", jobs=n) for n in range(groups)), left_out=7
    )


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 10, 12])
async def test_a_table_written_bit_by_bit_is_read_as_it_was(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(client_service, "ROWS_AT_ONCE", 3)
    data = await client_service._written(answer(rows))
    read = peer_codec.proto_class(wire.StatusResponse).FromString(data)
    assert peer_codec.from_proto(wire.StatusResponse, read) == answer(rows)


async def test_others_come_between_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_service, "ROWS_AT_ONCE", 3)
    went, over = 0, False

    async def other() -> None:
        nonlocal went
        while not over:
            went += 1
            await asyncio.sleep(0)

    going = asyncio.create_task(other())
    await client_service._written(answer(30))
    over = True
    await going
    assert went >= 9


async def test_a_value_that_fits_no_field_is_told_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_service, "ROWS_AT_ONCE", 3)
    rows = answer(8).groups
    bad = wire.StatusResponse(groups=(*rows[:7], GroupStatus(group="alpha-9", name="", state="", jobs=1 << 80)))
    with pytest.raises(BadMessage, match=r"StatusResponse\.groups"):
        await client_service._written(bad)


def test_a_request_that_fits_no_message_is_its_senders_mistake() -> None:
    method = wire.METHODS["Explain"]

    class Bad:
        def __getattr__(self, name: str) -> str:
            raise BadMessage("no text")

    with pytest.raises(UsageError, match="Explain: no text"):
        client_service._asked("Explain", method, Bad())
