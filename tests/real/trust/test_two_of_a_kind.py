"""Who is kept out: a second node on a directory or a port, a site of another VO, a user of another VO."""

from __future__ import annotations

import shutil
import socket
import time
from pathlib import Path

import grpc
import msgspec
import pytest

from diana.client import Client
from diana.errors import Denied, DianaError, Unreachable
from diana.node.config.setup import init_user
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from diana.wire.tls import server_name
from tests.e2e.grid import Grid, Site, Starts, free_port, outcomes

pytestmark = pytest.mark.e2e


def refused_line(grid: Grid, site: Site, *more: str) -> str:
    """The word of a node that cannot start: one line, exit code 2."""
    ended = grid.run(site, *site.command(*more)[3:])
    lines = ended.stderr.splitlines()
    assert ended.returncode == 2, ended
    assert len(lines) == 1 and not ended.stdout, ended
    return lines[0]


def test_two_nodes_do_not_share_a_data_directory(grid: Grid) -> None:
    alpha = grid.add("alpha")
    grid.start()
    line = refused_line(grid, alpha, "--listen", f"127.0.0.1:{free_port()}")
    assert str(alpha.data) in line and alpha.process is not None and str(alpha.process.pid) in line
    with alpha.client() as client:
        assert client.info().pid == alpha.process.pid


def test_a_taken_port_is_refused_in_one_line(grid: Grid) -> None:
    alpha = grid.add("alpha")
    host, _, port = alpha.address.partition(":")
    with socket.socket() as taken:
        taken.bind((host, int(port)))
        taken.listen()
        line = refused_line(grid, alpha)
    assert port in line and host in line
    alpha.start()


def test_two_nodes_do_not_share_a_port(grid: Grid) -> None:
    alpha, beta = grid.add("alpha"), grid.add("beta")
    alpha.start()
    assert alpha.address.rpartition(":")[2] in refused_line(grid, beta, "--listen", alpha.address)


def test_a_site_of_another_vo_is_refused_and_never_shows(grid: Grid) -> None:
    alpha, beta = grid.add("alpha"), grid.add("beta")
    grid.join()
    stranger = Grid()
    try:
        mallory = stranger.add("mallory", own_vo=True)
        for site, other in ((mallory, alpha), (alpha, mallory)):
            config = load_config(site.paths.config)
            write_config(site.paths.config, msgspec.structs.replace(config, peers=(*config.peers, other.address)))
        mallory.start()
        grid.start()
        time.sleep(2.0)
        with pytest.raises(grpc.RpcError) as refusal:
            _dial_as(mallory, alpha)
        assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
        for site, names in ((alpha, {"alpha", "beta"}), (beta, {"alpha", "beta"}), (mallory, {"mallory"})):
            with site.client() as client:
                assert {seen.site for seen in client.sites()} == names
    finally:
        stranger.close()


def test_a_user_submits_waits_and_fetches_over_tls(grid: Grid, starts: Starts) -> None:
    alpha, _ = grid.add("alpha"), grid.add("beta")
    grid.join()
    grid.start()
    init_user(alpha.data, "ann", grid.root / "ann")
    job = starts.job(10, then=["sh", "-c", "echo $DIANA_INDEX > out-$DIANA_INDEX.txt"])
    job["outputs"] = {"collect": ["out-{array}.txt"]}
    with Client(credential=grid.root / "ann") as client:
        assert (client.info().principal, client.info().role) == ("ann@alpha-vo", "user")
        group = client.submit(job).group
        assert client.wait(group, timeout_s=60).state == "done"
        assert outcomes(client, group) == dict.fromkeys(range(10), "done")
        paths = client.fetch(group, grid.root / "here")
        assert {path.name: path.read_text() for path in paths} == {f"out-{i}.txt": f"{i}\n" for i in range(10)}
    # Another user of the same VO sees nothing of it and can do nothing to it.
    init_user(alpha.data, "bob", grid.root / "bob")
    with Client(credential=grid.root / "bob") as client:
        assert client.status() == ()
        with pytest.raises(DianaError):
            client.cancel(group)
        with pytest.raises(DianaError):
            client.fetch(group, grid.root / "bobs")
        with pytest.raises(Denied):
            client.stop()


def test_a_user_of_another_vo_is_refused_over_tls(grid: Grid) -> None:
    alpha, other = grid.add("alpha"), grid.add("other", own_vo=True)
    alpha.start()
    credential = grid.root / "eve"
    init_user(other.data, "eve", credential)
    with Client(credential=credential, address=alpha.address) as client, pytest.raises(Unreachable):
        client.info()
    # Also one that is ready to trust the node it calls.
    trusting = grid.root / "trusting"
    shutil.copytree(credential, trusting)
    shutil.copy(alpha.paths.keys / "vo.pem", trusting / "vo.pem")
    _claim_site(trusting, "other", "alpha")
    with Client(credential=trusting, address=alpha.address) as client, pytest.raises(DianaError):
        client.info()


def _dial_as(stranger: Site, site: Site) -> None:
    """Open a peer stream with the stranger's certificate, ready to trust the site it calls."""
    keys = stranger.paths.keys
    credentials = grpc.ssl_channel_credentials(
        (site.paths.keys / "vo.pem").read_bytes(), (keys / "site.key").read_bytes(), (keys / "site.pem").read_bytes()
    )
    options = [("grpc.ssl_target_name_override", server_name(site.name, "alpha-vo"))]
    with grpc.secure_channel(site.address, credentials, options) as channel:
        next(channel.stream_stream("/diana.v1.Peer/Stream")(iter([b""]), timeout=10))


def _claim_site(credential: Path, old: str, new: str) -> None:
    path = credential / "credential.toml"
    path.write_text(path.read_text().replace(f'"{old}', f'"{new}'))
