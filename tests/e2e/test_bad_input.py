"""Bad input (SPEC section 6) against a real node: one line (what, where, the mend), the exit code, nothing
half-done."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from diana.adapters.trust import certificates
from diana.client import Client
from diana.node.config.setup import init_site, init_user

pytestmark = pytest.mark.e2e
DIANA = [sys.executable, "-m", "diana.cli"]


def run(data: Path, verb: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [*DIANA, verb, "--data", str(data), *words]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=60, check=False)


def refused(ended: subprocess.CompletedProcess[str], code: int, *says: str) -> None:
    assert ended.returncode == code, ended
    assert ended.stderr.startswith("diana: ") and ended.stderr.count("\n") == 1, ended.stderr
    assert "Traceback" not in ended.stderr and "internal error" not in ended.stderr
    for words in says:
        assert words in ended.stderr, ended.stderr


def address_of(data: Path) -> str:
    with Client(data) as client:
        return client.info().address


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ('[group]\ncomand = "true"\n', ["comand", "command"]),
        ('[group]\ncommand = "true"\nmax_parallel = "many"\n', ["max_parallel"]),
        ('[group]\ncommand = "true {x}"\n[sweep]\nx = []\n', ["sweep"]),
        ('[group]\ncommand = "no-such-program-here"\n', ["no-such-program-here"]),
        ('[group]\ncommand = "true"\n[[inputs]]\nurl = "dataset:nowhere"\n', ["nowhere"]),
        ('[group]\ncommand = "true {y}"\n', ["y"]),
        ("[group\n", ["line 1"]),
        ('[group]\ncommand = "true"\n[[inputs]]\nurl = "missing.dat"\n', ["missing.dat"]),
    ],
    ids=["unknown-key", "wrong-type", "empty-sweep", "no-command", "no-dataset", "no-value", "no-toml", "no-file"],
)
def test_a_wrong_job_file_is_one_line_and_exit_code_2(site: Path, job: str, says: list[str]) -> None:
    refused(run(site, "submit", "-", stdin=job), 2, *says)
    assert run(site, "status").stdout == "no groups\n", "nothing half-done"


@pytest.mark.parametrize("format", ["yaml", "toml", "json"])
def test_a_job_file_nested_without_end_is_refused_and_the_node_lives_on(site: Path, format: str) -> None:
    deep = "[" * 50_000 + "]" * 50_000
    job = {"yaml": f"group: {deep}", "toml": f"group = {deep}", "json": f'{{"group": {deep}}}'}[format]
    refused(run(site, "submit", "--format", format, "-", stdin=job), 2, "nested too deeply")
    assert run(site, "status").stdout == "no groups\n"


def test_an_output_folder_that_cannot_be_written_is_refused(site: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    job = '[group]\ncommand = "touch out"\n[outputs]\ncollect = "out"\n'
    ended = run(site, "submit", "--to", str(tmp_path / "file" / "out"), "-", stdin=job)
    refused(ended, 2, str(tmp_path / "file"))


def test_what_is_not_known_is_refused(site: Path, tmp_path: Path) -> None:
    refused(run(site, "wait", "alpha-99"), 2, "alpha-99")
    refused(run(site, "explain", "alpha-99"), 2, "alpha-99")
    refused(run(site, "fetch", "alpha-99", "--to", str(tmp_path / "out")), 2, "alpha-99")
    refused(run(site, "cancel", "alpha-99"), 2, "alpha-99")
    refused(run(site, "logs", "nonsense"), 2, "nonsense")
    refused(run(site, "datasets", "add", "events", "/no/such/file"), 2, "/no/such/file")


def test_what_no_site_can_take_is_exit_code_3(site: Path) -> None:
    refused(run(site, "plan", "--cpus", "1000", "--", "true"), 3)
    refused(run(site, "submit", "--cpus", "1000", "--", "true"), 3)


def test_a_port_that_is_taken_is_named_and_the_first_node_lives_on(site: Path, tmp_path: Path) -> None:
    address = address_of(site)
    init_site(tmp_path / "beta", "beta", listen=address)
    refused(run(tmp_path / "beta", "node"), 2, address.rpartition(":")[2], "taken")
    assert run(site, "sites").returncode == 0


def test_a_second_node_on_the_same_data_directory_is_refused(site: Path) -> None:
    refused(run(site, "node"), 2, str(site))
    assert run(site, "sites").returncode == 0


def test_an_expired_site_certificate_is_refused_at_start(site: Path, tmp_path: Path) -> None:
    data = tmp_path / "gamma"
    init_site(data, "gamma", vo_from=site, listen="127.0.0.1:0")
    for name in ("site.key", "site.pem"):
        (data / "keys" / name).unlink()
    certificates.issue_site(site / "keys", "gamma", data / "keys", valid_days=1, wall_s=time.time() - 30 * 86400)
    refused(run(data, "node"), 2, "expired")


def test_an_expired_user_certificate_is_refused(site: Path, tmp_path: Path) -> None:
    credential = tmp_path / "ann"
    init_user(site, "ann", credential)
    for name in ("user.key", "user.pem"):
        (credential / name).unlink()
    certificates.issue_user(site / "keys", "ann", credential, valid_days=1, wall_s=time.time() - 30 * 86400)
    words = ["status", "--credential", str(credential), "--address", address_of(site)]
    ended = subprocess.run([*DIANA, *words], capture_output=True, text=True, timeout=60, check=False)
    refused(ended, ended.returncode, "certificate")
    assert ended.returncode in (2, 4)


def test_a_node_that_is_not_running_is_exit_code_4(site: Path, tmp_path: Path) -> None:
    init_site(tmp_path / "delta", "delta", listen="127.0.0.1:0")
    refused(run(tmp_path / "delta", "submit", "--", "true"), 4, "diana node --data")


def test_initialising_twice_changes_nothing(site: Path) -> None:
    before = (site / "site.toml").read_bytes()
    refused(run(site, "init", "other"), 2, "initialised already")
    assert (site / "site.toml").read_bytes() == before
