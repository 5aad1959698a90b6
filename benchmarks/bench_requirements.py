"""A placement over 1,000 sites with three conjuncts, beside the same without, in turns in the same run (SPEC G1).

    python -m benchmarks.bench_requirements [--sites 1000] [--rounds 20] [--json FILE]

One engine knows so many peers by their summaries, is given a group, and asks its short list; the quotes come at once.
The row `hopeless` has a requirement that no summary meets, so that every site is looked at; `alike` has one by which
there are four kinds of sites. Of the sites that are asked, `sets` wants a sum that only several of them together come
to, and `no_set` one that none come to, so that each set is tried. Times are of the processor, in milliseconds per
placement.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import msgspec

from diana.engine.journal import effects as fx
from diana.engine.journal import events as ev
from diana.engine.messages import messages as ms
from diana.model.ids import SiteId
from diana.model.job.spec import Axis, GroupSpec, Resources, Sweep
from diana.model.trust.principal import Principal, Role
from tests.engine.bench import Grid, Post

GIB = 2**30
THREE = ("site.memory_bytes >= 3 * 1073741824", "suffix(site.domain, ['b.edu', 'c.edu'])", "site.free_slots >= 1")
KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "without": {},
    "three": {"requirements": THREE},
    "alike": {"requirements": ("site.memory_bytes >= 3 * 1073741824",)},
    "hopeless": {"requirements": ("site.memory_bytes >= 1e15", *THREE[1:])},
    "sets": {"set_requirements": ("sum(set.memory_bytes) >= 8 * 1073741824", "size(set) <= 4")},
    "no_set": {"set_requirements": ("sum(set.memory_bytes) >= 1e15", "size(set) <= 4")},
}


def crowd(sites: int) -> Grid:
    """One engine that has met this many others, which are played."""
    grid = Grid({"binding": "early", "quote_wait_s": 3600.0}, home=4)
    home = grid["home"]
    for n in range(sites):
        site = SiteId(f"s{n:05}")
        hello = msgspec.structs.replace(home.hello(), site=site, db_uuid=f"db-{n}", boot_nonce=f"n{n}")
        home.handle(ev.PeerUp(hello))
        home.handle(ev.Received(site, _summary(site, n)))
    return grid


def _summary(site: SiteId, n: int) -> ms.Summary:
    return ms.Summary(
        site=site,
        generation=1,
        counter=1,
        seq=0,
        slots=1 + n % 97,
        free_slots=1 + n % 97,
        speed=1.0 + n % 3,
        queued_jobs=0,
        running_jobs=0,
        work_ahead_s=0.0,
        datasets=(),
        accepting=True,
        memory_bytes=(1 + n % 4) * GIB,
        domain="abc"[n % 3] + ".edu",
    )


def _quote(post: Post) -> ms.Quote:
    _, site, asked = post
    assert isinstance(asked, ms.QuoteRequest)
    n = int(site[1:])
    told = _summary(site, n)
    return ms.Quote(
        quote=asked.quote,
        rejected="",
        slots=told.slots,
        free_slots=told.free_slots,
        speed=told.speed,
        work_ahead_s=0.0,
        files=(),
        unknown_refs=(),
        links=(),
        memory_bytes=told.memory_bytes,
        domain=told.domain,
        widest=told.slots,
    )


def placement_ms(grid: Grid, wanted: dict[str, tuple[str, ...]], request: int) -> float:
    """Processor milliseconds of one `plan`, from the submission to the decision; those of the peers do not count."""
    home = grid["home"]
    spec = GroupSpec(
        argv=("true",),
        sweep=Sweep(axes=(Axis(name="n", start=0, stop=10_000),)),
        resources=Resources(work_s=60.0),
        **wanted,  # type: ignore[arg-type]
    )
    grid.post_box.clear()
    owner = Principal(Role.USER, "alice@vo")
    event = ev.SubmitGroup(
        request=request, principal=owner, key="", spec=spec, jobs=10_000, refs=(), wall_s=0.0, plan_only=True
    )
    spent, began = 0.0, time.thread_time()
    effects = home.engine.handle(event, grid.now)
    spent += time.thread_time() - began
    asked = [(home.name, e.to, e.message) for e in effects if isinstance(e, fx.Send)]
    answered = any(isinstance(e, fx.Reply) for e in effects)
    for post in asked:
        if not isinstance(post[2], ms.QuoteRequest):
            continue
        quote = _quote(post)
        began = time.thread_time()
        effects = home.engine.handle(ev.Received(post[1], quote), grid.now)
        spent += time.thread_time() - began
        answered = answered or any(isinstance(e, fx.Reply) for e in effects)
    if not answered:
        raise SystemExit("the group was not decided about")
    return 1e3 * spent


def measure(sites: int, rounds: int) -> dict[str, float]:
    grid = crowd(sites)
    taken: dict[str, list[float]] = {name: [] for name in KINDS}
    for n in range(rounds + 3):
        for name, wanted in KINDS.items():
            found = placement_ms(grid, wanted, 10 + n)
            if n >= 3:
                taken[name].append(found)
    out = {f"{name}_ms": median(some) for name, some in taken.items()}
    return out | {"three_over_without": out["three_ms"] / out["without_ms"], "sites": float(sites)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = measure(args.sites, args.rounds)
    for name, value in found.items():
        print(f"{name}: {value:.3f}")
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
