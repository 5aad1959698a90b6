"""SPEC U5: what a machine that follows says to whoever wants something of its site."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from diana.errors import UsageError
from diana.model.trust.principal import Principal, Role
from diana.model.trust.register import Copy, Register
from diana.node.pair.pair import now_s
from diana.node.pair.standby_api import StandbyApi, who_leads
from diana.wire.client import messages as wire
from diana.wire.client.peers import DoctorResponse

ROOT = Path("/srv/spare")
HERE, MAIN = Copy("spare", "disk-2"), Copy("main", "disk-1")
BOTH, ALONE = Register(3, "main", (MAIN, HERE)), Register(4, "main", (MAIN,))
OPERATOR = Principal(Role.OPERATOR, "root@vo")


def pair(unheard_s: float, register: Register | None = BOTH, witness: str = "beta@10.0.0.2:7400") -> Any:
    replica = SimpleNamespace(
        leads=lambda: "" if register is None else register.leader,
        register=register,
        me=HERE,
        durability=0,
        grant_until_s=now_s() - unheard_s + 6.6,
        settings=SimpleNamespace(wait_s=6.6),
    )
    leading = SimpleNamespace(done=lambda: False)
    return SimpleNamespace(
        leading=leading,
        site="alpha",
        machine="spare",
        replica=replica,
        durability=0,
        pair=SimpleNamespace(witness=witness, other="main"),
    )


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ((1.0,), "alpha's RootGrid is main at 10.0.0.1:7400; this is its standby"),
        ((1.0, None), "alpha has no RootGrid just now, spare is its standby; try again in some seconds"),
        (
            (12.0,),
            "the leader main of alpha has not answered for 12.0 s; spare takes over within 20 s once the witness beta "
            "agrees; if main is dead for good: diana site promote --force --data /srv/spare",
        ),
        (
            (12.0, BOTH, ""),
            "the leader main of alpha has not answered for 12.0 s, and no witness can let spare take over; start the "
            "node of main; if main is dead for good: diana site promote --force --data /srv/spare",
        ),
        (
            (75.0, ALONE),
            "the leader main of alpha has not answered for 1m15s, and spare lacks what it did last; start the node of "
            "main; if main is dead for good: diana site promote --force --data /srv/spare",
        ),
    ],
    ids=["answers", "nobody", "away", "no-witness", "not-in-sync"],
)
def test_it_names_the_leader_or_what_is_to_happen_without_it(found: Any, line: str) -> None:
    assert who_leads(pair(*found), ROOT, "10.0.0.1:7400") == line


def api(found: Any) -> StandbyApi:
    config = cast(Any, SimpleNamespace(site="alpha", vo="vo", machine="spare"))
    says = (lambda: who_leads(found, ROOT, "a:1")) if found else (lambda: "spare has not met main yet; start that one")
    return StandbyApi(config, cast(Any, SimpleNamespace(root=ROOT)), "b:1", found, says, lambda: None)


@pytest.mark.parametrize(
    ("found", "state", "words"),
    [
        ((1.0,), "ok", "standby; main leads"),
        ((12.0,), "warn", "the leader main of alpha has not answered for 12.0 s"),
        (None, "warn", "spare has not met main yet"),
    ],
    ids=["answers", "away", "not-met"],
)
async def test_its_doctor_has_one_line_of_it(found: Any, state: str, words: str) -> None:
    answer = cast(DoctorResponse, await api(found and pair(*found)).call(OPERATOR, "Doctor", wire.Empty()))
    (row,) = answer.checks
    assert (row.name, row.state, row.found, bool(row.mend)) == ("standby", state, words, state == "warn")


async def test_one_that_has_met_nobody_answers_and_cannot_be_promoted() -> None:
    info = cast(wire.InfoResponse, await api(None).call(OPERATOR, "Info", wire.Empty()))
    assert (info.durability, info.standing) == (0, "spare has not met main yet; start that one")
    with pytest.raises(UsageError, match="has not met main"):
        await api(None).call(OPERATOR, "Promote", wire.PromoteRequest(force=True))
