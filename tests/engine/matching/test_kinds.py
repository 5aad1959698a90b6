"""Kinds of machines: a site tells them in its quotes, however many machines it has, and what cannot be is not believed
(SPEC G1, G4)."""

from __future__ import annotations

import msgspec

from diana.engine.dispatch import quote_answer
from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.journal import records
from diana.engine.machines.kinds import MOST_KINDS
from diana.engine.matching.facts import kinds_of
from diana.engine.messages import messages as ms
from diana.engine.messages.messages import MachineKind
from diana.model.job.software import BARRIER, platform
from diana.wire import peer_codec
from tests.engine.bench import Grid, Post, Site
from tests.engine.builders import ALICE, spec

GIB = 2**30
ASKED = ms.QuoteRequest(quote=1, processors=1, memory_bytes=0, jobs=1, refs=(), owner=ALICE.name, kinds=True)


def join(site: Site, name: str, slots: int, *, kind: str = "", **more: object) -> None:
    software = (BARRIER, platform(kind)) if kind else (BARRIER,)
    ready = ev.LrmReady(worker=name, session=1, slots=slots, known=(), software=software, **more)  # type: ignore[arg-type]
    site.handle(ready)


def told(site: Site) -> tuple[MachineKind, ...]:
    return quote_answer.quote(site.engine.core, ASKED).kinds


def test_machines_that_are_alike_are_one_row() -> None:
    grid = Grid(alpha=4)
    for number in range(40):
        join(grid["alpha"], f"m{number}", 2, kind="aarch64", memory_bytes=8 * GIB, gpus=1, all_gpus=1, speed=2.0)
    assert told(grid["alpha"]) == (
        MachineKind(40, 2, 2.0, 8 * GIB, 1, "aarch64", 80),
        MachineKind(1, 4, 1.0, 0, 0, "", 4),
    )


def test_what_runs_is_not_idle_and_a_cluster_is_as_many_machines_as_it_has() -> None:
    grid = Grid(alpha=3)
    join(grid["alpha"], "cluster", 10, widest=4)
    grid["alpha"].submit(spec(2, sites=("alpha",)), 2, 5)
    assert sum(kind.idle for kind in told(grid["alpha"])) == 11
    assert [(kind.count, kind.processors) for kind in told(grid["alpha"])] == [(2, 4), (1, 3), (1, 2)]


def test_a_machine_keeps_its_speed_over_a_restart_of_its_node() -> None:
    grid = Grid(alpha=1)
    join(grid["alpha"], "fast", 2, speed=3.0)
    (known,) = [one for one in grid["alpha"].records(records.MachineKnown) if one.machine == "fast"]
    assert known.speed == 3.0
    grid["alpha"].restart()
    assert [kind.speed for kind in told(grid["alpha"])] == [3.0, 1.0]
    join(grid["alpha"], "odd", 2, speed=float("nan"))
    assert {kind.speed for kind in told(grid["alpha"])} == {3.0, 1.0}, "a speed that is none is the site's"


def test_a_quote_tells_no_more_kinds_than_its_bound_and_none_unasked() -> None:
    grid = Grid(alpha=1)
    for number in range(3 * MOST_KINDS):
        join(grid["alpha"], f"m{number}", 2 + number)
    kinds = told(grid["alpha"])
    assert len(kinds) == MOST_KINDS and kinds[0].processors == 1 + 3 * MOST_KINDS
    assert quote_answer.quote(grid["alpha"].engine.core, msgspec.structs.replace(ASKED, kinds=False)).kinds == ()


def test_kinds_that_cannot_be_are_left_out() -> None:
    grid = Grid(alpha=8)
    honest = quote_answer.quote(grid["alpha"].engine.core, ASKED)
    nan = float("nan")
    lies = (
        MachineKind(1, 0, 1.0),
        MachineKind(-1, 2, 1.0),
        MachineKind(1, 2, nan),
        MachineKind(1, 2, float("inf")),
        MachineKind(1, 2, -1.0),
        MachineKind(1, 2, 1.0, -5),
        MachineKind(1, 2, 1.0, 0, -1),
        MachineKind(1 << 62, 3, 1.0, 1 << 62, 1 << 62, "../sh", 1 << 62),
        MachineKind(5, 3, 1.0, 0, 0, "", 9),
        MachineKind(1, 2, 1.0, 0, 0, "x86_64", 9),
    )
    heard = kinds_of(msgspec.structs.replace(honest, kinds=lies, free_slots=5))
    assert heard == (MachineKind(2, 3, 1.0, 1 << 62, 0, "", 5), MachineKind(1, 2, 1.0, 0, 0, "x86_64", 0))
    many = tuple(MachineKind(1, 1, 1.0 + n, 0) for n in range(5000))
    assert len(kinds_of(msgspec.structs.replace(honest, slots=9000, kinds=many))) == MOST_KINDS
    assert kinds_of(msgspec.structs.replace(honest, kinds=lies[:7])) == (MachineKind(1, 8, 1.0, 0, 0, "", 8),)
    assert kinds_of(msgspec.structs.replace(honest, kinds=(), speed=nan)) == ()


def test_thousands_of_kinds_are_cut_where_they_come_in() -> None:
    honest = quote_answer.quote(Grid(alpha=8)["alpha"].engine.core, ASKED)
    lie = msgspec.structs.replace(honest, kinds=tuple(MachineKind(1, 1, 1.0) for _ in range(5000)))
    heard = peer_codec.decode_message(peer_codec.encode_message(lie))
    assert isinstance(heard, ms.Quote) and len(heard.kinds) == 2 * MOST_KINDS
    assert peer_codec.decode_message(peer_codec.encode_message(honest)) == honest


def test_requirements_name_the_platforms_of_a_site() -> None:
    grid = Grid(alpha=1, beta=1)
    join(grid["beta"], "arm", 2, kind="aarch64")
    grid.settle()
    wanted = msgspec.structs.replace(spec(1), requirements=("'aarch64' in site.platforms",))
    grid["alpha"].submit(wanted, 1, 1)
    grid.pass_time(5.0)
    (group,) = grid["alpha"].engine.state.groups.values()
    assert {part.site for part in group.subgroups.values()} == {"beta"}
    riscv = msgspec.structs.replace(spec(1), requirements=("'riscv64' in site.platforms",))
    said = grid["alpha"].submit(riscv, 1, 2)
    grid.pass_time(5.0)
    assert isinstance(said or grid["alpha"].replies.get(2), fx.Refusal)


def test_a_site_that_lies_of_its_machines_harms_nobody_else() -> None:
    grid = Grid(alpha=1, beta=4)

    def liar(made: Grid, number: int, letter: Post) -> str:
        sender, to, message = letter
        if sender == "beta" and isinstance(message, ms.Quote) and message.kinds and message.kinds[0].count < 99:
            lies = (MachineKind(99, 1 << 40, 1e300), MachineKind(99, 1, float("nan")))
            made.post(sender, to, msgspec.structs.replace(message, kinds=lies))
            return "lose"
        return "deliver"

    grid.fate = liar
    wanted = msgspec.structs.replace(spec(1), requirements=("'aarch64' in site.platforms || site.slots > 2",))
    grid["alpha"].submit(wanted, 1, 1)
    grid.pass_time(5.0)
    (group,) = grid["alpha"].engine.state.groups.values()
    assert {part.site for part in group.subgroups.values()} == {"beta"}
