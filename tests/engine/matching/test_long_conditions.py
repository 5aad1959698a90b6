"""The longer the conditions of a set are, the fewer sets are judged: whoever plans a group holds nobody else up."""

from __future__ import annotations

from string import ascii_lowercase

import pytest

from diana.engine.journal import effects as fx
from diana.model.job.components import components_of
from diana.policy.requirements.group import MOST_JUDGED
from diana.policy.requirements.judge import Requirements
from tests.engine.bench import Grid
from tests.engine.builders import spec

TERMS = " + ".join(f"{n} * sum(set.slots) / size(set)" for n in range(1, 15))
LONG = tuple(f"{TERMS} >= {n}e9" for n in range(1, 60))
"""Conditions that no set meets; each set differs in them."""
EACH = sum(map(len, LONG))


def judged_characters(monkeypatch: pytest.MonkeyPatch, components: str, wanted: tuple[str, ...]) -> int:
    """Return the characters of conditions of sets that one plan judges over ten sites of unlike sizes."""
    made = Grid({"binding": "early"}, **{letter: 3 + at for at, letter in enumerate(ascii_lowercase[:10])})
    told: list[int] = []
    real = Requirements.shortfall

    def shortfall(self: Requirements, values: object) -> object:
        told.append(self.characters)
        return real(self, values)  # type: ignore[arg-type]

    monkeypatch.setattr(Requirements, "shortfall", shortfall)
    asked = spec(1, set_requirements=wanted, components=components_of(components) if components else ())
    made["a"].submit(asked, 1 if components else 40, plan_only=True)
    made.pass_time(60.0)
    assert isinstance(made["a"].replies[1], fx.Refusal)
    return sum(told)


@pytest.mark.parametrize("components", ["", "6x1"])
def test_long_conditions_are_judged_of_few_sets_and_short_ones_of_all(
    monkeypatch: pytest.MonkeyPatch, components: str
) -> None:
    short = "sum(set.slots) >= 1e9"
    assert judged_characters(monkeypatch, components, (short,)) > 255 * len(short), "every set of the best eight"
    assert 4 * EACH < judged_characters(monkeypatch, components, LONG) <= MOST_JUDGED + 4 * EACH
