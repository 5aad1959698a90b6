"""Files a job names that cannot be sent: the line says what to do about each."""

from __future__ import annotations

from pathlib import Path

import pytest

from diana.client import steps
from diana.errors import UsageError


def test_each_file_that_cannot_be_sent_has_its_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(path: Path) -> str:
        with pytest.raises(UsageError) as refusal:
            steps.described(str(path), "x", "job")
        return str(refusal.value).partition("; ")[2]

    assert told(tmp_path / "none") == "mend its name, or make it"
    assert told(tmp_path) == "name the files in it"

    def closed(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied", path)

    # Root may read everything.
    monkeypatch.setattr(steps, "_nonblocking", closed)
    assert told(tmp_path / "closed") == "make it readable for this account"


def test_a_file_that_vanished_since_it_was_hashed_is_told_before_anything_of_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    known = steps.described(str(tmp_path / "a"), "a", "job")
    (tmp_path / "a").unlink()
    with pytest.raises(UsageError, match="a: No such file or directory; it was there just now, submit again"):
        steps.FileUpload(str(tmp_path / "a"), known.sha256).requests()


def test_requirements_among_the_options_are_a_list_whose_members_may_hold_commas() -> None:
    wanted = ["site.slots > 1", "site.name in ['alpha', 'beta']"]
    prepared = steps.prepare({"group": {"command": "x"}}, "", {"require": wanted, "sites": ["a", "b"]}, None, None)
    told = {one.name: one.value for one in prepared.request.options}
    assert told == {"require": "\n".join(wanted), "sites": "a,b"}
