"""The program that travels with calls, as a warm parent that the test asks for children."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diana.client.calls import packing, remote
from diana.client.calls.gathering import CallGroup, GridFuture


@pytest.mark.parametrize("word", [b"!", b""])
def test_a_child_does_nothing_before_it_has_its_word_and_never_without(tmp_path: Path, word: bytes) -> None:
    group = CallGroup("test", whole=True)
    call = packing.packed_calls(pow, [((3, 2), {})])
    group.add(GridFuture(lambda future: False), packing.Call(packing.packed_function(pow), call))
    group.payload.finish()
    (tmp_path / remote.CALLS).write_bytes((group.folder / "payload").read_bytes())
    group.drop_files()
    result = tmp_path / f"{remote.RESULT}0"
    words = [sys.executable, "-I", "-S", remote.CALLS, "0", packing.PYTHON]
    ours, theirs = socket.socketpair()
    environment = {remote.SOCKET: str(theirs.fileno()), "DIANA_RUN": "." * 40}
    with ours, subprocess.Popen(words, cwd=tmp_path, env=environment, pass_fds=[theirs.fileno()]) as parent:
        theirs.close()
        ours.settimeout(60)
        assert ours.recv(4) == bytes(4), "it is ready"
        read, go = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        texts = [b"DIANA_RUN=mine", os.fsencode(tmp_path), b"%d" % len(words), *map(os.fsencode, words), b"A=1"]
        data = b"\0".join(texts) + b"\0"
        socket.send_fds(ours, [len(data).to_bytes(4, "big") + data], [null, null, read])
        os.close(read)
        os.close(null)
        pid = int.from_bytes(ours.recv(4), "big")
        assert os.getsid(pid) == pid and not result.exists()
        assert b"DIANA_RUN=mine\0" in Path(f"/proc/{pid}/environ").read_bytes()
        if word:
            os.write(go, word)
        os.close(go)
        end_s = time.monotonic() + 60
        while Path(f"/proc/{pid}/stat").exists() and b") Z " not in Path(f"/proc/{pid}/stat").read_bytes():
            assert time.monotonic() < end_s
            time.sleep(0.01)
        ours.close()
        parent.wait(60)
    assert result.exists() == bool(word)
    if word:
        assert packing.outcomes(result.read_bytes(), "alpha-1.0")[0].result() == 9
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        # Where a child is made by two forks it is of another's kin.
        assert not Path(f"/proc/{pid}").exists()
