"""Asking who holds a group's data: SPEC D12 (groups touching 10^7 files). Messages stay small, whatever is named."""

from __future__ import annotations

import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.placement.draft import MAX_ASKED_CHARACTERS, MAX_ASKED_REFS, Draft, Probe, quote_request
from diana.engine.placement.quote_round import ROUNDS
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from tests.engine.bench import OPERATOR, Fate, Grid, Post
from tests.engine.builders import dataset, spec

PROBE = Probe(lambda _: None)


def draft(*refs: str) -> Draft:
    return Draft(1, spec(1), IndexSet.span(0, 1), [(ref, IndexSet.span(0, 1)) for ref in refs], owner="", purpose=PROBE)


def test_refs_are_asked_in_stretches_that_fit_a_message_and_none_is_lost() -> None:
    many = [f"dataset:d/{number:05}" for number in range(MAX_ASKED_REFS * 2 + 1)]
    asked = draft(*many, "blob:" + "0" * 64)
    assert [len(part) for part in asked.stretches] == [MAX_ASKED_REFS, MAX_ASKED_REFS, 1]
    assert [ref for part in range(3) for ref in quote_request(asked, part).refs] == many
    long = draft(*(f"dataset:d/{'x' * 2000}{number:05}" for number in range(500)))
    assert all(sum(map(len, part)) <= MAX_ASKED_CHARACTERS for part in long.stretches)
    assert draft().stretches == [()]


def test_a_group_that_names_more_files_than_a_message_holds_is_placed_where_they_lie() -> None:
    jobs = MAX_ASKED_REFS + 500
    grid = Grid(alpha=0, beta=4)
    beta, alpha = grid["beta"], grid["alpha"]
    beta.handle(ev.AddDataset(request=90, principal=OPERATOR, dataset=dataset("d", *map(str, range(jobs)))))
    refs = tuple((f"dataset:d/{index}", IndexSet((index, index + 1))) for index in range(jobs))
    alpha.submit(spec(jobs, work_s=1.0), jobs, refs=tuple(sorted(refs)))
    grid.settle()
    sent = [effect.message for effect in alpha.trace if isinstance(effect, fx.Send)]
    asked = [message for message in sent if isinstance(message, ms.QuoteRequest)]
    assert [(m.part, len(m.refs)) for m in asked] == [(0, MAX_ASKED_REFS), (1, 500)]
    parts = alpha.engine.core.state.groups[GroupId("alpha-1")].subgroups.values()
    assert {part.site for part in parts} == {"beta"}


def test_a_driver_that_looks_moves_nothing() -> None:
    """Work that is due then is done with the next event, whose effects somebody carries out."""
    site = Grid(alpha=2)["alpha"]
    site.submit(spec(4, work_s=10.0), 4)
    core = site.engine.core
    core.to_check.add(GroupId("alpha-1"))
    before = site.engine.snapshot()
    effects = site.engine.look(ev.Ask(request=1, principal=OPERATOR, what="group", group=GroupId("alpha-1")), 5.0)
    assert [type(effect) for effect in effects] == [fx.Reply]
    assert core.to_check and site.engine.snapshot() == before


def lost(kind: type, times: int) -> Fate:
    left = times

    def fate(grid: Grid, number: int, letter: Post) -> str:
        nonlocal left
        if isinstance(letter[2], kind) and left:
            left -= 1
            return "lose"
        return "deliver"

    return fate


@pytest.mark.parametrize("kind", [ms.QuoteRequest, ms.Quote])
def test_a_word_that_is_lost_costs_a_plan_no_site(kind: type) -> None:
    grid = Grid(alpha=4, beta=4)
    grid.fate = lost(kind, ROUNDS - 1)
    assert grid["alpha"].submit(spec(2, sites=("beta",)), 2, plan_only=True) is None
    grid.pass_time(60.0)
    answer = grid["alpha"].replies[1]
    assert isinstance(answer, fx.DecisionMade) and answer.decision.candidates[0].site == "beta", answer


@pytest.mark.parametrize("kind", [ms.QuoteRequest, ms.Quote])
def test_a_group_whose_data_nobody_named_waits_for_who_was_not_heard(kind: type) -> None:
    grid = Grid(alpha=4, beta=4)
    grid["beta"].handle(ev.AddDataset(request=90, principal=OPERATOR, dataset=dataset("d", "file")))
    grid.fate = lost(kind, ROUNDS - 1)
    assert grid["alpha"].submit(spec(2), 2, refs=(("dataset:d/file", IndexSet.span(0, 2)),)) is None
    grid.pass_time(60.0)
    assert grid["alpha"].replies[1] == fx.GroupAccepted(GroupId("alpha-1"), 2)


def test_a_site_that_says_nothing_at_all_is_not_waited_for_for_ever() -> None:
    grid = Grid(alpha=4, beta=4)
    grid.fate = lost(ms.QuoteRequest, 100)
    alpha = grid["alpha"]
    wait_s = alpha.engine.core.state.settings.quote_wait_s
    alpha.submit(spec(2, sites=("beta",)), 2, plan_only=True)
    grid.pass_time(wait_s * ROUNDS)
    answer = alpha.replies[1]
    assert isinstance(answer, fx.Refusal) and "beta: gave no quote in time" in answer.text
    # Where another can take them nobody is asked twice.
    alpha.submit(spec(2), 2, request=2, plan_only=True)
    grid.pass_time(wait_s)
    assert isinstance(alpha.replies[2], fx.DecisionMade)
