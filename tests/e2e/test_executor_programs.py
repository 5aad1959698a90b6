"""Programs with a `GridExecutor` as users start them: interrupted, forking, with a `__main__` of their own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from diana.client import GridExecutor
from diana.node.config.setup import init_user
from tests.e2e.grid import Grid, Site, until

pytestmark = pytest.mark.e2e

LEFT = re.compile(r"^GridExecutor: jobs still at the node: (\d+) of (\S+); end them with: diana (cancel .*)$", re.M)

LONG = """
import os, sys, time
from concurrent.futures import as_completed
from diana.client import GridExecutor

here = os.getcwd()

def long(x):
    open(f"{here}/began-{x}", "w").close()
    time.sleep(600)

with GridExecutor(sys.argv[1], python=sys.executable, options={"work": "10m"}) as executor:
    if sys.argv[2] == "map":
        list(executor.map(long, range(20)))
    futures = [executor.submit(long, x) for x in range(20)]
    if sys.argv[2] == "as_completed":
        list(as_completed(futures))
    if sys.argv[2] == "result":
        futures[0].result()
    if sys.argv[2] == "error":
        raise ValueError("the user's own")
    if sys.argv[2] == "exit":
        sys.exit(5)
"""

FORKS = """
import multiprocessing, os, subprocess, sys, time
from concurrent.futures import ProcessPoolExecutor
from diana.client import GridExecutor
from diana.errors import UsageError

def square(x):
    return x * x

def child_of(do):
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    do()
    os._exit(0)

def uses():
    for use in (lambda: executor.submit(square, 4), lambda: executor.map(square, [4]), pending.result, pending.cancel):
        try:
            use()
            os._exit(1)
        except UsageError as error:
            assert str(os.getppid()) in str(error)
    assert ready.result() == 4

def opens():
    try:
        with GridExecutor(**node) as own:
            assert own.submit(square, 5).result() == 25
    except UsageError as error:
        assert "credential" in node and "gRPC" in str(error)

node = {sys.argv[1]: sys.argv[2], "python": sys.executable}
fork = multiprocessing.get_context("fork")
with GridExecutor(**node) as executor:
    ready = executor.submit(square, 2)
    ready.result()
    pending = executor.submit(time.sleep, 1)
    print([child_of(uses), child_of(opens)])
    if not (pid := os.fork()):
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    with fork.Pool(2) as pool:
        print(pool.map(square, range(3)))
    with ProcessPoolExecutor(2, mp_context=fork) as pool:
        print(list(pool.map(square, range(3))))
    print(subprocess.run(["true"], preexec_fn=lambda: None).returncode)
    print(pending.result(), executor.submit(square, 3).result())
"""

NAMES = '''
import dataclasses, enum, functools, multiprocessing, os, typing
import sys as system
from concurrent.futures import ProcessPoolExecutor
from diana.client import GridExecutor

P = typing.ParamSpec("P")
UserId = typing.NewType("UserId", int)

@functools.lru_cache(maxsize=None)
def number(n):
    return n if n < 2 else number(n - 1) + number(n - 2)

@functools.cache
def entry(n):
    return "mine", n

@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    def moved(self, by):
        return Point(self.x + by)
    @functools.lru_cache
    def far(self):
        return self.x ** 2
    @classmethod
    def made(cls, x):
        return cls(x)

def sys(n):
    return "sys", n

def __own(n):
    return "own", n

class Lazy:
    def __init__(self, x):
        self.x = x
    @functools.cached_property
    def twice(self):
        """Twice."""
        return 2 * self.x

def fork(x):
    if child := os.fork():
        return x + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    system.exit(5)

def silent(x):
    system.stdout = system.stderr = None
    return x

def inner(x):
    with GridExecutor(python=system.executable) as executor:
        return executor.submit(number, x).result()

def lazy(x):
    one = Lazy(x)
    return one.twice, vars(one), Lazy.twice.__doc__

class Colour(enum.Enum):
    RED = 1

class Missing:
    def __reduce__(self):
        return "MISSING"

MISSING = Missing()

class Wrong(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)

def wrong():
    raise Wrong(1, 2)

def add(a, b):
    return a + b

class Times:
    def __init__(self, k):
        self.k = k
    def __call__(self, x):
        return self.k * x

def loud(f: typing.Callable[P, int]) -> typing.Callable[P, tuple]:
    @functools.wraps(f)
    def inner(*args: P.args, **kwargs: P.kwargs) -> tuple:
        return "loud", f(*args, **kwargs)
    return inner

@loud
def quiet(x: UserId):
    return x

def nested():
    def inner(x):
        return Point(x)
    return inner

FACTOR = 1

def scaled(x):
    return FACTOR * x

def same(x):
    return x

def is_missing(x):
    return x is MISSING

def foreign_names():
    import __main__
    return [name for name in vars(__main__) if not name.startswith("__") and name not in ("foreign_names", "MISSING")]

def in_pool(how, kind):
    context = multiprocessing.get_context(how)
    if kind == "pool":
        with context.Pool(2) as pool:
            names = pool.map(sys, [1]), pool.map(__own, [1])
            return pool.map(Point.made, [1]), pool.map(number, [9]), pool.map(same, [Colour.RED, Point(3)]), names
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        made, numbers = list(pool.map(Point.made, [1])), list(pool.map(number, [9]))
        names = list(pool.map(sys, [1])), list(pool.map(__own, [1]))
        return made, numbers, list(pool.map(same, [Colour.RED, Point(3)])), names

CALLS = [
    (number, 30, 832040), (entry, 1, ("mine", 1)), (functools.partial(add, 3), 4, 7), (Point(1).moved, 2, Point(3)),
    (Point(3).far, None, 9), (Point.made, 2, Point(2)), (Point, 1, Point(1)), (Colour, 1, Colour.RED),
    (quiet, 3, ("loud", 3)),
    (Times(3), 2, 6), (nested(), 4, Point(4)), (lambda x: x + 1, 1, 2), (is_missing, MISSING, True),
    (same, MISSING, MISSING),
    (same, Colour.RED, Colour.RED), (same, number, number), (same, Point, Point), (same, UserId, UserId),
    (scaled, 2, 10), (lazy, 2, (4, {"x": 2, "twice": 4}, "Twice.")),
    (fork, 2, 7), (silent, 2, 2), (inner, 20, 6765),
    (foreign_names, None, []),
]

if __name__ == "__main__":
    FACTOR = 5
    with GridExecutor(system.argv[1], python=system.executable, warm=system.argv[2] == "warm") as executor:
        futures = [executor.submit(call, *([] if given is None else [given])) for call, given, _ in CALLS]
        kinds = [(how, kind) for how in ("fork", "forkserver", "spawn") for kind in ("pool", "executor")]
        pools = [executor.submit(in_pool, *kind) for kind in kinds]
        failed = executor.submit(wrong)
        for future, (call, _, want) in zip(futures, CALLS, strict=True):
            got = future.result()
            assert got == want and type(got) is type(want), (call, got, want)
        for future in pools:
            names = [("sys", 1)], [("own", 1)]
            assert future.result() == ([Point(1)], [34], [Colour.RED, Point(3)], names), future.result()
        assert isinstance(failed.exception(), Wrong), failed.exception()
        print("all as they are")
'''


def begun(program: str, site: Site, folder: Path, *words: str) -> subprocess.Popen[str]:
    """The program in a process group of its own, as a terminal starts it: with interrupts, which whatever runs the
    tests in the background ignores."""
    path = folder / "program.py"
    path.write_text(program)
    return subprocess.Popen(
        [sys.executable, str(path), *words],
        env=site.environment(),
        cwd=folder,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(program: subprocess.Popen[str], within_s: float = 120) -> tuple[int, str, str]:
    try:
        out, err = program.communicate(timeout=within_s)
    finally:
        program.kill()
    return program.returncode, out, err


def two_began(folder: Path) -> bool:
    return len(list(folder.glob("began-*"))) == 2


@pytest.mark.parametrize("way", ["map", "as_completed", "result", "end"])
def test_one_interrupt_cancels_what_has_not_started_and_tells_how_what_runs_is_ended(
    grid: Grid, tmp_path: Path, way: str
) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    program = begun(LONG, alpha, tmp_path, str(alpha.data), way)
    until(lambda: two_began(tmp_path), "two run")
    os.killpg(program.pid, signal.SIGINT)
    code, _, err = ended(program)
    assert code == -signal.SIGINT and err.count("Traceback") == 1 and err.endswith("\nKeyboardInterrupt\n"), err
    ((jobs, group, words),) = LEFT.findall(err) or pytest.fail(err)
    assert jobs == "2"
    with alpha.client() as client:
        status = client.status([group])[0]
        assert (status.running, status.cancelled) == (2, 18)
        assert grid.run(alpha, *shlex.split(words)).returncode == 0
        assert client.wait(group, timeout_s=60).cancelled == 20


def test_an_exception_at_once_sends_nothing_and_keeps_its_way_out(grid: Grid, tmp_path: Path) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    code, _, err = ended(begun(LONG, alpha, tmp_path, str(alpha.data), "exit"))
    assert (code, err) == (5, "")
    code, _, err = ended(begun(LONG, alpha, tmp_path, str(alpha.data), "error"))
    assert code == 1 and err.endswith("\nValueError: the user's own\n") and err.count("Traceback") == 1
    with alpha.client() as client:
        assert not client.status()


@pytest.mark.parametrize(("way", "interrupts"), [("map", 1), ("result", 2)])
def test_a_program_whose_node_says_nothing_ends_after_one_interrupt_and_sooner_after_a_second(
    grid: Grid, tmp_path: Path, way: str, interrupts: int
) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    program = begun(LONG, alpha, tmp_path, str(alpha.data), way)
    until(lambda: two_began(tmp_path), "two run")
    assert alpha.process is not None
    alpha.process.send_signal(signal.SIGSTOP)
    leaves = Path(f"/proc/{program.pid}/task")
    tasks = len(list(leaves.iterdir()))
    os.killpg(program.pid, signal.SIGINT)
    for _ in range(interrupts - 1):
        until(lambda: len(list(leaves.iterdir())) > tasks, "it takes calls back")
        os.killpg(program.pid, signal.SIGINT)
    code, _, err = ended(program, 60)
    alpha.process.send_signal(signal.SIGCONT)
    assert code == -signal.SIGINT and [jobs for jobs, _, _ in LEFT.findall(err)] == ["20"], err
    assert "Exception ignored" not in err and "never retrieved" not in err


def test_after_an_interrupt_in_a_notebook_calls_that_run_still_come_home(
    grid: Grid, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()

    def waits(path: str, x: int) -> int:
        import os
        import time

        open(f"{path}/began-{x}", "w").close()
        while not os.path.exists(f"{path}/go"):
            time.sleep(0.02)
        return x

    with (
        pytest.raises(KeyboardInterrupt),
        GridExecutor(alpha.data, python=sys.executable, options={"work": "10m"}) as at,
    ):
        futures = [at.submit(waits, str(tmp_path), x) for x in range(6)]
        until(lambda: two_began(tmp_path), "two run")
        raise KeyboardInterrupt
    assert LEFT.findall(capsys.readouterr().err)[0][0] == "2"
    (tmp_path / "go").touch()
    assert [future.result(60) for future in futures if not future.cancelled()] == [0, 1]
    with pytest.raises(RuntimeError, match="after shutdown"):
        at.submit(pow, 2, 2)
    with pytest.raises(ValueError, match="late"), GridExecutor(alpha.data, python=sys.executable) as at:
        never = at.submit(pow, 2, 2)
        raise ValueError("too late")
    assert never.cancelled() and not never.job, "it still waited for company"


@pytest.mark.parametrize("way", ["data", "credential"])
def test_a_program_forks_while_it_has_an_executor_which_its_children_cannot_use(
    grid: Grid, tmp_path: Path, way: str
) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    init_user(alpha.data, "ann", tmp_path / "ann")
    where = {"data": alpha.data, "credential": tmp_path / "ann"}[way]
    code, out, err = ended(begun(FORKS, alpha, tmp_path, way, str(where)))
    assert (code, err) == (0, "")
    assert out == "[0, 0]\n3\n[0, 1, 4]\n[0, 1, 4]\n0\nNone 9\n"


@pytest.mark.parametrize("way", ["warm", "cold"])
def test_what_is_of_a_program_s_own_main_is_so_in_calls_and_their_process_pools(
    grid: Grid, tmp_path: Path, way: str
) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    assert ended(begun(NAMES, alpha, tmp_path, str(alpha.data), way)) == (0, "all as they are\n", "")


GONE = """
import sys, time
from diana.client import GridExecutor

with GridExecutor(sys.argv[1], python=sys.executable, patience_s=float(sys.argv[2])) as executor:
    futures = [executor.submit(time.sleep, 5) for _ in range(4)]
    while not futures[0].job:
        time.sleep(0.02)
    print("sent", flush=True)
    sys.stdin.read()
    if sys.argv[3] == "fails":
        raise LookupError("the user's own")
"""


@pytest.mark.parametrize("way", ["waits", "fails"])
def test_a_program_whose_node_is_stopped_ends_by_an_exception_and_says_where_its_calls_are(
    grid: Grid, tmp_path: Path, way: str
) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    program = begun(GONE, alpha, tmp_path, str(alpha.data), {"waits": "2", "fails": "60"}[way], way)
    assert program.stdout is not None and program.stdout.readline() == "sent\n"
    alpha.terminate()
    code, _, err = ended(program)
    alpha.start()
    assert code == 1 and err.count("Traceback") == 1 and "never retrieved" not in err, err
    with alpha.client() as client:
        (group,) = [status.group for status in client.status()]
    if way == "waits":
        assert re.search(rf"NodeAway: no node answers at .*; its calls go on there as group {group}\n$", err)
    else:
        assert err.endswith("LookupError: the user's own\n")
        assert [(jobs, name) for jobs, name, _ in LEFT.findall(err)] == [("4", group)]


CALM = """
import sys, time
from diana.client import GridExecutor

with GridExecutor(sys.argv[1], python=sys.executable) as executor:
    futures = [executor.submit(time.sleep, 0.5) for _ in range(6)]
    results = executor.map(time.sleep, [0.1] * 20)
    while not futures[0].job:
        time.sleep(0.02)
    print("sent", flush=True)
    list(results)
print(len([future.result() for future in futures]))
"""


def test_a_node_that_is_started_again_under_a_program_leaves_no_word_on_standard_error(
    grid: Grid, tmp_path: Path
) -> None:
    alpha = grid.add("alpha", 2)
    grid.start()
    program = begun(CALM, alpha, tmp_path, str(alpha.data))
    assert program.stdout is not None and program.stdout.readline() == "sent\n"
    for stop in (alpha.terminate, alpha.kill):
        stop()
        alpha.start()
    assert ended(program) == (0, "6\n", "")
