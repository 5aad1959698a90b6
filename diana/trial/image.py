"""The container image of a node, made from the source tree this package lies in.

The Dockerfile's base image is pulled where that is possible. Where it is not, the same is made by debootstrap from the
mirror this machine's own packages come from; Python packages are brought along as wheels, since a build may see no
network at all.

    python -m diana.trial.image        makes it and prints its name
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from diana.errors import DianaError, Unreachable, UsageError

TREE = Path(__file__).parents[2]
NAME = "diana"
PULL_S = 60.0
MAKE_S = 900.0
_BASE_HAS = "python3,python3-venv,python3-pip,iproute2,iptables,ca-certificates,procps"
_LOCK = "requirements.lock"
_COPIED = ("Dockerfile", _LOCK, "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
_FOLDERS = ("diana", "proto", "scenarios")

Tell = Callable[[str], None]


def image(tell: Tell) -> str:
    """The name of an image of this source tree, made now unless it is there. UsageError where docker cannot be used."""
    if not all((TREE / name).is_file() for name in _COPIED):
        raise UsageError(f"{TREE}: not the project's own folder, which the image is made of; run diana from a checkout")
    _ask_docker()
    name = f"{NAME}:{_digest()}"
    if not _is_there(name):
        base = _base_name()
        if not _is_there(base) and not _pulled(base):
            _make_base(base, tell)
        tell(f"building {name}; the first time this takes a minute or two")
        with context(tell) as folder:
            command = ["docker", "build", "--quiet", "--tag", name, "--tag", f"{NAME}:latest", str(folder)]
            run_command(command, MAKE_S, {"DOCKER_BUILDKIT": "0"})
        _forget_older(name)
    return name


def _forget_older(name: str) -> None:
    """Images of earlier source trees that no container is made of; their layers are shared, their number would grow."""
    for other in run_command(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", NAME], 20.0).split():
        if other not in (name, f"{NAME}:latest") and re.fullmatch(rf"{NAME}:[0-9a-f]{{12}}", other):
            with contextlib.suppress(DianaError):
                run_command(["docker", "image", "rm", other], 60.0)


def _ask_docker() -> None:
    if shutil.which("docker") is None:
        raise UsageError("--on compose: no docker on this machine; install docker.io and docker-compose")
    try:
        run_command(["docker", "version", "--format", "{{.Server.Version}}"], 20.0)
    except DianaError as error:
        raise UsageError(f"--on compose: docker does not answer ({error}); start it with: dockerd &") from None


def _digest() -> str:
    """Digest of all that goes into the image, so that another source tree gets another image."""
    found = hashlib.sha256()
    below = (path for name in _FOLDERS for path in sorted((TREE / name).rglob("*")))
    for path in (*(TREE / name for name in _COPIED), *below):
        if path.is_file() and path.suffix != ".pyc":
            found.update(f"{path.relative_to(TREE)}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def _base_name() -> str:
    found = re.search(r"^FROM (\S+)", (TREE / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert found is not None, "the Dockerfile names what it begins with"
    return found[1]


def _is_there(name: str) -> bool:
    done = subprocess.run(["docker", "image", "inspect", name], check=False, capture_output=True)
    return done.returncode == 0


def _pulled(name: str) -> bool:
    with contextlib.suppress(DianaError):
        run_command(["docker", "pull", "--quiet", name], PULL_S)
        return True
    return False


def _make_base(name: str, tell: Tell) -> None:
    """Debian with Python, as the image of this name would be; nothing of it is said but by the mirror in use here."""
    if shutil.which("debootstrap") is None or os.geteuid() != 0:
        raise UsageError(f"--on compose: {name} cannot be pulled; to make it here, install debootstrap and be root")
    mirror, suite = _mirror()
    tell(f"{name} cannot be pulled; making it with debootstrap")
    with tempfile.TemporaryDirectory(prefix="diana-base-") as folder:
        root = Path(folder) / "root"
        run_command(["debootstrap", "--variant=minbase", f"--include={_BASE_HAS}", suite, str(root), mirror], MAKE_S)
        for rubbish in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
            shutil.rmtree(root / rubbish, ignore_errors=True)
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        archive = Path(folder) / "root.tar"
        run_command(["tar", "-C", str(root), "-cf", str(archive), "."], MAKE_S)
        changes = ["--change", path, "--change", "ENV LANG=C.UTF-8", "--change", 'CMD ["python3"]']
        run_command(["docker", "import", *changes, str(archive), name], MAKE_S)


def _mirror() -> tuple[str, str]:
    """The mirror this machine's packages come from, and their release."""
    for path in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        with contextlib.suppress(OSError):
            text = path.read_text("utf-8")
            if found := re.search(r"^URIs:\s*(\S+)", text, re.MULTILINE):
                suite = re.search(r"^Suites:\s*(\S+)", text, re.MULTILINE)
                return found[1], suite[1] if suite else "stable"
            if found := re.search(r"^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)", text, re.MULTILINE):
                return found[1], found[2]
    raise UsageError("--on compose: no Debian mirror in /etc/apt; pull the image that the Dockerfile names by hand")


@contextlib.contextmanager
def context(tell: Tell) -> Iterator[Path]:
    """A build context with wheels of all that a node needs; without them it says why, and the build fetches."""
    with tempfile.TemporaryDirectory(prefix="diana-image-") as folder:
        root = Path(folder)
        for name in _COPIED:
            shutil.copy(TREE / name, root / name)
        for name in _FOLDERS:
            shutil.copytree(TREE / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        try:
            shutil.copytree(_wheels(root / _LOCK, tell), root / "wheels")
        except DianaError as error:
            tell(f"the packages could not be brought along ({error}); the build fetches them by itself")
        yield root


def _wheels(lock: Path, tell: Tell) -> Path:
    """Kept from build to build: an image of the next commit wants the same ones. Unreachable where pip gets not all."""
    if sys.version_info[:2] != (3, 11):
        raise Unreachable(f"they would be for this Python, {platform.python_version()}, not for the 3.11 of the image")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = cache / "diana-wheels" / hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    if not kept.is_dir():
        tell("downloading the pinned packages")
        whole = ["--only-binary", ":all:", "--require-hashes", "-r", str(lock)]
        with tempfile.TemporaryDirectory(prefix="diana-wheels-") as folder:
            fetched = Path(folder) / "wheels"
            command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "-d", str(fetched)]
            run_command([*command, *whole], MAKE_S)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(fetched, kept)
    return kept


def run_command(command: Sequence[str], within_s: float, more: dict[str, str] | None = None) -> str:
    """Run the command; returns its standard output. Unreachable, with the last line of its complaint, where it fails or
    takes long."""
    words = 4 if "-m" in command[1:2] else 2
    called = " ".join([Path(command[0]).name, *command[1:words]])
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(more or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=within_s,
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{called} did not end within {within_s:g} s") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Unreachable(f"{called}: {' '.join(last) or f'exit code {done.returncode}'}")
    return done.stdout


if __name__ == "__main__":
    try:
        print(image(lambda line: print(line, file=sys.stderr, flush=True)))
    except DianaError as fault:
        print(f"diana: {fault}", file=sys.stderr)
        sys.exit(fault.exit_code)
