#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/ops/values/family_values.inc: what NumPy and SciPy give for the calls of family_values_test.cc.

Linear algebra, Fourier transforms, attention and images, on operands that both make by one formula. Needs NumPy
and SciPy, any version from those of Debian 12 on; run ./dev format afterwards. With --check it compares instead.
"""
import colorsys
import math

import numpy as np
import scipy.linalg
import scipy.special

import generated_file

PATH = "tests/ops/values/family_values.inc"


def at(shape, seed):
    """Element k of the operand `seed`: the same in family_values_test.cc."""
    k = np.arange(int(np.prod(shape)))
    return (((k * 37 + seed * 29 + k * k % 11 * 5) % 97) / 48.5 - 1).reshape(shape)


def complex_at(shape, seed):
    return at(shape, seed) + 1j * at(shape, seed + 1)


def positive(x):
    return x @ np.conj(np.swapaxes(x, -1, -2)) + 2 * np.eye(x.shape[-1])


A, B, TALL, WIDE = at((2, 3, 3), 1), at((2, 3, 2), 2), at((4, 3), 3), at((2, 4), 4)
P, Z = positive(A), complex_at((3, 3), 5)
LOWER = np.tril(P[0])


def rebuilt(x):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u * s) @ vh


def set_diagonal(x, v):
    x = x.copy()
    np.fill_diagonal(x, v)
    return x


LINALG = {
    "diagonal": np.diagonal(TALL, 1),
    "diag": np.diag(at((3,), 7), -1),
    "set_diagonal": set_diagonal(TALL, at((3,), 7)),
    "band_part": np.triu(np.tril(TALL, 1), -2),
    "trace": np.trace(A, axis1=-2, axis2=-1),
    "cholesky": np.linalg.cholesky(P),
    "cholesky upper": np.conj(np.swapaxes(np.linalg.cholesky(positive(Z)), -1, -2)),
    "triangular_solve": scipy.linalg.solve_triangular(LOWER, B[0], lower=True, trans="T"),
    "triangular_solve unit": scipy.linalg.solve_triangular(
        LOWER.T, B[1], lower=False, unit_diagonal=True),
    "solve": np.linalg.solve(A, B),
    "solve vector": np.linalg.solve(Z, complex_at((3,), 8)),
    "inv": np.linalg.inv(A),
    "inv complex": np.linalg.inv(Z),
    "det": np.linalg.det(A),
    "det complex": np.linalg.det(Z),
    "slogdet": np.stack(np.linalg.slogdet(A)),
    "slogdet sign": np.linalg.slogdet(Z)[0],
    "logdet": np.linalg.slogdet(P)[1],
    "qr q": np.linalg.qr(TALL)[0],
    "qr r": np.linalg.qr(TALL)[1],
    "qr wide": np.linalg.qr(WIDE)[1],
    "qr complete": np.linalg.qr(TALL, mode="complete")[0][:, :3],
    "qr complex": np.linalg.qr(Z)[0],
    "svd": np.linalg.svd(TALL)[1],
    "svd rebuilt": rebuilt(complex_at((4, 3), 9)),
    "svdvals": np.linalg.svd(Z)[1],
    "eigh values": np.linalg.eigh(P)[0],
    "eigh rebuilt": positive(Z),
    "eigvalsh": np.linalg.eigvalsh(Z),
    "eig values": np.linalg.eig(A)[0].astype(complex),
    "eig rebuilt": Z,
    "eigvals": np.linalg.eigvals(Z),
    "pinv": np.linalg.pinv(TALL),
    "pinv of rank 1": np.linalg.pinv(np.outer(at((3,), 1), at((2,), 2)), rcond=1e-10),
    "matrix_power": np.linalg.matrix_power(A, 5),
    "matrix_power -2": np.linalg.matrix_power(A, -2),
    "matrix_rank": np.linalg.matrix_rank(np.stack([np.outer(at((3,), 1), at((3,), 2)), A[0]])),
    "vector_norm": np.linalg.norm(TALL, ord=3, axis=0),
    "cross": np.cross(TALL, at((3,), 9)),
    "lstsq": np.linalg.lstsq(TALL, at((4, 2), 6), rcond=None)[0],
} | {
    f"matrix_norm {ord}": np.linalg.norm(A, ord=float(ord) if ord[-1] in "12f" else ord, axis=(-2, -1))
    for ord in "fro nuc 1 -1 2 -2 inf -inf".split()
}

LONG = complex_at((1 << 15,), 3)
SOME = [0, 1, 777, 20000, (1 << 15) - 1]
fft = np.fft
FFT = {f"fft {n}": fft.fft(complex_at((2, n), n)) for n in (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 37, 60)}
FFT |= {
    "fft long": fft.fft(LONG)[SOME],
    "ifft long": fft.ifft(LONG)[SOME],
    "fft prime": fft.fft(complex_at((1009,), 3))[[0, 1, 500, 1008]],
    "fft axis": fft.fft(at((3, 4, 2), 1), axis=1, n=6, norm="ortho"),
    "ifft": fft.ifft(complex_at((9,), 2)),
    "ifft cut": fft.ifft(complex_at((9,), 2), n=4, norm="forward"),
    "rfft even": fft.rfft(at((2, 8), 1)),
    "rfft odd": fft.rfft(at((7, 2), 2), axis=0, norm="forward"),
    "irfft even": fft.irfft(complex_at((2, 5), 3)),
    "irfft odd": fft.irfft(complex_at((5,), 4), n=9, norm="ortho"),
    "fftn": fft.fftn(complex_at((4, 6), 1)),
    "ifftn": fft.ifftn(complex_at((4, 3, 5), 1), axes=(0, 2)),
    "rfftn": fft.rfftn(at((4, 6), 2), s=(4, 4)),
    "irfftn": fft.irfftn(complex_at((4, 4), 3)),
    "hfft": fft.hfft(complex_at((5,), 1)),
    "ihfft": fft.ihfft(at((8,), 1)),
    "fftfreq": fft.fftfreq(7, 0.25),
    "rfftfreq": fft.rfftfreq(8, 2),
    "fftshift": fft.fftshift(at((3, 4), 1)),
    "ifftshift": fft.ifftshift(at((3, 5), 1), axes=1),
}

Q, K, V = at((2, 3, 4), 1), at((2, 5, 4), 2), at((2, 5, 2), 3)


def attention(q, k, v, scale=None, seen=True, bias=0.0):
    scores = np.einsum("...qd,...kd->...qk", q, k) * (scale or 1 / math.sqrt(q.shape[-1])) + bias
    return scipy.special.softmax(np.where(seen, scores, -np.inf), axis=-1) @ v


LONG_Q, LONG_K, LONG_V = at((150, 3), 1) * 4, at((200, 3), 2) * 4, at((200, 1), 3)
ATTENTION = {
    "attention": attention(Q, K, V),
    "attention causal": attention(K, K, V, seen=np.tril(np.ones((5, 5), bool))),
    "attention mask": attention(Q, K, V, scale=0.7, seen=at((3, 5), 4) > -0.5),
    "attention bias": attention(Q, K[0], V, bias=at((2, 1, 5), 5)),
    "attention long": attention(LONG_Q, LONG_K, LONG_V)[::30],
    "attention long causal": attention(LONG_K, LONG_K, LONG_V, seen=np.tril(np.ones((200, 200), bool)))[::30],
}


def keys_cubic(x):
    x = abs(x)
    return 1.5 * x**3 - 2.5 * x**2 + 1 if x < 1 else -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0


def mitchell(x):
    x = abs(x)
    if x < 1:
        return (7 * x**3 - 12 * x**2 + 16 / 3) / 6
    return (-7 / 3 * x**3 + 12 * x**2 - 20 * x + 32 / 3) / 6 if x < 2 else 0


KERNELS = {
    "bilinear": lambda x: max(0, 1 - abs(x)),
    "bicubic": keys_cubic,
    "mitchell": mitchell,
    "lanczos3": lambda x: np.sinc(x) * np.sinc(x / 3) if abs(x) < 3 else 0,
    "lanczos5": lambda x: np.sinc(x) * np.sinc(x / 5) if abs(x) < 5 else 0,
    "gaussian": lambda x: math.exp(-2 * x * x) if abs(x) < 1.5 else 0,
}


def weights(method, size, out, antialias, centers):
    w = np.zeros((out, size))
    for i in range(out):
        x = {"half_pixel": (i + 0.5) * size / out - 0.5, "legacy": i * size / out,
             "aligned": i * (size - 1) / max(1, out - 1)}[centers]
        if method == "nearest":
            w[i, min(size - 1, math.floor(x + (0.5 if centers == "half_pixel" else 0)))] = 1
        elif method == "area":
            for k in range(size):
                w[i, k] = max(0, min(k + 1, (i + 1) * size / out) - max(k, i * size / out))
        else:
            wide = max(1, size / out) if antialias else 1
            w[i] = [KERNELS[method]((k - x) / wide) for k in range(size)]
    return w / w.sum(axis=1, keepdims=True)


def resize(x, h, w, method, antialias=False, centers="half_pixel"):
    rows = weights(method, x.shape[-3], h, antialias, centers)
    columns = weights(method, x.shape[-2], w, antialias, centers)
    return np.einsum("ih,jw,nhwc->nijc", rows, columns, x)


def dilation(x, f, strides, rates):
    h = (x.shape[1] - (f.shape[0] - 1) * rates[0] - 1) // strides[0] + 1
    w = (x.shape[2] - (f.shape[1] - 1) * rates[1] - 1) // strides[1] + 1
    y = np.full((x.shape[0], h, w, x.shape[3]), -np.inf)
    for i in range(f.shape[0]):
        for j in range(f.shape[1]):
            part = x[:, i * rates[0]:, j * rates[1]:][:, ::strides[0], ::strides[1]][:, :h, :w]
            y = np.maximum(y, part + f[i, j])
    return y


def hsv(x):
    return np.array([colorsys.rgb_to_hsv(*p) for p in x.reshape(-1, 3)]).reshape(x.shape)


def rgb(x):
    return np.array([colorsys.hsv_to_rgb(h % 1, s, v) for h, s, v in x.reshape(-1, 3)]).reshape(x.shape)


def ssim(x, y, size, sigma):
    k = np.exp(-((np.arange(size) - (size - 1) / 2) / sigma)**2 / 2)
    k = np.outer(k, k) / np.outer(k, k).sum()
    values = []
    for c in range(x.shape[-1]):
        for i in range(x.shape[0] - size + 1):
            for j in range(x.shape[1] - size + 1):
                a, b = x[i:i + size, j:j + size, c], y[i:i + size, j:j + size, c]
                ma, mb = (k * a).sum(), (k * b).sum()
                va, vb, cov = (k * a * a).sum() - ma**2, (k * b * b).sum() - mb**2, (k * a * b).sum() - ma * mb
                values.append((2 * ma * mb + 1e-4) * (2 * cov + 9e-4) / ((ma**2 + mb**2 + 1e-4) * (va + vb + 9e-4)))
    return np.mean(values)


X, F = at((1, 5, 4, 2), 1), at((2, 2, 2), 2)
RGB = (at((2, 2, 3), 3) + 1.1) / 2.2
PICTURE, OTHER = (at((9, 8, 2), 4) + 1) / 2, (at((9, 8, 2), 5) + 1) / 2
IMAGE = {f"resize {m}": resize(X, 8, 7, m) for m in ("nearest", "area", *KERNELS)}
IMAGE |= {f"resize small {m}": resize(X, 2, 3, m, True) for m in KERNELS}
IMAGE |= {
    "resize aligned": resize(X, 7, 3, "bilinear", centers="aligned"),
    "resize legacy": resize(X, 3, 6, "bicubic", centers="legacy"),
    "depth_to_space": at((1, 2, 2, 8), 1).reshape(1, 2, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5),
    "space_to_depth": at((1, 4, 2, 3), 1).reshape(1, 2, 2, 1, 2, 3).transpose(0, 1, 3, 2, 4, 5),
    "dilation2d": dilation(X, F, (1, 1), (1, 1)),
    "dilation2d rates": dilation(X, F, (2, 1), (2, 1)),
    "erosion2d": -dilation(-X, F[::-1, ::-1], (1, 1), (1, 1)),
    "central_crop": X[:, 1:4],
    "adjust_contrast": (X - X.mean((1, 2), keepdims=True)) * 1.5 + X.mean((1, 2), keepdims=True),
    "rgb_to_grayscale": RGB @ np.array([0.2989, 0.587, 0.114]),
    "rgb_to_hsv": hsv(RGB),
    "hsv_to_rgb": rgb(hsv(RGB)),
    "adjust_saturation": rgb(np.minimum(hsv(RGB) * [1, 1.7, 1], 1)),
    "adjust_hue": rgb(hsv(RGB) + [0.3, 0, 0]),
    "psnr": 10 * np.log10(4 / np.mean((PICTURE - OTHER)**2)),
    "ssim": ssim(PICTURE, OTHER, 5, 1.5),
}


def numbers(value):
    value = np.asarray(value)
    if np.iscomplexobj(value):
        value = np.stack([value.real, value.imag], axis=-1)
    return [float(v) for v in value.ravel()]


def text(value):
    """Ten digits: the last ones of sums differ between machines. What rounds to 0 is one."""
    return f"{value:.10g}" if abs(value) > 1e-13 else "0."


def main():
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Generated by tools/generate/gen_family_values.py; do not edit.",
        "// What NumPy and SciPy give for the calls of family_values_test.cc; complex numbers are pairs.",
        "const FamilyRow kFamilyRows[] = {",
    ]
    for name, value in (LINALG | FFT | ATTENTION | IMAGE).items():
        lines.append(f'    {{"{name}", {{{", ".join(text(v) for v in numbers(value))}}}}},')
    generated_file.finish(PATH, "\n".join([*lines, "};", ""]), "tools/generate/gen_family_values.py")


if __name__ == "__main__":
    main()
