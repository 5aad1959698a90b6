"""The Python client against a real socket, Api, store and stager (only the engine is a small book of groups)."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diana import errors
from diana.client import AsyncClient, Client
from diana.client.where import SOCKET
from diana.model.facts import JobError, Outcome, OutputFile
from diana.model.layout import DataDir
from diana.node.api.follow import TELL_EVERY_S
from diana.wire.client import messages as wire
from tests.client.nodelike import ALICE, BOB, InThread, Nodelike, crowd, facts, view
from tests.runs import SOAK

JOB = b'[group]\ncommand = ["/bin/true"]\n'


@pytest.fixture
def node(tmp_path: Path) -> Iterator[InThread]:
    with InThread(tmp_path / "alpha") as node:
        yield node


@pytest.fixture
def client(node: InThread) -> Iterator[Client]:
    with Client(node.node.data.root) as client:
        yield client


def test_where_the_socket_lies_is_what_the_layout_says(tmp_path: Path) -> None:
    assert str(DataDir(tmp_path).socket) == os.path.join(tmp_path, SOCKET)


def test_importing_the_client_brings_neither_asyncio_nor_grpc() -> None:
    code = "import diana.client, sys; print({'asyncio', 'grpc', 'google.protobuf', 'hashlib'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_local_submission_brings_neither_asyncio_nor_grpc(node: InThread) -> None:
    code = (
        "import sys; from diana.client import Client\n"
        f"print(Client({str(node.node.data.root)!r}).submit({JOB!r}).group)\n"
        "print({'asyncio', 'grpc', 'google.protobuf'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "alpha-1\nset()\n"


def test_a_job_without_a_way_to_a_node_is_told_so_and_not_to_make_a_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {"JOB": "alpha-1.3", "SITE": "beta", "MACHINE": "slurm"}.items():
        monkeypatch.setenv(f"DIANA_{name}", text)
    monkeypatch.delenv("DIANA_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(errors.Unreachable) as caught:
        Client().info()
    assert str(caught.value) == (
        "job alpha-1.3 has no way to a node: slurm of beta gives its jobs none, as clusters and containers do;"
        " submit from a job on a plain machine, or name a credential and an address (docs/python.md)"
    )
    # A directory that somebody named is spoken of as ever.
    with pytest.raises(errors.Unreachable, match=f"no site in {tmp_path}/own; make one"):
        Client(tmp_path / "own").info()
    monkeypatch.setenv("DIANA_DATA", str(tmp_path / "no"))
    with pytest.raises(errors.Unreachable, match=f"no site in {tmp_path}/no; make one"):
        Client().info()


def test_a_node_that_is_not_running_is_named_with_the_mend(tmp_path: Path) -> None:
    with pytest.raises(errors.Unreachable) as caught:
        Client(tmp_path / "no").info()
    folder = tmp_path / "no"
    assert str(caught.value).startswith(f"no site in {folder}; make one with: diana init NAME --data {folder}")
    folder.mkdir()
    (folder / "site.toml").write_text("")
    with pytest.raises(errors.Unreachable) as caught:
        Client(folder).info()
    assert str(caught.value) == f"no node answers at {folder}; start one with: diana node --data {folder}"
    assert caught.value.exit_code == 4


def test_an_empty_key_is_refused_and_not_taken_for_none(client: Client) -> None:
    with pytest.raises(errors.UsageError, match="key: empty; give a text of your own"):
        client.submit(JOB, key="")
    assert not client.status()


def test_the_environment_names_the_node_where_the_caller_does_not(
    node: InThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIANA_DATA", str(node.node.data.root))
    with Client() as client:
        assert client.info().site == "alpha"


def test_a_node_that_stops_in_mid_call_is_reported_as_gone(tmp_path: Path) -> None:
    folder = tmp_path / "control"
    folder.mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "diana.sock"))
    listener.listen()
    threading.Thread(target=lambda: listener.accept()[0].close()).start()
    with pytest.raises(errors.Unreachable, match="went away"):
        Client(tmp_path).info()
    listener.close()


def test_a_connection_the_node_closed_meanwhile_is_replaced(tmp_path: Path) -> None:
    client = Client(tmp_path / "alpha")
    for _ in range(2):
        with InThread(tmp_path / "alpha"):
            assert client.info().generation == 3
    client.close()


def test_the_same_key_gives_the_same_group_and_no_key_a_new_one(client: Client) -> None:
    assert client.submit(JOB, key="k").group == client.submit(JOB, key="k").group
    assert client.submit(JOB).group != client.submit(JOB).group


def test_local_files_a_job_names_are_uploaded_from_beside_it(client: Client, node: InThread, tmp_path: Path) -> None:
    content = random.Random(1).randbytes(3 << 20)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "big.bin").write_bytes(content)
    job = tmp_path / "jobs" / "job.toml"
    job.write_text('[group]\ncommand = ["cat", "big.bin"]\n[[inputs]]\nurl = "big.bin"\npath = "big.bin"\n')
    assert client.submit(job).jobs == 1
    sha256 = hashlib.sha256(content).hexdigest()
    assert node.node.stager.has_blob(sha256)
    assert node.book.submitted[0].spec.inputs[0].source == f"blob:{sha256}"


def test_a_local_file_that_is_missing_is_named_and_nothing_submitted(
    client: Client, node: InThread, tmp_path: Path
) -> None:
    job = tmp_path / "job.toml"
    job.write_text('[group]\ncommand = ["cat", "x"]\n[[inputs]]\nurl = "no/such"\npath = "x"\n')
    with pytest.raises(errors.UsageError, match="no/such"):
        client.submit(job)
    assert not node.book.submitted


def test_a_fifo_in_a_files_place_is_refused_not_waited_for(client: Client, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    job = tmp_path / "job.toml"
    job.write_text('[group]\ncommand = ["cat", "x"]\n[[inputs]]\nurl = "pipe"\npath = "x"\n')
    with pytest.raises(errors.UsageError, match="pipe"):
        client.submit(job)


def test_an_output_folder_that_cannot_be_written_is_refused(client: Client, node: InThread) -> None:
    for folder, why in (
        (f"{node.node.data.root}/keys", "data directory"),
        ("/proc/1/x", r"may not write|no folder"),
        ("/etc/passwd/x", "no folder"),
    ):
        with pytest.raises(errors.UsageError, match=why):
            client.submit({"group": {"command": ["/bin/true"]}, "outputs": {"collect": ["o"], "to": folder}})
    assert not node.book.submitted


def test_a_command_that_is_not_there_is_refused_unless_told_not_to_look(client: Client) -> None:
    with pytest.raises(errors.UsageError, match="no-such-command-9"):
        client.submit({"group": {"command": ["no-such-command-9"]}})
    assert client.submit({"group": {"command": ["no-such-command-9"]}}, options={"check_command": False}).jobs == 1


def test_an_engine_with_a_full_queue_says_when_to_come_back(client: Client, node: InThread) -> None:
    node.book.full = True
    with pytest.raises(errors.Overloaded) as caught:
        client.submit(JOB)
    assert caught.value.retry_after_s == 2.0


def test_wait_gives_the_final_status_soon_after_the_end(client: Client, node: InThread) -> None:
    group = client.submit(JOB).group
    node.later(0.1, lambda: node.book.finish(group))
    began = time.monotonic()
    assert client.wait(group).done == 1
    assert not SOAK or time.monotonic() - began < 1.0


def test_watch_shows_changes_a_few_times_a_second_and_the_last_one(client: Client, node: InThread) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 100_000)
    seen: list[int] = []

    def change(done: int) -> None:
        if len(seen) < 4:
            node.book.change("alpha-1", done=done)
            node.later(0.005, lambda: change(done + 1))
        else:
            node.book.finish("alpha-1")

    began_s = time.monotonic()
    node.later(0.0, lambda: change(1))
    for status in client.watch("alpha-1"):
        seen.append(status.done)
    # The first and the last are told at once.
    assert seen == sorted(seen) and seen[-1] == 100_000
    assert len(seen) - 2 <= (time.monotonic() - began_s) / TELL_EVERY_S


def test_wait_gives_up_when_told_to(client: Client, node: InThread) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 1)
    with pytest.raises(errors.WaitTimedOut, match=r"alpha-1 is running after 0\.2 s"):
        client.wait("alpha-1", timeout_s=0.2)
    assert client.status("alpha-1")[0].state == "running"


def test_as_completed_gives_groups_in_the_order_they_end(client: Client, node: InThread) -> None:
    groups = [client.submit(JOB).group for _ in range(20)]
    for place, group in enumerate(reversed(groups)):
        node.later(0.02 * place, lambda name=group: node.book.finish(name))  # type: ignore[misc]
    ended = [status.group for status in client.as_completed(groups, timeout_s=60)]
    assert sorted(ended) == sorted(groups) and ended[0] == groups[-1]
    with pytest.raises(errors.WaitTimedOut):
        list(client.as_completed([client.submit(JOB).group], timeout_s=0.05))


def test_results_are_rows_in_order_of_arrival(client: Client, node: InThread) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 4, final=True)
    node.book.keep("alpha-1", 0, facts("beta", [3, 1], outcomes=[1, 2], exit_codes=[0, 7], errors=[JobError(1, "why")]))
    node.book.keep("alpha-1", 1, facts("alpha", [0], outputs=[OutputFile(0, "o", 5, "ab")]))
    rows = list(client.results("alpha-1", follow=True))
    assert [(r.job, r.site, r.outcome, r.exit_code) for r in rows] == [
        ("alpha-1.3", "beta", "done", 0), ("alpha-1.1", "beta", "failed", 7), ("alpha-1.0", "alpha", "done", 0),
    ]  # fmt: skip
    assert rows[1].error == "why" and rows[2].outputs[0].name == "o"
    assert [c.chunk for c in client.result_chunks("alpha-1", after=1)] == [1]


def test_a_large_chunk_of_results_travels_in_parts(client: Client, node: InThread) -> None:
    many = 30_000
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", many, final=True)
    outputs = [OutputFile(k, f"folder/of/outputs/{k}.root", k, "0" * 64) for k in range(many)]
    node.book.keep("alpha-1", 0, facts("alpha", list(range(many)), outputs=outputs))
    chunks = list(client.result_chunks("alpha-1"))
    assert len(chunks) > 4 and [i for c in chunks for i in c.indices] == list(range(many))
    assert sum(len(c.outputs) for c in chunks) == many


def test_results_follow_a_group_to_its_end(client: Client, node: InThread) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 3)

    def arrive(batch: int) -> None:
        node.book.keep("alpha-1", batch, facts("alpha", [batch]))
        node.book.change("alpha-1", done=batch + 1, final=batch == 2)

    for batch in range(3):
        node.later(0.1 + 0.1 * batch, lambda n=batch: arrive(n))  # type: ignore[misc]
    assert [row.index for row in client.results("alpha-1", follow=True)] == [0, 1, 2]


def log_text(client: Client, job: str, **options: bool) -> dict[str, bytes]:
    out: dict[str, bytes] = {}
    for chunk in client.logs(job, **options):
        out[chunk.job] = out.get(chunk.job, b"") + chunk.data + (b"!" + chunk.error.encode() if chunk.error else b"")
    return out


def test_logs_are_stretches_of_segments_newest_attempt_first(client: Client, node: InThread) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 4)
    for batch, (index, attempt, text) in enumerate([(2, 1, b"old"), (2, 2, b"new"), (0, 1, b"zero"), (1, 1, b"")]):
        segment, offset = node.node.write_log("alpha-1", f"s{batch % 2}", text)
        chunk = facts(
            "alpha",
            [index],
            attempts=[attempt],
            outcomes=[int(Outcome.FAILED if index == 2 else Outcome.DONE)],
            log_segments=[segment],
            log_offsets=[offset],
            log_lengths=[len(text)],
            log_truncated=[index == 2],
        )
        node.book.keep("alpha-1", batch, chunk)
    assert log_text(client, "alpha-1.2") == {"alpha-1.2": b"new"}
    assert [c.truncated for c in client.logs("alpha-1.2")] == [False, True]
    logs = log_text(client, "alpha-1")
    assert list(logs)[:3] == ["alpha-1.0", "alpha-1.1", "alpha-1.2"]
    assert b"1 of 4 jobs has not ended" in logs["alpha-1"]
    assert set(log_text(client, "alpha-1", failed=True)) == {"alpha-1.2", "alpha-1"}
    assert b"no log yet: is not placed yet" in log_text(client, "alpha-1.3")["alpha-1.3"]
    with pytest.raises(errors.UsageError, match="jobs 0 to 3"):
        log_text(client, "alpha-1.4")


def test_of_failed_jobs_there_are_no_logs_of_cancelled_ones(client: Client, node: InThread) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 3)
    assert log_text(client, "alpha-1", failed=True)["alpha-1"].startswith(b"!no job failed so far; 3 of 3 jobs have")
    for batch, outcome in enumerate((Outcome.CANCELLED, Outcome.FAILED)):
        segment, offset = node.node.write_log("alpha-1", f"s{batch}", b"words")
        where = {"log_segments": [segment], "log_offsets": [offset], "log_lengths": [5]}
        node.book.keep("alpha-1", batch, facts("alpha", [batch], outcomes=[int(outcome)], **where))
    assert log_text(client, "alpha-1", failed=True) == {
        "alpha-1.1": b"words",
        "alpha-1": b"!1 of 3 jobs has not ended; what one writes: diana logs alpha-1.N",
    }


def test_gangs_that_leave_indices_without_a_job_hide_no_result_and_no_log(client: Client, node: InThread) -> None:
    """Two flexible gangs of eight indices each, the first of which had two components."""
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 4, indices=16)
    for batch, index in enumerate((0, 1, 8, 9)):
        segment, offset = node.node.write_log("alpha-1", "s0", b"%d" % index)
        where = {"log_segments": [segment], "log_offsets": [offset], "log_lengths": [len(str(index))]}
        node.book.keep("alpha-1", batch, facts("alpha", [index], **where))
    node.book.keep("alpha-1", 4, facts("alpha", [16]))
    node.book.finish("alpha-1")
    every = {f"alpha-1.{index}": b"%d" % index for index in (0, 1, 8, 9)}
    assert [row.job for row in client.results("alpha-1")] == list(every)
    assert log_text(client, "alpha-1") == every
    assert log_text(client, "alpha-1", follow=True) == {**every, "alpha-1": b""}
    assert log_text(client, "alpha-1.9") == {"alpha-1.9": b"9"}


def test_a_log_position_that_leads_elsewhere_is_not_followed(client: Client, node: InThread) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 5)
    node.node.write_log("alpha-2", "s", b"of another group")
    (node.node.data.logs_root / "alpha-1").mkdir()
    (node.node.data.logs_root / "alpha-1" / "link").symlink_to("/etc/passwd")
    places = ["../journal.db", "alpha-2/s", "/etc/passwd", "alpha-1/link", "alpha-1/.."]
    node.book.keep("alpha-1", 0, facts("alpha", list(range(5)), log_segments=places, log_lengths=[10] * 5))
    for chunk in client.logs("alpha-1"):
        assert not chunk.data and "cannot be had" in chunk.error


def test_the_log_of_a_site_nobody_can_reach_or_one_that_is_gone_is_an_error_line_not_an_end(
    client: Client, node: InThread
) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 3, final=True)
    segment, offset = node.node.write_log("alpha-1", "s", b"here")
    node.book.keep("alpha-1", 0, facts("far", [0], log_segments=["alpha-1/s"], log_lengths=[4]))
    node.book.keep("alpha-1", 1, facts("alpha", [1], log_segments=[segment], log_offsets=[offset], log_lengths=[4]))
    node.book.keep("alpha-1", 2, facts("alpha", [2], log_segments=["alpha-1/gone"], log_lengths=[4]))
    logs = log_text(client, "alpha-1")
    assert logs["alpha-1.0"].startswith(b"!its log at far cannot be had now") and logs["alpha-1.1"] == b"here"
    gone = b"!its log is no longer at alpha; its result is: diana results alpha-1 --from 2 --limit 1"
    assert logs["alpha-1.2"] == gone


def gathered(node: InThread, group: str, files: dict[str, bytes], **changes: object) -> Path:
    folder = node.node.data.gathered(group)  # type: ignore[arg-type]
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    outputs = [OutputFile(k, n, len(c), hashlib.sha256(c).hexdigest()) for k, (n, c) in enumerate(files.items())]
    node.book.groups[group] = view(group, "x@lab", len(files), **changes)
    node.book.keep(group, 0, facts("beta", list(range(len(files))), outputs=outputs))
    return folder


def test_fetch_copies_outputs_verified_and_by_pattern(client: Client, node: InThread, tmp_path: Path) -> None:
    files = {"a/one.txt": b"1" * 2_500_000, "a/two.dat": b"", "three.txt": b"3"}
    folder = gathered(node, "alpha-1", files, final=True)
    (folder / "merged.json").write_text("{}")
    paths = client.fetch("alpha-1", tmp_path / "out")
    assert {str(p.relative_to(tmp_path / "out")): p.read_bytes() for p in paths} == {**files, "merged.json": b"{}"}
    assert [p.name for p in client.fetch("alpha-1", tmp_path / "some", "*.txt")] == ["one.txt", "three.txt"]
    with pytest.raises(errors.UsageError, match="no outputs that match"):
        client.fetch("alpha-1", tmp_path / "none", "*.png")
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UsageError, match=r"file/one.*choose another folder"):
        client.fetch("alpha-1", tmp_path / "file" / "one")


def test_a_gathered_file_that_changed_is_not_handed_out_and_nothing_stays_half_written(
    client: Client, node: InThread, tmp_path: Path
) -> None:
    folder = gathered(node, "alpha-1", {"one.txt": b"right"}, final=True)
    (folder / "one.txt").write_bytes(b"wrong")
    with pytest.raises(errors.DianaError, match="was changed"):
        client.fetch("alpha-1", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_in_a_folder_the_user_named_only_the_groups_outputs_are_touched(
    client: Client, node: InThread, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "secret").write_text("of somebody")
    (mine / "one.txt").write_bytes(b"1")
    gathered(node, "alpha-1", {"one.txt": b"1"}, final=True, outputs_to=str(mine))
    assert [p.name for p in client.fetch("alpha-1", tmp_path / "out")] == ["one.txt"]


def test_output_names_and_links_that_leave_the_folder_are_refused(
    client: Client, node: InThread, tmp_path: Path
) -> None:
    for number, name in enumerate(("../../keys/site.key", "/etc/passwd", "link", "sub/x")):
        group = f"alpha-{number + 1}"
        folder = gathered(node, group, {}, final=True)
        folder.mkdir(parents=True)
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "sub").symlink_to("/etc")
        node.book.keep(group, 1, facts("beta", [0], outputs=[OutputFile(0, name, 1, "")]))
        with pytest.raises(errors.DianaError):
            client.fetch(group, tmp_path / "out")
    assert not any(path.is_file() for path in tmp_path.glob("out/**/*"))


def test_a_link_in_the_clients_folder_does_not_lead_the_writer_out(
    client: Client, node: InThread, tmp_path: Path
) -> None:
    gathered(node, "alpha-1", {"sub/one.txt": b"1"}, final=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.UsageError, match="link leads out"):
        client.fetch("alpha-1", tmp_path / "out")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_cancel_takes_a_group_a_job_or_a_set_of_jobs(client: Client, node: InThread) -> None:
    node.book.groups["alpha-1"] = view("alpha-1", "x@lab", 20)
    assert client.cancel("alpha-1") == 20
    assert client.cancel("alpha-1.3") == 1
    assert client.cancel("alpha-1.[3-9,12]") == 8
    assert [str(c.indices) for c in node.book.cancelled] == ["None", "3", "3-9,12"]
    for wrong in ("alpha", "alpha-1.", "alpha-1.x", "alpha-1.[9-3]", "alpha-1.[", "../x-1", "alpha-1.-3", ""):
        with pytest.raises(errors.UsageError):
            client.cancel(wrong)


@pytest.mark.parametrize(("sites", "named"), [(10_000, 0), (20_000, 0), (100, 100)])
def test_a_vo_is_shown_whole_however_many_sites_it_has_and_however_many_datasets_they_name(
    client: Client, node: InThread, sites: int, named: int
) -> None:
    crowd(node.book, sites=sites, named=named)
    found = client.sites()
    assert [row.site for row in found] == ["alpha", *sorted(row.site for row in node.book.sites[1:])]
    assert sum(len(row.datasets) for row in found) == 256 * named
    assert list(client.datasets()) == node.book.elsewhere
    peers = client.peers()
    assert [row.site for row in peers.peers] == sorted(row.site for row in node.book.peers) and not peers.more
    name = node.book.elsewhere[-1].name
    shown = [row for chunk in client.show_dataset(name) for row in chunk.datasets]
    assert shown == [row for row in node.book.elsewhere if row.name == name]


def test_whoever_reads_the_first_part_alone_is_told_of_the_sites_that_were_met(client: Client, node: InThread) -> None:
    crowd(node.book, sites=20_000, named=0)
    for method, field in (("Sites", "sites"), ("Peers", "peers")):
        first = client._call(method, wire.Empty())
        rows = [row.site for row in getattr(first, field)]
        assert first.more and 3_000 < len(rows) < 20_000
        assert {"zz-met-0", "zz-met-1", "zz-met-2"} <= set(rows)
    parts = list(client._wire.stream("AllSites", wire.Empty()))
    assert 1 < len(parts) <= 4, "few large parts"


def test_a_dataset_is_registered_from_the_nodes_own_paths(client: Client, node: InThread, tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "0.csv").write_text("1,2")
    added = client.add_dataset("events", [tmp_path / "events"])
    assert (added.name, added.files, added.size_bytes) == ("events", 1, 3)
    assert node.book.datasets[0].dataset.name == "events"
    with pytest.raises(errors.UsageError):
        client.add_dataset("more", [tmp_path / "no"])


def test_stop_asks_the_node_to_stop_and_is_answered(client: Client, node: InThread) -> None:
    client.stop()
    end = time.monotonic() + 60
    while not node.node.stopped.is_set():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_user_sees_only_groups_of_their_own(tmp_path: Path) -> None:
    callers = [ALICE]
    with InThread(tmp_path / "alpha", caller=lambda uid: callers[0]) as node, Client(tmp_path / "alpha") as client:
        group = client.submit(JOB).group
        callers[0] = BOB
        with Client(tmp_path / "alpha") as other:
            assert other.status() == ()
            assert other.info().principal == "bob@lab"
            attempts: list[Callable[[], object]] = [
                lambda: other.status([group]),
                lambda: other.cancel(group),
                lambda: other.cancel(f"{group}.0"),
                lambda: other.explain(group),
                lambda: other.wait(group),
                lambda: list(other.results(group)),
                lambda: list(other.logs(group)),
                lambda: list(other.logs(f"{group}.0")),
                lambda: other.fetch(group, tmp_path / "o"),
                lambda: list(other.as_completed([group])),
            ]
            for attempt in attempts:
                with pytest.raises(errors.Denied):
                    attempt()
        assert node.book.groups[group].owner == "alice@lab"


def test_threads_may_share_a_client(client: Client, node: InThread) -> None:
    groups: list[str] = []
    threads = [threading.Thread(target=lambda: groups.append(client.submit(JOB).group)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(groups)) == 20


async def test_the_asyncio_client_does_the_same(tmp_path: Path) -> None:
    async with Nodelike(tmp_path / "alpha") as node, AsyncClient(tmp_path / "alpha") as client:
        (tmp_path / "in.bin").write_bytes(b"x" * 2_000_000)
        job = tmp_path / "job.toml"
        job.write_text('[group]\ncommand = ["cat", "x"]\n[[inputs]]\nurl = "in.bin"\npath = "x"\n')
        group = (await client.submit(job)).group
        node.book.keep(group, 0, facts("alpha", [0], outputs=[OutputFile(0, "o", 1, hashlib.sha256(b"1").hexdigest())]))
        node.data.gathered(group).mkdir(parents=True)  # type: ignore[arg-type]
        (node.data.gathered(group) / "o").write_bytes(b"1")  # type: ignore[arg-type]
        node.book.finish(group)
        assert (await client.wait(group, timeout_s=60)).final
        assert [row.index async for row in client.results(group)] == [0]
        assert [status.group async for status in client.as_completed([group])] == [group]
        assert [p.read_bytes() for p in await client.fetch(group, tmp_path / "out")] == [b"1"]
        assert [chunk.job async for chunk in client.logs(f"{group}.0")] == [f"{group}.0"]
        with pytest.raises(errors.UsageError):
            await client.cancel("nonsense")
        assert (await client.status())[0].group == group
    with pytest.raises(errors.Unreachable, match="no site in"):
        await AsyncClient(tmp_path / "alpha").info()
