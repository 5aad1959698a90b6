"""Programs of HTCondor where the machine's own release has none: those of a later Debian, in a tree of their own.

They are got by the machine's own apt from the archive it uses, with lists and cache apart; nothing is installed.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

RELEASE = "trixie"
_PACKAGES = (
    *("condor", "base-files", "dash", "coreutils", "util-linux", "mount", "hostname", "sed", "grep", "findutils"),
    *("debianutils", "libc-bin", "procps"),
)
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_PASSWD = """\
root:x:0:0:root:/root:/bin/sh
someone:x:1000:1000:someone:/tmp:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/sh
"""
_GROUP = "root:x:0:\nsomeone:x:1000:\nnogroup:x:65534:\n"


def make(tree: Path, scratch: Path) -> None:
    """Fills `tree`; some 60 MB come over the network."""
    for folder in ("lists/partial", "archives/partial"):
        (scratch / folder).mkdir(parents=True)
    (scratch / "status").touch()
    (scratch / "sources").write_text(f"deb [signed-by={_KEYS}] {_archive()} {RELEASE} main\n")
    (scratch / "conf").write_text(
        f'Dir::State "{scratch}";\nDir::State::status "{scratch}/status";\nDir::Cache "{scratch}";\n'
        f'Dir::Cache::archives "{scratch}/archives";\nDir::State::lists "{scratch}/lists";\n'
        f'Dir::Etc::sourcelist "{scratch}/sources";\nDir::Etc::sourceparts "-";\nAPT::Sandbox::User "root";\n'
    )
    apt = ["apt-get", "-y", "-qq", "--no-install-recommends"]
    _run([*apt, "update"], APT_CONFIG=str(scratch / "conf"))
    _run([*apt, "--download-only", "install", *_PACKAGES], APT_CONFIG=str(scratch / "conf"))
    packages = sorted(
        (scratch / "archives").glob("*.deb"), key=lambda path: (not path.name.startswith("base-files"), path)
    )
    for package in packages:
        _run(["dpkg-deb", "-x", str(package), str(tree)])
    (tree / "etc" / "passwd").write_text(_PASSWD)
    (tree / "etc" / "group").write_text(_GROUP)
    # Asks no name server.
    (tree / "etc" / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
    (tree / "etc" / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n")


def _archive() -> str:
    """Where this machine gets Debian's packages from."""
    said = _run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages", "Origin: Debian"])
    found = [line for line in said.splitlines() if line.rstrip("/").endswith("/debian")]
    assert found, "apt of this machine knows no archive of Debian: HTCondor's programs come from there"
    return found[0]


def _run(argv: list[str], **more: str) -> str:
    done = subprocess.run(argv, env={**os.environ, **more}, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr.strip()[-500:]}"
    return done.stdout
