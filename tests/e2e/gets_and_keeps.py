"""Groups of a user's that show, wherever their jobs run, that a job gets inputs of its own and what it made is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from diana.client import Client
from diana.node.config.site_file import load_config
from diana.node.config.text import write_config
from tests.e2e.grid import Grid, Site, until

BIG = b"given\n" + bytes(2 << 20)
WAITS = "while :; do sleep .2; done"
READS = (
    "set -e; case $(stat -c %A a.txt in/a.txt) in *x*) ls -l; esac; python3 main.py; cat a.txt; head -n 1 b.bin;"
    " [ ! -L b.bin ]; echo x >> a.txt; echo x >> in/a.txt; if (echo y >> b.bin) 2>/dev/null; then echo written; fi;"
    " rm in/a.txt"
)
MAKES = (
    "umask 077; mkdir -p d/e; echo 1 > d/e/f; echo 2 > a.csv; ln -s /etc/shadow d/s; mkfifo d/p;"
    " chmod 0 d/e/f; chmod 500 d d/e; exit 3"
)


def copies_little(site: Site) -> Site:
    """Have the site copy 1 MiB of each job's inputs."""
    config = load_config(site.paths.config)
    staging = msgspec.structs.replace(config.staging, copy_bytes=1 << 20)
    write_config(site.paths.config, msgspec.structs.replace(config, staging=staging))
    return site


def given(grid: Grid, client: Client) -> dict[Path, bytes]:
    """Make two local files and the datasets small, big and shared; return content by file, which all may write to."""
    made = {}
    for path, content in (("small/a.txt", b"given\n"), ("big/b.bin", BIG), ("shared/c.txt", b"given\n")):
        file = grid.root / path
        file.parent.mkdir()
        file.write_bytes(content)
        file.chmod(0o666)
        client.add_dataset(file.parent.name, [file.parent])
        made[file] = content
    (grid.root / "main.py").write_text("import helper\nprint(helper.WORD)\n")
    (grid.root / "helper.py").write_text("WORD = 'found'\n")
    return made


def submitted(client: Client, script: str, collect: Sequence[str] = (), **more: Any) -> str:
    job: dict[str, Any] = {"group": {"command": ["sh", "-c", script], **more.pop("group", {})}}
    job["outputs"] = {"collect": list(collect)}
    return client.submit(job | more).group


def outcome(client: Client, group: str) -> tuple[str, str]:
    """How the only job of a group ended, and its error."""
    client.wait(group, timeout_s=60.0)
    (result,) = client.results(group)
    return result.outcome, result.error


def fetched(client: Client, group: str, to: Path) -> dict[str, str]:
    client.fetch(group, to / group)
    return {str(path.relative_to(to / group)): path.read_text() for path in (to / group).rglob("*") if path.is_file()}


def log(client: Client, job: str) -> bytes:
    return b"".join(chunk.data for chunk in client.logs(job))


def gets_and_keeps(grid: Grid, root: Site, tmp_path: Path, *, at: Site | None = None, warned: bool = True) -> None:
    """Submit the groups at `root`, whose jobs' directories lie at `at`. `warned`: a job that is cancelled gets time to
    write what it has."""
    site = at or root
    with root.client() as client:
        files = given(grid, client)
        inputs = [f"{grid.root}/main.py", f"{grid.root}/helper.py", "dataset:small/a.txt", "dataset:big/b.bin"]
        inputs += [{"url": "dataset:small", "path": "in"}]
        names = {name: f"my {name}" for name in ("k", "D", "out", "n", "PLAIN")}
        own = submitted(client, READS, inputs=inputs, sweep={"n": "1-3"}, group={"directory": True})
        linked = submitted(client, "echo x >> c.txt", inputs=[{"url": "dataset:shared/c.txt", "mode": "link"}])
        failed = submitted(client, MAKES, ["*.csv", "d/", "none"])
        saves = f"trap 'sleep 4; echo saved > late; exit 0' TERM; echo up > up.txt; {WAITS}"
        timed = submitted(client, saves, ["late", "*.txt"], resources={"time": "2s"})
        cancelled = submitted(client, saves, ["late", "*.txt"])
        lacking = submitted(client, "echo 1 > results.txt", ["result.txt"])
        talks = submitted(
            client,
            "echo head; yes | head -c 3145728; echo tail >&2; echo $k,$D,$out,$n,$PLAIN",
            group={"environment": names},
        )
        until(lambda: list(site.paths.root.glob(f"jobs/{cancelled}_*/*/0/up.txt")), "the job to be cancelled is up")
        client.cancel(cancelled)
        client.wait(own, timeout_s=60.0)
        for index in range(3):
            assert log(client, f"{own}.{index}") == b"found\ngiven\ngiven\n", [*client.results(own)]
        how, why = outcome(client, linked)
        assert how == "failed" and "input c.txt (dataset:shared/c.txt) is shared by all jobs and was changed" in why
        assert {path.name: path.read_bytes() for path in files if path.name != "c.txt"} == {
            "a.txt": b"given\n",
            "b.bin": BIG,
        }
        how, why = outcome(client, failed)
        assert how == "failed" and why.endswith(": 'd/p' and 1 others are passed over, as no regular file"), why
        assert fetched(client, failed, tmp_path) == {"0/a.csv": "2\n", "0/d/e/f": "1\n"}
        assert outcome(client, timed)[0] == "timed_out"
        assert fetched(client, timed, tmp_path) == {"0/late": "saved\n", "0/up.txt": "up\n"}
        assert outcome(client, cancelled)[0] == "cancelled"
        late = {"0/late": "saved\n"} if warned else {}
        assert fetched(client, cancelled, tmp_path) == {"0/up.txt": "up\n", **late}
        how, why = outcome(client, lacking)
        assert how == "staging_failed" and "there lay results.txt; its directory stays for 1d00h: " in why
        assert (Path(why.rpartition(": ")[2]) / "results.txt").read_text() == "1\n"
        assert outcome(client, talks) == ("done", "")
        said = log(client, f"{talks}.0")
        assert said.startswith(b"head\ny\n") and said.endswith(b"y\ntail\nmy k,my D,my out,my n,my PLAIN\n")
        assert said.count(b"bytes left out here; log_limit is 1048576 bytes") == 1 and len(said) < (1 << 20) + 100
