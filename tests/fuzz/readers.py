"""Readers of what users, peers, operators and batch systems hand in: examples of each, the errors it may end with."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import io
import re
import tempfile
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from diana.errors import UsageError
from diana.model.trust.identity import Identity

REPO = Path(__file__).resolve().parents[2]


class FuzzedReader(NamedTuple):
    read: Callable[[bytes], object]
    refuses: tuple[type[BaseException], ...]
    """Errors that refuse an input; each is one line. Any other is a crash."""
    examples: Callable[[], Sequence[bytes]]


@cache
def folder() -> Path:
    """A folder of this process, for readers that take a path."""
    return Path(tempfile.mkdtemp(prefix="diana-fuzz-"))


def put(name: str, content: bytes) -> Path:
    path = folder() / name
    path.write_bytes(content)
    return path


def repository(*names: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [(REPO / name).read_bytes() for name in names]


# --- job files ---------------------------------------------------------------------------------------


def job_file(format: str) -> Callable[[bytes], object]:
    from diana.jobfile import parse_file

    return lambda content: parse_file(content, format, "job", {}, {}, lambda _: "", lambda _: b"")


def table_of_rows(content: bytes) -> object:
    from tests.jobfile.builders import parse

    return parse(b'[group]\ncommand = "x {a}"\n[sweep]\nfrom = "t.csv"\n', files={"t.csv": content})


JOBS_YAML = b"""group: {name: walk, command: "./walk {seed}", environment: {A: "1"}, after: [a-1]}
sweep: &s
  seed: 1-5
  rows: [{x: 1, y: a}, {x: 2, y: b}]
resources: {cpus: 2, memory: 1 GB, time: 30m}
inputs:
  - {url: "dataset:events", path: events}
"""
JOBS_JSON = b'{"group": {"command": ["echo", "{x}"], "priority": 1.5e3}, "sweep": {"x": [1, 2.5, true, "a\\u00e4"]}}'
SCRIPT = (
    b"#!/bin/sh\n#SBATCH --array=1-10%2\n#SBATCH --time=0:30:00 --mem=1G\n#DIANA --name x\n: $SLURM_ARRAY_TASK_ID\n"
)


# --- operators' files --------------------------------------------------------------------------------


def site_file(content: bytes) -> object:
    from diana.node.config.site_file import load_config

    return load_config(put("site.toml", content), keys=False)


def policy_file(content: bytes) -> object:
    from diana.cli.sites.orders import _read

    return _read(put("policy.toml", content))


def credential(content: bytes) -> object:
    from diana.client.credential import load_credential

    for name in ("user.key", "user.pem", "vo.pem"):
        put(name, b"")
    put("credential.toml", content)
    return load_credential(folder(), None)


CREDENTIAL = b'user = "ann"\nvo = "lab"\nsite = "alpha"\naddress = "10.0.0.1:7400"\naddresses = ["b:1"]\n'


def manifest(content: bytes) -> object:
    from diana.adapters.backup import read_manifest

    put("backup.json", content)
    put("manifest.json", content)
    return read_manifest(folder())


MANIFEST = (
    b'{"format": 1, "release": "0.2.0", "db_uuid": "ab", "files": [{"name": "a", "size_bytes": 1, "sha256": "ab"}]}'
)


# --- scenarios ---------------------------------------------------------------------------------------


def scenario(content: bytes) -> object:
    from diana.sim.scenario.scenario import load

    return load(put("scenario.toml", content))


SCENARIO = b"""version = 1
[[sites]]
name = "alpha"
slots = 2
[[sites]]
name = "beta"
slots = 3
[[users]]
name = "ann@lab"
[[links]]
between = ["alpha", "beta"]
latency_s = 0.01
bytes_per_s = 1e6
[[workload]]
user = "ann@lab"
at = "alpha"
count = 3
jobs = 10
run_s = 5
"""


def with_file(key: str, name: str) -> Callable[[bytes], object]:
    from diana.sim.scenario.scenario import parse

    def read(content: bytes) -> object:
        put(name, content)
        text = f'version = 1\n{key}\n[[sites]]\nname = "alpha"\nslots = 2\n[[sites]]\nname = "beta"\nslots = 3\n'
        return parse(text, "scenario", folder())

    return read


SITES_CSV = b"site,cpus,speed\nalpha-x,10,1.5\ngamma,20,2\n"
RTTS_CSV = b"src_name,dst_name,rtt_ms\nalpha,beta,12.5\nbeta,alpha,13\n"
GRAPHML = b"""<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key attr.name="label" attr.type="string" for="node" id="d1"/>
<key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d2"/><graph edgedefault="undirected">
<node id="0"><data key="d1">alpha</data></node><node id="1"><data key="d1">beta</data></node>
<edge source="0" target="1"><data key="d2">1e9</data></edge></graph></graphml>"""
ENTITIES = (
    b'<!DOCTYPE g [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + at, b"&%c;" % (97 + at) * 10) for at in range(9))
    + b"]>"
)


def trace(content: bytes) -> object:
    from diana.sim.load.swf import read
    from diana.sim.load.traced import partition_names

    log = read(put("trace.swf", content))
    return log.noticed(), log.max_processors(), partition_names(log)


def history(content: bytes) -> object:
    from diana.sim.load import past
    from diana.sim.past.replay import row_of

    found = past.read(str(put("history.swf", content)))
    for one in found.groups:
        times = [(wait_s, wait_s + run_s, "") for wait_s, run_s in zip(one.wait_s, one.run_s, strict=True)]
        row_of(one.note.name, one.note.user, one.submit_s, times)
    return found


HISTORY = b"""; Diana: 1
; UnixStartTime: 1800000000
; Partition: 1 alpha
; PartitionSpeed: 1 1.5
; User: 1 ann@lab
; Group: 1 {"name":"alpha-1","user":"ann@lab","submit_s":0.5,"jobs":2,"components":"2x4","datasets":["d"]}
1 0.5 0.1 2.5 1 2.5 1024 1 2 -1 1 1 -1 1 1 1 -1 -1
2 0.5 0.1 2.25 1 2.5 1024 1 2 -1 0 1 -1 1 1 1 -1 -1
"""


SWF = b"; MaxProcs: 128\n; Note: a trace\n" + b"".join(
    b"%d %d 5 100.5 4 -1 -1 4 200 -1 1 %d 1 1 1 1 -1 -1\n" % (at, 60 * at, at % 3) for at in range(1, 5)
)


# --- what peers and callers say ----------------------------------------------------------------------


def frames(content: bytes) -> object:
    from diana.wire.frames import frame_length, read_from_client, read_from_node, read_request

    frame_length(content[:4])
    read_from_node(content)
    said = read_from_client(content)
    return read_request("Submit", said.request)


def statement(content: bytes) -> object:
    from diana.model.trust.ledger import Signed

    return Signed(content, b"", b"").statement


def spec(content: bytes) -> object:
    from diana.model.job.spec import decode_spec

    return decode_spec(content)


def peer_message(content: bytes) -> object:
    from diana.wire.peer_codec import decode_message

    return decode_message(content)


def members(content: bytes) -> object:
    from diana.adapters.subgrid.protocol import decode_batch, from_member, from_root

    for each in (from_root, from_member):
        try:
            each(content)
        except ValueError:
            continue
    return decode_batch(content)


def of_members() -> Sequence[bytes]:
    import msgspec

    return [msgspec.msgpack.encode([{"type": "hello", "term": 1}, ["started", 1, {"a": [1.5, None, b"x"]}]])]


def token(content: bytes) -> object:
    from diana.node.enrol.tokens import decode

    return decode(content.decode(errors="replace"))


def of_tokens() -> Sequence[bytes]:
    from diana.node.enrol.tokens import Token, encode

    one = Token(kind="site", seed=b"s" * 16, fingerprint=b"f" * 16, vo="lab", site="alpha", addresses=("b:1",))
    return [encode(one).encode()]


def pairs(content: bytes) -> object:
    from diana.node.pair.pair import decode
    from diana.node.pair.shelf import unpacked

    with suppress(ValueError):
        decode(content)
    return unpacked(content, 1)


def of_pairs() -> Sequence[bytes]:
    from diana.node.pair.pair import SeedReady, encode
    from diana.node.pair.shelf import packed
    from diana.ports import Batch

    return [encode(SeedReady(1, "ab")), packed(Batch(at_s=1.0, records=[b"a"], facts=[], term=1))]


def live_log(content: bytes) -> object:
    from diana.model.kept_log import decode_live

    return decode_live(content)


def of_live_logs() -> Sequence[bytes]:
    from diana.model.kept_log import LiveLog, encode_live

    return [encode_live(LiveLog("runs", 1, 0, 4, b"abcd", "", 100))]


ANSWERS = (
    b'{"response": {"status": {"group": "alpha-1", "jobs": 3}, "groups": [{"group": "alpha-1"}]}}',
    b'{"failure": {"kind": "usage", "message": "no such group"}}',
    b'{"response": {"token": "AQ", "kind": "site", "name": "", "addresses": ["b:1"], "expiresWallS": 1e9}}',
)


def answers(content: bytes) -> object:
    """As a client reads what a node answers."""
    from diana.wire.client.messages import METHODS
    from diana.wire.frames import read_from_node, read_response

    said = read_from_node(content)
    for method in METHODS:
        with suppress(ValueError):
            read_response(method, said.response)
    return said


def token_file(content: bytes) -> object:
    from diana.cli.sites.given_tokens import token_from
    from diana.node.enrol.tokens import decode

    return decode(token_from(f"@{put('token', content)}"))


# --- what a machine keeps beside its journal ---------------------------------------------------------


def claim_log(content: bytes) -> object:
    from diana.adapters.lrm.spawner.claims import claimlog
    from diana.adapters.lrm.spawner.claims.claimlog import LogDamaged
    from diana.adapters.lrm.spawner.claims.records import LogNewer

    log = put("claims.log", content)
    with suppress(LogDamaged, LogNewer, ValueError):
        claimlog.find(log)
    # A wounded frame has another checksum: so that more than that is seen, the wounded payload in a whole frame too.
    log.write_bytes(b"".join(_framed(each) for each in (_opened(), content) if each))
    return claimlog.find(log)


def _framed(payload: bytes) -> bytes:
    return b"\xd1\xa7" + len(payload).to_bytes(4, "big") + zlib.crc32(payload).to_bytes(4, "big") + payload


def _opened() -> bytes:
    return records()[0]


@cache
def records() -> list[bytes]:
    from diana.adapters.lrm.spawner.claims.records import encode
    from tests.contract.lrm.test_spawner_fixtures import life

    return [encode(each) for each in life()]


def of_claim_logs() -> Sequence[bytes]:
    from diana.adapters.lrm.spawner.claims.claimlog import ClaimLog
    from diana.adapters.lrm.spawner.claims.records import LogOpened, Term
    from diana.adapters.lrm.spawner.identity import MachineIdentity

    path = folder() / "example" / "claims.log"
    path.parent.mkdir(exist_ok=True)
    ClaimLog(path, [LogOpened(1, 1, 0, MachineIdentity("boot", 1, 2), 0.0, 0.0, "log-1"), Term(3)]).close()
    return [*records(), path.read_bytes(), b"".join(map(_framed, records()))]


def marks(content: bytes) -> object:
    """A mark that says nothing counts as none."""
    from diana.adapters.lrm.spawner.claims.logmark import beside, boot_id, read_mark
    from diana.adapters.sqlite_store.mark import Mark

    for path in (beside(folder() / "marked.log"), folder() / "journal.mark"):
        path.write_bytes(content)
    journal = Mark(folder() / "journal.db")
    try:
        said = journal.standing("ab", 5)
    finally:
        journal.close()
    found = read_mark(folder() / "marked.log")
    return said, found and found.least(boot_id())


MARKS = (
    b'{"log": "log-1", "boot": "b", "written": 7, "synced": 5}',
    b'{"db_uuid": "ab", "boot": "b", "ino": 4711, "seq": 5, "closed": true, "doubt": true}',
)


def notes(content: bytes) -> object:
    from diana.adapters.subgrid.notes import Notes

    return Notes(put("notes.json", content)).term


def replica(content: bytes) -> object:
    from diana.adapters.replica_link.saved import DurableFile
    from diana.node.pair.pair import Pair

    return DurableFile(put("replica.json", content), Pair).read()


def of_replicas() -> Sequence[bytes]:
    import msgspec

    from diana.node.pair.pair import Pair
    from diana.replica.messages import Saved

    return [msgspec.json.encode(Pair(other="s1", saved=Saved(), address="a:1"))]


def signers(content: bytes) -> object:
    from diana.node.enrol.signers import SignerBook

    return SignerBook(put("signers.json", content)).all()


def revoked(content: bytes) -> object:
    from diana.adapters.trust.revocations import read_file

    return read_file(put("revoked", content))


# --- what servers answer -----------------------------------------------------------------------------


class _Said:
    """A connection on which an answer has come."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._content)


def notify_answer(content: bytes) -> object:
    from diana.node.notify.sending import CannotTell, said_by

    connection: Any = _Said(content)
    answer = http.client.HTTPResponse(connection, method="POST")
    try:
        answer.begin()
    except (OSError, http.client.HTTPException) as fault:
        raise CannotTell(said_by(fault)) from None
    return answer.status


NOTIFY = (
    b"HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 302 Found\r\nLocation: https://a/\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
)


def store_answer(content: bytes) -> object:
    """Heads of an answer, as the three kinds of stores tell size and version by them."""
    from diana.adapters.staging.urls import http as of_web
    from diana.adapters.staging.urls import s3, sftp
    from diana.adapters.staging.urls.stores import StoreFault
    from diana.model.job.urls import check_url, redirected

    heads = dict(line.partition(": ")[::2] for line in content.decode(errors="replace").split("\n"))
    status = int(found) if re.fullmatch(r"[1-9][0-9]{2}", found := heads.get("Status", "")) else 200
    size = int(told) if re.fullmatch(r"-?[0-9]{1,40}", told := heads.get("Content-Length", "")) else None
    answer: Any = SimpleNamespace(status=status, headers=heads, size=size, type=1, mtime=heads.get("Last-Modified"))
    with suppress(ValueError):
        redirected(check_url("https://a.example/b"), heads.get("Location", ""))

    async def stat(_: str) -> Any:
        return answer

    looks = (
        lambda: of_web._check(answer) or of_web._version(answer),
        lambda: s3._version({**heads, "ContentLength": size}),
        lambda: s3._version({**heads}),
        lambda: asyncio.run(sftp._look(SimpleNamespace(stat=stat), "/a")),
    )
    versions = []
    for look in looks:
        with suppress(StoreFault):
            versions.append(look())
    assert all(0 <= version.size_bytes < 1 << 63 for version in versions)
    return versions


STORES = (
    b'Status: 200\nContent-Length: 120\nETag: "a1"\nLast-Modified: Tue, 25 Nov 2026 10:00:00 GMT',
    b'Status: 206\nContent-Range: bytes 0-0/9007199254740991\nETag: W/"a1"\nLocation: https://b.example/c?x=%2f',
)


# --- certificates ------------------------------------------------------------------------------------


@cache
def keys() -> Path:
    from diana.adapters.trust import certificates

    at = folder() / "keys"
    at.mkdir(exist_ok=True)
    certificates.make_vo("lab", at, site="alpha")
    certificates.issue_site(at, "alpha", at)
    return at


def chain(content: bytes) -> object:
    from cryptography import x509

    from diana.adapters.trust.chains import verify

    root = x509.load_pem_x509_certificate((keys() / "vo.pem").read_bytes())
    return verify(content, root, "lab")


def certificate_files(content: bytes) -> object:
    from diana.adapters.trust.reading import key_of, parse

    (first, *_) = parse((keys() / "vo.pem").read_bytes(), "vo.pem")
    with suppress(UsageError):
        parse(content, "file")
    return key_of(put("some.key", content), first)


def request(content: bytes) -> object:
    from diana.adapters.trust.authority import request_key

    return request_key(armoured("CERTIFICATE REQUEST", content))


def certificate(content: bytes) -> object:
    from diana.adapters.trust.certificates import identity_of
    from diana.adapters.trust.invites import invited_by
    from diana.node.enrol.service import proves_identity
    from diana.wire.renewal import is_answer

    shown, own = armoured("CERTIFICATE", content), (keys() / "site.pem").read_bytes()
    assert not invited_by(shown, [own])
    is_answer(own, shown)
    proves_identity(Identity("site", "alpha", "lab"), b"", (shown, b""), lambda _: "")
    with suppress(UsageError):
        certificate_files(shown)
    return identity_of(shown)


def armoured(what: str, content: bytes) -> bytes:
    """PEM as it is, all else as the DER in it: a wound to base64 seldom leaves something to parse."""
    if content.startswith(b"-----"):
        return content
    return f"-----BEGIN {what}-----\n{b64encode(content).decode()}\n-----END {what}-----\n".encode()


def der_of(pem: bytes) -> bytes:
    return b64decode(b"".join(line for line in pem.splitlines() if not line.startswith(b"-----")))


def of_keys() -> Sequence[bytes]:
    return [path.read_bytes() for path in sorted(keys().iterdir()) if path.suffix in (".pem", ".key")]


def of_certificates() -> Sequence[bytes]:
    root, site = ((keys() / name).read_bytes() for name in ("vo.pem", "site.pem"))
    return [der_of(root), der_of(site.partition(b"-----END")[0]), site]


def of_requests() -> Sequence[bytes]:
    from diana.adapters.trust.authority import new_key_and_request

    pem = new_key_and_request(Identity("site", "alpha", "lab"))[1]
    return [pem, der_of(pem)]


# --- batch systems -----------------------------------------------------------------------------------


def slurm(content: bytes) -> object:
    from diana.adapters.batch.systems import slurm_text as text

    said = content.decode(errors="replace")
    text.licences(said, {})
    text.completed(said, ["7"])
    text.starts_in_s(said, 0.0)
    tried(text.past, said)
    tried(lambda one: text.capacity(one, one, 0), said)
    return [(len(each.tasks), each) for each in text.listing(said)[0]]


def tried(read: Callable[[str], Any], said: str) -> None:
    from diana.adapters.batch.systems.system import BatchUnreachable

    with suppress(BatchUnreachable):
        read(said)


def gridengine(content: bytes) -> object:
    from diana.adapters.batch.systems import gridengine_text as text

    said = content.decode(errors="replace")
    tried(text.past, said)
    tried(lambda one: text.capacity(one, one, "8", 0, parallel=True), said)
    tried(lambda one: text.devices(one, "gpu"), said)
    tried(lambda one: text.declared(one, "gpu"), said)
    tried(lambda one: text.consumed(one, "gpu"), said)
    return text.listing(said)


def pbs(content: bytes) -> object:
    from diana.adapters.batch.systems import pbs_text as text

    said = content.decode(errors="replace")
    tried(text.past, said)
    tried(lambda one: text.capacity(one, one, one, "", 0), said)
    return text.listing(said)


def htcondor(content: bytes) -> object:
    from diana.adapters.batch.systems import htcondor_text as text

    said = content.decode(errors="replace")
    tried(text.past, said)
    tried(text.version, said)
    tried(lambda one: text.capacity(one, "23", one, "", 0), said)
    return text.listing(said)


SLURM = [
    b"7|0-99%8|PENDING|diana.abc.1|4|Priority\n7|3|RUNNING|diana.abc.1|4|None\n8|N/A|COMPLETING|by hand|1|None\n",
    b"7_[0-9,20:2]|CANCELLED by 0\n7_3|OUT_OF_ME+\n7_4.batch|TIMEOUT\n",
    b"0/16/0/16|16|64000|7-00:00:00|gpu:a100:4(S:0-1)|idle~|main*|n[1-4]|4\nMaxArraySize = 1001\nMaxJobCount = 10000\n",
    b"sbatch: Job 7 to start at 2026-11-25T10:00:00 using 4\nLicenseName=matlab Total=5 Used=1\n",
    b"JobId=8 UserId=a JobState=COMPLETED ArrayJobId=7 ArrayTaskId=3 EndTime=x\n",
]
GRID_ENGINE = [
    b'<job_info><queue_info><job_list state="running"><JB_job_number>7</JB_job_number><JB_name>diana.abc.1</JB_name>'
    b"<state>qw</state><slots>2</slots><tasks>3,5,9-20:1</tasks></job_list></queue_info></job_info>",
    b"<job_info><Queue-List><name>main.q@h</name><qtype>BIP</qtype><slots_used>1</slots_used>"
    b'<slots_total>8</slots_total><resource name="mem_total" type="hl">23.541G</resource>'
    b'<resource name="gpu">2.000</resource></Queue-List></job_info>',
    b"=====\njobnumber    7\ntaskid       3\nfailed       37  : qmaster enforced\nexit_status  137\n=====\n",
    b"hostname h\ncomplex_values   gpu=2,mem=4G\nmax_aj_tasks 75000\ngpu gpu INT <= YES JOB 0 0\n",
]
PBS = [
    b"Job Id: 7[].head\n    Job_Name = diana.abc.1\n    job_state = B\n    array_indices_remaining = 3,5-9\n\n"
    b"Job Id: 7[1].head\n    Job_Name = diana.abc.1\n    job_state = R\n    Resource_List.ncpus = 2\n\n",
    b"Job Id: 8.head\n    Job_Name = diana.a\n\tb.2\n    job_state = R\n    Variable_List = A=b,\n\tPBS_ARRAY_INDEX=2\n"
    b"    Exit_status = -29\n",
    b"node1\n     state = free\n     resources_available.ncpus = 8\n     resources_available.mem = 16384kb\n",
]
HTCONDOR = [
    b'[{"ClusterId": 7, "DianaToken": "abc.1", "DianaTask": 3, "JobStatus": 2, "RequestCpus": 2, "NumJobStarts": 1}]',
    b'[{"Name": "slot1@h", "SlotType": "Partitionable", "State": "Owner", "Cpus": 8, "TotalSlotCpus": 8}]\n10\n20\n',
    b"$CondorVersion: 23.9.6 2024-08-08 BuildID: 1 $",
]


def of_htcondor() -> Sequence[bytes]:
    from diana.adapters.batch.systems.htcondor_job import TASK, TOKEN

    return [each.replace(b"DianaToken", TOKEN.encode()).replace(b"DianaTask", TASK.encode()) for each in HTCONDOR]


# --- all of them -------------------------------------------------------------------------------------


def readers() -> dict[str, FuzzedReader]:
    from diana.adapters.batch.systems.system import BatchUnreachable
    from diana.adapters.lrm.spawner.claims.claimlog import LogDamaged
    from diana.adapters.lrm.spawner.claims.records import LogNewer
    from diana.adapters.trust.chains import Untrusted
    from diana.errors import Denied, StoreFailed
    from diana.node.notify.sending import CannotTell

    graph = [GRAPHML, GRAPHML.replace(b"<graphml", ENTITIES + b"<graphml", 1).replace(b">alpha<", b">&i;<")]
    scenarios = (SCENARIO, *repository("scenarios/two-sites.toml", "scenarios/three-clusters.toml")())
    usage, value, batch = (UsageError,), (ValueError,), (BatchUnreachable,)
    return {
        "job.toml": FuzzedReader(job_file("toml"), usage, repository("examples/sweep.toml", "examples/stages.toml")),
        "job.yaml": FuzzedReader(job_file("yaml"), usage, lambda: [JOBS_YAML]),
        "job.json": FuzzedReader(job_file("json"), usage, lambda: [JOBS_JSON]),
        "job.sh": FuzzedReader(job_file("script"), usage, lambda: [SCRIPT]),
        "rows.csv": FuzzedReader(table_of_rows, usage, lambda: [b"a,b\n1,x\n2,y\n", b'a\tb\n1\t"x ""y"""\n']),
        "site.toml": FuzzedReader(site_file, usage, repository("tests/release/0.1.0/site/site.toml")),
        "policy.toml": FuzzedReader(policy_file, usage, lambda: [b"work_threshold_s = 5\nmigration_gain_s = 1e3\n"]),
        "credential.toml": FuzzedReader(credential, usage, lambda: [CREDENTIAL]),
        "backup": FuzzedReader(manifest, usage, lambda: [MANIFEST]),
        "scenario.toml": FuzzedReader(scenario, usage, lambda: scenarios),
        "sites.csv": FuzzedReader(
            with_file('sites_from = {file = "s.csv", name = "site", slots = "cpus", speed = "speed"}', "s.csv"),
            usage,
            lambda: [SITES_CSV],
        ),
        "sites.csv.gz": FuzzedReader(
            with_file('sites_from = {file = "s.csv.gz", name = "site", slots = "cpus"}', "s.csv.gz"),
            usage,
            lambda: [gzip.compress(SITES_CSV)],
        ),
        "rtts.csv": FuzzedReader(with_file('rtt_from = "r.csv"', "r.csv"), usage, lambda: [RTTS_CSV]),
        "net.graphml": FuzzedReader(with_file('links_from = "n.graphml"', "n.graphml"), usage, lambda: graph),
        "trace.swf": FuzzedReader(trace, usage, lambda: [SWF, gzip.compress(SWF)]),
        "history.swf": FuzzedReader(history, usage, lambda: [HISTORY, gzip.compress(HISTORY)]),
        "frames": FuzzedReader(
            frames, value, lambda: [b'{"version":1,"method":"Submit","request":{"content":"YQ==","format":"toml"}}']
        ),
        "statement": FuzzedReader(
            statement,
            value,
            lambda: [b'{"form":1,"kind":"policy","about":"policy","values":{"keep_s":5},"wall_s":1,"signer":"a"}'],
        ),
        "spec": FuzzedReader(
            spec, value, lambda: [b'{"command":["x"],"sweep":{"axes":[{"name":"a","values":["1"]}]}}']
        ),
        "peer": FuzzedReader(peer_message, value, lambda: [bytes.fromhex("0a0a08011206616c70686101")]),
        "members": FuzzedReader(members, value, of_members),
        "token": FuzzedReader(token, usage, of_tokens),
        "token.file": FuzzedReader(token_file, usage, of_tokens),
        "answers": FuzzedReader(answers, value, lambda: ANSWERS),
        "live": FuzzedReader(live_log, value, of_live_logs),
        "pairs": FuzzedReader(pairs, value, of_pairs),
        "claims": FuzzedReader(claim_log, (LogDamaged, LogNewer, ValueError), of_claim_logs),
        "marks": FuzzedReader(marks, (), lambda: MARKS),
        "notes": FuzzedReader(notes, (StoreFailed,), lambda: [b'{"identity":"ab","term":3,"leaders":["a:1"]}']),
        "replica": FuzzedReader(replica, (StoreFailed,), of_replicas),
        "signers": FuzzedReader(signers, usage, lambda: [b'{"alpha":"a:1","beta":""}']),
        "revoked": FuzzedReader(revoked, usage, lambda: [b"# gone\nsite:beta\n0123abcd # a key\nuser:ann@lab\n"]),
        "notify": FuzzedReader(notify_answer, (CannotTell,), lambda: NOTIFY),
        "stores": FuzzedReader(store_answer, (), lambda: STORES),
        "chain": FuzzedReader(chain, (Untrusted,), of_keys),
        "keys": FuzzedReader(certificate_files, usage, of_keys),
        "request": FuzzedReader(request, (Denied,), of_requests),
        "certificate": FuzzedReader(certificate, (Denied,), of_certificates),
        "slurm": FuzzedReader(slurm, batch, lambda: SLURM),
        "gridengine": FuzzedReader(gridengine, batch, lambda: GRID_ENGINE),
        "pbs": FuzzedReader(pbs, batch, lambda: PBS),
        "htcondor": FuzzedReader(htcondor, batch, of_htcondor),
    }


NAMES = (
    *("job.toml", "job.yaml", "job.json", "job.sh", "rows.csv", "site.toml", "policy.toml", "credential.toml"),
    *("backup", "scenario.toml", "sites.csv", "sites.csv.gz", "rtts.csv", "net.graphml", "trace.swf", "history.swf"),
    "frames",
    *("statement", "spec", "peer", "members", "token", "token.file", "answers", "live", "pairs"),
    *("claims", "marks", "notes", "replica", "signers", "revoked", "notify", "stores"),
    *("chain", "keys", "request", "certificate"),
    *("slurm", "gridengine", "pbs", "htcondor"),
)
