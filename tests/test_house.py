"""The house itself: what starts fast stays light, and what the repository promises about itself is true."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("asyncio", "grpc", "google.protobuf", "numpy", "networkx", "rich", "sqlite3", "matplotlib", "yaml", "zeroconf")


def imported_by(*words: str) -> set[str]:
    """Modules in the process when `diana WORDS` has ended."""
    program = (
        "import sys\nfrom diana.cli.main import main\n"
        f"main({list(words)!r})\nprint('MODULES', *sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    return set(ended.stderr.rpartition("MODULES ")[2].split())


def test_help_imports_nothing_but_the_table_of_verbs() -> None:
    loaded = imported_by("--help")
    assert not loaded & {*HEAVY, "argparse", "msgspec", "json", "socket"}
    assert {name for name in loaded if name.startswith("diana")} == {"diana", "diana.cli", "diana.cli.main"}


@pytest.mark.parametrize(
    "words",
    [
        ["submit", "--data", "/nowhere", "--array", "1-1000000", "--", "true"],
        ["status", "--data", "/nowhere"],
        ["wait", "--data", "/nowhere", "alpha-1"],
        ["node", "--data", "/nowhere"],
    ],
)
def test_everyday_verbs_import_nothing_heavy(words: list[str]) -> None:
    assert not imported_by(*words) & set(HEAVY)


def test_make_help_lists_every_verb_the_readme_names() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    listed = set(re.findall(r"make ([a-z-]+)", shown))
    assert {"help", "setup", "demo", "test", "check", "bench", "torture", "proto", "lock"} <= listed
    for document in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "ARCHITECTURE.md"):
        # What a closed release tells of itself stays as it was.
        text = (ROOT / document).read_text().partition("\n## [0.1.0]")[0]
        assert set(re.findall(r"`make ([a-z-]+)", text)) <= listed, document


DOCSTRING = re.compile(r'(?:#.*\n|\s)*r?"""\s*\S')


def test_every_module_says_why_it_exists() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in ROOT.glob("diana/**/*.py")
        if "pb" not in path.parts and (text := path.read_text()).strip() and not DOCSTRING.match(text)
    ]
    assert not silent


NEVER = re.compile(
    r"""\b(?:import|from)\ (?:pickle|cloudpickle|marshal|shelve|dill)\b | \bshell\s*=\s*True | \bos\.(?:system|popen)\b
    | \byaml\.(?:load|load_all|unsafe_load|full_load)\( | (?<![\w.])(?:eval|exec)\( | \btarfile\b | \bzipfile\b
    | \bpreexec_fn\b""",
    re.VERBOSE,
)
"""No code from data, no shell (PROMISES 5.16), no archives (5.9), nothing run between fork and exec."""
OWN_CALLS = {
    "diana/client/calls/packing.py": {
        "import cloudpickle",
        "import zipfile",
        'with zipfile.ZipFile(out, "w") as archive, folders as folder:',
    },
    "diana/client/calls/naming.py": {"import cloudpickle"},
    "diana/client/calls/remote.py": {"import pickle", "import cloudpickle"},
}
"""A user's own functions, unpacked in her own jobs, and their results at her own client; nothing of a node. The
archive is written here and unpacked by nobody: Python runs it."""


def test_nothing_unpacks_code_from_data_or_asks_a_shell() -> None:
    found = []
    for path in sorted([*ROOT.glob("diana/**/*.py"), *ROOT.glob("benchmarks/**/*.py")]):
        name = str(path.relative_to(ROOT))
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.partition("  # ")[0]
            if NEVER.search(code) and code.strip() not in OWN_CALLS.get(name, ()):
                found.append(f"{name}:{number}: {line.strip()}")
    assert not found


def test_the_version_is_said_once() -> None:
    from diana import __version__

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == __version__
