"""The way back to 0.1.0: whatever it cannot take over it refuses in one line, before it touches anything."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.e2e.grid import Grid, Site, Starts
from tests.real.durable.recording import tree_with
from tests.real.old_code import OldCode

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

TO_COME = {"engine/journal/codec.py": ("            return 1\n", "            return VERSION\n")}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> OldCode:
    return OldCode(tmp_path_factory.mktemp("release"))


class OfRelease(Site):
    """A node of another source than ours."""

    tree: Path

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(self.tree), "PYTHONSAFEPATH": "1"}

    def command(self, *more: str) -> list[str]:
        first, *rest = super().command(*more)
        return [first, "-P", *rest]


def refusal(old: OldCode, site: Site) -> str:
    """The one line with which its node refuses the data directory."""
    ended = old.cli("node", "--data", str(site.data), "--no-zeroconf")
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if line]
    assert ended.returncode and len(lines) == 1, ended
    return lines[0]


def test_keys_of_the_site_file_that_it_lacks_are_refused_in_one_line(grid: Grid, old: OldCode) -> None:
    site = grid.add("alpha", 1)
    text = site.paths.config.read_text()
    assert "\n[settings]\n" in text
    site.paths.config.write_text(text.replace("\n[settings]\n", '\n[settings]\nbinding = "late"\n'))
    assert "settings.binding: unknown key" in refusal(old, site)


def test_a_store_of_a_later_shape_is_refused_in_one_line(grid: Grid, old: OldCode) -> None:
    site = grid.add("alpha", 1)
    site.start()
    assert site.terminate() == 0
    with sqlite3.connect(site.paths.journal) as database:
        database.execute("UPDATE meta SET value = '2' WHERE key = 'schema'")
    database.close()
    assert "written by a newer diana (schema 2, this one knows up to 1)" in refusal(old, site)


def test_records_of_a_later_version_are_refused_in_one_line(
    grid: Grid, starts: Starts, old: OldCode, tmp_path: Path
) -> None:
    site = grid.add("alpha", 1)
    site.__class__ = OfRelease
    assert isinstance(site, OfRelease)
    site.tree = tree_with(tmp_path / "tree", TO_COME)
    site.start()
    with site.client() as client:
        assert client.wait(client.submit(starts.job(1)).group, timeout_s=30).done == 1
    site.kill()
    said = refusal(old, site)
    assert "newer" in said or "later" in said, said
