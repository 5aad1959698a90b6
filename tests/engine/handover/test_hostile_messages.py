"""Bad input (SPEC section 6): messages for unknown transfers, from the wrong site, of old epochs, twice, garbled or
oversized are ignored or refused as the protocol says, counted, never a crash (PROMISES 5.5, 5.6).

`make test` says some thousand of them, `make soak PARTS=wide` a hundred thousand and DIANA_FULL=1 a million.
"""

from __future__ import annotations

import itertools
import os
import typing
from collections import Counter

import msgspec
import pytest

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.engine.messages.binding import Reserve
from diana.engine.messages.migration import RoomGrant, RoomRequest
from diana.engine.placement.draft import Drafts
from diana.engine.site.complaints import ANOTHER_S, AT_ONCE
from diana.model.ids import GroupId, SubgroupId
from diana.wire import maxima
from tests.engine.bench import Grid
from tests.engine.builders import kinds, spec
from tests.engine.dispatch.test_licences import licensed, wanting
from tests.engine.gossiping import entry, hello
from tests.engine.handing import PART, committed, receive, sent
from tests.engine.hostile import NAMES, ODD_NAMES, through_the_wire
from tests.engine.hostile_life import live
from tests.runs import first_seed

FULL = os.environ.get("DIANA_FULL") == "1"
WORDS = 1000
"""In one life: then there are new sites, new groups and another seed."""
ASKED = ("processors", "memory_bytes", "scratch_bytes", "gpus")
AMOUNTS = ((0, 1), (0, 0), (-1, 1), (2**30, -1), (2**50, 2**53 - 1), (2**62, 2**63 - 1))
"""(bytes of memory, jobs)."""


def said(first: int, words: int, binding: str = "early") -> Counter[str]:
    tally: Counter[str] = Counter()
    for seed in range(first, first + words // WORDS):
        tally += live(seed, WORDS, binding)
    print(*(f"{count:>8,} {what}" for what, count in sorted(tally.items())), sep="\n")
    return tally


@pytest.mark.parametrize("binding", ["early", "late"])
def test_a_site_that_lies_stops_starts_and_changes_nothing_that_is_not_its_own(binding: str) -> None:
    tally = said(first_seed(63_000), 3 * WORDS, binding)
    assert tally["refused by the codec"] > 0


def test_who_floods_a_site_with_nonsense_fills_no_log_and_hides_nobody_else() -> None:
    grid = committed(4, alpha=1, beta=4, gamma=4, delta=4)
    alpha = grid["alpha"]
    forged = ms.Committed(subgroup=PART, epoch=1)
    told = sum(len(kinds(receive(alpha, "gamma", forged))) for _ in range(5000))
    assert told == AT_ONCE
    assert alpha.engine.counters["nonsense"] == 5000
    assert kinds(receive(alpha, "delta", forged)) == ["Warn"]
    grid.now += ANOTHER_S
    assert kinds(receive(alpha, "gamma", forged)) == ["Warn"]
    assert "4,980 more like this were not told" in alpha.warnings[-1]


def test_words_of_placements_nobody_knows_are_counted_and_answered_at_most_to_their_sender() -> None:
    grid = committed(4, alpha=1, beta=4, gamma=4)
    alpha = grid["alpha"]
    before = alpha.engine.snapshot()
    for number, kind in enumerate((ms.Committed, ms.Prepared, ms.Lost), 1):
        extra = {} if kind is ms.Committed else {"db_uuid": "x"} | ({"seq": 1} if kind is ms.Prepared else {})
        effects = receive(alpha, "gamma", kind(subgroup=SubgroupId("alpha-9/9"), epoch=3, **extra))
        assert all(isinstance(e, fx.Send) and e.to == "gamma" for e in effects)
        assert alpha.engine.counters["late_words"] == number
    assert alpha.engine.snapshot() == before


@pytest.mark.parametrize("name", (*NAMES, *ODD_NAMES), ids=lambda name: ascii(name)[:30])
def test_what_a_peer_asks_by_any_name_and_number_is_answered(name: str) -> None:
    """Also at a cluster of MPI jobs, whose memory is divided among their processes."""
    site, machines = licensed(a=4, cluster=8)
    has = ("licence matlab 3", "licences", "mpi", "containers")
    site.handle(ev.LrmReady(worker="cluster", session=2, slots=8, known=(), widest=4, memory_bytes=2**34, software=has))
    machines.submit(wanting(8, matlab=1), 8)
    for processors, gpus, (memory_bytes, jobs) in itertools.product((0, -1, 1, 5, 2**63 - 1), (0, -1, 1), AMOUNTS):
        what: dict[str, typing.Any] = {"processors": processors, "gpus": gpus}
        what |= {"memory_bytes": memory_bytes, "jobs": jobs, "resources": {name: jobs} if gpus == 1 else {}}
        for software in ((name,), (name, "mpi"), ("licence matlab 1", name)):
            asked = ms.QuoteRequest(quote=1, refs=(), work_s=10.0, software=software, **what)
            (quote,) = sent(receive(site, "gamma", asked), ms.Quote)
            assert isinstance(quote, ms.Quote) and len(str(quote)) < 2000
            assert quote.rejected or (processors > 0 and min(gpus, memory_bytes) >= 0)
            assert quote.rejected or jobs <= 0 or not what["resources"]
            asked_room = RoomRequest(room=1, gain_s=1e6, owner="eve@vo", template="", software=software, **what)
            assert len(sent(receive(site, "gamma", asked_room), RoomGrant)) == (min(processors, jobs) > 0)


@pytest.mark.parametrize("figure", [2**62, 2**63 - 1])
@pytest.mark.parametrize("field", ["jobs", *ASKED, "resources"])
def test_whoever_asks_for_more_than_anybody_has_is_answered_that_nobody_has_it(field: str, figure: int) -> None:
    site, _ = licensed(a=4)
    site.handle(ev.LrmReady(worker="b", session=9, slots=4, known=(), memory_bytes=2**34, resources=(("fpga", 2),)))
    value = {"fpga": figure, "none": figure} if field == "resources" else figure
    asked: dict[str, typing.Any] = {"processors": 1, "memory_bytes": 0, "jobs": 1, "owner": "eve@vo", field: value}
    group = GroupId("gamma-1")
    turn: dict[str, typing.Any] = {
        "group": group,
        "seq": 1,
        "share": 1,
        "called": 0,
        "submitted_s": 0.0,
        "stage_s": 0.0,
    }
    for message in (
        ms.QuoteRequest(quote=1, refs=(), work_s=10.0, **asked),
        RoomRequest(room=1, gain_s=1e6, template="", **asked),
        Reserve(**asked, **turn),
    ):
        _, read = through_the_wire(message, Counter())
        assert read is not None
        effects = receive(site, "gamma", read)
        for quote in sent(effects, ms.Quote):
            assert isinstance(quote, ms.Quote)
            # Of memory and scratch this site tells nothing, so nothing is checked.
            assert quote.rejected or quote.max_jobs or field not in ("jobs", "processors", "gpus", "resources")
            assert len(quote.rejected) < 200
        for grant in sent(effects, RoomGrant):
            assert isinstance(grant, RoomGrant) and (grant.jobs <= 8 or field == "jobs") and grant.jobs <= 10**8


@pytest.mark.parametrize("figure", [2**62, 2**63 - 1])
def test_a_peer_that_tells_all_it_can_of_itself_is_asked_and_believed_no_further_than_can_be(figure: int) -> None:
    names = ("slots", "free_slots", "widest", "gpus", "memory_bytes")
    more: dict[str, typing.Any] = {"queued_jobs": figure, **dict.fromkeys(names, figure)}
    alpha = Grid(alpha=2)["alpha"]
    alpha.handle(ev.PeerUp(hello("gamma")))
    told = {**more, "running_jobs": figure, "machines": figure, "resources": {"fpga": figure}}
    _, said = through_the_wire(entry("gamma", **told), Counter())
    assert said is not None
    receive(alpha, "gamma", said)
    row = alpha.engine.core.roster.table()
    assert row.slots.sum() == row.widest.sum() == maxima.MOST_UNITS
    asked = [alpha.submit(spec(4, work_s=50.0), 4, 7, plan_only=True, settle=False)]
    (draft,) = alpha.engine.core.book(Drafts).open.values()
    quote = ms.Quote(
        quote=draft.number, rejected="", speed=1.0, work_ahead_s=0.0, files=(), unknown_refs=(), links=(),
        **more, free_gpus=figure, startable=figure, runs_seen=figure, jobs_ahead=figure, max_jobs=figure,
        kinds=(ms.MachineKind(figure, figure, 1.0, figure, figure, "x86_64", figure),),
        coming=(ms.ComingRoom(1.0, figure, figure),),
    )  # fmt: skip
    _, heard = through_the_wire(quote, Counter())
    assert isinstance(heard, ms.Quote)
    receive(alpha, "gamma", heard)
    asked.append(alpha.replies[7])
    made = asked[-1]
    assert isinstance(made, fx.DecisionMade)
    shown = {each.site: each.slots for each in made.decision.candidates}
    assert shown["gamma"] == maxima.MOST_UNITS
    msgspec.json.encode(made)


@pytest.mark.wide
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("binding", ["early", "late"])
def test_so_it_is_under_many_seeds(binding: str, part: int) -> None:
    words = 250_000 if FULL else 25_000
    said(first_seed(63_000) + part * words // WORDS, words, binding)
