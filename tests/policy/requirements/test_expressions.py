"""Expressions over the published names: what each is worth, which are refused with which line, and what the worst of
them cost (SPEC G1; papers/grads-scheduling.txt, section 4.3.1)."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest

from diana.model.job.spec import GroupSpec
from diana.policy.requirements import expressions
from diana.policy.requirements.expressions import MOST_CHARACTERS, Untold, read
from diana.policy.requirements.group import GroupRequirements
from diana.policy.requirements.judge import Rank, Requirements
from diana.policy.requirements.names import SCOPES, Value

SITE: dict[str, Value] = {
    "site.name": "utk-2",
    "site.domain": "cs.utk.edu",
    "site.slots": 4.0,
    "site.free_slots": 0.0,
    "site.speed": 1.5,
    "site.memory_bytes": 8e9,
    "job.processors": 2.0,
    "group.jobs": 100.0,
    "nx": 100.0,
    "kind": "wave",
}
CONSTANTS = (("kind", True), ("nx", False))

VERDICTS: list[tuple[str, bool]] = [
    ("site.memory_bytes >= 8e9", True),
    ("site.memory_bytes > 8e9", False),
    ("site.memory_bytes >= 8000000000", True),
    ("site.memory_bytes >= 8000000001", False),
    ("site.slots == 4", True),
    ("4 == site.slots", True),
    ("site.slots != 4", False),
    ("2 * site.speed == 3", True),
    ("site.slots / job.processors >= 2", True),
    ("site.slots - 1 < 3", False),
    ("-site.slots < 0", True),
    ("site.free_slots > 0 || site.speed > 1", True),
    ("site.free_slots > 0 && site.speed > 1", False),
    ("!(site.free_slots > 0)", True),
    ("site.slots > 2 ? site.speed > 1 : site.speed > 9", True),
    ("site.speed > 1 == true", True),
    ("site.name == 'utk-2'", True),
    ("site.name == 'utk-20'", False),
    ('site.name != "utk-2"', False),
    ("site.name in ['ucsd', 'utk-2']", True),
    ("site.name in ['ucsd', 'utk 2']", False),
    ("!(site.name in ['ucsd'])", True),
    ("site.name.startsWith('utk')", True),
    ("site.domain.endsWith('.edu')", True),
    ("site.domain.contains('ucsd')", False),
    ("suffix(site.domain, ['ucsd.edu', 'cs.utk.edu'])", True),
    ("suffix(site.domain, ['utk.com', 's.utk'])", False),
    ("suffix(site.domain, [])", False),
    ("size(site.name) == 5", True),
    ("site.slots in [2, 4]", True),
    ("min(site.slots, 3) == 3", True),
    ("max(site.slots, 3) == 4", True),
    ("nx * nx * 8 <= site.memory_bytes", True),
    ("nx == 100", True),
    ("kind == 'wave'", True),
    ("group.jobs > 99", True),
    ("site.slots > 1e-3", True),
    ("site.slots > 1.5e+0", True),
    ("site.name == '4'", False),
    ("site.slots / 0 > 1", True),
    ("site.free_slots / 0 > 1", False),
    ("true", True),
    ("site.slots > 2 // at least a pair", True),
    # All numbers are doubles, so that whole ones stand beside them.
    ("site.slots == 4 && site.slots == 4.0", True),
    ("0.0 / 0.0 == 0.0 / 0.0", False),
    ("0.0 / 0.0 != 0.0 / 0.0", True),
    ("0.0 / 0.0 < 1 || 0.0 / 0.0 >= 1", False),
    ("-1.0 / 0.0 < 0", True),
    ("site . slots\t> 1", True),
    ("site. // of the site\n slots > 1 && site // a\n // b\n .name == 'utk-2'", True),
    ("site.name == 'größe'", False),
    ("'größe' == 'größe' && size('größe') == 5", True),
    ("'🚀'.startsWith('🚀')", True),
    ("site.name == '\uff14'", False),
    ("'a\\'b' == \"a'b\" && site.slots == 4", True),
    ("'\\\\' == '\\\\' && 4 == site.slots", True),
    ("'site.gpus' == 'x' || site.slots == 4", True),
    ("// it's 4 'slots\nsite.slots == 4", True),
    ("site.slots == 4 // site.gpus", True),
    ("'//' == '//' && site.slots == 4", True),
    ("number('4') == site.slots", True),
    ("number('-.5e1') == -5", True),
    ("sum(number(['1', '2.5'])) == 3.5", True),
    ("number('four') > 1 || site.slots == 4", True),
    # Without a value of its own, each side may still decide the whole.
    ("site.gpus > 0 || site.slots > 2", True),
    ("site.gpus > 0 && site.slots > 9", False),
]
"""Expressions and their verdicts at `SITE`."""

REFUSED: list[tuple[str, str]] = [
    ("", "it is empty; write a comparison"),
    ("site.slots", "it is neither true nor false"),
    ("site.slot >= 1", "'site.slot' is no name here; did you mean site.slots?"),
    ("other.Memory >= 1", "'other.Memory' is no name here"),
    ("link.rtt_s < 1", "is no name here"),
    ("set.slots", "is no name here"),
    ("site.domain > 3", "> is not for a text and a number"),
    ("site.slots == 'four'", "== is not for a number and a text"),
    ("'a' + 'b' == 'ab'", "+ is not for a text and a text"),
    ("[1] + [2] == [1, 2]", "+ is not for a list of numbers and a list of numbers"),
    ("site.slots >", "not understood near 'site.slots >'"),
    ("site.slots >= 4 and site.speed > 1", "not understood near"),
    ("site.slots = 4", "not understood near"),
    ("site.name == 'utk", "not understood near"),
    ("[1, 2].map(x, x) == [1, 2]", "map() is a loop; expressions have none"),
    ("[1].all(a, [2].exists(b, a > b))", "() is a loop; expressions have none"),
    ("has(site.slots)", "has() is a loop"),
    ("site.name.matches('(a*)*b')", "'matches' is no name here"),
    ("dyn(1) == 2", "'dyn' is no name here"),
    ("__import__('os').system('true') == 1", "is no name here"),
    ("site.slots > 1u", "> is not for a number and uint"),
    ("site.slots > 1\0", "cannot be printed"),
    ("(" * 2000 + "true" + ")" * 2000, "nested too deeply"),
    ("[" * 2000 + "]" * 2000 + " == []", "nested too deeply"),
    ("1" + " + 1" * 900 + " > 0", "nested too deeply"),
    ("max(1, " * 300 + "1" + ")" * 300 + " > 0", "nested too deeply"),
    ("site" + ".slots" * 600 + " > 0", "nested too deeply"),
    ("site.slots > " + "9" * MOST_CHARACTERS, "an expression has at most 4,096"),
    ("(" * 10_000 + "true" + ")" * 10_000, "20,004 characters; an expression has at most 4,096"),
    ("site.name == '" + "a" * 10_000_000 + "'", "10,000,015 characters; an expression has at most 4,096"),
    ("site.näme == 'x'", "not understood near"),
    ("größe > 1", "not understood near"),
    ("site.slots > \uff14", "not understood near 'site.slots > \uff14'"),
    ("site.slots > ٤", "not understood near"),
    ("site.slots > \u200f4", "cannot be printed"),
    ("site.name == '\u202eutk'", "cannot be printed"),
    ("🚀 > 1", "not understood near"),
    ("r'\\' == '4'", "not understood near \"r'"),
    ("R\"a\" == 'a'", "write a text in plain quotes"),
    ("b'a' == b'a'", "write a text in plain quotes"),
    ("br'a' == b'a'", "write a text in plain quotes"),
    ("'''a''' == 'a'", "write a text in plain quotes"),
    ('"""a""" == "a"', "write a text in plain quotes"),
    ("site.name == 'a\\'", "not understood near"),
    ("site.name == 'a\nb'", "not understood near"),
    ("site.`slots` > 1", "names stand without quotes"),
    ("// nothing else", "not understood near"),
    ("number(site.slots) > 1", "number is not for a number"),
    ("site.properties == 'gold'", "write site.properties.NAME, such as site.properties.tier"),
    ("site.properties.kw >= 3", ">= is not for a text and a number; write number(site.properties.kw)"),
    ("site.resources > 1", "write site.resources.NAME, such as site.resources.fpga"),
    ("site.resources.fpga == 'two'", "== is not for a number and a text"),
    ("site.resources.cpus >= 1", "'site.resources.cpus' is no resource: no site may declare that name"),
    ("site.resources.FPGA >= 1", "'site.resources.FPGA' is no resource"),
    ("set.resources.fpga == [1]", "is no name here"),
    ("site.properties.in == 'a'", "is no property: no site may declare that name"),
    ("site.properties.size == 'a'", "is no property: no site may declare that name"),
    (f"site.properties.{'x' * 41} == 'a'", "is no property"),
    ("site.properties.größe == 'a'", "not understood near"),
    ("site.properties.a.b == 'a'", "not understood near"),
    ("set.properties.tier == ['a']", "is no name here"),
    (" || ".join(f"site.properties.p{n} == 'a'" for n in range(17)), "it names 17 properties; an expression names at"),
    ("site.slots > 1 && " * 200 + "true", "201 conditions; a group has at most 64"),
]
"""Texts that are no requirements, and the line that says so."""


@pytest.mark.parametrize(("text", "verdict"), VERDICTS)
def test_an_expression_is_worth_what_it_says(text: str, verdict: bool) -> None:
    assert read(text, "requirements", CONSTANTS).value(SITE) is verdict


MENDED: list[tuple[str, str]] = [
    ("site.slots >= 4 and site.speed > 1", "not understood near 'te.slots >= 4 and site.speed >'; write && for and"),
    ("site.slots = 4", "not understood near 'site.slots = 4'; write == for ="),
    ("site.name == 'a=b' or site.slots > 1", "; write || for or"),
    ("not site.slots > 1", "; write !(...) for not"),
    ("site.name not in ['a']", "; write !(A in B) for A not in B"),
    ("site.slots > 1 & site.speed > 1", "; write && for &"),
    ("site.name =?= 'a'", "; write == for =?="),
    ("site.name <> 'a'", "; write != for <>"),
    ("site.slots => 2", "; write >= for =>"),
    ("site.memory_bytes >= 4G", "; a number has no unit; write bytes or seconds"),
    ("site.memory_bytes >= '4G'", "; a number stands without quotes and unit"),
    ("TARGET.Memory >= 4096", "'TARGET.Memory' is no name here; did you mean site.memory_bytes?"),
    ("site.mem >= 4e9", "did you mean site.memory_bytes?"),
    ("cores > 3", "did you mean site.slots?"),
    ("site.tier == 'gold'", "did you mean a property, site.properties.tier?"),
    ("properties.tier == 'gold'", "write site.properties.tier"),
    ("site.domain == gold", "; a text stands in quotes"),
    ("link.rtt_s < 0.05", "'link.rtt_s' is no name here; write it under link_requirements"),
    ("site.rtt_s < 0.05", "write link.rtt_s under link_requirements"),
    ("sum(set.slots) > 3", "'set.slots' is no name here; write it under set_requirements"),
    ("site.name in 'alpha,beta'", "in is not for a text and a text; write a list"),
    ("site.platforms == 'x86_64'", "; write 'text' in site.platforms"),
    ("3 < site.slots < 5", "; compare two at a time, and join by &&"),
    ("float(site.domain) > 1", "'float' is no name here; write number(text)"),
]
"""Words of other languages and near misses, and what their authors are told to write."""

MENDED_OF_SETS: list[tuple[str, str]] = [
    ("set.memory_bytes > 1", "; write sum(set.memory_bytes), min(set.memory_bytes) or max(set.memory_bytes)"),
    ("sum(set.properties.kw) > 1", "sum is not for a list of texts; write number(set.properties.kw)"),
    ("sum(set.memory) > 1", "'set.memory' is no name here; did you mean set.memory_bytes?"),
    ("set.size <= 1", "write size(set)"),
    ("site.slots > 1", "did you mean set.slots?"),
]


@pytest.mark.parametrize(
    ("text", "mend", "scope"),
    [(*row, "requirements") for row in MENDED] + [(*row, "set_requirements") for row in MENDED_OF_SETS],
)
def test_a_word_of_another_language_or_a_near_miss_is_told_with_what_to_write(text: str, mend: str, scope: str) -> None:
    with pytest.raises(ValueError) as found:
        read(text, scope)
    assert mend in str(found.value) and "\n" not in str(found.value)


@pytest.mark.parametrize(("text", "line"), REFUSED, ids=[text[:40] for text, _ in REFUSED])
def test_a_text_that_is_no_requirement_gets_one_line(text: str, line: str) -> None:
    with pytest.raises(ValueError) as found:
        Requirements([text], "requirements", CONSTANTS)
    assert line in str(found.value) and "\n" not in str(found.value) and len(str(found.value)) < 300


def test_there_are_sixty_expressions_and_more() -> None:
    assert len(VERDICTS) + len(REFUSED) >= 100


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sum(set.memory_bytes) >= (1.757 + 1.38e-5 * nx * nx * nx) * 1e9", True),
        ("size(set) <= 2 && size(set.speed) == 2", True),
        ("min(set.speed) >= 1 && max(set.speed) < 3", True),
        ("suffix(set.domain, ['.edu'])", True),
        ("suffix(set.domain, ['.utk.edu'])", False),
        ("'ucsd' in set", True),
        ("sum(set.slots) > 12", False),
    ],
)
def test_a_set_is_summed_bounded_and_counted_as_in_the_paper(text: str, value: bool) -> None:
    """Equations 1.1 to 1.3 and the functions Sum, Min, Max, SetSize and suffix of section 4.3.1."""
    of_two: dict[str, Value] = {
        "set": ("ucsd", "utk"),
        "set.memory_bytes": (8e9, 8e9),
        "set.speed": (1.0, 2.0),
        "set.slots": (4.0, 8.0),
        "set.domain": ("cs.ucsd.edu", "cs.utk.edu"),
        "nx": 100.0,
    }
    assert read(text, "set_requirements", (("nx", False),)).value(of_two) is value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.0 / 0.0", Untold("nan is no rank")),
        ("site.slots / site.free_slots", Untold("inf is no rank")),
        ("-1.0 / site.free_slots", Untold("-inf is no rank")),
        ("-site.speed", -1.5),
        ("site.gpus", Untold("site.gpus not told")),
        ("number(site.name)", Untold("'utk-2' is no number")),
        ("number('nan')", Untold("'nan' is no number")),
        ("number('1e999')", Untold("'1e999' is no number")),
        ("number(' 4')", Untold("' 4' is no number")),
        ("number('1_000')", Untold("'1_000' is no number")),
        ("number('\uff14')", Untold("'\uff14' is no number")),
    ],
)
def test_a_rank_is_a_finite_number_or_it_is_told_why_there_is_none(text: str, value: float | Untold) -> None:
    assert Rank(text).of(SITE) == value


def test_an_expression_names_what_stands_outside_of_its_quotes_and_comments() -> None:
    text = "site.properties.tier == 'site.gpus' && site . slots > 1 // site.speed, nx"
    assert read(text, "requirements", CONSTANTS).names == ("site.properties.tier", "site.slots")
    assert read("site.properties.tier.startsWith('g')", "rank").names == ("site.properties.tier",)


def test_a_property_is_a_text_and_over_a_set_a_list_of_texts() -> None:
    of_two: dict[str, Value] = {"set": ("a", "b"), "set.properties.kw": ("1.5", "2")}
    assert read("sum(number(set.properties.kw)) == 3.5", "set_requirements").value(of_two) is True
    assert read("'2' in set.properties.kw", "set_requirements").value(of_two) is True
    found = read("site.properties.teir == 'x'", "requirements").value({"site.properties.tier": "x"})
    assert found == Untold("site.properties.teir not told; did you mean site.properties.tier?")
    found = read("site.properties.color == 'x'", "requirements").value({"site.properties.tier": "x"})
    assert found == Untold("site.properties.color not told")
    found = read("site.properties.rack == 'x'", "requirements").value({"site.properties.kw": "1"})
    assert found == Untold("site.properties.rack not told"), "what all such names begin with makes none like another"


@pytest.mark.parametrize("text", [".5", "-.5", "0.5", ".5e-1", "1 - .5"])
def test_a_number_may_begin_with_its_point(text: str) -> None:
    assert read(f"site.slots > {text}", "requirements").value({"site.slots": 4.0}) is True


def test_a_size_written_as_a_method_is_told_as_it_is_written_here() -> None:
    with pytest.raises(ValueError, match=r"^size\(\) has its list or text in brackets, such as size\(set\)$"):
        read("'a'.size() > 0", "requirements")


def test_a_text_of_ten_megabytes_is_refused_by_its_length_and_copied_nowhere() -> None:
    text = "site.name == '" + "a" * 10_000_000 + "'"
    before_kb, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    for key in ("requirements", "link_requirements", "set_requirements"):
        with pytest.raises(ValueError, match="characters"):
            GroupRequirements(GroupSpec(**{key: (text,)}))
    with pytest.raises(ValueError, match="characters"):
        GroupRequirements(GroupSpec(rank=text))
    assert time.thread_time() - began < 0.1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 4 * 1024


def test_what_a_site_does_not_tell_is_named() -> None:
    assert read("site.gpus > site.slots", "requirements").value(SITE) == Untold("site.gpus not told")


WORST = [
    "!" * 4000 + "true",
    "[" + ",".join(["1"] * 1900) + "] == [" + "1" + "]",
    "sum([" + ",".join(["1"] * 1900) + "]) > 0",
    "site.name == '" + "a" * 4000 + "'",
    "suffix(site.name, [" + ",".join(["'a'"] * 1000) + "])",
    "(site.slots > 1) ? " * 200 + "true",
    "true || " * 500 + "true",
    "{" + ",".join(f"{n}: {n}" for n in range(300)) + "}[1] > 0",
    "string(site.slots) == string(" * 100 + ")" * 100,
]


@pytest.mark.parametrize("text", WORST, ids=[text[:25] for text in WORST])
def test_the_worst_expression_costs_no_more_than_its_length(text: str) -> None:
    """Processor time, so that a neighbour's work does not count; a second is a hundred times what any takes."""
    before_kb, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    try:
        expression = read(text, "requirements")
    except ValueError:
        pass
    else:
        for _ in range(10):
            expression.value(SITE)
    assert time.thread_time() - began < 1.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 64 * 1024


def test_no_value_grows_by_being_joined() -> None:
    """Each of these would double its value at every step, were joining or looping understood."""
    doubling = "['a']" + ".map(a, a + a)" * 25 + " == []"
    with pytest.raises(ValueError, match="loop"):
        read(doubling, "requirements")
    with pytest.raises(ValueError, match=r"\+ is not for a text and a text"):
        read("site.name + site.name == ''", "requirements")


def test_the_library_is_loaded_by_the_first_expression_alone() -> None:
    code = "import sys, diana.policy.requirements.group, diana.jobfile.parse; print('cel_expr_python' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_every_name_of_every_scope_can_be_read() -> None:
    for scope, names in SCOPES.items():
        for name, known in names.items():
            listed = name == "set" or name.startswith("set.") or known.many
            text = f"size({name}) >= 0" if listed or known.text else f"{name} >= 0"
            assert read(text, scope).names == (name,)


def test_what_was_read_once_is_not_read_again() -> None:
    first = read("site.speed > 0.25", "requirements")
    assert read("site.speed > 0.25", "requirements") is first
    assert expressions.read("site.speed > 0.25", "rank") is not first
