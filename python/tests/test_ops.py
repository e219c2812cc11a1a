# SPDX-License-Identifier: Apache-2.0
"""Functions from the records: arguments, signatures, docs."""
import inspect

import pytest

import etude as et


def test_operands_of_all_kinds():
    assert et.add(1, 2).tolist() == 3
    assert et.add([1, 2], 3.5).tolist() == [4.5, 5.5]
    assert et.maximum(et.asarray([1, 5]), 3).tolist() == [3, 5]
    assert et.where(et.asarray([True, False]), 1.0, et.asarray([2.0, 3.0])).tolist() == [1.0, 3.0]
    assert et.add(et.Variable(2.0), 1).item() == 3.0
    assert et.clip(et.asarray([1.0, 5.0]), 2, None).tolist() == [2.0, 5.0]
    assert et.clip(et.asarray([1.0, 5.0]), max=2).tolist() == [1.0, 2.0]


def test_attributes_of_all_kinds():
    x = et.reshape(et.arange(6), (2, 3))
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert et.sum(x, axis=0).tolist() == [3, 5, 7]
    assert et.sum(x, axis=(0, 1), keepdims=True).tolist() == [[15]]
    assert et.sum(x, axis=-1).tolist() == [3, 12]
    assert et.permute_dims(x, axes=(1, 0)).shape == (3, 2)
    assert et.zeros(3, dtype="int8").dtype == et.int8
    assert et.zeros((), dtype=None).dtype == et.float32
    assert et.nn.leaky_relu(et.asarray(-1.0), slope=0.5).item() == -0.5
    assert et.nn.gelu(et.asarray(0.0), approximate="tanh").item() == 0.0
    assert et.image.resize(et.ones([2, 2, 1]), (4, 4)).shape == (4, 4, 1)
    assert et.einsum("ij,jk->ik", et.ones([2, 3]), et.ones([3, 4])).shape == (2, 4)
    assert et.einsum("ij,jk->ik", [et.ones([2, 3]), et.ones([3, 4])]).shape == (2, 4)


def test_lists_of_operands():
    a, b = et.asarray([1.0]), et.asarray([2.0])
    assert et.concat([a, b]).tolist() == [1.0, 2.0]
    assert et.concat((a, b), axis=0).tolist() == [1.0, 2.0]
    assert et.concat([et.ones([1, 2]), b], axis=None).tolist() == [1.0, 1.0, 2.0]
    assert et.stack([a, b]).shape == (2, 1)
    assert [x.shape for x in et.broadcast_arrays(et.ones([2, 1]), et.ones([3]))] == [(2, 3), (2, 3)]
    assert [x.shape for x in et.meshgrid(et.ones([2]), et.ones([3]), indexing="ij")] == [(2, 3), (2, 3)]
    assert isinstance(et.split(et.ones([4]), 2), tuple)


def test_named_results():
    found = et.unique_all(et.asarray([3, 1, 3]))
    assert found.values.tolist() == [1, 3] and found.counts.tolist() == [1, 2]
    values, inverse = et.unique_inverse(et.asarray([3, 1, 3]))
    assert inverse.tolist() == [1, 0, 1] and values.tolist() == [1, 3]


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: et.matmul(et.ones([2, 2])), r"matmul\(\): 'y' is missing. The signature is matmul\(x, y, /, \*, "),
        (lambda: et.exp(), r"exp\(\): 'x' is missing"),
        (lambda: et.exp(1, 2), r"exp\(\): takes 1 arguments by position, but 2 were given"),
        (lambda: et.exp(x=1), r"exp\(\): 'x' is given by position only"),
        (lambda: et.exp("a"), r"exp\(\): operand 'x' is a str, but must be a tensor"),
        (lambda: et.exp(None), r"exp\(\): operand 'x' is None"),
        (lambda: et.mean(1.0, axes=1), r"mean\(\): there is no parameter 'axes'. The signature is mean\(x, /, \*, axis"),
        (lambda: et.mean([1.0], axis="a"), r"mean\(\): 'axis' is a str, but must be an int or a sequence of ints"),
        (lambda: et.mean([1.0], axis=[0.5]), r"mean\(\): 'axis' is a list, but must be an int or a sequence"),
        (lambda: et.broadcast_to([1.0], (2,), shape=(2,)), r"broadcast_to\(\): there are two values of 'shape'"),
        (lambda: et.mean([1.0], keepdims="yes"), r"mean\(\): 'keepdims' is a str, but must be a bool"),
        (lambda: et.nn.gelu([1.0], approximate=1), r"nn.gelu\(\): 'approximate' is an int, but must be a str"),
        (lambda: et.zeros([2], dtype="float31"), r"'dtype' is 'float31', but must be a dtype such as"),
        (lambda: et.stack(3), r"stack\(\): the operands are an int, but must be a list of tensors"),
    ],
)
def test_argument_errors(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_huge_integers():
    with pytest.raises(et.InvalidArgumentError, match="more than 64 bits"):
        et.zeros([2**70])
    with pytest.raises(et.InvalidArgumentError, match="more than 64 bits"):
        et.ones([1]) + 2**70


def test_signatures_and_docs():
    assert str(inspect.signature(et.exp)) == "(x: 'ArrayLike', /)"
    parameters = inspect.signature(et.mean).parameters
    assert parameters["axis"].kind is inspect.Parameter.KEYWORD_ONLY and parameters["axis"].default is None
    assert parameters["keepdims"].default is False
    assert inspect.signature(et.clip).parameters["min"].default is None
    assert et.matmul.__doc__.startswith("matmul(x, y, /, *, transpose_x=False, transpose_y=False)\n\nMatrix product")
    assert et.nn.relu.__module__ == "etude.nn" and et.nn.relu.__name__ == "relu" and et.nn.relu.full_name == "nn.relu"
    assert repr(et.nn.relu) == "<op nn.relu>"
    for op in et._core._ops.values():
        assert inspect.signature(op) and op.__doc__


def test_modules_of_namespaces():
    import etude.linalg
    from etude.nn import relu

    assert relu is et.nn.relu and etude.linalg.matmul is et.matmul


def test_dropout_draws_keys():
    q = et.ones([1, 2, 4, 8])
    with et.SeedScope(1):
        a = et.nn.scaled_dot_product_attention(q, q, q, dropout=0.5)
        b = et.nn.scaled_dot_product_attention(q, q, q, dropout=0.5)
    with et.SeedScope(1):
        c = et.nn.scaled_dot_product_attention(q, q, q, dropout=0.5)
    assert a.tolist() == c.tolist() != b.tolist()
