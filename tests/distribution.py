"""A release as its users get it: built twice from what git knows, looked through, installed and tried. Nothing is
uploaded.

`python -m tests.distribution` (`make release`) leaves the files in dist/ once all of it is as it should be, and prints
a row for each Python that was tried. `--python PATH` tries that one alone, `--dirty` takes a tree with changes too.
"""

from __future__ import annotations

import argparse
import email
import email.message
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from diana import __version__
from diana.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[1]
NAME = "diana-grid"
OLDEST = (3, 11)
LEFT_OUT = ("diana/workflows/plugins/",)
"""Folders of diana/ that the wheel has elsewhere, or not."""
_STEP_S = 300
_OURS = ("PYTHONPATH", "VIRTUAL_ENV", "DIANA_DATA", "PYTHONDONTWRITEBYTECODE")


class Broken(Exception):
    """The release is not as it should be."""


class Built(NamedTuple):
    sdist: Path
    wheel: Path


def run(words: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """Standard output; Broken with the end of what it said where it fails. Variables that name a checkout are unset."""
    environment = {name: text for name, text in os.environ.items() if name not in _OURS} | variables
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_STEP_S,
        check=False,
    )
    if done.returncode:
        raise Broken(f"{' '.join(map(str, words))}: exit code {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def known() -> list[str]:
    """Files that git knows and that are there."""
    names = run(["git", "ls-files", "-z"], ROOT).split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


def copy_of_tree(folder: Path) -> Path:
    for name in known():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(tree: Path, out: Path, *targets: str) -> list[Path]:
    """The files made of this tree, dated as its last commit."""
    epoch = run(["git", "log", "-1", "--format=%ct"], ROOT).strip()
    words = [word for target in targets for word in ("--target", target)]
    made = out / "made"
    run(
        [sys.executable, "-P", "-m", "hatchling", "build", "--directory", made, *words],
        tree,
        SOURCE_DATE_EPOCH=epoch,
        PYTHONDONTWRITEBYTECODE="1",
    )
    return sorted(made.iterdir())


def build_twice(folder: Path) -> Built:
    """Build from a copy of the tree, and the wheel once more from the source distribution; Broken unless both builds
    are the same, byte for byte."""
    first = build(copy_of_tree(folder / "one" / "tree"), folder / "one", "sdist", "wheel")
    (wheel,) = [path for path in first if path.suffix == ".whl"]
    (sdist,) = [path for path in first if path.suffix == ".gz"]
    with tarfile.open(sdist) as archive:
        # Python before 3.11.4 has no filters, and the archive is ours.
        archive.extractall(folder / "two", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    (unpacked,) = (folder / "two").iterdir()
    again = build(unpacked, folder / "three", "sdist", "wheel")
    differs = [a.name for a, b in zip(first, again, strict=True) if a.read_bytes() != b.read_bytes()]
    if differs:
        raise Broken(f"not the same when built once more, from the source distribution: {', '.join(differs)}")
    return Built(sdist, wheel)


def metadata(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def look_through(built: Built) -> Iterator[str]:
    """Faults of the files, a line each."""
    stem = f"{NAME.replace('-', '_')}-{__version__}"
    if (built.wheel.name, built.sdist.name) != (f"{stem}-py3-none-any.whl", f"{stem}.tar.gz"):
        yield f"names: {built.wheel.name} and {built.sdist.name}"
    told = metadata(built.wheel)
    wanted = {"Name": NAME, "Version": __version__, "License-Expression": "Apache-2.0", "License-File": "LICENSE"}
    yield from (f"metadata: {key} is {told[key]!r}" for key, value in wanted.items() if told[key] != value)
    if told["Requires-Python"] != f">={OLDEST[0]}.{OLDEST[1]}":
        yield f"metadata: Requires-Python is {told['Requires-Python']!r}"
    if told["Description-Content-Type"] != "text/markdown":
        yield "metadata: the long description is no Markdown"
    page = str(told.get_payload())
    dead = re.findall(r"\]\((?!https?:|#)[^)]*\)", page)
    if dead or len(page) < 1000:
        yield f"the long description has {len(page)} characters and links that lead nowhere: {dead}"
    with zipfile.ZipFile(built.wheel) as archive:
        there = set(archive.namelist())
    yield from (f"the wheel lacks {name}" for name in sorted(wanted_in_wheel(stem) - there))
    strangers = {name.partition("/")[0] for name in there} - {
        "diana",
        "snakemake_executor_plugin_diana",
        f"{stem}.data",
        f"{stem}.dist-info",
    }
    yield from (f"the wheel has {name}" for name in sorted(strangers))


def wanted_in_wheel(stem: str) -> set[str]:
    """All files of diana/, scenarios, definitions of messages, manual pages, the command and the licence."""
    pages = ["diana.1", *(f"diana-{verb}.1" for verb in VERBS)]
    wanted = {f"{stem}.data/data/share/man/man1/{page}" for page in pages}
    wanted |= {f"{stem}.dist-info/{name}" for name in ("entry_points.txt", "licenses/LICENSE")}
    for name in known():
        if name.startswith("diana/") and not name.startswith(LEFT_OUT):
            wanted.add(name)
        elif name.startswith(("scenarios/", "proto/diana/")):
            wanted.add(f"diana/{name}")
    return wanted


def pythons() -> dict[str, str]:
    """Version -> path of each Python here that is new enough and makes environments, one of each version."""
    asked = "import sys, ensurepip, venv; print('%d.%d.%d' % sys.version_info[:3])"
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    places = [Path("/usr/bin"), Path("/usr/local/bin"), *sorted(kept.glob("*/bin"))]
    candidates = [str(place / f"python3.{minor}") for place in places for minor in range(OLDEST[1], 30)]
    found = dict[str, str]()
    for path in [*candidates, getattr(sys, "_base_executable", sys.executable)]:
        with suppress(OSError, subprocess.CalledProcessError):
            said = subprocess.run([path, "-I", "-c", asked], capture_output=True, text=True, check=True, timeout=60)
            found.setdefault(said.stdout.strip(), path)
    return {version: found[version] for version in sorted(found, key=lambda v: [int(part) for part in v.split(".")])}


def tried(python: str, wheel: Path, folder: Path) -> list[tuple[str, float]]:
    """Install the wheel in an environment of this Python that has nothing else and use it as a user does; seconds of
    each step. Broken at the first thing that is not as it should be."""
    steps = list[tuple[str, float]]()
    begun_s = time.monotonic()

    def step(name: str) -> None:
        nonlocal begun_s
        steps.append((name, time.monotonic() - begun_s))
        begun_s = time.monotonic()

    bare, data = folder / "bare", str(folder / "site")
    run([python, "-m", "venv", bare], folder)
    run([bare / "bin" / "python", "-m", "pip", "install", "--quiet", wheel], folder)
    run([bare / "bin" / "python", "-m", "pip", "check"], folder)
    step("install")
    diana = bare / "bin" / "diana"

    def says(wanted: str, *words: str) -> None:
        if wanted not in (out := run([diana, *words], folder, HOME=str(folder))):
            raise Broken(f"diana {' '.join(words)}: {wanted!r} is not in {out[-500:]!r}")

    says(f"diana {__version__}", "--version")
    says("complete", "completion", "bash")
    if not (bare / "share" / "man" / "man1" / "diana-submit.1").is_file():
        raise Broken("there is no manual page share/man/man1/diana-submit.1")
    says("site alpha of alpha-vo made", "init", "alpha", "--data", data, "--root-jobs")
    says("ExecStart=" + str(diana), "service", "install", "--print", "--data", data)
    says("the node runs, process ", "node", "--detach", "--no-zeroconf", "--data", data)
    try:
        step("start")
        group = ("submit", "--data", data, "--wait", "--", "echo", "{x}", ":::", "1", "2", "3")
        says("alpha-1: done, 3 of 3 jobs done", *group)
        says("2\n", "logs", "--data", data, "alpha-1.1")
        says("http://", "dashboard", "--data", data, "--json")
        step("group")
    finally:
        says("alpha: stopping", "stop", "--data", data)
    says("jobs", "simulate", "two-sites")
    step("simulate")
    return steps


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.distribution")
    parser.add_argument("--python", action="append", metavar="PATH", help="try this one; may be repeated")
    parser.add_argument("--dirty", action="store_true", help="take a tree with changes")
    args = parser.parse_args(argv)
    if (changes := run(["git", "status", "--porcelain"], ROOT)) and not args.dirty:
        print(f"release: the checkout has changes; commit them, or say --dirty:\n{changes}", end="", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="diana-release-") as name:
        folder = Path(name)
        try:
            built = build_twice(folder)
        except Broken as fault:
            print(f"release: {fault}", file=sys.stderr)
            return 1
        wrong = list(look_through(built))
        rows = [["PYTHON", "RESULT", "STEPS"]]
        chosen = {path: path for path in args.python} if args.python else pythons()
        for version, python in chosen.items():
            place = folder / version.replace("/", "_")
            place.mkdir()
            try:
                steps = tried(python, built.wheel, place)
                rows.append([version, "ok", ", ".join(f"{step} {took_s:.1f} s" for step, took_s in steps)])
            except (Broken, subprocess.TimeoutExpired) as fault:
                wrong.append(f"{version} ({python}): {fault}")
                rows.append([version, "FAILED", python])
        print(table(rows))
        for line in wrong:
            print(f"release: {line}", file=sys.stderr)
        if wrong:
            return 1
        dist = ROOT / "dist"
        dist.mkdir(exist_ok=True)
        for path in built:
            shutil.copy(path, dist)
            print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  dist/{path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
