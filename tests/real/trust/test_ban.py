"""A ban said at one site holds in the whole VO within a minute, on streams that stand too (U1, PROMISES 5.2)."""

from __future__ import annotations

import time

import grpc
import pytest

from diana.wire.tls import server_name
from tests.e2e.grid import Grid, Site, timely, until

pytestmark = pytest.mark.e2e

WITHIN_S = 90.0


def sees(site: Site, other: str) -> bool:
    with site.client() as client:
        return any(one.site == other and one.state == "alive" for one in client.sites())


def note(site: Site, of: str) -> str:
    with site.client() as client:
        return next(one.note for one in client.sites() if one.site == of)


def refuses(site: Site, caller: Site) -> bool:
    """Whether a new call with the caller's certificate is turned away."""
    keys = caller.paths.keys
    given = grpc.ssl_channel_credentials(*((keys / name).read_bytes() for name in ("vo.pem", "site.key", "site.pem")))
    options = [("grpc.ssl_target_name_override", server_name(site.name, "alpha-vo"))]
    with grpc.secure_channel(site.address, given, options) as over:
        try:
            over.unary_unary("/diana.v1.Probe/Ping")(b"", timeout=5)
        except grpc.RpcError as status:
            return status.code() is grpc.StatusCode.PERMISSION_DENIED and "revoked by the VO" in status.details()
    return False


def test_a_ban_holds_everywhere_within_a_minute_and_a_lift_ends_it(grid: Grid) -> None:
    alpha, beta, gamma = (grid.add(name, 1) for name in ("alpha", "beta", "gamma"))
    grid.join()
    grid.start()
    others = (alpha, beta)
    assert not any(refuses(site, gamma) for site in others)
    said = grid.run(alpha, "site", "--data", str(alpha.data), "ban", "gamma", "--reason", "stolen")
    assert said.returncode == 0, said.stderr
    began = time.monotonic()
    until(lambda: all(refuses(site, gamma) for site in others), "gamma is refused everywhere", WITHIN_S, 0.2)
    until(lambda: not any(sees(site, "gamma") for site in others), "no stream to gamma stands", WITHIN_S, 0.2)
    until(lambda: not sees(gamma, "alpha") and not sees(gamma, "beta"), "gamma reaches nobody", WITHIN_S, 0.2)
    timely(time.monotonic() - began, WITHIN_S, "the ban")
    until(lambda: "revoked by the VO (stolen)" in note(gamma, "gamma"), "gamma is told why", WITHIN_S, 0.2)
    assert note(gamma, "gamma").startswith("refused: by ") and not note(alpha, "alpha")
    with gamma.client() as client:
        (row,) = (one for one in client.doctor() if one.name == "trust")
    assert row.state == "fail" and "revoked by the VO (stolen)" in row.found, row
    assert "diana site unban gamma" in row.mend, row
    assert sees(alpha, "beta") and sees(beta, "alpha")
    beta.terminate()
    beta.start()
    until(lambda: sees(alpha, "beta"), "beta is back", WITHIN_S, 0.2)
    assert refuses(beta, gamma), "a ban outlives a restart"
    said = grid.run(alpha, "site", "--data", str(alpha.data), "unban", "gamma")
    assert said.returncode == 0, said.stderr
    until(lambda: not any(refuses(site, gamma) for site in others), "gamma is let in", WITHIN_S, 0.2)
    until(lambda: sees(alpha, "gamma") and sees(gamma, "beta"), "gamma is back", WITHIN_S, 0.2)
    until(lambda: not note(gamma, "gamma"), "gamma is told nothing of it any more", WITHIN_S, 0.2)
