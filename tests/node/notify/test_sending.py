"""A user's web address is no way into the operator's network, and a target that hangs or fails delays nobody."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diana.node.config.setup import init_site
from diana.node.config.site_file import Notifying
from diana.node.notify import sending
from diana.node.notify.sending import CannotTell, Notice, refusal, tell
from tests.node.notify.receiver import Receiver
from tests.runs import SOAK


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    init_site(tmp_path / "site", "alpha")
    return tmp_path / "site" / "keys"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path, [204])
    yield made
    made.close()


def notice(target: str) -> Notice:
    return Notice(target, "alpha-1-0", "alpha-1 is done", b'{"group":"alpha-1","state":"done"}')


def allowing(receiver: Receiver, *hosts: str) -> Notifying:
    return Notifying(certificates=str(receiver.certificates), private_hosts=hosts)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "10.0.0.5", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b::a00:5",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public_are_refused_written_out_and_behind_a_name(
    address: str, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = f"[{address}]" if ":" in address else address
    assert "is no public address" in refusal(f"https://{shown}/hook", Notifying())
    found: Any = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443)) for one in ("93.184.215.14", address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(CannotTell, match="is no public address"):
        tell(notice("https://hooks.example.org/x"), Notifying(), keys)


def test_the_address_that_was_looked_at_is_the_one_that_is_called(
    receiver: Receiver, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that answers otherwise the second time is asked once."""
    asked, known = [], socket.getaddrinfo

    def answers(host: str, *rest: Any, **more: Any) -> Any:
        if host == "localhost":
            asked.append(host)
        return known(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answers)
    tell(notice(f"https://localhost:{receiver.port}/hook?a=1"), allowing(receiver, "localhost"), keys)
    assert asked == ["localhost"]
    ((path, headers, body),) = receiver.calls
    assert (path, headers["Host"], headers["Diana-Delivery"]) == (
        "/hook?a=1", f"localhost:{receiver.port}", "alpha-1-0",
    )  # fmt: skip
    assert body == notice("").body


def test_a_redirection_is_not_followed(receiver: Receiver, keys: Path) -> None:
    receiver.answers[:] = [302]
    with pytest.raises(CannotTell, match="redirects to another address, which is not followed") as caught:
        tell(notice(f"https://localhost:{receiver.port}/hook"), allowing(receiver, "localhost"), keys)
    assert caught.value.last and [path for path, _, _ in receiver.calls] == ["/hook"]


def test_a_certificate_of_nobody_known_is_refused(receiver: Receiver, keys: Path) -> None:
    with pytest.raises(CannotTell, match=r"(?i)certificate"):
        tell(notice(f"https://localhost:{receiver.port}/hook"), Notifying(private_hosts=("localhost",)), keys)
    assert not receiver.calls


def test_one_who_neveranswers_or_a_byte_a_second_ends_the_try_in_time(
    receiver: Receiver, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TRY_S", 0.5)
    receiver.answers[:] = [0]
    began_s, given_up = time.monotonic(), threading.Event()
    with pytest.raises(CannotTell):
        tell(notice(f"https://localhost:{receiver.port}/hook"), allowing(receiver, "localhost"), keys)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            talk, _ = listener.accept()
            with talk:
                for _ in range(600):
                    try:
                        talk.send(b"\x16")
                    except OSError:
                        given_up.set()
                        return
                    time.sleep(0.1)

        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(CannotTell):
            tell(notice(f"https://localhost:{listener.getsockname()[1]}/"), allowing(receiver, "localhost"), keys)
    assert given_up.wait(60) and (not SOAK or time.monotonic() - began_s < 4.0)


def test_a_mail_goes_to_the_operators_program_and_its_failure_is_told(keys: Path, tmp_path: Path) -> None:
    program, out = tmp_path / "sendmail", tmp_path / "mail"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {out}; cat >> {out}; [ "$3" != bad@lab.org ] || {{ echo no >&2; exit 67; }}\n'
    )
    program.chmod(0o755)
    notify = Notifying(sendmail=str(program), sender="diana@lab.org")
    tell(notice("mail:ann@lab.org"), notify, keys)
    said = out.read_text()
    assert said.startswith("-i -- ann@lab.org\nFrom: diana@lab.org\nTo: ann@lab.org\nSubject: alpha-1 is done\n")
    assert "\n\ngroup: alpha-1\nstate: done\n" in said
    with pytest.raises(CannotTell, match="exit code 67: no"):
        tell(notice("mail:bad@lab.org"), notify, keys)
    assert "sends no mail" in refusal("mail:ann@lab.org", Notifying())
