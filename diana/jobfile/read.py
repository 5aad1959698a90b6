"""Reading a job file's bytes into plain data. Syntax errors name the line where the format's reader tells it."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import msgspec
import yaml

from diana.bounds import MOST_JOB_FILE_BYTES, TOO_DEEP, deep_key
from diana.errors import UsageError
from diana.jobfile.nesting import check_events

FORMATS = ("toml", "yaml", "json", "script")


def read_text(content: bytes, source: str) -> str:
    if len(content) > MOST_JOB_FILE_BYTES:
        raise UsageError(
            f"{source}: {len(content) >> 20} MiB; put rows into a CSV file named by sweep.from (at most 64 MiB)"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(f"{source}: line {line}: not UTF-8 text; save the file as UTF-8") from None


def read_data(content: bytes, format: str, source: str) -> dict[str, Any]:
    """Return the top-level table of a toml, yaml or json file."""
    text = read_text(content, source)
    read = {"toml": _toml, "yaml": _yaml, "json": _json}[format]
    data = read(text, source)
    if data is None:
        raise UsageError(f"{source}: empty; a job file needs at least [group] with a command")
    if not isinstance(data, dict):
        raise UsageError(f"{source}: want a table of keys (group, sweep, ...) at the top; got a {type(data).__name__}")
    return data


def _toml(text: str, source: str) -> Any:
    if why := deep_key(text):
        raise UsageError(f"{source}: {why}")
    try:
        return tomllib.loads(text) or None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source}: {_toml_place(str(error), text)}; mend the TOML there") from None
    except RecursionError:
        raise UsageError(f"{source}: {TOO_DEEP}") from None
    except ValueError:
        # Python converts no longer ones, and tells no line.
        raise UsageError(f"{source}: a number of more than 4,300 digits; write it shorter, or as text") from None


def _toml_place(error: str, text: str) -> str:
    """`Invalid value (at line 3, column 8)` -> `line 3, column 8: Invalid value`."""
    what, found, place = error.rpartition(" (at ")
    if not found:
        return error
    place = place.rstrip(")")
    if place == "end of document":
        place = f"line {len(text.splitlines())}, at its end"
    return f"{place}: {what}"


def _json(text: str, source: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        pass
    except RecursionError:
        raise UsageError(f"{source}: {TOO_DEEP}") from None
    # This parser is slower, but tells the line.
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{source}: line {error.lineno}, column {error.colno}: {error.msg}; mend the JSON there"
        ) from None
    except RecursionError:
        raise UsageError(f"{source}: {TOO_DEEP}") from None
    except ValueError:
        pass
    raise UsageError(f"{source}: no JSON that can be read; mend it")


class _Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """Refuses a key written twice, which plain YAML readers take silently."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                if key_node.value in seen:
                    mark = key_node.start_mark
                    raise yaml.MarkedYAMLError(problem=f"key {key_node.value!r} is written twice", problem_mark=mark)
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _yaml(text: str, source: str) -> Any:
    loader = None
    try:
        check_events(text, _Loader)
        loader = _Loader(text)
        return loader.get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "no YAML that can be read"
        raise UsageError(f"{source}: {place}{what}; mend the YAML there") from None
    except (RecursionError, ValueError, OverflowError):
        raise UsageError(f"{source}: no YAML that can be read; mend it") from None
    finally:
        if loader is not None:
            loader.dispose()
