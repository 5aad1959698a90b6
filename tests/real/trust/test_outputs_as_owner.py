"""Outputs for a folder of a user's are written by a process of that user's account: the user's rights decide, and
nothing that a job puts in the way (links, other folders) makes the node write for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from diana.adapters.lrm.runas.accounts import Ways
from diana.adapters.staging.paths import Unlinked, folder, make_folders
from diana.client import Client
from diana.errors import UsageError
from diana.model.layout import DataDir
from tests.e2e.grid import Grid, Site, outcomes, until
from tests.real.accounts import accounts, map_accounts
from tests.real.trust.test_run_as import Made

PROOF = "diana-proof.txt"


@pytest.fixture(scope="module")
def people() -> Iterator[Made]:
    with accounts("ann-o", "bob-o") as made:
        yield made


@pytest.fixture
def site(grid: Grid, people: Made) -> Site:
    """A node of root's; root's jobs run as ann-o."""
    grid.root.chmod(0o755)
    alpha = grid.add("alpha", slots=2)
    map_accounts(grid.root / "libexec", alpha.data, {"root@alpha-vo": "ann-o"})
    grid.join()
    grid.start()
    return alpha


@pytest.fixture
def home(grid: Grid, people: Made) -> Path:
    """A folder of ann's."""
    made = grid.root / "ann"
    made.mkdir()
    os.chown(made, people["ann-o"].pw_uid, people["ann-o"].pw_gid)
    return made


def job(script: str, to: Path | str, collect: str = PROOF, **outputs: object) -> dict[str, object]:
    """Two jobs, the output of one goes into the folder under just this name."""
    return {
        "group": {"command": ["sh", "-c", script]},
        "sweep": {"x": [collect, "other"]},
        "outputs": {"collect": ["{x}"], "to": str(to), **outputs},
    }


def test_outputs_and_merge_results_are_the_owners_and_fetch_has_them(
    site: Site, home: Path, people: Made, tmp_path: Path
) -> None:
    to = home / "new" / "out"
    merge = ["sh", "-c", f"cat {PROOF} > merged; id -un >> merged"]
    with site.client() as client:
        group = client.submit(job("echo hello > {x}", to, merge=merge)).group
        client.wait(group, timeout_s=40.0)
        assert outcomes(client, group) == {0: "done", 1: "done"}, client.status([group])
        assert (to / "merged").read_text() == "hello\nann-o\n", client.status([group])
        # A file that changed in the user's folder is the user's business.
        (to / PROOF).write_text("other")
        fetched = b"".join(chunk.data for chunk in client.fetch_chunks(group))
        assert b"hello" in fetched and b"other" not in fetched
    ann = people["ann-o"].pw_uid
    assert {path.stat().st_uid for path in (to.parent, to, to / PROOF, to / "merged")} == {ann}
    assert [path.name for path in to.iterdir() if path.name.startswith(".")] == []


def ended(client: Client, group: str) -> bool:
    return client.status([group])[0].done == 2


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_where_the_owner_may_not_write_the_group_is_refused_with_the_owners_own_error(
    site: Site, people: Made, scheme: str
) -> None:
    with site.client() as client:
        with pytest.raises(UsageError) as refusal:
            client.submit(job("echo x > {x}", f"{scheme}/root"))
        said = str(refusal.value)
        assert "Permission denied for account ann-o" in said if not scheme else "/root" in said, said
        assert "\n" not in said and not (Path("/root") / PROOF).exists()


def test_a_job_that_swaps_its_output_folder_for_a_link_reaches_neither_settings_nor_root(
    site: Site, home: Path
) -> None:
    settings = site.paths.config.read_bytes()
    to = home / "out"
    to.mkdir()
    os.chown(to, home.stat().st_uid, home.stat().st_gid)
    elsewhere = home / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    for target, name in ((site.data, "site.toml"), (Path("/root"), PROOF), (elsewhere, PROOF)):
        script = f"echo mine > {{x}}; mv -T {to} {to}.old 2>/dev/null; ln -sfn {target} {to}; sleep 0.2"
        with site.client() as client:
            group = client.submit(job(script, to, collect=name)).group
            until(partial(ended, client, group), "both ended", 30.0)
            seen = client.wait(group, timeout_s=40.0)
            assert (seen.state, seen.done) == ("failed", 2), "no time makes it a folder again"
            assert "out is a link or a file, not a folder" in seen.note and str(to) in seen.note, seen
        assert site.paths.config.read_bytes() == settings
        assert not (Path("/root") / PROOF).exists() and list(elsewhere.iterdir()) == [], "no link is followed"
        to.unlink()
        os.rename(f"{to}.old", to)
        with site.client() as client:
            client.retry(group)
            assert client.wait(group, timeout_s=40.0).state == "done", "and a retry brings them"
        assert (to / name).read_text() == "mine\n"


def test_no_right_in_a_folder_of_roots_is_given_away_for_a_merge(tmp_path: Path, people: Made) -> None:
    """A job could have swapped its output folder for a link to it."""
    data, roots, to = DataDir(tmp_path / "data"), tmp_path / "roots", tmp_path / "out"
    own = tmp_path / "data" / "groups" / "alpha-1" / "outputs"
    own.mkdir(parents=True)
    roots.mkdir(mode=0o700)
    to.symlink_to(roots)
    (own.parent / "linked").symlink_to(tmp_path / "data")
    ways = Ways(data, people["ann-o"].pw_uid)
    for named in (roots, to, tmp_path / "data" / "groups" / "alpha-1" / "linked"):
        ways.lend(named)
    assert os.listxattr(roots) == [] and os.listxattr(tmp_path / "data") == []
    ways.lend(own)
    assert os.listxattr(own) != []


def test_a_folder_mounted_elsewhere_is_the_data_directory_still(tmp_path: Path) -> None:
    """Also when the mount came after the submission."""
    data, shown = tmp_path / "data", tmp_path / "shown"
    (data / "keys").mkdir(parents=True)
    for folder_of_node in (data, data / "keys"):
        shown.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", folder_of_node, shown], check=True)
        try:
            root = Unlinked.outside(str(shown), data)
            with pytest.raises(PermissionError, match="lies in the node's data directory"):
                make_folders(root)
            with pytest.raises(PermissionError, match="lies in the node's data directory"), folder(root, ("x",)):
                pass
            above = Unlinked.outside(str(tmp_path), data)
            with (
                pytest.raises(PermissionError, match="lies in the node's data directory"),
                folder(above, ("shown", "new"), create=True),
            ):
                pass
        finally:
            subprocess.run(["umount", shown], check=True)
    assert sorted(data.rglob("*")) == [data / "keys"]
    with folder(Unlinked.outside(str(tmp_path), data), ("free",), create=True):
        pass
