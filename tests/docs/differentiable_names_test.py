#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""differentiable_names_test.py ROOT: docs/differentiable.md names all that the headers of etude/diff give to users."""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from names_test import blank, names_in, statements  # noqa: E402

NOT_ON_THE_PAGE = {
    "Active": "Real is its name for users", "Dual": "what a function is called with",
    "value_of": "for code that is called with both", "Signatures": "part of ETUDE_DIFFERENTIABLE",
    "CustomGradient": "what custom_gradient gives", "RuledFunction": "what differentiable<&f> is",
    "WithAux": "what with_aux gives", "NewState": "what stands for a LayerState in a tangent",
    "unfreeze": "beside freeze", "is_differentiable_layer": "for layers of tensors", "reciprocal": "of leafwise",
}


def main():
    page = (ROOT / "docs/differentiable.md").read_text()
    headers = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "etude/diff").rglob("*.h")
                     if path.name != "scalar_expect.h")  # for tests
    names = {name.split("::")[-1] for header in headers for name in names_in(header)}
    for header in headers:  # what stands behind a requirement
        for spaces, head in statements(blank((ROOT / header).read_text())):
            if "etude" in spaces[-1:]:
                names.update(re.findall(r"\bauto (\w+)\(", head))
    faults = [f"{known} is not found in the headers: this test reads them wrongly"
              for known in ("gradient", "jacobian", "hvp", "scan", "move", "Freezable") if known not in names]
    faults += [f"docs/differentiable.md does not name {name}" for name in sorted(names)
               if name not in NOT_ON_THE_PAGE and not re.search(rf"\b{name}\b", page)]
    faults += [f"{name} is excused, but no header gives it" for name in NOT_ON_THE_PAGE if name not in names]
    print(f"{len(names)} names of {len(headers)} headers")
    return "\n".join(faults) or None


if __name__ == "__main__":
    sys.exit(main())
