"""A site of the VO that lies to a real node whose journal lost its marks, or was put back: about that journal, with
words of the node's own that it kept, and about jobs that it never had (PROMISES section 2 and 5.5)."""

from __future__ import annotations

from typing import Any

import pytest

from diana.adapters.trust import certificates
from tests.e2e.grid import Grid, Site, Starts, outcomes, until
from tests.real.grid.test_old_database import copied, put_back
from tests.real.lies import AT_BETA, Liar, liar

pytestmark = pytest.mark.e2e

VO, JOBS = "alpha-vo", 4
SEALING = {"seal": b"s" * 16}
"""In the Hello of a site whose release keeps the words of others."""


class Victim:
    """Alpha, whose group waits for a file; beta, an honest site; and mallory, whom alpha's journal knows."""

    def __init__(self, grid: Grid, starts: Starts, at: str, slots: int) -> None:
        self.grid, self.alpha, self.beta = grid, grid.add("alpha", slots), grid.add("beta", JOBS)
        grid.join()
        grid.start()
        self.keys = grid.root / "mallory"
        certificates.issue_site(self.alpha.paths.keys, "mallory", self.keys)
        with liar("mallory", self.keys, self.alpha, VO, SEALING) as mallory:
            assert mallory.met(), mallory.problem
            self.go = grid.root / "go"
            wait = ("sh", "-c", f"while [ ! -e {self.go} ]; do sleep 0.2; done")
            with self.alpha.client() as client:
                self.group = client.submit(starts.job(JOBS, wait, sites=[at])).group
                # The copy is to know the part, and to lack what came after it.
                until(lambda: not client.status([self.group])[0].unplaced, self.alpha.story, 20, 0.02)
                self.copy = copied(self.alpha)
                client.submit({"group": {"command": ["true"], "sites": [at]}})
            starts.wait_for(min(slots, JOBS) if at == "alpha" else JOBS)
            until(lambda: _lengths(mallory), lambda: f"it hears of the journal\n{self.alpha.story()}", 20)
            self.said = [*_lengths(mallory), mallory.heard["hello"][0]]
            self.hello = mallory.heard["hello"][0]

    def word(self, length: Any, hello: Any = None, **more: Any) -> dict[str, Any]:
        """Alpha's own word, as whoever heard it can show it."""
        hello = hello or self.hello
        return {
            "db_uuid": hello.db_uuid,
            "former": list(hello.former),
            "generation": hello.generation,
            "boot_nonce": hello.boot_nonce,
            "seq": length.seq,
            "seal": length.seal,
            **more,
        }

    def again(self) -> dict[str, Any]:
        return SEALING | {"boot_nonce": "n2", "generation": 2, "seq": 9}


def _lengths(mallory: Liar) -> list[Any]:
    return [one for kind in ("summary", "met") for one in mallory.heard.get(kind, ()) if one.seq and one.seal]


def heard_out(site: Site, mallory: Liar) -> None:
    mallory.say("queue_request", query=77)
    until(
        lambda: any(one.query == 77 for one in mallory.heard.get("queue_report", ())),
        lambda: f"it still talks to the liar: {mallory.problem}\n{site.story()}",
        20,
    )


def test_no_word_that_it_said_before_makes_a_node_without_marks_start_anew_or_wait(grid: Grid, starts: Starts) -> None:
    """Nor one of now, nor one made longer; and its jobs, two of which have not started, need no operator."""
    it = Victim(grid, starts, "alpha", slots=2)
    it.alpha.kill()
    for mark in (it.alpha.paths.mark, it.alpha.paths.mark_twin):
        mark.unlink()
    it.alpha.start()
    with liar("mallory", it.keys, it.alpha, VO, it.again()) as mallory:
        assert mallory.met(), mallory.problem
        until(lambda: _lengths(mallory), "it hears of the journal again", 20)
        now = mallory.heard["hello"][0]
        shown = [
            None,
            *(it.word(one) for one in it.said),
            it.word(it.hello, seq=it.hello.seq + 10**6),
            it.word(it.hello, generation=now.generation),
            it.word(it.hello, boot_nonce="later"),
            *(it.word(one, now) for one in (now, *_lengths(mallory))),
        ]
        for evidence in shown:
            mallory.say("met", boot_nonce=mallory.boot_nonce, fell=True, evidence=evidence)
        heard_out(it.alpha, mallory)
        it.go.touch()
        with it.alpha.client() as client:
            until(lambda: client.status([it.group])[0].state == "done", it.alpha.story, 60, 0.1)
            assert outcomes(client, it.group) == dict.fromkeys(range(JOBS), "done")
    assert not starts.doubled()
    assert "mallory says that it knows a later state" in it.alpha.paths.audit.read_text()
    assert "site alpha stops" not in it.alpha.paths.node_log.read_text()


def test_an_origin_that_was_put_back_gives_a_liar_no_job_that_it_was_not_offered(grid: Grid, starts: Starts) -> None:
    it = Victim(grid, starts, "beta", slots=JOBS)
    put_back(it.alpha, it.copy)
    it.alpha.start()
    with liar("mallory", it.keys, it.alpha, VO, it.again()) as mallory:
        assert mallory.met(), mallory.problem
        until(lambda: any(one.asks for one in mallory.heard.get("met", ())), "it is asked", 30)
        jobs: dict[str, Any] = {"bounds": [0, JOBS]}
        rows = [
            {"subgroup": "alpha-1/7", "epoch": 2, "open": jobs},
            {"subgroup": "alpha-1/8", "epoch": 3, "open": jobs, "offered": jobs, "offer": b"x" * 16},
            {"subgroup": "alpha-1/9", "epoch": 900, "dropped": True},
            {"subgroup": AT_BETA, "epoch": 1, "open": jobs},
        ]
        mallory.say("holdings", db_uuid="db-mallory", seq=9, parts=1, rows=rows)
        heard_out(it.alpha, mallory)
        with it.alpha.client() as client:
            until(lambda: not client.status([it.group])[0].unreachable, it.alpha.story, 30, 0.1)
            client.release(it.group)
            it.go.touch()
            until(lambda: client.status([it.group])[0].final, it.alpha.story, 60, 0.1)
            assert client.status([it.group])[0].done == JOBS
    assert not starts.doubled() and starts.sites() == {"beta"}
    audited = it.alpha.paths.audit.read_text()
    assert "shows no offer" in audited and "tells of alpha-1/0 what cannot be" in audited
