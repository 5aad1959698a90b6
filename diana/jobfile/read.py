"""Reading a job file's bytes into plain data. Syntax errors name the line where the format's reader tells it.

Where jobs get a value as text (swept values, variables, arguments), an unquoted one arrives with the very characters of
the file: `3.10`, `010`, `no`. So the readers give a `Written` for whatever they would turn into something else.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from typing import Any

import msgspec
import yaml

from diana.bounds import MOST_JOB_FILE_BYTES, TOO_DEEP, deep_key
from diana.errors import UsageError
from diana.jobfile.nesting import check_events

FORMATS = ("toml", "yaml", "json", "script")


class Written:
    """A value that is no text, by its spelling and the way to read that."""

    __slots__ = ("read", "text")

    def __init__(self, text: str, read: Callable[[str], Any]) -> None:
        self.text = text
        self.read = read


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
    try:
        data = _placed(read(text, source))
    except RecursionError:
        raise UsageError(f"{source}: {TOO_DEEP}") from None
    if data is None:
        raise UsageError(f"{source}: empty; a job file needs at least [group] with a command")
    if not isinstance(data, dict):
        raise UsageError(f"{source}: want a table of keys (group, sweep, ...) at the top; got a {type(data).__name__}")
    return data


def _placed(data: Any) -> Any:
    """Turn each `Written` into its text where jobs get text, and into its value elsewhere."""
    if not isinstance(data, dict):
        return _values(data)
    out = {}
    for key, value in data.items():
        if key == "group":
            out[key] = [_group(one) for one in value] if isinstance(value, list) else _group(value)
        else:
            out[key] = _in_place(key, value)
    return out


def _group(table: Any) -> Any:
    """The same of a group, with its sections inside it or beside it."""
    return {key: _in_place(key, value) for key, value in table.items()} if isinstance(table, dict) else _values(table)


def _in_place(key: object, value: Any) -> Any:
    if key == "sweep" and isinstance(value, dict):
        return {name: _texts(some) if isinstance(some, list) else _values(some) for name, some in value.items()}
    if (key == "environment" and isinstance(value, dict)) or (key == "arguments" and isinstance(value, list)):
        return _texts(value)
    return _values(value)


def _texts(value: Any) -> Any:
    if isinstance(value, list):
        return [_texts(item) for item in value]
    if isinstance(value, dict):
        return {name: _texts(item) for name, item in value.items()}
    return value.text if type(value) is Written else value


def _values(value: Any) -> Any:
    if isinstance(value, list):
        return [_values(item) for item in value]
    if isinstance(value, dict):
        return {name: _values(item) for name, item in value.items()}
    return value.read(value.text) if type(value) is Written else value


_TOML = re.compile(
    r"""
    "{3}(?:[^"\\]++|\\.|"(?!""))*+"{3,5} | '{3}(?:[^']++|'(?!''))*+'{3,5}
    | "(?:[^"\\\n]++|\\.)*+" | '[^'\n]*+' | \#[^\n]*+
    | ^[ \t]*+\[{1,2}(?:"(?:[^"\\\n]++|\\.)*+"|'[^'\n]*+'|[^][\n"'\#,]++)++\]
    | (?<![^][\s,={}"'\#])
      (?P<bare>\d{4}-\d\d-\d\d[ ]\d\d:[^]\s,}\#]++ | [^][\s,={}"'\#]++)(?![ \t]*+[=.])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
"""The lexical parts of a TOML text that is in order: strings, comments, heads of tables, and bare values. None of these
begins within a word: a long key would be read anew from each of its letters."""
_RESPELT = re.compile(r"[+-]?0[xob]\w+|-0|\+\d[\d_]*|-?\d+_[\d_]+|\d[\d:.-]*[:-].*")
"""Whole numbers that Python writes otherwise, dates and times."""
_MAY_BE_RESPELT = re.compile(r"0[xob]|\+\d|-0|\d_\d|\d-\d|\d:\d")


def _toml_with_spelling(text: str) -> Any:
    """tomllib hands out the spelling of floats alone; so whatever else has several is given to it as one."""
    taken = set(re.findall("e-([0-9]+)", text))
    marker = next(f"e-{k}" for k in range(len(taken) + 1) if str(k) not in taken)
    spellings: list[str] = []

    def marked(found: re.Match[str]) -> str:
        bare = found["bare"]
        if not bare or not _RESPELT.fullmatch(bare):
            return found[0]
        spellings.append(bare)
        return f"{len(spellings) - 1}{marker}"

    def spelt(number: str) -> Written:
        if number.endswith(marker):
            return Written(spellings[int(number.removesuffix(marker))], lambda text: tomllib.loads(f"x = {text}")["x"])
        return Written(number, float)

    # Errors are those of the text as it was written.
    data = tomllib.loads(text, parse_float=lambda number: Written(number, float))
    changed = _TOML.sub(marked, text) if _MAY_BE_RESPELT.search(text) else text
    return tomllib.loads(changed, parse_float=spelt) if spellings else data


def _toml(text: str, source: str) -> Any:
    if why := deep_key(text):
        raise UsageError(f"{source}: {why}")
    try:
        return _toml_with_spelling(text) or None
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


_RESPELT_JSON = re.compile(r"[0-9][.eE]|-0")
"""Marks in a number that Python writes otherwise; whole ones have one spelling."""


MOST_WRITTEN = 4 << 20
"""Characters of a JSON file up to which a key that is written twice is looked for; a longer one is a program's."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise UsageError(f"key {key[:60]!r} is written twice in one object; mend the JSON there")
        out[key] = value
    return out


def _json(text: str, source: str) -> Any:
    try:
        data = msgspec.json.decode(text)
        if len(text) <= MOST_WRITTEN:
            json.loads(text, object_pairs_hook=_once, parse_int=str, parse_float=str)
        if not _RESPELT_JSON.search(text):
            return data
        return json.loads(
            text,
            parse_float=lambda number: Written(number, float),
            parse_int=lambda number: Written(number, int),
        )
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
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
    """Keeps the spelling of values, takes keys as they are written, and refuses a key written twice, which plain YAML
    readers take silently."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                if key_node.value in seen:
                    mark = key_node.start_mark
                    raise yaml.MarkedYAMLError(problem=f"key {key_node.value!r} is written twice", problem_mark=mark)
                seen.add(key_node.value)
        self.flatten_mapping(node)
        node.value = [(_as_key(key_node), value_node) for key_node, value_node in node.value]
        return super().construct_mapping(node, deep)

    def construct_spelt(self, node: Any) -> Any:
        if not node.value:
            return None
        try:
            value = _SPELT[node.tag](self, node)
        except ValueError:
            # It looks like a date or a number, and is none.
            value = node.value
        return Written(node.value, lambda _: value)


def _as_key(node: Any) -> Any:
    # Another node, as an alias may name this one as a value.
    spelt = isinstance(node, yaml.ScalarNode)
    return yaml.ScalarNode(_TEXT, node.value, node.start_mark, node.end_mark) if spelt else node


_TEXT, _MERGE = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
_SPELT: dict[str, Callable[[Any, Any], Any]] = {
    "tag:yaml.org,2002:null": yaml.SafeLoader.construct_yaml_null,
    "tag:yaml.org,2002:bool": yaml.SafeLoader.construct_yaml_bool,
    "tag:yaml.org,2002:int": yaml.SafeLoader.construct_yaml_int,
    "tag:yaml.org,2002:float": yaml.SafeLoader.construct_yaml_float,
    "tag:yaml.org,2002:timestamp": yaml.SafeLoader.construct_yaml_timestamp,
    # A word of its own in YAML 1.1: `=` and `<<`.
    "tag:yaml.org,2002:value": yaml.SafeLoader.construct_yaml_str,
    _MERGE: yaml.SafeLoader.construct_yaml_str,
}
for _tag in _SPELT:
    _Loader.add_constructor(_tag, _Loader.construct_spelt)


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
