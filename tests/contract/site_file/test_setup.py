"""`init_site` and `init_user`: a site, a second one of its VO, a user; or nothing at all."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from diana.adapters.trust import certificates
from diana.adapters.trust.certificates import Identity
from diana.adapters.trust.keyring import FileKeyring
from diana.cli.main import main
from diana.errors import UsageError
from diana.model.ids import GroupId
from diana.model.layout import DataDir
from diana.node.config.running_as import check_jobs_accounts
from diana.node.config.setup import ROOT_JOBS, init_site, init_user
from diana.node.config.site_file import load_config


def test_the_first_site_makes_the_vo_and_the_second_joins_it(tmp_path: Path) -> None:
    first = init_site(tmp_path / "a", "alpha", vo="lab", slots=3)
    second = init_site(tmp_path / "b", "beta", vo_from=tmp_path / "a", listen="0.0.0.0:7401", peers=["127.0.0.1:7400"])
    assert load_config(tmp_path / "a" / "site.toml") == first
    assert load_config(tmp_path / "b" / "site.toml") == second
    assert (first.vo, second.vo, first.settings.slots) == ("lab", "lab", 3)
    assert second.settings.slots == len(os.sched_getaffinity(0))
    said = FileKeyring(tmp_path / "a" / "keys").authorise("ann@lab", GroupId("alpha-1"), b"spec")
    assert FileKeyring(tmp_path / "b" / "keys").check(said, b"spec") == ""
    assert not (tmp_path / "b" / "keys" / "vo.key").exists()


def test_a_vo_without_a_name_is_called_after_its_site(tmp_path: Path) -> None:
    assert init_site(tmp_path / "a", "alpha").vo == "alpha-vo"
    assert init_site(tmp_path / "b", "b" * 40).vo == "b" * 37 + "-vo"


def test_a_site_before_a_cluster_has_no_slots_of_its_own_unless_they_are_given(tmp_path: Path) -> None:
    first = init_site(tmp_path / "a", "alpha", cluster="slurm")
    assert (first.clusters["slurm"].kind, first.settings.slots) == ("slurm", 0)
    assert load_config(tmp_path / "a" / "site.toml") == first
    assert init_site(tmp_path / "b", "beta", cluster="gridengine", slots=2).settings.slots == 2


def test_everything_is_for_the_owner_only(tmp_path: Path) -> None:
    init_site(tmp_path / "a", "alpha")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "a").rglob("*")}
    assert modes["keys"] == 0o700
    assert modes["site.key"] == modes["vo.key"] == modes["site.toml"] == 0o600
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_an_initialised_directory_is_left_alone(tmp_path: Path) -> None:
    init_site(tmp_path / "a", "alpha")
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match=r"a: initialised already \(site.toml is there\); name another directory"):
        init_site(tmp_path / "a", "beta")
    assert before == {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"site": "Alpha"}, "site id 'Alpha': want"),
        ({"vo": "My VO"}, "VO name 'My VO': want"),
        ({"slots": -1}, "slots = -1: want 0 to 1e\\+06"),
        ({"cluster": "abacus"}, "--cluster abacus: no batch system; known are gridengine, htcondor, pbs, slurm"),
        ({"listen": "nowhere"}, "init:listen: 'nowhere' is no address"),
        ({"peers": ["b"]}, "init:peers: 'b' is no address"),
        ({"peers": ["127.0.0.1:7400"]}, "peer 127.0.0.1:7400: this site would bind that itself; give it another"),
        ({"vo_from": Path("/nonexistent")}, "/nonexistent: holds no keys/vo.key; name the data directory of the site"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path: Path, options: dict[str, object], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        init_site(tmp_path / "x" / "y", **{"site": "alpha", **options})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_the_signers_site_is_taken(tmp_path: Path) -> None:
    init_site(tmp_path / "a", "alpha", vo="lab")
    with pytest.raises(UsageError, match="site alpha: that is the name of the site in "):
        init_site(tmp_path / "b", "alpha", vo_from=tmp_path / "a")
    assert not (tmp_path / "b").exists()


def test_another_vos_name_than_that_of_the_signer_is_refused(tmp_path: Path) -> None:
    init_site(tmp_path / "a", "alpha", vo="lab")
    with pytest.raises(UsageError, match="its VO is lab, not other; leave the VO's name out"):
        init_site(tmp_path / "b", "beta", vo="other", vo_from=tmp_path / "a")
    assert not (tmp_path / "b").exists()


def test_a_signer_with_a_broken_key_leaves_nothing_half_done(tmp_path: Path) -> None:
    init_site(tmp_path / "a", "alpha", vo="lab")
    (tmp_path / "a" / "keys" / "signer.key").write_text("rubbish")
    with pytest.raises(UsageError, match=r"signer.key: not a readable private key"):
        init_site(tmp_path / "x" / "b", "beta", vo_from=tmp_path / "a")
    assert not (tmp_path / "x").exists()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "note").write_text("mine")
    with pytest.raises(UsageError):
        init_site(tmp_path / "kept", "beta", vo_from=tmp_path / "a")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["note"]


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(UsageError, match="a: not a directory; name another"):
        init_site(tmp_path / "a", "alpha")
    with pytest.raises(UsageError, match="Not a directory; name a directory this account can write"):
        init_site(tmp_path / "a" / "b", "alpha")


def test_a_users_credential_holds_all_a_remote_client_needs(tmp_path: Path) -> None:
    init_site(tmp_path / "a", "alpha", vo="lab", listen="127.0.0.1:7411")
    init_user(tmp_path / "a", "ann", tmp_path / "ann")
    assert sorted(path.name for path in (tmp_path / "ann").iterdir()) == [
        "credential.toml",
        "user.key",
        "user.pem",
        "vo.pem",
    ]
    assert tomllib.loads((tmp_path / "ann" / "credential.toml").read_text()) == {
        "user": "ann",
        "vo": "lab",
        "site": "alpha",
        "address": "127.0.0.1:7411",
    }
    pem = (tmp_path / "ann" / "user.pem").read_bytes()
    assert certificates.identity_of(pem) == Identity("user", "ann", "lab")
    assert FileKeyring(tmp_path / "ann", "user").signer == "user:ann@lab"
    assert (tmp_path / "ann").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "ann" / "user.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("full", [True, False])
def test_a_credential_goes_nowhere_or_into_a_new_folder(tmp_path: Path, full: bool) -> None:
    init_site(tmp_path / "a", "alpha", vo="lab")
    init_site(tmp_path / "b", "beta", vo_from=tmp_path / "a")
    if full:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").write_text("")
        with pytest.raises(UsageError, match="out: not empty; name a new folder"):
            init_user(tmp_path / "a", "ann", tmp_path / "out")
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]
    else:
        with pytest.raises(UsageError, match=r"vo.key: No such file or directory; only a site that is a signer"):
            init_user(tmp_path / "b", "ann", tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_nobody_lets_jobs_run_as_root_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ROOT_JOBS)
    assert not init_site(tmp_path / "a", "alpha").root_jobs
    assert init_site(tmp_path / "b", "beta", root_jobs=True).root_jobs
    monkeypatch.setenv(ROOT_JOBS, "true")
    for uid in (0, 1000):
        monkeypatch.setattr(os, "getuid", lambda uid=uid: uid)
        assert init_site(tmp_path / f"of-{uid}", "gamma").root_jobs == (uid == 0), "the variable is for root"


def test_root_is_told_in_one_line_that_its_node_wants_accounts_for_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(ROOT_JOBS)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert main(["init", "alpha", "--data", str(tmp_path / "a")]) == 0
    assert "in site.toml map users under [run_as], or set root_jobs = true" in capsys.readouterr().out
    with pytest.raises(UsageError, match="this node runs as root and so would its jobs"):
        check_jobs_accounts(load_config(tmp_path / "a" / "site.toml"), DataDir(tmp_path / "a"))
    assert main(["init", "alpha", "--root-jobs", "--data", str(tmp_path / "b")]) == 0
    assert "root_jobs" not in capsys.readouterr().out
    check_jobs_accounts(load_config(tmp_path / "b" / "site.toml"), DataDir(tmp_path / "b"))
