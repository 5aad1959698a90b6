"""A remote user signs what she submits, and every site that runs it sees her signature (PROMISES 5.6)."""

from __future__ import annotations

import msgspec
import pytest

from diana.client import Client
from diana.client.credential import load_credential
from diana.client.signing import permit, signed_bytes
from diana.client.steps import prepare
from diana.errors import DianaError
from diana.node.config.setup import init_user
from diana.policy.trust.statement import statement
from diana.wire.client.messages import SubmitRequest
from tests.e2e.grid import Grid, outcomes

JOB = {"group": {"command": ["true"]}, "sweep": {"array": "0-1"}}


def test_client_and_sites_mean_the_same_bytes() -> None:
    theirs = statement("ann@vo", "00", "", 9.5, "user:ann@vo", 1.25, "alpha", "key#0")
    assert signed_bytes("ann@vo", "00", "key#0", 9.5, 1.25, "alpha") == theirs


def test_a_signed_group_runs_elsewhere_and_nothing_but_what_was_signed_is_taken(grid: Grid) -> None:
    alpha = grid.add("alpha", slots=0)
    grid.add("beta", slots=2)
    grid.join()
    for user in ("ann", "bob"):
        init_user(alpha.data, user, grid.root / user)
    grid.start()
    with Client(credential=grid.root / "ann") as ann, Client(credential=grid.root / "bob") as bob:
        group = ann.submit(JOB).group
        ann.wait(group, timeout_s=60.0)
        assert outcomes(ann, group) == {0: "done", 1: "done"}
        request = prepare(JOB, "mine", None, None, None).request
        asked = ann._wire.call("Submit", msgspec.structs.replace(request, signs=True))
        good = permit(load_credential(grid.root / "ann", None), asked.to_sign[0])

        def refused(client: Client, text: str, sent: SubmitRequest) -> None:
            with pytest.raises(DianaError, match=text):
                client._wire.call("Submit", sent)

        signed = msgspec.structs.replace(request, permits=(good,))
        other = prepare({**JOB, "group": {"command": ["false"]}}, "mine", None, None, None).request
        refused(ann, "not the one that was signed", msgspec.structs.replace(other, permits=(good,)))
        refused(ann, "not this one", msgspec.structs.replace(signed, key="another"))
        refused(bob, "certificate is that of user:ann", signed)
        for change, text in (
            ({"audience": "beta"}, "is for site beta"),
            ({"expires_wall_s": good.expires_wall_s + 1.0}, "claims to hold longer"),
            ({"expires_wall_s": good.expires_wall_s - 1.0}, "signature does not fit"),
            ({"expires_wall_s": 1.0}, "expired"),
        ):
            bad = msgspec.structs.replace(good, **change)
            refused(ann, text, msgspec.structs.replace(request, permits=(bad,)))
        first = ann._wire.call("Submit", signed)
        assert ann._wire.call("Submit", signed).group == first.group
        with pytest.raises(DianaError, match="asks ann"):
            permit(load_credential(grid.root / "ann", None), msgspec.structs.replace(asked.to_sign[0], owner="bob@x"))
