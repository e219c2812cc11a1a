# SPDX-License-Identifier: Apache-2.0
"""Statements of the Array API standard (2025.12) about functions that op records do not have as they are."""
import pytest

import etude as et


def check(x, dtype, shape, values=None):
    assert x.dtype == dtype and x.shape == shape
    if values is not None:
        assert x.tolist() == values


# spec: T1.a
def test_creation():
    check(et.arange(3), et.int32, (3,), [0, 1, 2])
    check(et.arange(3.0), et.float32, (3,), [0.0, 1.0, 2.0])
    check(et.arange(3, 1), et.int32, (0,), [])
    check(et.arange(5, 0, -2), et.int32, (3,), [5, 3, 1])
    check(et.arange(2, dtype=et.float64), et.float64, (2,), [0.0, 1.0])
    check(et.arange(2**62, 2**62 + 3), et.int64, (3,), [2**62, 2**62 + 1, 2**62 + 2])
    check(et.arange(2**40, 2**40 + 2), et.int64, (2,), [2**40, 2**40 + 1])
    check(et.full((2,), True), et.bool, (2,), [True, True])
    check(et.full((), 2), et.int32, (), 2)
    check(et.full(2, 2.5), et.float32, (2,), [2.5, 2.5])
    check(et.full((1,), 1, dtype=et.float64), et.float64, (1,), [1.0])
    check(et.full((1,), 1 + 2j), et.complex64, (1,), [1 + 2j])
    check(et.full_like(et.ones([2]), 7), et.float32, (2,), [7.0, 7.0])
    check(et.full_like(et.ones([2]), 7, dtype=et.int8), et.int8, (2,), [7, 7])
    check(et.zeros_like([1, 2], dtype=et.bool), et.bool, (2,), [False, False])
    check(et.ones_like(et.zeros([0, 2])), et.float32, (0, 2))
    check(et.empty_like(et.zeros([2]), device="cpu:0"), et.float32, (2,))
    check(et.eye(2, 3, k=1), et.float32, (2, 3), [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    check(et.eye(1, dtype=et.complex64), et.complex64, (1, 1), [[1 + 0j]])
    check(et.linspace(0, 1, 3), et.float32, (3,), [0.0, 0.5, 1.0])
    check(et.linspace(0, 1, num=2, endpoint=False, dtype=et.float64), et.float64, (2,), [0.0, 0.5])
    check(et.linspace(0j, 2j, 3), et.complex64, (3,), [0j, 1j, 2j])
    check(et.asarray([[1, 2]], dtype=et.float64, device="cpu:0"), et.float64, (1, 2), [[1.0, 2.0]])
    x = et.ones([2])
    assert et.asarray(x) is x and et.asarray(x, copy=True) is not x


# spec: T10.a
def test_reductions_with_dtype():
    small = et.asarray([200, 100], dtype=et.uint8)
    assert et.sum(small).item() == 300
    check(et.sum(small, dtype=et.uint8), et.uint8, (), 44)
    check(et.sum(small, dtype=et.float64), et.float64, (), 300.0)
    check(et.prod(et.asarray([2, 3]), dtype=et.float32), et.float32, (), 6.0)
    check(et.cumulative_sum([1, 2, 3], dtype=et.int64, include_initial=True), et.int64, (4,), [0, 1, 3, 6])
    check(et.cumulative_prod([1, 2, 3]), et.int32, (3,), [1, 2, 6])
    check(et.linalg.trace([[1, 2], [3, 4]], dtype=et.float64), et.float64, (), 5.0)


# spec: T4, T6.a
def test_joining_and_choosing():
    check(et.diff([1, 4, 9], prepend=[0], append=[16]), et.int32, (4,), [1, 3, 5, 7])
    check(et.searchsorted([3, 1, 2], [2], sorter=et.asarray([1, 2, 0])), et.int64, (1,), [1])
    check(et.repeat([1, 2], 2), et.int32, (4,), [1, 1, 2, 2])
    check(et.repeat([1, 2], et.asarray([0, 3])), et.int32, (3,), [2, 2, 2])
    check(et.repeat([[1], [2]], et.asarray([1, 2]), axis=0), et.int32, (3, 1), [[1], [2], [2]])
    check(et.take([5, 6, 7], et.asarray([2, 0])), et.int32, (2,), [7, 5])
    check(et.concat([[[1]], [[2]]], axis=None), et.int32, (2,), [1, 2])
    check(et.reshape(et.arange(4), (2, -1), copy=False), et.int32, (2, 2), [[0, 1], [2, 3]])
    check(et.tensordot(et.ones([2, 3, 4]), et.ones([3, 4])), et.float32, (2,), [12.0, 12.0])
    check(et.tensordot(et.ones([2, 3]), et.ones([3, 2]), axes=([0, 1], [1, 0])), et.float32, (), 6.0)
    check(et.tensordot(et.ones([2]), et.ones([3]), axes=0), et.float32, (2, 3))
    rows, columns = et.nonzero([[0, 1], [1, 0]])
    assert rows.tolist() == [0, 1] and columns.tolist() == [1, 0]
    with pytest.raises(ValueError, match="without axes"):
        et.nonzero(3)


# spec: T23
def test_dtypes():
    assert et.isdtype(et.float32, "real floating") and not et.isdtype(et.int8, ("bool", "complex floating"))
    assert et.isdtype(et.int8, (et.int8, "bool"))
    with pytest.raises(ValueError):
        et.isdtype(et.int8, "odd")
    assert et.can_cast(et.int8, et.int16) and not et.can_cast(et.int16, et.int8)
    assert et.result_type(et.int8, et.uint8) == et.int16
    assert et.result_type(et.ones([1]), 1) == et.float32 and et.result_type(et.int8, 1.0) == et.float32
    assert et.result_type(et.float64, 1j) == et.complex128
    assert et.finfo(et.float32).eps == 2**-23 and et.finfo(et.complex128).dtype == et.float64
    assert et.iinfo(et.uint64).max == 2**64 - 1 and et.iinfo("int8").min == -128
    assert et.finfo(et.ones([1])).bits == 32
    with pytest.raises(ValueError):
        et.finfo(et.int8)
    assert et.float32 == "float32" and et.float32 != et.float64 and et.float32 != float
    assert {et.float32: 1}[et.float32] == 1 and repr(et.float32) == "etude.float32" and str(et.int8) == "int8"
    check(et.astype([1.7, -1.7], et.int32), et.int32, (2,), [1, -1])
    x = et.ones([2])
    assert x.astype(et.float32, copy=False) is x and x.astype(et.float32) is not x


def test_broadcast_shapes():
    assert et.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert et.broadcast_shapes(3, (1,)) == (3,)
    with pytest.raises(ValueError, match="axis -1 has the sizes 2 and 3"):
        et.broadcast_shapes((2,), (3,))


def test_linalg_forms():
    assert et.linalg.matrix_norm(et.ones([2, 2]), ord=1).item() == 2.0
    assert et.linalg.matrix_norm(et.ones([2, 2]), ord=float("-inf")).item() == 2.0
    values, vectors = et.linalg.eigh(et.asarray([[2.0, 0.0], [0.0, 1.0]]))
    assert values.tolist() == [1.0, 2.0] and vectors.shape == (2, 2)
    assert et.linalg.svd(et.ones([3, 2]), full_matrices=False).S.shape == (2,)
    assert et.linalg.qr(et.ones([3, 2])).Q.shape == (3, 2)
    assert et.fft.fftfreq(4, d=0.5, dtype=et.float64).tolist() == [0.0, 0.5, -1.0, -0.5]


def test_eigenvalues_of_general_matrices():
    for dtype, wanted in ((et.float32, et.complex64), (et.float64, et.complex128), (et.complex64, et.complex64), (et.complex128, et.complex128)):
        x = et.astype(et.random.normal((2, 5, 5), key=et.random.key(3)), dtype)
        result = et.linalg.eig(x)
        assert result[0] is result.eigenvalues and result[1] is result.eigenvectors
        check(result.eigenvalues, wanted, (2, 5))
        check(result.eigenvectors, wanted, (2, 5, 5))
        check(et.linalg.eigvals(x), wanted, (2, 5), result.eigenvalues.tolist())
        moved = et.astype(x, wanted) @ result.eigenvectors - result.eigenvectors * result.eigenvalues[:, None, :]
        assert et.max(et.abs(moved)).item() < (1e-4 if wanted == et.complex64 else 1e-12)
    check(et.linalg.eig(et.zeros((0, 3, 3))).eigenvalues, et.complex64, (0, 3))
    # The sum of the eigenvalues is the trace.
    slope = et.gradient(lambda x: et.sum(et.real(et.linalg.eigvals(x))))(et.asarray([[1.0, 2.0], [-3.0, 4.0]]))
    assert et.testing.assert_close(slope, [[1.0, 0.0], [0.0, 1.0]]) is None
    with pytest.raises(et.InvalidArgumentError, match="linalg.eig.*must be square|eig.*must be square"):
        et.linalg.eig(et.ones((2, 3)))


def test_masks_without_elements():
    """The size of each dimension of a mask is that of the dimension that it indexes, or 0."""
    x = et.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    none = lambda *shape: et.zeros(shape, dtype=et.bool)  # noqa: E731
    for mask, shape in ((none(0), (0, 3)), (none(0, 0), (0,)), (none(2, 0), (0,)), (none(0, 3), (0,))):
        check(x[mask], et.float32, shape)
        x[mask] = 7.0
    check(et.zeros((0, 1), dtype=et.bool)[none(0, 0)], et.bool, (0,))
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    with pytest.raises(IndexError, match="A mask must have the sizes of the axes it indexes, or 0"):
        x[none(0, 1)]


def test_a_rank_that_is_documented():
    assert et.__array_namespace_info__().capabilities()["max dimensions"] == 16
    assert et.ones((1,) * 16).ndim == 16
    with pytest.raises(et.InvalidArgumentError):
        et.reshape(et.ones(()), (1,) * 17)


def test_namespace_info():
    info = et.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == et.float32
    assert info.default_dtypes()["indexing"] == et.int64
    assert info.dtypes(kind="bool") == {"bool": et.bool}
    assert set(info.dtypes(kind=("signed integer", "bool"))) == {"bool", "int8", "int16", "int32", "int64"}
    assert info.capabilities()["boolean indexing"] and str(info.default_device()) in map(str, info.devices())


def test_rounding_of_complex_numbers():
    check(et.round([1.5 + 2.5j]), et.complex64, (1,), [2 + 2j])
    check(et.round([2.5, -0.5]), et.float32, (2,), [2.0, -0.0])


def test_sign_of_zeros():
    for dtype in (et.float16, et.bfloat16, et.float32, et.float64):
        y = et.sign(et.asarray([-0.0, 0.0, -2.0, float("nan")], dtype=dtype))
        check(y, dtype, (4,))
        assert et.signbit(y).tolist()[:3] == [False, False, True] and y.tolist()[2] == -1.0 and et.isnan(y).tolist()[3]
    for zero in (complex(0.0, 0.0), complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0)):
        for dtype in (et.complex64, et.complex128):
            y = et.sign(et.asarray([zero], dtype=dtype))
            check(y, dtype, (1,))
            assert not et.signbit(et.real(y)).item() and not et.signbit(et.imag(y)).item()
    y = et.asarray([complex(-2.0, -0.0), complex(0.0, 3.0), complex(float("nan"), 1.0)]).sign()
    assert y[:2].tolist() == [-1 + 0j, 1j] and et.signbit(et.imag(y)).tolist()[0] and et.isnan(y).tolist() == [False, False, True]
    check(et.sign([-3, 0, 2]), et.int32, (3,), [-1, 0, 1])
    check(et.sign([-3.0, 0.0, float("inf")]), et.float32, (3,), [-1.0, 0.0, 1.0])
    slope = et.gradient(lambda v: et.sum(et.real(et.sign(v))))(et.asarray([3 + 4j]))
    assert abs(complex(slope[0].item())) > 0.1


# The standard permits the result of Python's // where an operand is infinite, and C99's tanh.
def test_cases_with_two_results():
    inf = float("inf")
    for a, b in ((inf, 2.0), (inf, -2.0), (-inf, 2.0), (-inf, -2.0), (inf, inf)):
        assert et.isnan(et.floor_divide(et.asarray(a), b)).item()
    assert et.floor_divide(et.asarray(2.0), -inf).item() == -1.0 and et.floor_divide(et.asarray(-2.0), inf).item() == -1.0
    assert et.floor_divide(et.asarray(2.0), inf).item() == 0.0 and et.floor_divide(et.asarray(-2.0), -inf).item() == 0.0
    for a in (1.0, 2.5, -2.5):
        for b in (inf, -inf):
            assert et.floor_divide(et.asarray(a), b).item() == a // b and et.remainder(et.asarray(a), b).item() == a % b


def test_arguments_at_the_edge():
    for k in (2**63, 2**70, -(2**63) - 1):
        check(et.eye(2, k=k), et.float32, (2, 2), [[0.0, 0.0], [0.0, 0.0]])
    check(et.repeat(et.zeros((0,), dtype=et.int8), et.zeros((0,), dtype=et.int32)), et.int8, (0,), [])
    check(et.repeat(et.zeros((2, 0)), et.zeros((0,), dtype=et.int32), axis=1), et.float32, (2, 0))
    x = et.asarray([[[1.0, 0.0], [0.0, 0.1]]] * 3)
    plain = et.linalg.matrix_rank(x)
    check(plain, plain.dtype, (3,), [2, 2, 2])
    check(et.linalg.matrix_rank(x, rtol=et.asarray([0.01, 0.09, 0.5])), plain.dtype, (3,), [2, 2, 1])
    check(et.linalg.matrix_rank(x, rtol=0.5), plain.dtype, (3,), [1, 1, 1])
    check(et.linalg.matrix_rank(x, rtol=et.asarray(0.5)), plain.dtype, (3,), [1, 1, 1])


def test_pinv_with_a_number_for_each_matrix():
    x = et.asarray([[[1.0, 0.0], [0.0, 0.1]]] * 3)
    got = et.linalg.pinv(x, rtol=et.asarray([0.01, 0.09, 0.5]))
    et.testing.assert_close(got, et.asarray([[[1.0, 0.0], [0.0, 10.0]]] * 2 + [[[1.0, 0.0], [0.0, 0.0]]]))
    for rtol in (0.01, 0.5):
        plain = et.linalg.pinv(x, rtol=rtol)
        for same in (et.asarray(rtol), et.asarray([rtol]), et.asarray([rtol] * 3)):
            assert et.linalg.pinv(x, rtol=same).tolist() == plain.tolist()
    assert et.linalg.pinv(x[0], rtol=et.asarray([0.01, 0.5])).shape == (2, 2, 2)
    check(et.linalg.pinv(x[0, :1], rtol=et.asarray([0.5])), et.float32, (1, 2, 1), [[[1.0], [0.0]]])
    check(et.linalg.pinv(et.zeros((0, 2, 3)), rtol=et.zeros((0,))), et.float32, (0, 3, 2), [])
    check(et.linalg.pinv(et.zeros((2, 0, 3)), rtol=et.zeros((2,))), et.float32, (2, 3, 0), [[[], [], []]] * 2)
    slope = et.gradient(lambda x: et.sum(et.linalg.pinv(x, rtol=et.asarray([1e-3, 1e-2, 1e-3]))))(et.stack([et.eye(2)] * 3))
    et.testing.assert_close(slope, -et.ones((3, 2, 2)))  # equal singular values
    with pytest.raises(et.InvalidArgumentError, match="broadcast_shapes: axis -1 has the sizes 3 and 2"):
        et.linalg.pinv(x, rtol=et.asarray([0.1, 0.2]))


def test_asarray_without_a_copy_is_the_tensor():
    x = et.asarray([1, 2, 3])
    for options in ({}, {"copy": False}, {"dtype": et.int32}, {"dtype": et.int32, "copy": False}, {"device": "cpu:0", "copy": False}):
        assert et.asarray(x, **options) is x, options
    assert et.asarray(x, dtype=et.int64) is not x and et.asarray(x, copy=True) is not x
    with pytest.raises(et.InvalidArgumentError, match="int32 elements become int64 only by a copy"):
        et.asarray(x, dtype=et.int64, copy=False)
    with pytest.raises(TypeError, match="'copy' is True, False or None, not a int"):
        et.asarray(x, copy=1)
    with pytest.raises(TypeError):
        et.asarray(x, dtype="none", copy=False)


def test_expm1_of_a_negative_zero():
    for dtype in (et.complex64, et.complex128):
        z = et.expm1(et.asarray([complex(-0.0, 0.0), complex(-0.0, -0.0), complex(0.0, 0.0)], dtype=dtype))
        assert [str(part) for part in z.tolist()] == ["0j", "-0j", "0j"]
