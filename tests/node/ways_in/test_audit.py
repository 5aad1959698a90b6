"""PROMISES 5.14: the audit trail says who, as whom, from where and what was decided; tampering shows."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from diana.node.ways_in import audit
from diana.node.ways_in.audit import Audit, damage


class Wall:
    def __init__(self) -> None:
        self.now_s = 1_750_000_000.0

    def __call__(self) -> float:
        return self.now_s


def filled(path: Path, lines: int = 5) -> Audit:
    trail = Audit(path, wall_s=Wall())
    for number in range(lines):
        trail.note(f"ann{number}@vo", "cancel", "alpha-1", role="user", where="uid 1000")
    return trail


def test_a_line_says_who_as_whom_from_where_and_what_was_decided(tmp_path: Path) -> None:
    trail = Audit(tmp_path / "audit.log", wall_s=Wall())
    trail.note("ann@vo", "cancel", "alpha-1", "denied", "not hers", role="user", where="ipv4:10.0.0.7:999")
    said = json.loads((tmp_path / "audit.log").read_text())
    assert said.pop("sha")
    assert said == {
        "n": 1, "at": "2025-06-15T15:06:40Z", "who": "ann@vo", "role": "user", "from": "ipv4:10.0.0.7:999",
        "action": "cancel", "target": "alpha-1", "decision": "denied", "reason": "not hers",
    }  # fmt: skip
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_a_whole_trail_shows_no_damage_also_over_restarts(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    filled(path).close()
    trail = filled(path)
    assert damage(path, trail.head()) == ""
    assert len(path.read_text().splitlines()) == 10


@pytest.mark.parametrize("line", range(5))
def test_a_changed_line_shows(tmp_path: Path, line: int) -> None:
    path = tmp_path / "audit.log"
    filled(path)
    lines = path.read_text().splitlines()
    lines[line] = lines[line].replace("alpha-1", "alpha-2")
    path.write_text("\n".join(lines) + "\n")
    assert f"line {line + 1}" in damage(path)


@pytest.mark.parametrize("line", range(1, 4))
def test_a_removed_line_shows(tmp_path: Path, line: int) -> None:
    path = tmp_path / "audit.log"
    filled(path)
    lines = path.read_text().splitlines()
    del lines[line]
    path.write_text("\n".join(lines) + "\n")
    assert "removed" in damage(path)


def test_a_cut_off_end_shows_by_what_was_kept_elsewhere_and_is_told_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    head = filled(path).head()
    path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines()[:3]))
    assert damage(path) == ""
    assert "line 5 stood there" in damage(path, head)
    Audit(path, anchored=head)
    assert json.loads(path.read_text().splitlines()[-1])["decision"] == "damaged"


def test_a_trail_that_is_gone_shows(tmp_path: Path) -> None:
    head = filled(tmp_path / "audit.log").head()
    (tmp_path / "audit.log").unlink()
    assert "gone" in damage(tmp_path / "audit.log", head)
    assert damage(tmp_path / "audit.log") == ""


def test_what_one_asks_over_and_over_is_counted_and_not_repeated(tmp_path: Path) -> None:
    wall, path = Wall(), tmp_path / "audit.log"
    trail = Audit(path, wall_s=wall)
    for _ in range(1000):
        trail.note("eve@vo", "cancel", decision="denied")
    trail.note("ann@vo", "cancel")
    wall.now_s += audit.ALIKE_S
    trail.note("eve@vo", "cancel", decision="denied")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == audit.MOST_ALIKE + 2
    assert lines[-1]["alike"] == 1000 - audit.MOST_ALIKE


def test_a_full_file_is_kept_and_the_chain_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.log"
    monkeypatch.setattr(audit, "ROTATE_BYTES", 1500)
    trail = filled(path, 20)
    assert (tmp_path / "audit.log.1").exists()
    assert damage(path, trail.head()) == ""
    assert damage(tmp_path / "audit.log.1") == ""
    trail.close()
    assert Audit(path).head() == trail.head()


def test_a_torn_last_line_does_not_stop_the_trail(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    filled(path)
    with path.open("ab") as file:
        file.write(b'{"n":6,"at"')
    trail = Audit(path)
    trail.note("ann@vo", "stop")
    assert "line 6" in damage(path)


def test_a_line_of_the_longest_texts_is_found_again_after_a_restart(tmp_path: Path) -> None:
    """Each of these characters takes six bytes on disk; whoever may fill four fields must not break the chain."""
    path = tmp_path / "audit.log"
    trail = filled(path)
    trail.note("\x01" * 900, "cancel", "\u00e9" * 900, "denied", "\x00" * 900, where="\u20ac" * 900)
    trail.close()
    again = Audit(path, wall_s=Wall(), anchored=trail.head())
    again.note("ann@vo", "cancel", "alpha-1")
    assert again.head().startswith("7:")
    assert damage(path, again.head()) == ""
    again.close()


def test_texts_cannot_forge_a_line_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    trail = filled(path, 1)
    trail.note('ann"}\n{"n":9,"who":"root', 'x","sha":"0', "a\u2028b\r\n", "denied", '"}\n')
    trail.close()
    assert len(path.read_bytes().splitlines()) == 2
    assert damage(path, trail.head()) == ""


def test_whoever_invents_names_cannot_push_the_rest_out_of_the_trail(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    trail = Audit(path, wall_s=Wall())
    for number in range(1000):
        trail.note(f"certificate of user:u{number}@vo", "/diana.v1.Client/Submit", decision="denied", unproven=True)
    assert len(path.read_bytes().splitlines()) == audit.MOST_ALIKE
    trail.close()
