"""Packages go to sites that have a machine for a build, and where their user may run programs of their own."""

from __future__ import annotations

import msgspec
import pytest

from diana.engine.handover import inputs
from diana.engine.journal import codec, records
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import MAIN_MACHINE, GroupId
from diana.model.indexset import IndexSet
from diana.model.job.software import BARRIER, plain, platform
from diana.model.job.spec import GroupSpec, InputFile, build_path
from diana.model.settings import Settings
from tests.engine.bench import Grid, Site
from tests.engine.builders import spec

NAME = GroupId("alpha-1")


def grid(**settings: object) -> Grid:
    made = Grid({"binding": "early", **settings}, alpha=2, beta=2, gamma=2)
    for name, kind in (("alpha", "x86_64"), ("beta", "aarch64"), ("gamma", "riscv64")):
        offer(made[name], kind)
    return made


def offer(site: Site, kind: str, **settings: object) -> None:
    site.settings = msgspec.structs.replace(site.settings, **settings)
    site.handle(ev.SettingsLoaded(site.settings, (), (platform(kind), BARRIER)))
    site.grid.settle()


def package(*platforms: str, jobs: int = 4) -> GroupSpec:
    return spec(jobs, builds=platforms, program="sim")


def placed(made: Grid) -> set[str]:
    return {part.site for part in made["alpha"].group(NAME).subgroups.values() if part.indices}


def test_a_package_goes_where_a_machine_has_a_build_and_the_others_are_told() -> None:
    made = grid()
    made["alpha"].submit(package("aarch64"), 4)
    assert placed(made) == {"beta"}
    answer = made["alpha"].submit(package("vax", "pdp11"), 4, 2)
    assert isinstance(answer, fx.Refusal)
    assert "gamma: has no machine of platform pdp11 or vax" in answer.text
    both = made["alpha"].submit(package("aarch64", "x86_64", jobs=40), 40, 3)
    assert isinstance(both, fx.GroupAccepted)
    parts = made["alpha"].group(GroupId("alpha-2")).subgroups.values()
    assert {part.site for part in parts} == {"alpha", "beta"}


def test_a_site_says_whose_packages_run_there_and_plan_tells_it() -> None:
    made = grid()
    offer(made["beta"], "aarch64", package_users=("bob@vo",))
    answer = made["alpha"].submit(package("aarch64"), 4)
    assert isinstance(answer, fx.Refusal)
    assert "beta: runs no packages of this user (package_users in its site.toml)" in answer.text
    made["alpha"].submit(spec(2, sites=("beta",)), 2, 2)
    assert placed(made) == {"beta"}, "only packages are limited"
    offer(made["beta"], "aarch64", package_users=("alice@vo",))
    assert isinstance(made["alpha"].submit(package("aarch64"), 4, 3), fx.GroupAccepted)


def test_an_offer_of_a_package_is_checked_by_the_site_itself() -> None:
    made = grid()
    asked = made.post

    def lies(sender: str, to: str, message: ms.Message) -> None:
        """The quote of a site whose operator changes its mind before the offer comes."""
        if isinstance(message, ms.Quote) and sender == "beta":
            offer(made["beta"], "aarch64", package_users=("bob@vo",))
        asked(sender, to, message)  # type: ignore[arg-type]

    made.post = lies  # type: ignore[assignment, method-assign]
    made["alpha"].submit(package("aarch64"), 4)
    refused = [
        e.message.reason for e in made["beta"].trace if isinstance(e, fx.Send) and isinstance(e.message, ms.Refused)
    ]
    assert refused and set(refused) == {"runs no packages of this user (package_users in its site.toml)"}


def test_journals_with_packages_are_not_read_by_a_release_that_would_start_nothing() -> None:
    made = grid()
    made["alpha"].submit(package("aarch64"), 4)
    (submitted,) = made["alpha"].records(records.GroupSubmitted)
    (taken,) = made["beta"].records(records.CustodyTaken)
    assert [codec.encode(one)[0] for one in (submitted, taken)] == [2, 2]
    assert made["beta"].engine.snapshot()[0] == 2


def test_names_of_platforms_that_a_shell_could_read_are_refused() -> None:
    assert plain(package("x86_64"))
    assert not plain(package("x86;64")) and not plain(package("x/y")) and not plain(package(*"abcdefghi"))
    assert not plain(msgspec.structs.replace(package("vax"), program="$(reboot)"))


def test_a_user_of_packages_is_a_principal_or_everybody() -> None:
    with pytest.raises(ValueError, match="package_users = 'bob': want NAME@VO"):
        Settings(package_users=("bob",))
    assert Settings(package_users=()).package_users == ()


def builds(*platforms: str) -> tuple[InputFile, ...]:
    some = [InputFile(source=f"blob:{name[0] * 64}", path=build_path(name, "sim"), size_bytes=9) for name in platforms]
    return (*some, InputFile(source=f"blob:{'d' * 64}", path="data", size_bytes=9))


def brought(site: Site) -> set[str]:
    return {fetch.file.ref[5] for one in site.trace if isinstance(one, fx.StageIn) for fetch in one.files}


def workers(site: Site) -> set[str]:
    return {effect.worker for effect in site.trace if isinstance(effect, fx.Start)}


def submit_built(made: Grid, jobs: int = 1) -> None:
    wanted = msgspec.structs.replace(package("aarch64", "x86_64", "vax", jobs=jobs), sites=("beta",))
    wanted = msgspec.structs.replace(wanted, inputs=builds("aarch64", "x86_64", "vax"))
    refs = tuple((each.source, IndexSet.span(0, jobs)) for each in wanted.inputs)
    made["alpha"].submit(wanted, jobs, 1, refs=refs)
    made.settle()


def test_a_site_brings_the_builds_that_its_machines_can_use_and_no_others() -> None:
    made = grid()
    submit_built(made)
    assert brought(made["beta"]) == {"a", "d"}
    assert len(made["beta"].running) == 1


def test_a_machine_of_another_kind_has_its_build_brought_before_it_gets_a_job() -> None:
    made = grid(guard_jobs=0)
    made["beta"].stage_at_once = False
    submit_built(made, jobs=200)
    (order,) = made["beta"].staging
    joined = ev.LrmReady(worker="old", session=1, slots=2, known=(), software=(platform("vax"), BARRIER))
    made["beta"].handle(joined)
    assert brought(made["beta"]) == {"a", "d", "v"}
    assert [one for one in made["beta"].trace if isinstance(one, fx.CancelStage)] == [fx.CancelStage(order.ticket)]
    assert not workers(made["beta"]), "what was brought before does not stand for what was not"
    made["beta"].handle(ev.StageDone(ticket=order.ticket, bytes_moved=1))
    assert not workers(made["beta"])
    made["beta"].stage_at_once = True
    made["beta"].handle(ev.StageDone(ticket=made["beta"].staging[-1].ticket, bytes_moved=1))
    assert workers(made["beta"]) == {MAIN_MACHINE, "old"}


def test_another_kind_of_machine_that_joins_later_waits_for_its_build() -> None:
    made = grid(guard_jobs=0)
    submit_built(made, jobs=200)
    assert workers(made["beta"]) == {MAIN_MACHINE}
    made["beta"].stage_at_once = False
    made["beta"].handle(ev.LrmReady(worker="old", session=1, slots=2, known=(), software=(platform("vax"), BARRIER)))
    assert workers(made["beta"]) == {MAIN_MACHINE} and brought(made["beta"]) == {"a", "d", "v"}
    made["beta"].handle(ev.StageDone(ticket=made["beta"].staging[-1].ticket, bytes_moved=1))
    assert workers(made["beta"]) == {MAIN_MACHINE, "old"}


def test_a_site_that_knows_no_platform_of_the_package_brings_all() -> None:
    made = grid()
    submit_built(made)
    (custody,) = made["beta"].engine.state.custodies.values()
    made["beta"].handle(ev.SettingsLoaded(made["beta"].settings, (), (BARRIER,)))
    assert inputs._builds_for_others(made["beta"].engine.core, custody) == frozenset()
