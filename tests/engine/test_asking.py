"""Asking who holds a group's data: SPEC D12 (groups touching 10^7 files). Messages stay small, whatever is named."""

from __future__ import annotations

from diana.engine import effects as fx
from diana.engine import events as ev
from diana.engine import messages as ms
from diana.engine.draft import MAX_ASKED_CHARACTERS, MAX_ASKED_REFS, Draft, quote_request
from diana.model.ids import GroupId
from diana.model.indexset import IndexSet
from tests.engine.bench import OPERATOR, Grid
from tests.engine.builders import dataset, spec


def draft(*refs: str) -> Draft:
    return Draft(1, spec(1), IndexSet.span(0, 1), [(ref, IndexSet.span(0, 1)) for ref in refs])


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
    """What is due then is done with the next event, whose effects somebody carries out."""
    site = Grid(alpha=2)["alpha"]
    site.submit(spec(4, work_s=10.0), 4)
    core = site.engine.core
    core.to_check.add(GroupId("alpha-1"))
    before = site.engine.snapshot()
    effects = site.engine.look(ev.Ask(request=1, principal=OPERATOR, what="group", group=GroupId("alpha-1")), 5.0)
    assert [type(effect) for effect in effects] == [fx.Reply]
    assert core.to_check and site.engine.snapshot() == before
