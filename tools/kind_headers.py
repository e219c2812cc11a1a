# SPDX-License-Identifier: Apache-2.0
"""Reads classes, functions and option structs with their comments from the headers of nn, optim and data, as kinds of
etude/kinds/ need them: for tools/check_kinds.py and tools/generate/gen_kind_docs.py.

Understands clang-formatted declarations of the library's own style, not C++.
"""
import dataclasses
import re

import check_common as common

FOLDERS = ("etude/nn/", "etude/optim/", "etude/data/")
OPS = "etude/ops.h"
COMMENT = re.compile(r"(?:^[ \t]*//[^\n]*\n)+", re.M)
MADE = {"Metric": "metric", "Schedule": "schedule", "Callback": "callback", "Initializer": "initializer",
        "Transform": "transform", "ConvNet": "layer", "TextEncoder": "layer", "TextDecoder": "layer",
        "LBFGSResult": "minimizer"}


@dataclasses.dataclass
class Declared:
    name: str  # "nn.Dense"
    group: str  # of kinds::Group
    doc: str
    parameters: list  # [(type, name, default or None)] without options and `where`
    options: str  # "nn.DenseOptions", or ""
    where: str  # "etude/nn/layers/layers.h:42"


def sentence(comment):
    """The text of comment lines, without the lines of an example."""
    lines = [re.sub(r"^\s*//", "", line) for line in comment.strip().split("\n")]
    lines = [line for line in lines if not line.startswith("   ")]
    return re.sub(r"\s+", " ", " ".join(lines)).strip()


def split_list(text):
    """The parts of a list at its commas, outside of brackets."""
    parts, depth, last, quoted = [], 0, "", False
    for char in text:
        quoted ^= char == '"'
        depth += (char in "<({[") - (char in ">)}]")
        if char == "," and depth == 0 and not quoted:
            parts.append(last)
            last = ""
        else:
            last += char
    return [part.strip() for part in parts + [last] if part.strip()]


def parameter(text):
    """(type, name, default) of a declared parameter; the default is None without one."""
    declared, _, default = text.partition(" = ")
    match = re.match(r"(.*?)(\w+)$", declared.strip(), re.S)
    kind = re.sub(r"\bconst\b|[&\s]|std::", "", match.group(1))
    return kind, match.group(2), default.strip() or None


def closing(text, at):
    """The index after the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "({[") - (text[i] in ")}]")
        if depth == 0:
            return i + 1
    raise ValueError(f"no end of {text[at:at + 40]}")


def comment_before(text, at):
    """The comment lines directly above the line of `at`, past `template <...>`."""
    start = text.rfind("\n", 0, at) + 1
    lines = text[:start].split("\n")[:-1]
    while lines and re.match(r"\s*(template <.*>|requires.*)$", lines[-1]):
        lines.pop()
    found = []
    while lines and lines[-1].lstrip().startswith("//"):
        found.insert(0, lines.pop())
    return sentence("\n".join(found)) if found else ""


def space_of(text, at):
    """The namespace at `at`, "nn.metrics"; None inside of `internal`."""
    stack = []
    for match in re.finditer(r"^namespace (?:ETUDE_API )?(\w+) \{|^\}  // namespace (\w+)", text[:at], re.M):
        if match.group(1):
            stack.append(match.group(1))
        else:
            stack.pop()
    if "internal" in stack:
        return None
    return ".".join(name for name in stack if name != "etude")


def is_options(kind):
    return kind.endswith("Options") or kind in ("Monitored",)


def signature(text, open_at, space):
    """(parameters, options) of a parenthesised list."""
    parts = [parameter(part) for part in split_list(text[open_at + 1:closing(text, open_at) - 1])
             if " " in part and not part.startswith("CallSite")]
    options = [kind for kind, _, _ in parts if is_options(kind)]
    name = (options[0].replace("::", ".") if options else "")
    if name and "." not in name and space:
        name = f"{space}.{name}"
    return [part for part in parts if not is_options(part[0])], name


def classes(path, text):
    """Layers, cells, optimisers, classes of metrics and of data."""
    aliases = {}
    for name, base in re.findall(r"^using (\w+) = (\w+)<\d>;", text, re.M):
        aliases.setdefault(base, []).append(name)
    for match in re.finditer(r"^(?:template <(.*)>\n)?class (\w+)(?: : public ([\w:<>, ]+))? \{", text, re.M):
        arguments, name, base = match.groups()
        space = space_of(text, match.start())
        body = text[match.end() - 1:closing(text, match.end() - 1)]
        if space is None or path == "etude/nn/layer.h":
            continue
        called = re.search(r"Tensor operator\(\)\((?:const Tensor& |const Columns& )|State operator\(\)\(", body)
        if base and ("OptimizerWith" in base or base == "Adam"):
            group = "optimizer"
        elif path == "etude/nn/metrics/metrics.h":
            group = "metric"
        elif space == "data":
            group = "dataset"
        elif space.startswith("nn") and called and "ETUDE_FIELDS(" in body:
            group = "cell" if name.endswith("Cell") else "layer"
        else:
            continue
        made = re.search(rf"^ +(?:explicit )?{name}\(", body, re.M)
        parts, options = signature(body, made.end() - 1, space) if made else ([], "")
        line = text.count("\n", 0, match.start()) + 1
        doc = comment_before(text, match.start(2))
        for each in aliases.get(name, [name]):
            yield Declared(f"{space}.{each}", group, doc, parts, options, f"{path}:{line}")


def functions(path, text):
    """Losses, functions that make metrics, schedules, callbacks, initialisers, transforms and models, and minimisers."""
    for match in re.finditer(rf"^(?:inline )?(Tensor|{'|'.join(MADE)}) (\w+)\(", text, re.M):
        result, name = match.groups()
        space = space_of(text, match.start())
        if not space:
            continue
        parts, options = signature(text, match.end() - 1, space)
        group = MADE.get(result)
        if result == "Tensor":
            kinds = [kind for kind, _, _ in parts]
            is_loss = path.startswith("etude/nn/losses/") or name.endswith("_cross_entropy")
            if path == "etude/nn/init.h" and kinds == ["Shape"]:
                group, parts = "initializer", []
            elif is_loss and kinds[:2] == ["Arg", "Arg"] and space == "nn":
                group, parts = "loss", [part for part in parts[2:] if part[0] != "Tensor"]
            elif kinds == ["Arg"] and space == "nn":
                group, parts = "activation", []
        if group:
            line = text.count("\n", 0, match.start()) + 1
            yield Declared(f"{space}.{name}", group, comment_before(text, match.start()), parts, options, f"{path}:{line}")


def shared_comments(found, texts):
    """A function without a comment has that of the function above it."""
    for before, after in zip(found, found[1:]):
        path, line = after.where.split(":")
        above = texts[path].split("\n")[int(line) - 2] if path in texts else ""
        if not after.doc and after.group == before.group and above.strip():
            after.doc = before.doc


def structs(path, text):
    """{struct: [(field, doc)]} of option structs and records, with the doc of the struct itself under ""."""
    for match in re.finditer(r"^struct (\w+) \{\n", text, re.M):
        space = space_of(text, match.start())
        if space is None:
            continue
        body = text[match.end():closing(text, match.end() - 2) - 1]
        body = re.split(r"\n\n|^ +static |^ +bool operator", body, maxsplit=1, flags=re.M)[0]
        fields, pending = [("", comment_before(text, match.start()))], []
        for line in body.split("\n"):
            code, _, comment = line.partition("//")
            if not code.strip():
                if comment:
                    pending.append(comment)
                    if len(code) > 4 and fields[-1][2:] == (True,):  # goes on from the line above
                        fields[-1] = (fields[-1][0], fields[-1][1] + " " + comment.strip(), True)
                        pending = []
                continue
            names = re.findall(r"(\w+)(?: = [^,;]*(?:\{[^}]*\})?[^,;]*)?[,;]", re.sub(r"\{[^}]*\}", "{}", code))
            doc = sentence("//" + comment) if comment else sentence("\n".join("//" + p for p in pending) if pending else "")
            for name in names:
                fields.append((name, doc, bool(comment)))
            pending = []
        yield f"{space}.{match.group(1)}", {field[0]: field[1] for field in fields}


def borrowed(texts):
    """Activations that `using etude::tanh;` brings into nn."""
    for path, text in texts.items():
        for name in re.findall(r"^using etude::(\w+);", text, re.M):
            found = re.search(rf"^(?:inline )?Tensor {name}\(const Arg& x\)", texts[OPS], re.M)
            if found:
                yield Declared(f"nn.{name}", "activation", comment_before(texts[OPS], found.start()), [], "", path)


def read():
    """(list of Declared, {struct: {field: doc}}) of all headers."""
    paths = sorted(path for path in common.installed_headers()
                   if path.startswith(FOLDERS) and "/internal/" not in path and ".." not in path)
    texts = {path: common.read(path) for path in [*paths, OPS]}
    declared, fields = [], {}
    for path, text in texts.items():
        declared += list(classes(path, text)) if path != OPS else []
        found = list(functions(path, text))
        shared_comments(found, texts)
        declared += found
        fields.update(structs(path, text))
    return declared + list(borrowed(texts)), fields


def rows():
    """{kind: file} of the rows in etude/kinds/."""
    found = {}
    for path in common.files():
        if re.fullmatch(r"etude/kinds/\w+_rows\.cc", path):
            names = re.findall(r'(?:(?<!\bcell_of)\(|,)\s*"((?:nn|optim)\.[\w.]+)"', common.read(path))
        elif path == "etude/kinds/initializer_names.h":
            names = re.findall(r'\{"(nn\.\w+)", nn::', common.read(path))
        else:
            continue
        found.update((name, path) for name in names)
    return found


def self_test():
    text = ("namespace ETUDE_API etude {\nnamespace nn {\n\nstruct AOptions {\n  bool bias = true;  // added\n"
            "                     // at the end\n  // Of the\n  // weight.\n  double x = 1, y = 2;\n  IntList z = {};\n\n"
            "  static constexpr void ranges(const auto& o) {\n  }\n};\n// A layer.\n//\n//   A a(3);\nclass A {\n public:\n"
            "  A(int64_t in, std::string mode = \"a,b\", const AOptions& options = {},\n    CallSite where = CallSite::here());\n"
            "  Tensor operator()(const Tensor& x) const;\n  ETUDE_FIELDS(A, w);\n};\n"
            "// A loss.\nTensor a_loss(const Arg& p, const Arg& e, const AOptions& options = {});\n"
            "Tensor b_loss(const Arg& p, const Arg& e, const AOptions& options = {});\n"
            "namespace internal {\nclass B {\n};\n}  // namespace internal\n}  // namespace nn\n}\n")
    path = "etude/nn/losses/a.h"
    assert dict(structs(path, text))["nn.AOptions"] == {
        "": "", "bias": "added at the end", "x": "Of the weight.", "y": "Of the weight.", "z": ""}
    made = list(classes(path, text))
    assert [(d.name, d.group, d.doc, d.options) for d in made] == [("nn.A", "layer", "A layer.", "nn.AOptions")]
    assert made[0].parameters == [("int64_t", "in", None), ("string", "mode", '"a,b"')], made[0].parameters
    losses = list(functions(path, text))
    shared_comments(losses, {path: text})
    assert [(d.name, d.doc) for d in losses] == [("nn.a_loss", "A loss."), ("nn.b_loss", "A loss.")]
