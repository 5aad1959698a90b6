"""The planner's knowledge of outputs, URLs and links (SPEC D1, J5, D10)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diana.engine.dispatch import quote_answer
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records as r
from diana.engine.membership import gossip
from diana.engine.messages import messages as ms
from diana.engine.placement.draft import Draft, Probe, quote_request
from diana.engine.placement.manifest import Manifest
from diana.engine.site import run_times
from diana.model.data import DataFile
from diana.model.facts import Outcome, OutputFile
from diana.model.history import MOST_TEMPLATES, OutputSizes
from diana.model.ids import SiteId
from diana.model.indexset import IndexSet
from diana.model.job.spec import GroupSpec, InputFile, Outputs
from diana.model.views.decision import Decision, SiteCost
from tests.engine.bench import Grid, Site
from tests.engine.builders import ALICE, BOB, OPERATOR, dataset, facts_of, hash_of, spec, whole

PROBE = Probe(lambda _: None)

MB = 1_000_000


def asked(**more: object) -> ms.QuoteRequest:
    fields = {"quote": 1, "processors": 1, "memory_bytes": 0, "jobs": 1, "refs": (), "owner": ALICE.name}
    return ms.QuoteRequest(**{**fields, **more})  # type: ignore[arg-type]


def planned(site: Site, wanted: GroupSpec, jobs: int, refs: tuple[tuple[str, object], ...] = ()) -> Decision:
    made = site.submit(wanted, jobs, 77, refs=refs, plan_only=True)  # type: ignore[arg-type]
    assert isinstance(made, fx.DecisionMade), made
    return made.decision


def rows(decision: Decision) -> dict[str, SiteCost]:
    return {row.site: row for row in decision.candidates}


# --- outputs --------------------------------------------------------------------------------------------------


def end(grid: Grid, site: Site, size_bytes: int, outcome: Outcome = Outcome.DONE) -> None:
    """All jobs of the site end, each leaving one file of that size."""
    while site.running:
        run = next(iter(site.running))
        del site.running[run]
        facts = facts_of(site.name, [run], outcome, grid.now)
        facts.outputs.append(OutputFile(run.index, f"{run.index}.x", size_bytes, "0" * 64))
        site.handle(ev.JobsEnded(subgroup=run.subgroup, epoch=run.epoch, facts=facts))
        grid.settle()
    grid.pass_time(2.0)


@pytest.mark.parametrize("where", ["alpha", "beta"])
def test_an_origin_learns_what_jobs_leave_wherever_they_ran_and_keeps_it_over_a_restart(where: str) -> None:
    grid = Grid(alpha=2, beta=2)
    alpha = grid["alpha"]
    wanted = spec(4, collect=("{index}.x",), sites=(where,))
    assert run_times.output_bytes(alpha.engine.core, wanted, ALICE.name) == 0.0
    alpha.submit(wanted, 4)
    end(grid, grid[where], 3 * MB)
    for _ in range(2):
        assert run_times.output_bytes(alpha.engine.core, wanted, ALICE.name) == pytest.approx(3 * MB)
        alpha.restart()
    assert run_times.output_bytes(alpha.engine.core, wanted, BOB.name) == 0.0
    others = spec(4, collect=("{index}.y",), sites=(where,))
    assert run_times.output_bytes(alpha.engine.core, others, ALICE.name) == 0.0
    assert grid["beta"].engine.core.state.output_sizes.means == {}


def test_what_was_learned_counts_more_than_what_was_declared_and_failures_teach_nothing() -> None:
    grid = Grid(alpha=2)
    alpha = grid["alpha"]
    wanted = declared(4, 7 * MB)
    alpha.submit(wanted, 4)
    end(grid, alpha, MB, Outcome.FAILED)
    assert run_times.output_bytes(alpha.engine.core, wanted, ALICE.name) == 7 * MB
    alpha.submit(wanted, 4, 2)
    end(grid, alpha, MB)
    assert run_times.output_bytes(alpha.engine.core, wanted, ALICE.name) == pytest.approx(MB)
    assert run_times.output_bytes(alpha.engine.core, spec(4), ALICE.name) == 0.0, "nothing is gathered"


def declared(jobs: int, size_bytes: int, **more: object) -> GroupSpec:
    outputs = Outputs(collect=("{index}.x",), size_bytes=size_bytes)
    return msgspec.structs.replace(spec(jobs, **more), outputs=outputs)  # type: ignore[arg-type]


def test_a_group_that_leaves_much_stays_near_home_and_one_that_leaves_little_goes_where_it_ends_first() -> None:
    grid = Grid({"default_bytes_per_s": 1e6}, alpha=1, beta=4)
    alpha = grid["alpha"]
    little, much = (planned(alpha, declared(8, size, work_s=10.0), 8) for size in (1000, 100 * MB))
    assert {part.site: part.jobs for part in little.parts}["beta"] >= 6
    assert {part.site: part.jobs for part in much.parts} == {"alpha": 8}
    row = rows(much)["beta"]
    assert row.stage_out_s > 700.0 and row.bytes_out == 800 * MB
    assert rows(much)["alpha"].stage_out_s == 0.0


def test_outputs_on_their_way_home_are_part_of_what_is_held_against_the_plan() -> None:
    grid = Grid(alpha=0, beta=2)
    alpha = grid["alpha"]
    alpha.gather_at_once = False
    alpha.submit(spec(2, collect=("{index}.x",)), 2)
    end(grid, grid["beta"], MB)
    grid.pass_time(50.0)
    while alpha.gathers:
        alpha.handle(ev.StageDone(ticket=alpha.gathers.pop(0).ticket, bytes_moved=MB))
    grid.settle()
    group = alpha.group("alpha-1")
    assert group.state == "done" and group.last_end_s < 5.0 and group.ended_s() >= 50.0


def test_what_is_known_of_outputs_is_bounded_and_the_newest_jobs_count_most() -> None:
    sizes = OutputSizes()
    for number in range(MOST_TEMPLATES + 5):
        sizes.add(f"t{number}", "u", 1, number)
    assert len(sizes.means) == MOST_TEMPLATES and sizes.mean_bytes("t4", "u") is None
    for _ in range(10):
        sizes.add("t9", "u", 1000, 1000 * MB)
    assert sizes.mean_bytes("t9", "u") == pytest.approx(MB)


def test_programs_count_once_in_the_paper_models_third_term() -> None:
    """A program that was uploaded is a need as any input; a script travels in the spec."""
    blob = "blob:" + hash_of("program")
    for script in ("", "#!/bin/sh\n" + "x" * 1000):
        grid = Grid({"cost_model": "paper", "cost_raw": True}, alpha=0, beta=4)
        alpha = grid["alpha"]
        alpha.handle(ev.LinkMeasured(site=SiteId("beta"), rtt_s=0.1, bytes_per_s=1e6, sent=100, lost=10))
        grid["beta"].handle(ev.LinkMeasured(site=SiteId("alpha"), rtt_s=0.1, bytes_per_s=1e6, sent=100, lost=10))
        wanted = msgspec.structs.replace(
            spec(4, script=script),
            inputs=(InputFile(source=blob, path="p", size_bytes=5 * MB, executable=True),),
        )
        row = rows(planned(alpha, wanted, 4, ((blob, whole(4)),)))["beta"]
        assert row.transfer == pytest.approx((5 * MB + len(script)) * 0.1 / 1e6)


# --- URLs -----------------------------------------------------------------------------------------------------


URL = "url:https://host/in/x"


def test_what_is_read_by_url_is_nearer_to_no_site_and_is_fetched_from_none() -> None:
    grid = Grid(alpha=4, beta=4)
    alpha = grid["alpha"]
    decision = planned(alpha, spec(2, work_s=1.0), 2, ((URL, whole(2)),))
    staged = {site: (row.bytes_in, row.stage_in_s) for site, row in rows(decision).items()}
    assert staged["alpha"] == staged["beta"] and staged["alpha"][0] == 1000
    alpha.submit(spec(2, sites=("beta",)), 2, 2, refs=((URL, whole(2)),))
    (taken,) = grid["beta"].records(r.CustodyTaken)
    assert isinstance(taken, r.CustodyTaken)
    assert [file.ref for file in taken.files] == [URL] and taken.sources == ((),)
    grid.finish()
    assert len(alpha.group("alpha-1").done) == 2


def test_urls_of_one_host_share_its_link_and_those_of_another_do_not() -> None:
    grid = Grid(alpha=1)
    refs = [(f"url:https://host{host}/f{file}", whole(1)) for host in range(2) for file in range(3)]
    draft = Draft(1, spec(1), whole(1), refs, owner="", purpose=PROBE)
    draft.held = ev.LookedUp(ticket=1, found=tuple(DataFile(ref, 10, hash_of(ref)) for ref, _ in refs))
    assert Manifest(grid["alpha"].engine.core, draft).holders() == ["url:https://host0", "url:https://host1"]


def test_a_site_whose_operator_does_not_allow_a_url_is_no_candidate_and_says_so() -> None:
    grid = Grid(alpha=1, beta=8)
    alpha, beta = grid["alpha"], grid["beta"]
    beta.handle(ev.SettingsLoaded(beta.settings, ("https://elsewhere/",)))
    beta.trace.clear()
    decision = planned(alpha, spec(4, work_s=5.0), 4, ((URL, whole(4)),))
    assert {part.site for part in decision.parts} == {"alpha"}
    assert rows(decision)["beta"].rejected == (
        "its operator does not allow https://host/in/x (staging.urls in its site.toml)"
    )
    assert not [effect for effect in beta.trace if isinstance(effect, fx.LookUp)], "a peer makes nobody fetch"
    beta.handle(ev.SettingsLoaded(beta.settings, ("https://host/in/",)))
    assert "beta" in {part.site for part in planned(alpha, spec(40, work_s=5.0), 40, ((URL, whole(40)),)).parts}


def test_a_quote_request_shows_neither_query_nor_more_than_a_few_urls() -> None:
    refs = [(f"url:https://host/in/{n}?part={n}", whole(1)) for n in range(5000)]
    request = quote_request(Draft(1, spec(1), whole(1), refs, owner="", purpose=PROBE))
    assert request.urls == ("https://host/in/",) and request.refs == ()


def test_what_the_stager_calls_final_is_not_tried_again() -> None:
    for final, tries in ((True, 1), (False, 5)):
        grid = Grid(alpha=1)
        alpha = grid["alpha"]
        alpha.stage_at_once = False
        alpha.submit(spec(2), 2, refs=((URL, whole(2)),))
        seen = 0
        for _ in range(20):
            while alpha.staging:
                seen += 1
                ticket = alpha.staging.pop(0).ticket
                alpha.handle(ev.StageDone(ticket=ticket, bytes_moved=0, error="it is not there", final=final))
            grid.pass_time(10.0)
        group = alpha.group("alpha-1")
        assert (seen, group.state, len(group.failed), group.note) == (tries, "failed", 2, "it is not there")


@pytest.mark.wide
@given(st.sets(st.integers(0, 299), max_size=4))
@settings(max_examples=15)
def test_of_very_many_files_only_the_readers_of_those_that_are_gone_fail(gone: set[int]) -> None:
    jobs = 300
    grid = Grid(alpha=1)
    alpha = grid["alpha"]
    alpha.stage_at_once = False
    refs = tuple((f"url:https://host/{n:03}", IndexSet.span(n, n + 1)) for n in range(jobs))
    alpha.submit(spec(jobs), jobs, refs=refs)
    orders = 0
    while alpha.staging:
        order = alpha.staging.pop(0)
        orders += 1
        bad = [fetch.file.ref for fetch in order.files if int(fetch.file.ref[-3:]) in gone]
        error = f"{bad[0]} is not there" if bad else ""
        alpha.handle(ev.StageDone(ticket=order.ticket, bytes_moved=0, error=error, final=bool(bad)))
    grid.finish()
    group = alpha.group("alpha-1")
    assert set(group.failed.within(whole(jobs))) == gone and len(group.done) == jobs - len(gone)
    assert orders <= 64 + 6 * len(gone)


def test_an_offer_that_would_read_what_the_operator_closed_meanwhile_is_refused_and_placed_elsewhere() -> None:
    grid = Grid(alpha=1, beta=8)
    alpha, beta = grid["alpha"], grid["beta"]
    alpha.submit(spec(40, work_s=5.0), 40, refs=((URL, whole(40)),), settle=False)
    while not any(isinstance(letter[2], ms.Prepare) for letter in grid.post_box):
        grid.deliver_one()
    beta.handle(ev.SettingsLoaded(beta.settings, ()))
    grid.settle()
    grid.pass_time(10.0)
    grid.finish()
    assert len(alpha.group("alpha-1").done) == 40 and not beta.records(r.CustodyTaken)


# --- links ----------------------------------------------------------------------------------------------------


def crowd(grid: Grid, peers: int) -> Site:
    alpha = grid["alpha"]
    core = alpha.engine.core
    for number in range(peers):
        site = SiteId(f"s{number:05}")
        core.view.met(msgspec.structs.replace(alpha.hello(), site=site)).up = True
        alpha.handle(ev.LinkMeasured(site=site, rtt_s=0.01, bytes_per_s=1e6))
        grid.now += 0.001
    return alpha


def test_a_quote_tells_the_asker_the_holders_and_the_freshest_links_and_no_more() -> None:
    alpha = crowd(Grid(alpha=1), 500)
    core = alpha.engine.core
    holder = core.view.peers[SiteId("s00007")]
    told_of = gossip.summary(core)
    holder.summary = msgspec.structs.replace(told_of, site=SiteId("s00007"), datasets=("d",))
    core.roster.touch(SiteId("s00007"))
    quote = quote_answer.quote(core, asked(refs=("dataset:d/f",)), holders=(SiteId("s00003"),))
    told = [link.site for link in quote.links]
    assert told == sorted(told) and len(told) == quote_answer.MOST_OTHERS + 2
    assert {"s00003", "s00007", "s00499"} <= set(told)


def test_links_told_in_several_answers_add_up() -> None:
    refs = [(f"dataset:d/{number:05}", whole(1)) for number in range(2500)]
    draft = Draft(1, spec(1), whole(1), refs, owner="", purpose=PROBE)
    quote = quote_answer.quote(Grid(alpha=1)["alpha"].engine.core, asked())
    for part, site in enumerate(("x", "y")):
        link = ms.LinkEstimate(SiteId(site), 0.1, 1e6)
        draft.take(SiteId("beta"), msgspec.structs.replace(quote, part=part, links=(link,)), 1.0)
    assert [link.site for link in draft.quotes[SiteId("beta")][0].links] == ["x", "y"]


# --- replicas -------------------------------------------------------------------------------------------------


def test_a_dataset_whose_site_is_away_is_placed_by_the_replica_that_home_fetched_before() -> None:
    grid = Grid(alpha=1, beta=1, gamma=1)
    grid["beta"].handle(ev.AddDataset(request=9, principal=OPERATOR, dataset=dataset("d", "f")))
    grid.pass_time(3.0)
    core = grid["alpha"].engine.core
    unit = dataset("d", "f").unit
    draft = Draft(1, spec(1), whole(1), [("dataset:d", whole(1))], owner="", purpose=PROBE)
    draft.held = ev.LookedUp(ticket=1, cached=(unit,))
    assert Manifest(core, draft).missing == ["dataset:d"], "beta is there: it would have said so"
    grid.part("beta")
    assert Manifest(core, draft).missing == []
    draft.held = ev.LookedUp(ticket=1, cached=(DataFile("dataset:e", 1, unit.sha256),))
    assert Manifest(core, draft).missing == ["dataset:d"]


# --- reach ----------------------------------------------------------------------------------------------------


def test_a_site_without_a_stream_to_the_only_holder_is_no_place_for_its_data() -> None:
    grid = Grid(alpha=1, beta=1, gamma=8)
    alpha, beta, gamma = (grid[name] for name in ("alpha", "beta", "gamma"))
    beta.handle(ev.AddDataset(request=90, principal=OPERATOR, dataset=dataset("d", "f", size_bytes=MB)))
    wanted = msgspec.structs.replace(spec(8), inputs=(InputFile(source="dataset:d", path="d"),))
    refs = (("dataset:d", IndexSet.span(0, 8)),)
    assert "gamma" in {part.site for part in planned(alpha, wanted, 8, refs).parts}
    beta.handle(ev.PeerDown(gamma.name))
    gamma.handle(ev.PeerDown(beta.name))
    apart = planned(alpha, wanted, 8, refs)
    assert "gamma" not in {part.site for part in apart.parts}
    only = msgspec.structs.replace(wanted, sites=("gamma",))
    answer = alpha.submit(only, 8, 78, refs=refs, plan_only=True)
    assert isinstance(answer, fx.Refusal) and "gamma: its data cannot be brought there" in answer.text


def test_a_site_nobody_knows_is_the_users_mistake_and_one_that_is_too_small_says_what_it_would_take() -> None:
    alpha = Grid(alpha=2)["alpha"]
    stranger = alpha.submit(spec(1, sites=("delta",)), 1, 78, plan_only=True)
    assert stranger == fx.Refusal(code="usage", text="delta: no site known here; see diana sites")
    wide = alpha.submit(spec(1, processors=64), 1, 79, plan_only=True)
    assert isinstance(wide, fx.Refusal) and wide.code == "unplaceable"
    assert "alpha: has 2 of the 64 processors a job needs (takes it if processors <= 2)" in wide.text
