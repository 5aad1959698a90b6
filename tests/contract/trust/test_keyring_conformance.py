"""One suite for every `ports.Keyring`: over files and certificates, and its simulated twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from diana.adapters.trust import certificates
from diana.adapters.trust.keyring import FileKeyring
from diana.engine.messages.messages import Authorisation
from diana.errors import UsageError
from diana.model.ids import GroupId
from diana.ports import Keyring
from diana.sim.twins.keyring import SimKeyring

_GROUP = GroupId("alpha-1")
_SPEC = b'{"argv":["true"]}'
_NOW_S = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now_s = _NOW_S

    def __call__(self) -> float:
        return self.now_s


class Files:
    """VOs by their secret: two of the same name have different roots."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder, self.clock = folder, clock

    def ring(self, kind: str, name: str, vo: str = "lab", secret: str = "", signs: bool = False) -> Keyring:
        root = self.folder / f"vo-{vo}-{secret}"
        if not root.exists():
            certificates.make_vo(vo, root, wall_s=_NOW_S)
        out = self.folder / f"{kind}-{name}-{vo}-{secret}"
        if not out.exists():
            issue = certificates.issue_site if kind == "site" else certificates.issue_user
            issue(root, name, out, wall_s=_NOW_S)
        if signs:
            certificates.make_signer(root, name, out, wall_s=_NOW_S)
        return FileKeyring(out, kind, wall_clock=self.clock, valid_s=3600.0)


class Simulated:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def ring(self, kind: str, name: str, vo: str = "lab", secret: str = "", signs: bool = False) -> Keyring:
        signer = f"site:{name}" if kind == "site" else f"user:{name}@{vo}"
        return SimKeyring(signer, vo, wall_clock=self.clock, vo_secret=secret, valid_s=3600.0, signs=signs)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["files", "simulated"])
def world(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Files | Simulated:
    return Files(tmp_path, clock) if request.param == "files" else Simulated(clock)


World = Files | Simulated
Change = Callable[[Authorisation], Authorisation]


def test_a_site_speaks_for_any_user_of_its_vo(world: World) -> None:
    said = world.ring("site", "alpha").authorise("ann@lab", _GROUP, _SPEC)
    assert world.ring("site", "beta").check(said, _SPEC) == ""
    assert (said.owner, said.group, said.signer) == ("ann@lab", _GROUP, "site:alpha")
    assert said.expires_wall_s == _NOW_S + 3600.0


def test_a_user_speaks_for_herself(world: World) -> None:
    said = world.ring("user", "ann").authorise("ann@lab", _GROUP, _SPEC)
    assert world.ring("site", "beta").check(said, _SPEC) == ""


def test_a_user_does_not_speak_for_another(world: World) -> None:
    said = world.ring("user", "ann").authorise("bob@lab", _GROUP, _SPEC)
    assert world.ring("site", "beta").check(said, _SPEC) == "user:ann@lab may not speak for bob@lab"


def test_a_changed_spec_is_refused(world: World) -> None:
    said = world.ring("site", "alpha").authorise("ann@lab", _GROUP, _SPEC)
    assert "is not the one that was signed" in world.ring("site", "beta").check(said, _SPEC + b" ")


def test_an_expired_authorisation_is_refused(world: World, clock: Clock) -> None:
    said = world.ring("site", "alpha").authorise("ann@lab", _GROUP, _SPEC)
    beta = world.ring("site", "beta")
    clock.now_s += 3599.0
    assert beta.check(said, _SPEC) == ""
    clock.now_s += 2.0
    assert beta.check(said, _SPEC) == "the authorisation expired 1 s ago; submit the group again"


def test_a_signer_of_a_vo_of_the_same_name_but_another_root_is_refused(world: World) -> None:
    said = world.ring("site", "alpha", secret="other").authorise("ann@lab", _GROUP, _SPEC)
    why = world.ring("site", "beta").check(said, _SPEC)
    assert why == "signer site:alpha: the certificate is not one of VO lab"


def test_an_owner_of_another_vo_is_refused(world: World) -> None:
    said = world.ring("site", "alpha").authorise("ann@elsewhere", _GROUP, _SPEC)
    assert "of another VO" in world.ring("site", "beta").check(said, _SPEC)


@pytest.mark.parametrize("owner", ["", "ann", "@lab"])
def test_an_owner_that_is_no_principal_is_refused(world: World, owner: str) -> None:
    said = world.ring("site", "alpha").authorise(owner, _GROUP, _SPEC)
    assert "is not a VO principal" in world.ring("site", "beta").check(said, _SPEC)


def _changed(**fields: object) -> Change:
    return lambda said: msgspec.structs.replace(said, **fields)


@pytest.mark.parametrize(
    "change",
    [
        _changed(owner="bob@lab"),
        _changed(group=GroupId("alpha-2")),
        _changed(expires_wall_s=_NOW_S + 10**9),
        _changed(signer="site:gamma"),
        _changed(signer="user:ann@lab"),
        _changed(signature=b""),
        _changed(signature=b"\x30\x06\x02\x01\x01\x02\x01\x01"),
        _changed(certificate=b""),
        _changed(certificate=b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        _changed(certificate=b"x" * 100_000),
    ],
)
def test_whatever_is_changed_after_signing_is_refused(world: World, change: Change) -> None:
    said = world.ring("site", "alpha").authorise("ann@lab", _GROUP, _SPEC)
    why = world.ring("site", "beta").check(change(said), _SPEC)
    assert why and "\n" not in why


def test_a_user_with_a_stolen_certificate_of_a_site_cannot_sign_as_the_site(world: World) -> None:
    ann = world.ring("user", "ann").authorise("bob@lab", _GROUP, _SPEC)
    site = world.ring("site", "alpha").authorise("bob@lab", _GROUP, _SPEC)
    forged = msgspec.structs.replace(ann, signer="site:alpha", certificate=site.certificate)
    assert "the signature does not fit" in world.ring("site", "beta").check(forged, _SPEC)


def test_a_check_does_not_remember_that_it_said_yes(world: World) -> None:
    beta = world.ring("site", "beta")
    said = world.ring("site", "alpha").authorise("ann@lab", _GROUP, _SPEC)
    assert beta.check(said, _SPEC) == ""
    assert beta.check(msgspec.structs.replace(said, owner="bob@lab"), _SPEC) != ""


def test_a_signer_states_what_the_whole_vo_believes(world: World) -> None:
    alpha, beta = world.ring("site", "alpha", signs=True), world.ring("site", "beta", signs=False)
    chain, signature = alpha.sign_statement(b"site:gamma")
    assert beta.check_statement(b"site:gamma", chain, signature) == ""
    assert beta.check_statement(b"site:gamma", chain, signature, "alpha") == ""
    said = beta.check_statement(b"site:gamma", chain, signature, "beta")
    assert said == "signer alpha: it says that it is signer beta"
    for payload, shown, given in (
        (b"site:delta", chain, signature),
        (b"site:gamma", chain, signature[:-1]),
        (b"site:gamma", b"", signature),
        (b"site:gamma", b"alpha rubbish", signature),
    ):
        why = beta.check_statement(payload, shown, given)
        assert why and "\n" not in why


def test_who_is_no_signer_states_nothing(world: World) -> None:
    with pytest.raises(UsageError, match="is no signer of VO lab"):
        world.ring("site", "beta", signs=False).sign_statement(b"x")


def test_a_signer_of_another_root_states_nothing_here(world: World) -> None:
    chain, signature = world.ring("site", "alpha", secret="other", signs=True).sign_statement(b"x")
    assert world.ring("site", "beta", signs=False).check_statement(b"x", chain, signature) != ""


def test_a_date_of_signing_that_was_changed_is_refused(world: World) -> None:
    said = world.ring("site", "alpha").authorise("ann@lab", _GROUP, _SPEC)
    assert said.signed_wall_s == _NOW_S
    beta = world.ring("site", "beta")
    for other_s in (0.0, _NOW_S - 60.0, _NOW_S + 60.0):
        assert "does not fit" in beta.check(msgspec.structs.replace(said, signed_wall_s=other_s), _SPEC)
    ahead = msgspec.structs.replace(said, signed_wall_s=_NOW_S + 301.0)
    assert "ahead; check this machine's clock" in beta.check(ahead, _SPEC)
    long = msgspec.structs.replace(said, expires_wall_s=_NOW_S + 31 * 86400.0)
    assert "claims to hold longer than 30 days" in beta.check(long, _SPEC)
