"""Checks of the network: links, routers, routes and transfers."""

from __future__ import annotations

from collections.abc import Sequence

from diana.sim.specs.link_spec import LinkSpec, LinksSpec, TransferSpec
from diana.sim.specs.names import known
from diana.sim.specs.scenario_spec import Scenario


def check_links(scenario: Scenario, names: tuple[str, ...]) -> None:
    """ValueError names the key, the value and the mend. `topology.Topology` checks what no single entry shows."""
    places = tuple(dict.fromkeys((*names, *scenario.routers)))
    for number, router in enumerate(scenario.routers):
        if not router or router in scenario.routers[:number]:
            raise ValueError(f"routers: {router!r}: want a name, each once")
        if any(site.name == router and site.node != router for site in scenario.sites):
            raise ValueError(f"routers: {router!r} is a site too; name it otherwise")
    for site in scenario.sites:
        if site.node:
            known(site.node, scenario.routers, f"sites {site.name}: node")
    for link in scenario.links:
        at = f"links {link.called()}"
        for end in link.between:
            known(end, places, "links: between")
        if link.between[0] == link.between[1]:
            raise ValueError(f"{at}: both ends are {link.between[0]!r}; name two")
        _figures(at, link)
    _check_once(scenario, names)
    _figures("default_link", scenario.default_link)
    _check_routes(scenario, names)
    _check_transfers(scenario.transfers, names)


def _check_once(scenario: Scenario, names: tuple[str, ...]) -> None:
    """Refuse two links of a pair of sites: one of them would never be used, but by a route that names it."""
    routed = {name for route in scenario.routes for name in route.links}
    sites, seen = set(names) - set(scenario.routers), set[frozenset[str]]()
    for link in scenario.links:
        pair = frozenset(link.between)
        if link.called() in routed or not pair <= sites:
            continue
        if pair in seen:
            raise ValueError(
                f"links: {' and '.join(link.between)} are linked twice; a link is the same both ways, leave one out"
            )
        seen.add(pair)


def _check_routes(scenario: Scenario, names: tuple[str, ...]) -> None:
    if not scenario.routes:
        return
    links: dict[str, int] = {}
    for link in scenario.links:
        links[link.called()] = links.get(link.called(), 0) + 1
    called = tuple(links)
    for route in scenario.routes:
        at = f"routes {'-'.join(route.between)}"
        for end in route.between:
            known(end, names, f"{at}: between")
        if route.between[0] == route.between[1]:
            raise ValueError(f"{at}: both ends are {route.between[0]!r}; name two sites")
        if route.latency_s >= 0 and not 0 < route.latency_s <= 3600:
            raise ValueError(f"{at}: latency_s = {route.latency_s}: want more than 0, up to 3600")
        for name in route.links:
            known(name, called, f"{at}: links")
            if links[name] > 1:
                raise ValueError(f"{at}: links: {links[name]} links are called {name!r}; give them a `name` each")


def _check_transfers(transfers: Sequence[TransferSpec], names: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for one in transfers:
        at = f"transfers {one.name}"
        if not one.name or one.name in seen:
            raise ValueError(f"transfers: name = {one.name!r}: want a name, each once")
        seen.add(one.name)
        known(one.source, names, f"{at}: source")
        known(one.to, names, f"{at}: to")
        if one.source == one.to:
            raise ValueError(f"{at}: source and to are both {one.to!r}; name two sites")
        for key, value, high in (
            ("size_bytes", one.size_bytes, 10**18),
            ("at_s", one.at_s, 1e9),
            ("every_s", one.every_s, 1e9),
        ):
            if not 0 <= value <= high:
                raise ValueError(f"{at}: {key} = {value}: want 0 to {high:g}")
        if not 1 <= one.repeat <= 10**6:
            raise ValueError(f"{at}: repeat = {one.repeat}: want 1 to 1e+06")


def _figures(at: str, link: LinkSpec | LinksSpec) -> None:
    latency_s, bytes_per_s = link.latency_s, link.bytes_per_s
    if not 0 < latency_s <= 3600:
        raise ValueError(f"{at}: latency_s = {latency_s}: want more than 0, up to 3600")
    if not 0 < bytes_per_s <= 1e15:
        raise ValueError(f"{at}: bytes_per_s = {bytes_per_s}: want more than 0, up to 1e+15")
    if not 0 <= link.loss <= 0.9:
        raise ValueError(f"{at}: loss = {link.loss}: want 0 to 0.9")
    if not 0 <= link.noise < 1:
        raise ValueError(f"{at}: noise = {link.noise}: want 0 to less than 1")
