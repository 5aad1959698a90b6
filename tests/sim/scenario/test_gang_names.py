"""Placements of gangs in scenarios, by the names that nodes know (SPEC K2)."""

from __future__ import annotations

import pytest

from diana.errors import UsageError
from diana.sim.scenario import scenario as sc
from tests.sim.scenario.test_scenario import GOOD

GANG = '[[workload]]\nname = "g"\nsite = "alpha"\njobs = 2\ncomponents = "2x1"\n'
TABLES = 'version = 1\n[[gangs.placements]]\nsites = { C1 = 4 }\nrequest = "1x4"\npolicy = "NAME"\nexpect = ["C1"]\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD + GANG + 'gang_placement = "worst-fitt"\n', "gang_placement: 'worst-fitt': no such placement; did you"),
        (GOOD + GANG + 'gang_placement = "grads"\n', "gang_placement: grads places by a model"),
        (
            GOOD.replace("version = 1", 'version = 1\nsettings = { gang_placement = "nearest" }'),
            "gang_placement: 'nearest': no such placement; known here: close-to-files,",
        ),
        (TABLES.replace("NAME", "worst-fitt"), "gangs.placements[0].policy: 'worst-fitt' is not known; did you mean"),
    ],
)
def test_an_unknown_placement_is_told_with_the_nearest(text: str, told: str) -> None:
    with pytest.raises(UsageError) as failed:
        sc.parse(text)
    assert told in str(failed.value) and "\n" not in str(failed.value)


def test_the_papers_names_are_taken() -> None:
    assert sc.parse(GOOD + GANG + 'gang_placement = "cluster-min"\n').workload[-1].gang_placement == "cluster-min"
    assert sc.parse(TABLES.replace("NAME", "WF")).gangs is not None
