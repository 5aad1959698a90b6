"""Names of sites in the VO's ledger: what one signer gave out all know, and nothing forgets it (PROMISES 5.2; U1)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.membership import trust_ledger as ledger
from diana.engine.messages import messages as ms
from diana.engine.site.surroundings import Journal
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.model.trust.ledger import MOST_PAGES, Signed, Statement, names_in, page_about, payload_of
from diana.model.trust.principal import Principal, Role
from diana.model.views.views import Named
from diana.policy.trust import naming
from diana.sim.twins.keyring import SimKeyring

WALL_S = 1_750_000_000.0


def keyring(site: str) -> SimKeyring:
    return SimKeyring(f"site:{site}", "vo", wall_clock=lambda: WALL_S)


class Site:
    def __init__(self, name: str, snapshot: bytes | None = None) -> None:
        self.name = SiteId(name)
        journal = Journal(snapshot=snapshot, seq=0, at_s=0.0, records=[])
        self.engine = Engine.restore(journal, site=self.name, keyring=keyring(name), now=0.0)
        self.engine.start(Settings(), boot_nonce="n", db_uuid="u")
        self.effects: list[fx.Effect] = []

    def name_it(self, name: str, *, give: bool = True, **how: Any) -> Any:
        event = ev.NameSite(request=1, name=SiteId(name), give=give, wall_s=WALL_S, **how)
        self.effects = self.engine.handle(event, 1.0)
        return next(e.body for e in self.effects if isinstance(e, fx.Reply))

    def free(self, name: str) -> bool:
        answer = self.name_it(name, give=False)
        assert isinstance(answer, Named)
        return not answer.taken

    def hear(self, *statements: Signed) -> None:
        for at in range(0, len(statements), ledger.MOST_IN_MESSAGE):
            told = ms.LedgerNews(statements=statements[at : at + ledger.MOST_IN_MESSAGE])
            self.effects = self.engine.handle(ev.Received(SiteId("omega"), told), 2.0)

    def ban(self, who: str) -> None:
        by = Principal(Role.OPERATOR, "root@vo")
        self.engine.handle(
            ev.SayStatement(request=1, principal=by, kind="revoke", about=f"site:{who}", wall_s=WALL_S), 3.0
        )

    @property
    def ledger(self) -> dict[str, Signed]:
        return self.engine.core.state.ledger

    def kept(self) -> tuple[Signed, ...]:
        return tuple(self.ledger.values())


def page(signer: str, values: dict[str, Any], about: str = "", kind: Any = "named") -> Signed:
    one = Statement(
        kind=kind, about=about or page_about(signer, 0), values=values, wall_s=WALL_S, signer=SiteId(signer)
    )
    payload = payload_of(one)
    return Signed(payload, *keyring(signer).sign_statement(payload))


def test_a_name_is_durable_before_the_answer_and_looking_keeps_nothing() -> None:
    alpha = Site("alpha")
    assert alpha.free("beta") and alpha.kept() == ()
    assert alpha.name_it("beta").taken == ""
    kinds = [type(effect).__name__ for effect in alpha.effects]
    assert kinds.index("Persist") < kinds.index("Reply")
    assert not alpha.free("beta") and not alpha.free("alpha")
    assert "TrustChanged" not in kinds, "nobody is trusted more or less by it"


def test_the_linked_sites_are_told_at_once() -> None:
    alpha = Site("alpha")
    hello = ms.Hello(
        site=SiteId("beta"),
        protocol=1,
        release="1",
        capabilities=(),
        db_uuid="b",
        generation=1,
        boot_nonce="b",
        seq=0,
        term=0,
        data_address="",
    )
    alpha.engine.handle(ev.PeerUp(hello), 0.5)
    alpha.name_it("gamma")
    told = [e for e in alpha.effects if isinstance(e, fx.Send) and isinstance(e.message, ms.LedgerNews)]
    assert [one.to for one in told] == ["beta"]
    reply = next(at for at, e in enumerate(alpha.effects) if isinstance(e, fx.Reply))
    assert alpha.effects.index(told[0]) < reply


def test_who_restarts_or_hears_of_it_knows_the_name() -> None:
    alpha, beta = Site("alpha"), Site("beta")
    alpha.name_it("gamma", signer=True)
    beta.hear(*alpha.kept())
    again = Site("alpha", alpha.engine.snapshot())
    for site in (again, beta):
        assert site.name_it("gamma", give=False).taken == "given out by alpha"
        assert site.name_it("gamma", give=False).signers == ("alpha", "gamma")
    assert beta.name_it("gamma").taken and "gamma" not in {
        n for p in naming.pages(beta.ledger, "beta") for n in names_in(p)
    }
    assert not beta.name_it("gamma", again=True).taken
    assert not alpha.name_it("gamma").taken, "a lost answer is given again"
    assert len(alpha.kept()) == 1


def test_an_older_copy_of_a_signers_journal_loses_no_name() -> None:
    """Restored from a backup, it says its page anew, with fewer names and a later date."""
    alpha, beta = Site("alpha"), Site("beta")
    alpha.name_it("one")
    old = alpha.engine.snapshot()
    alpha.name_it("two")
    beta.hear(*alpha.kept())
    restored = Site("alpha", old)
    restored.name_it("three")
    beta.hear(*restored.kept())
    assert not beta.free("two") and beta.free("three"), "neither page has all of the other"
    restored.hear(*beta.kept())
    beta.hear(*restored.kept())
    assert [site.free(name) for site in (restored, beta) for name in ("one", "two", "three")] == [False] * 6
    assert ledger.digest(restored.engine.core) == ledger.digest(beta.engine.core)


def test_names_of_a_signer_that_is_banned_are_said_again_by_who_bans_it() -> None:
    """A site that joins later takes nothing from it."""
    alpha, beta = Site("alpha"), Site("beta")
    alpha.name_it("gamma", signer=True)
    beta.hear(*alpha.kept())
    beta.ban("alpha")
    assert naming.given_by(beta.ledger, "gamma") == ("alpha", "beta")
    assert beta.name_it("x", give=False).signers == ("beta", "gamma"), "who is banned signs no more"


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"names": ["b", "a"], "signers": []},
        {"names": ["a", "a"], "signers": []},
        {"names": ["A b"], "signers": []},
        {"names": [1], "signers": []},
        {"names": "ab", "signers": []},
        {"names": ["a"], "signers": ["b"]},
        {"names": [f"s{k:05}" for k in range(1025)], "signers": []},
        {"names": [], "signers": [], "more": []},
    ],
)
def test_a_page_that_is_none_is_not_kept(values: dict[str, Any]) -> None:
    beta = Site("beta")
    beta.hear(page("alpha", values))
    assert beta.kept() == ()
    assert any(isinstance(e, fx.Warn) for e in beta.effects)


@pytest.mark.parametrize(
    "about", ["named:gamma/0", "named:alpha/01", f"named:alpha/{MOST_PAGES}", "named:alpha/x", "named:alpha"]
)
def test_a_signer_writes_on_pages_of_its_own(about: str) -> None:
    beta = Site("beta")
    beta.hear(page("alpha", {"names": ["a"], "signers": []}, about))
    assert beta.kept() == ()


def test_a_site_that_is_no_signer_gives_no_name() -> None:
    plain = Site("plain")
    plain.engine.core.keyring = SimKeyring("site:plain", "vo", wall_clock=lambda: WALL_S, signs=False)
    assert "no signer" in plain.name_it("beta").text and plain.kept() == ()


def test_ten_thousand_names_are_eighty_statements_and_a_quarter_of_a_megabyte() -> None:
    """They stand in each journal's snapshot; chains of the first signers have 0.7 KB."""
    names = ["site-" + hashlib.sha256(str(number).encode()).hexdigest()[:12] for number in range(10_000)]
    kept = naming.additions({}, SiteId("alpha"), names, wall_s=WALL_S)
    assert len(kept) == 79
    assert sum(len(payload_of(one)) for one in kept) < 230_000
    assert max(len(payload_of(one)) for one in kept) < 3_000


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["p", "q", "r", "s"]), st.booleans()), max_size=8),
    st.randoms(use_true_random=False),
)
def test_whatever_the_order_all_know_all_names(steps: list[tuple[str, str, bool]], rng: Any) -> None:
    """Two signers give out names and hear of each other now and then; a third hears every page ever said, shuffled."""
    sites = {name: Site(f"signer-{name}") for name in "ab"}
    said: list[Signed] = []
    wanted = set()
    for who, name, hears in steps:
        if not sites[who].name_it(name).taken:
            wanted.add(name)
        said += sites[who].kept()
        if hears:
            sites["b" if who == "a" else "a"].hear(*sites[who].kept())
    rng.shuffle(said)
    third = Site("third")
    third.hear(*said)
    assert {n for p in naming.pages(third.ledger) for n in names_in(p)} == wanted


def test_a_kind_of_statement_this_release_does_not_know_keeps_nobody_from_the_others() -> None:
    """As a release before this one meets a page: it keeps and passes on what it knows, and is no worse off."""
    beta = Site("beta")
    good = page("alpha", {"names": ["a"], "signers": []})
    beta.hear(page("alpha", {}, "later:x", "later"), good)
    assert beta.kept() == (good,)
    assert any(isinstance(e, fx.Warn) for e in beta.effects)


def test_a_signer_that_starts_again_writes_its_own_name_once() -> None:
    alpha = Site("alpha")
    alpha.name_it("alpha", again=True, signer=True)
    again = Site("alpha", alpha.engine.snapshot())
    assert not again.name_it("alpha", again=True, signer=True).taken
    assert not [e for e in again.effects if isinstance(e, fx.Persist)] and again.kept() == alpha.kept()
