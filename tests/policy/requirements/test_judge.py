"""Each conjunct that does not hold is told by itself, with its values and the comparison that would just hold."""

from __future__ import annotations

import pytest

from diana.model.ids import SiteId
from diana.model.job.spec import Axis, ComponentSpec, GroupSpec, Resources, Sweep
from diana.policy.requirements import choice
from diana.policy.requirements.conjuncts import conjuncts, sides
from diana.policy.requirements.expressions import Expression, Untold
from diana.policy.requirements.group import GroupRequirements, over_set, plain, read_kept
from diana.policy.requirements.judge import Rank, Requirements
from diana.policy.requirements.names import Value


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a && b", ("a", "b")),
        ("a&&b && c", ("a", "b", "c")),
        ("(a && b) && c", ("(a && b)", "c")),
        ("f(a && b)", ("f(a && b)",)),
        ("a == '&&' && b", ("a == '&&'", "b")),
        # These bind less tightly, or hide what follows: the whole is one.
        ("a && b || c", ("a && b || c",)),
        ("a ? b && c : d", ("a ? b && c : d",)),
        ("a // b && c", ("a // b && c",)),
        (r"a == '\'' && b", (r"a == '\'' && b",)),
        ("a == '''x''' && b", ("a == '''x''' && b",)),
    ],
)
def test_a_text_is_cut_only_where_its_pieces_surely_hold_together(text: str, pieces: tuple[str, ...]) -> None:
    assert conjuncts(text) == pieces


def test_a_comparison_has_two_sides() -> None:
    assert sides("a + 1 >= f(b > c)") == ("a + 1", ">=", "f(b > c)")
    assert sides("a > b > c") is None
    assert sides("a && b > c") is None
    assert sides("site.name == 'a>b'") == ("site.name", "==", "'a>b'")


SITE: dict[str, Value] = {"site.memory_bytes": 512e6, "site.slots": 4.0, "site.name": "b", "job.memory_bytes": 1e9}


@pytest.mark.parametrize(
    ("text", "found", "near"),
    [
        ("site.memory_bytes >= 1e9", "512000000 >= 1000000000 does not hold", "site.memory_bytes >= 512000000"),
        ("1e9 <= site.memory_bytes", "1000000000 <= 512000000 does not hold", "512000000 <= site.memory_bytes"),
        ("site.slots > 4", "4 > 4 does not hold", "site.slots >= 4"),
        ("2 * site.slots < 8", "8 < 8 does not hold", "2 * site.slots <= 8"),
        (
            "site.memory_bytes >= job.memory_bytes",
            "512000000 >= 1000000000 does not hold",
            "site.memory_bytes >= 512000000",
        ),
        ("site.slots > site.slots + 1", "4 > 5 does not hold", ""),
        ("site.slots == 5", "4 == 5 does not hold", ""),
        ("site.name == 'a'", "'b' == 'a' does not hold", ""),
        ("site.name in ['a']", "site.name = 'b'", ""),
        ("!(site.slots == 4)", "site.slots = 4", ""),
        ("site.gpus > 0", "site.gpus not told", ""),
    ],
)
def test_what_fails_is_told_with_its_values_and_its_near_miss(text: str, found: str, near: str) -> None:
    (one,) = Requirements([text], "requirements").failed(SITE)
    assert (one.text, one.found, one.near) == (text, found, near)
    if near:
        assert not Requirements([near], "requirements").failed(SITE)


@pytest.mark.parametrize("value", [1099511627776.0, 3298547229006.0, 0.1 + 0.2, 1e300 / 3, 4.0])
@pytest.mark.parametrize("operator", [">", "<"])
def test_the_near_miss_of_a_long_number_holds(value: float, operator: str) -> None:
    at = {"site.total_memory_bytes": value}
    bound = value * 2 if operator == ">" else value / 2
    (one,) = Requirements([f"site.total_memory_bytes {operator} {bound!r}"], "requirements").failed(at)
    assert not Requirements([one.near], "requirements").failed(at), one.near


def test_each_conjunct_is_told_and_those_that_hold_are_not() -> None:
    texts = ["site.slots >= 8 && site.slots >= 2", "site.memory_bytes > 1e9 && site.name == 'b'"]
    assert [one.text for one in Requirements(texts, "requirements").failed(SITE)] == [
        "site.slots >= 8",
        "site.memory_bytes > 1e9",
    ]


def test_before_a_site_is_asked_only_what_it_surely_lacks_rules_it_out() -> None:
    wants = Requirements(["site.memory_bytes >= 1e9 && site.free_slots > 2"], "requirements")
    assert wants.may_hold({"site.slots": 1.0})
    assert wants.may_hold({"site.memory_bytes": 2e9})
    assert not wants.may_hold({"site.memory_bytes": 5e8})


def test_sites_that_are_alike_in_the_names_of_a_conjunct_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated = []
    value = Expression.value

    def counted(self: Expression, values: dict[str, Value]) -> object:
        evaluated.append(self.text)
        return value(self, values)

    wants = Requirements(["site.memory_bytes >= 1e8", "site.slots >= 2"], "requirements")
    monkeypatch.setattr(Expression, "value", counted)
    for name in range(1000):
        assert not wants.failed({**SITE, "site.name": f"s{name}"})
    assert evaluated == ["site.memory_bytes >= 1e8", "site.slots >= 2"]


def group(**more: object) -> GroupSpec:
    return GroupSpec(argv=("x",), **more)  # type: ignore[arg-type]


def test_swept_names_of_one_value_are_known_and_others_are_not() -> None:
    axes = (Axis(name="nx", values=("100",)), Axis(name="kind", values=("wave",)), Axis(name="n", start=3, stop=4))
    sweep = Sweep(axes=(*axes, Axis(name="seed", start=0, stop=10)))
    wants = GroupRequirements(group(requirements=("nx * n == 300 && kind == 'wave' && group.jobs == 10",), sweep=sweep))
    assert not wants.failed({}, home=True)
    with pytest.raises(ValueError, match=r"group.requirements\[1\]: 'seed' has several values in this group"):
        GroupRequirements(group(requirements=("nx > 1", "seed > 1"), sweep=sweep))


def test_the_link_counts_where_there_is_one() -> None:
    wants = GroupRequirements(group(link_requirements=("link.rtt_s < 0.05 && site.slots > 1",)))
    assert not wants.failed({"site.slots": 2.0}, home=True)
    assert not wants.failed({"site.slots": 2.0, "link.rtt_s": 0.01}, home=False)
    assert [one.found for one in wants.failed({"site.slots": 2.0, "link.rtt_s": 0.1}, home=False)] == [
        "0.1 < 0.05 does not hold"
    ]
    assert [one.found for one in wants.failed({"site.slots": 2.0}, home=False)] == ["link.rtt_s not told"]


def test_a_set_has_those_of_the_wanted_columns_that_all_its_sites_tell() -> None:
    names = {"set.slots", "set.domain"}
    sites = {"b": {"site.slots": 2.0, "site.domain": "x.y"}, "a": {"site.slots": 1.0}}
    assert over_set(sites, names) == {"set": ("a", "b"), "set.slots": (1.0, 2.0)}
    sites = {"b": {"site.slots": 2.0}, "a": {"site.slots": 1.0, "site.domain": "x.y"}}
    assert over_set(sites, names) == {"set": ("a", "b"), "set.slots": (1.0, 2.0)}
    assert over_set({}, names) == {"set": ()} == over_set({}, set())
    assert over_set(sites, {"set.domain"}) == {"set": ("a", "b")}


def test_a_group_has_few_and_short_expressions_wherever_it_comes_from() -> None:
    assert plain(group(requirements=("true",) * 64, rank="site.speed"))
    assert not plain(group(requirements=("true",) * 64, link_requirements=("true",)))
    assert not plain(group(requirements=("x" * 4000,) * 9))
    assert not plain(group(components=(ComponentSpec(requirements=("true",) * 65),)))
    with pytest.raises(ValueError, match="65 expressions; a group has at most 64"):
        GroupRequirements(group(requirements=("true",) * 65))


def test_a_kept_group_that_this_release_cannot_read_goes_nowhere_and_says_why() -> None:
    wants = read_kept(group(requirements=("site.colour == 'blue'",)))
    (one,) = wants.failed({"site.name": "a"}, home=True)
    assert "group.requirements[0]: 'site.colour' is no name here" in one.text


def test_memory_of_each_job_is_a_name() -> None:
    wants = GroupRequirements(
        group(requirements=("site.memory_bytes >= 2 * job.memory_bytes",), resources=Resources(memory_bytes=10**9))
    )
    assert not wants.failed({"site.memory_bytes": 2e9}, home=True)
    assert wants.failed({"site.memory_bytes": 1.9e9}, home=True)


# --- rank and sets -------------------------------------------------------------------------------------------


def test_a_rank_is_a_finite_number_or_none() -> None:
    assert Rank("2 * site.slots").of(SITE) == 8.0
    assert Rank("1 / (site.slots - 4)").of(SITE) == Untold("inf is no rank")
    assert Rank("(site.slots - 4) / 0").of(SITE) == Untold("nan is no rank")
    assert Rank("site.gpus").of(SITE) == Untold("site.gpus not told")
    with pytest.raises(ValueError, match="it gives no number"):
        Rank("site.slots > 1")
    with pytest.raises(ValueError, match="it gives no number"):
        Rank("site.name")


@pytest.mark.parametrize(
    ("jobs", "kept"),
    [(1, "a"), (4, "a"), (5, "abc"), (10, "abc"), (11, "abcd"), (99, "abcd")],
)
def test_the_fewest_sites_of_highest_rank_where_all_can_start_at_once_are_kept(jobs: int, kept: str) -> None:
    ranks = {SiteId(n): rank for n, rank in {"a": 3.0, "b": 2.0, "c": 2.0, "d": None}.items()}
    room = {SiteId("a"): 4, SiteId("b"): 3, SiteId("c"): 3, SiteId("d"): 3}
    assert "".join(sorted(choice.first_ranked(ranks, room, jobs))) == kept


def test_sets_are_tried_from_the_largest_and_few() -> None:
    order = [SiteId(chr(97 + n)) for n in range(20)]
    found = list(choice.sets(order, 99))
    assert [len(some) for some in found] == sorted(map(len, found), reverse=True)
    assert len(found) == 2**8 - 1 + 8 + (190 - 28) + 12 and found[0] == tuple(order[:16])
    assert set(found) >= {("h",), ("c", "h"), tuple(order[:9])}
    assert max(map(len, choice.sets(order, 2))) == 2


def test_a_condition_of_several_lines_is_told_in_one() -> None:
    (one,) = Requirements(["site.slots\n\t+ 1 > 9"], "requirements").failed({"site.slots": 4.0})
    assert (one.text, one.near) == ("site.slots  + 1 > 9", "site.slots  + 1 >= 5")
