"""`docs/site-file.md` is right about site.toml: every key and no other, its default, its range, its meaning (SPEC
U10)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from diana.adapters.batch.settings import ClusterSettings
from diana.adapters.lrm.software import Software
from diana.errors import UsageError
from diana.model.ids import SiteId
from diana.model.settings import Settings
from diana.node.config.site_file import Notifying, SiteConfig, Staging, Traces, Trust, parse_config
from diana.node.config.text import config_text
from diana.node.web.config import Web

REFERENCE = Path(__file__).parents[3] / "docs" / "site-file.md"
BASE = SiteConfig(site=SiteId("alpha"), vo="lab")
WITH_CLUSTER = SiteConfig(site=SiteId("alpha"), vo="lab", clusters={"slurm": ClusterSettings()})
SECTIONS: dict[str, msgspec.Struct] = {
    "The node": BASE,
    "[settings]": Settings(),
    "[staging]": Staging(),
    "[software]": Software(),
    "[trust]": Trust(),
    "[web]": Web(),
    "[traces]": Traces(),
    "[notify]": Notifying(),
    "[clusters.slurm]": ClusterSettings(),
}
_HEAD = 'site = "alpha"\nvo = "lab"\n'


def _rows(section: str) -> list[tuple[str, str, str, str]]:
    """(key, default, range, meaning) of each row of a section."""
    text = REFERENCE.read_text(encoding="utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*) \|$", text, flags=re.MULTILINE)


def _number(text: str) -> float:
    base, power, exponent = text.partition("^")
    return int(base) ** int(exponent) if power else float(text)


BESIDE = {"summary_every_s": "suspect_after_s = 86400\n", "suspect_after_s": "summary_every_s = 0.05\n"}
"""With which the whole range of a key is allowed."""


def _parsed(section: str, key: str, value: str) -> SiteConfig:
    return parse_config(f"{_HEAD}{section}\n{BESIDE.get(key, '')}{key} = {value}\n")


def _within(config: SiteConfig, field: str) -> msgspec.Struct:
    table, _, name = field.partition(".")
    found = getattr(config, table)
    return found[name] if name else found  # type: ignore[no-any-return]


@pytest.mark.parametrize("section", SECTIONS)
def test_the_reference_names_every_key_and_no_other(section: str) -> None:
    tables = {
        "users",
        "run_as",
        "settings",
        "staging",
        "software",
        "trust",
        "web",
        "traces",
        "notify",
        "clusters",
        "maintenance",
        "resources",
    }
    inner = {"software"} if section.startswith("[clusters") else {"properties"} if section == "[settings]" else set()
    inner = tables if section == "The node" else inner
    known = {field.name for field in msgspec.structs.fields(SECTIONS[section])} - inner
    written = [key for key, *_ in _rows(section)]
    assert set(written) == known and len(written) == len(known)


@pytest.mark.parametrize("section", SECTIONS)
def test_the_defaults_of_the_reference_are_those_of_the_node(section: str) -> None:
    for key, default, _, _ in _rows(section):
        if default == "must be given":
            with pytest.raises(UsageError, match=f"{key}: missing"):
                parse_config("\n".join(line for line in _HEAD.splitlines() if not line.startswith(f"{key} ")))
            continue
        value: Any = tomllib.loads(f"value = {default.strip('`')}")["value"]
        known = getattr(SECTIONS[section], key)
        assert value == (list(known) if isinstance(known, tuple) else known), key


@pytest.mark.parametrize("section", ["[settings]", "[staging]", "[trust]", "[web]", "[clusters.slurm]"])
def test_the_ranges_of_the_reference_are_those_that_are_checked(section: str) -> None:
    field = section.strip("[]")
    for key, _, wish, _ in _rows(section):
        ends = re.fullmatch(r"(\S+) to (\S+)", wish)
        if ends is None:
            continue
        low, high = map(_number, ends.groups())
        whole = isinstance(getattr(SECTIONS[section], key), int)
        for good in (low, high):
            read = getattr(_within(_parsed(section, key, repr(int(good) if whole else good)), field), key)
            assert read == pytest.approx(good), key
        # Whole numbers stay whole: a float is too coarse for 2^60 + 1.
        for bad in (int(low) - 1, int(high) + 1) if whole else (low * 0.9 - 1e-12, high * 1.1):
            with pytest.raises(UsageError, match=rf"{field}\.{key}: .* is out of range"):
                _parsed(section, key, repr(bad))


def test_words_the_reference_offers_are_all_there_are() -> None:
    for key, _, wish, _ in _rows("[settings]"):
        words = re.findall(r"`([\w-]+)`", wish)
        for word in words:
            assert getattr(_parsed("[settings]", key, f'"{word}"').settings, key) == word
        if words:
            with pytest.raises(UsageError, match=" or ".join(f'"{word}"' for word in words)):
                _parsed("[settings]", key, '"other"')


def test_every_meaning_is_the_comment_that_init_writes_into_the_file() -> None:
    comments = {line.removeprefix("# ") for line in config_text(WITH_CLUSTER).splitlines() if line.startswith("# ")}
    for section in SECTIONS:
        for key, _, _, meaning in _rows(section):
            assert meaning in comments, key


def test_the_example_of_the_reference_is_in_order() -> None:
    text = REFERENCE.read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    assert parse_config(_HEAD + text).users == {"ann": "a.archer@lab", "1004": ""}
    text = REFERENCE.read_text(encoding="utf-8").partition("## [[maintenance]]")[2].partition("```toml\n")[2]
    assert len(parse_config(_HEAD + text.partition("```")[0]).maintenance) == 2


def test_the_tutorial_on_slurm_shows_the_table_of_a_cluster_as_it_is_written() -> None:
    page = (REFERENCE.parent / "tutorials" / "slurm.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ grep -A (\d+) '\^\.clusters\.slurm\.' .*\n((?:.*\n)*?)```", page)
    assert shown is not None
    written = config_text(WITH_CLUSTER).partition("[clusters.slurm]\n")[2].splitlines()
    assert shown[2].splitlines() == ["[clusters.slurm]", *written[: int(shown[1])]]
