"""Run times fitted over processors and sites: exact where they follow the form, and ranges that hold eight of ten runs
of programs that they have not seen so (SPEC G2)."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from diana.model.job.components import components_of
from diana.model.job.spec import GroupSpec, Resources
from diana.model.learned import LEAST_RUNS, MOST_FITS, RunFit, RunFits, RunSample, equations, fit_key
from diana.model.sketch import Sketch, batch_of
from diana.policy.grads.models import EquationModel

PROGRAMS = {
    # (seconds whatever the processors, seconds of one processor, seconds for each further site)
    "Jacobi": (20.0, 900.0, 15.0),
    "Life": (5.0, 400.0, 4.0),
    "FASTA": (60.0, 2000.0, 0.0),
    "LU": (10.0, 3000.0, 60.0),
    "Cactus": (40.0, 1500.0, 25.0),
    "Fish": (0.0, 600.0, 8.0),
}
NOISE = 0.12


def run_s(terms: tuple[float, float, float], x: float, y: int) -> float:
    return terms[0] + terms[1] * x + terms[2] * y


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_fit_of_runs_without_noise_finds_the_programs_own_terms(name: str) -> None:
    fit, terms = RunFit(), PROGRAMS[name]
    for processors in (1, 2, 4, 8):
        for more in (0, 1, 2):
            fit.add(RunSample(1 / processors, more, run_s(terms, 1 / processors, more), 1))
    found = fit.terms()
    assert found == pytest.approx(terms, rel=1e-6, abs=1e-6)
    assert found is not None and run_s(found, 1 / 32, 5) == pytest.approx(run_s(terms, 1 / 32, 5))


def test_runs_on_one_number_of_processors_alone_are_taken_to_scale() -> None:
    fit = RunFit()
    for _ in range(LEAST_RUNS):
        assert fit.terms() is None
        fit.add(RunSample(0.25, 0, 100.0, 1))
    assert fit.terms() == pytest.approx((0.0, 400.0, 0.0))


def test_a_run_that_more_processors_do_not_shorten_is_foretold_so() -> None:
    fit = RunFit()
    for processors in (1, 2, 4, 8, 16):
        fit.add(RunSample(1 / processors, 0, 50.0, 2))
    assert fit.terms() == pytest.approx((50.0, 0.0, 0.0))


def test_what_makes_no_sense_is_left_out_and_terms_are_never_below_nothing() -> None:
    fit = RunFit()
    for seconds in (0.0, -5.0, float("nan")):
        fit.add(RunSample(1.0, 0, seconds, 1))
    assert fit == RunFit()
    for processors in (1, 2, 4, 8, 16):
        fit.add(RunSample(1 / processors, processors, 10.0 + processors, 1))
    assert min(fit.terms() or (-1,)) >= 0


def test_older_runs_fade_and_few_programs_are_remembered() -> None:
    fit = RunFit()
    fit.add(RunSample(1.0, 0, 10.0, 100))
    fit.add(RunSample(1.0, 0, 20.0, 5000))
    assert (fit.terms() or (0, 0, 0))[1] == pytest.approx(20.0, rel=0.01)
    fits = RunFits()
    for number in range(MOST_FITS + 5):
        fits.add(f"p{number}", "u", RunSample(1.0, 0, 10.0, 5))
    assert len(fits.fits) == MOST_FITS and fits.terms("p0", "u") is None and fits.terms("p9", "u") is not None


@pytest.mark.parametrize("seed", range(3))
def test_ranges_by_past_errors_hold_eight_of_ten_runs_that_were_not_learned_from(seed: int) -> None:
    """Each run is foretold by the fit of those before it; its error joins the sketch that makes ranges. Held out are
    runs on numbers of processors and sites of which some were never seen."""
    inside = runs = 0
    for name, terms in PROGRAMS.items():
        rng = Random(f"{name} {seed}")
        fit, errors = RunFit(), Sketch()

        def drawn(most: int, terms: tuple[float, float, float] = terms, rng: Random = rng) -> tuple[float, int, float]:
            x, y = 1 / rng.randint(1, most), rng.randint(0, 3)
            return x, y, run_s(terms, x, y) * rng.lognormvariate(0.0, NOISE)

        for _ in range(200):
            x, y, seconds = drawn(16)
            if (known := fit.terms()) is not None:
                errors.add(batch_of([seconds / run_s(known, x, y)]))
            fit.add(RunSample(x, y, seconds, 1))
        known, past = fit.terms(), errors.finer_quantiles()
        assert known is not None
        held_out = [drawn(24) for _ in range(200)]
        found = [past.low_s <= seconds / run_s(known, x, y) <= past.high_s for x, y, seconds in held_out]
        off = [abs(seconds / run_s(known, x, y) - 1) for x, y, seconds in held_out]
        assert sorted(off)[len(off) // 2] < 1.5 * NOISE, f"{name}: the median error is that of the noise"
        inside, runs = inside + sum(found), runs + len(found)
    assert 0.75 <= inside / runs <= 0.85, inside / runs


def test_programs_are_the_same_on_any_number_of_processors() -> None:
    one = GroupSpec(argv=("lu", "{n}"))
    wide = msgspec.structs.replace(one, resources=Resources(processors=8, work_s=9.0))
    assert fit_key(one) == fit_key(wide) != fit_key(GroupSpec(argv=("jacobi",)))
    assert fit_key(msgspec.structs.replace(one, components=components_of("2x4"))) != fit_key(one)


def test_a_fit_is_a_model_like_any_other() -> None:
    one = GroupSpec(resources=Resources(processors=4, work_s=10.0))
    model = EquationModel(msgspec.structs.replace(one, model=equations(one, (1e-7, 3.0, 5.0))))
    assert model.seconds({"site.speed": 2.0}, home=True) == pytest.approx(3.75)
    gang = msgspec.structs.replace(one, components=components_of("2x4"))
    model = EquationModel(msgspec.structs.replace(gang, model=equations(gang, (2.0, 3.0, 5.0))))
    values = {"component.share": 0.5, "component.speed": 1.0, "component.processors": 4.0, "gang.sites": 2.0}
    assert model.component_s(values, 4) == pytest.approx(2.0 + 30 * 0.5 / 4 + 5)
