"""`diana init` looks whether its port is free."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana.cli.main import main
from diana.model.layout import DataDir
from diana.node.config.site_file import host_port, load_config


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_port_that_is_taken_is_refused_where_it_was_asked_for(
    taken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "alpha", "--data", str(tmp_path / "a"), "--listen", taken]) == 2
    said = capsys.readouterr().err
    assert f"--listen {taken}: process {os.getpid()} (" in said and "listens there; choose another port" in said
    assert not (tmp_path / "a").exists()


def test_without_a_wish_a_free_one_is_found(taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diana.node.config.site_file.DEFAULT_LISTEN", taken)
    assert main(["init", "alpha", "--data", str(tmp_path / "a")]) == 0
    host, port = host_port(load_config(DataDir(tmp_path / "a").config).listen)
    assert f"{host}:{port}" != taken
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind((host, port))


def test_an_address_of_another_machine_may_be_meant(tmp_path: Path) -> None:
    assert main(["init", "alpha", "--data", str(tmp_path / "a"), "--listen", "192.0.2.1:7400"]) == 0


@pytest.mark.parametrize("listen", ["127.0.0.1", "::1:7400", "127.0.0.1:port"])
def test_an_address_that_is_none_is_a_line_and_no_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], listen: str
) -> None:
    assert main(["init", "alpha", "--data", str(tmp_path / "a"), "--listen", listen]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"diana: --listen '{listen}': ") and said.endswith("such as 127.0.0.1:7400\n")
    assert not (tmp_path / "a").exists()
