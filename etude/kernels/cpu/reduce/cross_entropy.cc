// SPDX-License-Identifier: Apache-2.0
//
// With targets p, smoothing s, class weights w and q_c = w_c ((1 - s) p_c + s / n), the loss of a
// row is sum_c q_c (log(sum exp(z - max)) - (z_c - max)), and its gradient is sum(q) softmax(z) -
// q: no logarithm of a softmax is formed.
#include "etude/kernels/cpu/reduce/cross_entropy.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>

#include "etude/base/check.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/floating.h"
#include "etude/kernels/cpu/halves.h"
#include "etude/kernels/cpu/reduce/rows.h"
#include "etude/kernels/cpu/scratch.h"

namespace etude::kernels::cpu {
namespace {

constexpr int64_t kChunkElements = 1 << 13;
constexpr int64_t kLeastAside = 4;  // short rows that are faster side by side

struct CrossEntropyParams : KernelParams {
  int64_t rows = 0, size = 0;
  double smoothing = 0;
  std::optional<int64_t> ignored;
  bool has_grad = false;
};

// One call, with C the type of the arithmetic, T of the logits and L of the labels.
template <class T, class L, class C>
class Loss {
  static constexpr bool kNumbers = std::is_integral_v<L>;

 public:
  Loss(const CrossEntropyParams& p, const KernelCall& call)
      : p_(p),
        logits_(static_cast<const T*>(call.in[0])),
        labels_(static_cast<const L*>(call.in[1])),
        weights_(static_cast<const T*>(call.in[2])),
        ct_(p.has_grad ? static_cast<const T*>(call.in[3]) : nullptr),
        out_(static_cast<T*>(call.out[0])) {}

  bool check_labels() const {
    if constexpr (kNumbers) {
      for (int64_t row = 0; row < p_.rows; ++row) {
        const auto label = static_cast<int64_t>(labels_[row]);
        if ((label >= 0 && label < p_.size) || is_ignored(row)) continue;
        return report_fault(
            ErrorCode::kOutOfRange,
            fmt::format("label {} of row {} is outside [0, {}), the classes of operand 'logits'. "
                        "Pass ignore_index to leave rows out",
                        label, row, p_.size));
      }
    }
    return true;
  }

  bool run() const {
    const int64_t step = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, p_.size));
    std::atomic<bool> fine{true};
    const double us = static_cast<double>(p_.rows * p_.size) * 2e-3;
    parallel_for((p_.rows + step - 1) / step, us, [&](int64_t chunk) {
      if (!run_rows(chunk * step, std::min(p_.rows, (chunk + 1) * step))) fine = false;
    });
    return fine ? true : Scratch::report();
  }

 private:
  bool is_ignored(int64_t row) const {
    if constexpr (kNumbers)
      return p_.ignored && static_cast<int64_t>(labels_[row]) == *p_.ignored;
    else
      return false;
  }

  C weight(int64_t c) const { return weights_ == nullptr ? C(1) : static_cast<C>(weights_[c]); }

  // The targets q of a row; they are one number where labels are numbers and nothing is smoothed.
  void fill_targets(int64_t row, C* q) const {
    const C even = static_cast<C>(p_.smoothing / static_cast<double>(p_.size));
    const C keep = static_cast<C>(1 - p_.smoothing);
    for (int64_t c = 0; c < p_.size; ++c) {
      if constexpr (kNumbers)
        q[c] = weight(c) * (static_cast<int64_t>(labels_[row]) == c ? keep + even : even);
      else
        q[c] = weight(c) * (keep * static_cast<C>(labels_[row * p_.size + c]) + even);
    }
  }

  // Rows [begin, end); false if there is no memory.
  bool run_rows(int64_t begin, int64_t end) const {
    const int64_t n = p_.size;
    if constexpr (std::is_same_v<C, float>) {
      if (n >= 1 && n <= kShortRow && end - begin >= kLeastAside) {
        for (int64_t row = begin; row < end; row += kRowsAside) {
          run_aside(row, std::min(kRowsAside, end - row));
        }
        return true;
      }
    }
    Scratch scratch(2 * n * static_cast<int64_t>(sizeof(C)));
    if (scratch.data() == nullptr) return false;
    C* x = reinterpret_cast<C*>(scratch.data());
    for (int64_t row = begin; row < end; ++row) run_row(row, x, x + n);
    return true;
  }

  // The numbers of a row that do not depend on its targets.
  struct Known {
    C max, sum;  // of exp(z - max)
    C log;       // of the sum; not for a gradient
  };

  void run_row(int64_t row, C* x, C* q) const {
    const RowMath<C>& math = row_math<C>();
    const int64_t n = p_.size;
    if (is_ignored(row)) return finish_ignored(row);
    load_row(x, logits_ + row * n, n);
    Known known{};
    known.max = math.max(x, n);
    known.sum = math.exp_sum(p_.has_grad ? x : nullptr, x, n, known.max);
    if (!p_.has_grad) known.log = math.log(known.sum);
    finish(row, x, q, known);
  }

  // So many short rows from `first` on, side by side until the targets are needed.
  void run_aside(int64_t first, int64_t rows) const {
    const ShortRowMath& math = short_row_math();
    const int64_t n = p_.size;
    float tile[kShortRow * kRowsAside], terms[kShortRow * kRowsAside];
    float max[kRowsAside], sum[kRowsAside], log[kRowsAside] = {};
    const ShortRows lie{.rows = rows, .size = n, .row_step = n, .step = 1};
    lie.read(tile, logits_ + first * n);
    math.max(max, tile, n);
    math.exp_sum(sum, terms, tile, n, max);
    if (!p_.has_grad) math.log(log, sum);
    float x[kShortRow * kRowsAside], q[kShortRow];
    lie.write(x, p_.has_grad ? terms : tile);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t row = first + r;
      is_ignored(row) ? finish_ignored(row) : finish(row, x + r * n, q, {max[r], sum[r], log[r]});
    }
  }

  void finish_ignored(int64_t row) const {
    const int64_t results = p_.has_grad ? p_.size : 1;
    std::fill_n(out_ + row * results, results, T(0.0f));
  }

  // x holds the logits of the row, or for a gradient exp(z - max).
  void finish(int64_t row, C* x, C* q, const Known& known) const {
    const RowMath<C>& math = row_math<C>();
    const int64_t n = p_.size;
    const bool one = kNumbers && p_.smoothing == 0;
    if (!one) fill_targets(row, q);
    if (!p_.has_grad) {
      if (one)
        out_[row] = T(weight(at(row)) * (known.log - (x[at(row)] - known.max)));
      else
        out_[row] = T(math.weigh(q, x, n, known.max, known.log));
      return;
    }
    const C ct = static_cast<C>(ct_[row]);
    if (one) {
      const C factor = ct * weight(at(row));
      math.scale(x, x, n, factor / known.sum);
      x[at(row)] -= factor;
    } else {
      math.blend(x, x, q, n, ct * math.sum(q, n) / known.sum, ct);
    }
    for (int64_t c = 0; c < n; ++c) out_[row * n + c] = T(x[c]);
  }

  int64_t at(int64_t row) const { return static_cast<int64_t>(labels_[row]); }

  const CrossEntropyParams& p_;
  const T* logits_;
  const L* labels_;
  const T* weights_;
  const T* ct_;
  T* out_;
};

template <class T, class L>
bool run_loss(const KernelCall& call) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const Loss<T, L, C> loss(*static_cast<const CrossEntropyParams*>(call.params), call);
  return loss.check_labels() && loss.run();
}

template <class T>
KernelFn for_labels(DType labels) {
  if (labels == kInt64) return run_loss<T, int64_t>;
  if (labels == kInt32) return run_loss<T, int32_t>;
  return run_loss<T, T>;
}

void prepare(const PrepareCall& call, bool has_grad) {
  auto p = etude::internal::make_ref<CrossEntropyParams>();
  p->rows = call.shape(0)[0];
  p->size = call.shape(0)[1];
  p->smoothing = call.attrs.real("label_smoothing");
  if (call.attrs.has("ignore_index")) p->ignored = call.attrs.integer("ignore_index");
  p->has_grad = has_grad;
  visit_floating(call.dtype(0),
                 [&]<class T, class>() { call.set(for_labels<T>(call.dtype(1)), p); });
}

}  // namespace

void prepare_cross_entropy(const PrepareCall& call) { prepare(call, false); }
void prepare_cross_entropy_grad(const PrepareCall& call) { prepare(call, true); }

}  // namespace etude::kernels::cpu
