"""The unit that `diana service install` writes is one that systemd reads, and what cannot be is told in one line."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diana.cli.main import main
from diana.cli.sites import systemd
from diana.cli.sites.systemd import NodeUnit, data_of, quoted
from diana.errors import UsageError

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = tmp_path / "alpha"
    assert main(["init", "alpha", "--data", str(made), "--root-jobs"]) == 0
    return made


@pytest.fixture(autouse=True)
def no_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's own is read or written."""
    monkeypatch.setattr(systemd, "SYSTEM_FOLDER", tmp_path / "system")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def printed(capsys: pytest.CaptureFixture[str], data: Path, *words: str) -> str:
    capsys.readouterr()
    assert main(["service", "install", "--print", "--data", str(data), *words]) == 0
    return capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], data: Path, *words: str) -> str:
    """The one line of a mistake."""
    capsys.readouterr()
    assert main(["service", *words, "--data", str(data)]) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("scope", ["--user", "--system"])
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="wants systemd")
def test_the_unit_is_one_that_systemd_reads(
    scope: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, data, scope)
    assert "KillMode=process" in text and "Type=notify" in text and (f"User={ME}" in text) == (scope == "--system")
    unit = tmp_path / "diana-alpha.service"
    unit.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    # A systemd before 254 passes it over, as docs/upgrade.md says.
    mine = [line for line in done.stderr.splitlines() if unit.name in line and "'DelegateSubgroup'" not in line]
    assert not mine, mine


def test_it_starts_the_command_of_this_installation_on_this_directory(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = [line for line in printed(capsys, data).splitlines() if line.startswith("ExecStart=")]
    program, *words = shlex.split(line.removeprefix("ExecStart="))
    assert Path(program).parent == Path(sys.executable).parent and words[-3:] == ["node", "--data", str(data)]


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("/srv/alpha", "/srv/alpha"),
        ("/srv/my site", '"/srv/my site"'),
        ("/srv/100%", "/srv/100%%"),
        ("/srv/$HOME", "/srv/$$HOME"),
        ('/srv/a"b\\c', '"/srv/a\\"b\\\\c"'),
    ],
)
def test_a_path_stands_in_the_unit_as_systemd_reads_it(word: str, line: str, tmp_path: Path) -> None:
    assert quoted(word) == line
    unit = tmp_path / "x.service"
    unit.write_text(NodeUnit("alpha", Path(word), ("/bin/diana", "node"), "").text(), encoding="utf-8")
    assert data_of(unit) == word
    assert f"ExecStart=/bin/diana node --data {line}\n" in unit.read_text(encoding="utf-8")


def test_without_systemd_it_names_the_other_way(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    said = told(capsys, data, "install", "--system")
    assert said.startswith("diana: service install: systemd does not run here (a container?); ")
    assert f"diana node --detach --data {data}; --print shows the unit" in said
    assert "no systemd of yours runs here; log in as " in told(capsys, data, "install", "--user")


def as_systemctl(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    folder.mkdir()
    (folder / "systemctl").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_what_systemctl_says_in_another_charset_is_told_as_far_as_it_goes(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "case \"$*\" in *is-system-running) echo running ;; *) printf 'not \\344 word' >&2; exit 1 ;; esac"
    as_systemctl(tmp_path / "bin", monkeypatch, says)
    assert "not \ufffd word; nothing was left installed" in told(capsys, data, "install", "--user")


def test_a_folder_in_the_place_of_the_unit_is_one_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    as_systemctl(tmp_path / "bin", monkeypatch, "echo running")
    file = tmp_path / "config" / "systemd" / "user" / "diana-alpha.service"
    file.mkdir(parents=True)
    for more in ([], ["--replace"]):
        said = told(capsys, data, "install", "--user", *more)
        assert said == f"diana: {file}: Is a directory; nothing was installed\n"


def test_a_folder_of_units_is_where_systemd_looks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = pwd.getpwuid(os.getuid()).pw_dir
    for config, home, want in (
        ("/c", "/h", "/c/systemd/user"),
        ("c", "/h", "/h/.config/systemd/user"),
        ("", "", f"{mine}/.config/systemd/user"),
        ("", "h", f"{mine}/.config/systemd/user"),
    ):
        monkeypatch.setenv("XDG_CONFIG_HOME", config)
        monkeypatch.setenv("HOME", home)
        assert str(systemd.Systemd(user=True).folder) == want


def test_commands_that_are_shown_have_the_directory_as_a_shell_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "a b"
    assert main(["init", "alpha", "--data", str(data), "--root-jobs"]) == 0
    monkeypatch.setenv("PATH", "/nowhere")
    assert f"diana node --detach --data '{data}'" in told(capsys, data, "install", "--user")


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\\"])
def test_a_directory_whose_name_ends_a_line_of_a_unit_or_has_it_go_on_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="a unit holds no path with a line's end, or a backslash at its end"):
        quoted(f"/srv/{name}")


def test_what_cannot_be_is_one_line(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = data.parent / "nowhere"
    assert f"{nowhere}: no site there; make one with: diana init NAME" in told(capsys, nowhere, "install")
    assert "goes with --system" in told(capsys, data, "install", "--user", "--account", ME, "--print")
    assert "there is no account nobody-here" in told(
        capsys, data, "install", "--system", "--account", "nobody-here", "--print"
    )
    assert "--replace goes with install" in told(capsys, data, "status", "--replace")
    assert "make a unit's name" in told(capsys, data, "install", "--name", "../x")
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert "only root may; say it with sudo, or --user" in told(capsys, data, "install", "--system", "--account", ME)


RECORDER = """#!/bin/sh
echo "$*" >> {folder}/calls
case "$*" in
    *is-system-running) echo running ;;
    *is-active*) test -e {folder}/started && cat {folder}/started ;;
    *is-enabled*) test -e {folder}/started && echo enabled ;;
    *" start "* | *" restart "*) echo active > {folder}/started ;;
    *" disable "*) rm {folder}/started ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a `systemctl` that keeps in `started` what it says of the unit, and its calls in `calls`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "systemctl").write_text(RECORDER.format(folder=folder))
    (folder / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    return folder


def test_a_node_that_is_started_again_and_again_does_not_run_and_install_starts_it(
    data: Path, programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["service", "install", "--data", str(data)]) == 0
    assert main(["service", "status", "--data", str(data)]) == 0
    (programs / "started").write_text("activating\n")
    capsys.readouterr()
    assert main(["service", "status", "--data", str(data)]) == 1
    assert f"diana-alpha.service of {data}: is being started, perhaps not for" in capsys.readouterr().out
    assert main(["service", "status", "--json", "--data", str(data)]) == 1
    assert '"active":false' in capsys.readouterr().out
    assert main(["service", "install", "--data", str(data)]) == 0
    assert "restart diana-alpha.service" in (programs / "calls").read_text()
    assert "diana-alpha.service started again: it runs" in capsys.readouterr().out


def test_a_service_whose_directory_is_gone_can_be_uninstalled(
    data: Path, programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["service", "install", "--data", str(data)]) == 0
    shutil.rmtree(data)
    assert main(["service", "uninstall", "--data", str(data)]) == 0
    assert "diana-alpha.service stopped and removed" in capsys.readouterr().out
    assert not list((tmp_path / "system").iterdir()) and not (programs / "started").exists()
    assert f"{data}: no site there; " in told(capsys, data, "uninstall")


def test_a_service_of_the_system_is_given_to_the_owner_of_its_directory_once(
    data: Path, programs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install = ["service", "install", "--data", str(data)]
    assert main(install) == 0
    file = tmp_path / "system" / "diana-alpha.service"
    assert f"\nUser={ME}\n" in file.read_text() and data_of(file) == str(data)
    calls = (programs / "calls").read_text().splitlines()
    orders = [call.removeprefix("--no-pager ") for call in calls if " is-" not in call]
    assert orders == ["daemon-reload", "enable diana-alpha.service", "start diana-alpha.service"]
    said = capsys.readouterr().out
    assert "diana-alpha.service installed: it runs, and starts with the machine" in said and "linger" not in said
    assert main(install) == 0 and "is installed already and runs" in capsys.readouterr().out
    assert f"{file} serves {data} already; diana service uninstall --system" in told(capsys, data, "install", "--user")
