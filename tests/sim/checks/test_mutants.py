"""The checkers can fail: engines that break one rule each are caught, by the invariant that names the rule.

Each mutant is the mistake of PROMISES section 2's model checks (`mutants.py`, `mutants_of_orders.py`,
`mutants_of_gangs.py`). `make test` runs
a few of them, `make soak PARTS=wide` all within 400 seeds; DIANA_FULL=1 gives each 1,000 and prints in which it was
caught.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable

import pytest

from diana.sim.experiments.failure import failure
from diana.sim.report.report import Report
from diana.sim.scenario import scenario as sc
from diana.sim.sites.driver import Boot
from diana.sim.world.runner import simulate
from tests.protocol import control, handover, moves, recall
from tests.sim import mutants, mutants_of_gangs, mutants_of_orders
from tests.sim.mutants import Described

_FAULTS = """
[faults]
draw = true
until_s = 40.0
heal_s = 300.0
loss = 0.3
duplicate = 0.3
delay = 0.3
delay_s = 5.0
crash = 0.02
retell = 0.3
cut_every_s = 15.0
spawner_crash_every_s = 30.0
"""
_SITES = """version = 1
report = ["faults"]
settings = {binding = "early", offer_wait_s = 3.0, resend_most_s = 3.0}
sites = [{name = "a", slots = 2}, {name = "b", slots = 3}, {name = "c", slots = 3}]
"""
SCENARIOS = {
    "moving": sc.parse(
        _SITES
        + """
[[workload]]
name = "one"
site = "a"
jobs = 40
work_s = 2.0
submit_s = 3.0
moves = [{to = "b", at_s = 5.0}, {to = "c", at_s = 9.0, first = 20, jobs = 20}, {to = "a", at_s = 14.0}]
[[workload]]
name = "two"
site = "b"
jobs = 40
work_s = 2.0
submit_s = 5.0
on_crash = "rerun"
output_bytes = 1000
fail_fraction = 0.2
hold_s = 7.0
release_s = 25.0
retry_s = 60.0
[[workload]]
name = "three"
site = "c"
jobs = 20
work_s = 2.0
submit_s = 6.0
cancel_s = 12.0
"""
        + _FAULTS
    ),
    "few at once": sc.parse(
        _SITES
        + """
[[workload]]
name = "few at once"
site = "a"
jobs = 20
work_s = 2.0
submit_s = 3.0
max_parallel = 2
moves = [{to = "b", at_s = 6.0}]
"""
        + _FAULTS
    ),
    "user limit": sc.parse(
        _SITES.replace("{binding", "{user_max_running = 2, binding")
        + """
[[workload]]
name = "much"
site = "a"
jobs = 20
work_s = 2.0
submit_s = 3.0
moves = [{to = "b", at_s = 6.0}]
"""
        + _FAULTS
    ),
    "to and fro": sc.parse(
        _SITES
        + """
[[workload]]
name = "restless"
site = "a"
jobs = 10
work_s = 6.0
submit_s = 3.0
moves = [
"""
        + ",\n".join(f'{{to = "{"bc"[k % 2]}", at_s = {4 + k}.0}}' for k in range(24))
        + """]
[[workload]]
name = "short"
site = "a"
jobs = 4
work_s = 0.2
submit_s = 2.0
repeat = 8
every_s = 2.0
forced = {b = 2, c = 2}
"""
        + _FAULTS
    ),
    "wavering": sc.parse(
        _SITES
        + "".join(
            f"""
[[workload]]
name = "held {k}"
site = "a"
sites = ["b"]
jobs = 2
work_s = 1.0
submit_s = {2 + 2 * k}.0
hold_s = {2 + 2 * k}.035
release_s = {2 + 2 * k}.04
"""
            for k in range(12)
        )
        + """
[faults]
until_s = 40.0
heal_s = 300.0
loss = 0.3
duplicate = 0.4
delay = 0.5
"""
    ),
    "together": sc.parse(
        _SITES.replace("{binding", "{claim_wait_s = 20.0, binding")
        + """
[[workload]]
name = "threes"
site = "a"
jobs = 4
components = "1x1@a+1x1@b+1x1@c"
work_s = 3.0
submit_s = 3.0
[[workload]]
name = "twos"
site = "b"
jobs = 4
components = "2x2"
work_s = 3.0
submit_s = 3.0
[[workload]]
name = "others"
site = "c"
jobs = 10
work_s = 2.0
submit_s = 2.0
"""
        + _FAULTS
    ),
    "congested": sc.parse(
        _SITES
        + """
[[workload]]
name = "burst"
site = "a"
jobs = 30
work_s = 4.0
submit_s = 2.0
repeat = 4
every_s = 3.0
"""
        + _FAULTS
    ),
}
ALL = (*mutants.DESCRIBED, *mutants_of_orders.DESCRIBED, *mutants_of_gangs.DESCRIBED)
FULL = os.environ.get("DIANA_FULL") == "1"
SEEDS = 1000 if FULL else 400
UNBROKEN = 4
QUICK = (
    mutants.RunsAtPrepare,
    mutants.TakesBackWhatItCommitted,
    mutants.AcceptsResultsTwice,
    mutants.StartsBeforeItIsDurable,
    mutants.GivesBackWhatRuns,
    mutants_of_orders.ObeysWhateverComesLast,
    mutants_of_orders.LosesResultsToCancels,
    mutants_of_orders.ClosesEarly,
    mutants_of_gangs.LetsGoWithTheFirstClaim,
    mutants_of_gangs.LetsTheOthersRunOn,
)
ELSEWHERE = {
    "moves.move_names_epoch": "a Surplus names parts, and a part has one epoch: no engine here can mistake it",
    "moves.origin_checks_mark": "not needed beside the rest",
}
"""Sentences without an engine that breaks them here, and why."""


def caught(one: Described, seeds: Iterable[int]) -> Report | None:
    """The first of the seeds whose run breaks one of the rules the mutant is about."""
    boot = Boot(one.mutant)
    for seed in seeds:
        report = simulate(SCENARIOS[one.scenario], seed, boot=boot)
        if {v.rule for v in report.violations} & set(one.rules.split()):
            return report
        for v in report.violations:
            # A mutant that raises where no assertion of the engine failed is itself broken, not caught.
            assert v.rule != "assert" or v.text.startswith("AssertionError"), v.text
    return None


def _name(one: object) -> str:
    return one.mutant.__name__ if isinstance(one, Described) else ""


@pytest.mark.wide
@pytest.mark.parametrize("one", [one for one in ALL if one.mutant in QUICK], ids=_name)
def test_an_engine_that_breaks_a_rule_is_caught(one: Described) -> None:
    report = caught(one, range(40))
    assert report is not None, f"{one.mutant.__name__} was not caught in 40 seeds"
    text = failure(SCENARIOS[one.scenario], report, Boot(one.mutant))
    assert f"seed {report.seed} fails" in text and "loss=" in text and "story of" in text


@pytest.mark.wide
@pytest.mark.parametrize("one", ALL, ids=_name)
def test_every_engine_that_breaks_a_rule_is_caught_within_so_many_seeds(one: Described) -> None:
    report = caught(one, range(SEEDS))
    assert report is not None, f"{one.mutant.__name__} was not caught in {SEEDS} seeds"
    rules = sorted({v.rule for v in report.violations})
    print(f"{one.mutant.__name__:<32} caught by {', '.join(rules):<12} in seed {report.seed} (of 0 to {SEEDS - 1})")


def test_every_sentence_of_the_models_has_an_engine_that_breaks_it() -> None:
    said = {sentence for one in ALL for sentence in one.sentences.split()}
    models = {"handover": handover.Rules, "control": control.Rules, "recall": recall.Rules, "moves": moves.Rules}
    sentences = {f"{name}.{f.name}" for name, rules in models.items() for f in dataclasses.fields(rules)}
    assert sentences - said == ELSEWHERE.keys()
    assert said <= sentences


@pytest.mark.wide
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_unbroken_engine_passes_the_same_seeds(name: str) -> None:
    passes(name, range(UNBROKEN))


@pytest.mark.wide
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_unbroken_engine_passes_more_of_the_same_seeds(name: str) -> None:
    passes(name, range(UNBROKEN, SEEDS if FULL else 24))


def passes(name: str, seeds: range) -> None:
    for seed in seeds:
        report = simulate(SCENARIOS[name], seed)
        assert report.good(), failure(SCENARIOS[name], report)
