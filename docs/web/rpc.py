"""The page of the client service, from the definitions in `proto/` and the comments that stand there.

`python docs/web/rpc.py` prints the page that the build makes. Needs the development package grpcio-tools.
"""

from __future__ import annotations

import importlib.resources
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parents[2] / "proto"
SERVICE = "diana/v1/client.proto"
HEAD = """# RPC service

Made from [`proto/diana/v1/client.proto`](../../proto/diana/v1/client.proto) and what it imports. The service is spoken
over gRPC with mutual TLS at a node's port (a user's credential opens it, see [joining](../joining.md)); the same
messages travel as proto3 JSON over the node's local socket, and are what `--json` prints. Stubs in any language: give
`proto/` to its protoc. Definitions grow and never change: what a release put on the wire is not removed, renumbered or
retyped.
"""
_REPEATED = FieldDescriptorProto.Label.LABEL_REPEATED
_PLAIN = {
    getattr(FieldDescriptorProto, f"TYPE_{name.upper()}"): name
    for name in ("double", "float", "int64", "uint64", "int32", "uint32", "bool", "string", "bytes", "fixed64")
}


def page() -> str:
    files = _described()
    client = next(file for file in files.file if file.name == SERVICE)
    said = {file.name: _comments(file) for file in files.file}
    parts = [HEAD, _paragraph(_syntax_comment(client)), "## Calls\n"]
    for number, service in enumerate(client.service):
        parts += ["| call | takes | gives | |", "| --- | --- | --- | --- |"]
        for place, method in enumerate(service.method):
            takes = f"{'stream of ' if method.client_streaming else ''}{_link(method.input_type)}"
            gives = f"{'stream of ' if method.server_streaming else ''}{_link(method.output_type)}"
            about = said[client.name].get((6, number, 2, place), "")
            parts.append(f"| `{service.name}.{method.name}` | {takes} | {gives} | {_cell(about)} |")
    parts.append("\n## Messages\n")
    for file in sorted(files.file, key=lambda file: file.name != SERVICE):
        for number, message in enumerate(file.message_type):
            parts += _message(file, message, (4, number), said[file.name])
    for file in files.file:
        for number, enum in enumerate(file.enum_type):
            parts.append(f"### {enum.name}\n\n{_paragraph(said[file.name].get((5, number), ''))}")
            parts += [f"- `{value.name}` = {value.number}" for value in enum.value] + [""]
    return "\n".join(parts)


def _described() -> FileDescriptorSet:
    """The definitions with their comments. RuntimeError when protoc refuses them."""
    includes = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "set")
        words = [f"-I{PROTO}", f"-I{includes}", "--include_imports", "--include_source_info"]
        if protoc.main(["protoc", *words, f"--descriptor_set_out={out}", SERVICE]):
            raise RuntimeError(f"protoc refused {SERVICE}: see its message above")
        return FileDescriptorSet.FromString(out.read_bytes())


def _comments(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    return {
        tuple(place.path): (place.leading_comments or place.trailing_comments).strip()
        for place in file.source_code_info.location
        if place.leading_comments or place.trailing_comments
    }


def _syntax_comment(file: FileDescriptorProto) -> str:
    return next((p.leading_comments for p in file.source_code_info.location if tuple(p.path) == (12,)), "")


def _message(
    file: FileDescriptorProto, message: DescriptorProto, path: tuple[int, ...], said: dict[tuple[int, ...], str]
) -> list[str]:
    parts = [f"### {message.name}", "", _paragraph(said.get(path, ""))]
    if message.field:
        parts += ["| field | type | no. | |", "| --- | --- | --- | --- |"]
    for place, field in enumerate(message.field):
        about = _cell(said.get((*path, 2, place), ""))
        if field.HasField("oneof_index") and not field.proto3_optional:
            about = f"One of `{message.oneof_decl[field.oneof_index].name}`. {about}".strip()
        parts.append(f"| `{field.name}` | {_kind(message, field)} | {field.number} | {about} |")
    parts.append("")
    for place, inner in enumerate(message.nested_type):
        if not inner.options.map_entry:
            parts += _message(file, inner, (*path, 3, place), said)
    return parts


def _kind(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    entry = next(
        (n for n in message.nested_type if n.options.map_entry and field.type_name.endswith(f".{n.name}")), None
    )
    if entry is not None:
        key, value = entry.field
        return f"map of {_kind(entry, key)} to {_kind(entry, value)}"
    kind = _PLAIN.get(field.type) or _link(field.type_name)
    if field.label == _REPEATED:
        return f"list of {kind}"
    return f"optional {kind}" if field.proto3_optional else kind


def _link(type_name: str) -> str:
    name = type_name.rpartition(".")[2]
    return f"[{name}](#{name.lower()})" if type_name.startswith(".diana.") else name


def _paragraph(text: str) -> str:
    return f"{' '.join(text.split())}\n" if text.strip() else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page())
