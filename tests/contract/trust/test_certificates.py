"""The VO's certificates under real TLS handshakes: OpenSSL over a socket pair, BoringSSL through gRPC on loopback."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from diana.adapters.trust import certificates
from diana.adapters.trust.certificates import Identity
from diana.errors import Denied, UsageError

_DAY_S = 86400.0


@pytest.fixture(scope="module")
def vo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A VO with sites alpha, beta, stale (expired), user ann; and a stranger's VO of the same name."""
    root = tmp_path_factory.mktemp("vo")
    certificates.make_vo("lab", root / "vo", wall_s=time.time() - 500 * _DAY_S)
    for site in ("alpha", "beta"):
        certificates.issue_site(root / "vo", site, root / site)
    certificates.issue_site(root / "vo", "stale", root / "stale", wall_s=time.time() - 400 * _DAY_S)
    certificates.issue_user(root / "vo", "ann", root / "ann")
    certificates.make_vo("lab", root / "strangers")
    certificates.issue_site(root / "strangers", "alpha", root / "stranger")
    return root


def _handshake(server: Path, client: Path, kind: str = "site", name: str = "alpha.lab.diana") -> dict[str, object]:
    """Both sides in memory; what the server learns of the client. ssl.SSLError when either refuses."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(server / "site.pem", server / "site.key")
    server_side.load_verify_locations(server / "vo.pem")
    server_side.verify_mode = ssl.CERT_REQUIRED
    client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_side.load_cert_chain(client / f"{kind}.pem", client / f"{kind}.key")
    client_side.load_verify_locations(client / "vo.pem")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    talking = server_side.wrap_bio(up, down, server_side=True)
    calling = client_side.wrap_bio(down, up, server_hostname=name)
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for side in (calling, talking):
            try:
                if side not in done:
                    side.do_handshake()
                    done.add(side)
            except ssl.SSLWantReadError:
                pass
    assert len(done) == 2
    return talking.getpeercert() or {}


def test_sites_of_a_vo_shake_hands_and_the_server_sees_who_calls(vo: Path) -> None:
    names = _handshake(vo / "alpha", vo / "beta")["subjectAltName"]
    assert ("URI", "spiffe://lab/site/beta") in names  # type: ignore[operator]


def test_a_user_shakes_hands_and_the_server_sees_who_calls(vo: Path) -> None:
    names = _handshake(vo / "alpha", vo / "ann", "user")["subjectAltName"]
    assert names == (("URI", "spiffe://lab/user/ann"),)


@pytest.mark.parametrize(
    ("server", "client", "kind", "name", "why"),
    [
        ("alpha", "stranger", "site", "alpha.lab.diana", "CERTIFICATE_VERIFY_FAILED"),
        ("stranger", "beta", "site", "alpha.lab.diana", "CERTIFICATE_VERIFY_FAILED"),
        ("beta", "alpha", "site", "alpha.lab.diana", "Hostname mismatch"),
        ("alpha", "stale", "site", "alpha.lab.diana", "certificate has expired"),
        ("stale", "alpha", "site", "stale.lab.diana", "certificate has expired"),
    ],
)
def test_wrong_roots_wrong_names_and_expired_certificates_are_refused(
    vo: Path, server: str, client: str, kind: str, name: str, why: str
) -> None:
    with pytest.raises(ssl.SSLError, match=why):
        _handshake(vo / server, vo / client, kind, name)


def test_a_user_cannot_play_a_server(vo: Path, tmp_path: Path) -> None:
    for ours, theirs in (("site.pem", "user.pem"), ("site.key", "user.key"), ("vo.pem", "vo.pem")):
        (tmp_path / ours).write_bytes((vo / "ann" / theirs).read_bytes())
    with pytest.raises(ssl.SSLError, match=r"unsuitable certificate purpose|unsupported certificate purpose"):
        _handshake(tmp_path, vo / "beta", name="ann.lab.diana")


class _WhoCalls(grpc.GenericRpcHandler):
    """Answers any call with the caller's identities."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
            names = context.auth_context().get("x509_subject_alternative_name", [])
            return b" ".join(names)

        return grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def _grpc_site(folder: Path) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2), handlers=[_WhoCalls()], options=[("grpc.so_reuseport", 0)])
    credentials = grpc.ssl_server_credentials(
        [((folder / "site.key").read_bytes(), (folder / "site.pem").read_bytes())],
        root_certificates=(folder / "vo.pem").read_bytes(),
        require_client_auth=True,
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def _call(address: str, folder: Path, kind: str, name: str) -> bytes:
    credentials = grpc.ssl_channel_credentials(
        (folder / "vo.pem").read_bytes(), (folder / f"{kind}.key").read_bytes(), (folder / f"{kind}.pem").read_bytes()
    )
    with grpc.secure_channel(address, credentials, [("grpc.ssl_target_name_override", name)]) as channel:
        return bytes(channel.unary_unary("/any/Call")(b"", timeout=60))


def test_grpc_takes_the_certificates_and_refuses_the_wrong_ones(vo: Path) -> None:
    right = certificates.dns_name("alpha", "lab")
    with _grpc_site(vo / "alpha") as address:
        assert b"spiffe://lab/site/beta" in _call(address, vo / "beta", "site", right).split()
        assert _call(address, vo / "ann", "user", right).split() == [b"spiffe://lab/user/ann"]
        for client, name in (("stranger", right), ("stale", right), ("beta", certificates.dns_name("beta", "lab"))):
            with pytest.raises(grpc.RpcError) as caught:
                _call(address, vo / client, "site", name)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_certificate_tells_whom_it_names(vo: Path) -> None:
    assert certificates.identity_of((vo / "alpha" / "site.pem").read_bytes()) == Identity("site", "alpha", "lab")
    assert certificates.identity_of((vo / "ann" / "user.pem").read_bytes()) == Identity("user", "ann", "lab")
    assert certificates.vo_of(vo / "alpha") == "lab"


@pytest.mark.parametrize("pem", [b"", b"rubbish", b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"])
def test_rubbish_names_nobody(pem: bytes) -> None:
    with pytest.raises(Denied, match="certificate: not a PEM certificate"):
        certificates.identity_of(pem)


def test_the_root_itself_names_no_site_and_no_user(vo: Path) -> None:
    with pytest.raises(Denied, match="names no site and no user"):
        certificates.identity_of((vo / "vo" / "vo.pem").read_bytes())


@pytest.mark.parametrize(
    "uri", ["", "spiffe://lab/site/", "spiffe://lab/root/x", "spiffe://lab/site/a/b", "http://a/site/b"]
)
def test_an_identity_of_another_shape_is_refused(uri: str) -> None:
    with pytest.raises(Denied):
        certificates.identity_of_uri(uri)


def test_keys_are_for_the_owner_only(vo: Path) -> None:
    for path in vo.rglob("*.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    for folder in ("vo", "alpha", "ann"):
        assert (vo / folder).stat().st_mode & 0o777 == 0o700


def test_a_vo_is_made_once(vo: Path) -> None:
    with pytest.raises(UsageError, match=r"vo.pem: exists already; a VO is made once"):
        certificates.make_vo("lab", vo / "vo")


@pytest.mark.parametrize("name", ["", "Lab", "a b", "../x", "-a", "a" * 41])
def test_a_vo_with_a_bad_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="want 1 to 40 lower-case letters"):
        certificates.make_vo(name, tmp_path / "vo")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", "a@b", ".hidden", "-rf", "a\nb", "a" * 65])
def test_a_user_with_a_bad_name_is_refused(vo: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="user name"):
        certificates.issue_user(vo / "vo", name, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_only_the_holder_of_the_vos_key_can_issue(vo: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"vo.key: No such file or directory; only a site that is a signer of the VO"):
        certificates.issue_site(vo / "alpha", "gamma", tmp_path / "out")
