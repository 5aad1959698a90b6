"""The VO's ledger at one site: who may say what, what counts, and what follows (PROMISES 5.2; SPEC D8)."""

from __future__ import annotations

from typing import Any

import pytest

from diana import errors
from diana.engine.engine import Engine
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.membership import trust_ledger
from diana.engine.messages import messages as ms
from diana.engine.site.surroundings import Journal
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.model.trust.ledger import Signed, Statement, payload_of
from diana.model.trust.principal import Principal, Role
from diana.model.views.views import Ok
from diana.sim.twins.keyring import SimKeyring

OPERATOR = Principal(Role.OPERATOR, "root@vo")
WALL_S = 1_750_000_000.0


def keyring(site: str, signs: bool = True, secret: str = "") -> SimKeyring:
    return SimKeyring(f"site:{site}", "vo", wall_clock=lambda: WALL_S, vo_secret=secret, signs=signs)


class Site:
    """One engine, what it sent, and what it keeps."""

    def __init__(self, name: str, *, signs: bool = True, settings: Settings | None = None) -> None:
        self.name = SiteId(name)
        self.keys = keyring(name, signs)
        journal = Journal(snapshot=None, seq=0, at_s=0.0, records=[])
        self.engine = Engine.restore(journal, site=self.name, keyring=self.keys, now=0.0)
        self.effects = self.engine.start(settings or Settings(), boot_nonce="n", db_uuid="u")

    @property
    def settings(self) -> Settings:
        return self.engine.core.state.settings

    def say(self, kind: Any, about: str, *, by: Principal = OPERATOR, wall_s: float = WALL_S, **more: Any) -> Any:
        event = ev.SayStatement(request=1, principal=by, kind=kind, about=about, wall_s=wall_s, **more)
        self.effects = self.engine.handle(event, 1.0)
        return next(e.body for e in self.effects if isinstance(e, fx.Reply))

    def hear(self, message: ms.LedgerNews, sender: str = "omega") -> list[fx.Effect]:
        self.effects = self.engine.handle(ev.Received(SiteId(sender), message), 2.0)
        return self.effects

    def revoked(self) -> list[str]:
        return [who for who, _, _ in trust_ledger.revoked(self.engine.core)]

    def told(self) -> list[ms.LedgerNews]:
        return [e.message for e in self.effects if isinstance(e, fx.Send) and isinstance(e.message, ms.LedgerNews)]

    def kept(self) -> tuple[Signed, ...]:
        return tuple(self.engine.core.state.ledger.values())


def statement(signer: str, about: str = "site:eve", kind: Any = "revoke", at_s: float = WALL_S, **more: Any) -> Signed:
    payload = payload_of(Statement(kind=kind, about=about, wall_s=at_s, signer=SiteId(signer), **more))
    return Signed(payload, *keyring(signer).sign_statement(payload))


def test_a_ban_is_durable_before_it_is_applied_or_told() -> None:
    alpha = Site("alpha")
    alpha.say("revoke", "site:eve", reason="stolen")
    kinds = [type(effect).__name__ for effect in alpha.effects]
    assert kinds.index("Persist") < kinds.index("TrustChanged") < kinds.index("Reply")
    trust = next(e for e in alpha.effects if isinstance(e, fx.TrustChanged))
    assert trust.revoked == (("site:eve", WALL_S, "stolen"),)


def test_who_restarts_revokes_the_same_at_once() -> None:
    alpha = Site("alpha")
    alpha.say("revoke", "site:eve")
    journal = Journal(snapshot=alpha.engine.snapshot(), seq=9, at_s=5.0, records=[])
    again = Engine.restore(journal, site=SiteId("alpha"), keyring=alpha.keys, now=5.0)
    effects = again.start(Settings(), boot_nonce="m", db_uuid="u")
    assert any(isinstance(e, fx.TrustChanged) and e.revoked[0][0] == "site:eve" for e in effects)


def test_a_lift_ends_a_ban_also_where_the_clock_of_who_lifts_is_behind() -> None:
    alpha, beta = Site("alpha"), Site("beta")
    alpha.say("revoke", "site:eve")
    beta.hear(ms.LedgerNews(statements=alpha.kept()))
    beta.say("lift", "site:eve", wall_s=WALL_S - 3600.0)
    alpha.hear(ms.LedgerNews(statements=beta.kept()))
    assert alpha.revoked() == beta.revoked() == []


def test_of_two_words_about_one_thing_all_sites_keep_the_same_in_any_order() -> None:
    words = [statement("alpha"), statement("beta", kind="lift", at_s=WALL_S + 1), statement("gamma", at_s=WALL_S + 2)]
    digests = set()
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)):
        site = Site("delta")
        for at in order:
            site.hear(ms.LedgerNews(statements=(words[at],)))
        digests.add(trust_ledger.digest(site.engine.core))
        assert site.revoked() == ["site:eve"]
    assert len(digests) == 1


def test_only_operators_of_a_signer_speak_for_the_vo() -> None:
    plain = Site("plain", signs=False)
    assert "no signer" in plain.say("revoke", "site:eve").text
    alpha = Site("alpha")
    assert alpha.say("revoke", "site:eve", by=Principal(Role.USER, "ann@vo")).code == "denied"
    assert alpha.kept() == plain.kept() == ()


def test_nobody_bans_the_site_he_speaks_at_or_lifts_what_was_never_banned() -> None:
    alpha = Site("alpha")
    assert "very site" in alpha.say("revoke", "site:alpha").text
    assert "not banned" in alpha.say("lift", "site:eve").text


def forged(how: str) -> Signed:
    good = statement("alpha")
    if how == "payload":
        return Signed(good.payload.replace(b"eve", b"bob"), good.chain, good.signature)
    if how == "other vo":
        return Signed(good.payload, *keyring("alpha", secret="else").sign_statement(good.payload))
    if how == "no statement":
        return Signed(b"{}", *keyring("alpha").sign_statement(b"{}"))
    if how == "other form":
        text = good.payload.replace(b"diana-ledger-1", b"diana-ledger-9")
        return Signed(text, *keyring("alpha").sign_statement(text))
    text = b'{"form":"diana-ledger-1","kind":"policy","about":"policy","values":{"slots":1},"wall_s":1,"signer":"a"}'
    return Signed(text, *keyring("alpha").sign_statement(text))


@pytest.mark.parametrize("how", ["payload", "other vo", "no statement", "other form", "policy out of bounds"])
def test_what_no_signer_of_this_vo_said_is_ignored(how: str) -> None:
    beta = Site("beta")
    beta.hear(ms.LedgerNews(statements=(forged(how),)))
    assert beta.kept() == ()
    assert any(isinstance(e, fx.Warn) for e in beta.effects)


def test_sites_that_differ_end_up_with_the_same() -> None:
    alpha, beta = Site("alpha"), Site("beta")
    for number in range(3):
        alpha.say("revoke", f"user:u{number}@vo")
        beta.say("revoke", f"serial:{number + 10}")
    alpha.effects = []
    trust_ledger.compare(alpha.engine.core, SiteId("beta"), trust_ledger.digest(beta.engine.core))
    alpha.effects = alpha.engine.core.effects
    (asked,) = alpha.told()
    beta.hear(asked, "alpha")
    (answer,) = beta.told()
    alpha.hear(answer, "beta")
    (last,) = [m for m in alpha.told() if m.statements]
    beta.hear(last, "alpha")
    assert len(alpha.kept()) == len(beta.kept()) == 6
    assert trust_ledger.digest(alpha.engine.core) == trust_ledger.digest(beta.engine.core)


def test_a_peer_that_differs_is_not_told_again_and_again() -> None:
    alpha = Site("alpha")
    alpha.say("revoke", "site:eve")
    alpha.engine.core.effects = []
    for _ in range(10):
        trust_ledger.compare(alpha.engine.core, SiteId("beta"), "other")
    assert len(alpha.engine.core.effects) == 1


def test_the_ledger_does_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_ledger, "MOST_STATEMENTS", 3)
    beta = Site("beta")
    beta.hear(ms.LedgerNews(statements=tuple(statement("alpha", f"serial:{n}") for n in range(1, 9))))
    assert len(beta.kept()) == 3


def test_what_a_banned_signer_said_is_said_again_by_who_bans_it() -> None:
    beta = Site("beta")
    beta.hear(ms.LedgerNews(statements=(statement("alpha", "user:bob@vo"),)))
    beta.say("revoke", "site:alpha")
    assert {one.statement.signer for one in beta.kept()} == {"beta"}
    assert beta.revoked() == ["site:alpha", "user:bob@vo"]


# --- policy ------------------------------------------------------------------------------------------------


def test_a_policy_holds_where_the_operator_left_the_default_and_not_elsewhere() -> None:
    alpha, beta = Site("alpha"), Site("beta", settings=Settings(job_threshold=7))
    alpha.say("policy", "policy", values={"job_threshold": 500, "default_quota": 3.0, "quotas": {"ann@vo": 9.0}})
    beta.hear(ms.LedgerNews(statements=alpha.kept()))
    assert (alpha.settings.job_threshold, beta.settings.job_threshold) == (500, 7)
    assert alpha.settings.default_quota == beta.settings.default_quota == 3.0
    assert beta.settings.quota_of("ann@vo") == 9.0
    assert trust_ledger.view(beta.engine.core).here == ("job_threshold",)


def test_a_new_policy_replaces_the_old_as_a_whole_and_an_empty_one_gives_all_back() -> None:
    alpha = Site("alpha")
    alpha.say("policy", "policy", values={"job_threshold": 500})
    alpha.say("policy", "policy", values={"default_quota": 2.0})
    assert (alpha.settings.job_threshold, alpha.settings.default_quota) == (Settings().job_threshold, 2.0)
    alpha.say("policy", "policy", values={})
    assert alpha.settings == Settings()


def test_a_policy_outlives_a_restart_and_a_reload_of_the_site_s_own_file() -> None:
    alpha = Site("alpha")
    alpha.say("policy", "policy", values={"max_subgroup": 100})
    alpha.engine.handle(ev.SettingsLoaded(Settings(slots=5)), 3.0)
    assert (alpha.settings.slots, alpha.settings.max_subgroup) == (5, 100)


@pytest.mark.parametrize(
    "values", [{"slots": 3}, {"max_subgroup": 0}, {"quotas": {"ann@vo": -1}}, {"default_quota": "x"}]
)
def test_a_policy_that_is_none_names_its_key_and_changes_nothing(values: dict[str, Any]) -> None:
    alpha = Site("alpha")
    body = alpha.say("policy", "policy", values=values)
    assert body.code == "usage" and next(iter(values)) in body.text
    assert alpha.kept() == ()


# --- what follows ------------------------------------------------------------------------------------------


def test_a_drained_site_says_so_in_its_summary_and_quotes_and_after_a_restart() -> None:
    alpha = Site("alpha")
    alpha.engine.handle(ev.DrainSite(request=1, principal=OPERATOR, on=True, reason="power cut"), 1.0)
    from diana.engine.membership import gossip

    told = gossip.summary(alpha.engine.core)
    assert (told.accepting, told.drained) == (False, "power cut")
    journal = Journal(snapshot=alpha.engine.snapshot(), seq=9, at_s=5.0, records=[])
    again = Engine.restore(journal, site=SiteId("alpha"), keyring=alpha.keys, now=5.0)
    again.start(Settings(), boot_nonce="m", db_uuid="u")
    assert again.core.state.drained == "power cut"
    again.handle(ev.DrainSite(request=1, principal=OPERATOR, on=False), 6.0)
    assert gossip.summary(again.core).accepting


def test_an_order_said_again_without_a_reason_keeps_the_reason_given_before() -> None:
    alpha = Site("alpha")

    def drained(reason: str, on: bool = True) -> int:
        done = alpha.engine.handle(ev.DrainSite(request=1, principal=OPERATOR, on=on, reason=reason), 1.0)
        [count] = [e.body.count for e in done if isinstance(e, fx.Reply) and isinstance(e.body, Ok)]
        return count

    assert [drained(""), drained("power cut"), drained("")] == [1, 1, 0]
    assert alpha.engine.core.state.drained == "power cut"
    assert [drained("", on=False), drained("", on=False)] == [1, 0]
    alpha.say("revoke", "site:eve", reason="stolen")
    alpha.say("revoke", "site:eve")
    assert trust_ledger.why_banned(alpha.engine.core, SiteId("eve")) == "stolen"
    alpha.say("lift", "site:eve")
    alpha.say("revoke", "site:eve")
    assert trust_ledger.why_banned(alpha.engine.core, SiteId("eve")) == "no reason given"


def test_a_statement_that_cannot_be_read_is_a_value_error_and_no_fault() -> None:
    with pytest.raises(ValueError):
        Signed(b"\xff" * 10, b"", b"").statement  # noqa: B018
    with pytest.raises(errors.UsageError):
        keyring("plain", signs=False).sign_statement(b"x")


# --- what a peer or a signer may send to do harm -----------------------------------------------------------------


def nested(depth: int) -> bytes:
    inside = b"[" * depth + b"]" * depth
    head = b'{"form":"diana-ledger-1","kind":"policy","about":"policy","wall_s":1,"signer":"a","values":{"quotas":'
    return head + inside + b"}}"


def test_a_peer_cannot_stop_a_site_with_a_statement_that_is_nested_deeply() -> None:
    beta = Site("beta")
    beta.hear(ms.LedgerNews(statements=(Signed(nested(30_000), b"", b""), statement("alpha"))))
    assert beta.revoked() == ["site:eve"]


@pytest.mark.parametrize(
    "word",
    [
        {"about": "x" * 50},
        {"about": "site:../etc"},
        {"about": "site:" + "e" * 4096},
        {"about": "site:eve", "reason": "a\nb"},
        {"about": "site:eve", "reason": "r" * 301},
        {"about": "site:eve", "values": {"slots": 1}},
    ],
    ids=["nobody", "path", "long", "two lines", "long reason", "values"],
)
def test_a_signer_s_statement_about_nobody_or_with_too_many_words_is_not_kept(word: dict[str, Any]) -> None:
    beta = Site("beta")
    beta.hear(ms.LedgerNews(statements=(statement("alpha", **word),)))
    assert beta.kept() == ()


def test_a_statement_dated_far_ahead_is_not_kept_so_that_it_can_always_be_replaced() -> None:
    beta = Site("beta")
    beta.hear(ms.LedgerNews(statements=(statement("alpha", at_s=WALL_S + 2 * 86_400.0),)))
    assert beta.kept() == ()
    assert any("ahead" in str(e) for e in beta.effects if isinstance(e, fx.Warn))
    beta.hear(ms.LedgerNews(statements=(statement("alpha", at_s=WALL_S + 3600.0),)))
    assert beta.revoked() == ["site:eve"]
    beta.say("lift", "site:eve")
    assert beta.revoked() == []


def test_one_signer_cannot_fill_the_ledger_to_keep_its_own_ban_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_ledger, "MOST_BY_SIGNER", 3)
    beta = Site("beta")
    beta.hear(ms.LedgerNews(statements=tuple(statement("alpha", f"serial:{n}") for n in range(1, 9))))
    assert len(beta.kept()) == 3
    beta.hear(ms.LedgerNews(statements=(statement("gamma", "signer:alpha"),)))
    assert "signer:alpha" in beta.revoked()


def test_two_that_will_never_agree_speak_of_it_ever_more_seldom() -> None:
    alpha = Site("alpha")
    alpha.say("revoke", "site:eve")
    core = alpha.engine.core
    core.effects = []
    for second in range(3600):
        core.now = 10.0 + second
        trust_ledger.compare(core, SiteId("beta"), "other")
    assert 10 <= len(core.effects) <= 25
    core.now += trust_ledger.ASK_EVERY_S
    trust_ledger.compare(core, SiteId("beta"), "something new")
    assert 11 <= len(core.effects) <= 26


def test_no_signer_makes_itself_immune_by_lifting_ahead_a_ban_that_is_to_come() -> None:
    beta = Site("beta")
    beta.hear(ms.LedgerNews(statements=(statement("eve", "site:eve", "lift", WALL_S + 80_000.0),)))
    assert beta.kept() == ()
    beta.hear(ms.LedgerNews(statements=(statement("alpha", "site:eve"),)))
    assert beta.revoked() == ["site:eve"]
    eve = Site("eve")
    eve.hear(ms.LedgerNews(statements=beta.kept()))
    assert "very site" in eve.say("lift", "site:eve").text
