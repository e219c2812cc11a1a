# SPDX-License-Identifier: Apache-2.0
"""Layers of image and language models in PyTorch, forward and back with a cotangent."""
import torch
import torch.nn.functional as F
from data import hashed, image
from values import digest


def filter_of(seed, shape, scale):
    """A filter [h, w, in, out], or of a transposed convolution [h, w, out, in], with outputs, or inputs, first."""
    w = hashed(seed, shape, scale).permute(3, 2, 0, 1)
    return w.contiguous(memory_format=torch.channels_last)


def depthwise_filter():
    return hashed(2, (3, 3, 64, 1), .3).permute(2, 3, 0, 1).contiguous()


class Layer:
    """Arguments with how each is turned back for the check, and a function of them."""
    units = 1

    def __init__(self, arguments, function):
        self.arguments = [x.requires_grad_() for x, _ in arguments]
        self.orders, self.function = [order for _, order in arguments], function
        y = function(*self.arguments)
        turned = y.permute(IMAGE) if y.dim() == 4 else y
        self.cotangent = hashed(9, turned.shape)
        if y.dim() == 4:
            self.cotangent = image(self.cotangent)

    def run(self):
        return torch.autograd.grad(self.function(*self.arguments), self.arguments, self.cotangent)

    def check(self):
        turned = (g.permute(order).contiguous() if order else g for g, order in zip(self.run(), self.orders))
        return digest(*turned)


IMAGE, FILTER, DEPTHWISE = (0, 2, 3, 1), (2, 3, 1, 0), (2, 3, 0, 1)


def images():
    return image(hashed(1, (8, 56, 56, 64)))


def depthwise():
    return Layer([(images(), IMAGE), (depthwise_filter(), DEPTHWISE)],
                 lambda x, w: F.conv2d(x, w, padding=1, groups=64))


def separable():
    return Layer([(images(), IMAGE), (depthwise_filter(), DEPTHWISE), (filter_of(3, (1, 1, 64, 128), .1), FILTER)],
                 lambda x, w, v: F.conv2d(F.conv2d(x, w, padding=1, groups=64), v))


def transposed():
    return Layer([(image(hashed(1, (8, 28, 28, 64))), IMAGE), (filter_of(2, (3, 3, 32, 64), .1), FILTER)],
                 lambda x, w: F.conv_transpose2d(x, w, stride=2))


def stem():
    x = image(hashed(1, (8, 112, 112, 3)))
    return Layer([(filter_of(2, (7, 7, 3, 64), .1), FILTER)], lambda w: F.conv2d(x, w, stride=2, padding=3))


def scale_and_offset(n):
    return [(1 + hashed(2, (n,), .1), None), (hashed(3, (n,), .1), None)]


def group_norm():
    return Layer([(images(), IMAGE), *scale_and_offset(64)], lambda x, s, o: F.group_norm(x, 8, s, o, 1e-5))


def layer_norm():
    return Layer([(hashed(1, (1024, 768)), None), *scale_and_offset(768)],
                 lambda x, s, o: F.layer_norm(x, (768,), s, o, 1e-5))


WORKLOADS = {"depthwise_fb": depthwise, "separable_fb": separable, "transposed_fb": transposed, "stem_fb": stem,
             "group_norm_fb": group_norm, "layer_norm_fb": layer_norm}
