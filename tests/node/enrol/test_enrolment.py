"""The inviter's side by itself: who may come in, once, in time, under which name; who may have what signed (SPEC U1,
PROMISES 5.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diana.adapters.trust import certificates
from diana.errors import Denied, DianaError, Unreachable, UsageError
from diana.model.ids import SiteId
from diana.model.trust.identity import Identity
from diana.model.trust.invitation import Invitation
from diana.node.enrol import tokens
from diana.node.enrol.renewing import Renewal, renew_before_start
from diana.node.enrol.signers import SignerBook
from diana.policy.trust.enrolment import may_be_signed
from diana.wire.client.enrol import InviteRequest
from diana.wire.pb import enrol_pb2
from diana.wire.renewal import prove
from tests.node.enrolling import NOW_S, Desk, newcomer, run


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield Desk(tmp_path)


def test_names_in_a_certificate_come_from_the_inviter_and_not_from_the_request(desk: Desk) -> None:
    answer = desk.join(desk.token(), "beta")
    assert certificates.verify_chain(answer.leaf, answer.root) == ("site", "beta", "lab")
    assert certificates.verify_chain(answer.signer, answer.root, signer=True) == ("signer", "beta", "lab")
    assert list(answer.addresses) == ["h:1", "h:2"]


def test_the_third_site_is_the_last_that_becomes_a_signer_by_itself(desk: Desk) -> None:
    made = [bool(desk.join(desk.token(), name).signer) for name in ("beta", "gamma", "delta", "eps")]
    assert made == [True, True, False, False]
    assert set(desk.book.all()) == {"alpha", "beta", "gamma"}


def test_the_same_key_is_answered_again_and_another_is_not(desk: Desk) -> None:
    token = desk.token()
    request = newcomer("beta", wall_s=NOW_S)
    leaf = certificates.invite_leaf(token.seed, token.vo)[1]
    first = run(desk.enrolment.join(leaf, request, ""))
    desk.restart()
    again = run(desk.enrolment.join(leaf, request, ""))
    assert certificates.verify_chain(again.leaf, first.root) == ("site", "beta", "lab")
    with pytest.raises(Denied, match="used already"):
        desk.join(token, "beta")


def test_two_at_once_with_one_token_are_one_site(desk: Desk) -> None:
    token = desk.token()
    leaf = certificates.invite_leaf(token.seed, token.vo)[1]

    async def both() -> list[Any]:
        calls = (desk.enrolment.join(leaf, newcomer(name, wall_s=NOW_S), "") for name in ("beta", "gamma"))
        return list(await asyncio.gather(*calls, return_exceptions=True))

    answers = run(both())
    assert sorted(isinstance(answer, Denied) for answer in answers) == [False, True]


def test_two_newcomers_with_two_tokens_do_not_get_one_name(desk: Desk) -> None:
    leaves = [certificates.invite_leaf(t.seed, t.vo)[1] for t in (desk.token(), desk.token())]

    async def both() -> list[Any]:
        calls = (desk.enrolment.join(leaf, newcomer("beta", wall_s=NOW_S), "") for leaf in leaves)
        return list(await asyncio.gather(*calls, return_exceptions=True))

    answers = run(both())
    assert sorted(isinstance(answer, UsageError) for answer in answers) == [False, True]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"wall_s": NOW_S + 3600}, "clock is 60 minutes ahead of that of site alpha"),
        ({"wall_s": NOW_S - 3600}, "clock is 60 minutes behind that of site alpha"),
        ({"name": "alpha"}, "site alpha: that name is taken"),
        ({"name": "known"}, "site known: that name is taken"),
        ({"name": "Beta"}, "site id 'Beta'"),
        ({"name": ""}, "name it: diana join - NAME"),
        ({"address": "nowhere"}, "'nowhere' is no address"),
        ({"leaf_request": b"garbage"}, "not a PEM request"),
    ],
)
def test_what_is_refused_changes_nothing_and_is_noted(desk: Desk, change: dict[str, Any], line: str) -> None:
    run(desk.ask(SiteId("known"), give=True))
    token = desk.token()
    with pytest.raises(DianaError, match=line):
        desk.join(token, **({"name": "beta"} | change))
    assert desk.noted[-1][1:4:2] == ("join", "denied")
    assert desk.join(token, "beta").site == "beta"


def test_a_request_whose_own_signature_is_wrong_leaves_the_invitation_good(desk: Desk) -> None:
    token = desk.token()
    good = newcomer("beta").leaf_request
    lines = good.splitlines()
    lines[-2] = lines[-2][:-6] + (b"AAAA" if lines[-2][-6:-2] != b"AAAA" else b"BBBB") + lines[-2][-2:]
    with pytest.raises(Denied):
        desk.join(token, "beta", leaf_request=b"\n".join(lines) + b"\n")
    assert desk.join(token, "beta").site == "beta"


def test_an_invitation_runs_out_and_says_so_for_a_day(desk: Desk) -> None:
    token = desk.token(for_s=60.0)
    desk.clock.now_s += 61
    with pytest.raises(Denied, match="expired 1 s ago"):
        desk.join(token, "beta")
    desk.clock.now_s += 86_400
    assert not desk.enrolment.invited(certificates.invite_leaf(token.seed, "lab")[1])
    with pytest.raises(Denied, match="knows no such invitation"):
        desk.join(token, "beta")


def test_who_holds_one_invitation_cannot_speak_for_another(desk: Desk) -> None:
    mine, other = desk.token(), desk.token("user", "ann")
    leaf = certificates.invite_leaf(mine.seed, "lab")[1]
    assert desk.enrolment.invited(leaf) == mine.id != other.id
    stranger = certificates.invite_leaf(b"q" * 16, "lab")[1]
    assert desk.enrolment.invited(stranger) == ""
    own = (desk.keys / "site.pem").read_bytes()
    assert desk.enrolment.invited(own) == ""


def test_what_the_journal_keeps_of_an_invitation_holds_no_secret(desk: Desk) -> None:
    token = desk.token()
    text = desk.kept.snapshot or b""
    assert token.id.encode() in text
    assert token.seed not in text and token.seed.hex().encode() not in text
    assert tokens.encode(token).encode() not in text


def test_machines_get_certificates_below_their_own_site(desk: Desk) -> None:
    answer = desk.join(desk.token("member"), suggestion="m7")
    assert (answer.site, answer.name) == ("alpha", "m7")
    assert certificates.verify_chain(answer.leaf, answer.root) == ("member", "alpha/m7", "lab")
    standby = desk.join(desk.token("standby", "s1"))
    assert certificates.verify_chain(standby.leaf, standby.root) == ("site", "alpha", "lab")
    for kind, name in (("member", "m7"), ("standby", "m7"), ("member", "s1"), ("member", "main")):
        with pytest.raises(UsageError, match=r"that name is taken|the site's first|has a standby"):
            desk.token(kind, name)


def test_a_site_has_one_standby_and_another_only_takes_the_place_of_a_lost_one(desk: Desk) -> None:
    second = desk.token("standby")
    desk.join(desk.token("standby", "s1"))
    for refused in (lambda: desk.join(second, "s2"), lambda: desk.token("standby", "s2", again=True)):
        with pytest.raises(UsageError, match=r"alpha has a standby, s1,.* diana invite --standby s1 --again") as why:
            refused()
        assert "\n" not in str(why.value)
    assert desk.join(desk.token("standby", "s1", again=True)).name == "s1"
    # The roles were changed, and the machine that made the site is lost.
    desk.standby = "main"
    with pytest.raises(UsageError, match="alpha has a standby, main,"):
        desk.token("standby", "s1", again=True)
    assert desk.join(desk.token("standby", "main", again=True)).name == "main"


def test_a_site_that_is_no_signer_invites_no_site(tmp_path: Path) -> None:
    alpha = Desk(tmp_path / "a")
    delta = Desk(tmp_path / "d", "delta", vo_from=alpha.keys, signer=False)
    delta.book.learn({"alpha": "h:1"})
    for kind, name in (("site", ""), ("user", "ann")):
        with pytest.raises(UsageError, match="invite at a signer: alpha"):
            delta.token(kind, name)
    # A machine it may invite, but nobody signs while no signer is reached; then the invitation is as before.
    token = delta.token("member", "m1")
    with pytest.raises(Unreachable, match="no signer of VO lab answers"):
        delta.join(token)
    with pytest.raises(Unreachable):
        delta.join(token)


def ids(text: str) -> Identity:
    kind, name = text.split()
    return Identity(kind, name, "lab")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("caller", "wanted", "proven", "may"),
    [
        ("site a", "site a", False, True),
        ("site a", "site b", False, False),
        ("site a", "site b", True, False),
        ("site a", "member a/m", False, True),
        ("site a", "member b/m", False, False),
        ("site a", "signer a", False, False),
        ("site a", "user ann", False, False),
        ("site a", "user ann", True, True),
        ("member a/m", "member a/m", False, True),
        ("member a/m", "member a/n", False, False),
        ("member a/m", "site a", False, False),
        ("user ann", "user ann", False, True),
        ("user ann", "user bob", False, False),
        ("user ann", "site ann", False, False),
        ("invite 0123456789abcdef", "invite 0123456789abcdef", False, False),
    ],
)
def test_everybody_has_only_their_own_signed(caller: str, wanted: str, proven: bool, may: bool) -> None:
    why = may_be_signed(ids(caller), ids(wanted), proven)
    assert (why == "") == may
    assert may_be_signed(ids(caller)._replace(vo="other"), ids(wanted), proven)


def sign_request(kind: str, name: str, request: bytes, shown: tuple[bytes, bytes] = (b"", b"")) -> Any:
    return enrol_pb2.SignRequest(kind=kind, name=name, request=request, certificate=shown[0], signature=shown[1])


def test_a_users_site_may_pass_on_only_what_the_users_key_signed(desk: Desk, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    folder = tmp_path / "ann"
    certificates.issue_user(desk.keys, "ann", folder, wall_s=NOW_S)
    chain = (folder / "user.pem").read_bytes()
    key: Any = load_pem_private_key((folder / "user.key").read_bytes(), None)
    _, request = certificates.new_key_and_request(Identity("user", "ann", "lab"))
    site = Identity("site", "beta", "lab")

    def ask(shown: tuple[bytes, bytes], name: str = "ann") -> Any:
        return run(desk.enrolment.sign(site, sign_request("user", name, request, shown)))

    answer = ask((chain, prove(key, request)))
    assert certificates.verify_chain(answer.certificate, desk.root) == ("user", "ann", "lab")
    for shown, name in (
        ((b"", b""), "ann"),
        ((chain, b"x"), "ann"),
        ((chain, prove(key, b"another")), "ann"),
        ((chain, prove(key, request)), "bob"),
        ((b"garbage", b"x"), "ann"),
    ):
        with pytest.raises(Denied, match="may not have user"):
            ask(shown, name)
    desk.clock.now_s += 91 * 86_400
    with pytest.raises(Denied):
        ask((chain, prove(key, request)))


def test_a_renewal_keeps_the_key_and_comes_at_half_of_the_time(desk: Desk) -> None:
    used: list[bool] = []
    renewal = Renewal(
        keys=desk.keys,
        kind="site",
        signing=desk.signing,
        renewed=lambda: used.append(True),
        note=lambda *words: desk.noted.append(words),
        wall_s=desk.clock,
    )
    before = (desk.keys / "site.key").read_bytes()
    desk.clock.now_s += 3.4 * 86_400
    assert not renewal.due()
    desk.clock.now_s += 0.2 * 86_400
    assert renewal.due()
    run(renewal.renew())
    assert not renewal.due() and used == [True]
    assert (desk.keys / "site.key").read_bytes() == before
    chain = (desk.keys / "site.pem").read_bytes()
    assert certificates.verify_chain(chain, desk.root, at_s=desk.clock()) == ("site", "alpha", "lab")
    assert certificates.dates_of_chain(chain).until_s == pytest.approx(desk.clock() + 7 * 86_400, abs=2)


def test_a_certificate_that_ran_out_is_mended_at_the_start_of_a_signer_alone(tmp_path: Path) -> None:
    alpha = Desk(tmp_path / "a")
    delta = Desk(tmp_path / "d", "delta", vo_from=alpha.keys, signer=False)
    late_s = NOW_S + 20 * 86_400
    alpha.clock.now_s = late_s
    renew_before_start(alpha.keys, "site", alpha.signing, late_s)
    assert not alpha.distrust((alpha.keys / "site.pem").read_bytes())
    with pytest.raises(UsageError, match=r"ran out 13.0 days ago; .* diana invite --site delta --again"):
        renew_before_start(delta.keys, "site", delta.signing, late_s)


def test_a_book_of_signers_only_grows_and_survives(tmp_path: Path) -> None:
    book = SignerBook(tmp_path / "signers.json")
    book.learn({"beta": "h:2", "alpha": ""})
    book.learn([("beta", ""), ("gamma", "h:3")])
    assert SignerBook(tmp_path / "signers.json").all() == {"alpha": "", "beta": "h:2", "gamma": "h:3"}
    book.learn({f"s{k}": "" for k in range(100)})
    assert len(book.all()) == 64


def test_a_use_is_not_taken_back_while_another_call_of_the_same_key_got_its_certificate(tmp_path: Path) -> None:
    """Else the bearer of one token brings in any number: one call is made to fail while another succeeds."""
    desk = Desk(tmp_path)
    token = desk.token()
    leaf = certificates.invite_leaf(token.seed, token.vo)[1]
    request = newcomer("beta", wall_s=NOW_S)
    signs, first = desk.signing.sign, [True]

    async def slow_then_refused(*words: Any) -> bytes:
        failing, first[0] = first[0], False
        await asyncio.sleep(0.02)
        if failing:
            raise Unreachable("no signer answers")
        return await signs(*words)

    desk.signing.sign = slow_then_refused  # type: ignore[method-assign]

    async def both() -> list[Any]:
        calls = [desk.enrolment.join(leaf, request, "h:9") for _ in range(2)]
        return await asyncio.gather(*calls, return_exceptions=True)

    failed, joined = run(both())
    assert isinstance(failed, Unreachable) and joined.site == "beta"
    with pytest.raises(Denied, match="used already"):
        desk.join(token, "gamma")


def test_a_request_not_signed_by_its_own_key_leaves_the_invitation_unused(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    token = desk.token()
    with pytest.raises(Denied, match="certificate request"):
        desk.join(token, "beta", leaf_request=b"junk")
    assert desk.join(token, "beta").site == "beta"


@pytest.mark.parametrize("field", ["name", "address", "suggestion"])
def test_an_invitation_is_no_way_to_fill_a_disk(tmp_path: Path, field: str) -> None:
    desk = Desk(tmp_path)
    token = desk.token("member" if field == "suggestion" else "site")
    words: dict[str, Any] = {"name": "" if field == "suggestion" else "beta"} | {field: "h" * 100_000 + ":1"}
    with pytest.raises(UsageError):
        desk.join(token, **words)
    assert len(desk.kept.snapshot or b"") < 5000 and "h" * 1000 not in str(desk.noted[-1])


def test_names_of_signers_that_others_invent_keep_no_renewal_away_for_good(tmp_path: Path) -> None:
    """Whoever is asked first may have been made up; in time the one that signs is asked."""
    Desk(tmp_path / "alpha")
    beta = Desk(tmp_path / "beta", "beta", vo_from=tmp_path / "alpha" / "keys", signer=False)
    beta.book.learn({f"a{n}": "h:1" for n in range(60)} | {"../x": "h:1", "y": "h" * 9999})
    assert len(beta.book.all()) == 60
    asked: list[str] = []
    beta.signing._channel_for = lambda site: asked.append(site)  # type: ignore[assignment, func-returns-value]
    beta.signing._peers = lambda: iter(("alpha",))
    with pytest.raises(Unreachable):
        run(beta.signing.sign(Identity("site", "beta", "lab"), b""))
    assert "alpha" in asked


def test_a_withdrawn_invitation_lets_nobody_in_also_after_a_restart(desk: Desk) -> None:
    token, other = desk.token("site", "beta"), desk.token("member", "m1", for_s=60.0)
    shown = run(desk.enrolment.invite("ann@lab", InviteRequest(order="list"))).open
    assert [(one.kind, one.name, one.made_by) for one in shown] == [
        ("member", "m1", "ann@lab"),
        ("site", "beta", "ann@lab"),
    ]
    answer = run(desk.enrolment.invite("ann@lab", InviteRequest(order="withdraw", id=token.id)))
    assert [one.id for one in answer.open] == [token.id] and not answer.token
    desk.restart()
    with pytest.raises(Denied, match="expired"):
        desk.join(token, "beta")
    assert desk.join(other, "").name == "m1"
    with pytest.raises(UsageError, match="no open invitation"):
        run(desk.enrolment.invite("ann@lab", InviteRequest(order="withdraw", id=other.id)))
    assert run(desk.enrolment.invite("ann@lab", InviteRequest(order="list"))).open == ()


@pytest.mark.parametrize("first", ["join", "withdraw"])
def test_of_a_use_and_a_withdrawal_at_the_same_moment_the_later_is_refused(desk: Desk, first: str) -> None:
    """Neither may write back what it read before the other's change was durable."""
    token = desk.token("site", "beta")
    leaf = certificates.invite_leaf(token.seed, token.vo)[1]
    keep = desk.keep

    async def slow_keep(changed: Invitation) -> dict[str, Invitation]:
        await asyncio.sleep(0.02)
        return await keep(changed)

    desk.keep = slow_keep  # type: ignore[method-assign]
    desk.restart()

    async def both() -> list[Any]:
        withdrawal = desk.enrolment.invite("ann@lab", InviteRequest(order="withdraw", id=token.id))
        calls: list[Any] = [desk.enrolment.join(leaf, newcomer("beta", wall_s=NOW_S), ""), withdrawal]
        return [*await asyncio.gather(*(calls if first == "join" else calls[::-1]), return_exceptions=True)]

    one, other = run(both())
    assert not isinstance(one, DianaError), one
    assert isinstance(other, UsageError if first == "join" else Denied), other
    used = desk.enrolment._invitations.get(token.id)
    assert used is not None and bool(used.used_by) == (first == "join")
    assert used.expired(NOW_S) == (first == "withdraw")
    desk.restart()
    again = desk.enrolment._invitations.get(token.id)
    assert again == used
