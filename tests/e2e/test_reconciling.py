"""SPEC D12, PROMISES section 2: a node that dies between its catalogue and its journal tells the truth when it is
back."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from diana.client import Client
from diana.errors import DianaError
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e


@contextmanager
def a_journal_that_waits(site: Site) -> Iterator[None]:
    """Nothing is committed there meanwhile; the catalogue is a database of its own."""
    with closing(sqlite3.connect(site.paths.journal, isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        yield
        lock.execute("ROLLBACK")


def catalogued(site: Site) -> set[str]:
    with closing(sqlite3.connect(f"file:{site.paths.catalogue}?mode=ro", uri=True)) as db:
        return {name for (name,) in db.execute("SELECT name FROM datasets WHERE version > 0")}


def killed_between(site: Site, call: Callable[[Client], object], names: set[str]) -> None:
    """The node is killed when its catalogue has these names and its journal has not heard of it."""

    def ask() -> None:
        with suppress(DianaError), site.client() as client:
            call(client)

    asking = threading.Thread(target=ask)
    with a_journal_that_waits(site):
        asking.start()
        until(lambda: catalogued(site) == names, "the catalogue is written", every_s=0.002)
        site.kill()
    asking.join()
    site.start()


def test_a_kill_between_catalogue_and_journal_is_made_up_for_at_start(grid: Grid) -> None:
    alpha, beta = grid.add("alpha", 1), grid.add("beta", 1)
    grid.join()
    grid.start()
    for name in ("first", "second"):
        (grid.root / name).mkdir()
        (grid.root / name / "file").write_text(name)

    def beta_hears(names: set[str]) -> None:
        def told() -> set[str]:
            with beta.client() as client:
                return {found.name for found in client.datasets() if found.site == "alpha"}

        until(lambda: told() == names, lambda: f"beta hears of {names}, not {told()}", every_s=0.05)

    with alpha.client() as client:
        client.add_dataset("first", [grid.root / "first"])
    beta_hears({"first"})
    killed_between(alpha, lambda c: c.add_dataset("second", [grid.root / "second"]), {"first", "second"})
    beta_hears({"first", "second"})
    killed_between(alpha, lambda c: c.remove_dataset("first"), {"second"})
    beta_hears({"second"})
    # Once told it is journaled: nothing is left to make up for.
    alpha.kill()
    alpha.start()
    beta_hears({"second"})
