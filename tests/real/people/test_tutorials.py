"""The tutorials do what they show: each is typed into a shell as it stands, on a network of its own, against real nodes
(half a minute in all)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.docs.commands import reader
from tests.docs.replay import Shell
from tests.e2e.grid import REPO

# A busy machine takes its time; each command has a limit of its own.
pytestmark = pytest.mark.timeout(400)
TUTORIALS = REPO / "docs" / "tutorials"


@pytest.fixture
def shell() -> Iterator[Shell]:
    with reader() as made:
        yield made


@pytest.mark.parametrize("page", ["one-machine.md", "three-sites.md", "moving-job.md", "one-job-three-sites.md"])
def test_a_tutorial_does_what_it_shows(shell: Shell, page: str) -> None:
    # What a reader copies from the repository.
    shutil.copy(REPO / "examples" / "koala" / "ring.py", shell.home)
    assert shell.play(TUTORIALS / page) > 10
