#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""site.py DOCGEN FOLDER: the documentation site as Markdown, with mkdocs.yml, in FOLDER.

DOCGEN is the program that writes the pages of ops. Pages of the repository keep their texts; a link to a file that
is on the site leads there, one to any other file of the repository shows its path. A link to a file that is not
there is an error: it is printed, and the exit status is 1. `./dev docs` then runs MkDocs on FOLDER. The search of the
site is site_search.py and site_search.js.
"""
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys

import check_common as common
import site_headers
import site_search

GUIDES = {"install": "Install and use", "python_tour": "Python in ten minutes",
          "python": "Python", "tours": "Tours", "values": "Values",
          "functions": "Staged functions", "python_programs": "Programs in Python",
          "python_control_flow": "Control flow in Python", "python_training": "Training in Python", "graphs": "Graphs", "lazy": "Lazy tensors",
          "compiler": "What the compiler did",
          "what_compiling_costs": "What compiling costs", "batches": "Batches: vmap",
          "differentiable": "Derivatives of plain C++", "tensors_and_numbers": "Tensors and numbers",
          "training": "Training", "training_loops": "Train and evaluate by hand", "mixed_precision": "Mixed precision",
          "devices": "Devices", "layers": "Write a layer", "structures": "Structures at run time", "kinds": "Layers by name",
          "save_and_load": "Save and load", "saved_functions": "Save a model with its code", "onnx/use_a_model": "Use an ONNX model",
          "export/other_forms": "Convert a saved function",
          "serving/serve": "Serve a model",
          "fine_tuning": "Freeze and fine-tune",
          "debugging": "Find what is wrong", "reproducibility": "Threads, seeds and equal bits",
          "data": "Data and files", "profiling": "Profiling", "ahead_of_time": "Ahead of time",
          "environment": "Environment variables", "array_api": "The Array API",
          "coming_from": "Coming from PyTorch, JAX, TensorFlow",
          "coming_from_python": "The same in Python",
          "coming_from_numbers": "Coming from autodiff, CppAD, Enzyme", "swift_forms": "Coming from Swift"}
WIDE = ("coming_from", "coming_from_python", "coming_from_numbers", "swift_forms")  # whose tables take the place of their contents
FOLDERS = ("core", "ops", "nn", "optim", "data", "io", "kinds", "saved", "onnx", "stablehlo", "autodiff", "stage", "parts", "variables", "lazy", "eager", "diff", "graph", "passes", "device", "codegen", "base")
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class Site:
    """Pages by their path on the site, and which file of the repository each of them shows."""

    def __init__(self):
        self.pages, self.shows, self.faults, self.nav = {}, {}, [], []

    def add(self, path, text, shows=None):
        self.pages[path] = text
        if shows:
            self.shows[shows] = path
        return path

    def add_file(self, source, path):
        return self.add(path, common.read(source), source)

    def relink(self, path, text, source):
        """The links of `source` as they are from the page `path`."""
        def replaced(match):
            picture, label, target = match.groups()
            if re.match(r"[a-z]+:|#", target):
                return match[0]
            name, _, anchor = target.partition("#")
            file = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
            if not os.path.exists(os.path.join(common.ROOT, file)):
                self.faults.append(f"{source}: there is no file {file}, which [{label}]({target}) leads to")
                return match[0]
            if picture:
                return f"![{label}]({posixpath.relpath('files/' + file, posixpath.dirname(path))})"
            if file not in self.shows:
                return f"{label} (`{file}`)" if label != file else f"`{file}`"
            there = posixpath.relpath(self.shows[file], posixpath.dirname(path))
            return f"[{label}]({there}{'#' + anchor if anchor else ''})"

        parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
        return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def example_pages(site):
    """A page with the source of each program that docs/examples.md leads to."""
    for _, label, target in LINK.findall(common.read("docs/examples.md")):
        if target.endswith(".cc"):
            source = posixpath.normpath(posixpath.join("docs", target))
            code = common.read(source).split("\n", 1)[1]
            site.add(f"examples/{label}.md", f"# {label}\n\n`{source}`\n\n```cpp\n{code}```\n", source)


def header_pages(site):
    """[{folder: [{header: page}]}] of the installed headers that declare something for users."""
    nav = []
    headers = sorted(posixpath.normpath(h) for h in common.installed_headers() if "/internal/" not in h)
    for folder in FOLDERS:
        inside = [h for h in headers if h.startswith(f"etude/{folder}/")]
        pages = [{posixpath.relpath(h, f"etude/{folder}"):
                  site.add(f"reference/{h.removesuffix('.h')}.md", site_headers.page(h, common.read(h)), h)} for h in inside]
        if pages:
            nav.append({f"{folder}/": pages})
    return nav


def lost_guides(site):
    """What is wrong with the pages of docs/: each is on the site, and docs/README.md leads to it."""
    leads_to = {target.partition("#")[0] for _, _, target in LINK.findall(common.read("docs/README.md"))}
    for path in common.files():
        if re.fullmatch(r"docs/[^/]+\.md", path):
            if path not in site.shows:
                yield f"{path} is not on the site; add it to GUIDES in tools/site.py"
            if path != "docs/README.md" and os.path.basename(path) not in leads_to:
                yield f"docs/README.md does not lead to {path}; add a question that it answers"


def kind_pages(site, folder):
    """[{group: page}] of the layers, optimisers, ... that kinds::make knows."""
    pages = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            pages.append({name.removesuffix(".md"): site.add(f"reference/kinds/{name}", file.read())})
    return pages


def gather(ops):
    site = Site()
    home = site.add_file("README.md", "index.md")
    questions = site.add_file("docs/README.md", "guides/index.md")
    guides = [questions] + [{title: site.add_file(f"docs/{name}.md", f"guides/{name}.md")} for name, title in GUIDES.items()]
    examples = site.add_file("docs/examples.md", "examples/index.md")
    example_pages(site)
    pages_of_ops = []
    for name in sorted(name for name in os.listdir(ops) if name.endswith(".md")):
        with open(os.path.join(ops, name), encoding="utf-8") as file:
            page = site.add(f"reference/ops/{'index.md' if name == 'README.md' else name}", file.read())
        pages_of_ops.append({"All" if name == "README.md" else name.removesuffix(".md"): page})
    pages_of_kinds = kind_pages(site, os.path.join(ops, "kinds"))
    headers = header_pages(site)
    decisions = [site.add_file(path, f"inside/{os.path.basename(path)}")
                 for path in common.files() if re.match(r"docs/design/\d{4}-.*\.md$", path)]
    inside = [{"Architecture": site.add_file("ARCHITECTURE.md", "inside/architecture.md")},
              {"Contributing": site.add_file("CONTRIBUTING.md", "inside/contributing.md")},
              {"Benchmarks": site.add_file("benchmarks/README.md", "inside/benchmarks.md")},
              {"Rows and tests": site.add_file("tests/ROWS.md", "inside/rows.md")}, {"Decisions": decisions}]
    site.nav = [{"Etude": home}, {"Guides": guides}, {"Examples": examples},
                {"Reference": [{"Ops": pages_of_ops}, {"Kinds": pages_of_kinds}, *headers]}, {"Inside": inside}]
    site.faults += lost_guides(site)
    for name in WIDE:
        site.pages[f"guides/{name}.md"] = "---\nhide: [toc]\n---\n" + site.pages[f"guides/{name}.md"]
    for source, path in site.shows.items():
        if source.endswith(".md"):  # results stand in one column there, which a browser would cut off
            site.pages[path] = re.sub(r" {3,}// == ", "  // == ", site.relink(path, site.pages[path], source))
    return site


def config(site):
    """mkdocs.yml, of which JSON is a part."""
    return json.dumps({
        "site_name": "Etude", "docs_dir": "pages", "site_dir": "html", "use_directory_urls": False,
        "theme": {"name": "material", "font": False,
                  "features": ["navigation.tabs", "navigation.indexes", "navigation.top", "content.code.copy"],
                  "palette": [{"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "indigo"},
                              {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo"}]},
        "markdown_extensions": ["tables", "pymdownx.highlight", "pymdownx.superfences", {"toc": {"permalink": True}}],
        "plugins": [], "extra_javascript": ["site_search.js"], "extra_css": ["site.css"],
        "strict": True, "validation": {"anchors": "warn"}, "nav": site.nav}, indent=1)


def write(site, folder):
    pages = os.path.join(folder, "pages")
    shutil.rmtree(pages, ignore_errors=True)
    for path, text in site.pages.items():
        os.makedirs(os.path.dirname(os.path.join(pages, path)), exist_ok=True)
        with open(os.path.join(pages, path), "w", encoding="utf-8") as file:
            file.write(text)
    for name in ("site_search.js", "site.css"):
        shutil.copy(os.path.join(common.ROOT, "tools", name), os.path.join(pages, name))
    with open(os.path.join(pages, "search_index.js"), "w", encoding="utf-8") as file:
        file.write(site_search.script(site.pages))
    for path in common.files():
        if re.search(r"\.(svg|png)$", path):
            os.makedirs(os.path.dirname(os.path.join(pages, "files", path)), exist_ok=True)
            shutil.copy(os.path.join(common.ROOT, path), os.path.join(pages, "files", path))
    with open(os.path.join(folder, "mkdocs.yml"), "w", encoding="utf-8") as file:
        file.write(config(site))


def self_test():
    site_headers.self_test()
    site_search.self_test()
    site = Site()
    site.add("guides/values.md", "", "docs/values.md")
    text = ("[v](docs/values.md#x), [n](no/file.md), [c](dev), ![p](benchmarks/against_best.svg)\n"
            "```\n[v](docs/values.md)\n```")
    made = site.relink("index.md", text, "README.md")
    assert made == ("[v](guides/values.md#x), [n](no/file.md), c (`dev`), ![p](files/benchmarks/against_best.svg)\n"
                    "```\n[v](docs/values.md)\n```"), made
    assert len(site.faults) == 1 and "no/file.md" in site.faults[0], site.faults


def main():
    if "--self-test" in sys.argv:
        self_test()
        return 0
    docgen, folder = sys.argv[1:]
    ops = os.path.join(folder, "reference")
    subprocess.run([docgen, ops], check=True)
    site = gather(ops)
    write(site, folder)
    for fault in site.faults:
        print(fault)
    return 1 if site.faults else 0


if __name__ == "__main__":
    sys.exit(main())
