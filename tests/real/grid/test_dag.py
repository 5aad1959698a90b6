"""A chain of groups on real nodes: data pass from one to the next, kills and retries included (SPEC J4)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from diana.client import Client
from diana.errors import UsageError
from tests.e2e.grid import REPO, Grid, Site, until

pytestmark = pytest.mark.e2e

JOBS = 6


def pair(grid: Grid) -> tuple[Site, Site]:
    alpha, beta = grid.add("alpha", 1), grid.add("beta", 3)
    grid.join()
    grid.start()
    return alpha, beta


def stages(folder: Path, first: str = "", to: str = "") -> str:
    """make -> use -> tell: squares, then squares plus one, then a sum of them all."""
    where = f'to = "{to}"\n' if to else ""
    return f"""
[[group]]
name = "make"
command = ["sh", "-c", "{first}echo $(({{k}} * {{k}})) > sub-{{k}}.txt"]
[group.sweep]
k = "1-{JOBS}"
[group.outputs]
collect = "sub-{{k}}.txt"
dataset = "squares"
{where}
[[group]]
name = "use"
command = ["sh", "-c", "echo $(($(cat square) + 1)) > {{k}}.out"]
[group.sweep]
k = "1-{JOBS}"
[[group.inputs]]
url = "dataset:squares/sub-{{k}}.txt"
path = "square"
[group.outputs]
collect = "{{k}}.out"
dataset = "more"
merge = ["sh", "-c", "cat *.out | sort -n > all"]

[[group]]
name = "tell"
command = ["sh", "-c", "cp more/all {folder}/told; ls squares | wc -l >> {folder}/told"]
inputs = ["dataset:more", "dataset:squares"]
after = ["use"]
"""


TOLD = "".join(f"{k * k + 1}\n" for k in range(1, JOBS + 1)) + f"{JOBS}\n"


def submit(client: Client, text: str, key: str | None = None) -> list[str]:
    return [group.group for group in client.submit(text.encode(), key=key).groups]


def test_three_stages_pass_their_data_on_and_a_key_gives_them_again(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = pair(grid)
    with alpha.client() as client:
        groups = submit(client, stages(tmp_path), key="once")
        assert groups == ["alpha-1", "alpha-2", "alpha-3"]
        assert submit(client, stages(tmp_path), key="once") == groups
        seen = client.status(groups)
        assert [status.after for status in seen] == [(), ("alpha-1",), ("alpha-2", "alpha-1")]
        assert [client.wait(group, timeout_s=60).state for group in groups] == ["done"] * 3
        assert (tmp_path / "told").read_text() == TOLD
        registered = {d.name: d.files for d in client.datasets() if d.site == "alpha" and d.files >= 0}
        assert registered == {"squares": JOBS, "more": JOBS + 1}


def test_a_plan_of_several_groups_prices_those_that_wait_for_none_and_names_what_others_wait_for(
    grid: Grid, tmp_path: Path
) -> None:
    alpha, _ = pair(grid)
    with alpha.client() as client:
        planned = client.plans(stages(tmp_path).encode())
        assert [(one.name, one.jobs, one.waits_for) for one in planned] == [
            ("make", JOBS, ()),
            ("use", JOBS, ("make",)),
            ("tell", 1, ("use", "make")),
        ]
        assert planned[0].decision is not None and planned[0].decision.parts
        assert planned[1].decision is planned[2].decision is None
        with pytest.raises(UsageError, match="holds 3 groups"):
            client.plan(stages(tmp_path).encode())
        assert client.status() == ()
    (tmp_path / "stages.toml").write_text(stages(tmp_path))
    shown = grid.run(alpha, "plan", "--data", str(alpha.data), str(tmp_path / "stages.toml")).stdout
    assert shown.startswith("make: 6 jobs\n")
    assert "\nuse: waits for make; planned when that is done\n\ntell: waits for use, make; planned when" in shown


def test_a_killed_origin_goes_on_where_it_was_with_outputs_in_the_users_folder(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = pair(grid)
    to = tmp_path / "out"
    with alpha.client() as client:
        groups = submit(client, stages(tmp_path, "sleep 0.3; ", str(to)))
    for _ in range(3):
        alpha.kill()
        alpha.start()
    until(lambda: to.exists() and len(list(to.glob("*.txt"))) == JOBS, "the first stage is gathered", 40.0, 0.005)
    alpha.kill()
    alpha.start()
    with alpha.client() as client:
        assert [client.wait(group, timeout_s=60).state for group in groups] == ["done"] * 3
    assert (tmp_path / "told").read_text() == TOLD


def test_a_failed_stage_holds_the_others_and_a_retry_lets_them_go_on(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = pair(grid)
    flag = tmp_path / "flag"
    with alpha.client() as client:
        groups = submit(client, stages(tmp_path, f"test -e {flag} || exit 3; "))
        last = client.wait(groups[2], timeout_s=60)
        assert (last.state, last.held, last.done) == ("held", 1, 0)
        assert last.note == (
            "waits for alpha-1 (make), which failed; try it again: diana retry alpha-1,"
            " or cancel this one: diana cancel alpha-3"
        )
        ended = diana("wait", "--data", str(alpha.data), *groups)
        assert ended.returncode == 1
        assert "alpha-3: held" in ended.stdout
        flag.touch()
        assert client.retry(groups[0]) == JOBS
        assert [client.wait(group, timeout_s=60).state for group in groups] == ["done"] * 3
    assert (tmp_path / "told").read_text() == TOLD


def test_what_a_user_sees_of_a_chain_on_the_command_line(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = pair(grid)
    gate = tmp_path / "gate"
    job = tmp_path / "stages.toml"
    job.write_text(stages(tmp_path, f"until test -e {gate}; do sleep 0.05; done; "))
    node = ("--data", str(alpha.data))
    sent = diana("submit", *node, str(job))
    assert sent.stdout.splitlines() == [
        f"alpha-1: make: {JOBS} jobs accepted",
        f"alpha-2: use: {JOBS} jobs accepted, waits for alpha-1",
        "alpha-3: tell: 1 job accepted, waits for alpha-2, alpha-1",
    ]
    later = diana("submit", *node, "--after", "alpha-3", "--", "true")
    assert later.stdout == "alpha-4: 1 job accepted, waits for alpha-3\n"
    shown = diana("status", *node).stdout
    assert "alpha-2: waits for alpha-1 (make)" in shown and "waiting" in shown
    assert "waits for alpha-1 (make)" in diana("explain", *node, "alpha-2").stdout
    cancelled = diana("cancel", *node, "--dependents", "alpha-1")
    assert cancelled.stdout == f"alpha-1: cancelling {2 * JOBS + 2} jobs\n"
    with alpha.client() as client:
        states = [client.wait(f"alpha-{k}", timeout_s=30).state for k in (1, 2, 3, 4)]
        assert states == ["cancelled"] * 4


def test_bad_chains_are_refused_whole(grid: Grid, tmp_path: Path) -> None:
    alpha, _ = pair(grid)
    good = stages(tmp_path)
    with alpha.client() as client:
        for old, new, line in (
            ('name = "make"', 'name = "make"\nafter = ["tell"]', "in a circle: make -> use -> tell -> make"),
            ('"dataset:more", ', '"dataset:mroe", ', "group tell: dataset mroe"),
            ('after = ["use"]', 'after = ["us"]', "did you mean 'use'?"),
        ):
            with pytest.raises(UsageError, match=re.escape(line)):
                client.submit(good.replace(old, new).encode())
        assert client.status() == ()


def test_work_finds_its_data_where_they_were_made(grid: Grid) -> None:
    alpha, _ = pair(grid)
    size = 300_000
    text = f"""
[[group]]
name = "make"
command = ["sh", "-c", "head -c {size} /dev/urandom > {{k}}.bin"]
sites = ["beta"]
[group.sweep]
k = "1-4"
[group.outputs]
collect = "{{k}}.bin"
dataset = "noise"
[[group]]
name = "use"
sites = ["beta"]
command = ["sh", "-c", "test $(wc -c < in) = {size}"]
[group.sweep]
k = "1-4"
[[group.inputs]]
url = "dataset:noise/{{k}}.bin"
path = "in"
"""
    with alpha.client() as client:
        made, used = submit(client, text)
        assert [client.wait(group, timeout_s=60).state for group in (made, used)] == ["done", "done"]
        assert client.status([made])[0].bytes_moved == 4 * size
        assert client.status([used])[0].bytes_moved == 0


def diana(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "diana.cli", *words], cwd=REPO, capture_output=True, text=True, timeout=60, check=False
    )
