"""Expressions over the published names: what each is worth, which are refused with which line, and what the worst of
them cost (SPEC G1; papers/grads-scheduling.txt, section 4.3.1)."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import pytest

from diana.policy.requirements import expressions
from diana.policy.requirements.expressions import MOST_CHARACTERS, Untold, read
from diana.policy.requirements.judge import Requirements
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
    ("[1] + [2] == [1, 2]", "+ is not for list"),
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
    ("site.slots > 1 && " * 200 + "true", "201 conditions; a group has at most 64"),
]
"""Texts that are no requirements, and the line that says so."""


@pytest.mark.parametrize(("text", "verdict"), VERDICTS)
def test_an_expression_is_worth_what_it_says(text: str, verdict: bool) -> None:
    assert read(text, "requirements", CONSTANTS).value(SITE) is verdict


@pytest.mark.parametrize(("text", "line"), REFUSED, ids=[text[:40] for text, _ in REFUSED])
def test_a_text_that_is_no_requirement_gets_one_line(text: str, line: str) -> None:
    with pytest.raises(ValueError) as found:
        Requirements([text], "requirements", CONSTANTS)
    assert line in str(found.value) and "\n" not in str(found.value) and len(str(found.value)) < 300


def test_there_are_sixty_expressions_and_more() -> None:
    assert len(VERDICTS) + len(REFUSED) >= 60


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
            listed = name == "set" or name.startswith("set.")
            text = f"size({name}) >= 0" if listed or known.text else f"{name} >= 0"
            assert read(text, scope).names == (name,)


def test_what_was_read_once_is_not_read_again() -> None:
    first = read("site.speed > 0.25", "requirements")
    assert read("site.speed > 0.25", "requirements") is first
    assert expressions.read("site.speed > 0.25", "rank") is not first
