#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the C interface and writes what the Python package knows of it: generate.py INCLUDE_DIR TABLES_CPP STUB_PYI

Structs, fields, defaults, enums and comments stand once, in include/fovea; the binding's tables, docstrings and type stubs
are made from them. The tables name sizes, offsets and constants by their C names, so that the compiler checks them.
"""
import dataclasses
import pathlib
import re
import runpy
import sys

HEADERS = ["core.h", "kv.h", "page_pool.h", "params.h"]
SCALARS = {"int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "float": "f32", "double": "f64"}
HIDDEN_FIELDS = {"struct_size", "pool"}  # a pool of Python threads would serve nobody
HIDDEN_STRUCTS = {"tensor", "thread_pool", "exec", "page_copy"}
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)


@dataclasses.dataclass
class Field:
    name: str
    kind: str
    count: int = 1
    default: str = ""
    enum: str = ""
    struct: str = ""
    count_field: str = ""
    doc: str = ""


@dataclasses.dataclass
class Struct:
    name: str
    doc: str
    fields: list


@dataclasses.dataclass
class Enum:
    name: str
    values: list  # (python name, C name)


def tidy(comment):
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip().splitlines()]
    return " ".join(line for line in lines if line)


def camel(name):
    return "".join(word.capitalize() for word in name.split("_"))


def rows(path, macro):
    for match in re.finditer(rf"^{macro}\((.*)\)$", path.read_text(), re.M):
        yield [part.strip() for part in re.findall(r'\s*("[^"]*"|[^,]+)', match.group(1))]


def read_enum(name, body, include):
    names = []
    table = re.search(r"#define (\w+)\(([^)]*)\) (\w*)##NAME = value,\s*#include \"fovea/([\w.]+)\"", body)
    if table:
        macro, arguments, prefix, file = table.groups()
        at = [a.strip() for a in arguments.split(",")].index("NAME")
        names += [prefix + row[at] for row in rows(include / file, macro)]
        body = body[: table.start()]
    names = re.findall(r"\b(FOVEA_\w+) =", COMMENT.sub("", body)) + names
    own = "FOVEA_" + name.upper() + "_"
    stems = [n.removeprefix(own).removeprefix("FOVEA_") for n in names]
    words = [stem.split("_") for stem in stems]
    shared = 0
    while all(len(w) > shared + 1 for w in words) and len({w[shared] for w in words}) == 1:
        shared += 1
    return Enum(name, [("_".join(w[shared:]).lower(), n) for w, n in zip(words, names)])


def read_field(declaration, comment, enums):
    match = re.fullmatch(r"(const )?([\w ]+?)(\s*\*)?\s*\b(\w+)(?:\[(\w+)\])?\s*(?:FOVEA_DEFAULT\((.*)\))?",
                         " ".join(declaration.split()))
    _, base, pointer, name, count, default = match.groups()
    base = base.strip()
    field = Field(name, "", default=default or "", doc=tidy(comment))
    first = re.match(r"\[?(\w+)", field.doc)
    field.count_field = first.group(1) if pointer and first else ""
    if pointer and base == "void":
        field.kind = "address"
    elif base == "char":
        field.kind = "text" if pointer else "chars"
    elif pointer and base == "float":
        field.kind, field.count_field = "floats", ""
    elif base == "fovea_tensor":
        field.kind = "tensors" if pointer else "tensor"
    elif base.startswith("fovea_"):
        field.kind, field.struct = ("pointer" if pointer else "nested"), base.removeprefix("fovea_")
    else:
        field.kind = SCALARS[base]
        field.count = int(count) if count else 1
        by_default = [e.name for e in enums if default in [c for _, c in e.values]]
        by_comment = re.match(r"(?:CUDA: )?fovea_(\w+)", field.doc)
        if by_default:
            field.enum = by_default[0]
        elif by_comment and by_comment.group(1) in [e.name for e in enums]:
            field.enum = by_comment.group(1)
        elif name.endswith("_dtype"):
            field.enum = "dtype"
    return field


def read_struct(name, doc, body, enums):
    fields, end = [], 0
    for match in re.finditer(r"/\*.*?\*/|[^;/]+;", body, re.S):
        text = match.group()
        if text.startswith("/*"):
            if fields and "\n" not in body[end : match.start()]:
                fields[-1] = (fields[-1][0], text[2:-2])
        else:
            fields.append((text[:-1], ""))
            end = match.end()
    read = [read_field(declaration, comment, enums) for declaration, comment in fields]
    names = {field.name for field in read}
    for field in read:
        field.count_field = field.count_field if field.count_field in names else ""
    return Struct(name, tidy(doc), [field for field in read if field.name not in HIDDEN_FIELDS])


def read(include):
    """(enums, structs, operations) of the interface; a struct's doc is the comment right before it."""
    text = "\n".join((include / file).read_text() for file in HEADERS)
    enums = [read_enum(m.group(1), m.group(2), include)
             for m in re.finditer(r"typedef enum fovea_(\w+) \{(.*?)\} fovea_\w+;", text, re.S)]
    structs = []
    for match in re.finditer(r"(?:/\*((?:(?!\*/).)*)\*/\n)?typedef struct fovea_(\w+) \{(.*?)\n\} fovea_\w+;", text, re.S):
        if match.group(2) not in HIDDEN_STRUCTS:
            structs.append(read_struct(match.group(2), match.group(1) or "", match.group(3), enums))
    operations = [(row[0], row[4].strip('"')) for row in rows(include / "operations.def", "FOVEA_OP")]
    return enums, structs, operations


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def tables(enums, structs):
    yield "// Generated from include/fovea by python/tools/generate.py."
    yield '#include "tables.h"\n\nnamespace fovea::python {\n'
    enum_at = {e.name: i for i, e in enumerate(enums)}
    struct_at = {s.name: i for i, s in enumerate(structs)}
    for e in enums:
        yield f"static const EnumValue kValues_{e.name}[] = {{"
        yield from (f"    {{{quoted(name)}, {constant}}}," for name, constant in e.values)
        yield "};"
    yield "const Enum kEnums[] = {"
    yield from (f"    {{{quoted(camel(e.name))}, kValues_{e.name}, std::size(kValues_{e.name})}}," for e in enums)
    yield "};\nconst size_t kEnumCount = std::size(kEnums);\n"
    for s in structs:
        at = {field.name: i for i, field in enumerate(s.fields)}
        yield f"static const Field kFields_{s.name}[] = {{"
        for f in s.fields:
            row = [quoted(f.name), f"Kind::{f.kind}", f"offsetof(fovea_{s.name}, {f.name})", f.count, enum_at.get(f.enum, -1),
                   struct_at.get(f.struct, -1), at.get(f.count_field, -1), quoted(f.doc)]
            yield f"    {{{', '.join(map(str, row))}}},"
        yield "};"
    yield "const Struct kStructs[] = {"
    for s in structs:
        row = [quoted(s.name), f"sizeof(fovea_{s.name})", f"kFields_{s.name}", f"std::size(kFields_{s.name})",
               f"[](void* at) {{ ::new (at) fovea_{s.name}{{}}; }}", quoted(s.doc)]
        yield f"    {{{', '.join(row)}}},"
    yield "};\nconst size_t kStructCount = std::size(kStructs);\n\n}  // namespace fovea::python"


ANNOTATIONS = {"i32": "int", "u32": "int", "i64": "int", "u64": "int", "f32": "float", "f64": "float", "text": "str",
               "address": "int", "floats": "Sequence[float]", "tensor": "Any", "tensors": "Sequence[Any]"}


def annotation(field):
    if field.enum:
        return f"{camel(field.enum)} | str"
    if field.count > 1:
        return "Sequence[int]"
    if field.struct == "kv_side":
        return "KvSide | Any"
    if field.struct:
        many = " | Sequence[Kv]" if field.count_field else ""
        return camel(field.struct) + (many or " | dict[str, Any]")
    return ANNOTATIONS[field.kind]


def stub(enums, structs, operations, calls, head):
    yield head
    for e in enums:
        yield f"class {camel(e.name)}(IntEnum):"
        yield from (f"    {name.upper()} = ..." for name, _ in e.values)
        yield ""
    by_name = {s.name: s for s in structs}
    counts = {(s.name, f.count_field) for s in structs for f in s.fields}
    def arguments(s, leave_out=()):
        return [f"{f.name}: {annotation(f)} | None = None" for f in s.fields
                if f.name not in leave_out and (s.name, f.name) not in counts]
    for s in structs:
        if s.name in ("kv", "kv_side", "kv_stream", "rope_config", "sample_params"):
            extra = ["k_scale: Any = None", "v_scale: Any = None"] if s.name == "kv" else []
            yield f"class {camel(s.name)}:\n    \"\"\"{s.doc}\"\"\""
            yield f"    def __init__(self, *, {', '.join(arguments(s) + extra)}) -> None: ..."
            yield from (f"    {f.name}: Any  # {f.doc}" for f in s.fields if (s.name, f.name) not in counts)
            yield ""
    for name, text in operations:
        s = by_name[f"{name}_params"]
        first = calls[name]
        fields = {f.name: f for f in s.fields}
        lead = [f"{n}: {annotation(fields[n])}" + (" | None" if "absent where" in fields[n].doc else "") for n in first]
        own = [*lead, "*", *arguments(s, first), "stream: Any = None", "context: Context | None = None", "check: bool = False",
               "early: bool = False", "status: Any = None"]
        yield f"def {name}({', '.join(own)}) -> Any:\n    \"\"\"{text}. {s.doc}\"\"\"\n"


def main():
    include, cpp, pyi = map(pathlib.Path, sys.argv[1:])
    package = pathlib.Path(__file__).resolve().parent.parent / "fovea"
    enums, structs, operations = read(include)
    cpp.write_text("\n".join(tables(enums, structs)) + "\n")
    calls = {name: call.inputs for name, call in runpy.run_path(str(package / "_calls.py"))["CALLS"].items()}
    head = (package / "stub_head.pyi").read_text()
    pyi.write_text("\n".join(stub(enums, structs, operations, calls, head)))


if __name__ == "__main__":
    main()
