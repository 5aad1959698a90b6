"""Checks of the questions about gangs that types cannot say."""

from __future__ import annotations

import math

from diana.gang_plug_ins import policies
from diana.policy.gang.policies import SHORT, request_in
from diana.sim.specs.gang_spec import ClaimQuestion, GangTables, ScanQuestion
from diana.sim.specs.names import known

MOST_IDLE = 10_000_000


def check_gangs(tables: GangTables) -> None:
    """ValueError names the key, the value and the range."""
    for number, question in enumerate(tables.placements):
        at = f"gangs.placements[{number}]"
        known(question.policy, (*SHORT, *policies()), f"{at}.policy")
        if not question.sites:
            raise ValueError(f"{at}.sites: none; name at least one, as {{ C1 = 18 }}")
        for name, idle in question.sites.items():
            if not 0 <= idle <= MOST_IDLE:
                raise ValueError(f"{at}.sites: {name} = {idle}: want 0 to {MOST_IDLE:,} idle processors")
        try:
            request_in(question.request)
        except ValueError as error:
            raise ValueError(f"{at}.request: {error}") from None
    if tables.claims is not None:
        _check_claims(tables.claims)
    if tables.scan is not None:
        _check_scan(tables.scan)


def _check_claims(claims: ClaimQuestion) -> None:
    for key in ("placed_s", "transfer_s"):
        value = getattr(claims, key)
        if not (math.isfinite(value) and 0 <= value <= 1e12):
            raise ValueError(f"gangs.claims: {key} = {value}: want seconds, 0 to 1e12")
    if not 0 <= claims.part <= 1:
        raise ValueError(f"gangs.claims: part = {claims.part}: want 0 to 1")
    if not 1 <= claims.tries <= 10_000:
        raise ValueError(f"gangs.claims: tries = {claims.tries}: want 1 to 10,000")


def _check_scan(scan: ScanQuestion) -> None:
    for key in ("higher", "lower", "n1", "n2", "n3", "n4"):
        if not 1 <= getattr(scan, key) <= 100:
            raise ValueError(f"gangs.scan: {key} = {getattr(scan, key)}: want 1 to 100")
