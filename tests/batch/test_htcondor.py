"""The six questions of a batch system, asked of a fake HTCondor's commands."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.batch.systems import htcondor
from diana.adapters.batch.systems.htcondor import HTCondor
from diana.adapters.batch.systems.system import Array, BatchRefused, BatchUnreachable, Seen, Stage
from diana.model.indexset import IndexSet
from tests.batch.fake_htcondor import FakeHTCondor


@pytest.fixture
def condor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHTCondor]:
    fake = FakeHTCondor(tmp_path / "condor", cpus=2)
    monkeypatch.setenv("PATH", f"{fake.bin}:{os.environ['PATH']}")
    fake.up()
    yield fake
    fake.close()


def made(condor: FakeHTCondor, **settings: object) -> HTCondor:
    return HTCondor(ClusterSettings(kind="htcondor", config=str(condor.config), **settings))  # type: ignore[arg-type]


def array(*tasks: int, script: str = "/bin/true") -> Array:
    return Array(token="a.b", script=script, tasks=IndexSet.of(tasks), processors=1)


def until(done: Callable[[], object]) -> None:
    until_s = time.monotonic() + 60.0
    while not done():
        assert time.monotonic() < until_s
        time.sleep(0.02)


def test_an_array_is_submitted_listed_cancelled_by_task_and_found_in_the_history(
    condor: FakeHTCondor, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho > $DIANA_TASK.$DIANA_CLUSTER\n[ $DIANA_TASK = 3 ] && exit 7\nexec sleep 60\n")
    script.chmod(0o755)
    system = made(condor)
    assert system.listing() == []
    job = system.submit(array(3, 5, 6, 9, script=str(script)))
    assert job == "1"
    until(lambda: len(condor.history) == 1 and len(condor.running) == 2 and len(list(tmp_path.glob("*.1"))) == 3)
    assert sorted(path.name for path in tmp_path.glob("*.1")) == ["3.1", "5.1", "6.1"]
    assert system.listing() == [
        Seen("1", "a.b", IndexSet.of([5, 6]), Stage.RUNNING),
        Seen("1", "a.b", IndexSet.of([9]), Stage.WAITING),
    ]
    has = system.capacity()
    assert (has.version, has.slots, has.others, has.widest) == ("23.9.6", 2, 0, 2)
    assert (has.memory_bytes, has.gpus, has.all_gpus, has.most_tasks, has.most_jobs) == (2**33, 2, 2, 500, 2000)
    system.cancel(job, IndexSet.of([4, 5, 6, 9]))
    until(lambda: not condor.queue)
    system.cancel(job, IndexSet.of([5]))
    assert sorted(system.past([job], time.time()), key=str) == [
        Seen("1", "", IndexSet.of([3]), Stage.OVER, "exit code 7"),
        Seen("1", "", IndexSet.of([5, 6, 9]), Stage.OVER, "via condor_rm (by user someone)"),
    ]
    assert (system.past(["77"], 0.0), system.starts_in_s()) == ([], None)


@pytest.mark.wide
def test_a_schedd_that_is_away_says_neither_that_jobs_are_there_nor_that_they_are_gone(condor: FakeHTCondor) -> None:
    condor.down = True
    system = made(condor)
    time.sleep(0.1)
    with pytest.raises(BatchUnreachable, match="Failed to fetch ads"):
        system.listing()
    with pytest.raises(BatchUnreachable, match="Failed to connect to local queue manager"):
        system.submit(array(1))
    with pytest.raises(BatchUnreachable):
        system.cancel("1", IndexSet.of([1]))


@pytest.mark.wide
def test_what_it_refuses_is_told_in_its_own_words(condor: FakeHTCondor, tmp_path: Path) -> None:
    with pytest.raises(BatchRefused, match="unknown host none") as refusal:
        made(condor, partition="none").submit(array(1))
    assert refusal.value.every
    with pytest.raises(BatchRefused, match="Parse error in expression") as refusal:
        made(condor, options=("requirements = (((",)).submit(array(1))
    assert refusal.value.every
    with pytest.raises(BatchRefused, match="MAX_JOBS_PER_SUBMISSION") as refusal:
        made(condor).submit(array(*range(501)))
    assert not refusal.value.every


@pytest.mark.wide
def test_where_there_is_no_room_for_more_jobs_they_wait(condor: FakeHTCondor) -> None:
    condor.cpus = 0
    for _ in range(4):
        made(condor).submit(array(*range(500)))
    with pytest.raises(BatchUnreachable, match="MAX_JOBS_PER_OWNER"):
        made(condor).submit(array(1))


@pytest.mark.wide
def test_a_pool_that_is_too_old_or_shares_no_file_system_is_refused(tmp_path: Path, condor: FakeHTCondor) -> None:
    condor.domain = "other"
    time.sleep(0.1)
    with pytest.raises(
        BatchRefused, match="no machine of the pool is of this one's FILESYSTEM_DOMAIN, lab; set it alike"
    ):
        made(condor).capacity()
    assert made(condor, options=("should_transfer_files = IF_NEEDED",)).capacity().slots == 2
    condor.version = "8.8.5"
    time.sleep(0.1)
    with pytest.raises(BatchRefused, match=r"HTCondor 8\.8\.5 is too old; diana speaks to 10\.0 and later"):
        made(condor).capacity()


def told(condor: FakeHTCondor, **state: object) -> None:
    """Sets the faults that its commands meet from now on."""
    for name, value in state.items():
        setattr(condor, name, value)
    until(lambda: all(json.loads((condor.root / "state").read_text())[name] == value for name, value in state.items()))


def test_what_it_is_is_asked_again_until_all_of_it_was_told(condor: FakeHTCondor) -> None:
    system = made(condor)
    told(condor, version="8.8.1")
    for _ in range(2):
        with pytest.raises(BatchRefused, match=r"8\.8\.1 is too old"):
            system.capacity()
    told(condor, version="23.9.6", unset=True)
    with pytest.raises(BatchUnreachable):
        system.capacity()
    told(condor, unset=False, domain="other")
    with pytest.raises(BatchRefused, match="FILESYSTEM_DOMAIN, lab"):
        system.capacity()
    told(condor, domain="lab")
    assert system.capacity().most_tasks == 500


def test_what_was_submitted_unheard_is_found_by_its_token(condor: FakeHTCondor) -> None:
    system = made(condor)
    told(condor, unheard=True, cpus=0)
    with pytest.raises(BatchUnreachable, match="Failed to commit"):
        system.submit(array(1))
    assert [(seen.job, seen.token) for seen in system.listing()] == [("1", "a.b")]


@pytest.mark.wide
def test_what_an_administrator_refuses_is_no_doubt_and_a_doubt_ends(condor: FakeHTCondor) -> None:
    system = made(condor)
    told(condor, requirement="no jobs from /eos")
    with pytest.raises(BatchRefused, match="no jobs from /eos"):
        system.submit(array(1))
    told(condor, requirement="", unheard=True, cpus=0)
    for _ in range(htcondor._MOST_DOUBTS - 1):
        with pytest.raises(BatchUnreachable):
            system.submit(array(1))
    with pytest.raises(BatchRefused, match="Failed to commit"):
        system.submit(array(1))


def test_a_history_is_read_back_to_when_the_first_was_submitted(condor: FakeHTCondor) -> None:
    now_s = time.time()
    old: list[dict[str, object]] = [
        {"ClusterId": 9, "JobStatus": 4, "EnteredCurrentStatus": now_s - 86400 * day} for day in range(1, 30)
    ]
    ours = {"ClusterId": 30, "DianaToken": "a.b", "DianaTask": 0, "JobStatus": 4, "EnteredCurrentStatus": now_s}
    condor.history = [ours, *old]
    until(lambda: len(json.loads((condor.root / "state").read_text())["history"]) == 30)
    for since_s, scanned in ((now_s - 60.0, 1), (now_s - 86400 * 2.5, 3), (0.0, 30)):
        # Of a node that has just begun.
        assert [seen.job for seen in made(condor).past(["30"], since_s)] == ["30"]
        assert int((condor.root / "scanned").read_text()) == scanned


def test_others_with_a_token_are_told_of_once(condor: FakeHTCondor, caplog: pytest.LogCaptureFixture) -> None:
    with condor._lock:
        condor.queue[5, 0] = {"ClusterId": 5, "ProcId": 0, "JobStatus": 5, "NumJobStarts": 0, "DianaToken": "a.b"}
        condor.queue[5, 0] |= {"HoldReasonCode": 1, "RequestCpus": 1}
    until(lambda: json.loads((condor.root / "state").read_text())["queue"])
    system = made(condor)
    assert [system.listing() for _ in range(3)] == [[], [], []]
    (line,) = caplog.messages
    assert line.endswith("with DianaToken = 'a.b'; such jobs are none of ours and are left alone")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"config": "/no/condor_config"},
            r"config: /no/condor_config: no such file; give the path CONDOR_CONFIG would",
        ),
        (
            {"options": ("queue 5",)},
            r"options: 'queue 5' is no line of a submit description, or one diana writes itself; write",
        ),
        ({"options": ("Executable = /bin/sh",)}, "options: 'Executable = /bin/sh' is no line"),
        ({"options": ("max_idle = 3",)}, "options: 'max_idle = 3' is no line"),
        ({"options": ('MY.DianaToken = "x"',)}, "is no line"),
        ({"options": ("= 3",)}, "options: '= 3' is no line"),
        ({"options": ("x = 1\nexecutable = /bin/sh",)}, "want one line"),
        ({"options": ("x = 1\rexecutable = /bin/sh",)}, "is no line"),
        ({"options": ("x = 1\x0bexecutable = /bin/sh",)}, "is no line"),
        ({"options": ("queue in (a=b)",)}, "is no line"),
        ({"options": ("x @=end",)}, "is no line"),
        ({"options": ("x = 1 \\",)}, "is no line"),
        ({"account": "cms \\"}, "account: .* is no accounting group; write letters, digits and"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HTCondor(ClusterSettings(kind="htcondor", **settings))  # type: ignore[arg-type]
