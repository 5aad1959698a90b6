"""Names of sites as an inviter gives them out: once, whoever restarts or is lost; and whom it makes a signer (SPEC U1,
PROMISES 5.2, 5.3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.model.views.views import Named
from tests.node.enrolling import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield Desk(tmp_path)


def test_signers_that_nobody_signed_for_do_not_count(desk: Desk) -> None:
    """PROMISES 5.3: anybody may tell of signers; that would keep the VO at one."""
    desk.book.learn({"mallory": "h:1", "mallory2": "h:1"})
    assert desk.join(desk.token(), "beta").signer and desk.join(desk.token(), "gamma").signer
    assert not desk.join(desk.token(), "delta").signer


def test_a_name_given_out_is_known_after_a_restart_and_at_every_signer(desk: Desk, tmp_path: Path) -> None:
    """PROMISES 5.2: also when the site that gave it out, and the one that has it, are away or lost."""
    desk.join(desk.token(), "beta")
    other = Desk(tmp_path / "other", "gamma", vo_from=desk.keys)
    other.hear(desk)
    desk.engine.core.state.invitations.clear()
    for giver in (desk, other):
        giver.restart()
        for taken in {"alpha", "beta"} - {giver.site}:
            with pytest.raises(UsageError, match=f"site {taken}: that name is taken"):
                giver.token(name=taken)
            with pytest.raises(UsageError, match=f"site {taken}: that name is taken"):
                giver.join(giver.token(), taken)
        assert giver.join(giver.token(name="beta", again=True)).site == "beta", "its operator says so"


def test_a_name_that_another_signer_gave_out_meanwhile_is_not_given(desk: Desk, tmp_path: Path) -> None:
    """Where two give out one name, the one that hears of the other before its answer gives way, and may go on."""
    other = Desk(tmp_path / "other", "gamma", vo_from=desk.keys)
    token = desk.token()
    asked, first = desk.ask, True

    async def slow(name: SiteId, **how: Any) -> Named:
        nonlocal first
        if how["give"] and first:
            first = False
            await other.ask(name, give=True)
            desk.hear(other)
        return await asked(name, **how)

    desk.enrolment._names._ask = slow
    with pytest.raises(UsageError, match=r"that name is taken \(given out by gamma\); choose another"):
        desk.join(token, "beta")
    assert desk.join(token, "delta").site == "delta"
