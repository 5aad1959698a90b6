"""Each build for users is complete, the same each time, and its front page leads nowhere that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_build import long_description
from tests.cli.old_python import python
from tests.distribution import Broken, Built, build_twice, look_through, pythons, run


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build_twice(tmp_path_factory.mktemp("built"))


def test_a_build_from_the_source_distribution_has_the_same_bytes_and_nothing_is_missing(built: Built) -> None:
    assert list(look_through(built)) == []


def test_pip_of_a_python_that_is_too_old_says_which_it_wants(built: Built, tmp_path: Path) -> None:
    pip = [python("3.10"), "-m", "pip", "install", "--no-index", "--target", tmp_path / "there"]
    with pytest.raises(Broken, match=r"Package 'diana-grid' requires a different Python: 3\.10\.\d+ not in '>=3\.11'"):
        run([*pip, built.wheel], tmp_path)


def test_links_of_the_front_page_that_an_index_does_not_have_are_its_words_alone() -> None:
    page = "![grid](docs/a.png)\nSee [cli](docs/cli.md#x), [the paper](https://example.org/p) and [below](#try).\n"
    assert long_description(page) == "See cli, [the paper](https://example.org/p) and [below](#try).\n"


def test_the_pythons_that_a_release_is_tried_on_are_new_enough() -> None:
    found = [tuple(map(int, version.split("."))) for version in pythons()]
    assert found == sorted(found) and found and found[0] >= (3, 11)
