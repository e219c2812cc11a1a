#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_networks.py FOLDER [NAME...]: networks that PyTorch exports, with inputs and PyTorch's results, for
networks_test.cc. The results of `quantised` are those of onnxruntime, whose tools quantise the network.

Needs torch, torchvision, onnx, onnxscript, onnxruntime and safetensors (2.15.0, 0.29.2, 1.22.0, 0.7.2, 1.31.0 and 0.8.0
made the files that are stored here)."""
import pathlib
import sys
import tempfile

import onnx
import onnxruntime
import torch
import torchvision
from onnxruntime import quantization
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


class Block(nn.Module):
    """Two convolutions around which the input passes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.down = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + self.down(x))


class ResNet(nn.Module):
    """A residual network as of torchvision, with fewer channels."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1))
        self.layers = nn.Sequential(Block(8, 8, 1), Block(8, 12, 2), Block(12, 16, 2))
        self.pool, self.out = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 5)

    def forward(self, image):
        return self.out(torch.flatten(self.pool(self.layers(self.stem(image))), 1))


class Encoder(nn.Module):
    """A transformer encoder that ignores padding."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(13, 16), nn.Parameter(torch.randn(9, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, nn.LayerNorm(16), enable_nested_tensor=False)
        self.out = nn.Linear(16, 3)

    def forward(self, ids):
        is_padding = ids == 0
        x = self.layers(self.words(ids) + self.places[:ids.shape[1]], src_key_padding_mask=is_padding)
        kept = (~is_padding).unsqueeze(-1).to(x.dtype)
        return self.out((x * kept).sum(1) / kept.sum(1))


class Packed(nn.Module):
    """A bidirectional LSTM on sequences of different lengths, and a GRU on its states."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.gru, self.out = nn.GRU(12, 4, batch_first=True), nn.Linear(16, 3)

    def forward(self, rows, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=False)
        states, (last, _) = self.lstm(packed)
        states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=7)
        _, final = self.gru(states)
        return self.out(torch.cat([final[0], last[-2], last[-1]], -1))


class UNet(nn.Module):
    """An image to an image, by way of smaller images."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.SiLU())
        self.second = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.InstanceNorm2d(8, affine=True),
                                    nn.LeakyReLU(0.1))
        self.third = nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.merge, self.out = nn.Conv2d(16, 6, 3, padding=1), nn.Conv2d(12, 1, 1)

    def forward(self, image):
        a = self.first(image)
        b = self.second(a)
        c = torch.relu(self.merge(torch.cat([b, self.up(self.third(b))], 1)))
        large = nn.functional.interpolate(c, size=a.shape[2:], mode="bilinear", align_corners=False)
        return torch.sigmoid(self.out(torch.cat([a, large], 1)))


class Detector(nn.Module):
    """The head of a detector: scores and boxes of one image at all places, and a class for some boxes."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 3, stride=4, padding=1)
        self.scores, self.boxes = nn.Conv2d(8, 1, 1), nn.Conv2d(8, 4, 1)
        self.classes = nn.Linear(8 * 9, 4)

    def forward(self, image, regions):
        x = torch.relu(self.body(image))
        scores = torch.sigmoid(self.scores(x)).flatten()
        height, width = x.shape[2], x.shape[3]
        ys, xs = torch.meshgrid(torch.arange(height) * 4.0, torch.arange(width) * 4.0, indexing="ij")
        center = torch.stack([xs, ys], -1).reshape(-1, 2)
        moved = self.boxes(x)[0].permute(1, 2, 0).reshape(-1, 4)
        middle, size = center + moved[:, :2], 6 + 4 * torch.exp(moved[:, 2:])
        boxes = torch.cat([middle - size / 2, middle + size / 2], -1).clamp(0, 31)
        parts = torchvision.ops.roi_align(x, [regions], 3, spatial_scale=0.25, sampling_ratio=2, aligned=True)
        rough = torchvision.ops.roi_align(x, [regions], 3, spatial_scale=0.25)
        return boxes, scores, self.classes(parts.flatten(1)) + self.classes(rough.flatten(1))


class Suppression(nn.Module):
    """The best of boxes that overlap."""

    def forward(self, boxes, scores):
        kept = torchvision.ops.nms(boxes, scores, 0.3)[:5]
        return boxes[kept], scores[kept]


class Dense(nn.Module):
    """What `quantised` quantises."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, rows):
        return self.layers(rows)


def export(file, network, example, names, outputs, open_sizes, is_traced=False):
    network.eval()
    if is_traced:
        torch.onnx.export(network, example, str(file), dynamo=False, opset_version=17, input_names=names,
                          output_names=outputs, dynamic_axes={name: {0: "batch"} for name in names if open_sizes})
        return
    batch = torch.export.Dim("batch")
    shapes = tuple({0: batch} if open_sizes else None for _ in names)
    program = torch.onnx.export(network, example, dynamo=True, opset_version=18, input_names=names,
                                output_names=outputs, dynamic_shapes=shapes)
    program.save(str(file), external_data=False)


def write(folder, name, network, make_inputs, names=("image",), outputs=("scores",), sizes=(1, 2, 5), **options):
    """Exports a network, and stores its inputs and results for some sizes of the batch."""
    open_sizes = len(sizes) > 1
    export(folder / f"{name}.onnx", network, make_inputs(3 if open_sizes else sizes[0]), list(names), list(outputs),
           open_sizes, **options)
    tensors = {}
    with torch.no_grad():
        for size in sizes:
            inputs = make_inputs(size)
            results = network(*inputs)
            results = results if isinstance(results, tuple) else (results,)
            for kind, given in zip([*names, *outputs], [*inputs, *results]):
                tensors[f"{size}/{kind}"] = given.contiguous()
    save_file(tensors, str(folder / f"{name}.safetensors"))


def with_statistics(network, *inputs):
    """The network with statistics of batches that are not 0 and 1."""
    with torch.no_grad():
        network.train()
        network(*inputs)
    return network


def quantise(folder):
    network, sizes = Dense(), (1, 2, 5)

    class Rows(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = [{"rows": torch.randn(8, 12).numpy()} for _ in range(8)]

        def get_next(self):
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as name:
        plain = pathlib.Path(name) / "dense.onnx"
        export(plain, network, (torch.randn(3, 12),), ["rows"], ["scores"], True)
        quantization.quantize_static(str(plain), str(folder / "quantised.onnx"), Rows(), per_channel=True,
                                     quant_format=quantization.QuantFormat.QDQ)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(folder / "quantised.onnx"), options)
    tensors = {}
    for size in sizes:
        rows = torch.randn(size, 12)
        tensors[f"{size}/rows"] = rows
        tensors[f"{size}/scores"] = torch.from_numpy(session.run(None, {"rows": rows.numpy()})[0])
    save_file(tensors, str(folder / "quantised.safetensors"))


def lengths_of(size):
    return torch.tensor([7, 3, 5, 1, 6])[:size]


def word_ids(size):
    ids = torch.randint(1, 13, (size, 9))
    for row in range(size):
        ids[row, 9 - 2 * row % 7:] = 0
    return ids


def boxes_of(count):
    corner = torch.rand(count, 2) * 20
    return torch.cat([corner, corner + 1 + torch.rand(count, 2) * 10], 1)


MAKERS = {
    "convolutions": lambda folder: write(folder, "convolutions", with_statistics(Convolutions(), torch.randn(8, 3, 16, 16)),
                                         lambda n: (torch.randn(n, 3, 16, 16),)),
    "sequence": lambda folder: write(folder, "sequence", Sequence(), lambda n: (torch.randint(0, 11, (n, 7)),), ["ids"]),
    "resnet": lambda folder: write(folder, "resnet", with_statistics(ResNet(), torch.randn(8, 3, 32, 32)),
                                   lambda n: (torch.randn(n, 3, 32, 32),)),
    "encoder": lambda folder: write(folder, "encoder", Encoder(), lambda n: (word_ids(n),), ["ids"]),
    "packed": lambda folder: write(folder, "packed", Packed(), lambda n: (torch.randn(n, 7, 5), lengths_of(n)),
                                   ["rows", "lengths"], is_traced=True),
    "unet": lambda folder: write(folder, "unet", UNet(), lambda n: (torch.randn(n, 2, 16, 16),)),
    "detector": lambda folder: write(folder, "detector", Detector(),
                                     lambda n: (torch.randn(n, 3, 32, 32), boxes_of(6)), ["image", "regions"],
                                     ["boxes", "scores", "classes"], sizes=(1,)),
    "suppression": lambda folder: write(folder, "suppression", Suppression(), lambda n: (boxes_of(20), torch.rand(20)),
                                        ["boxes", "scores"], ["best", "kept"], sizes=(1,)),
    "quantised": quantise,
}


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, make in MAKERS.items():
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        torch.manual_seed(7)
        make(folder)
        onnx.checker.check_model(str(folder / f"{name}.onnx"), full_check=True)
        print(name, (folder / f"{name}.onnx").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
