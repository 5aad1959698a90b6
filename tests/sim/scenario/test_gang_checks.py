"""What is wrong with the gangs of a scenario is told in one line: the place, the fault and the mend (SPEC K9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.cli import main as cli
from diana.errors import UsageError
from diana.sim.scenario.scenario import parse

SITES = 'version = 1\nsites = [{name = "alpha", slots = 8}, {name = "beta", slots = 4}]\n'
GANG = '[[workload]]\nname = "g"\nsite = "alpha"\njobs = 1\ncomponents = "2x2"\n'
PLAIN = GANG.replace('components = "2x2"\n', "")
COSTS = "[communication]\nslowdown = "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (COSTS + "[1.0, 0.9]", "communication: slowdown: 0.9: want factors of 1 to 1,000,000"),
        (COSTS + "[1.0, nan]", "communication: slowdown: nan: want factors of 1 to"),
        (COSTS + "[1.0, inf]", "communication: slowdown: inf: want factors of 1 to"),
        (COSTS + '[1.0, "1.1"]', "Expected `float`, got `str` - at `$.communication.slowdown[1]`"),
        (COSTS + "1.1", "Expected `array`, got `float` - at `$.communication.slowdown`"),
        (COSTS + "[1.1, 1.2]", "communication: slowdown: begins with 1.1: want 1 first, for one site"),
        (COSTS + "[1.0, 1.3, 1.2]", "communication: slowdown: falls from 1.3 to 1.2: want none below the one before"),
        (COSTS + str([1.0] * 65), "communication: slowdown: 65 factors: want at most 64; the last goes on"),
        ("[communication]\nslowdon = [1.0]", "unknown key 'slowdon' in communication; did you mean 'slowdown'?"),
        ("[communication.applications]\nheat = [2.0]", "communication: applications.heat: begins with 2: want 1 first"),
        (
            '[communication.applications]\nheat = [1.0]\n[[workload]]\ncommunication = "heet"\n' + GANG[13:],
            "workload g: communication: 'heet' is not known; did you mean 'heat'?",
        ),
        (
            '[communication.applications]\nheat = [1.0]\n[[workload]]\ncommunication = "heat"\n' + PLAIN[13:],
            "workload g: communication: the jobs have no components; name them, or leave it out",
        ),
        (PLAIN + "gang_slowdown = [1.0]", "workload g: gang_slowdown: the jobs have no components; name them"),
        (GANG + "gang_slowdown = [1.0, 0.5]", "workload g: gang_slowdown: 0.5: want factors of 1 to"),
        (
            GANG.replace("2x2", "1x9"),
            "workload g: components = 1x9: these sites cannot hold it, idle or not: component 1 wants 9 processors; "
            "the largest site, alpha, gives 8 at most; ask for less, or give a site more slots",
        ),
        (GANG.replace("2x2", "3x4+1x2"), "workload g: components = 3x4+1x2: these sites cannot hold it, idle or not: "),
        (GANG.replace("2x2", "flexible 13"), "13 processors are wanted; all sites together have 12"),
        (GANG.replace("2x2", "1x6@beta"), "component 1 wants 6 processors; beta has 4 idle of 4; ask for less"),
        (GANG.replace("2x2", "1x2@bet"), "workload g: components: 'bet' is not known; did you mean 'beta'?"),
        (GANG.replace("2x2", "1x6") + 'sites = ["beta"]', "the largest site, beta, gives 4 at most"),
        (GANG.replace("2x2", "1x2@alpha") + 'sites = ["beta"]', "workload g: components: 'alpha' is not known"),
        (
            GANG.replace("2x2", "flexible 10") + 'gang_placement = "worst-fit"',
            "component 1 wants 10 processors; the largest site, alpha, gives 8 at most",
        ),
        (
            COSTS + '[1.0]\n[[workload]]\nname = "h"\nsite = "alpha"\nhistory = { file = "h.swf" }',
            "workload h: history: its run times are those over the sites of then; leave out [communication], or it",
        ),
    ],
)
def test_what_is_wrong_with_gangs_is_told_in_one_line(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as failed:
        parse(SITES + text)
    assert told in str(failed.value) and "\n" not in str(failed.value)
    file = tmp_path / "s.toml"
    file.write_text(SITES + text, encoding="utf-8")
    assert cli.main(["simulate", str(file)]) == 2
    assert told in capsys.readouterr().err


def test_what_fits_idle_sites_or_those_that_grow_is_taken() -> None:
    grows = '[[events]]\nat_s = 1.0\nkind = "slots"\nsites = ["beta"]\nslots = 9\n'
    members = SITES.replace("slots = 4}", 'slots = 4, machines = [{name = "m", slots = 9}]}')
    for text in (SITES + GANG.replace("2x2", "1x8+1x4"), SITES + GANG.replace("2x2", "1x9") + grows):
        assert parse(text).workload[0].components
    assert parse(members + GANG.replace("2x2", "1x9@beta")).workload[0].components
