"""Rules that claiming keeps, and when it is done."""

from __future__ import annotations

from tests.protocol.claiming_setting import Setting
from tests.protocol.claiming_state import FOR_EVER, HOLDS, RUNS, Place, Row, State
from tests.protocol.claiming_steps import lies


class Must:
    """The invariants and rules of a world. Of the liar's own components nothing is known, and nothing asked."""

    def __init__(self, on: Setting) -> None:
        self.on = on
        self.invariants = (
            self.no_processor_is_held_twice,
            self.one_attempt_of_a_component_is_live,
            self.what_is_closed_at_its_origin_holds_nothing,
            self.a_job_that_is_done_has_ended_everywhere,
            *([self.a_lie_reaches_no_farther_than_the_liars_component] if on.world.liar is not None else []),
        )
        self.rules = (
            self.what_was_closed_holds_nothing_again,
            self.nothing_starts_without_a_durable_go,
            self.go_only_when_all_stand_at_the_barrier,
        )

    # Invariants of every state

    def no_processor_is_held_twice(self, s: State) -> str | None:
        """I7: what stands, runs or was left behind at a site fits into it, beside its other work."""
        for site, has in enumerate(self.on.world.processors):
            if s.local[site] + sum(s.rows[n].state in HOLDS for n in self.on.at_site[site]) > has:
                return f"more than {has} processors of site {site} are held"
        return None

    def one_attempt_of_a_component_is_live(self, s: State) -> str | None:
        """I4: a component's program runs at one site at most, that of the released attempt."""
        live: dict[tuple[int, int], int] = {}
        for place, row in zip(self.on.places, s.rows, strict=True):
            if row.state in RUNS:
                if place[:2] in live:
                    return f"J{place.job}.{place.part} runs at {live[place[:2]]} and {place.site}"
                live[place[:2]] = place.site
        return None

    def what_is_closed_at_its_origin_holds_nothing(self, s: State) -> str | None:
        """K7: a component that its origin takes for closed after GO has ended at its site."""
        for at, (phase, parts) in enumerate(s.jobs):
            if phase in ("released", "giving up"):
                for c, (site, epoch, known, _) in enumerate(parts):
                    if known == "closed" and site != self.on.world.liar:
                        row = s.rows[self.on.at[Place(at, c, site)]]
                        if row.epoch == epoch and row.state in HOLDS:
                            return f"J{at}.{c} is closed at its origin, and holds processors at site {site}"
        return None

    def a_job_that_is_done_has_ended_everywhere(self, s: State) -> str | None:
        """K6: a job is done when all its components have ended well."""
        for at, (phase, parts) in enumerate(s.jobs):
            if phase == "done":
                for c, (site, epoch, _, _) in enumerate(parts):
                    if site != self.on.world.liar and s.rows[self.on.at[Place(at, c, site)]] != (epoch, "over"):
                        return f"J{at} is done, and its component {c} is not"
        return None

    def a_lie_reaches_no_farther_than_the_liars_component(self, s: State) -> str | None:
        """Whatever the liar says now: the rows of honest sites stay, and so does every job without a component at the
        liar; in a job with one, the other components stay placed and known as they are."""
        for name, jobs, rows in lies(self.on, s.jobs, s.rows):
            if rows != s.rows:
                return f"{name}, and a site believes it"
            for before, after in zip(s.jobs, jobs, strict=True):
                if before == after:
                    continue
                theirs = [part.site == self.on.world.liar for part in before.parts]
                if before.phase == "placing" or not any(theirs):
                    return f"{name}, and its origin believes it of a job that has nothing there"
                if any(a[:3] != b[:3] and not own for own, a, b in zip(theirs, before.parts, after.parts, strict=True)):
                    return f"{name}, and its origin believes it of a component that is elsewhere"
        return None

    # Rules of every step

    def what_was_closed_holds_nothing_again(self, before: State, after: State) -> str | None:
        """I1: a claim that was closed, and a component that ended, is claimed and released under that epoch no more."""
        for old, new, place in zip(before.rows, after.rows, self.on.places, strict=True):
            if new is not old and new.state in HOLDS and old.state in FOR_EVER and old.epoch == new.epoch:
                return (
                    f"J{place.job}.{place.part} epoch {new.epoch} was closed at site {place.site}, and holds processors"
                )
        return None

    def nothing_starts_without_a_durable_go(self, before: State, after: State) -> str | None:
        """I1, K6: a program starts at the place and under the epoch that a durable GO names."""
        for old, new, place in zip(before.rows, after.rows, self.on.places, strict=True):
            if new is not old and new.state in RUNS and old.state not in RUNS:
                phase, parts = before.jobs[place.job]
                if phase not in ("released", "giving up") or parts[place.part][:2] != (place.site, old.epoch):
                    which = f"J{place.job}.{place.part} epoch {new.epoch}"
                    return f"the program of {which} starts, and no GO for it is durable"
        return None

    def go_only_when_all_stand_at_the_barrier(self, before: State, after: State) -> str | None:
        """K5, K6: GO is said when each component stood at the barrier; what lapsed since is another matter."""
        for at, (old, new) in enumerate(zip(before.jobs, after.jobs, strict=True)):
            if new.phase in ("going", "released") and old.phase == "claiming":
                for c, (site, epoch, _, _) in enumerate(new.parts):
                    row = Row(epoch, "stands")
                    if site != self.on.world.liar:
                        row = before.rows[self.on.at[Place(at, c, site)]]
                    if row.epoch < epoch or row.state == "waits":
                        return f"GO, and J{at}.{c} was never there"
        return None

    # What is asked of schedules in which nothing fails

    def all_is_done(self, s: State) -> bool:
        """Every job is done, and nothing holds or waits for processors."""
        over = all(job.phase == "done" for job in s.jobs)
        return over and not any(row.state in ("waits", "withdrawn") or row.state in HOLDS for row in s.rows)

    def no_go_is_given_up(self, s: State) -> str | None:
        """All or none: where nothing fails and time-outs are patient, all components of a job that had its GO start.
        The liar may fail its own component, and the gang with it."""
        for at, (phase, parts) in enumerate(s.jobs):
            if phase == "giving up" and not any(part.site == self.on.world.liar for part in parts):
                return f"J{at} had its GO, and is given up"
        return None
