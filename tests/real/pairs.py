"""A standby beside a site of a grid, for tests that pull the plug on either machine."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from diana.adapters.trust import certificates
from diana.errors import DianaError
from diana.node.config.setup import init_user
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, free_port, until

IN_SYNC_S = 110.0


def add_standby(grid: Grid, site: Site, witness: str, machine: str = "spare", *, made: Site | None = None) -> Site:
    """A second machine of `site`, not started, with a certificate of its own; both know where the witness is. `made`:
    that machine, where it is not to be one on loopback."""
    spare = made or Site(machine, grid.root / machine, free_port(), grid.mark)
    spare.paths.root.mkdir(mode=0o700, exist_ok=made is not None)
    spare.paths.keys.mkdir(mode=0o700)
    first = next(iter(grid.sites.values()))
    certificates.issue_site(first.paths.keys, load_config(site.paths.config).site, spare.paths.keys)
    config = load_config(site.paths.config)
    write_config(
        spare.paths.config,
        msgspec.structs.replace(
            config, listen=spare.address, role="standby", machine=machine, root=(site.address,), witness=witness
        ),
    )
    write_config(site.paths.config, msgspec.structs.replace(config, witness=witness))
    grid.sites[machine] = spare
    return spare


def durability(site: Site) -> int:
    """The term the machine says of itself: 0 where it follows or does not answer."""
    try:
        with site.client() as client:
            return client.info().durability
    except DianaError:
        return 0


def settled(site: Site) -> bool:
    """Whether it leads with a standby in sync, and with its witness where it was told of one."""
    if durability(site) != 2:
        return False
    try:
        with site.client() as client:
            return load_config(site.paths.config).witness in ("", client.peers().witness)
    except DianaError:
        return False


def in_sync(site: Site, within_s: float = IN_SYNC_S, *, other: Site | None = None) -> None:
    """`other`: the standby, whose story is told as well where it does not come to that."""

    def story() -> str:
        told = [one.story() for one in (site, other) if one is not None]
        return "\n".join((f"{site.name} has a standby in sync", *told))

    until(lambda: settled(site), story, within_s, 0.1)


def takes_over(site: Site, within_s: float = 60.0) -> float:
    """Seconds until the machine leads."""
    begun = time.monotonic()
    until(lambda: durability(site) > 0, lambda: f"{site.name} leads\n{site.story()}", within_s, 0.05)
    return time.monotonic() - begun


def user_of(grid: Grid, *machines: Site) -> Path:
    """A user's credential that knows all these machines of the site."""
    folder = grid.root / "ann"
    init_user(next(iter(grid.sites.values())).data, "ann", folder)
    addresses = ", ".join(f'"{machine.address}"' for machine in machines)
    with (folder / "credential.toml").open("a") as file:
        file.write(f"addresses = [{addresses}]\n")
    return folder
