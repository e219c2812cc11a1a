// SPDX-License-Identifier: Apache-2.0
// Attention and rotary embedding.
#include <cmath>
#include <limits>
#include <vector>

#include "etude/onnx/import/importer.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"

namespace etude::onnx::importing {
namespace attention {
namespace {

using Results = std::vector<Tensor>;

constexpr double kLow = -std::numeric_limits<double>::infinity();

// [batch, rows, heads * size] as [batch, heads, rows, size].
Tensor by_head(const NodeCall& n, std::size_t i, const char* attribute) {
  const Tensor& x = n.x(i);
  if (n.rank(i) == 4) return x;
  const Shape shape = n.shape(i);
  const int64_t heads = n.integer(attribute);
  n.require(n.rank(i) == 3 && heads > 0 && shape[2] % heads == 0, "an operand is {}, and {} is {}",
            shape.to_string(), attribute, heads);
  return permute_dims(reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

int64_t size_of(const Tensor& x, int axis) { return x.type()->shape()[axis]; }

// Numbers to add to scores: minus infinity where a key is hidden. Absent if there is none.
class Bias {
 public:
  explicit Bias(DType dtype) : dtype_(dtype) {}

  void add(const Tensor& more) { total_ = total_.has_value() ? total_ + more : more; }
  void hide_unless(const Tensor& is_seen) {
    const Tensor none = zeros(Sizes{}, {.dtype = dtype_});
    add(where(is_seen, none, full(Sizes{}, astype(Tensor(kLow), dtype_))));
  }
  const Tensor& total() const { return total_; }

 private:
  DType dtype_;
  Tensor total_;
};

Tensor bias_of(const NodeCall& n, int64_t queries, int64_t keys, int64_t past) {
  Bias bias(n.dtype(0));
  if (n.has(3)) {
    Tensor mask = n.x(3);
    n.require(n.rank(3) > 0, "the mask is a single number");
    const int64_t missing = keys - size_of(mask, mask.type()->rank() - 1);
    if (missing > 0) {  // keys that the mask does not have are hidden
      Sizes widths(2 * static_cast<std::size_t>(mask.type()->rank()), 0);
      widths.back() = missing;
      mask = pad(mask, widths, {.value = mask.dtype() == kBool ? 0 : kLow});
    }
    if (mask.dtype() == kBool) {
      bias.hide_unless(mask);
    } else {
      bias.add(mask);
    }
  }
  if (n.integer("is_causal", 0) != 0) {
    bias.hide_unless(reshape(numbered(keys), {1, keys}) <=
                     reshape(numbered(queries), {queries, 1}) + past);
  }
  if (n.has(6)) {
    const int64_t batch = n.shape(6).count();
    bias.hide_unless(reshape(numbered(keys), {1, 1, 1, keys}) <
                     reshape(as_dtype(n.x(6), kInt64), {batch, 1, 1, 1}));
  }
  return bias.total();
}

Results attend(const NodeCall& n) {
  const bool is_flat = n.rank(0) == 3;
  const Tensor q = by_head(n, 0, "q_num_heads");
  Tensor k = by_head(n, 1, "kv_num_heads"), v = by_head(n, 2, "kv_num_heads");
  int64_t past = 0;
  if (n.has(4)) {
    past = n.shape(4)[2];
    k = concat({n.x(4), k}, {.axis = 2});
  }
  if (n.has(5)) v = concat({n.x(5), v}, {.axis = 2});
  const Tensor present_key = k, present_value = v;
  const int64_t heads = size_of(q, 1), groups = size_of(k, 1);
  n.require(groups > 0 && heads % groups == 0, "there are {} heads of queries and {} of keys",
            heads, groups);
  if (heads != groups) {
    k = repeat(k, heads / groups, {.axis = {1}});
    v = repeat(v, heads / groups, {.axis = {1}});
  }
  const DType dtype = q.dtype();
  const double scale =
      std::sqrt(n.real("scale", 1 / std::sqrt(static_cast<double>(size_of(q, 3)))));
  Tensor scores = matmul(q * scale, k * scale, {.transpose_y = true});
  const double cap = n.real("softcap", 0);
  const int64_t mode = n.integer("qk_matmul_output_mode", 0);
  Tensor shown = scores;
  if (cap > 0) {
    scores = tanh(scores / cap) * cap;
    if (mode == 1) shown = scores;
  }
  const Tensor bias = bias_of(n, size_of(q, 2), size_of(k, 2), past);
  if (bias.has_value()) scores = scores + bias;
  if (mode == 2) shown = scores;
  const Tensor weights = nn::softmax(as_dtype(scores, n.dtype("softmax_precision", dtype)));
  if (mode == 3) shown = as_dtype(weights, dtype);
  Tensor y = as_dtype(matmul(as_dtype(weights, dtype), v), dtype);
  if (is_flat) {
    const Shape shape = y.type()->shape();
    y = reshape(permute_dims(y, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
  }
  return {y, present_key, present_value, shown};
}

// Rotates pairs of features by angles. The cosines and sines of the angles are operands.
Results rotated(const NodeCall& n) {
  const Shape given = n.shape(0);
  Tensor x = n.x(0);
  if (n.rank(0) == 4) {
    x = permute_dims(x, {0, 2, 1, 3});
  } else {
    const int64_t heads = n.integer("num_heads", 0);
    n.require(n.rank(0) == 3 && heads > 0 && given[2] % heads == 0,
              "the operand is {}, and num_heads is {}", given.to_string(), heads);
    x = reshape(x, {given[0], given[1], heads, given[2] / heads});
  }
  const Shape shape = x.type()->shape();
  int64_t size = n.integer("rotary_embedding_dim", 0);
  if (size == 0) size = shape[3];
  n.require(size > 0 && size <= shape[3] && size % 2 == 0, "{} features of {} are rotated", size,
            shape[3]);
  const auto features = [&](const Tensor& of, int64_t begin, int64_t end, int64_t step) {
    return slice(of, {0, 0, 0, begin}, {shape[0], shape[1], shape[2], end},
                 {.step = {1, 1, 1, step}});
  };
  const auto angles = [&](std::size_t i) {
    const Tensor of = n.has(3) ? take(n.x(i), n.x(3)) : n.x(i);
    return expand_dims(of, 2);
  };
  const Tensor cosine = angles(1), sine = angles(2);
  const bool is_interleaved = n.integer("interleaved", 0) != 0;
  const Tensor a = is_interleaved ? features(x, 0, size, 2) : features(x, 0, size / 2, 1);
  const Tensor b = is_interleaved ? features(x, 1, size, 2) : features(x, size / 2, size, 1);
  const Tensor real = cosine * a - sine * b, imaginary = sine * a + cosine * b;
  Tensor y = is_interleaved ? reshape(stack({real, imaginary}, {.axis = -1}),
                                      {shape[0], shape[1], shape[2], size})
                            : concat({real, imaginary}, {.axis = -1});
  if (size < shape[3]) y = concat({y, features(x, size, shape[3], 1)}, {.axis = -1});
  return {n.rank(0) == 4 ? permute_dims(y, {0, 2, 1, 3}) : reshape(y, given)};
}

}  // namespace
}  // namespace attention

void add_attention_imports(Imports& to) {
  using namespace attention;
  to.insert(to.end(), {{"Attention", "Q K V attn_mask? past_key? past_value? nonpad_kv_seqlen?",
                        "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap "
                        "softmax_precision",
                        attend},
                       {"RotaryEmbedding", "X cos_cache sin_cache position_ids?",
                        "interleaved num_heads rotary_embedding_dim", rotated}});
}

}  // namespace etude::onnx::importing
