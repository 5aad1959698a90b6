"""The help of every verb: examples that are right, exit codes, the published reference."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from diana import errors
from diana.cli import main as cli
from diana.cli.published import reference, topics
from diana.cli.shared import faults, parsing

ROOT = Path(__file__).parents[2]
WIDEST = 100


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(list(words)) == 0
    return capsys.readouterr().out


def examples(verb: str) -> Iterator[list[str]]:
    """Each call of diana among them, as words; the shell's own signs end it."""
    for line in reference.command_of(verb, cli.VERBS[verb]).examples.strip().splitlines():
        words: list[str] = []
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        # As a shell: what is quoted or in braces belongs to the word.
        lexer.wordchars += "{}[]%@:,+"
        for word in [*lexer, ";"]:
            if set(word) <= set("|&;<>"):
                if words[:1] == ["diana"]:
                    yield words[1:]
                words = []
            else:
                words.append(word)


def orders(verb: str) -> set[str]:
    """The words that may stand first after the verb: `drain` of `diana site drain`."""
    parser = parsing.parser_of(verb, "x", reference.command_of(verb, cli.VERBS[verb]))
    first = next((action for action in parser._actions if not action.option_strings), None)
    return set(map(str, first.choices)) if first is not None and first.choices else set()


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_example_is_one_the_parser_takes(verb: str) -> None:
    seen = list(examples(verb))
    assert seen and all(words[0] in cli.VERBS for words in seen)
    for words in seen:
        entry = cli.VERBS[words[0]]
        parsing.parse(words[0], entry.summary, reference.command_of(words[0], entry), words[1:])


@pytest.mark.parametrize("verb", [verb for verb in cli.VERBS if orders(verb)])
def test_every_order_of_a_verb_has_an_example(verb: str) -> None:
    said = {word for words in examples(verb) for word in words[1:]}
    silent = orders(verb) - said - {"list", "show", "zsh", "sites"}
    assert not silent, f"diana {verb}: no example of {sorted(silent)}"


@pytest.mark.parametrize("verb", cli.VERBS)
def test_help_is_no_wider_than_a_page_on_any_terminal(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = shown(capsys, verb, "--help")
    assert "\nexamples:\n  " in text
    assert not [line for line in text.splitlines() if len(line) > WIDEST]
    monkeypatch.setenv("COLUMNS", "40")
    assert f"diana {verb}" in shown(capsys, verb, "--help")


def test_the_overview_and_the_topics_are_no_wider_than_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], *(["help", topic] for topic in topics.TOPICS)):
        assert not [line for line in shown(capsys, *words).splitlines() if len(line) > WIDEST]


def test_the_overview_names_every_topic_and_the_codes_users_meet(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys)
    assert all(f"help {topic}" in text for topic in topics.TOPICS)
    codes = set(map(int, re.findall(r"\b\d+\b", text.partition("Exit codes:")[2].partition("Examples:")[0])))
    assert codes == {
        code for code in topics.EXIT_CODES if code not in (faults.INTERNAL, cli.INTERRUPTED, cli.PIPE_CLOSED)
    }


def test_the_exit_codes_are_those_that_are_used(capsys: pytest.CaptureFixture[str]) -> None:
    """SPEC U2: the codes of every error and of the help are the same ones."""
    raised = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    assert raised | {0, faults.INTERNAL, cli.INTERRUPTED, cli.PIPE_CLOSED} == set(topics.EXIT_CODES)
    text = shown(capsys, "help", "exit-codes")
    assert {int(code) for code in re.findall(r"^ +(\d+)  ", text, re.MULTILINE)} == set(topics.EXIT_CODES)


def test_the_published_reference_is_that_of_the_parsers() -> None:
    published = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert published == reference.reference(), "write it anew: python -m diana.cli.published.reference docs/cli.md"
