#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""formats_test.py write|check|seeds FOLDER: files of other programs for formats_test.cc, made of the standard library alone.

Images and archives are written here from their specifications, and pickles by Python's own pickler, with stand-ins
for the few names of PyTorch. Where NumPy is installed it writes and reads arrays as well.
"""
import collections
import io
import pickle
import random
import struct
import sys
import tempfile
import types
import zipfile
import zlib
from pathlib import Path

try:
    import numpy
except ImportError:
    numpy = None


def npy(descr, shape, data, order=False, version=1):
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    length = struct.pack("<H" if version == 1 else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + b"\n" + data


# --- PNG -------------------------------------------------------------------------------------------

ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def packed(row, depth):
    """The samples of a row as bytes."""
    if depth == 16:
        return b"".join(struct.pack(">H", v) for v in row)
    bits = "".join(format(v, f"0{depth}b") for v in row)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def filtered(rows, step):
    """The rows behind one filter after the other."""
    out, above = b"", None
    for i, row in enumerate(rows):
        above = above or bytes(len(row))
        kind, line = i % 5, []
        for x, v in enumerate(row):
            a = row[x - step] if x >= step else 0
            b, c = above[x], above[x - step] if x >= step else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line.append((v - (0, a, b, (a + b) // 2, paeth)[kind]) % 256)
        out += bytes([kind]) + bytes(line)
        above = row
    return out


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, colour, depth, interlaced=False, palette=None, alpha=None):
    """`pixels` are rows of tuples of samples."""
    height, width, channels = len(pixels), len(pixels[0]), len(pixels[0][0])
    step = max(1, channels * depth // 8)
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    data = b""
    for x0, y0, dx, dy in passes:
        rows = [[s for pixel in row[x0::dx] for s in pixel] for row in pixels[y0::dy]]
        if rows and rows[0]:
            data += filtered([packed(row, depth) for row in rows], step)
    out = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
    if palette:
        out += chunk(b"PLTE", bytes(s for entry in palette for s in entry))
    if alpha:
        out += chunk(b"tRNS", bytes(alpha))
    packed_data = zlib.compress(data)
    half = len(packed_data) // 2
    return out + chunk(b"IDAT", packed_data[:half]) + chunk(b"IDAT", packed_data[half:]) + chunk(b"IEND", b"")


def write_images(folder):
    rng = random.Random(1)
    for name, colour, channels, depths in (("grey", 0, 1, (1, 2, 4, 8, 16)), ("rgb", 2, 3, (8, 16)),
                                           ("palette", 3, 1, (1, 2, 4, 8)), ("grey_alpha", 4, 2, (8, 16)),
                                           ("rgba", 6, 4, (8, 16))):
        for depth in depths:
            for interlaced in (False, True):
                most = 2**depth - 1
                pixels = [[tuple(rng.randint(0, most) for _ in range(channels)) for _ in range(13)] for _ in range(11)]
                palette = [tuple(rng.randint(0, 255) for _ in range(3)) for _ in range(most + 1)] if colour == 3 else None
                levels = [[palette[p[0]] if palette else tuple((s * 255 + most // 2) // most for s in p) for p in row]
                          for row in pixels]
                stem = folder / f"{name}_{depth}{'_interlaced' * interlaced}"
                stem.with_suffix(".png").write_bytes(png(pixels, colour, depth, interlaced, palette))
                flat = bytes(s for row in levels for p in row for s in p)
                stem.with_suffix(".npy").write_bytes(npy("|u1", (11, 13, len(levels[0][0])), flat))
    huge = png([[(0,)]], 0, 8)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 0, 0, 0, 0))
    (folder / "huge.image").write_bytes(huge[:8] + header + huge[8 + len(header):])
    opaque = png([[(0,), (1,)]], 3, 8, palette=[(1, 2, 3), (4, 5, 6)], alpha=[9])
    (folder / "palette_alpha.png").write_bytes(opaque)
    (folder / "palette_alpha.npy").write_bytes(npy("|u1", (1, 2, 4), bytes([1, 2, 3, 9, 4, 5, 6, 255])))


# --- PyTorch ---------------------------------------------------------------------------------------

class Storage:
    def __init__(self, kind, key, data, count):
        self.kind, self.key, self.data, self.count = kind, key, data, count


class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
        return ("storage", obj.kind, obj.key, "cpu", obj.count) if isinstance(obj, Storage) else None


class Tensor:
    def __init__(self, *arguments):
        self.arguments = arguments

    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_tensor_v2, self.arguments


class Parameter(Tensor):
    def __reduce__(self):
        return sys.modules["torch._utils"]._rebuild_parameter, (Tensor(*self.arguments), True, collections.OrderedDict())


def stand_in(module, name, kind=type):
    """What pickles as module.name."""
    sys.modules.setdefault(module, types.ModuleType(module))
    made = type(name, (), {}) if kind is type else types.FunctionType((lambda: None).__code__, {}, name)
    made.__module__, made.__qualname__ = module, name
    setattr(sys.modules[module], name, made)
    return made


def torch_file(path, obj, storages, protocol=2, order="little", compression=zipfile.ZIP_STORED, name="archive"):
    out = io.BytesIO()
    Pickler(out, protocol).dump(obj)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(f"{name}/data.pkl", out.getvalue())
        archive.writestr(f"{name}/byteorder", order)
        for storage in storages:
            archive.writestr(f"{name}/data/{storage.key}", storage.data)
        archive.writestr(f"{name}/version", "3\n")


def write_torch(folder):
    floats, longs = stand_in("torch", "FloatStorage"), stand_in("torch", "LongStorage")
    halves = stand_in("torch", "BFloat16Storage")
    stand_in("torch._utils", "_rebuild_tensor_v2", None)
    stand_in("torch._utils", "_rebuild_parameter", None)
    weights = Storage(floats, "0", struct.pack("<6f", *range(6)), 6)
    steps = Storage(longs, "1", struct.pack("<q", -7), 1)
    half = Storage(halves, "2", struct.pack("<2H", 0x3FC0, 0xC000), 2)
    hooks = collections.OrderedDict()
    state = collections.OrderedDict()
    state["fc.weight"] = Parameter(weights, 0, (2, 3), (3, 1), False, hooks)
    state["fc.turned"] = Tensor(weights, 0, (3, 2), (1, 3), False, hooks)
    state["fc.tail"] = Tensor(weights, 4, (2,), (1,), False, hooks)
    state["fc.half"] = Tensor(half, 0, (2,), (1,), False, hooks)
    state["steps"] = Tensor(steps, 0, (), (), False, hooks)
    state._metadata = collections.OrderedDict([("", {"version": 1})])
    everything = {"model": state, "epoch": 3, "lr": 0.5, "best": True, "name": "tiny", "none": None, "big": -2**40,
                  "list": [1, (2, state["steps"])]}
    for protocol in (2, 3, 4, 5):
        torch_file(folder / f"torch_{protocol}.pt", everything, (weights, steps, half), protocol)
    torch_file(folder / "torch_deflated.pt", everything, (weights, steps, half), compression=zipfile.ZIP_DEFLATED)
    (folder / "torch_old.pt").write_bytes(pickle.dumps(119547037146038801333356, 2))
    evil = type("Evil", (), {"__reduce__": lambda self: (print, ("owned",))})
    torch_file(folder / "torch_evil.pt", {"w": evil()}, ())
    torch_file(folder / "torch_far.pt", {"w": Tensor(weights, 3, (2, 3), (3, 1), False, hooks)}, (weights,))
    torch_file(folder / "torch_lost.pt", {"w": state["steps"]}, ())
    torch_file(folder / "torch_wide.pt", {"w": Tensor(weights, 0, (10**9,), (0,), False, hooks)}, (weights,))


def write_arrays(folder):
    small = npy("<i4", "(2,)", struct.pack("<2i", 1, -2))
    for name, kind in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(folder / f"{name}.npz", "w", kind) as archive:
            archive.writestr("a.npy", small)
            archive.writestr("b/c.npy", npy(">f8", "(1, 2)", struct.pack(">2d", 0.5, -1), version=2))
    if numpy is None:
        return
    for code in "?bhilqBHILQefdFD":
        x = numpy.arange(24).reshape(2, 3, 4).astype(code)
        for name, y in (("rows", x), ("columns", numpy.asfortranarray(x)), ("swapped", x.astype(x.dtype.newbyteorder()))):
            numpy.save(folder / f"numpy_{name}_{x.dtype.name}.npy", y)
    numpy.savez_compressed(folder / "numpy.npz", a=numpy.arange(3.0), b=numpy.zeros((0, 2), "f4"), c=numpy.int8(5))


def check(folder):
    """Reads what formats_test.cc wrote."""
    for name in ("ours.npz", "ours_deflated.npz"):
        with zipfile.ZipFile(folder / name) as archive:
            assert archive.testzip() is None, name
            assert sorted(archive.namelist()) == ["bools.npy", "empty.npy", "x.npy"], archive.namelist()
        if numpy:
            arrays = numpy.load(folder / name)
            assert arrays["x"].dtype == "<f4" and arrays["x"].tolist() == [[1.5, 2.5], [3.5, -4.5]]
            assert arrays["bools"].dtype == bool and arrays["bools"].tolist() == [True, False]
            assert arrays["empty"].shape == (3, 0)
    if numpy:
        assert numpy.load(folder / "ours.npy").tolist() == [[1.5, 2.5], [3.5, -4.5]]


def write(folder):
    write_images(folder)
    write_torch(folder)
    write_arrays(folder)


MANIFEST = (b'{"counter":1,"format":1,"nodes":[{"edges":[["x",1]],"values":[]},{"edges":[],"values":["","a/b"]}],'
            b'"shards":[{"bytes":80,"crc32c":"0a1b2c3d","file":"shard-00001-00001-of-00001.safetensors"}],'
            b'"tensors":[["x",0],["x/.a/b",0]]}')
TENSORS = (b'{"dtype":"float32","shape":[2],"data":[0.1,"0x7f800000"]}', b'{"dtype":"complex64","shape":[],"data":[[1,2]]}',
           b'{"dtype":"bool","shape":[1,1],"data":[true]}')
SAFETENSORS_HEADER = b'{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
SAFETENSORS = struct.pack("<Q", len(SAFETENSORS_HEADER)) + SAFETENSORS_HEADER + bytes(4)
SAVED_FILE = b'{"bytes":9,"crc32c":"00000001","file":"%s"}'
SAVED_GRAPH = (b'{"captures":[0],"hosts":[["by","2"]],"made_for":"a.cc:1","result":{"fields":[["y",{"leaf":{"kind":"tensor",'
               b'"present":true}}]]},"special":false,"tensors":[{"absent":false,"changed":true,"path":"x","state":0}],'
               b'"training":false,"uses":[{"argument":-1,"read":true,"variable":0,"written":false}],"variables":[["v",0]]}')
SAVED = (b'{"assets":[{"bytes":9,"crc32c":"00000001","file":"f","name":"a"}],"constants":[0],"format":1,"functions":['
         b'{"arguments":["x"],"display":"f","exported":{"inputs":["x"],"outputs":["y"],"paths":["x"]},"graphs":[' + SAVED_GRAPH +
         b'],"name":"f"}],"graphs":' + SAVED_FILE % b"graphs-1" + b',"objects":[{"name":"o","parts":{"list":[{"leaf":{"kind":'
         b'"variable","value":0}},{"leaf":{"kind":"host","value":{"float":"0x1p+0"}}},{"nothing":true}]}}],"tensors":[' +
         SAVED_FILE % b"tensors-1" + b'],"variables":[{"device":"cpu:0","dtype":"float32","name":"v","paths":["o/0"],"shape":'
         b'[-1,3],"shard":0,"trainable":true}]}')
TABLES = (b'a,b\n1,2.5\n-3,1e5\n', b'a;b\r\n"x ""y""\n",true\r\nNA,False\r\n', b'\xef\xbb\xbfa\n\n1\nx\n9223372036854775808')


def bombs():
    """Small files of much: what the budgets of readers are for."""
    def archive(name, content):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr(name, content)
        return out.getvalue()

    tree = b"\x80\x02K\x01q\x00" + b"".join(bytes((104, i, 0x86, 113, i + 1)) for i in range(60)) + b"."
    programs = {"memo": b"\x80\x02N" + b"\x94" * 100_000 + b".", "marks": b"\x80\x02N" + b"(" * 100_000 + b".",
                "tuples": b"\x80\x02N" + b"\x85" * 50_000 + b".", "tree": tree,
                "long": b"\x80\x02}(X\x01\x00\x00\x00a\x8a\x09" + bytes(7) + b"\x80\x00u."}
    out = [(f"bomb_{name}", b"3" + archive("archive/data.pkl", program)) for name, program in programs.items()]
    zeros = npy("|u1", "(16777216,)", bytes(1 << 24))
    return out + [("bomb_zeros", b"1" + archive("a.npy", zeros)), ("bomb_brackets", b"7" + b"[" * 1000),
                  ("bomb_manifest", b"6" + b"[" * 1000), ("bomb_saved", b"9" + b"[" * 1000)]


def seeds(folder):
    """What the fuzz target of tests/fuzz begins with: a byte that says which reader, then a file."""
    with tempfile.TemporaryDirectory() as name:
        write(Path(name))
        kinds = {".npy": b"0", ".npz": b"1", ".png": b"2", ".pt": b"3"}
        files = [(path.name, kinds[path.suffix] + path.read_bytes()) for path in Path(name).iterdir()
                 if path.suffix in kinds and not path.name.startswith("numpy")]
        for protocol in (2, 5):
            with zipfile.ZipFile(Path(name) / f"torch_{protocol}.pt") as archive:
                files.append((f"pickle_{protocol}", b"4" + archive.read("archive/data.pkl")))
    files += [(f"table_{i}", b"5" + text) for i, text in enumerate(TABLES)] + [("manifest", b"6" + MANIFEST)]
    files += [(f"json_{i}", b"7" + text) for i, text in enumerate(TENSORS)] + [("safetensors", b"8" + SAFETENSORS)]
    files += [("saved", b"9" + SAVED)] + bombs()
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files:
        (folder / name).write_bytes(data)


def main():
    {"write": write, "check": check, "seeds": seeds}[sys.argv[1]](Path(sys.argv[2]))


if __name__ == "__main__":
    main()
