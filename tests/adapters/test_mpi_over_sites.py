"""The words before each component of an MPI job over several sites, with a launcher that stands in for MPICH's: it
prints what a real one prints (`tests/clusters/test_mpi_over_sites.py`), and waits for its proxies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Client
from pathlib import Path

import msgspec
import pytest

from diana.adapters.lrm.software import Software, check
from diana.adapters.lrm.spawner.protocol import UNREADY_EXIT
from diana.model.ids import SubgroupId
from diana.model.job.components import components_of
from diana.model.job.software import MPI_OVER_SITES, needed
from diana.model.job.spec import GroupSpec
from diana.model.layout import DataDir
from tests.adapters.test_mpi_launcher import PART

GANG = GroupSpec(argv=("solve",), components=components_of("1x2+1x1"), runner="mpi")
LAUNCHER = """\
#!/bin/sh
echo "$@" > "$MEET/words"
for k in 0 1; do echo "HYDRA_LAUNCH: sh $MEET/proxy $k"; done
echo HYDRA_LAUNCH_END
for k in 0 1; do until [ -e "$MEET/$k" ]; do sleep 0.05; done; done
cat "$MEET/0" "$MEET/1"
exit 3
"""
PROXY = 'echo "$1 is $DIANA_SITE in $DIANA_GANG_FOLDER" > "$MEET/new.$1"; mv "$MEET/new.$1" "$MEET/$1"\n'


STARTED: list[subprocess.Popen[str]] = []


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("", 0))
        return int(one.getsockname()[1])


class Component:
    def __init__(self, root: Path, rank: int, port: int, token: str = "secret") -> None:
        self.folder = root / f"component-{rank}"
        self.folder.mkdir()
        software = Software(mpi_over_sites=str(root / "mpiexec.hydra"))
        told = {"PATH": os.environ["PATH"], "TMPDIR": str(self.folder), "DIANA_JOB": "a-1.0", "DIANA_ATTEMPT": "1"}
        told |= {"DIANA_GANG_RANK": str(rank), "DIANA_GANG_HOSTS": "127.0.0.1,127.0.0.1", "DIANA_GANG_PORT": str(port)}
        told |= {"DIANA_GANG_TOKEN": token, "DIANA_SITE": f"site-{rank}", "MEET": str(root)}
        before = software.before(GANG, PART, DataDir(root / "data"))
        self.process = subprocess.Popen(
            [*before, "solve", "it's"],
            cwd=self.folder,
            env=told,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        STARTED.append(self.process)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "mpiexec.hydra").write_text(LAUNCHER)
    (tmp_path / "mpiexec.hydra").chmod(0o755)
    (tmp_path / "proxy").write_text(PROXY)
    yield tmp_path
    while STARTED:
        process = STARTED.pop()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_the_first_component_starts_the_world_and_the_others_their_parts_of_it(root: Path) -> None:
    """The others may come first. How the world ended is how the first component did."""
    port = free_port()
    with socket.create_server(("", port)) as early:
        second = Component(root, 1, port)
        early.accept()[0].close()
    first = Component(root, 0, port)
    told = "".join(f"{rank} is site-{rank} in {each.folder}\n" for rank, each in enumerate((first, second)))
    assert first.end() == (3, told, "")
    assert second.end() == (0, "", "")
    words = (root / "words").read_text()
    assert "-launcher manual -localhost 127.0.0.1 -genvnone" in words and "-hosts c0:2,c1:1 -n 3 " in words
    assert words.endswith("sh solve it's\n")


def test_who_does_not_know_the_token_is_told_nothing(root: Path) -> None:
    port = free_port()
    first, stranger = Component(root, 0, port), Component(root, 1, port, token="guessed")
    code, out, err = stranger.end()
    assert code != 0 and not out and "AuthenticationError" in err and not (root / "1").exists()
    with Client(("127.0.0.1", port), authkey=b"secret") as one:
        one.send_bytes(b"1")
        assert one.recv_bytes() == b"sh %s 1" % str(root / "proxy").encode()
    (root / "1").touch()
    code, _, err = first.end()
    assert code == 3 and "a stranger asked for a component" in err


def test_a_launcher_that_is_not_there_is_told_and_the_component_did_not_begin(root: Path) -> None:
    (root / "mpiexec.hydra").unlink()
    code, _, err = Component(root, 0, free_port()).end()
    assert code == UNREADY_EXIT
    assert "mpiexec.hydra, which the gang's runner needs, is not on this machine of site site-0" in err


def test_a_site_offers_it_and_a_gang_asks_for_it_by_the_same_name() -> None:
    assert Software(mpi_over_sites="mpiexec.hydra").offered() == (MPI_OVER_SITES,)
    assert MPI_OVER_SITES in needed(GANG) and MPI_OVER_SITES not in needed(msgspec.structs.replace(GANG, runner=""))
    with pytest.raises(ValueError, match="named no launcher of such jobs"):
        Software().before(GANG, SubgroupId("alpha-1/0"), DataDir(Path("/nowhere")))
    with pytest.raises(ValueError, match="want a program, such as mpiexec"):
        check(Software(mpi_over_sites="mpiexec -x"))
