"""`[package]`: a program of the user's own, with a build for each kind of machine and a model of its run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import structs

from diana.jobfile.parsed import SentFile
from diana.jobfile.raw import RawJob
from diana.model.job.software import MOST_BUILDS, is_build
from diana.model.job.spec import GroupSpec, InputFile, build_path
from diana.policy.grads.gang_model import mapped_items
from diana.policy.grads.models import EquationModel, model_values
from diana.policy.requirements.names import Value

PLUG_IN = "plugin"
"""Key that names an installed model in place of equations."""
LEARNED = "learned"
"""Key that asks for a model by past runs."""
AskModel = Callable[[str, Mapping[str, Value]], Mapping[str, str]]
"""The equations of an installed model, by name and by the group's own values. ValueError: one line."""


def program(raw: RawJob, first_word: str) -> str:
    """Return the name of the build in a job's directory; empty: there is no package. ValueError names the key."""
    if not raw.package.builds:
        if raw.package.program:
            raise ValueError("package.program: there are no builds; name them in package.builds, or leave it out")
        return ""
    name = raw.package.program or first_word.removeprefix("./")
    key = "package.program" if raw.package.program else "group.command"
    if not is_build(name):
        raise ValueError(
            f"{key}: {name[:60]!r}: want the plain name of the build, such as ./sim; or say package.program"
        )
    return name


def with_model(spec: GroupSpec, raw: RawJob, ask: AskModel) -> GroupSpec:
    """Return the spec with its model: the equations as written, or those of the plug-in that is named. ValueError names
    the key."""
    written = raw.package.model
    if LEARNED in written:
        if written != {LEARNED: True}:
            raise ValueError(f"package.model.{LEARNED}: want true, and nothing beside it")
        found = structs.replace(spec, learned=True)
        mapped_items(found)
        return found
    if wrong := next((name for name, text in written.items() if isinstance(text, bool)), ""):
        raise ValueError(f"package.model.{wrong}: want an equation, in quotes")
    equations = {name: str(text) for name, text in written.items()}
    if PLUG_IN in equations:
        if len(equations) > 1:
            raise ValueError(f"package.model.{PLUG_IN}: written beside equations; keep one of them")
        try:
            equations = dict(ask(equations[PLUG_IN], model_values(spec)))
        except ValueError as error:
            raise ValueError(f"package.model.{PLUG_IN}: {error}") from None
    found = structs.replace(spec, model=tuple((name, text.strip()) for name, text in equations.items()))
    EquationModel(found)
    mapped_items(found)
    return found


def no_models(name: str, values: Mapping[str, Value]) -> Mapping[str, str]:
    """Know no plug-in."""
    raise ValueError(f"{name[:60]!r} is no model that is installed here")


def builds(raw: RawJob, name: str, files: Mapping[str, SentFile]) -> tuple[InputFile, ...]:
    """Return the builds as inputs, by platform. ValueError names the key."""
    if len(raw.package.builds) > MOST_BUILDS:
        raise ValueError(f"package.builds: names {len(raw.package.builds)}; want at most {MOST_BUILDS}")
    out = []
    for platform, path in sorted(raw.package.builds.items()):
        if not is_build(platform):
            raise ValueError(
                f"package.builds.{platform[:60]}: no platform; write it as `uname -m` does, such as x86_64"
            )
        if not path or path.endswith("/"):
            raise ValueError(f"package.builds.{platform}: {path!r} is no file; name the program built for it")
        sent = files.get(path)
        source, size = (f"blob:{sent.sha256}", sent.size_bytes) if sent is not None else (f"blob:{'0' * 64}", 0)
        there = build_path(platform, name)
        out.append(InputFile(source=source, path=there, size_bytes=size, executable=True))
    return tuple(out)
