#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_networks.py FOLDER: networks that PyTorch exports, with inputs and PyTorch's results, for networks_test.cc.

Needs torch, onnx and onnxscript (2.15.0, 1.22.0 and 0.7 made the files that are stored here)."""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn


class Convolutions(nn.Module):
    """A small residual network of images."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.conv = nn.Conv2d(4, 4, 3, padding=1, groups=4)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.out = nn.Linear(4, 5)

    def forward(self, image):
        x = torch.relu(self.norm(self.stem(image)))
        x = self.pool(x + nn.functional.silu(self.conv(x)))
        return self.out(x.mean((2, 3)))


class Sequence(nn.Module):
    """Embedding, attention and a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.out = nn.Linear(6, 3)

    def forward(self, ids):
        x = self.block(self.words(ids))
        states, _ = self.lstm(x)
        return torch.log_softmax(self.out(states[:, -1]), -1)


def write(folder, name, network, make_input, sizes=(1, 2, 5)):
    network.eval()
    example = make_input(3)
    argument = "image" if name == "convolutions" else "ids"
    program = torch.onnx.export(network, (example,), dynamo=True, opset_version=18, input_names=[argument],
                                output_names=["scores"], dynamic_shapes=({0: torch.export.Dim("batch")},))
    program.save(str(folder / f"{name}.onnx"), external_data=False)
    tensors = {}
    with torch.no_grad():
        for size in sizes:
            x = make_input(size)
            tensors[f"{size}/input"], tensors[f"{size}/scores"] = x, network(x).contiguous()
    save_file(tensors, str(folder / f"{name}.safetensors"))


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(7)
    network = Convolutions()
    with torch.no_grad():  # statistics that are not 0 and 1
        network.train()
        network(torch.randn(8, 3, 16, 16))
    write(folder, "convolutions", network, lambda n: torch.randn(n, 3, 16, 16))
    write(folder, "sequence", Sequence(), lambda n: torch.randint(0, 11, (n, 7)))


if __name__ == "__main__":
    main()
