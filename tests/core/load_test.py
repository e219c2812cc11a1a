#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""load_test.py LIBRARY: a process that runs already can open the library, as Python's import and plug-in hosts do.

The library's thread-local variables lie in the static block of the process (initial-exec), in which the C library sets
little aside for what is opened later, for all such libraries together. So the block of ours is small. It reads no
thread-local variable of another library, such as those of std::call_once in libstdc++: these would have to be in the
static block as well, which is too late if the process has used the other library, as by an exception.

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
PT_LOAD = 1
PT_DYNAMIC = 2
PT_TLS = 7
DT_FLAGS_1 = 0x6FFFFFFB
DF_1_NODELETE = 8
DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ = 5, 6, 7, 8
STATIC_TLS = {18, 1030}  # R_X86_64_TPOFF64, R_AARCH64_TLS_TPREL: relocations to the static block


def segments(library):
    """(kind, offset in the file, address, size in the file, size in memory) of the segments of a 64-bit ELF file."""
    data = pathlib.Path(library).read_bytes()
    if data[:5] != b"\x7fELF\x02":
        sys.exit(f"{library}: not a 64-bit ELF file")
    (first,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, address, _, in_file, in_memory = struct.unpack_from("<IIQQQQQ", data, first + i * size)
        yield kind, offset, address, in_file, in_memory


def segment(library, kind):
    """Offset and size in the file, and size in memory, of the first segment of a kind."""
    found = ((offset, in_file, in_memory) for k, offset, _, in_file, in_memory in segments(library) if k == kind)
    return next(found, (0, 0, 0))


def thread_local_bytes(library):
    """The size of the thread-local block that the program header asks for."""
    return segment(library, PT_TLS)[2]


def dynamic_entries(library):
    offset, size, _ = segment(library, PT_DYNAMIC)
    return list(struct.iter_unpack("<QQ", pathlib.Path(library).read_bytes()[offset:offset + size]))


def stays(library):
    """Whether the library is linked to stay loaded when it is closed."""
    return any(tag == DT_FLAGS_1 and value & DF_1_NODELETE for tag, value in dynamic_entries(library))


def foreign_thread_locals(library):
    """The thread-local variables of other libraries that have to be in the static block."""
    data, entries = pathlib.Path(library).read_bytes(), dict(dynamic_entries(library))
    loads = [row for row in segments(library) if row[0] == PT_LOAD]

    def place(address):
        return next(offset + address - start for _, offset, start, size, _ in loads if start <= address < start + size)

    names, symbols, rows = (place(entries[tag]) for tag in (DT_STRTAB, DT_SYMTAB, DT_RELA))
    found = set()
    for _, info, _ in struct.iter_unpack("<QQq", data[rows:rows + entries[DT_RELASZ]]):
        name, _, _, section = struct.unpack_from("<IBBH", data, symbols + 24 * (info >> 32))
        if info & 0xFFFFFFFF in STATIC_TLS and info >> 32 and section == 0:  # of no section: undefined here
            begin = names + name
            found.add(data[begin:data.index(b"\0", begin)].decode())
    return sorted(found)


def open_library(library):
    """Opens it, and asks it something that needs its state."""
    opened = ctypes.CDLL(library)
    version = opened._ZN5etude7versionEv  # etude::version()
    version.restype = ctypes.c_char_p
    assert version().count(b".") == 2, version()
    return opened


def use_libstdcxx():
    """As a library does that throws an exception: a thread-local variable gets memory, which is not in the static block."""
    ctypes.CDLL("libstdc++.so.6").__cxa_get_globals()


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
        use_libstdcxx()
        return "\n".join(open_in_threads(sys.argv[2])) or None
    library = sys.argv[1]
    size = thread_local_bytes(library)
    if not 0 < size <= MOST_BYTES:
        return f"{library}: {size} bytes of thread-local storage, for at most {MOST_BYTES}. Rare state is a ThreadObject"
    if not stays(library):
        return f"{library}: linked without -z nodelete. Its threads, and threads in a call, run on after a dlclose()"
    if foreign := foreign_thread_locals(library):
        return (f"{library}: reads thread-local variables of other libraries, {', '.join(foreign)}. It cannot be opened "
                "in a process that has used those libraries. Use a mutex in place of std::call_once")
    # Without this process's settings: a bare Python has loaded nothing of ours.
    done = subprocess.run([sys.executable, "-I", __file__, "--open", library], capture_output=True, text=True,
                          timeout=120, check=False)
    return None if done.returncode == 0 else f"a bare Python cannot open it:\n{done.stdout}{done.stderr}"


if __name__ == "__main__":
    sys.exit(main())
