"""PROMISES section 5 on living nodes: who may call what, what never meets a shell, what no file may show."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import grpc
import pytest

from diana.adapters.subgrid import protocol
from diana.adapters.trust import certificates
from diana.client import Client
from diana.errors import Denied, UsageError
from diana.node.config.setup import init_user
from diana.wire import pb
from diana.wire.pb import data_pb2, subgrid_pb2
from diana.wire.tls import server_name
from tests.e2e.grid import Grid, Site, crowding, outcomes, until
from tests.runs import SOAK

pytestmark = pytest.mark.e2e

NO, YES = "no", "yes"
CALLS: dict[str, tuple[str, str, str]] = {
    #                user site member
    "Client/Submit": (YES, NO, NO),
    "Client/Plan": (YES, NO, NO),
    "Client/Queue": (YES, NO, NO),
    "Client/Upload": (YES, NO, NO),
    "Client/Status": (YES, NO, NO),
    "Client/Wait": (YES, NO, NO),
    "Client/Results": (YES, NO, NO),
    "Client/Logs": (YES, NO, NO),
    "Client/Fetch": (YES, NO, NO),
    "Client/Cancel": (YES, NO, NO),
    "Client/CancelHeld": (YES, NO, NO),
    "Client/Hold": (YES, NO, NO),
    "Client/Move": (YES, NO, NO),
    "Client/Release": (YES, NO, NO),
    "Client/Retry": (YES, NO, NO),
    "Client/Drop": (YES, NO, NO),
    "Client/Explain": (YES, NO, NO),
    "Client/Links": (YES, NO, NO),
    "Client/Sites": (YES, NO, NO),
    "Client/AllSites": (YES, NO, NO),
    "Client/Peers": (YES, NO, NO),
    "Client/AllPeers": (YES, NO, NO),
    "Client/Doctor": (NO, NO, NO),
    "Client/Dashboard": (YES, NO, NO),
    "Client/Activity": (YES, NO, NO),
    "Client/Datasets": (YES, NO, NO),
    "Client/AllDatasets": (YES, NO, NO),
    "Client/ShowDataset": (YES, NO, NO),
    "Client/History": (YES, NO, NO),
    "Client/AddDataset": (NO, NO, NO),
    "Client/VerifyDataset": (NO, NO, NO),
    "Client/RemoveDataset": (NO, NO, NO),
    "Client/Info": (YES, NO, NO),
    "Client/Stop": (NO, NO, NO),
    "Data/Read": (NO, YES, NO),
    "Probe/Ping": (NO, YES, YES),
    "Probe/Throughput": (NO, YES, NO),
    "Peer/Stream": (NO, YES, NO),
    "Relay/Offer": (NO, YES, NO),
    "Relay/Carry": (NO, YES, NO),
    "Client/Ledger": (YES, NO, NO),
    "Client/Metrics": (YES, NO, NO),
    "Client/Operate": (NO, NO, NO),
    "Client/Invite": (NO, NO, NO),
    "Client/Promote": (NO, NO, NO),
    "Enrol/Join": (NO, NO, NO),
    "Enrol/Sign": (NO, NO, NO),
    "Enrol/Signers": (NO, YES, NO),
    "SubGrid/Attach": (NO, NO, YES),
    "SubGrid/Deliver": (NO, NO, NO),
    "Replica/Stream": (NO, NO, NO),
    "ReplicaData/Seed": (NO, NO, NO),
    "ReplicaData/Blob": (NO, NO, NO),
    "ReplicaData/Blobs": (NO, NO, NO),
    "Witness/Touch": (NO, YES, NO),
}
"""Over the network: a user of the VO who is no operator, another site of the VO, and a machine of the site itself.
Where only a call that goes on from another can be let in, nobody is."""

MESSAGES = {
    "Data/Read": data_pb2.ReadRequest(ref="dataset:d/f").SerializeToString(),
    "SubGrid/Attach": subgrid_pb2.SubGridFrame(
        messages=protocol.pack(
            [protocol.encode_one(protocol.Hello(protocol.VERSION, "m9", "an-identity", "0.1.0", 0, 1, 0))]
        )
    ).SerializeToString(),
}
"""The body of a call where an empty message would be refused for being one."""

HOSTILE = (
    "; touch PWNED",
    "$(touch PWNED)",
    "`touch PWNED`",
    "x\ntouch PWNED\n",
    "&& touch PWNED #",
    "| touch PWNED",
    "-o PWNED",
    "--help",
    "#SBATCH --uid=0",
    "#DIANA command = touch PWNED",
    "$HOME ~ * ?",
    "%s%n",
    "{index} {{}}",
    "'\"\\",
    "\x1b[2J\r\t\x7f",
    "../../PWNED",
    "LD_PRELOAD=/tmp/x.so",
    "naïve ☃",
)

ECHO = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['HOSTILE']]))"


@pytest.fixture(scope="module")
def pair() -> Iterator[Grid]:
    """alpha and beta; what the tests here leave behind does not matter to the next."""
    made = Grid()
    try:
        made.add("alpha", 2)
        made.add("beta", 2)
        made.join()
        made.start()
        yield made
    finally:
        made.close()


# --- 5.3: every call, every kind of caller -------------------------------------------------------------------


def channel(site: Site, key: Path | None, certificate: Path | None) -> grpc.Channel:
    root = (site.paths.keys / "vo.pem").read_bytes()
    given = (key.read_bytes(), certificate.read_bytes()) if key and certificate else (None, None)
    options = [("grpc.ssl_target_name_override", server_name(site.name, "alpha-vo"))]
    return grpc.secure_channel(site.address, grpc.ssl_channel_credentials(root, *given), options)


def refused(over: grpc.Channel, call: str) -> bool:
    """Whether a call with one message is turned away for who makes it."""
    message = MESSAGES.get(call, b"")
    asked = over.stream_stream(f"/diana.v1.{call}")(iter([message]), timeout=60)
    try:
        first = next(asked, b"")
        # Whether a file may be read is said file by file.
        return call == "Data/Read" and "may not read it" in data_pb2.ReadFrame.FromString(first).error
    except grpc.RpcError as status:
        # A site that says no Hello is turned away too, but not for what it is.
        denied = status.code() is grpc.StatusCode.PERMISSION_DENIED or (
            # What a site without a standby does not even serve, and what nothing went before.
            call.partition("/")[0] in ("Replica", "ReplicaData", "SubGrid")
            and status.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT)
        )
        return denied and (call != "Peer/Stream" or "a certificate of a site of alpha-vo is wanted" in status.details())
    finally:
        asked.cancel()


def test_the_matrix_names_every_call_there_is() -> None:
    """A new call without an entry here fails."""
    modules = [import_module(f"diana.wire.pb.{found.name}") for found in iter_modules(pb.__path__)]
    modules = [module for module in modules if hasattr(module, "DESCRIPTOR")]
    services = [service for module in modules for service in module.DESCRIPTOR.services_by_name.values()]
    assert {f"{service.name}/{method.name}" for service in services for method in service.methods} == set(CALLS)


@pytest.mark.parametrize("caller", ["user", "site", "member", "nobody"])
def test_every_call_is_refused_to_whom_it_is_not_for(pair: Grid, caller: str) -> None:
    alpha, beta = pair.sites["alpha"], pair.sites["beta"]
    if not (pair.root / "ann").exists():
        init_user(alpha.data, "ann", pair.root / "ann")
        certificates.issue_member(alpha.paths.keys, "alpha", "m9", pair.root / "m9")
    keys = {
        "user": (pair.root / "ann" / "user.key", pair.root / "ann" / "user.pem"),
        "site": (beta.paths.keys / "site.key", beta.paths.keys / "site.pem"),
        "member": (pair.root / "m9" / "member.key", pair.root / "m9" / "member.pem"),
        "nobody": (None, None),
    }
    with channel(alpha, *keys[caller]) as over:
        if caller == "nobody":
            for call in CALLS:
                with pytest.raises(grpc.RpcError) as status:
                    next(over.stream_stream(f"/diana.v1.{call}")(iter([b""]), timeout=60))
                assert status.value.code() is grpc.StatusCode.UNAVAILABLE, call
        else:
            at = ("user", "site", "member").index(caller)
            assert {call: refused(over, call) for call in CALLS} == {call: row[at] == NO for call, row in CALLS.items()}
    with alpha.client() as client:
        assert client.info().site == "alpha"


# --- 5.2: trust that is taken back ---------------------------------------------------------------------------


def test_who_is_revoked_is_refused_on_a_connection_that_stands(grid: Grid) -> None:
    alpha, beta = grid.add("alpha", 2), grid.add("beta", 2)
    grid.join()
    grid.start()
    for user in ("ann", "bob"):
        init_user(alpha.data, user, grid.root / user)
    keys = beta.paths.keys
    with (
        Client(credential=grid.root / "ann") as ann,
        Client(credential=grid.root / "bob") as bob,
        channel(alpha, keys / "site.key", keys / "site.pem") as over,
    ):
        assert ann.info().role == bob.info().role == "user"
        assert not refused(over, "Probe/Ping") and not _unlinked(alpha, "beta")
        (alpha.paths.keys / "revoked").write_text("user:ann@alpha-vo\nsite:beta\n")
        assert alpha.process is not None
        alpha.process.send_signal(signal.SIGHUP)
        until(lambda: refused(over, "Probe/Ping"), "beta is refused")
        until(lambda: _unlinked(alpha, "beta"), "the stream between the two is closed")
        until(lambda: _denied(ann), "ann is refused")
        assert bob.info().role == "user"
    denied = [line for line in (alpha.data / "audit.log").read_text().splitlines() if '"denied"' in line]
    assert any("certificate of site:beta" in line and "revoked at this site" in line for line in denied)


def _denied(client: Client) -> bool:
    try:
        client.info()
    except Denied as refusal:
        assert "revoked" in str(refusal)
        return True
    return False


def _unlinked(site: Site, other: str) -> bool:
    with site.client() as client:
        return all(one.site != other or one.state != "alive" for one in client.sites())


# --- 5.7 and 5.8: accounts and hostile text ------------------------------------------------------------------


def test_jobs_run_as_the_nodes_account_and_no_job_file_names_another(pair: Grid) -> None:
    with pair.sites["alpha"].client() as client:
        group = client.submit({"group": {"command": ["id", "-u"], "sites": ["beta"]}}).group
        assert client.wait(group, timeout_s=60).state == "done"
        assert b"".join(chunk.data for chunk in client.logs(group)) == f"{os.getuid()}\n".encode()
        for key in ("account", "user", "run_as", "uid"):
            with pytest.raises(UsageError, match=key):
                client.submit({"group": {"command": ["id"], key: "root"}})
        with pytest.raises(UsageError, match="uid"):
            client.submit(b"#!/bin/sh\n#SBATCH --uid=0\nid -u\n", format="script")


def test_hostile_text_reaches_a_job_as_it_is_and_never_a_shell(pair: Grid) -> None:
    """In arguments, environment and names of files, at another site, through the real LRM."""
    job = {
        "group": {
            "name": "; touch PWNED",
            "command": [sys.executable, "-S", "-c", ECHO, "{x}", "-{x}"],
            "environment": {"HOSTILE": "{x}", "LD_PRELOAD": ""},
            "sites": ["beta"],
        },
        "sweep": {"x": list(HOSTILE)},
    }
    with pair.sites["alpha"].client() as client:
        group = client.submit(job).group
        assert client.wait(group, timeout_s=60).done == len(HOSTILE)
        said: dict[str, bytes] = {}
        for chunk in client.logs(group):
            said[chunk.job] = said.get(chunk.job, b"") + chunk.data
        for index, text in enumerate(HOSTILE):
            assert json.loads(said[f"{group}.{index}"]) == [[text, f"-{text}"], text]
    assert not list(pair.root.rglob("*PWNED*"))


def test_hostile_names_of_files_stay_names(pair: Grid) -> None:
    names = [text for text in HOSTILE if "/" not in text and text.isprintable() and not set("{}") & set(text)]
    to = pair.root / "hostile-out"
    job = {
        "group": {
            "command": [sys.executable, "-S", "-c", "import sys; open(sys.argv[1], 'w')", "{x}"],
            "sites": ["beta"],
        },
        "sweep": {"x": names},
        "outputs": {"collect": ["{x}"], "to": str(to)},
    }
    with pair.sites["alpha"].client() as client:
        group = client.submit(job).group
        status = client.wait(group, timeout_s=60)
        assert (status.state, status.done) == ("done", len(names)), status
    assert sorted(os.listdir(to)) == sorted(names)
    # Not by rglob: folders of jobs go while it looks.
    assert not [name for _, folders, files in os.walk(pair.root) for name in (*folders, *files) if name == "PWNED"]


@pytest.mark.parametrize(
    "job",
    [
        {"group": {"command": ["echo", "a\0b"]}},
        {"group": {"command": ["true"], "environment": {"A": "a\0b"}}},
        {"group": {"command": ["true"], "environment": {"A=B": "x"}}},
        {"group": {"command": ["true"], "environment": {"A\nB": "x"}}},
        {"group": {"command": ["true"]}, "outputs": {"collect": ["../PWNED"]}},
        {"group": {"command": ["true"]}, "outputs": {"collect": ["/tmp/PWNED"]}},
        {"group": {"command": ["true"]}, "inputs": [{"url": "dataset:a/../../PWNED", "path": "x"}]},
        {"group": {"command": ["true"]}, "inputs": [{"url": "dataset:a/b", "path": "../PWNED"}]},
        {"group": {"command": ["true"], "stdout": "../PWNED"}},
    ],
    ids=repr,
)
def test_what_no_job_may_carry_is_refused_in_one_line(pair: Grid, job: dict[str, Any]) -> None:
    with pair.sites["alpha"].client() as client:
        with pytest.raises(UsageError) as refused:
            client.submit(job)
        assert "\n" not in str(refused.value) and "\0" not in str(refused.value)


# --- 5.10 and 5.11: what lies on the disk --------------------------------------------------------------------


def test_sockets_keys_and_databases_are_closed_to_others(pair: Grid) -> None:
    for site in pair.sites.values():
        for path in [site.data, *site.data.rglob("*")]:
            mode = path.lstat().st_mode
            if path == site.paths.socket:
                assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660
                assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750
            elif path.suffix in (".key", ".db", ".db-wal", ".db-shm"):
                assert stat.S_IMODE(mode) == 0o600, path
            elif path == site.data:
                assert stat.S_IMODE(mode) == 0o700


def test_a_secret_in_a_jobs_environment_shows_nowhere_but_in_the_spec(pair: Grid) -> None:
    secret = "canary-that-only-the-job-may-know"
    jobs: list[dict[str, Any]] = [
        {"command": ["sleep", "1"]},
        {"command": ["sh", "-c", "exit 3"]},
        {"command": ["no-such-program-at-beta"]},
    ]
    alpha, beta = pair.sites["alpha"], pair.sites["beta"]
    shown: list[str] = []
    with alpha.client() as client:
        for group_of in jobs:
            job = {"group": {**group_of, "environment": {"TOKEN": secret}, "sites": ["beta"]}}
            group = client.submit(job).group
            until(lambda group=group: client.status(group)[0].running or client.status(group)[0].final, "it runs")  # type: ignore[misc]
            for pid in (alpha.process, beta.process):
                assert pid is not None
                shown.append(Path(f"/proc/{pid.pid}/cmdline").read_text())
            for spawner in (alpha.spawner_pid(), beta.spawner_pid()):
                if spawner:
                    shown.append(Path(f"/proc/{spawner}/cmdline").read_text())
                    shown.append(Path(f"/proc/{spawner}/environ").read_text())
            client.wait(group, timeout_s=60)
            shown += [repr(client.status(group)), repr(client.explain(group)), repr(list(client.results(group)))]
            for verb in ("status", "explain"):
                shown.append(pair.run(alpha, verb, "--data", str(alpha.data), group, "--json").stdout)
    shown += [text for site in pair.sites.values() for _, text in site.texts()]
    assert not [text for text in shown if secret in text]
    holding = {
        path.name
        for site in pair.sites.values()
        for path in site.data.rglob("*")
        if path.is_file() and secret.encode() in path.read_bytes()
    }
    assert holding <= {"journal.db", "journal.db-wal"}, "beside the spec itself"


# --- 5.13: jobs that multiply --------------------------------------------------------------------------------


def test_a_fork_bomb_leaves_the_node_alive_and_cancel_reaps_it_all(grid: Grid) -> None:
    """63 processes in a tree, every second one in a session of its own; bounded, so that a failure harms nobody."""
    bomb = (
        "import os, time\n"
        "for level in range(5):\n"
        "    for child in range(1):\n"
        "        if os.fork() == 0 and level % 2: os.setsid()\n"
        "time.sleep(300)\n"
    )
    alpha = grid.add("alpha", 2)
    grid.start()
    with alpha.client() as client:
        group = client.submit({"group": {"command": [sys.executable, "-S", "-c", bomb]}, "sweep": {"x": "0-1"}}).group
        until(lambda: len(alpha.jobs_alive()) == 64, lambda: f"it grew to {len(alpha.jobs_alive())}")
        assert client.info().site == "alpha"
        began = time.monotonic()
        assert client.status(group)[0].running == 2
        assert not SOAK or time.monotonic() - began < 2.0 * crowding()
        client.cancel(group)
        assert client.wait(group, timeout_s=60).state == "cancelled"
        until(lambda: not alpha.jobs_alive(), "every one of them is gone")
        after = client.submit({"group": {"command": ["true"]}}).group
        assert client.wait(after, timeout_s=60).state == "done"
        assert outcomes(client, after) == {0: "done"}
