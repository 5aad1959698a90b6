"""Routes, routers, GraphML and round-trip times in scenarios, and the one line each mistake gives."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import pytest

from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.sim.main import run
from diana.sim.scenario.scenario import load, parse
from diana.sim.scenario.text import written
from diana.sim.scenario.topology import Topology
from diana.sim.specs.scenario_spec import Scenario
from diana.sim.world.runner import simulate

ROOT = Path(__file__).parents[3]
DATA = ROOT.parent / "shared" / "data"

STAR = """version = 1
sites = [{ name = "a" }, { name = "b" }, { name = "c" }]
routers = ["r"]
links = [
  { between = ["a", "r"], latency_s = 0.01, bytes_per_s = 100e6 },
  { between = ["r", "b"], latency_s = 0.02, bytes_per_s = 50e6, loss = 0.1 },
  { between = ["c", "r"], latency_s = 0.03, bytes_per_s = 10e6, noise = 0.2 },
]
"""
CHAIN = """version = 1
sites = [{ name = "a" }, { name = "b" }, { name = "c" }]
links = [
  { between = ["b", "a"], name = "ab", latency_s = 0.01, bytes_per_s = 1e6 },
  { between = ["b", "c"], latency_s = 0.01, bytes_per_s = 2e6 },
]
routes = [{ between = ["c", "a"], links = ["b-c", "ab"] }]
"""
GRAPH = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key attr.name="label" attr.type="string" for="node" id="n"/>
<key attr.name="label" attr.type="string" for="edge" id="e"/>
<key attr.name="latency_s" attr.type="double" for="edge" id="l"/>
<graph edgedefault="undirected">
<node id="n0"><data key="n">CH</data></node><node id="n1"><data key="n">UK</data></node>
<node id="n2"><data key="n">FR</data></node><node id="n3"><data key="n">IS</data></node>
<edge source="n0" target="n2"><data key="e">Lit Fibre (10 Gbps)</data><data key="l">0.004</data></edge>
<edge source="n2" target="n1"><data key="e">34/45 Mbit/s</data></edge>
</graph></graphml>"""
ON_GRAPH = """version = 1
links_from = "net.graphml"
sites = [{ name = "cern", node = "CH" }, { name = "ral", node = "uk" }, { name = "fr" }]
"""


def way(scenario: Scenario, a: str, b: str) -> list[str]:
    topology = Topology(scenario)
    return topology.named(topology.path(SiteId(a), SiteId(b)) or ())


def figures(scenario: Scenario, a: str, b: str) -> tuple[float, float, float, float]:
    return Topology(scenario).figures(SiteId(a), SiteId(b))


def test_the_case_of_spec_7_comes_out_of_diana_simulate(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ROOT / "scenarios" / "shared-links.toml", as_json=True, workers=1) == 0
    report = json.loads(capsys.readouterr().out)
    ends = {row["name"]: row["end_s"] for row in report["transfers"]}
    assert ends == {"from-b": pytest.approx(10.020, abs=1e-9), "from-a": pytest.approx(15.020, abs=1e-9)}


def test_a_way_over_a_router_adds_latencies_and_takes_the_slowest_link() -> None:
    star = parse(STAR)
    assert way(star, "a", "c") == ["a-r", "c-r"] == way(star, "c", "a")[::-1]
    assert figures(star, "a", "c") == figures(star, "c", "a") == (pytest.approx(0.04), 10e6, 0.0, 0.2)
    assert figures(star, "b", "a") == (pytest.approx(0.03), 50e6, pytest.approx(0.1), 0.0)


def test_each_direction_of_a_link_is_one_of_its_own() -> None:
    topology = Topology(parse(STAR))
    out, back = topology.path(SiteId("a"), SiteId("b")), topology.path(SiteId("b"), SiteId("a"))
    assert out and back and not set(out) & set(back)


def test_a_link_of_their_own_goes_before_routers_and_a_route_before_both() -> None:
    direct = STAR.replace("links = [", 'links = [ { between = ["a", "b"], latency_s = 0.5, bytes_per_s = 7.0 },')
    assert Topology(parse(direct)).path(SiteId("a"), SiteId("b")) is None
    assert figures(parse(direct), "a", "b") == (0.5, 7.0, 0.0, 0.0)
    routed = parse(direct + 'routes = [{ between = ["b", "a"], links = ["r-b", "a-r"], latency_s = 0.2 }]\n')
    assert way(routed, "a", "b") == ["a-r", "r-b"]
    assert figures(routed, "a", "b") == (0.2, 50e6, pytest.approx(0.1), 0.0)


def test_a_route_may_go_over_the_links_of_other_sites_and_shares_them() -> None:
    chain = parse(CHAIN)
    topology = Topology(chain)
    a_c, a_b = topology.path(SiteId("a"), SiteId("c")), topology.path(SiteId("a"), SiteId("b"))
    assert way(chain, "a", "c") == ["ab", "b-c"] and a_c and a_b and set(a_b) < set(a_c)
    assert figures(chain, "a", "c") == (0.02, 1e6, 0.0, 0.0)


def test_the_quickest_way_is_taken_and_sites_carry_nothing_for_others() -> None:
    text = """version = 1
sites = [{ name = "a" }, { name = "b" }, { name = "m" }]
routers = ["r", "s"]
links = [ { between = ["a", "r"] }, { between = ["r", "m"], latency_s = 0.001 },
  { between = ["m", "s"], latency_s = 0.001 },
  { between = ["r", "s"], latency_s = 0.5, name = "slow" }, { between = ["s", "r"], latency_s = 0.2, name = "quick" },
  { between = ["s", "b"] } ]
"""
    assert way(parse(text), "a", "b") == ["a-r", "quick", "s-b"]
    assert way(parse(text), "m", "b") == ["m-s", "s-b"]


def test_jobs_of_two_sites_share_what_lies_between_them_and_their_data() -> None:
    """Two sites fetch 10 MB each from c, over 10 MB/s that all of c shares: 2 s each, not 1."""
    text = (
        STAR
        + """report = ["groups", "sites"]
datasets = [{ name = "da", site = "c", file_bytes = 10_000_000 }, { name = "db", site = "c", file_bytes = 10_000_000 }]
workload = [
  { name = "wa", site = "a", jobs = 1, inputs = ["da"], sites = ["a"], submit_s = 30 },
  { name = "wb", site = "b", jobs = 1, inputs = ["db"], sites = ["b"], submit_s = 30 },
]
"""
    )
    text = text.replace(", loss = 0.1", "")
    apart = simulate(parse(text.replace('sites = ["b"], submit_s = 30', 'sites = ["b"], submit_s = 90')), 0)
    together = simulate(parse(text), 0)
    assert together.good() and apart.good()
    for name in ("wa", "wb"):
        more_s = together.groups[name].makespan_s - apart.groups[name].makespan_s
        assert more_s == pytest.approx(1.0, abs=0.1)


def test_runs_over_routes_hold_all_invariants_under_faults_and_repeat() -> None:
    text = (
        STAR
        + """report = ["faults"]
datasets = [{ name = "d", site = "c", files = 20, file_bytes = 2_000_000 }]
workload = [{ name = "w", site = "a", jobs = 20, inputs = ["d"], file_per_job = true, output_bytes = 100_000 }]
[faults]
until_s = 60
crash = 0.01
cut_every_s = 20
"""
    )
    reports = [simulate(parse(text), 5) for _ in range(2)]
    assert reports[0].good() and reports[0].digest == reports[1].digest


def test_a_transfer_takes_from_the_jobs_of_the_same_two_sites_and_repeats() -> None:
    text = """version = 1
sites = [{ name = "a" }, { name = "b" }]
default_link = { latency_s = 0.5, bytes_per_s = 1e6 }
transfers = [{ name = "t", source = "a", to = "b", size_bytes = 1_000_000, at_s = 3, repeat = 2, every_s = 0.5 }]
"""
    rows = simulate(parse(text), 0).transfers
    assert [(row.name, row.start_s, row.end_s) for row in rows] == [
        ("t", 3.0, pytest.approx(5.0)),
        ("t-2", 3.5, pytest.approx(5.5)),
    ]
    assert [row.links for row in rows] == [("a-b",)] * 2


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.graphml").write_text(GRAPH)
    (tmp_path / "x.toml").write_text(ON_GRAPH)
    rows = "40,cern.ch,Geneva,12,rl.ac.uk,London,17.0\n12,rl.ac.uk,London,40,cern.ch,Geneva,19.0\n"
    more = "40,cern.ch,Geneva,8,in2p3.fr,Lyon,4\n8,in2p3.fr,Lyon,12,rl.ac.uk,London,20\n"
    head = "src_part,src_host,src_city,dst_part,dst_host,dst_city,rtt_avg\n"
    (tmp_path / "rtt.csv").write_text(head + rows + more)
    return tmp_path


def test_a_graph_gives_links_with_the_speeds_of_its_labels(folder: Path) -> None:
    scenario = load(folder / "x.toml")
    assert figures(scenario, "cern", "fr") == (0.004, 1.25e9, 0.0, 0.0)
    assert figures(scenario, "ral", "cern") == (pytest.approx(0.014), 34e6 / 8, 0.0, 0.0)
    assert way(scenario, "ral", "cern") == ["e1", "e0"]


def test_sites_called_like_their_nodes_are_joined_as_any_others(folder: Path) -> None:
    (folder / "net.graphml").write_text(GRAPH.replace('"n', '"s'))
    head, _, _ = ON_GRAPH.partition("sites")
    alike = parse(head + 'sites = [{ name = "s0" }, { name = "s1" }, { name = "s2" }]\n', folder=folder)
    assert way(alike, "s0", "s1") == ["e0", "e1"] and way(alike, "s0", "s2") == ["e0"]
    others = parse(ON_GRAPH, folder=folder)
    assert figures(alike, "s0", "s1") == figures(others, "cern", "ral")


def test_edges_without_an_id_are_numbered_as_they_stand_in_the_file(folder: Path) -> None:
    more = '<edge source="n0" target="n1"><data key="e">1 Gbps</data></edge>\n</graph>'
    (folder / "net.graphml").write_text(GRAPH.replace("</graph>", more))
    links = parse(ON_GRAPH, folder=folder).links
    ends = {link.called(): "".join(sorted(link.between)) for link in links}
    assert ends == {"e0": "n0n2", "e1": "n1n2", "e2": "n0n1"}


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2"])
def test_of_a_file_of_several_graphs_the_first_is_read_packed_or_not(folder: Path, suffix: str) -> None:
    more = '</graph>\n<graph edgedefault="undirected"><edge source="x" target="y"/></graph>'
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[suffix]
    (folder / f"two.graphml{suffix}").write_bytes(pack(GRAPH.replace("</graph>", more).encode()))
    scenario = parse(ON_GRAPH.replace("net.graphml", f"two.graphml{suffix}"), folder=folder)
    assert [link.called() for link in scenario.links] == ["e0", "e1"]


def test_what_was_read_from_files_stands_in_the_scenario_that_is_written(folder: Path) -> None:
    (folder / "x.toml").write_text(
        ON_GRAPH.replace('node = "CH"', 'node = "CH", place = "Geneva"')
        .replace('node = "uk"', 'node = "uk", place = "12"')
        .replace('"fr"', '"fr", place = "in2p3.fr"')
        + 'rtt_from = "rtt.csv"\n'
    )
    scenario = load(folder / "x.toml")
    assert parse(written(scenario)) == scenario
    assert figures(scenario, "ral", "cern")[:2] == (pytest.approx(0.009), 34e6 / 8)
    assert figures(scenario, "fr", "cern")[0] == pytest.approx(0.002)


def test_a_pair_measured_several_times_is_as_far_apart_as_in_the_mean(folder: Path) -> None:
    with (folder / "rtt.csv").open("a") as file:
        file.write("40,cern.ch,Geneva,8,in2p3.fr,Lyon,8\n")
    sites = '{ name = "cern", place = "40" }, { name = "lyon" }'
    scenario = parse(f'version = 1\nrtt_from = "rtt.csv"\nsites = [{sites}]\n', folder=folder)
    assert figures(scenario, "cern", "lyon")[0] == pytest.approx((4 + 8) / 2 / 2000)


def test_round_trip_times_alone_make_a_link_for_each_pair_that_has_none(folder: Path) -> None:
    text = """version = 1
rtt_from = "rtt.csv"
sites = [{ name = "cern", place = "40" }, { name = "ral", place = "rl.ac.uk" }, { name = "lyon" }]
default_link = { bytes_per_s = 5e6 }
links = [{ between = ["lyon", "ral"], latency_s = 0.5 }]
"""
    scenario = parse(text, folder=folder)
    assert figures(scenario, "cern", "ral") == (pytest.approx(0.009), 5e6, 0.0, 0.0)
    assert figures(scenario, "ral", "lyon") == (0.5, 125e6, 0.0, 0.0)
    assert Topology(scenario).path(SiteId("cern"), SiteId("ral")) is None


SHORT = STAR.replace('{ between = ["a", "r"]', '{ between = ["a", "b"]')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (STAR.replace('["a", "r"]', '["a", "q"]'), "links: between: 'q' is not known; known: a, b, c, r"),
        (STAR.replace('["a", "r"]', '["a", "a"]'), "links a-a: both ends are 'a'; name two"),
        (
            STAR.replace("10e6", "-10e6"),
            "links c-r: bytes_per_s = -10000000.0: want more than 0, up to 1e+15",
        ),
        (CHAIN.replace('"b-c", "ab"', '"b-d", "ab"'), "routes c-a: links: 'b-d' is not known; did you mean 'b-c'?"),
        (
            CHAIN.replace('"b-c", "ab"', '"ab", "b-c"'),
            "routes c-a: link 'ab' joins b and a, the route is at 'c' there; "
            "list the links from the first site to the second",
        ),
        (CHAIN.replace('"b-c", "ab"', '"b-c"'), "routes c-a: its links end at 'b'; list them up to 'a'"),
        (CHAIN.replace('["c", "a"]', '["c", "x"]'), "routes c-x: between: 'x' is not known; known: a, b, c"),
        (
            CHAIN.replace('name = "ab"', 'name = "b-c"'),
            "routes c-a: links: 2 links are called 'b-c'; give them a `name` each",
        ),
        (
            SHORT,
            "links: site 'a' is at no router, so 'a' cannot reach 'c'; "
            "add a link, a route, or the `node` where the site is",
        ),
        (
            STAR.replace('["r"]', '["r", "s"]').replace('["a", "r"]', '["a", "s"]'),
            "links: no links connect 'a' and 'b', so 'a' cannot reach 'b'; "
            "add a link, a route, or the `node` where the site is",
        ),
        (
            "version = 1\nsites = [{ name = 'a' }, { name = 'b' }]\n"
            "links = [{ between = ['a', 'b'] }, { between = ['b', 'a'], bytes_per_s = 1e3 }]\n",
            "links: b and a are linked twice; a link is the same both ways, leave one out",
        ),
        (STAR.replace('["r"]', '["r", "a"]'), "routers: 'a' is a site too; name it otherwise"),
        (STAR.replace('"c" }', '"c", node = "q" }'), "sites c: node: 'q' is not known; known: r"),
        (
            STAR + 'transfers = [{ name = "t", source = "a", to = "d", size_bytes = 1 }]\n',
            "transfers t: to: 'd' is not known; known: a, b, c",
        ),
        (
            STAR + 'transfers = [{ name = "t", source = "a", to = "b", size_bytes = -1 }]\n',
            "transfers t: size_bytes = -1: want 0 to 1e+18",
        ),
    ],
)
def test_a_wrong_network_gives_one_line_with_key_and_mend(text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text, "x.toml")
    assert str(error.value) == f"x.toml: {says}"


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ("34/45 Mbit/s", "", "net.graphml: edge e1 (UK-FR): no speed; give the edge a label like '10 Gbps' or"),
        ("34/45 Mbit/s", "fast", "edge e1 (UK-FR): label 'fast' tells no speed; give the edge a label"),
        ("34/45 Mbit/s", "0 Mbps", "edge e1 (UK-FR): label '0 Mbps': a speed of 0"),
        (">0.004<", ">-1<", "edge e0 (CH-FR): latency_s = -1.0: want a number more than 0"),
        ("</graphml>", "", "net.graphml: no GraphML: no element found"),
        ('<edge source="n2"', '<edge source="n1"', "no links connect 'cern' and 'ral', so 'cern' cannot"),
        ('<edge source="n2"', '<edge source="n22"', "net.graphml: edge e1: 'n22' is not known; did you mean 'n2'?"),
        (">UK<", ">GB<", "sites ral: node: no node of net.graphml is called 'uk'; set `node`; known:"),
    ],
)  # fmt: skip
def test_a_wrong_graph_names_the_file_the_edge_and_the_mend(folder: Path, was: str, now: str, says: str) -> None:
    (folder / "net.graphml").write_text(GRAPH.replace(was, now))
    with pytest.raises(UsageError) as error:
        load(folder / "x.toml")
    assert says in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith(f"{folder}/x.toml: ")


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ("rtt_avg", "wait", "rtt_from: rtt.csv: line 1: no columns of places and times; name them src_X, dst_X"),
        (",19.0", ",-19.0", "rtt.csv: line 3: rtt_avg: want milliseconds, more than 0; mend or drop the line"),
        (",19.0", "", "rtt.csv: line 3: rtt_avg: want milliseconds"),
        (
            "Lyon,12,rl.ac.uk,London",
            "Lyon,9,z,t",
            "no line for 12 and 8; add one, or a link of sites ral and lyon",
        ),
        ("in2p3.fr", "in2p3", "sites lyon: place: no line of rtt.csv has 'in2p3.fr'; did you mean 'in2p3'?"),
    ],
)  # fmt: skip
def test_wrong_round_trip_times_name_the_line_or_the_place(folder: Path, was: str, now: str, says: str) -> None:
    (folder / "rtt.csv").write_text((folder / "rtt.csv").read_text().replace(was, now))
    sites = '{ name = "geneva" }, { name = "ral", place = "London" }, { name = "lyon", place = "in2p3.fr" }'
    with pytest.raises(UsageError) as error:
        parse(f'version = 1\nrtt_from = "rtt.csv"\nsites = [{sites}]\n', folder=folder)
    assert says in str(error.value)


def test_files_that_are_not_there_say_so(folder: Path) -> None:
    for key in ("links_from", "rtt_from"):
        with pytest.raises(UsageError, match=rf"{key}: nowhere: no such file or directory; give the path of a"):
            parse(f'version = 1\n{key} = "nowhere"\nsites = [{{ name = "a" }}]\n', folder=folder)


def test_geant_and_the_times_of_lcg_read() -> None:
    text = """version = 1
links_from = "geant2009.graphml"
rtt_from = "lcg_rtt_ms.csv"
sites = [
  { name = "cern", node = "CH", place = "lxgate13.cern.ch" }, { name = "ral", node = "UK", place = "12" },
  { name = "nikhef", node = "Netherlands", place = "Amsterdam" }, { name = "ucy", node = "CY", place = "ucy.ac.cy" },
]
"""
    scenario = parse(text, folder=DATA)
    assert (len(scenario.routers), len(scenario.links)) == (34, 52)
    assert figures(scenario, "cern", "ral")[0] == pytest.approx(17.44e-3 / 2, rel=0.05)
    assert figures(scenario, "cern", "ral")[1] == 1.25e9
    assert figures(scenario, "cern", "ucy")[1] == 155e6 / 8
    assert way(scenario, "cern", "ucy") == ["e31", "e37"]
