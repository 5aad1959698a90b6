"""A site of the VO that lies about lost databases: what it says of this site's, and what it says that it holds of this
site's groups (PROMISES sections 2 and 5.5). The honest cases stand in `test_recovery.py` and `test_stocktaking.py`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict, replace

from diana.engine.journal import codec as lines
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records
from diana.engine.membership import gossip
from diana.engine.messages import messages as ms
from diana.engine.messages.binding import Reserve
from diana.engine.messages.recovery import Evidence, Holding, Holdings, Met
from diana.engine.recovery import stocktaking
from diana.engine.site import journal_doubt
from diana.engine.site.journal_doubt import JournalDoubt
from diana.model.facts import Outcome
from diana.model.ids import SiteId, SubgroupId
from diana.model.indexset import IndexSet
from diana.model.views.peers import Peers
from diana.model.views.queue import QueueView
from diana.model.views.views import GroupView, Ok, Sites
from diana.policy.trust import seals
from tests.engine.bench import Grid, Post, Site
from tests.engine.builders import spec
from tests.engine.handing import PART, committed, go_on, offered, own_word, receive, sent, view, with_offer
from tests.engine.recovery.test_recovery import unsure_at_home
from tests.engine.recovery.test_stocktaking import origin_copied, put_origin_back

ALPHA, BETA, GAMMA, MALLORY = SiteId("alpha"), SiteId("beta"), SiteId("gamma"), SiteId("mallory")
NEW = SubgroupId("alpha-1/7")
"""A part that the origin's copy does not have."""


def meet(site: Site, name: SiteId = MALLORY) -> None:
    """A first stream with that site."""
    hello = ms.Hello(
        site=name,
        protocol=1,
        release="t",
        capabilities=(),
        db_uuid=f"db-{name}",
        generation=1,
        boot_nonce=f"{name}1",
        seq=1,
        term=0,
        data_address="",
    )
    site.handle(ev.PeerUp(hello))


def say_it_fell(site: Site, sender: SiteId, evidence: Evidence | None = None) -> bool:
    """Whether the site starts anew at that word."""
    met = Met(boot_nonce=site.engine.core.state.boot_nonce, fell=True, evidence=evidence)
    effects = site.engine.handle(ev.Received(sender, met), site.grid.now)
    assert bool(site.engine.core.book(JournalDoubt).fallen) == any(isinstance(e, fx.StartAnew) for e in effects)
    site.run([e for e in effects if not isinstance(e, fx.StartAnew)])
    return bool(site.engine.core.book(JournalDoubt).fallen)


def run_on(grid: Grid, seconds: int = 100) -> None:
    for _ in range(seconds // 5):
        for site in grid.sites.values():
            site.end()
        grid.pass_time(5.0)


# --- a fall that was none -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sender", [ALPHA, MALLORY])
def test_no_word_of_a_peer_counts_against_the_mark_that_shows_the_newest_journal(sender: SiteId) -> None:
    grid = committed(jobs=20)
    beta = grid["beta"]
    beta.restart()
    meet(beta)
    assert not say_it_fell(beta, sender)
    assert f"{sender} says that it knows a later state" in beta.warnings[-1]


def test_a_site_that_lies_so_stops_its_own_jobs_and_nobody_elses() -> None:
    grid = Grid({"migration": "off"}, alpha=0, beta=2, gamma=0)
    beta = grid["beta"]
    for name in ("alpha", "gamma"):
        grid[name].submit(spec(6, work_s=10.0, sites=("beta",)), 6)
    beta.submit(spec(6, work_s=10.0, sites=("beta",)), 6, 2)
    beta.boot()
    beta.lrm_ready()
    grid.post_box.clear()
    assert not say_it_fell(beta, GAMMA)
    core = beta.engine.core
    why = {custody.origin: journal_doubt.stays(core, custody) for custody in core.state.custodies.values()}
    assert why[ALPHA] == why[BETA] == ""
    assert "gamma says that it knows a later state" in why[GAMMA] and "diana site go-on gamma" in why[GAMMA]
    run_on(grid)
    assert len(grid["alpha"].group("alpha-1").done) == len(beta.group("beta-1").done) == 6
    assert len(grid["gamma"].group("gamma-1").done) < 6
    assert go_on(beta, "gamma") == Ok(1)
    assert not say_it_fell(beta, GAMMA)
    run_on(grid)
    assert len(grid["gamma"].group("gamma-1").done) == 6


def test_who_takes_back_that_it_knows_better_has_its_jobs_run() -> None:
    grid = committed(jobs=20)
    beta = grid["beta"]
    beta.boot()
    beta.lrm_ready()
    assert not say_it_fell(beta, ALPHA)
    assert beta.engine.core.book(JournalDoubt).denied_by == {ALPHA}
    grid.part("alpha")
    grid.heal("alpha")
    run_on(grid)
    assert view(grid).done == 20


def test_a_site_that_found_this_boots_journal_whole_cannot_deny_it_afterwards() -> None:
    grid = committed(jobs=20)
    assert not say_it_fell(grid["beta"], ALPHA)
    run_on(grid)
    assert view(grid).done == 20


def test_whom_a_doubtful_journal_does_not_know_cannot_have_it_renamed_and_it_waits_for_an_operator() -> None:
    """It may have been met since the copy was made, so this site shows that it waits, for longer than it does for those
    that are silent."""
    grid, alpha = unsure_at_home(20)
    started = len(alpha.started)
    meet(alpha)
    assert not say_it_fell(alpha, MALLORY)
    grid.heal("alpha")
    grid.pass_time(3 * journal_doubt.PATIENCE_S)
    assert len(alpha.started) == started
    assert "waits for a word of mallory" in journal_doubt.waiting_for(alpha.engine.core)
    assert go_on(alpha, "mallory") == Ok(1)
    assert len(alpha.started) > started


def test_a_journal_that_knew_no_peer_when_it_was_copied_waits_for_an_operator_too() -> None:
    grid = Grid(alpha=2, beta=0)
    alpha = grid["alpha"]
    alpha.submit(spec(20, work_s=50.0, sites=("alpha",)), 20)
    grid.part("alpha")
    alpha.stored = [one for one in alpha.stored if not isinstance(lines.decode(one), records.PeerSeen)]
    alpha.running.clear()
    alpha.boot(newest=False)
    meet(alpha, BETA)
    assert not say_it_fell(alpha, BETA)
    started = len(alpha.started)
    alpha.lrm_ready()
    assert len(alpha.started) == started
    assert go_on(alpha, "beta") == Ok(1)
    assert len(alpha.started) > started


@pytest.mark.parametrize("sender", [BETA, MALLORY])
def test_a_doubtful_journal_believes_whoever_shows_it_its_own_later_word(sender: SiteId) -> None:
    """Also one that was met since the copy was made, and that this journal does not know."""
    _, alpha = unsure_at_home()
    meet(alpha, sender)
    assert say_it_fell(alpha, sender, own_word(alpha, later=1))


def test_a_boot_that_the_journal_does_not_know_shows_that_it_is_older_however_long_it_is() -> None:
    _, alpha = unsure_at_home()
    assert say_it_fell(alpha, BETA, own_word(alpha, later=-5, generation=alpha.engine.generation))


def test_a_later_journal_that_had_this_ones_name_shows_that_it_is_older() -> None:
    _, alpha = unsure_at_home()
    assert say_it_fell(alpha, BETA, own_word(alpha, later=-5, db_uuid="db-alpha-2", former=("db-alpha",)))


def forged(alpha: Site) -> dict[str, Evidence | None]:
    """Statements that show nothing of alpha's journal."""
    true = own_word(alpha, later=1)
    state = alpha.engine.core.state
    return {
        "none": None,
        "of no seal": replace(true, seal=b""),
        "of another secret": replace(true, seal=seals.length(b"mallory", site=ALPHA, **_said(true))),
        "of another site": replace(true, seal=seals.length(state.seal_key, site=BETA, **_said(true))),
        "made longer": replace(true, seq=true.seq + 10**6),
        "of a later boot": replace(own_word(alpha, later=0), generation=10**6),
        "of another name": replace(own_word(alpha, later=0), db_uuid="other", former=("db-alpha",)),
        "that it knows": own_word(alpha, later=0),
        "of this boot": own_word(alpha, later=50, boot=state.boot_nonce, generation=state.generation),
        "of this boot under another nonce": replace(
            own_word(alpha, later=50, boot=state.boot_nonce, generation=state.generation), boot_nonce="x"
        ),
        "of a name it had before": own_word(alpha, later=50, db_uuid="db-alpha-0", generation=50),
        "of an offer": replace(true, seal=with_offer(alpha, BETA, Holding(subgroup=PART, epoch=1)).offer),
    }


def _said(word: Evidence) -> dict[str, Any]:
    return {name: value for name, value in asdict(word).items() if name != "seal"}


@pytest.mark.parametrize("term", [0, 3])
@pytest.mark.parametrize("kind", list(forged(Grid(alpha=1)["alpha"])))
def test_a_word_without_evidence_starts_nothing_anew_and_its_site_waits_for_nobody(kind: str, term: int) -> None:
    """Neither does it in a pair, which has no mark to go by."""
    grid, alpha = unsure_at_home(20)
    alpha.term = term
    alpha.boot(newest=False)
    alpha.lrm_ready()
    started = len(alpha.started)
    assert not say_it_fell(alpha, BETA, forged(alpha)[kind])
    grid.cut.discard("alpha")
    grid.meet(alpha, grid["gamma"])
    grid.settle()
    assert journal_doubt.waiting_for(alpha.engine.core) == ""
    assert len(alpha.started) > started
    assert not say_it_fell(alpha, BETA, forged(alpha)[kind])
    run_on(grid, 600)
    assert len(alpha.group("alpha-1").done) == 20


def test_while_another_peer_is_silent_a_liar_is_waited_for_no_longer_than_that_one() -> None:
    grid, alpha = unsure_at_home(20)
    started = len(alpha.started)
    assert not say_it_fell(alpha, BETA)
    assert "waits for a word of gamma" in journal_doubt.waiting_for(alpha.engine.core)
    grid.pass_time(journal_doubt.PATIENCE_S + 5.0)
    assert len(alpha.started) > started


def test_a_pair_believes_its_own_later_word_too() -> None:
    _, alpha = unsure_at_home()
    alpha.term = 3
    alpha.boot()
    assert say_it_fell(alpha, BETA, own_word(alpha, later=1))


@pytest.mark.parametrize("term", [0, 3])
def test_a_site_whose_database_truly_fell_takes_and_places_nothing_and_says_why_everywhere(term: int) -> None:
    """A pair waits for an operator; a machine alone begins anew at once. What either accepted till then would take
    numbers that groups it lost have."""
    _, alpha = unsure_at_home(4)
    alpha.term = term
    alpha.boot(newest=False)
    alpha.lrm_ready()
    assert say_it_fell(alpha, BETA, own_word(alpha, later=1))
    why = "alpha starts nothing, for its database is an older copy (beta knows a later state of this site's database)"
    mend = (
        "stop this node, then diana site promote --force on the other machine" if term else "it begins anew by itself"
    )
    before, started = len(alpha.engine.core.state.groups), len(alpha.started)
    for plan_only in (False, True):
        refused = alpha.submit(spec(1), 1, plan_only=plan_only)
        assert isinstance(refused, fx.Refusal) and refused.code == "retry"
        assert refused.text == f"{why}; {mend}"
    assert len(alpha.engine.core.state.groups) == before
    seen = alpha.ask("group", "alpha-1")
    assert isinstance(seen, GroupView) and seen.note == f"{why}; {mend}"
    queue = alpha.ask("queue")
    assert isinstance(queue, QueueView) and f"alpha {queue.note}" == f"{why}; {mend}"
    every = alpha.ask("sites")
    assert isinstance(every, Sites) and f"alpha {every.sites[0].shown.note}" == f"{why}; {mend}"
    peers = alpha.ask("peers")
    assert isinstance(peers, Peers) and peers.fallen == "beta knows a later state of this site's database"
    asked = ms.QuoteRequest(quote=9, processors=1, memory_bytes=0, jobs=1, refs=())
    (quote,) = sent(receive(alpha, GAMMA, asked), ms.Quote)
    assert isinstance(quote, ms.Quote) and why in quote.rejected
    assert not gossip.summary(alpha.engine.core).accepting
    assert len(alpha.started) == started


def test_no_evidence_counts_against_the_mark() -> None:
    grid = committed(jobs=20)
    beta = grid["beta"]
    beta.boot()
    assert not say_it_fell(beta, ALPHA, own_word(beta, later=1))


def test_the_word_of_a_site_whose_release_keeps_no_seals_is_left_to_an_operator() -> None:
    grid, alpha = unsure_at_home(20)
    alpha.stored = [_unsealed(one, of_peers=True) for one in alpha.stored]
    alpha.boot(newest=False)
    alpha.lrm_ready()
    started = len(alpha.started)
    assert not say_it_fell(alpha, BETA)
    grid.pass_time(3 * journal_doubt.PATIENCE_S)
    assert len(alpha.started) == started
    assert go_on(alpha, "beta") == Ok(1)
    grid.pass_time(3 * journal_doubt.PATIENCE_S)
    assert len(alpha.started) > started


def _unsealed(line: bytes, of_peers: bool = False) -> bytes:
    """The record as a release wrote it that knew no seals; `of_peers`: as this one does where its peers are of such."""
    record = lines.decode(line)
    match record:
        case records.PeerSeen():
            record = replace(record, seal=b"", sealing=False)
        case records.Opened() if not of_peers:
            record = replace(record, seal_key=b"")
    return lines.encode(record)


def test_a_journal_of_a_release_that_made_no_seals_leaves_every_word_to_an_operator() -> None:
    grid = Grid(alpha=2, beta=0)
    alpha = grid["alpha"]
    alpha.seals = False
    alpha.stored.clear()
    alpha.restart()
    grid.part("alpha")
    alpha.seals = True
    alpha.boot(newest=False)
    assert not say_it_fell(alpha, BETA)
    grid.pass_time(3 * journal_doubt.PATIENCE_S)
    assert "waits for a word of beta" in journal_doubt.waiting_for(alpha.engine.core)


def test_every_word_that_tells_a_length_has_the_seal_of_it() -> None:
    """A peer that heard a length it cannot show would be taken for a liar."""
    grid = Grid(alpha=1, beta=4)
    said: dict[str, int] = {}

    def look(grid: Grid, _: int, letter: Post) -> str:
        sender, _, message = letter
        length = max(getattr(message, "seq", 0), getattr(message, "origin_seq", 0))
        if length and not isinstance(message, Holdings | Reserve):
            assert message.seal == grid[sender].engine.core.seal_at(length), message  # type: ignore[union-attr]
            said[type(message).__name__] = length
        return "deliver"

    grid.fate = look
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(8, work_s=20.0, sites=("beta",)), 8)
    grid.pass_time(20.0)
    beta.end(2)
    alpha.cancel("alpha-1")
    run_on(grid)
    assert {*said} >= {"Summary", "Prepare", "Prepared", "Commit", "Progress", "Result", "ResultAck", "Control"}
    grid.part("alpha")
    grid.heal("alpha")
    assert "Met" in said


@pytest.mark.parametrize("peer_restarts", [False, True])
def test_an_honest_peer_shows_what_it_heard_last_also_after_its_own_restart(peer_restarts: bool) -> None:
    grid = Grid(alpha=2, beta=0, gamma=0)
    alpha, beta = grid["alpha"], grid["beta"]
    copy = list(alpha.stored)
    alpha.submit(spec(6, work_s=50.0, sites=("alpha",)), 6)
    grid.pass_time(30.0)
    grid.part("alpha")
    if peer_restarts:
        beta.boot()
    alpha.stored = copy
    alpha.running.clear()
    alpha.boot(newest=False)
    name = alpha.db_uuid
    alpha.handle(ev.PeerUp(beta.hello()))
    (met,) = sent(beta.handle(ev.PeerUp(alpha.hello())), Met)
    assert isinstance(met, Met) and met.fell and met.evidence is not None
    receive(alpha, "beta", met)
    assert alpha.db_uuid != name


def test_a_site_that_was_restored_is_not_made_to_start_anew_again_and_again() -> None:
    grid, copy = origin_copied(records.CommitAcked)
    alpha = put_origin_back(grid, copy)
    assert not say_it_fell(alpha, BETA)
    assert not say_it_fell(alpha, BETA, own_word(alpha, later=10**6, db_uuid="db-alpha"))


def test_a_copy_of_before_it_took_another_name_is_shown_that_name() -> None:
    grid = Grid(alpha=2, beta=0, gamma=0)
    alpha, beta = grid["alpha"], grid["beta"]
    copy = list(alpha.stored)
    alpha.db_uuid = "db-alpha-2"
    alpha.restart(restored=True)
    grid.pass_time(5.0)
    alpha.restart()
    grid.part("alpha")
    alpha.stored, alpha.db_uuid = copy, "db-alpha"
    alpha.boot(newest=False)
    alpha.handle(ev.PeerUp(beta.hello()))
    (met,) = sent(beta.handle(ev.PeerUp(alpha.hello())), Met)
    assert isinstance(met, Met) and met.evidence is not None
    assert (met.evidence.db_uuid, met.evidence.former) == ("db-alpha-2", ("db-alpha",))
    receive(alpha, "beta", met)
    assert alpha.db_uuid not in ("db-alpha", "db-alpha-2")


def test_the_last_that_was_heard_is_shown_also_where_the_stream_did_not_end_first() -> None:
    grid = Grid(alpha=2, beta=0, gamma=0)
    alpha, beta = grid["alpha"], grid["beta"]
    copy = list(alpha.stored)
    alpha.submit(spec(2, work_s=50.0, sites=("alpha",)), 2)
    grid.pass_time(30.0)
    core = beta.engine.core
    _, seq, seal = core.book(JournalDoubt).lengths[ALPHA]
    assert seq > core.state.peers[ALPHA].seq
    alpha.stored = copy
    alpha.boot(newest=False)
    (met,) = sent(beta.handle(ev.PeerUp(alpha.hello())), Met)
    assert isinstance(met, Met) and met.evidence is not None
    assert (met.evidence.seq, met.evidence.seal) == (seq, seal)


@pytest.mark.parametrize("alone", [1, 3, 10])
def test_an_older_copy_is_found_out_however_often_it_was_started_before_anybody_met_it(alone: int) -> None:
    """Each start writes some records, and it grows as long as the journal was."""
    grid = Grid(alpha=2, beta=0, gamma=0)
    alpha, beta = grid["alpha"], grid["beta"]
    copy = list(alpha.stored)
    alpha.submit(spec(2, work_s=50.0, sites=("alpha",)), 2)
    grid.pass_time(30.0)
    known = journal_doubt.length_heard(beta.engine.core, ALPHA)
    grid.part("alpha")
    alpha.stored = copy
    alpha.running.clear()
    for _ in range(alone):
        alpha.boot(newest=False)
    assert alone < 10 or alpha.engine.boot_seq > known
    name = alpha.db_uuid
    (met,) = sent(beta.handle(ev.PeerUp(alpha.hello())), Met)
    assert isinstance(met, Met) and met.fell and met.evidence is not None
    alpha.handle(ev.PeerUp(beta.hello()))
    receive(alpha, "beta", met)
    assert alpha.db_uuid != name


def test_an_honest_site_that_was_started_again_and_again_is_found_whole() -> None:
    grid = Grid(alpha=2, beta=0)
    alpha, beta = grid["alpha"], grid["beta"]
    for starts in range(1, 40, 3):
        alpha.submit(spec(2, work_s=5.0, sites=("alpha",)), 2, starts)
        grid.pass_time(10.0)
        alpha.end()
        grid.pass_time(10.0)
        grid.part("alpha")
        for _ in range(starts):
            alpha.boot()
        alpha.lrm_ready()
        grid.heal("alpha")
        assert ALPHA not in beta.engine.core.book(JournalDoubt).fell


def test_what_a_boot_that_fell_says_is_no_evidence_of_what_was_before_it() -> None:
    """It says it on the stream on which it is told so, and its journal may grow."""
    grid = Grid(alpha=2, beta=0)
    alpha, beta = grid["alpha"], grid["beta"]
    copy = list(alpha.stored)
    alpha.submit(spec(2, work_s=50.0, sites=("alpha",)), 2)
    grid.pass_time(30.0)
    grid.part("alpha")
    alpha.stored = copy
    alpha.boot(newest=False)
    hello = alpha.hello()
    (first,) = sent(beta.handle(ev.PeerUp(hello)), Met)
    alpha.engine.core.state.seq += 1000
    core = alpha.engine.core
    receive(beta, "alpha", Met(boot_nonce="another", seq=core.state.seq, seal=core.seal()))
    (again,) = sent(beta.handle(ev.PeerUp(hello)), Met)
    assert isinstance(first, Met) and isinstance(again, Met)
    assert again.evidence == first.evidence is not None


def test_a_length_that_could_not_be_shown_is_not_held_against_a_site_that_makes_seals() -> None:
    grid = committed()
    alpha, beta = grid["alpha"], grid["beta"]
    receive(alpha, "beta", Met(boot_nonce="another", seq=10**6))
    beta.restart()
    assert BETA not in alpha.engine.core.book(JournalDoubt).fell


def test_whom_a_release_without_seals_had_met_in_this_boot_is_known_to_make_them() -> None:
    grid = committed()
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.stored = [_unsealed(one) for one in alpha.stored]
    alpha.restart()
    known = alpha.engine.core.state.peers[BETA]
    assert known.sealing
    evidence = journal_doubt._evidence(alpha.engine.core, BETA)
    assert evidence is None or evidence.seal
    grid.pass_time(30.0)
    grid.part("beta")
    assert beta.engine.core.state.peers[ALPHA].sealing
    assert journal_doubt._evidence(alpha.engine.core, BETA) is not None


# --- holdings that are none ----------------------------------------------------------------------------------------


def tell(site: Site, sender: SiteId, *rows: Holding) -> None:
    receive(site, sender, Holdings(db_uuid=f"db-{sender}", seq=9, part=0, parts=1, rows=rows))


def every(jobs: int = 4) -> IndexSet:
    return IndexSet.span(0, jobs)


def restored(when: type = records.CommitAcked) -> tuple[Grid, Site]:
    """Alpha, put back as it was before its first record of that kind, when beta has all four jobs; nobody has told."""
    grid, copy = origin_copied(when)
    return grid, put_origin_back(grid, copy)


def test_a_site_that_asked_nobody_takes_no_stock() -> None:
    grid = committed()
    alpha = grid["alpha"]
    tell(alpha, BETA, Holding(subgroup=NEW, epoch=2, open=every()))
    assert list(alpha.group("alpha-1").subgroups) == [PART]


def test_whom_a_copy_does_not_know_takes_nothing_over_and_is_named_to_the_user() -> None:
    grid, alpha = restored()
    meet(alpha)
    tell(alpha, MALLORY, Holding(subgroup=NEW, epoch=2, open=every()))
    assert [s.site for s in alpha.group("alpha-1").subgroups.values()] == [BETA]
    grid.heal("alpha")
    assert "mallory says that it has jobs of it, and shows no offer" in view(grid).note
    assert isinstance(alpha.release_jobs("alpha-1"), Ok)
    run_on(grid)
    assert view(grid).done == 4


def test_whom_a_copy_does_not_know_is_named_again_after_the_next_start() -> None:
    grid, alpha = restored()
    for _ in range(2):
        meet(alpha)
        grid.heal("alpha")
        tell(alpha, MALLORY, Holding(subgroup=NEW, epoch=2, open=every()))
        assert "mallory" in view(grid).note
        alpha.boot()


def test_whom_a_copy_does_not_know_tells_of_parts_that_the_journal_has_at_it() -> None:
    """A journal that was lost as a whole knows no peer, and what it gives out since is in it."""
    grid = Grid(alpha=1, beta=4)
    alpha = put_origin_back(grid, [])
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], Holdings) else "deliver"
    grid.heal("alpha")
    alpha.submit(spec(4, work_s=100.0, sites=("beta",)), 4)
    grid.fate = None
    grid.pass_time(60.0)
    (group,) = alpha.engine.core.state.groups.values()
    assert alpha.engine.core.state.reported == {BETA: True}
    run_on(grid)
    assert len(group.done) == 4


@pytest.mark.parametrize("epoch", [10**6, 2**63 - 1, stocktaking.MOST_SINCE + 4 + 2])
def test_an_epoch_that_no_origin_came_to_since_the_copy_is_refused(epoch: int) -> None:
    """Beyond the last of them nothing could ever be offered again."""
    _, alpha = restored()
    tell(alpha, GAMMA, Holding(subgroup=NEW, epoch=epoch, open=every()))
    group = alpha.group("alpha-1")
    assert [s.site for s in group.subgroups.values()] == [BETA]
    assert group.epoch == 1


@pytest.mark.parametrize("dropped", [True, False])
def test_the_number_of_a_part_is_bounded_as_its_epoch_is(dropped: bool) -> None:
    _, alpha = restored()
    row = Holding(
        subgroup=SubgroupId(f"alpha-1/{2**62}"), epoch=2, dropped=dropped, open=IndexSet() if dropped else every()
    )
    tell(alpha, GAMMA, row)
    assert alpha.group("alpha-1").next_number == 1


def test_the_number_of_an_order_is_bounded_as_an_epoch_is() -> None:
    """The next one could not be said."""
    _, alpha = restored()
    tell(alpha, BETA, Holding(subgroup=PART, epoch=1, open=every(), control_seq=2**63 - 1))
    assert alpha.group("alpha-1").subgroups[PART].control_seq == 0


def test_a_part_of_the_same_epoch_as_one_that_is_known_takes_none_of_its_jobs() -> None:
    _, alpha = restored()
    tell(alpha, GAMMA, Holding(subgroup=NEW, epoch=1, open=every()))
    group = alpha.group("alpha-1")
    assert {part: s.indices for part, s in group.subgroups.items()} == {PART: every()}


@pytest.mark.parametrize("epoch", [1, 2, 10**6])
def test_a_part_that_the_copy_knows_at_one_site_is_not_told_of_by_another(epoch: int) -> None:
    _, alpha = restored()
    tell(alpha, GAMMA, Holding(subgroup=PART, epoch=epoch, open=every()))
    (part,) = alpha.group("alpha-1").subgroups.values()
    assert (part.site, part.epoch, part.unreachable != "") == (BETA, 1, True)


def test_a_part_that_came_back_from_one_site_is_not_told_of_by_another() -> None:
    grid = offered(alpha=1, beta=4, gamma=4)
    alpha = grid["alpha"]
    while not isinstance(grid.post_box[0][2], ms.Prepared):
        grid.deliver_one()
    grid.post_box.clear()
    receive(alpha, "beta", ms.Refused(subgroup=PART, epoch=1, reason="full"))
    assert PART in alpha.group("alpha-1").past
    alpha = put_origin_back(grid, list(alpha.stored))
    tell(alpha, GAMMA, Holding(subgroup=PART, epoch=1, open=every()))
    assert PART not in alpha.group("alpha-1").subgroups


@pytest.mark.parametrize("how", ["open", "revoked"])
def test_a_job_that_is_done_is_nobodys_to_do_again(how: str) -> None:
    grid, _ = origin_copied(records.CommitAcked)
    grid["beta"].end(3)
    grid.pass_time(5.0)
    assert view(grid).done == 3
    alpha = put_origin_back(grid, list(grid["alpha"].stored))
    tell(alpha, GAMMA, Holding(subgroup=NEW, epoch=2, **{how: every()}))  # type: ignore[arg-type]
    assert view(grid).done == 3
    group = alpha.group("alpha-1")
    done = group.done.within(every())
    assert all(s.indices.isdisjoint(done) for s in group.subgroups.values() if s.subgroup == NEW)


def test_of_a_group_submitted_since_the_copy_no_part_is_unknown() -> None:
    grid, alpha = restored()
    grid.fate = lambda _, __, letter: "lose" if isinstance(letter[2], Holdings) else "deliver"
    grid.heal("alpha")
    alpha.submit(spec(4, work_s=100.0, sites=("beta",)), 4, 2)
    (name,) = alpha.engine.core.state.groups.keys() - {"alpha-1"}
    tell(alpha, GAMMA, Holding(subgroup=SubgroupId(f"{name}/7"), epoch=2, open=every()))
    assert not any(s.site == GAMMA for s in alpha.group(name).subgroups.values())


def test_a_failed_job_that_was_tried_again_since_the_copy_is_its_new_sites() -> None:
    """The honest case beside that of the done ones."""
    grid, _ = origin_copied(records.CommitAcked)
    while not view(grid).final:
        grid["beta"].end(outcome=Outcome.FAILED)
        grid.pass_time(5.0)
    alpha = put_origin_back(grid, list(grid["alpha"].stored))
    tell(alpha, GAMMA, with_offer(alpha, GAMMA, Holding(subgroup=NEW, epoch=2, open=every())))
    assert alpha.group("alpha-1").subgroups[NEW].indices == every()


def test_whom_a_copy_does_not_know_takes_over_what_it_was_offered_since() -> None:
    grid, alpha = restored()
    meet(alpha)
    tell(alpha, MALLORY, with_offer(alpha, MALLORY, Holding(subgroup=NEW, epoch=2, open=every())))
    part = alpha.group("alpha-1").subgroups[NEW]
    assert (part.site, part.epoch, part.indices) == (MALLORY, 2, every())
    grid.heal("alpha")
    assert "mallory" not in view(grid).note


@pytest.mark.parametrize("over", [False, True])
def test_an_honest_site_shows_the_offer_of_what_it_has_and_of_what_is_over(over: bool) -> None:
    grid, copy = origin_copied(records.GroupPlaced)
    beta = grid["beta"]
    if over:
        beta.end()
        grid.pass_time(30.0)
        assert view(grid).final and not beta.engine.core.state.custodies
    alpha = put_origin_back(grid, copy)
    grid.heal("alpha")
    (part,) = alpha.group("alpha-1").subgroups.values()
    assert (part.site, part.indices) == (BETA, every())
    assert view(grid).held == (4 if over else 0)


@pytest.mark.parametrize(
    ("why", "offer"),
    [
        ("no offer", None),
        ("to another", (BETA, NEW, 2, every())),
        ("of another part", (GAMMA, PART, 2, every())),
        ("of another epoch", (GAMMA, NEW, 3, every())),
        ("of fewer jobs", (GAMMA, NEW, 2, every(3))),
    ],
)
def test_who_shows_no_offer_of_just_that_takes_over_nothing_that_the_copy_has_not(
    why: str, offer: tuple[SiteId, SubgroupId, int, IndexSet] | None
) -> None:
    grid, alpha = restored()
    row = Holding(subgroup=NEW, epoch=2, open=every())
    if offer is not None:
        to, part, epoch, jobs = offer
        shown = with_offer(alpha, to, Holding(subgroup=part, epoch=epoch), jobs)
        row = replace(row, offered=jobs, offer=shown.offer)
    tell(alpha, GAMMA, row)
    group = alpha.group("alpha-1")
    assert [s.site for s in group.subgroups.values()] == [BETA]
    assert (group.epoch, group.next_number) == (1, 1), why
    grid.heal("alpha")
    assert "gamma says that it has jobs of it" in view(grid).note


@pytest.mark.parametrize("how", ["dropped", "over", "told", "revoked"])
def test_without_an_offer_no_word_moves_an_epoch(how: str) -> None:
    """A lie would use up epochs that nobody was given."""
    _, alpha = restored()
    tell(alpha, GAMMA, Holding(subgroup=NEW, epoch=9, **{how: True if how in ("dropped", "over") else every()}))  # type: ignore[arg-type]
    assert alpha.group("alpha-1").epoch == 1


def test_the_epochs_of_a_release_that_keeps_no_offers_are_not_given_again_and_rise_only_so_far() -> None:
    grid, copy = origin_copied(records.CommitAcked)
    copy = [_unsealed(one) for one in copy]
    alpha = put_origin_back(grid, copy)
    most = stocktaking.MOST_SINCE + 4
    rows = [Holding(subgroup=SubgroupId(f"alpha-1/{n}"), epoch=1 + n * most, open=every()) for n in range(1, 5)]
    tell(alpha, GAMMA, *rows)
    group = alpha.group("alpha-1")
    assert [s.site for s in group.subgroups.values()] == [BETA]
    assert group.epoch == 1 + most


def test_a_part_that_came_back_is_told_of_under_its_own_epoch_alone() -> None:
    grid = offered(alpha=1, beta=4, gamma=4)
    alpha = grid["alpha"]
    while not isinstance(grid.post_box[0][2], ms.Prepared):
        grid.deliver_one()
    grid.post_box.clear()
    receive(alpha, "beta", ms.Refused(subgroup=PART, epoch=1, reason="full"))
    alpha = put_origin_back(grid, list(alpha.stored))
    tell(alpha, BETA, Holding(subgroup=PART, epoch=5, open=every()))
    assert PART not in alpha.group("alpha-1").subgroups
    assert alpha.group("alpha-1").epoch < 5
