"""A user who goes on working while sites fall: submits small groups, cancels, holds and releases, moves, retries,
stages data; asks again, with the same key, until somebody answers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from diana.client import Client
from diana.errors import UsageError
from diana.model.views.group import GroupStatus
from tests.real.ground import SITES, Ground
from tests.real.judging import Told

KINDS = ("plain", "flaky", "cancelled", "held", "moved", "data")
FILES = 8
END_S = 180.0
_FLAKY = '[ "$DIANA_ATTEMPT" != 1 ] || [ $((DIANA_INDEX % 3)) != 0 ]'


class Errand:
    """One group, where it was submitted, and what the user did with it."""

    def __init__(self, ground: Ground, site: str, kind: str, jobs: int, key: str) -> None:
        self.site = site
        self.kind = kind
        self.jobs = jobs
        self.key = key
        self.group = ""
        self.outputs = ground.grid.root / f"out-{key}"
        self.faults: list[str] = []
        self.retried = 0
        """Jobs that had failed or came to an unknown end, when all else had ended."""
        self._ground = ground

    def __str__(self) -> str:
        return f"{self.group or self.key} ({self.kind}, {self.jobs} jobs)"

    def submit(self, job: dict[str, object]) -> None:
        group = self._ground.ask(self.site, lambda client: client.submit(job, key=self.key).group)
        self._ground.told.append(Told(self.site, f"- {self.key}", group))
        if self.group not in ("", group):
            self.faults.append(f"key {self.key} was answered {self.group}, then {group}")
        self.group = group

    def tell(self, order: Callable[[Client], object]) -> None:
        """UsageError: there is nothing of the kind to do any more."""
        with suppress(UsageError):
            self._ground.ask(self.site, order)

    def status(self) -> GroupStatus:
        return self._ground.ask(self.site, lambda client: client.status([self.group])[0])

    def over(self) -> tuple[bool, int]:
        """Whether it came to the end the user wants, after another try of what did not; how many jobs ended."""
        status = self.status()
        ended = status.done + status.cancelled
        if self.kind == "held":
            self.tell(lambda client: client.release(self.group))
        if status.final and status.failed + status.held:
            self.retried += status.failed + status.held
            self.tell(lambda client: client.retry(self.group, held=True))
        return status.final and ended == self.jobs and not status.gathering, ended

    def amiss(self) -> list[str]:
        """Faults in its results and outputs, after the end."""
        out = [*self.faults]
        found: dict[int, str] = {}
        for result in self._ground.ask(self.site, lambda client: list(client.results(self.group))):
            if result.index in found:
                out.append(f"{result.job} has two results")
            found[result.index] = result.outcome
        # A job that was cancelled before it started has a count and no facts.
        allowed = ("done", "cancelled", None) if self.kind == "cancelled" else ("done",)
        wrong = {index: found.get(index) for index in range(self.jobs) if found.get(index) not in allowed}
        if wrong:
            out.append(f"{self}: {len(wrong)} jobs did not end as {allowed}: {dict(list(wrong.items())[:5])}")
        if self.kind == "data":
            got = {path.name: path.read_text() for path in self.outputs.glob("out-*.txt")}
            if got != {f"out-{k}.txt": f"track {k % FILES}\n" for k in range(self.jobs)}:
                out.append(f"{self}: its outputs are {sorted(got.items())[:5]} ({len(got)})")
        return out

    def lost(self) -> int:
        """Jobs that came to no end, of a group that was acknowledged."""
        status = self.status()
        return status.jobs - status.done - status.failed - status.cancelled - status.held


class User(threading.Thread):
    """Runs errands until `stop` is called; `errands` are those that were acknowledged."""

    def __init__(self, ground: Ground, chance: random.Random) -> None:
        super().__init__(name="user", daemon=True)
        self.errands: list[Errand] = []
        self.fault: BaseException | None = None
        self._ground = ground
        self._chance = chance
        self._enough = threading.Event()

    def register(self) -> None:
        """The dataset that errands read: small files at beta."""
        folder = self._ground.grid.root / "tracks"
        folder.mkdir()
        for k in range(FILES):
            (folder / f"track-{k}.txt").write_text(f"track {k}\n")
        self._ground.ask("beta", lambda client: client.add_dataset("tracks", [folder]))

    def stop(self) -> None:
        """Ends what it is at. AssertionError when it got no answer in time."""
        self._enough.set()
        self.join()
        if self.fault is not None:
            raise AssertionError(f"the user's errands: {self.fault}") from self.fault

    def run(self) -> None:
        try:
            number = 0
            while not self._enough.wait(self._chance.uniform(0.5, 4.0)):
                kind = KINDS[number % len(KINDS)] if number < len(KINDS) else self._chance.choice(KINDS)
                number += 1
                self._go(
                    Errand(
                        self._ground,
                        self._chance.choice(sorted(SITES)),
                        kind,
                        self._chance.randrange(6, 30),
                        f"e{number}",
                    )
                )
        except BaseException as fault:
            self.fault = fault

    def _go(self, errand: Errand) -> None:
        chance = self._chance
        job = self._job(errand)
        errand.submit(job)
        self.errands.append(errand)
        self._enough.wait(chance.uniform(0.0, 1.5))
        match errand.kind:
            case "plain":
                # The answer was lost, the user asks again.
                errand.submit(job)
            case "cancelled":
                errand.tell(lambda client: client.cancel(errand.group))
            case "held":
                errand.tell(lambda client: client.hold(errand.group))
                self._enough.wait(chance.uniform(0.5, 3.0))
                errand.tell(lambda client: client.release(errand.group))
            case "moved":
                for _ in range(2):
                    to = chance.choice(sorted(SITES))
                    errand.tell(lambda client, to=to: client.move(errand.group, to))  # type: ignore[misc]
                    self._enough.wait(chance.uniform(0.0, 1.0))
            case "flaky":
                errand.tell(lambda client: client.retry(errand.group))

    def _job(self, errand: Errand) -> dict[str, object]:
        seconds = f"{self._chance.uniform(0.05, 0.6):.2f}"
        on_crash = self._chance.choice(("hold", "rerun"))
        marks = self._ground.marks
        if errand.kind == "flaky":
            return marks.job(errand.jobs, ("sh", "-c", f"sleep {seconds}; {_FLAKY}"), on_crash=on_crash)
        if errand.kind != "data":
            return marks.job(errand.jobs, ("sleep", seconds), on_crash=on_crash)
        job = marks.job(
            errand.jobs, ("sh", "-c", "sleep 0.1; cat in/track-$((DIANA_INDEX % 8)).txt > out-$DIANA_INDEX.txt")
        )
        job["inputs"] = [{"url": "dataset:tracks", "path": "in"}]
        job["outputs"] = {"collect": ["out-{array}.txt"], "to": str(errand.outputs)}
        return job


def all_over(errands: list[Errand], within_s: float = END_S) -> None:
    """Until each is as the user wants it; AssertionError when none gets on for so long."""
    progress, since_s, left = -1, time.monotonic(), errands
    ended: dict[str, int] = {}
    while left:
        looks = [(errand, *errand.over()) for errand in left]
        ended.update((errand.key, jobs) for errand, _, jobs in looks)
        left = [errand for errand, over, _ in looks if not over]
        if sum(ended.values()) > progress:
            progress, since_s = sum(ended.values()), time.monotonic()
        if left and time.monotonic() - since_s > within_s:
            told = "\n".join(f"{errand}: {errand.status()}" for errand in left)
            raise AssertionError(f"{len(left)} groups do not end within {within_s:g} s of the last progress:\n{told}")
        time.sleep(0.3)
