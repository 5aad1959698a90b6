"""Invitations given and followed by commands of their own, for tests of joining."""

from __future__ import annotations

import json

from diana.adapters.trust import certificates
from diana.model.layout import DataDir
from tests.e2e.grid import Grid, Site, free_port


def planned(grid: Grid, name: str) -> Site:
    """A site that is yet to join."""
    site = Site(name, grid.root / name, free_port(), grid.mark)
    grid.sites[name] = site
    return site


def first(grid: Grid, name: str = "alpha", slots: int = 2) -> Site:
    site = grid.add(name, slots=slots, own_vo=True)
    site.start()
    return site


def invited(grid: Grid, inviter: Site, *words: str) -> str:
    done = grid.run(inviter, "invite", "--data", str(inviter.data), "--json", *words)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["token"])


def joined(grid: Grid, inviter: Site, name: str, slots: int = 2) -> Site:
    site = planned(grid, name)
    token = invited(grid, inviter)
    done = grid.run(
        inviter, "join", token, name, "--data", str(site.data), "--listen", site.address, "--slots", str(slots)
    )
    assert done.returncode == 0, done.stderr
    return site


def refused(grid: Grid, site: Site, *words: str, code: int = 2) -> str:
    """The one line on standard error; nothing was made."""
    data = grid.root / "refused"
    done = grid.run(site, *words, "--data", str(data))
    assert (done.returncode, done.stdout) == (code, ""), done.stdout + done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("diana: "), done.stderr
    assert not data.exists()
    return done.stderr


def audited(site: Site) -> list[dict[str, str]]:
    return [json.loads(line) for line in site.paths.audit.read_text().splitlines()]


def shorten(site: Site, signer: Site, life_s: float) -> None:
    """Give a site a certificate of so short a life, with the key it has."""
    keys = DataDir(site.data).keys
    certificates.issue_site(signer.paths.keys, site.name, keys, valid_days=life_s / 86_400.0)
