"""Histories told to other sites: two at once, and none keeps others away for as long as its reader likes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from diana.errors import Overloaded
from diana.model.ids import GroupId, SiteId
from diana.model.settings import Settings
from diana.model.trust import past_claim
from diana.model.views.past import PastGroup, PastGroups, PastSite
from diana.node.api.history import MOST_TELLINGS, TELL_AT_MOST_S, PastTeller

WALL_S = 1_800_000_000.0
READERS = ("alpha", "gamma", "delta", "epsilon")


class _Site:
    """A site that tells of groups without end, and its clock."""

    def __init__(self) -> None:
        self.now_s, self._groups = 0.0, 0
        desk: Any = SimpleNamespace(
            about=SimpleNamespace(site=SiteId("beta")),
            wall_s=lambda: WALL_S,
            ask=self._ask,
            request=self._request,
            door=SimpleNamespace(store=SimpleNamespace(facts=lambda group: iter(()))),
        )
        keyring: Any = SimpleNamespace(check=lambda said, claim: "")
        settings = Settings(history_for="operators")
        self.teller = PastTeller(desk, keyring, lambda: settings, lambda: self.now_s)

    async def _ask(self, want: object, caller: object, what: str) -> PastSite:
        return PastSite(site=SiteId("beta"), slots=1, speed=1.0)

    async def _request(self, want: object, make: object) -> PastGroups:
        self._groups += 1
        name = GroupId(f"beta-{self._groups}")
        group = PastGroup(group=name, owner="ann@lab", jobs=1, submitted_wall_s=WALL_S, submitted_s=WALL_S)
        return PastGroups(groups=(group,), superseded=((),), next=self._groups)

    def tell(self, reader: str) -> Any:
        claim = past_claim.payload(reader, "beta", "ann@lab", "operator", (0.0, 0.0), WALL_S)
        signed = past_claim.SignedClaim(claim, "0" * 64, WALL_S + 9, WALL_S, b"", b"")
        return self.teller.tell(past_claim.token_of(signed), SiteId(reader))


async def test_two_sites_that_read_slowly_lose_their_place_to_others_in_time() -> None:
    site = _Site()
    slow = [site.tell(reader) for reader in READERS[:MOST_TELLINGS]]
    for one in slow:
        assert b"beta" in await anext(one)
        site.now_s += 1.0
    with pytest.raises(Overloaded, match="to others just now"):
        await anext(site.tell("delta"))
    site.now_s = TELL_AT_MOST_S
    third = site.tell("delta")
    assert b"beta" in await anext(third)
    with pytest.raises(Overloaded, match="to others just now"):
        await anext(site.tell("epsilon"))  # The second slow one began a second later.
    await third.aclose()
    assert b"beta" in await anext(site.tell("epsilon")), "who ends makes room"


async def test_who_lost_its_place_is_told_so_and_takes_no_other_place_with_it() -> None:
    site = _Site()
    first, second = (site.tell(reader) for reader in READERS[:2])
    for one in (first, second):
        await anext(one)
    site.now_s = TELL_AT_MOST_S + 1.0
    third = site.tell("delta")
    await anext(third)
    with pytest.raises(Overloaded, match="ask again for a shorter span"):
        await anext(first)
    site.now_s += 1.0
    fourth = site.tell("epsilon")
    await anext(fourth)
    with pytest.raises(Overloaded, match="to others just now"):
        await anext(site.tell("alpha"))
