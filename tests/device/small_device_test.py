#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""small_device_test.py COMPILER SOURCE INCLUDE...: the spline program, for a small device and for this machine.

Static and stripped it takes at most 1 MB; on an ARM64 processor (built by the cross compiler, run by QEMU) it prints
what it prints here. 77 if the cross compiler or QEMU is not installed.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CROSS, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
FLAGS = ["-std=c++20", "-O2", "-static", "-s", "-ffp-contract=off", "-ffunction-sections", "-Wl,--gc-sections"]
MOST_BYTES = 1 << 20


def main():
    compiler, source, *includes = sys.argv[1:]
    missing = [tool for tool in (CROSS, EMULATOR) if not shutil.which(tool)]
    if missing:
        print("not run: " + " and ".join(missing) + " missing (Debian: g++-aarch64-linux-gnu, qemu-user)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        here, there = pathlib.Path(folder) / "here", pathlib.Path(folder) / "there"
        for tool, binary in ((compiler, here), (CROSS, there)):
            subprocess.run([tool, *FLAGS, *(f"-I{path}" for path in includes), source, "-o", binary], check=True)
            size = os.path.getsize(binary)
            print(f"{tool}: {size:,} bytes")
            if size > MOST_BYTES:
                return f"more than {MOST_BYTES:,} bytes"
        ours = subprocess.run([here], capture_output=True, text=True, check=True).stdout
        theirs = subprocess.run([EMULATOR, there], capture_output=True, text=True, check=True).stdout
    print(ours)
    return None if ours == theirs else "on ARM64 it prints\n" + theirs


if __name__ == "__main__":
    sys.exit(main())
