"""The request of GrADS' paper for Cactus (section 4.3.1, Figure 1.3) as a job file: it goes to sites of the two domains
whose machines together have the memory, and says which other sites lack what."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import REPO, Grid, until
from tests.e2e.test_requirements import said_to

pytestmark = pytest.mark.e2e

REQUEST = REPO / "examples" / "grads" / "cactus_request.toml"
DOMAINS = {"torc": "cs.utk.edu", "csag": "grid.ucsd.edu", "opus": "cs.uiuc.edu"}


@pytest.fixture
def domains(grid: Grid) -> Grid:
    for name, domain in DOMAINS.items():
        site = grid.add(name, 3)
        config = load_config(site.paths.config)
        settings = msgspec.structs.replace(config.settings, memory_bytes=2 * 10**9, domain=domain)
        write_config(site.paths.config, msgspec.structs.replace(config, settings=settings))
    grid.join()
    grid.start()
    return grid


def test_the_papers_request_runs_where_domains_and_memory_allow(domains: Grid, tmp_path: Path) -> None:
    """2.6 GB are asked of machines of 2 GB each, so that it takes both sites, though either has processors enough."""
    opus = domains.sites["opus"]
    # The model names the link between the two, which is measured soon.
    until(lambda: said_to(domains, opus, "plan", str(REQUEST))[0] == 0, "the links are measured", 60)
    code, out, err = said_to(domains, opus, "plan", str(REQUEST), "--json")
    decision = json.loads(out)["decision"]
    told = decision["requirements"]
    assert told["together"] == ["csag", "torc"] and told["setConditions"][0]["wants"] == "2640200000"
    assert told["setJudgements"][0]["holds"] and told["setJudgements"][0]["found"] == "4000000000"
    assert {site["site"]: site["judgements"][0]["holds"] for site in told["sites"]} == {
        "torc": True,
        "csag": True,
        "opus": False,
    }
    code, out, err = said_to(domains, opus, "plan", str(REQUEST), "--set", "sweep.n=100")
    assert code == 3, err
    assert "sum(set.total_memory_bytes) >= (1.757 + 0.0000138 * n * n * n) * 1e9" in err
    code, out, err = said_to(domains, opus, "submit", str(REQUEST), "--wait")
    assert code == 0, out + err
    results = [json.loads(line) for line in said_to(domains, opus, "results", "opus-1", "--json")[1].splitlines()]
    assert {row["site"] for row in results} == {"torc", "csag"}, results
    out = said_to(domains, opus, "explain", "opus-1")[1]
    assert "yes ('cs.utk.edu')" in out and "NO ('cs.uiuc.edu')" in out
