"""PROMISES section 2 "Standby" (row D8): every sentence is needed, for without any one the search finds a harm."""

from __future__ import annotations

import dataclasses
import os

import pytest

from tests.protocol.search import explore
from tests.protocol.standby import Standby
from tests.protocol.standby_mutants import LATE_ANSWER, MUTANTS, Mutant
from tests.protocol.standby_rules import HARMS
from tests.protocol.standby_setting import JOURNAL, Rules

FULL = os.environ.get("DIANA_FULL") == "1"
pytestmark = [pytest.mark.timeout(3600)] if FULL else []


@pytest.mark.wide
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.without)
def test_without_any_one_sentence_harm_is_found(mutant: Mutant) -> None:
    found = mutant.search().found
    assert found is not None, f"nothing comes of leaving out {mutant.without}"
    print(f"without {mutant.without}: {found}")


def test_every_sentence_has_its_mutant() -> None:
    assert {mutant.without for mutant in MUTANTS} == {switch.name for switch in dataclasses.fields(Rules)}


@pytest.mark.wide
@pytest.mark.parametrize("switch", ["lease", "granted_outlives_crash"])
def test_without_leases_a_fenced_leader_answers_late_but_nothing_is_lost(switch: str) -> None:
    rules, harms = Rules(**{switch: False}), [harm for harm in HARMS if harm is not LATE_ANSWER]
    on = dataclasses.replace(JOURNAL if FULL else JOURNAL.with_terms(2), rules=rules)
    found = explore(Standby(on), harms).found
    assert found is None, str(found)
