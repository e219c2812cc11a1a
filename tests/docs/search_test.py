#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""search_test.py ROOT NODE: what the first three results of the documentation site lead to, for words that users ask for.

NODE runs tools/site_search.js as a browser does, over the index of the guides.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "tools"))
import site_search  # noqa: E402

WANTED = {
    "save": "save_and_load", "load": "save_and_load", "freeze": "fine_tuning", "nan": "debugging",
    "thread": "reproducibility", "seed": "reproducibility", "dropout": "training_loops", "checkpoint": "data",
    "write a layer": "layers", "clip": "training_loops", "mixed precision": "mixed_precision",
    "bfloat16": "mixed_precision", "install": "install", "cmake": "install", "pytorch": "coming_from",
    "compiling": "what_compiling_costs", "ETUDE_TIER": "graphs", "qwertyuiop": None,
}
RUN = """
const {search} = require(process.argv[1]);
const [index, queries] = JSON.parse(require("fs").readFileSync(0));
console.log(JSON.stringify(queries.map((query) => search(index, query, 3))));
"""


def main():
    pages = {f"guides/{path.stem}.md": path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
    index = [row for path, text in pages.items() for row in site_search.rows_of(path, text)]
    run = subprocess.run([sys.argv[2], "-e", RUN, str(ROOT / "tools/site_search.js")], input=json.dumps([index, list(WANTED)]),
                         capture_output=True, text=True)
    if run.returncode:
        return run.stderr
    faults = []
    for (query, page), rows in zip(WANTED.items(), json.loads(run.stdout)):
        found = [row[0].partition("#")[0] for row in rows]
        if f"guides/{page}.html" not in found if page else found:
            faults.append(f"'{query}' leads to {found}, and not to {page}")
    print(f"{len(WANTED)} queries over {len(index)} sections")
    return "\n".join(faults) or None


if __name__ == "__main__":
    sys.exit(main())
