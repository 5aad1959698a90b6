"""Who may make which call: the matrix of PROMISES 5.3 for the client service, and who a caller is."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from diana.adapters.lrm.spawner.identity import environment
from diana.errors import Denied, UsageError
from diana.model.trust.principal import Principal, Role
from diana.node.api.service import ACTIONS, check
from diana.node.ways_in.users import LocalUsers, is_job_of
from diana.wire.client.messages import METHODS
from tests.client.nodelike import Nodelike

USERS_MAY = {"Submit", "Plan", "Upload", "Status", "Wait", "Results", "Logs", "Fetch", "Cancel", "CancelHeld", "Hold",
             "Release", "Retry", "Drop", "Move", "Explain", "Queue", "Links", "Sites", "Datasets", "ShowDataset",
             "Info", "History", "Ledger", "Peers", "AllSites", "AllPeers", "AllDatasets", "Dashboard", "Activity",
             "Metrics"}  # fmt: skip
OPERATORS_MAY = USERS_MAY | {"AddDataset", "VerifyDataset", "RemoveDataset", "Stop", "Invite", "Operate", "Doctor",
                             "Promote"}  # fmt: skip
MAY: dict[Role, set[str]] = {
    Role.USER: USERS_MAY,
    Role.OPERATOR: OPERATORS_MAY,
    Role.PEER: set(),
    Role.MEMBER: set(),
    Role.NOBODY: set(),
}


def test_every_call_has_an_entry_and_an_implementation() -> None:
    from diana.node.api.service import _STREAMED, _UNARY

    assert set(ACTIONS) == set(METHODS) == {*_UNARY, *_STREAMED}
    assert {name for name, method in METHODS.items() if method.streams_out} == set(_STREAMED)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("method", list(METHODS))
def test_each_role_may_make_its_calls_and_no_other(role: Role, method: str) -> None:
    caller = Principal(role, "" if role is Role.NOBODY else "someone@lab")
    if method in MAY[role]:
        check(caller, method)
    else:
        with pytest.raises(Denied):
            check(caller, method)


def test_a_call_without_an_entry_is_refused_to_all() -> None:
    for role in Role:
        with pytest.raises(UsageError):
            check(Principal(role, "x@lab"), "Reboot")


async def test_the_door_asks_before_it_does_anything(tmp_path: Path) -> None:
    async with Nodelike(tmp_path / "a") as node:
        for role in (Role.PEER, Role.MEMBER, Role.NOBODY):
            for name, method in METHODS.items():
                request: Any = object()
                with pytest.raises(Denied):
                    if method.streams_out:
                        await anext(node.api.stream(Principal(role, "beta"), name, request))
                    else:
                        await node.api.call(Principal(role, "beta"), name, request)
        assert node.book.requests == 0
        await asyncio.sleep(0)


ACCOUNTS = {0: "root", 500: "diana", 1000: "ann", 1001: "ops", 1002: "guest"}


def users() -> LocalUsers:
    mapped = {"ann": "ann.smith@lab", "guest": ""}
    return LocalUsers(
        "lab",
        operators=("ops", "chief@lab"),
        owner_of=lambda uid, name: mapped.get(name, f"{name}@lab" if name else ""),
        node_uid=500,
        account=lambda uid: ACCOUNTS.get(uid, ""),
    )


@pytest.mark.parametrize(
    ("uid", "role", "name"),
    [
        (0, Role.OPERATOR, "root@lab"),
        (500, Role.OPERATOR, "diana@lab"),
        (1000, Role.USER, "ann.smith@lab"),
        (1001, Role.OPERATOR, "ops@lab"),
        (1002, Role.NOBODY, ""),
        (4242, Role.NOBODY, ""),
    ],
)
def test_a_uid_is_the_principal_the_site_says(uid: int, role: Role, name: str) -> None:
    assert users().of_uid(uid) == Principal(role, name)


@pytest.mark.parametrize(
    ("user", "vo", "role"),
    [
        ("ann", "lab", Role.USER),
        ("chief", "lab", Role.OPERATOR),
        ("ops", "lab", Role.USER),
        ("root", "lab", Role.USER),
        ("chief", "other", Role.NOBODY),
        ("", "lab", Role.NOBODY),
    ],
)
def test_a_certificate_gives_no_more_than_the_site_grants(user: str, vo: str, role: Role) -> None:
    assert users().of_certificate(user, vo).role is role


def test_a_job_of_the_site_is_no_operator_whatever_account_it_has() -> None:
    def named(pid: int) -> Principal:
        return LocalUsers("lab", node_uid=500, account=lambda uid: ACCOUNTS[uid], is_job=jobs.__contains__).of_process(
            pid, 500
        )

    jobs = {7}
    assert named(7) == Principal(Role.USER, "diana@lab")
    assert named(8) == Principal(Role.OPERATOR, "diana@lab")


@pytest.mark.parametrize(
    ("marks", "is_one"),
    [
        ({"DIANA_RUN": "1-2:alpha-1/0:1:0:1", "DIANA_SITE": "alpha"}, True),
        ({"DIANA_RUN": "1-2:beta-1/0:1:0:1", "DIANA_SITE": "beta"}, False),
        ({"DIANA_SITE": "alpha"}, False),
        ({}, False),
    ],
)
def test_a_process_of_a_job_is_known_by_its_environment(marks: dict[str, str], is_one: bool) -> None:
    process = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], **marks})
    try:
        # Between two programs of one process it reads as empty for a moment.
        while not environment(process.pid):
            time.sleep(0.001)
        assert is_job_of("alpha", process.pid) == is_one
    finally:
        process.kill()
        process.wait()
    assert not is_job_of("alpha", process.pid)
