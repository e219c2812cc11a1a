# SPDX-License-Identifier: Apache-2.0
"""A loop of 100 products, imperative and as a graph: ``python -m etude.examples.matmul_many``."""

import time

import etude as et


def matmul_many(tensor):
    accum = tensor
    for _ in et.arange(100):  # one loop of the graph; range(100) would be unrolled
        accum = et.matmul(accum, tensor)
    return accum


def main() -> None:
    graph_fn = et.function(matmul_many)
    x = et.ones((2, 2)) / 2
    assert graph_fn(x).tolist() == matmul_many(x).tolist() == x.tolist()
    for name, f in (("imperative", matmul_many), ("graph", graph_fn)):
        times = []
        for _ in range(200):
            start = time.perf_counter()
            f(x)
            times.append(time.perf_counter() - start)
        print(f"{name:>10}: {1e6 * min(times):8.1f} us per call")
    print(graph_fn.traces()[0])


if __name__ == "__main__":
    main()
