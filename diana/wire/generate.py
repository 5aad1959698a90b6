"""Makes `diana/wire/pb/` from `proto/`; it is kept in the repository, so that a checkout runs without protoc and
reviews see its changes.

`python -m diana.wire.generate` writes it; with `--check` it only says which files are stale (exit code 1).
Needs the development package grpcio-tools; nothing at run time imports this module.
"""

from __future__ import annotations

import importlib.resources
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "proto"
PB = ROOT / "diana" / "wire" / "pb"

STUBS = ("data", "enrol", "relay", "subgrid")
"""Files of proto/diana/v1 whose services are called and served through gRPC's generated code. The others' methods are
named where they are called."""

_INIT = '"""Generated from proto/ by `python -m diana.wire.generate`. Do not edit."""\n'
_IMPORT = re.compile(r"^from diana\.v1 import", re.MULTILINE)


def generated() -> dict[str, str]:
    """Generate the files: name below `diana/wire/pb/` -> text. RuntimeError when protoc refuses the definitions."""
    from grpc_tools import protoc  # type: ignore[import-untyped]

    sources = sorted(str(p.relative_to(PROTO)) for p in PROTO.glob("diana/v1/*.proto"))
    stubs = [f"diana/v1/{name}.proto" for name in STUBS]
    includes = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as scratch:
        messages = [f"--python_out={scratch}", f"--pyi_out={scratch}", *sources]
        for order in (messages, [f"--grpc_python_out={scratch}", *stubs]):
            if protoc.main(["protoc", f"-I{PROTO}", f"-I{includes}", *order]):
                raise RuntimeError(f"protoc refused {', '.join(sources)}: see its message above")
        out = {"__init__.py": _INIT}
        for path in sorted(Path(scratch, "diana", "v1").iterdir()):
            # protoc derives imports from the proto path; ours live inside the package.
            out[path.name] = _IMPORT.sub("from diana.wire.pb import", path.read_text())
    return out


def stale() -> list[str]:
    """Names of files below `diana/wire/pb/` that differ from those generated now."""
    want = generated()
    have = {p.name: p.read_text() for p in PB.iterdir() if p.suffix in (".py", ".pyi")}
    return sorted(name for name in want.keys() | have.keys() if want.get(name) != have.get(name))


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        names = stale()
        if names:
            print(f"diana/wire/pb: {', '.join(names)} stale; run python -m diana.wire.generate", file=sys.stderr)
        return 1 if names else 0
    PB.mkdir(exist_ok=True)
    want = generated()
    for name, text in want.items():
        (PB / name).write_text(text)
    for path in PB.iterdir():
        if path.suffix in (".py", ".pyi") and path.name not in want:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
