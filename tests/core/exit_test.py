#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exit_test.py objects BINARY...: no static object has a destructor that runs at the end of the process.
exit_test.py runs PROGRAM: main returns while a detached thread works, and the process ends well.
exit_test.py plugin LIBRARY: so does a bare Python that has opened and closed a plug-in with such a thread.

Another thread may be in the middle of a call when static objects are destroyed. So what has a destructor and is
static is a Permanent (etude/base/permanent.h). The first part reads the disassembly, since such an object asks
__cxa_atexit for its destructor; the second runs the program detached_thread. That has no large products: oneDNN frees
the code of its own at the end, whoever runs it.
"""
import _ctypes
import ctypes
import re
import subprocess
import sys
import time

WORKS = ["large", "gradient", "tape", "staged", "calls", "fit", "lazy", "random", "error", "freeze"]
WAITS_MS = [0, 3, 10, 30, 60]
TURNS = 2
PLUGIN_WORKS = ["staged", "calls", "large", "lazy"]
# Functions that are asked to run at the end, on purpose: std::atexit.
ALLOWED = {"atexit"}


def registering(listing):
    """Names of functions that ask for a destructor at the end of the process, in a disassembly."""
    found, name = set(), None
    for line in listing:
        head = re.match(r"[0-9a-f]+ <(.+)>:$", line)
        if head:
            name = head[1]
        elif re.search(r"<__cxa_atexit(@plt)?>$", line.rstrip()) and name not in ALLOWED:
            found.add(name)
    return found - {"__cxa_atexit@plt"}


def self_test():
    lines = ["0000 <f()>:", "  1:\tcall   2 <g()>", "0010 <table()>:", "  11:\tcall   20 <__cxa_atexit@plt>",
             "0030 <atexit>:", "  31:\tjmp    20 <__cxa_atexit@plt>", "0040 <_GLOBAL__sub_I_kRows>:",
             "  41:\tjmp    20 <__cxa_atexit>"]
    assert registering(lines) == {"table()", "_GLOBAL__sub_I_kRows"}


def objects(binaries):
    faults = []
    for binary in binaries:
        with subprocess.Popen(["objdump", "-d", "-C", "--no-show-raw-insn", binary], stdout=subprocess.PIPE,
                              text=True) as process:
            faults += [f"{binary}: {name}" for name in sorted(registering(process.stdout))]
        if process.returncode != 0:
            return "objdump failed"
    if faults:
        return "\n".join(["static objects that are destroyed at the end; make each a Permanent:", *faults])
    return None


def runs(command, works):
    faults = []
    for work in works:
        for wait in WAITS_MS * TURNS:
            done = subprocess.run([*command, work, str(wait)], capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                faults.append(f"{work}, {wait} ms: exit status {done.returncode} {done.stderr[-500:]}")
    return "\n".join(faults) or None


def open_and_close(plugin, work, wait_ms):
    """Run in a bare Python: the thread works on while the plug-in is closed, and while the process ends."""
    opened = ctypes.CDLL(plugin)
    opened.start_detached(work.encode())
    time.sleep(int(wait_ms) / 2000)
    _ctypes.dlclose(opened._handle)
    time.sleep(int(wait_ms) / 2000)


def main():
    self_test()
    what, first, *more = sys.argv[1:]
    if what == "objects":
        return objects([first, *more])
    if what == "runs":
        return runs([first], WORKS)
    if what == "plugin":
        return runs([sys.executable, "-I", __file__, "open", first], PLUGIN_WORKS)
    return open_and_close(first, *more)


if __name__ == "__main__":
    sys.exit(main())
