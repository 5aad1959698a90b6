"""Networks from files: links from GraphML as the Internet Topology Zoo writes it, latencies from tables of round-trip
times.

The files become `routers`, `links` and `routes` of the scenario, which then needs the files no more. ValueError is one
line that names the file, the edge, line or site, and the mend."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from diana.bounds import MOST_GRAPH_BYTES, MOST_TABLE_BYTES, check_xml, opened
from diana.sim.scenario.expansion import with_all_sites
from diana.sim.specs.link_spec import LinkSpec, RouteSpec
from diana.sim.specs.names import known
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.specs.site_spec import SiteSpec

_SPEED = re.compile(r"(\d+(?:\.\d+)?)(?:\s*/\s*(\d+(?:\.\d+)?))?\s*([kmgt]?)(?:bit/s|bps|b/s|bits/s)", re.IGNORECASE)
_SCALE = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_PLACES = ("label", "geocode_name", "name", "geocode_country", "Country")
"""Attributes by which a site may name its node; the first that has the name exactly once decides."""
_RTT = ("rtt_ms", "rtt_avg", "avg", "rtt")
_Rtts = tuple[dict[tuple[str, str], float], dict[str, str]]
"""Milliseconds by (from, to), and each place's names in small letters -> the one by which it is kept."""
_ENDS = (("src", "dst"), ("source", "destination"), ("from", "to"))


def imported(scenario: Scenario, folder: Path) -> Scenario:
    scenario = with_all_sites(scenario, folder)
    if scenario.links_from:
        scenario = _with_graph(scenario, folder)
    if scenario.rtt_from:
        scenario = _with_rtts(scenario, folder)
    return scenario


# --- GraphML -----------------------------------------------------------------------------------------


def _with_graph(scenario: Scenario, folder: Path) -> Scenario:
    at = f"links_from: {scenario.links_from}"
    nodes, edges = _read_graph(folder / scenario.links_from, at)
    links: list[LinkSpec] = []
    seen: set[tuple[str, str]] = set()
    for number, (a, b, about, directed) in enumerate(edges):
        ends = f"{nodes[a].get('label', a)}-{nodes[b].get('label', b)}"
        name = str(about.get("id") or f"e{number}")
        if a == b or (directed and (b, a) in seen):
            # The way back of a link that has both directions already.
            continue
        seen.add((a, b))
        edge = f"{at}: edge {name} ({ends})"
        links.append(
            LinkSpec(
                (a, b),
                _number(about, "latency_s", edge) or scenario.default_link.latency_s,
                _speed(about, edge),
                scenario.default_link.loss,
                scenario.default_link.noise,
                name,
            )
        )
    find = _finder(nodes)
    linked = {end for link in scenario.links for end in link.between}
    sites = tuple(
        site if site.name in linked and not site.node else msgspec.structs.replace(site, node=_node_of(site, find, at))
        for site in scenario.sites
    )
    return msgspec.structs.replace(
        scenario,
        sites=sites,
        links=(*links, *scenario.links),
        routers=(*nodes, *scenario.routers),
        links_from="",
    )


def _read_graph(path: Path, at: str) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str, dict[str, Any], bool]]]:
    import networkx

    try:
        with opened(path, MOST_GRAPH_BYTES) as file:
            check_xml(file)
        with opened(path, MOST_GRAPH_BYTES) as file:
            graph = networkx.read_graphml(file)
    except OSError as e:
        raise ValueError(f"{at}: {(e.strerror or str(e)).lower()}; give the path of a GraphML file") from None
    except Exception as e:
        # The reader's own, an XML parser's, a number's: all mean the same to whoever gave the file.
        raise ValueError(f"{at}: no GraphML: {str(e).splitlines()[0] if str(e) else type(e).__name__}") from None
    nodes = {str(name): dict(about) for name, about in graph.nodes(data=True)}
    directed = bool(graph.is_directed())
    stands = _in_the_file(path, directed, at)
    edges = [(str(a), str(b), dict(about), directed) for a, b, about in graph.edges(data=True)]
    return nodes, sorted(edges, key=lambda edge: stands[_ends(edge[0], edge[1], directed)])


def _in_the_file(path: Path, directed: bool, at: str) -> dict[tuple[str, str], int]:
    """The place of each edge, which the reader's graph does not keep. ValueError: one joins a node that the file has
    not, which the reader makes up."""
    places: dict[tuple[str, str], int] = {}
    nodes: dict[str, None] = {}
    edges: list[tuple[str, str, str]] = []
    for kind, one in _of_the_first_graph(path):
        if kind == "node":
            nodes[one.get("id", "")] = None
        elif kind == "edge":
            a, b = one.get("source", ""), one.get("target", "")
            places.setdefault(_ends(a, b, directed), len(edges))
            edges.append((one.get("id") or f"e{len(edges)}", a, b))
    for name, *ends in edges:
        for end in ends:
            if end not in nodes:
                known(end, tuple(nodes), f"{at}: edge {name}")
    return places


def _of_the_first_graph(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Kind and attributes of its elements; the reader, too, reads no other graph of the file."""
    from xml.etree import ElementTree

    depth = 0
    with opened(path, MOST_GRAPH_BYTES) as file:
        for event, one in ElementTree.iterparse(file, ("start", "end")):
            kind = one.tag.rpartition("}")[2]
            if kind == "graph":
                depth += 1 if event == "start" else -1
                if not depth:
                    return
            elif event == "start":
                yield kind, one.attrib


def _ends(a: str, b: str, directed: bool) -> tuple[str, str]:
    return (a, b) if directed or a <= b else (b, a)


def _speed(about: dict[str, Any], at: str) -> float:
    """Bytes per second: `bytes_per_s`; the Zoo's `LinkSpeedRaw`, in bits; or a text such as `10 Gbps`, `34/45 Mbit/s`
    (the lower)."""
    given = _number(about, "bytes_per_s", at)
    if given is not None:
        return given
    bits = _number(about, "LinkSpeedRaw", at)
    if bits is not None:
        return bits / 8
    label = next((str(about[key]) for key in ("label", "LinkLabel") if about.get(key)), "")
    found = _SPEED.search(label)
    if found is None:
        said = f"label {label!r} tells no speed" if label else "no speed"
        raise ValueError(f"{at}: {said}; give the edge a label like '10 Gbps' or an attribute bytes_per_s")
    low, high, unit = found.groups()
    bits = min(float(low), float(high or low)) * _SCALE[unit.lower()]
    if bits <= 0:
        raise ValueError(f"{at}: label {label!r}: a speed of 0; give more, or leave the edge out")
    return bits / 8


def _number(about: dict[str, Any], key: str, at: str) -> float | None:
    value = about.get(key)
    if value is None or value == "":
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 < number < 1e18:
        raise ValueError(f"{at}: {key} = {value!r}: want a number more than 0")
    return number


def _finder(nodes: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Names by which a site may call a node, in small letters -> its id."""
    find: dict[str, str] = {}
    for key in reversed(_PLACES):
        texts = Counter(str(about.get(key) or "").casefold() for about in nodes.values())
        find |= {
            text: name for name, about in nodes.items() if texts[text := str(about.get(key) or "").casefold()] == 1
        }
    find |= {name.casefold(): name for name in nodes}
    find.pop("", None)
    return find


def _node_of(site: SiteSpec, find: dict[str, str], at: str) -> str:
    wanted = site.node or site.name
    return _one_of(
        find, wanted, f"sites {site.name}: node: no node of {at.partition(': ')[2]} is called {wanted!r}", "node"
    )


def _one_of(find: dict[str, str], wanted: str, error: str, key: str) -> str:
    if wanted.casefold() not in find:
        near = get_close_matches(wanted.casefold(), find, 1, 0.6)
        known = f"known: {', '.join(list(find)[:8])}"
        raise ValueError(f"{error}; " + (f"did you mean {near[0]!r}?" if near else f"set `{key}`; {known}"))
    return find[wanted.casefold()]


# --- round-trip times --------------------------------------------------------------------------------


def _with_rtts(scenario: Scenario, folder: Path) -> Scenario:
    """Half the mean of both directions is the latency of each pair of sites that has neither link nor route of its
    own."""
    at = f"rtt_from: {scenario.rtt_from}"
    rtt_ms, places = _read_rtts(folder / scenario.rtt_from, at)
    own = {frozenset(link.between) for link in scenario.links} | {frozenset(route.between) for route in scenario.routes}
    links, routes = list(scenario.links), list(scenario.routes)
    default = scenario.default_link
    for one, other in combinations(scenario.sites, 2):
        if frozenset((one.name, other.name)) in own:
            continue
        a, b = (_place_of(site, places, scenario, at) for site in (one, other))
        ways = [rtt_ms[pair] for pair in ((a, b), (b, a)) if pair in rtt_ms]
        if not ways and scenario.rtt_missing == "default":
            continue
        if not ways:
            raise ValueError(
                f"{at}: no line for {a} and {b}; add one, or a link of "
                f"sites {one.name} and {other.name}, or say rtt_missing = 'default'"
            )
        between, latency_s = (one.name, other.name), sum(ways) / len(ways) / 2000
        if scenario.routers:
            routes.append(RouteSpec(between, (), latency_s))
        else:
            links.append(LinkSpec(between, latency_s, default.bytes_per_s, default.loss, default.noise))
    sites = tuple(msgspec.structs.replace(site, place="") for site in scenario.sites)
    return msgspec.structs.replace(scenario, sites=sites, links=tuple(links), routes=tuple(routes), rtt_from="")


def measured_places(path: Path, name: str) -> frozenset[str]:
    """Names of all places there, in small letters."""
    return frozenset(_read_rtts(path, f"rtt_from: {name}")[1])


def _place_of(site: SiteSpec, places: dict[str, str], scenario: Scenario, at: str) -> str:
    """Place of a site; empty: it has none, and the pair is like `default_link`."""
    wanted = site.place or site.name
    if scenario.rtt_missing == "default" and wanted.strip().casefold() not in places:
        return ""
    return _one_of(
        places, wanted, f"sites {site.name}: place: no line of {at.partition(': ')[2]} has {wanted!r}", "place"
    )


def _read_rtts(path: Path, at: str) -> _Rtts:
    """Round-trip times and names of places. Several lines of a pair count as their mean; a name that two places have,
    as towns do, is the first one's."""
    try:
        with io.TextIOWrapper(opened(path, MOST_TABLE_BYTES), encoding="utf-8", newline="") as file:
            return _rtt_rows(csv.reader(file), at)
    except OSError as e:
        raise ValueError(f"{at}: {(e.strerror or str(e)).lower()}; give the path of a CSV file") from None
    except (UnicodeDecodeError, csv.Error) as e:
        raise ValueError(f"{at}: no CSV: {e}; give a CSV file with a header") from None


def _rtt_rows(rows: Iterator[list[str]], at: str) -> _Rtts:
    header = [name.strip().lower() for name in next(rows, [])]
    pairs = [
        (number, header.index(to + name[len(by) :]))
        for number, name in enumerate(header)
        for by, to in _ENDS
        if name.startswith(by) and to + name[len(by) :] in header
    ]
    column = next((header.index(name) for name in _RTT if name in header), -1)
    if not pairs or column < 0:
        raise ValueError(
            f"{at}: line 1: no columns of places and times; name them src_X, dst_X (or source, destination) and rtt_ms"
        )
    found_ms: dict[tuple[str, str], list[float]] = {}
    places: dict[str, str] = {}
    for line, row in enumerate(rows, 2):
        if not row:
            continue
        try:
            value = float(row[column])
            ends = [(row[a].strip().casefold(), row[b].strip().casefold()) for a, b in pairs]
        except (IndexError, ValueError):
            value, ends = -1.0, []
        if not 0 < value < 3_600_000:
            raise ValueError(
                f"{at}: line {line}: {header[column]}: want milliseconds, more than 0; mend or drop the line"
            )
        for a, b in ends:
            places.setdefault(a, ends[0][0])
            places.setdefault(b, ends[0][1])
        found_ms.setdefault(ends[0], []).append(value)
    return {pair: fmean(some) for pair, some in found_ms.items()}, places
