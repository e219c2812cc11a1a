#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""load_test.py LIBRARY: a process that runs already can open the library, as Python's import and plug-in hosts do.

The library's thread-local variables lie in the static block of the process (initial-exec), in which the C library sets
little aside for what is opened later, for all such libraries together. So the block of ours is small.

Opening it does not open oneDNN or LAPACK, which take longer to load than all else: the first call that needs them does.
"""
import _ctypes
import ctypes
import pathlib
import struct
import subprocess
import sys
import threading

MOST_BYTES = 256
OPENED_LATER = ("libdnnl", "libopenblas", "liblapack")
PT_DYNAMIC = 2
PT_TLS = 7
DT_FLAGS_1 = 0x6FFFFFFB
DF_1_NODELETE = 8


def segment(library, kind):
    """Offset and size in the file, and size in memory, of the first segment of a kind in a 64-bit ELF file."""
    data = pathlib.Path(library).read_bytes()
    if data[:5] != b"\x7fELF\x02":
        sys.exit(f"{library}: not a 64-bit ELF file")
    (first,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    for i in range(count):
        at = first + i * size
        if struct.unpack_from("<I", data, at)[0] == kind:
            offset, = struct.unpack_from("<Q", data, at + 8)
            return offset, *struct.unpack_from("<QQ", data, at + 32)
    return 0, 0, 0


def thread_local_bytes(library):
    """The size of the thread-local block that the program header asks for."""
    return segment(library, PT_TLS)[2]


def stays(library):
    """Whether the library is linked to stay loaded when it is closed."""
    offset, size, _ = segment(library, PT_DYNAMIC)
    data = pathlib.Path(library).read_bytes()
    entries = struct.iter_unpack("<QQ", data[offset:offset + size])
    return any(tag == DT_FLAGS_1 and value & DF_1_NODELETE for tag, value in entries)


def open_library(library):
    """Opens it, and asks it something that needs its state."""
    opened = ctypes.CDLL(library)
    version = opened._ZN5etude7versionEv  # etude::version()
    version.restype = ctypes.c_char_p
    assert version().count(b".") == 2, version()
    return opened


def open_in_threads(library):
    """Two threads that are there before the library open it at once; it is closed, and opened again."""
    faults, both = [], threading.Barrier(2)

    def work():
        try:
            both.wait()
            for _ in range(2):
                _ctypes.dlclose(open_library(library)._handle)
        except Exception as fault:  # told by the main thread
            faults.append(repr(fault))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened = open_library(library)
    mapped = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")
    _ctypes.dlclose(opened._handle)  # the last handle
    if "libetude" not in pathlib.Path("/proc/self/maps").read_text(encoding="utf-8"):
        faults.append("a closed library is unmapped, under threads of its own that may still run")
    return faults + [f"{name} is loaded at the start" for name in OPENED_LATER if name in mapped]


def main():
    if sys.argv[1] == "--open":
        return "\n".join(open_in_threads(sys.argv[2])) or None
    library = sys.argv[1]
    size = thread_local_bytes(library)
    if not 0 < size <= MOST_BYTES:
        return f"{library}: {size} bytes of thread-local storage, for at most {MOST_BYTES}. Rare state is a ThreadObject"
    if not stays(library):
        return f"{library}: linked without -z nodelete. Its threads, and threads in a call, run on after a dlclose()"
    # Without this process's settings: a bare Python has loaded nothing of ours.
    done = subprocess.run([sys.executable, "-I", __file__, "--open", library], capture_output=True, text=True,
                          timeout=120, check=False)
    return None if done.returncode == 0 else f"a bare Python cannot open it:\n{done.stdout}{done.stderr}"


if __name__ == "__main__":
    sys.exit(main())
