"""Values the engine's tests are made of: principals, specs, facts, a keyring that trusts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.data import DataFile, RegisteredDataset, dataset_of
from diana.model.facts import Facts, JobError, Outcome, OutputFile
from diana.model.ids import GroupId, SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.job.spec import Axis, GroupSpec, Outputs, Resources, Sweep
from diana.model.trust.principal import Principal, Role
from diana.policy.trust.statement import spec_hash

ALICE = Principal(Role.USER, "alice@vo")
BOB = Principal(Role.USER, "bob@vo")
OPERATOR = Principal(Role.OPERATOR, "root@vo")


class PlainKeyring:
    """Signs by saying so and believes it; the hash of the spec is compared."""

    def authorise(self, owner: str, group: GroupId, spec: bytes) -> ms.Authorisation:
        return authorisation(owner, group, spec)

    def check(self, authorisation: ms.Authorisation, spec: bytes) -> str:
        return "" if authorisation.spec_sha256 == spec_hash(spec) else "the authorisation is for another spec"

    def sign_statement(self, payload: bytes) -> tuple[bytes, bytes]:
        return b"plain", payload

    def check_statement(
        self, payload: bytes, chain_pem: bytes, signature: bytes, signer: str = "", said_s: float = 0.0
    ) -> str:
        return "" if (chain_pem, signature) == (b"plain", payload) else "the signature does not fit"


def authorisation(owner: str, group: GroupId, spec: bytes) -> ms.Authorisation:
    return ms.Authorisation(
        owner=owner,
        spec_sha256=spec_hash(spec),
        group=group,
        expires_wall_s=1e12,
        signer="site:x",
        certificate=b"",
        signature=b"",
    )


def spec(
    jobs: int = 1,
    *,
    work_s: float = 1.0,
    processors: int = 1,
    collect: Sequence[str] = (),
    merge: Sequence[str] = (),
    sites: Sequence[str] = (),
    **more: object,
) -> GroupSpec:
    return GroupSpec(
        argv=("true",),
        sweep=Sweep(axes=(Axis(name="n", start=0, stop=jobs),)),
        resources=Resources(work_s=work_s, processors=processors),
        outputs=Outputs(collect=tuple(collect), merge=tuple(merge)),
        sites=tuple(sites),
        **more,  # type: ignore[arg-type]
    )


def whole(jobs: int) -> IndexSet:
    return IndexSet.span(0, jobs)


def facts_of(
    site: SiteId, runs: Sequence[ev.Run], outcome: Outcome, now: float, outputs: Sequence[str] = (), error: str = ""
) -> Facts:
    count = len(runs)
    return Facts(
        site=site,
        indices=[r.index for r in runs],
        attempts=[r.attempt for r in runs],
        outcomes=[int(outcome)] * count,
        exit_codes=[0 if outcome is Outcome.DONE else 1] * count,
        started_s=[now] * count,
        ended_s=[now] * count,
        cpu_s=[0.0] * count,
        max_rss_bytes=[0] * count,
        log_segments=[""] * count,
        log_offsets=[0] * count,
        log_lengths=[0] * count,
        log_truncated=[False] * count,
        outputs=[OutputFile(r.index, f"{r.index}/{name}", 1, "0" * 64) for r in runs for name in outputs],
        errors=[JobError(r.index, error) for r in runs if error],
    )


def no_facts(site: SiteId) -> Facts:
    return facts_of(site, [], Outcome.DONE, 0.0)


def result(
    site: str,
    subgroup: str,
    indices: Sequence[int],
    *,
    epoch: int = 1,
    batch: int = 0,
    cancelled: Sequence[int] = (),
    outcome: Outcome = Outcome.DONE,
) -> ms.Result:
    """As an executing site would send it; also what a forger would."""
    runs = [ev.Run(SubgroupId(subgroup), epoch, i, 1) for i in indices]
    facts = facts_of(SiteId(site), runs, outcome, 1000.0)
    cut = IndexSet.of(cancelled)
    return ms.Result(subgroup=SubgroupId(subgroup), epoch=epoch, batch=batch, facts=facts, cancelled=cut)


FILES: dict[str, tuple[DataFile, ...]] = {}
"""Manifest digest -> files: what every bench site's catalogue would say of a dataset."""


def looked_up(known: Mapping[str, RegisteredDataset], order: fx.LookUp) -> ev.LookedUp:
    """A stager's answer at a site where these datasets are registered. Behind every URL lie 1000 bytes."""
    units = {d.unit.ref: d.unit for d in known.values()} | {f.ref: f for d in known.values() for f in FILES[d.digest]}
    found = tuple(units[ref] for ref in order.refs if ref in units)
    found += tuple(DataFile(ref, 1000, hash_of(ref)) for ref in order.refs if ref.startswith("url:"))
    unknown = tuple(ref for ref in order.refs if ref not in units and dataset_of(ref) in known)
    return ev.LookedUp(ticket=order.ticket, found=found, unknown=unknown)


def dataset(name: str, *files: str, size_bytes: int = 1000) -> RegisteredDataset:
    """Its files are known to every bench site whose engine registers it."""
    some = tuple(DataFile(f"dataset:{name}/{f}", size_bytes, f"{hash_of(name, f)}") for f in sorted(files))
    made = RegisteredDataset(
        name=name, digest=hash_of(name, *sorted(files)), files=len(some), size_bytes=size_bytes * len(some)
    )
    FILES[made.digest] = some
    return made


def hash_of(*parts: str) -> str:
    return spec_hash("/".join(parts).encode())


def kinds(effects: Sequence[fx.Effect]) -> list[str]:
    """Effects by name, records by theirs: what a trace of one event reads like."""
    return [type(e.record if isinstance(e, fx.Persist) else e).__name__ for e in effects]
