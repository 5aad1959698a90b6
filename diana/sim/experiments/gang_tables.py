"""Answers to the questions of a scenario about gangs, by the code that places real ones."""

from __future__ import annotations

from typing import Any

from diana.gang_plug_ins import policies
from diana.policy.gang.claim_times import ClaimSchedule
from diana.policy.gang.policies import SHORT, request_in
from diana.policy.gang.queues import ScanWeights
from diana.policy.gang.requests import FlexibleRequest, GangPlacement, Rooms, SiteRoom
from diana.sim.specs.gang_spec import ClaimQuestion, GangTables, PlacementQuestion, ScanQuestion


def answers(tables: GangTables) -> dict[str, Any]:
    """Return the tables as they are printed by `--json`: a placement is the sites of its components, or null."""
    told: dict[str, Any] = {}
    if tables.placements:
        told["placements"] = [
            {
                "idle": "/".join(str(idle) for idle in question.sites.values()),
                "request": question.request,
                "policy": question.policy,
                "placed": _placed(question),
            }
            for question in tables.placements
        ]
    if tables.claims is not None:
        told["claim_times"] = _claim_times(tables.claims)
    if tables.scan is not None:
        told["scan_order"] = _scan_order(tables.scan)
    return told


def differences(tables: GangTables) -> list[str]:
    """Return a line for each answer that is not the expected one."""
    wrong: list[str] = []
    for question in tables.placements:
        got = _placed(question) or []
        if got != list(question.expect):
            who = f"{question.policy} {question.request} on {'/'.join(map(str, question.sites.values()))}"
            wrong.append(
                f"{who}: {', '.join(got) or 'no place'}, and {', '.join(question.expect) or 'none'} is expected"
            )
    if (claims := tables.claims) is not None and claims.expect and _claim_times(claims) != list(claims.expect):
        wrong.append(f"claim times: {_claim_times(claims)}, and {list(claims.expect)} are expected")
    if (scan := tables.scan) is not None and scan.expect and _scan_order(scan) != list(scan.expect):
        wrong.append(f"scan order: {_scan_order(scan)}, and {list(scan.expect)} is expected")
    return wrong


def _placed(question: PlacementQuestion) -> list[str] | None:
    rooms = Rooms([SiteRoom(name, idle, idle) for name, idle in question.sites.items()])
    policy = policies()[SHORT.get(question.policy, question.policy)]
    request = request_in(question.request)
    answer = policy(request, rooms, _near, None)
    if not isinstance(answer, GangPlacement):
        return None
    flexible = isinstance(request, FlexibleRequest)
    return [f"{part.processors}@{part.site}" if flexible else part.site for part in answer.parts]


def _near(source: str, site: str, size: float) -> float:
    return 0.0


def _claim_times(claims: ClaimQuestion) -> list[float]:
    return ClaimSchedule(claims.placed_s, claims.transfer_s, claims.part).times(claims.tries)


def _scan_order(scan: ScanQuestion) -> list[str]:
    return [level.short for level in _weights(scan).round()]


def _weights(scan: ScanQuestion) -> ScanWeights:
    return ScanWeights(scan.higher, scan.lower, scan.n1, scan.n2, scan.n3, scan.n4)


def doubts(tables: GangTables) -> list[str]:
    """Return a line for each weight that the paper would have otherwise; it is no mistake (SPEC K4)."""
    return [f"diana: gangs.scan: {line}" for line in _weights(tables.scan).doubts()] if tables.scan else []


def text(told: dict[str, Any]) -> str:
    """Return the tables for people."""
    lines: list[str] = []
    rows = [
        (each["policy"], each["request"], each["idle"], ", ".join(each["placed"] or ["no place"]))
        for each in told.get("placements", [])
    ]
    if rows:
        rows.insert(0, ("POLICY", "REQUEST", "IDLE", "PLACED"))
        widths = [max(len(row[at]) for row in rows) for at in range(3)]
        lines += ["  ".join([*(row[at].ljust(widths[at]) for at in range(3)), row[3]]) for row in rows]
    if "claim_times" in told:
        lines.append(f"claim times  {', '.join(f'{due:.10g}' for due in told['claim_times'])}")
    if "scan_order" in told:
        lines.append(f"scan order   {', '.join(told['scan_order'])}")
    return "\n".join(lines) + "\n"
