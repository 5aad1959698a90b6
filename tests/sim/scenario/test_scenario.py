"""Scenario files: what is read, and the one line a wrong one gives (SPEC section 6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.errors import UsageError
from diana.model.settings import Settings
from diana.sim.scenario import scenario as sc
from diana.sim.world.runner import simulate

SCENARIOS = sorted((Path(__file__).parents[3] / "scenarios").glob("*.toml"))
GOOD = """version = 1
[[sites]]
name = "alpha"
slots = 4
[[workload]]
name = "w"
site = "alpha"
jobs = 3
"""
LONG_TURNS = "settings = { summary_every_s = 3600.0, suspect_after_s = 86400.0 }\n"


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_every_scenario_of_the_repository_reads(path: Path) -> None:
    assert sc.load(path).version == 1


def test_settings_of_a_site_go_over_those_of_the_scenario() -> None:
    text = GOOD.replace("slots = 4", "slots = 4\nsettings = {claim_ahead = 7}")
    scenario = sc.parse("version = 1\nsettings = {claim_ahead = 3, offer_wait_s = 2}\n" + text.partition("\n")[2])
    settings = scenario.site_settings(scenario.sites[0])
    assert (settings.slots, settings.claim_ahead, settings.offer_wait_s) == (4, 7, 2)


@pytest.mark.parametrize(
    ("every_s", "rest", "suspect_s"),
    [(0.5, "", 6.0), (2, "", 12.0), (60.0, "", 360.0), (60, ", suspect_after_s = 90", 90.0)],
)
def test_sites_that_speak_rarely_are_waited_for(every_s: float, rest: str, suspect_s: float) -> None:
    scenario = sc.parse(f"version = 1\nsettings = {{summary_every_s = {every_s}{rest}}}\n" + GOOD.partition("\n")[2])
    assert scenario.site_settings(scenario.sites[0]).suspect_after_s == suspect_s


def test_nothing_is_forgotten_before_it_is_read() -> None:
    last = GOOD.partition("[[workload]]")[2].replace('"w"', '"last"\nsubmit_s = 5e6')
    scenario = sc.parse(f"limit_s = 1e7\n{LONG_TURNS}{GOOD}[[workload]]{last}")
    report = simulate(scenario, 0)
    assert report.good() and {name: one.done for name, one in report.groups.items()} == {"w": 3, "last": 3}
    short = sc.parse(GOOD)
    assert short.site_settings(short.sites[0]).keep_s == Settings().keep_s


@pytest.mark.parametrize(
    ("was", "now", "says"),
    [
        ("slots = 4", "slot = 4", "unknown key 'slot' in sites[0]; did you mean 'slots'?"),
        ("jobs = 3", "jobs = 'x'", "Expected `int`, got `str` - at `$.workload[0].jobs`"),
        ("jobs = 3", "jobs = 0", "workload w: jobs = 0: want 1 to 1e+12"),
        ('site = "alpha"', 'site = "alpa"', "workload w: site: 'alpa' is not known; did you mean 'alpha'?"),
        ("version = 1", "version = 2", "version = 2: this release reads scenarios with `version = 1`"),
        ("version = 1", "", "version is missing: this release reads scenarios with `version = 1`"),
        ("version = 1", "version = ", "no TOML: Invalid value (at line 1, column 11)"),
        ("version = 1", 'version = 1\nreport = ["fault"]', "report: 'fault' is not known; did you mean 'faults'?"),
        ("version = 1", "version = 1\nfaults = {loss = 2}", "faults: loss = 2.0: want a probability, 0 to 1"),
        ("slots = 4", "settings = {slotz = 1}", "sites alpha: unknown key 'slotz' in settings; did you mean 'slots'?"),
        (
            "slots = 4",
            'settings = {priority_mod = "paper"}',
            "sites alpha: unknown key 'priority_mod' in settings; did you mean 'priority_mode'?",
        ),
        (
            "slots = 4",
            'settings = {priority_mode = "papr"}',
            "sites alpha: settings.priority_mode: 'papr' is not known; did you mean 'paper'?",
        ),
        (
            "slots = 4",
            'settings = {quotas = {"alice@sim" = -1}}',
            "sites alpha: quotas.alice@sim = -1.0: want 1e-06 to 1e+12",
        ),
        (
            "version = 1",
            'version = 1\nsettings = {quotas = {"alce@sim" = 2}}',
            "settings: quotas: 'alce@sim' is not known; did you mean 'alice@sim'?",
        ),
        (
            "version = 1",
            'version = 1\npolicies = [{name = "p", settings = {quotas = {"alce@sim" = 2}}}]',
            "policies p: quotas: 'alce@sim' is not known; did you mean 'alice@sim'?",
        ),
        (
            "version = 1",
            f"version = 1\nsettings = {{summary_every_s = {'9' * 400}}}",
            "Number out of range - at `$.summary_every_s`",
        ),
        ("slots = 4", 'lrm = "esay"', "sites[0].lrm: 'esay' is not known; did you mean 'easy'?"),
        (
            "jobs = 3",
            "jobs = 3\nwork_s = 1\ngenerate = {arrivals = 'poison', load = 0.5}",
            "workload[0].generate.arrivals: 'poison' is not known; did you mean 'poisson'?",
        ),
        (
            "jobs = 3",
            "jobs = 3\ngenerate = {arrivals = 'even', homes = 'slot'}",
            "workload[0].generate.homes: 'slot' is not known; did you mean 'slots'?",
        ),
        (
            "jobs = 3",
            "jobs = 3\ngenerate = {arrivals = 'even', users = ['alice@sim', 'alice@sim']}",
            "workload w: generate: users: 'alice@sim' stands twice; names must differ",
        ),
        ('name = "w"', 'name = ""', "workload[0]: name is empty; give the entry one"),
        (
            "jobs = 3",
            "jobs = 3\nmoves = [{to = 'alhpa', at_s = 1}]",
            "workload w: moves: to: 'alhpa' is not known; did you mean 'alpha'?",
        ),
        (
            "jobs = 3",
            "jobs = 3\nsites = ['alhpa']",
            "workload w: sites: 'alhpa' is not known; did you mean 'alpha'?",
        ),
        (
            "jobs = 3",
            "jobs = 3\nmoves = [{to = 'alpha', at_s = -5}]",
            "workload w: moves: at_s = -5: want 0 to 1e+09",
        ),
        (
            "jobs = 3",
            "jobs = 3\nmoves = [{to = 'alpha', at_s = 1, first = 3}]",
            "workload w: moves: first = 3, jobs = 0: want some of its 3 jobs, the first is 0",
        ),
        ("jobs = 3", "jobs = 3\ninputs = ['e']", "workload w: inputs: 'e' is not known; known: none"),
        ("version = 1", "version = 1\nlimit_s = inf", "limit_s = inf: want seconds, more than 0, up to 1e+09"),
        ("version = 1", "version = 1\nfsync_s = -1", "fsync_s = -1.0: want seconds, 0 to 60"),
        (
            "version = 1",
            'version = 1\npolicies = [{name = "p", settings = {suspect_after_s = 0.5}}]',
            "policies p: suspect_after_s = 0.5: sites that speak every summary_every_s = 1 would count as lost in "
            "between; want more, as 6, or leave it out",
        ),
        (
            "jobs = 3",
            "jobs = 3\nhold_s = 5",
            "workload w: hold_s = 5: what it holds would never go on; give release_s or cancel_s too",
        ),
        (
            "jobs = 3",
            "jobs = 3\nrelease_s = 5",
            "workload w: release_s = 5: nothing holds it; give hold_s too",
        ),
        (
            "jobs = 3",
            "jobs = 3\nhold_s = 6\nrelease_s = 5",
            "workload w: release_s = 5: it is held later, hold_s = 6",
        ),
        ("slots = 4", "settings = {job_threshold = -1}", "sites alpha: job_threshold = -1: want 0 to 1e+12"),
        (
            "slots = 4",
            "settings = {keep_s = 100}",
            "sites alpha: keep_s = 100: groups would be forgotten before limit_s = 1e+06, when their results "
            "are read; leave it out",
        ),
        (
            "slots = 4",
            "settings = {summary_every_s = 60, suspect_after_s = 6}",
            "sites alpha: suspect_after_s = 6: sites that speak every summary_every_s = 60 would count as lost in "
            "between; want more, as 360, or leave it out",
        ),
        (
            "version = 1",
            "version = 1\nfaults = {crash = 0.1}",
            "faults: crash = 0.1, but until_s = 0: faults end there; set until_s",
        ),
        (
            "version = 1",
            "version = 1\nfaults = {until_s = 9, cut_every_s = 1e-9}",
            "faults: cut_every_s = 1e-09: want 0 (never), or 0.01 to 1e9 seconds",
        ),
        (
            "version = 1",
            "version = 1\nexpect = {makespan_s = nan}",
            "expect: makespan_s = nan: want seconds, at most 1e+12",
        ),
        (
            "version = 1",
            "version = 1\ndatasets = [{name = 'd', site = 'alpha', files = 100_000_000}]",
            "datasets d: files = 100000000, file_bytes = 1000000: want 1 to 1e+07, 0 to 1e+15",
        ),
        (
            "jobs = 3",
            "jobs = 3\nsubmit_s = 5e6",
            "workload w: submit_s = 5e+06: all ends at limit_s = 1e+06; raise it",
        ),
        ("jobs = 3", "jobs = 3\nmax_subgroup = -1", "workload w: max_subgroup = -1: want 0 to 1e+12"),
        ("jobs = 3", "jobs = 3\nmax_parallel = -1", "workload w: max_parallel = -1: want 0 to 1e+12"),
        (
            "version = 1",
            "version = 1\nsettings = {slots = 4}",
            "settings: slots is each site's own; write it into [[sites]]",
        ),
        ("version = 1", "version = 1\nsettings = {keep_s = -1}", "keep_s = -1.0: want 0 to 1e+10"),
        ("slots = 4", "slots = -1", "sites alpha: slots = -1: want 0 to 1e+06"),
    ],
)
def test_a_wrong_scenario_gives_one_line_with_key_and_mend(was: str, now: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        sc.parse(GOOD.replace(was, now), "x.toml")
    assert str(error.value).replace("float", "int") == f"x.toml: {says}".replace("float", "int")
    assert "\n" not in str(error.value)


def test_a_scenario_that_is_not_there_says_so() -> None:
    with pytest.raises(UsageError, match=r"^scenario /nowhere\.toml: no such file or directory; give the path"):
        sc.load(Path("/nowhere.toml"))


def test_file_per_job_wants_a_file_for_every_job() -> None:
    text = GOOD + 'inputs = ["d"]\nfile_per_job = true\n[[datasets]]\nname = "d"\nsite = "alpha"\nfiles = 2\n'
    with pytest.raises(UsageError, match="file_per_job wants 3 files, inputs have 2"):
        sc.parse(text)


_PICKY = """version = 1
sites = [{name = "one", slots = 8}, {name = "two", slots = 2, settings = {properties = {tier = "gold"}}}]
[[workload]]
name = "picky"
site = "one"
jobs = 4
requirements = ["REQUIRED"]
"""


def test_a_workload_runs_at_the_sites_that_meet_its_requirements() -> None:
    report = simulate(sc.parse(_PICKY.replace("REQUIRED", "site.properties.tier == 'gold'")), 1)
    assert report.good() and report.groups["picky"].sites == {"two": 4}


def test_a_requirement_that_is_none_is_told_with_its_workload() -> None:
    with pytest.raises(UsageError, match=r"workload picky: requirements\[0\]: 'site.slot' is no name here"):
        sc.parse(_PICKY.replace("REQUIRED", "site.slot > 1"))
