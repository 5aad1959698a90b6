"""Templates: what they accept, what they say of the rest."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diana.model.job.template import compile_template, unknown_name, written_template


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
        " write '--s {{sed}}' for the text itself"
    )
    assert unknown_name(compile_template("{index}{seed}"), known) is None


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ("echo ${x}", "echo ${x}"),
        ("${x}{x}", "${x}1"),
        ("${x:-{x}}", "${x:-1}"),
        ("${a:-${b:-{x}}} {x}", "${a:-${b:-1}} 1"),
        ("${a:-${b}}}}", "${a:-${b}}}"),
        ("${{x}} $x $$ ${#x} ${x%.*}", "${x} $x $$ ${#x} ${x%.*}"),
        ("${{{x}}}", "${1}"),
        ("{{ ${x} }}", "{ ${x} }"),
        ("${a//{{/b} {x}}}", "${a//{/b} 1}"),
        ("$(({x} + 1)) ${", "$((1 + 1)) ${"),
        ("awk '{{print ${x}}}'", "awk '{print ${x}}'"),
    ],
)
def test_a_brace_after_a_dollar_is_the_shells(written: str, rendered: str) -> None:
    template = written_template(written)
    assert template.render({"x": "1"}) == rendered
    # Sites and stored groups read its own text by the rule that they always had.
    assert compile_template(template.text).render({"x": "1"}) == rendered
    assert written_template(template.text).text == template.text


@pytest.mark.parametrize(
    ("written", "mend"),
    [
        ("{print $1}", "'{{print $1}}'"),
        ("awk '{print $1}' {x}", "'awk '\"'\"'{{print $1}}'\"'\"' {x}'"),
        ("say 'a}' ", "{{ and }} for braces, {name} for a value"),
        ("don't {0}", '"don\'t {{0}}"'),
        ("${a//{/b} {}", "'${a//{{/b}} {{}}'"),
        ("\x07{0}", "{{ and }} for braces, {name} for a value"),
        ("{" * 301, "{{ and }} for braces, {name} for a value"),
    ],
)
def test_a_refusal_says_the_whole_word_to_paste(written: str, mend: str) -> None:
    with pytest.raises(ValueError) as caught:
        written_template(written)
    assert str(caught.value).partition("; write ")[2].removesuffix(" for the text itself") == mend
    if not mend.startswith("{"):
        (pasted,) = shlex.split(mend)
        assert written_template(pasted).render({"x": "{x}"}) == written


def test_a_brace_too_many_behind_the_shells_is_no_pair_with_its_last() -> None:
    with pytest.raises(ValueError, match="a lone '}' at character 11"):
        written_template("${a{{b}} }}")


@given(st.text(alphabet="${} x", max_size=12))
def test_text_with_doubled_braces_is_itself_whatever_stands_before_them(text: str) -> None:
    doubled = text.replace("{", "{{").replace("}", "}}")
    assert written_template(doubled).text == doubled
    assert written_template(doubled).render({}) == text


@given(st.text(alphabet="${} x", max_size=12))
def test_what_an_author_writes_reads_alike_here_and_at_a_site_that_knows_no_shell(written: str) -> None:
    try:
        template = written_template(written)
    except ValueError:
        return
    params = dict.fromkeys(template.names, "v")
    assert compile_template(template.text).names == template.names
    assert compile_template(template.text).render(params) == template.render(params)


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
