"""A port that was chosen for one new site is not chosen for the next one, although no node listens on it yet."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from diana.node.config.setup import init_site
from diana.node.enrol import ports
from diana.node.enrol.ports import free_port

HERE = "127.0.0.1"


@pytest.fixture(autouse=True)
def own_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_two_sites_that_are_made_one_after_the_other_get_two_ports(tmp_path: Path) -> None:
    first = free_port(HERE, tmp_path / "a")
    assert free_port(HERE, tmp_path / "b") > first
    assert free_port(HERE, tmp_path / "a") == first


def test_a_port_that_is_listened_on_is_passed_over(tmp_path: Path) -> None:
    with socket.create_server((HERE, free_port(HERE, tmp_path / "a"))) as taken:
        assert free_port(HERE, tmp_path / "a") > taken.getsockname()[1]


def test_a_node_that_began_once_keeps_its_port_by_itself(tmp_path: Path) -> None:
    first = free_port(HERE, tmp_path / "a")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "journal.db").touch()
    assert free_port(HERE, tmp_path / "b") == first


def test_a_site_has_its_port_for_itself_while_its_file_names_it_also_when_its_node_is_stopped(tmp_path: Path) -> None:
    data = tmp_path / "a"
    first = init_site(data, "alpha", listen=f"{HERE}:{free_port(HERE, data)}").listen
    (data / "journal.db").touch()
    (note,) = (tmp_path / f"diana-ports-{os.getuid()}").iterdir()
    os.utime(note, (1.0, 1.0))
    assert f"{HERE}:{free_port(HERE, tmp_path / 'b')}" != first
    (data / "site.toml").unlink()
    assert f"{HERE}:{free_port(HERE, tmp_path / 'c')}" == first


def test_where_all_ports_are_kept_one_that_nobody_listens_on_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_PORTS_TRIED", 40)
    monkeypatch.setattr(ports, "_keep", lambda note, data: False)
    assert ports.FIRST_PORT <= free_port(HERE, tmp_path / "a") < ports.FIRST_PORT + 40


def test_a_site_that_is_never_made_keeps_its_port_for_two_minutes(tmp_path: Path) -> None:
    first = free_port(HERE, tmp_path / "a")
    (note,) = (tmp_path / f"diana-ports-{os.getuid()}").iterdir()
    long_ago_s = note.stat().st_mtime - ports.KEPT_S - 1
    os.utime(note, (long_ago_s, long_ago_s))
    assert free_port(HERE, tmp_path / "b") == first


def test_a_folder_that_others_may_write_to_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / f"diana-ports-{os.getuid()}").mkdir()
    (tmp_path / f"diana-ports-{os.getuid()}").chmod(0o777)
    assert free_port(HERE, tmp_path / "a") == free_port(HERE, tmp_path / "b")


def test_a_note_of_a_site_that_cannot_be_looked_at_is_no_fault(tmp_path: Path) -> None:
    first = free_port(HERE, tmp_path / "a")
    (note,) = (tmp_path / f"diana-ports-{os.getuid()}").iterdir()
    # As a folder of another account; this one root cannot look into either.
    note.write_text(f"{tmp_path}/{'x' * 300}")
    assert free_port(HERE, tmp_path / "b") > first
