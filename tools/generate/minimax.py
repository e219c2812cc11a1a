#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Polynomial coefficients of the vector mathematics (etude/kernels/cpu/simd/math_*.inc).

Each row of FITS is a function, an interval, a degree and a weight. The fit is near-minimax: weighted least squares on
a dense Chebyshev grid, the weights multiplied by the residual until the error is level (Lawson's iteration). The
functions are evaluated with mpmath. Prints the constants, lowest power first, and the largest weighted error.

Needs mpmath and numpy:  python3 tools/generate/minimax.py [name ...]
"""
import sys

import numpy as np
from mpmath import (atan, digamma, erf, erfc, erfinv, exp, expm1, findroot, log, log1p, loggamma, mp, mpf, pi, sin, cos,
                    sqrt, tanh)

mp.dps = 50


def times_linear(polynomial, a, b):
    """polynomial * (a x + b), lowest power first."""
    product = [mpf(0)] * (len(polynomial) + 1)
    for i, c in enumerate(polynomial):
        product[i] += b * c
        product[i + 1] += a * c
    return product


def fit(function, low, high, degree, weight):
    """Monomial coefficients of the near-minimax polynomial, and its largest weighted error."""
    points = 40 * (degree + 2)
    low, high = mpf(low), mpf(high)
    t = -np.cos(np.pi * (np.arange(points) + 0.5) / points)
    x = [(low + high) / 2 + (high - low) / 2 * mpf(float(v)) for v in t]
    values = np.array([float(function(v)) for v in x])
    scale = np.array([float(abs(weight(v))) for v in x])
    basis = np.polynomial.chebyshev.chebvander(t, degree)
    lawson = np.ones(points) / points
    best, best_error = None, np.inf
    for _ in range(200):
        root = np.sqrt(lawson) * scale
        coefficients = np.linalg.lstsq(basis * root[:, None], values * root, rcond=None)[0]
        residual = np.abs(basis @ coefficients - values) * scale
        if residual.max() < best_error:
            best, best_error = coefficients, residual.max()
        lawson *= residual
        lawson /= lawson.sum()
    a, b = 2 / (high - low), -(high + low) / (high - low)
    in_t = np.polynomial.chebyshev.cheb2poly(best)
    in_x = [mpf(0)]
    for c in in_t[::-1]:
        in_x = times_linear(in_x, a, b)
        in_x[0] += mpf(float(c))
    return in_x[:degree + 1], best_error


def one(_):
    return mpf(1)


LN2 = log(mpf(2))
F_LOW, F_HIGH = sqrt(mpf(2)) / 2 - 1, sqrt(mpf(2)) - 1
TINY = mpf("1e-20")  # stands for 0 where a formula is 0/0


def scaled_erfc(t):
    """erfc(x) exp(x^2) with x = 2 (1 + t) / (1 - t), t from -1 to 0.7."""
    x = 2 * (1 + t) / (1 - t)
    return erfc(x) * exp(x * x)


def erfinv_of_w(w):
    """erfinv(x) / x where w = -log(1 - x^2)."""
    x = sqrt(-expm1(-w))
    return inverse_erf(x, w) / x


def inverse_erf(x, w):
    if w < 3:
        return erfinv(x)
    complement = exp(-w) / (1 + x)  # 1 - x, without cancellation
    start = sqrt(w) * mpf("0.9")
    return findroot(lambda y: log(erfc(y)) - log(complement), start)


def log_erfc(x):
    return -log(erfc(x))


# name: (function, low, high, degree, weight, type)
FITS = {
    # float32
    "exp": (lambda r: (expm1(r) - r) / r**2, -LN2 / 2, LN2 / 2, 4, lambda r: r**2 * exp(-r), "f"),
    "expm1": (lambda r: (expm1(r) - r) / r**2, -LN2 / 2, LN2 / 2, 5, lambda r: r, "f"),
    "exp2": (lambda r: expm1(r * LN2) / r, -0.5, 0.5, 5, lambda r: r, "f"),
    "exp10": (lambda r: expm1(r * log(mpf(10))) / r, -0.15052, 0.15052, 5, lambda r: r, "f"),
    "log": (lambda f: (log1p(f) - f) / f**2, F_LOW, F_HIGH, 8, lambda f: f, "f"),
    "sin": (lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, TINY, (pi / 4)**2 * 1.001, 2, lambda z: z, "f"),
    "cos": (lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, mpf("1e-9"), (pi / 4)**2 * 1.001, 2, lambda z: z**2, "f"),
    "tanh": (lambda z: (tanh(sqrt(z)) / sqrt(z) - 1) / z, TINY, mpf("0.625")**2, 4, lambda z: z, "f"),
    "erf_small": (lambda z: erf(sqrt(z)) / sqrt(z) - 1, TINY, mpf("0.93")**2, 6, one, "f"),
    "erf_large": (log_erfc, mpf("0.91"), mpf("3.95"), 7, erfc, "f"),
    # double
    "d_exp": (lambda r: (expm1(r) - r) / r**2, -LN2 / 2, LN2 / 2, 8, lambda r: r, "d"),
    "d_log": (lambda z: (log((1 + sqrt(z)) / (1 - sqrt(z))) / sqrt(z) - 2) / z, TINY, mpf("0.02944"), 6,
              lambda z: z / 2, "d"),
    "d_sin": (lambda z: (sin(sqrt(z)) / sqrt(z) - 1) / z, TINY, (pi / 4)**2 * 1.001, 5, lambda z: z, "d"),
    "d_cos": (lambda z: (cos(sqrt(z)) - 1) / z, TINY, (pi / 4)**2 * 1.001, 5, lambda z: z, "d"),
    "d_atan": (lambda z: (atan(sqrt(z)) / sqrt(z) - 1) / z, TINY, 1, 12, lambda z: z, "d"),
    "d_erfc": (scaled_erfc, -1, mpf("0.7"), 18, lambda t: 1 / scaled_erfc(t), "d"),
    "d_erfinv_mid": (lambda t: erfinv_of_w(3 * (1 + t)), -1 + TINY, 1, 14, lambda t: 1 / erfinv_of_w(3 * (1 + t)), "d"),
    "d_erfinv_tail": (lambda t: erfinv_of_w((mpf("3.25") + mpf("0.85") * t)**2), -1, 1, 12,
                      lambda t: 1 / erfinv_of_w((mpf("3.25") + mpf("0.85") * t)**2), "d"),
    "d_lgamma": (lambda u: loggamma(2 + u) / u, -0.5 + TINY, 0.5, 18, lambda u: u, "d"),
}


def main(names):
    for name in names or FITS:
        function, low, high, degree, weight, kind = FITS[name]
        coefficients, error = fit(function, low, high, degree, weight)
        print(f"// {name}: degree {degree}, largest error 2^{np.log2(error):.1f}")
        form = (lambda c: f"{float(np.float32(float(c))):.9g}f") if kind == "f" else (lambda c: f"{float(c):.17g}")
        print(", ".join(form(c) for c in coefficients))


if __name__ == "__main__":
    main(sys.argv[1:])
