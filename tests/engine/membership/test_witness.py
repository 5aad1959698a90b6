"""D8, the witness of a standby: one register for each site that asks, changed by compare-and-set, journaled."""

from __future__ import annotations

import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.membership import witness
from diana.model.ids import SiteId
from diana.model.trust.register import Copy, Register
from tests.engine.bench import Grid, Site

BETA, GAMMA = SiteId("beta"), SiteId("gamma")
MAIN, SPARE = Copy("main", "d1"), Copy("spare", "d2")


def touch(
    site: Site, expect: int = 0, wish: Register | None = None, *, by: SiteId = BETA, of: SiteId = BETA
) -> Register | None:
    site.handle(ev.RegisterAsked(request=9, by=by, site=of, expect_term=expect, register=wish))
    answer = site.replies[9]
    assert isinstance(answer, fx.RegisterIs), answer
    return answer.register


def test_nothing_is_recorded_until_somebody_asks_for_it() -> None:
    assert touch(Grid(alpha=1)["alpha"]) is None


def test_a_register_changes_only_from_the_term_it_has_and_to_a_higher_one() -> None:
    alpha = Grid(alpha=1)["alpha"]
    first = Register(1, "main", (MAIN,))
    both = Register(2, "main", (MAIN, SPARE))
    assert touch(alpha, 0, first) == first
    assert touch(alpha, 1, both) == both
    assert touch(alpha, 1, Register(2, "spare", (SPARE,))) == both
    assert touch(alpha, 2, Register(2, "spare", (SPARE,))) == both
    assert touch(alpha, 2, Register(3, "spare", (SPARE,))) == Register(3, "spare", (SPARE,))
    assert touch(alpha) == Register(3, "spare", (SPARE,))


def test_what_was_answered_outlives_a_crash() -> None:
    alpha = Grid(alpha=1)["alpha"]
    first = Register(1, "main", (MAIN,))
    touch(alpha, 0, first)
    alpha.restart()
    assert touch(alpha) == first


def test_each_site_has_a_register_of_its_own_and_touches_no_other() -> None:
    alpha = Grid(alpha=1)["alpha"]
    touch(alpha, 0, Register(1, "main", (MAIN,)))
    assert touch(alpha, by=GAMMA, of=GAMMA) is None
    alpha.handle(ev.RegisterAsked(request=5, by=GAMMA, site=BETA))
    refused = alpha.replies[5]
    assert isinstance(refused, fx.Refusal) and refused.code == "denied"
    assert refused.text == "peer gamma may not witness what belongs to beta"


def test_a_site_is_no_witness_of_its_own() -> None:
    alpha = Grid(alpha=1)["alpha"]
    alpha.handle(ev.RegisterAsked(request=5, by=SiteId("alpha"), site=SiteId("alpha")))
    refused = alpha.replies[5]
    assert isinstance(refused, fx.Refusal) and "is no witness of its own" in refused.text


def test_the_number_of_registers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "MOST_REGISTERS", 1)
    alpha = Grid(alpha=1)["alpha"]
    touch(alpha, 0, Register(1, "main", (MAIN,)))
    assert touch(alpha, 1, Register(2, "main", (MAIN, SPARE))) is not None
    alpha.handle(ev.RegisterAsked(request=5, by=GAMMA, site=GAMMA, register=Register(1, "main", (MAIN,))))
    refused = alpha.replies[5]
    assert isinstance(refused, fx.Refusal) and "is witness for 1 sites already" in refused.text
