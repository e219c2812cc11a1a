# SPDX-License-Identifier: Apache-2.0
"""Data for training: loaders, data sets of rows, frames, and workers that prepare items."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator

from etude import _core
from etude._arguments import integer
from etude._structures import tree

__all__ = ["Dataset", "Loader", "from_frame", "from_tensors", "parallel_map"]


class Loader(_core.Loader):
    """An endless series of batches ``(inputs, labels)`` over samples in memory, shuffled for each
    epoch.

    ``for inputs, labels in loader`` goes through the rest of the current epoch. The position can be
    saved and restored.
    """

    def __init__(
        self,
        inputs: Any,
        labels: Any = None,
        *more: Any,
        batch: int = 32,
        seed: int = 0,
        shuffle: bool = True,
        keep_remainder: bool = False,
        prefetch: int = 2,
    ) -> None:
        if labels is None:
            raise _core.InvalidArgumentError(
                "Loader: labels are missing. A batch is a pair: Loader(inputs, labels, batch=...). For inputs alone take "
                "et.data.from_tensors(inputs).batch(...)"
            )
        if more:
            raise _core.InvalidArgumentError("Loader: options are given by name, as in Loader(inputs, labels, batch=32)")
        super().__init__(
            inputs,
            labels,
            batch=integer("Loader", "batch", batch),
            seed=seed,
            shuffle=shuffle,
            keep_remainder=keep_remainder,
            prefetch=prefetch,
        )

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        epoch = self.position[0]
        while self.position[0] == epoch:
            yield self.next()

    def __len__(self) -> int:
        return self.steps_per_epoch


class Dataset:
    """Rows of tensors along axis 0: ``from_tensors(x)``, or of a structure, ``from_tensors((x,
    y))``.

    A loop over it in a staged function is one loop of the graph. Iterate as often as you like.
    """

    def __init__(self, tensors: Any, functions: tuple[Callable, ...] = ()) -> None:
        leaves, self._form = _core._flatten(tensors)
        self._leaves = [_core.asarray(leaf) for leaf in leaves]
        sizes = {leaf.shape[0] if leaf.shape else None for leaf in self._leaves}
        if len(sizes) != 1 or None in sizes:
            paths = _core._paths(self._form, True)
            found = ", ".join(
                f"{path or 'x'}: {list(leaf.shape)}" for path, leaf in zip(paths, self._leaves)
            )
            raise _core.InvalidArgumentError(
                f"from_tensors: all tensors need the same size along axis 0, but the shapes are {found or 'none'}"
            )
        self._functions = functions

    def __len__(self) -> int:
        return self._leaves[0].shape[0]

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            row = self._row([leaf[i] for leaf in self._leaves])
            for function in self._functions:
                row = function(row)
            yield row

    def _row(self, leaves: list) -> Any:
        return _core._unflatten(self._form, leaves)

    def map(self, function: Callable) -> Dataset:
        """The data set of ``function(row)``."""
        return Dataset(self._row(self._leaves), (*self._functions, function))

    def batch(self, size: int) -> Dataset:
        """Rows of ``size`` rows each; rows that fill no batch are left out."""
        if self._functions:
            raise _core.InvalidArgumentError("Dataset.batch: call batch() before map()")
        count = len(self) // size if size > 0 else 0
        if count == 0:
            raise _core.InvalidArgumentError(
                f"Dataset.batch: size is {size}, but there are {len(self)} rows; it must be from 1 to {len(self)}"
            )
        parts = [
            _core.reshape(leaf[: count * size], (count, size, *leaf.shape[1:]))
            for leaf in self._leaves
        ]
        return Dataset(self._row(parts))


def from_tensors(tensors: Any) -> Dataset:
    """The data set of the rows of a tensor, an array or a structure of them."""
    return Dataset(tensors)


def from_frame(frame: Any, labels: str | list[str], *, dtype: Any = None) -> tuple[Any, Any]:
    """Inputs and labels of a table such as a pandas DataFrame: ``(inputs, labels)``.

    Inputs are the columns besides ``labels``, in their order, as ``dtype`` (default: float32).
    Labels of integers or bools keep their kind, as int32; others become ``dtype``. One name gives
    labels of rank 1, a list of names rank 2.
    """
    dtype = _core.float32 if dtype is None else dtype
    names = [labels] if isinstance(labels, str) else list(labels)
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise _core.InvalidArgumentError(
            f"from_frame: there is no column {missing[0]!r}, but {', '.join(map(repr, frame.columns))}"
        )
    inputs = [_column(frame, name, dtype) for name in frame.columns if name not in names]
    if not inputs:
        raise _core.InvalidArgumentError("from_frame: no column is left for the inputs")
    expected = [_column(frame, name, None) for name in names]
    if not all(_core.isdtype(y.dtype, ("bool", "integral")) for y in expected):
        expected = [_core.astype(y, dtype) for y in expected]
    else:
        expected = [_core.astype(y, _core.int32) for y in expected]
    joined = expected[0] if isinstance(labels, str) else _core._ops["stack"](expected, axis=1)
    return _core._ops["stack"](inputs, axis=1), joined


def _column(frame: Any, name: Any, dtype: Any) -> Any:
    column = frame[name].to_numpy()
    if column.dtype.kind not in "biuf":
        raise _core.InvalidArgumentError(
            f"from_frame: column {name!r} has dtype {column.dtype}, but needs numbers. Leave it out, or turn it into "
            f"numbers first, such as frame[{name!r}].astype('category').cat.codes"
        )
    made = _core.asarray(column)
    return made if dtype is None else _core.astype(made, dtype)


def parallel_map(
    function: Callable, items: Iterable, *, workers: int = 2, ahead: int = 2
) -> Iterator[Any]:
    """Yields ``function(item)`` for each item, in order, computed by processes.

    The processes are started anew, so that none inherits threads or locks; ``function`` is found by
    its module and name. At most ``workers * ahead`` results wait. Arguments and results are
    pickled: return NumPy arrays or tensors of the size of a batch. An error in a worker is raised
    here. Closing the generator ends the processes.
    """
    import collections
    import concurrent.futures
    import multiprocessing

    for name, value in (("workers", workers), ("ahead", ahead)):
        if value < 1:
            raise _core.InvalidArgumentError(
                f"parallel_map: {name} is {value}, but must be at least 1"
            )
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn")
    )
    waiting: collections.deque = collections.deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) >= workers * ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
