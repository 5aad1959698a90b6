"""Drawn workloads: the published models in the mean, one seed one workload, the load that was asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from diana.errors import UsageError
from diana.sim.kernel import chance
from diana.sim.kernel.clock import Clock
from diana.sim.load import generated, workload
from diana.sim.load import generators as gen
from diana.sim.scenario import scenario as sc
from diana.sim.scenario.text import written
from diana.sim.world.runner import simulate

DRAWS = 100_000
GOOD = """version = 1
sites = [{ name = "a", slots = 8 }, { name = "b", slots = 24, speed = 2.0 }]
[[users]]
name = "u@v"
count = 4
[[workload]]
name = "w"
site = "a"
jobs = 2
repeat = 100
every_s = 3.0
generate = {}
"""


def rng(name: str) -> np.random.Generator:
    return chance.columns(7, name)


def columns(text: str, seed: int = 0) -> generated.GeneratedGroups:
    scenario = sc.parse(text)
    work = scenario.workload[0]
    assert work.generate is not None
    return generated.drawn(work, work.generate, scenario, seed)


def changed(**keys: str) -> str:
    """GOOD with these keys in `generate`; those of the entry itself begin with an underscore."""
    text = GOOD
    for key, value in keys.items():
        if key.startswith("_"):
            head, mark, entry = text.partition("[[workload]]\n")
            kept = [line for line in entry.splitlines() if not line.startswith(f"{key[1:]} =")]
            lines = [*(head + mark).splitlines(), *kept]
            at = lines.index("generate = {}")
            text = "\n".join([*lines[:at], *([f"{key[1:]} = {value}"] if value else []), *lines[at:]])
    inner = ", ".join(f"{key} = {value}" for key, value in keys.items() if not key.startswith("_"))
    return text.replace("generate = {}", f"generate = {{ {inner} }}")


def gamma_mean_exp(shape: float, scale: float, most: float) -> float:
    """Mean of e^X, X of a gamma distribution cut off at `most`, by the trapezoid rule: apart from the sampler."""
    x = np.linspace(1e-9, most, 200_001)
    density = np.exp((shape - 1) * np.log(x) - x / scale - math.lgamma(shape) - shape * math.log(scale))
    return float(np.trapezoid(density * np.exp(x), x) / np.trapezoid(density, x))


def test_poisson_gaps_have_the_mean_and_the_deviation_of_an_exponential() -> None:
    gaps = np.diff(gen.poisson_s(rng("p"), DRAWS, 3.0))
    assert gaps.mean() == pytest.approx(3.0, rel=0.02)
    assert gaps.std() == pytest.approx(3.0, rel=0.03)


def test_bursts_come_together_and_keep_the_mean_rate() -> None:
    times = gen.bursts_s(rng("b"), DRAWS, 3.0, 10, 0.0)
    assert times[-1] / DRAWS == pytest.approx(3.0, rel=0.05)
    assert (np.diff(times) == 0).mean() == pytest.approx(0.9, abs=1e-3)
    spaced = gen.bursts_s(rng("b"), 1000, 3.0, 10, 20.0)
    assert (np.diff(spaced) >= 0).all()


@pytest.mark.parametrize("kind", gen.LUBLIN)
def test_sizes_are_those_of_lublin_and_feitelson(kind: gen.Kind) -> None:
    model = gen.LUBLIN[kind]
    sizes = gen.lublin_processors(rng(kind), DRAWS, model, 128)
    assert (sizes == 1).mean() == pytest.approx(model.serial_prob, abs=0.01)
    powers = (sizes & (sizes - 1)) == 0
    assert model.serial_prob + model.pow2_prob - 0.01 < powers.mean() < 1.0
    assert sizes.min() == 1 and 2 ** (7 - model.uhi_below) * 0.9 < sizes.max() <= 128
    hi = 7 - model.uhi_below
    med = hi - model.umed_below
    wanted = model.uprob * (model.ulow + med) / 2 + (1 - model.uprob) * (med + hi) / 2
    assert np.log2(sizes[sizes > 1]).mean() == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize("kind", gen.LUBLIN)
@pytest.mark.parametrize("processors", [1, 64])
def test_run_times_are_the_published_hyper_gamma(kind: gen.Kind, processors: int) -> None:
    model = gen.LUBLIN[kind]
    run_s = gen.lublin_run_s(rng(f"{kind}{processors}"), np.full(DRAWS, processors), model)
    share = min(1.0, max(0.0, model.pa * processors + model.pb))
    mean = share * model.a1 * model.b1 + (1 - share) * model.a2 * model.b2
    # What lies beyond e^12 s is drawn again, which takes a little off.
    assert np.log(run_s).mean() == pytest.approx(mean, rel=0.05)
    assert run_s.max() <= math.exp(12.0)


def test_larger_jobs_run_longer() -> None:
    model = gen.LUBLIN["all"]
    means = [np.log(gen.lublin_run_s(rng("s"), np.full(20_000, size), model)).mean() for size in (1, 32, 128)]
    assert means == sorted(means) and means[2] - means[0] > 2.0


@pytest.mark.parametrize("kind", gen.LUBLIN)
def test_arrivals_have_the_published_mean_gap_and_day(kind: gen.Kind) -> None:
    model = gen.LUBLIN[kind]
    times = gen.lublin_arrivals_s(rng(f"a{kind}"), DRAWS, model)
    wanted_s = gamma_mean_exp(model.aarr * model.arar, model.barr, gen.MAX_LOG_GAP)
    assert times[-1] / DRAWS == pytest.approx(wanted_s, rel=0.05)
    assert (np.diff(times) >= 0).all()
    by_hour = np.histogram(times % gen.DAY_S, 24, (0, gen.DAY_S))[0] / DRAWS
    wanted = gen.day_weights(model.anum, model.bnum).reshape(24, 2).mean(axis=1) / 24
    assert np.abs(by_hour - wanted).max() < 0.01
    assert 11 <= int(by_hour.argmax()) <= 15 and 3 <= int(by_hour.argmin()) <= 5


def test_a_day_that_begins_at_noon_is_the_same_day_moved() -> None:
    model = gen.LUBLIN["all"]
    times = gen.lublin_arrivals_s(rng("noon"), 20_000, model, 12.0)
    assert times[0] > 0
    hours = np.histogram((times + 12 * 3600) % gen.DAY_S, 24, (0, gen.DAY_S))[0]
    assert 11 <= int(hours.argmax()) <= 16


@pytest.mark.parametrize("most", [1, 2, 3, 4, 6, 100])
def test_no_job_is_larger_than_the_machine(most: int) -> None:
    for kind, model in gen.LUBLIN.items():
        sizes = gen.lublin_processors(rng(kind), 2_000, model, most)
        assert sizes.min() >= 1 and sizes.max() <= most


def test_users_come_by_zipf_and_homes_by_weight() -> None:
    weights = gen.zipf_weights(5, 1.0)
    counts = np.bincount(gen.chosen(rng("z"), DRAWS, weights), minlength=5) / DRAWS
    assert counts == pytest.approx(weights / weights.sum(), abs=0.01)
    assert set(gen.chosen(rng("n"), 1000, np.array([0.0, 1.0, 0.0]))) == {1}


@pytest.mark.parametrize("arrivals", ["poisson", "bursts", "even", "lublin"])
def test_the_offered_load_is_the_one_asked_for(arrivals: str) -> None:
    drawn = columns(changed(arrivals=f"'{arrivals}'", load="0.9", sizes="'lublin'", _every_s="", _submit_s="50.0"))
    span_s = drawn.submit_s[-1] - 50.0
    span_s *= 100 / 99 if arrivals == "even" else 1.0
    offered_s = 2 * float((drawn.processors * drawn.work_s).sum())
    assert offered_s / (span_s * (8 + 24 * 2.0)) == pytest.approx(0.9, rel=1e-9)
    assert drawn.submit_s.min() >= 50.0 and drawn.processors.max() <= 24


def test_a_load_is_held_against_the_sites_the_work_may_run_at() -> None:
    here = columns(changed(load="0.5", _every_s="", _sites="['a']"))
    everywhere = columns(changed(load="0.5", _every_s=""))
    assert here.submit_s[-1] / everywhere.submit_s[-1] == pytest.approx(56 / 8)


def test_one_seed_is_one_workload_and_columns_do_not_shift_each_other() -> None:
    first, again, other = columns(GOOD, 3), columns(GOOD, 3), columns(GOOD, 4)
    assert all(np.array_equal(a, b) for a, b in zip(first[:5], again[:5], strict=True))
    assert not np.array_equal(first.submit_s, other.submit_s)
    sized = columns(changed(sizes="'lublin'"), 3)
    assert np.array_equal(first.submit_s, sized.submit_s) and np.array_equal(first.user, sized.user)


def test_users_with_a_count_are_so_many_users_with_their_quota() -> None:
    text = GOOD.replace("count = 4", 'count = 3\nquota = 5.0\n[[users]]\nname = "x@v"')
    scenario = sc.parse(text)
    assert [user.name for user in scenario.users] == ["u@v", "u-2@v", "u-3@v", "x@v"]
    assert scenario.site_settings(scenario.sites[0]).quotas == {"u@v": 5.0, "u-2@v": 5.0, "u-3@v": 5.0}
    named = sc.parse(text.replace("generate = {}", 'generate = { users = ["x@v", "u@v"] }'))
    assert named.workload[0].generate is not None
    assert named.workload[0].generate.users == ("x@v", "u@v", "u-2@v", "u-3@v")
    assert sc.parse(written(named)) == named


def test_a_user_of_one_home_submits_at_one_site() -> None:
    drawn = columns(changed(homes="'slots'", one_home="true"))
    homes = {user: set(drawn.home[drawn.user == user].tolist()) for user in set(drawn.user.tolist())}
    assert len(homes) > 1 and all(len(sites) == 1 for sites in homes.values())
    free = columns(changed(homes="{ a = 1.0, b = 3.0 }", _repeat="20000"))
    assert (free.home == 1).mean() == pytest.approx(0.75, abs=0.02)


def test_the_groups_of_an_entry_are_submitted_as_drawn() -> None:
    scenario = sc.parse(changed(homes="'equal'", sizes="'lublin'"))
    users = workload.Users(Clock(), scenario, 0, lambda site, event: None)
    drawn = columns(changed(homes="'equal'", sizes="'lublin'"))
    assert not users.submissions, "a group that is drawn is made when its time comes"
    made = list(users.in_order())
    assert [s.name for s in made[:2]] == ["w", "w-2"] and {s.entry for s in made} == {"w"}
    assert [s.submit_s for s in made] == drawn.submit_s.tolist()
    assert [s.spec.resources.processors for s in made] == drawn.processors.tolist()
    assert [s.life(0).run_s for s in made] == drawn.work_s.tolist()
    assert [s.principal.name for s in made] == [drawn.users[k] for k in drawn.user]


def test_a_drawn_workload_runs_to_its_end_and_is_one_entry_of_the_report() -> None:
    text = changed(load="0.8", homes="'slots'", _every_s="", _repeat="12", _work_s="2.0")
    report = simulate(sc.parse(text), 1)
    assert report.good(), report.violations
    assert report.groups["w"].done == 24 and list(report.groups) == ["w"]
    assert 0 <= report.groups["w"].wait_mean_s < report.groups["w"].turnaround_mean_s < report.groups["w"].makespan_s


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (changed(arivals="'even'"), "unknown key 'arivals' in workload[0].generate; did you mean 'arrivals'?"),
        (changed(load="-1"), "workload w: generate: load = -1.0: want 0 to 1000"),
        (changed(load="0.5"), "sets the time between groups, every_s = 3 too; leave one out"),
        (changed(_every_s=""), "arrivals = 'poisson' wants the mean time between groups; set every_s or load"),
        (changed(sizes="'lublin'", _work_s="5.0"), "sizes = 'lublin' draws what work_s = 5 says; leave one out"),
        (
            changed(sizes="'lublin'", max_processors="25"),
            "the largest machine it may run on has 24 slots; give it more",
        ),
        (changed(users="['w@v']"), "workload w: generate: users: 'w@v' is not known; did you mean 'u@v'?"),
        (changed(users="['u@v']", _user="'u@v'"), "both say who submits; leave one out"),
        (changed(homes="{ c = 1.0 }"), "workload w: generate: homes: 'c' is not known; known: a, b"),
        (changed(homes="{ a = 0.0 }"), "homes: no site has a weight above 0; give one"),
        (changed(homes="{ a = -1.0 }"), "homes.a = -1.0: want 0 to 1e+12"),
        (changed(_produces="'d'", _output_bytes="1"), "groups that are drawn cannot have produces"),
        (changed(load="0.5", _every_s="").replace("slots = 8", "slots = 0").replace("24", "0"), "have no slots"),
        (GOOD.replace("count = 4", "count = 0"), "users u@v: count = 0: want 1 to 1e+06"),
        (GOOD.replace("count = 4", "quota = -1"), "users u@v: quota = -1.0: want 1e-06 to 1e+12"),
        (GOOD + '[[workload]]\nname = "w-7"\nsite = "a"\njobs = 1\n', "group 7 of 'w' has this name"),
    ],
)
def test_a_wrong_generator_is_one_line_with_key_and_mend(text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        sc.parse(text, "x.toml")
    assert says in str(error.value) and str(error.value).startswith("x.toml: ") and "\n" not in str(error.value)
