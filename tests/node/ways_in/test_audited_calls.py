"""Lines of the client service in the audit trail: changes, and whatever was refused (PROMISES 5.14)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from diana.errors import Denied, Overloaded, UsageError
from diana.model.layout import DataDir
from diana.model.trust.principal import Principal, Role
from diana.model.views.views import Ok
from diana.node.api.service import Api
from diana.node.ways_in.audit import Audit
from diana.node.ways_in.call_rates import BURST
from diana.node.ways_in.door import About
from diana.wire.client import messages as cm
from diana.wire.client.control import CancelRequest
from diana.wire.client.operators import OperateRequest


class Full:
    def free_bytes(self) -> int:
        return 0


class Door:
    store = Full()

    async def request(self, make: Any) -> Ok:
        make(1)
        return Ok(count=1)


def served(tmp_path: Path) -> tuple[Api, Path]:
    path = tmp_path / "audit.log"
    about = About(site=cast(Any, "alpha"), vo="vo", release="1", address="")
    door = cast(Any, Door())
    api = Api(
        door=door, stager=cast(Any, None), data=DataDir(tmp_path), about=about, stop=lambda: None, audit=Audit(path)
    )
    return api, path


async def test_a_change_is_kept_with_caller_place_and_group(tmp_path: Path) -> None:
    api, path = served(tmp_path)
    await api.call(Principal(Role.USER, "ann@vo"), "Cancel", CancelRequest(target="alpha-1"), "uid 1000")
    said = json.loads(path.read_text())
    assert (said["who"], said["role"], said["from"]) == ("ann@vo", "user", "uid 1000")
    assert (said["action"], said["target"], said["decision"]) == ("cancel", "alpha-1", "allowed")


async def test_a_refusal_is_kept_with_its_reason(tmp_path: Path) -> None:
    api, path = served(tmp_path)
    with pytest.raises(Denied):
        await api.call(Principal(Role.USER, "ann@vo"), "Stop", cm.Empty(), "ipv4:10.0.0.9:1")
    said = json.loads(path.read_text())
    assert (said["action"], said["decision"]) == ("stop", "denied")
    assert "may not stop" in said["reason"]


async def test_reads_that_were_allowed_are_not_kept(tmp_path: Path) -> None:
    api, path = served(tmp_path)
    stream = api.stream(Principal(Role.NOBODY, ""), "Logs", cm.LogsRequest(job="alpha-1"))
    with pytest.raises(Denied):
        await anext(stream)
    assert json.loads(path.read_text())["decision"] == "denied"
    assert len(path.read_text().splitlines()) == 1


async def test_an_operator_s_order_is_kept_under_its_own_name(tmp_path: Path) -> None:
    api, path = served(tmp_path)
    request = OperateRequest(order="drain", reason="power cut")
    await api.call(Principal(Role.OPERATOR, "root@vo"), "Operate", request, "uid 0")
    said = json.loads(path.read_text())
    assert (said["action"], said["target"], said["decision"]) == ("operate", "drain", "allowed")


async def test_a_policy_nested_too_deeply_is_refused_in_one_line(tmp_path: Path) -> None:
    api, _ = served(tmp_path)
    request = OperateRequest(order="set-policy", values_json="[" * 50_000 + "]" * 50_000)
    with pytest.raises(UsageError, match="policy: not JSON"):
        await api.call(Principal(Role.OPERATOR, "root@vo"), "Operate", request, "uid 0")


async def test_who_submits_without_end_is_told_so_and_may_still_cancel(tmp_path: Path) -> None:
    """A thousand groups are submitted at once, then fifty a second; here to a full disk, which refuses each."""
    api, _ = served(tmp_path)
    ann, bob = (Principal(Role.USER, f"{name}@vo") for name in ("ann", "bob"))
    job = cm.SubmitRequest(content=b"", format="toml")
    with pytest.raises(Overloaded, match="MiB free"):
        await api.call(ann, "Submit", job)
    api._submissions.charge(ann, 2 * BURST)
    for method in ("Submit", "Plan"):
        with pytest.raises(Overloaded, match="ann@vo makes more than 50 submissions per second here"):
            await api.call(ann, method, job)
    await api.call(ann, "Cancel", CancelRequest(target="alpha-1"))
    with pytest.raises(Overloaded, match="MiB free"):
        await api.call(bob, "Submit", job)
