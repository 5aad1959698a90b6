"""Templates: what they accept, what they say of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.job.template import compile_template, unknown_name


def test_a_text_without_placeholders_returns_itself() -> None:
    text = "plain $HOME 100%"
    assert compile_template(text).render({}) is text
    assert compile_template(text).names == frozenset()


def test_placeholders_are_filled_and_doubled_braces_stand_for_braces() -> None:
    template = compile_template("{{{x}}} {y}{x} {{z}}")
    assert template.names == {"x", "y"}
    assert template.render({"x": "1", "y": "2"}) == "{1} 21 {z}"
    assert compile_template("a {{b}}").render({}) == "a {b}"


def test_values_are_never_read_as_templates() -> None:
    assert compile_template("{x}").render({"x": "{y} {{"}) == "{y} {{"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a {", "a lone '{' at character 3; write {{ and }} for braces, {name} for a value"),
        ("} a", "a lone '}' at character 1; write {{ and }} for braces, {name} for a value"),
        ("{}", "'{}' is no placeholder at character 1; write {{ and }} for braces, {name} for a value"),
        ("x{a.b}", "'{a.b}' is no placeholder at character 2; write {{ and }} for braces, {name} for a value"),
        ("{a!r}", "'{a!r}' is no placeholder at character 1; write {{ and }} for braces, {name} for a value"),
        ("{0}", "'{0}' is no placeholder at character 1; write {{ and }} for braces, {name} for a value"),
        (
            "awk {print $1}",
            "'{print $1}' is no placeholder at character 5; write {{ and }} for braces, {name} for a value",
        ),
    ],
)
def test_a_bad_template_names_the_position_and_the_mend(text: str, line: str) -> None:
    with pytest.raises(ValueError) as caught:
        compile_template(text)
    assert str(caught.value) == line


def test_an_unknown_name_gets_the_nearest_known_one() -> None:
    known = frozenset({"seed", "index", "group"})
    line = unknown_name(compile_template("--s {sed}"), known)
    assert line == (
        "unknown placeholder {sed}; did you mean {seed}? known: {group}, {index}, {seed};"
        " write {{sed}} for the text itself"
    )
    assert unknown_name(compile_template("{index}{seed}"), known) is None


@given(st.lists(st.tuples(st.sampled_from(["lit", "name"]), st.text(max_size=6)), max_size=6))
def test_rendering_is_the_concatenation_of_its_pieces(pieces: list[tuple[str, str]]) -> None:
    text, wanted, values = "", "", {}
    for k, (kind, value) in enumerate(pieces):
        if kind == "name":
            text += f"{{n{k}}}"
            values[f"n{k}"] = value
        else:
            text += value.replace("{", "{{").replace("}", "}}")
        wanted += value
    assert compile_template(text).render(values) == wanted
