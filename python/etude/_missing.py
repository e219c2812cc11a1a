# SPDX-License-Identifier: Apache-2.0
"""Errors of an import that fails before the library is there."""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys

# The libraries that libetude.so needs from the system, and the packages of Debian that have them. A wheel does not
# hold them: it is built on the machine that it is for.
PACKAGES = {
    "libdnnl": "libdnnl-dev",
    "libfmt": "libfmt-dev",
    "libpng": "libpng-dev",
    "libtbb": "libtbb-dev",
    "libz": "zlib1g-dev",
    "libOpenCL": "ocl-icd-opencl-dev",
}


def explained(error: ImportError) -> ImportError:
    """The same error with the next step."""
    text = str(error)
    if match := re.match(r"(lib\w+?)[\d.\-]*\.so[\w.]*: cannot open shared object file", text):
        package = PACKAGES.get(match[1])
        advice = f"install it: apt-get install {package}" if package else "install the package that has it"
        return ImportError(f"etude: {text}. The library was built against it; {advice}")
    if "_core" not in text:
        return error
    folder = os.path.dirname(os.path.abspath(__file__))
    built = [name for name in os.listdir(folder) if name.startswith("_core.") and name.endswith(".so")]
    if not built:
        return ImportError(
            f"etude: {folder} has the sources of the package, but not its compiled module. Leave the folder python/, "
            "and use a wheel (pip install .) or ./dev python"
        )
    if any(name == "_core" + suffix for name in built for suffix in importlib.machinery.EXTENSION_SUFFIXES):
        return ImportError(f"etude: {text}. The installation is damaged. Install the package again: pip install --force-reinstall .")
    version = ".".join(map(str, sys.version_info[:2]))
    return ImportError(
        f"etude: the module {built[0]} was not built for this Python, {version}. Install the package with this Python: "
        "pip install ."
    )
