# SPDX-License-Identifier: Apache-2.0
"""Files: pandas' parser, PyTorch's DataLoader over Pillow, safetensors' own reader and writer.

They read what Etude's workloads wrote, which come first: workloads/files.cc.
"""
import os
import pathlib
import tempfile

import torch
from data import hashed
from values import digest

FOLDER = pathlib.Path(tempfile.gettempdir()) / "etude_bench_files"
THREADS = int(os.environ.get("BENCH_THREADS", "1"))


class Csv:
    units = 1

    def __init__(self):
        import pandas
        self.pandas = pandas

    def run(self):
        return self.pandas.read_csv(FOLDER / "million.csv")

    def check(self):
        table = self.run()
        return [float(len(table)), *(float(table[name].mean()) for name in ("count", "x", "y"))]


class Pictures(torch.utils.data.Dataset):
    def __init__(self):
        self.files = sorted((FOLDER / "images").glob("*/*.png"), key=str)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        import numpy
        from PIL import Image
        pixels = numpy.asarray(Image.open(self.files[i]))
        return torch.from_numpy(pixels.astype(numpy.float32) / 255), int(self.files[i].parent.name)


class Images:
    units = 1

    def __init__(self):
        workers = THREADS if THREADS > 1 else 0
        self.batches = torch.utils.data.DataLoader(Pictures(), batch_size=32, num_workers=workers,
                                                   persistent_workers=workers > 0)

    def run(self):
        for inputs, _ in self.batches:
            last = inputs
        return last

    def check(self):
        return [sum(float(inputs.mean()) for inputs, _ in self.batches)]


class Checkpoint:
    units = 1

    def __init__(self, loads):
        from safetensors import torch as safetensors
        self.safetensors, self.loads = safetensors, loads
        FOLDER.mkdir(exist_ok=True)
        self.path = FOLDER / f"torch_{os.getpid()}_{loads}"
        self.all = {f"layers/{i}": hashed(i, (1024, 4096)) for i in range(16)}
        if loads:
            self.save()

    def __del__(self):
        self.path.unlink(missing_ok=True)

    def save(self):
        """On the disk when it returns, as ours."""
        self.safetensors.save_file(self.all, self.path)
        descriptor = os.open(self.path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def run(self):
        if not self.loads:
            return self.save()
        return [x[:, ::1024].sum() for x in self.safetensors.load_file(self.path).values()]

    def check(self):
        if not self.loads:
            self.save()
        return digest(self.safetensors.load_file(self.path)["layers/3"])


WORKLOADS = {"csv_1e6": Csv, "png_batches": Images, "save_256m": lambda: Checkpoint(False),
             "load_256m": lambda: Checkpoint(True)}
