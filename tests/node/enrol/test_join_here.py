"""SPEC U1: what `diana join` sees at its own machine is said before anybody is asked, so that no invitation is lost.

The tokens here point to a port where nobody listens: whoever asked there would be told so.
"""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from diana.errors import Unreachable, UsageError
from diana.node.config.setup import init_site
from diana.node.enrol import asking, joining, tokens
from diana.node.enrol.joining import join

NOBODY = "127.0.0.1:1"


def token(kind: str = "site") -> str:
    return tokens.encode(
        tokens.Token(kind=kind, seed=b"s" * 16, fingerprint=b"f" * 16, vo="alpha-vo", site="alpha", addresses=(NOBODY,))
    )


def test_a_port_that_is_taken_or_no_address_of_this_machine_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"--listen {where}: process .* listens there; choose another port"):
            join(token(), "beta", data=tmp_path / "b", listen=where)
    with pytest.raises(UsageError, match=r"--listen 192\.0\.2\.77:7400: .*; choose an address of this machine"):
        join(token(), "beta", data=tmp_path / "b", listen="192.0.2.77:7400")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["site", "member", "standby"])
def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "mine").write_text("x")
    with pytest.raises(UsageError, match=r"not empty \(keys is there\) and no site's; name a new directory"):
        join(token(kind), "beta", data=tmp_path)
    with pytest.raises(UsageError, match="not empty"):
        init_site(tmp_path, "beta")
    assert (tmp_path / "keys" / "mine").read_text() == "x"


def test_a_new_file_system_is_empty(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    with pytest.raises(Unreachable, match=f"{NOBODY}: nothing listens there"):
        join(token(), "beta", data=tmp_path)
    assert init_site(tmp_path, "beta").site == "beta"


@pytest.mark.parametrize(
    ("kind", "options", "mend"),
    [
        ("site", {"out": Path("x")}, "for a site; name its data directory with --data"),
        ("member", {"listen": "127.0.0.1:0"}, "for a member machine, which dials its site; leave --listen out"),
        ("user", {"slots": 2}, "for a user's credential; leave --slots out"),
        ("user", {"gpus": 2}, "for a user's credential; leave --gpus out"),
    ],
)
def test_an_option_that_means_nothing_here_is_refused(
    tmp_path: Path, kind: str, options: dict[str, object], mend: str
) -> None:
    with pytest.raises(UsageError, match=f"join: --{next(iter(options))} does not go with this invitation.* {mend}"):
        join(token(kind), "beta", data=tmp_path / "b", **options)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_name_before_the_token_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="the token comes first, or - to be asked for it, then the name: diana join - NAME"
    ):
        join("beta", token(), data=tmp_path / "b")
    with pytest.raises(UsageError, match="token: incomplete or changed"):
        join("TOKEN", "beta", data=tmp_path / "b")


def test_keys_that_are_lost_do_not_keep_their_site_from_coming_in_anew(tmp_path: Path) -> None:
    init_site(tmp_path / "a", "alpha", listen="0.0.0.0:7400")
    (tmp_path / "a" / "keys" / "site.key").unlink()
    with pytest.raises(Unreachable, match="nothing listens there"):
        join(known(tmp_path / "a"), data=tmp_path / "a")


def test_who_joins_into_the_folder_of_a_site_that_is_there_is_told_that_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "a"
    init_site(data, "alpha")

    def taken(*asked: object) -> None:
        raise UsageError("site gamma: join: site alpha: that name is taken; choose another")

    monkeypatch.setattr(asking, "find_inviter", lambda token: None)
    monkeypatch.setattr(asking, "ask", taken)
    with pytest.raises(UsageError) as told:
        join(known(data), data=data)
    assert str(told.value) == (
        f"{data}: site alpha of alpha-vo is here already, and its certificate holds; start its node with: diana node "
        f"--data {data}, or name another directory with --data "
        "(site gamma: join: site alpha: that name is taken; choose another)"
    )
    # A site that lost its certificate hears why it gets none.
    (data / "keys" / "site.pem").unlink()
    with pytest.raises(UsageError, match=r"^site gamma: join: site alpha: that name is taken; choose another$"):
        join(known(data), data=data)


def test_a_credential_is_called_after_the_user_the_inviter_named(tmp_path: Path) -> None:
    for made, called in (("diana-credential", "ann-credential"), ("second", "second")):
        folder = tmp_path / made
        folder.mkdir()
        one = joining.JoinOutcome(
            kind="user", vo="lab", site="alpha", name="ann", inviter="alpha", folder=folder, config=None, signer=False
        )
        assert joining._called(one).folder == tmp_path / called
        assert (tmp_path / called).is_dir()


def known(data: Path) -> str:
    from diana.adapters.trust import certificates

    root = certificates.fingerprint((data / "keys" / "vo.pem").read_bytes())[: tokens.FINGERPRINT_BYTES]
    return tokens.encode(
        tokens.Token(kind="site", seed=b"s" * 16, fingerprint=root, vo="alpha-vo", site="beta", addresses=(NOBODY,))
    )
