"""The rooms of `diana/`: few modules in each, a paragraph at each door, imports that go one way."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST_MODULES = 20
"""Modules of one folder, its `__init__` left out."""
MOST_LINES = 800
LEAST_PARAGRAPH = 120
"""Characters below which a docstring cannot say what a room is for, what comes in, what goes out and what to read."""


@cache
def modules() -> dict[str, Path]:
    """Dotted name -> file, generated code and the copied plug-in left out."""
    found = {}
    for path in sorted(ROOT.glob("diana/**/*.py")):
        if "pb" in path.parts or "plugins" in path.parts:
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node, however deep; never what is within an expression, where no import can stand."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for one in getattr(node, name, ()):
            yield one
            yield from statements(one)


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of ours that a file imports anywhere: at the top, in a function, for its types only."""
    found = set()
    for node in statements(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found |= {name} if name in known else {node.module} & known.keys()
    return found


def graph(known: dict[str, Path]) -> networkx.DiGraph:
    out = networkx.DiGraph()
    out.add_nodes_from(known)
    out.add_edges_from((name, other) for name, path in known.items() for other in imported(path, known) - {name})
    return out


def circles(known: dict[str, Path]) -> list[list[str]]:
    return [sorted(part) for part in networkx.strongly_connected_components(graph(known)) if len(part) > 1]


def test_imports_make_no_circle_not_even_for_types() -> None:
    assert not circles(modules())


@pytest.mark.parametrize(
    "where",
    [
        "def f():\n    {}",
        "try:\n    pass\nexcept OSError:\n    {}\n",
        "match 1:\n  case 1:\n    {}",
        "class A:\n  if 1: pass\n  else: {}",
    ],
)
def test_a_circle_of_types_alone_is_found(tmp_path: Path, where: str) -> None:
    (tmp_path / "one.py").write_text("if TYPE_CHECKING:\n    from diana.two import B\n")
    (tmp_path / "two.py").write_text(where.format("from diana import one"))
    two = {f"diana.{name}": tmp_path / f"{name}.py" for name in ("one", "two")}
    assert circles(two) == [["diana.one", "diana.two"]]


def packages() -> list[Path]:
    return sorted(path.parent for path in modules().values() if path.name == "__init__.py")


def test_no_room_holds_more_than_twenty_modules() -> None:
    crowded = {
        str(room.relative_to(ROOT)): count
        for room in packages()
        if (count := sum(1 for path in room.glob("*.py") if path.name != "__init__.py")) > MOST_MODULES
    }
    assert not crowded


def test_no_file_is_longer_than_one_idea() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in [*ROOT.glob("diana/**/*.py"), *ROOT.glob("tests/**/*.py")]
        if "pb" not in path.parts and (lines := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert not long


MIRRORED_ROOMS = "engine node policy sim"
PAPER = Path("tests/sim/paper")
"""The one folder of tests there that is named after a source, not a room: the paper's figures cross all rooms."""


def test_tests_stand_in_the_room_they_are_about() -> None:
    folders = [folder for half in MIRRORED_ROOMS.split() for folder in (ROOT / "tests" / half).iterdir()]
    rooms = {f.relative_to(ROOT) for f in folders if f.is_dir() and any(f.glob("test_*.py"))} - {PAPER}
    assert rooms, "no folder of tests was found"
    assert not [room for room in rooms if not (ROOT / "diana" / room.relative_to("tests")).is_dir()]
    # A test beside the rooms is about a module beside the rooms.
    flat = [path for path in (ROOT / "tests").glob("*/test_*.py") if path.parent.name in MIRRORED_ROOMS.split()]
    assert {path.name for path in flat} == {"test_availability.py", "test_blackhole.py", "test_log_files.py"}


@pytest.mark.parametrize("room", packages(), ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_says_at_its_door_what_it_is_for_and_what_to_read_first(room: Path) -> None:
    said = ast.get_docstring(parsed(room / "__init__.py")) or ""
    assert len(said) >= LEAST_PARAGRAPH, said
    named = re.findall(r"`([\w/]+\.py)`", said)
    assert named, "names no file to read first"
    assert all((room / name).is_file() for name in named), named


PROTOCOLS = "Beat Forget HeldRuns Hello Kill LetGo Order Recall Refused Welcome"
"""Words of several protocols: spawner, machine, peer and replica say the same thing to others, each in its own form."""
MIRRORED = "Decision JobError OutputFile PlannedPart SiteCost"
"""Client messages in another shape than the values that journal and peers keep (`docs/decisions/client.md`)."""
MACHINES = "Received Tick"
"""Events of both state machines, the site's and its replicas'."""
PICKLED = "Outcome"
"""`client.calls` pickles its own by that name, and results of calls outlive releases."""


def test_a_class_name_means_one_thing() -> None:
    where: dict[str, set[str]] = {}
    for name, path in modules().items():
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, set()).add(name)
    doubled = {kind: sorted(found) for kind, found in where.items() if len(found) > 1}
    known = set(f"{PROTOCOLS} {MIRRORED} {MACHINES} {PICKLED}".split())
    assert not {kind: found for kind, found in doubled.items() if kind not in known}
    assert not known - doubled.keys(), "named once: strike them off"


def test_drivers_reach_the_engine_through_its_face_alone() -> None:
    inside = [
        f"{name}:{node.lineno}"
        for name, path in modules().items()
        if name.startswith(("diana.node.", "diana.sim."))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr == "core"
    ]
    assert not inside
