// SPDX-License-Identifier: Apache-2.0
// Summing loops of scan, such as a sum over data. The steps are independent: several are computed
// side by side, each forward and immediately in reverse, and nothing is kept. Step i adds to
// partial sum i % 8; the eight sums are added at the end. Used by scan.h.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/diff/active.h"
#include "etude/diff/internal/scan/lanes.h"
#include "etude/diff/internal/scan/scan_rows.h"
#include "etude/diff/internal/tape/scalar_reverse.h"
#include "etude/diff/internal/tape/scalar_tape.h"
#include "etude/diff/protocol.h"
#include "etude/diff/windows.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The source of a reader; `tape` is null if nothing varies.
template <class T, class X>
struct SumSource {
  const ScalarTape<T>* tape;
  std::size_t steps;
  const X& x;
};

// Reads the elements of a sequence in blocks of steps: rows[c][j] is number c of the j-th step.
// Then adds the cotangents, given in the same layout, to their slots.
template <class T, class X, std::size_t kBlock>
class SumReader {
 public:
  using Rows = T (*)[kBlock];

  explicit SumReader(const SumSource<T, X>& source) : tape_(source.tape), x_(source.x) {}
  SumReader(const SumReader&) = delete;
  SumReader& operator=(const SumReader&) = delete;

  void read(std::size_t begin, std::size_t count, Rows rows) {
    for (std::size_t j = 0; j < count; ++j) {
      const auto& element = x_[begin + j];
      std::size_t column = 0;
      auto each = [&](const auto& v) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(v)>, Active<T>>) {
          slots_[column][j] = v.slot_on(*tape_);
          rows[column++][j] = v.value();
        } else {
          if constexpr (kMayVary<X>) slots_[column][j] = 0;  // a constant among varying numbers
          rows[column++][j] = static_cast<T>(v);
        }
      };
      each_leaf(element, each);
    }
  }
  void pass(std::size_t count, Rows rows, T* to) {
    if constexpr (kMayVary<X>) {
      for (std::size_t j = 0; j < count; ++j) {
        for (std::size_t c = 0; c < kWidth<X>; ++c) to[slots_[c][j]] += rows[c][j];
      }
    }
  }
  void finish(T* /*to*/) {}

 private:
  const ScalarTape<T>* tape_;
  const X& x_;
  uint32_t slots_[kMayVary<X> ? kWidth<X> : 1][kMayVary<X> ? kBlock : 1];
};

template <class T, class X>
concept ReadsWindows = std::is_same_v<typename X::Number, Active<T>> ||
    (std::is_same_v<typename X::Number, T>&& requires(const X& x) { std::data(x.numbers()); });

// Windows are read directly from the numbers, or from plain copies of varying numbers. Their
// cotangents are accumulated in several sums in turn, since neighbouring steps often use the same
// numbers.
template <class T, std::size_t n, class Numbers, class Begins, std::size_t kBlock>
requires ReadsWindows<T, Windows<n, Numbers, Begins>>
class SumReader<T, Windows<n, Numbers, Begins>, kBlock> {
 public:
  using Rows = T (*)[kBlock];

  explicit SumReader(const SumSource<T, Windows<n, Numbers, Begins>>& source)
      : x_(source.x),
        size_(std::size(x_.numbers())),
        sums_(sums_of(source.steps, size_)),
        memory_(kVary ? (1 + sums_) * size_ : 0),
        slots_(kVary ? size_ : 0) {
    if constexpr (kVary) {
      T* to = memory_.data();
      for (std::size_t i = 0; i < size_; ++i) {
        to[i] = x_.numbers()[i].value();
        slots_[i] = x_.numbers()[i].slot_on(*source.tape);
      }
      std::fill_n(to + size_, sums_ * size_, T(0));
      numbers_ = to;
    } else {
      numbers_ = std::data(x_.numbers());
    }
  }
  SumReader(const SumReader&) = delete;
  SumReader& operator=(const SumReader&) = delete;

  void read(std::size_t begin, std::size_t count, Rows rows) {
    Begin last = 0;
    for (std::size_t j = 0; j < count; ++j) {
      // NOLINTNEXTLINE(bugprone-signed-char-misuse): a negative one is beyond all limits
      begins_[j] = static_cast<Begin>(x_.begins()[begin + j]);
      last = std::max(last, begins_[j]);
    }
    if (last >= limit()) {
      for (std::size_t j = 0; j < count; ++j) x_.check(begin + j);
    }
    std::size_t j = 0;
    if constexpr (kIsOneVector) {
      for (; j + n <= count; j += n) {
        Lanes<T, n> square[n];
        for (std::size_t l = 0; l < n; ++l)
          square[l] = Lanes<T, n>::load(numbers_ + begins_[j + l]);
        Lanes<T, n>::transpose(square);
        for (std::size_t c = 0; c < n; ++c) square[c].store(&rows[c][j]);
      }
    }
    for (; j < count; ++j) {
      const T* from = numbers_ + begins_[j];
      // Single loads: the machine's gathers, which compilers prefer, take several times as long. A
      // fence prevents vectorisation across steps.
      std::atomic_signal_fence(std::memory_order_seq_cst);
      for (std::size_t c = 0; c < n; ++c) rows[c][j] = from[c];
    }
  }
  void pass(std::size_t count, Rows rows, T* /*to*/) {
    if constexpr (kVary) {
      const std::size_t stride = sums_ == 1 ? 0 : size_;
      const auto sum_at = [&](std::size_t j) {
        return memory_.data() + size_ + j % kMostSums * stride + begins_[j];
      };
      std::size_t j = 0;
      if constexpr (kIsOneVector) {
        for (; j + n <= count; j += n) {
          Lanes<T, n> square[n];
          for (std::size_t c = 0; c < n; ++c) square[c] = Lanes<T, n>::load(&rows[c][j]);
          Lanes<T, n>::transpose(square);
          for (std::size_t l = 0; l < n; ++l) {
            T* sum = sum_at(j + l);
            (Lanes<T, n>::load(sum) + square[l]).store(sum);
          }
        }
      }
      for (; j < count; ++j) {
        T* sum = sum_at(j);
        for (std::size_t c = 0; c < n; ++c) sum[c] += rows[c][j];
      }
    }
  }
  void finish(T* to) {
    if constexpr (kVary) {
      for (std::size_t i = 0; i < size_; ++i) {
        T sum = memory_[size_ + i];
        for (std::size_t s = 2; s <= sums_; ++s) sum += memory_[s * size_ + i];
        to[slots_[i]] += sum;
      }
    }
  }

 private:
  using Number = typename Windows<n, Numbers, Begins>::Number;
  using WholeNumber = std::remove_cvref_t<decltype(std::declval<const Begins&>()[0])>;
  using Begin = std::conditional_t<sizeof(WholeNumber) <= 4, uint32_t, uint64_t>;
  // The windows must begin before this index, and at a non-negative index.
  std::size_t limit() const {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<WholeNumber>::max());
    return std::is_signed_v<WholeNumber> ? std::min(x_.limit(), most) : x_.limit();
  }

  static constexpr bool kVary = std::is_same_v<Number, Active<T>>;
  // Whether a window fills a SIMD vector: as many windows as it has lanes are transposed at once.
  static constexpr bool kIsOneVector = kIsLanes<typename LanesOf<T>::type> && (n == 2 || n == 4) &&
                                       (n * sizeof(T) == 16 || n * sizeof(T) == kLaneBytes);
  // More than one sum if that is cheaper than the steps.
  static constexpr std::size_t kMostSums = 4;
  static std::size_t sums_of(std::size_t steps, std::size_t size) {
    if (!kVary) return 0;
    return kMostSums * size <= steps ? kMostSums : 1;
  }
  const Windows<n, Numbers, Begins>& x_;
  std::size_t size_, sums_;
  KeptArray<T, SumReader> memory_;  // the numbers, then their sums
  KeptArray<uint32_t, SumReader> slots_;
  const T* numbers_;
  Begin begins_[kBlock];
};

// The number of partial sums. A summing loop adds the terms of step i to sum i % kScanSums, and
// adds the sums in this order at the end. All modes and machines do the same and return the same
// result, and no step waits for its predecessor.
inline constexpr std::size_t kScanSums = 8;
template <class S>
constexpr S sum_of(const S* s) {
  static_assert(kScanSums == 8);
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

// The numbers of a block of steps.
template <class Program, class T>
class SumBlock {
 public:
  static constexpr std::size_t kX = Program::kX, kTerms = Program::kTerms.count,
                               kSize = kX < 32 ? 64 : 16;
  using Lane = typename LanesOf<T>::type;
  using Nodes = typename Program::template Nodes<Lane>;

  // The inputs of the steps; after the reverse pass, their cotangents.
  T (*rows())[kSize] { return rows_; }

  explicit SumBlock(T start) { sums_[0] = start; }

  // Computes `count` steps and adds their terms.
  void run(std::size_t count, const Nodes& fixed) {
    each_lanes(count, [&](std::size_t j) { return sweep_at(j, fixed); });
  }
  // The same, with the reverse pass from the cotangent 1 of each term. Cotangents of the parameters
  // are added to `totals`. If the last steps do not fill all lanes, their cotangents are added to
  // `last`.
  void run(std::size_t count, const Nodes& fixed, Nodes& totals, Nodes& last) {
    each_lanes(count, [&](std::size_t j) {
      const Sweep sweep = sweep_at(j, fixed);
      std::array<Lane, 1> ct = {Lane(T(1))};
      std::array<Lane, kX> of_x;
      sweep.reverse(ct, j + kLanes <= count ? totals : last, of_x);
      [&]<std::size_t... c>(std::index_sequence<c...>) {
        ((Program::x_varies(c) ? store(of_x[c], &rows_[c][j]) : void()), ...);
      }
      (std::make_index_sequence<kX>());
      return sweep;
    });
  }
  // The sum so far.
  T sum() const { return sum_of(sums_); }

  static Nodes in_lanes(const typename Program::template Nodes<T>& values) {
    Nodes out;
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = Lane(values[i]);
    return out;
  }
  // The cotangents of the parameters over all steps.
  static auto sum_lanes(const Nodes& totals, const Nodes& last, std::size_t steps) {
    typename Program::template Nodes<T> sums{};
    for (std::size_t i = 0; i < sums.size(); ++i) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        sums[i] += lane(totals[i], l) + (l < steps % kLanes ? lane(last[i], l) : T(0));
      }
    }
    return sums;
  }

 private:
  static constexpr std::size_t kLanes = LanesOf<T>::kCount, kSums = kScanSums;
  static_assert(kSums % kLanes == 0 && kSize % kSums == 0);
  using Sweep = typename Program::template Sweep<Lane>;

  template <class Fn>
  [[gnu::always_inline]] void each_lanes(std::size_t count, const Fn& sweep_of) {
    if (count % kLanes != 0) {  // the unused lanes repeat a step: data values only
      for (std::size_t c = 0; c < kX; ++c) {
        std::fill_n(&rows_[c][count], kLanes - count % kLanes, rows_[c][count - 1]);
      }
    }
    for (std::size_t j = 0; j < count; j += kLanes) {
      const Sweep sweep = sweep_of(j);
      T* sums = &sums_[j % kSums];
      [&]<std::size_t... k>(std::index_sequence<k...>) {
        if (j + kLanes <= count) {
          Lane lanes = load(sums);
          ((lanes += sweep.template term<k>()), ...);
          store(lanes, sums);
        } else {
          for (std::size_t l = 0; j + l < count; ++l) {
            ((sums[l] += lane(sweep.template term<k>(), l)), ...);
          }
        }
      }
      (std::make_index_sequence<kTerms>());
    }
  }
  [[gnu::always_inline]] Sweep sweep_at(std::size_t j, const Nodes& fixed) const {
    std::array<Lane, kX> x;
    for (std::size_t c = 0; c < kX; ++c) x[c] = load(&rows_[c][j]);
    return Sweep({Lane(T(0))}, fixed, x);
  }
  [[gnu::always_inline]] static T lane(const Lane& lanes, std::size_t l) {
    if constexpr (kIsLanes<Lane>) {
      return lanes[l];
    } else {
      return lanes;
    }
  }
  [[gnu::always_inline]] static Lane load(const T* from) {
    if constexpr (kIsLanes<Lane>) {
      return Lane::load(from);
    } else {
      return *from;
    }
  }
  [[gnu::always_inline]] static void store(const Lane& lanes, T* to) {
    if constexpr (kIsLanes<Lane>) {
      lanes.store(to);
    } else {
      *to = lanes;
    }
  }

  alignas(64) T sums_[kSums] = {};
  alignas(64) T rows_[kX > 0 ? kX : 1][kSize];
};

// Calls f(reader, its rows) for each reader.
template <class T, std::size_t kSize, class... X>
using SumReaders = std::tuple<SumReader<T, X, kSize>...>;
template <class... X, class T, std::size_t kSize, class F>
[[gnu::always_inline]] inline void each_reader(std::tuple<SumReader<T, X, kSize>...>& readers,
                                               T (*rows)[kSize], const F& f) {
  const auto each = [&](auto&... reader) {
    [[maybe_unused]] const auto one = [&](auto& at, std::size_t width) {
      f(at, rows);
      rows += width;
    };
    (one(reader, kWidth<X>), ...);
  };
  std::apply(each, readers);
}

// A number of the tape with the derivative by_slot[s] by slot s.
template <class Plain, class T>
auto combined(ScalarTape<T>& tape, const Plain& like, const T& value,
              const std::vector<T>& by_slot) {
  const uint32_t target = tape.new_input();
  const auto size = static_cast<uint32_t>(by_slot.size());
  uint32_t slot = 1;
  while (slot < size && by_slot[slot] == T(0)) ++slot;
  if (slot < size) tape.set(target, by_slot[slot], slot);
  while (++slot < size) {
    if (by_slot[slot] == T(0)) continue;
    if (slot + 1 < size && by_slot[slot + 1] != T(0)) {
      tape.add(target, by_slot[slot], slot, by_slot[slot + 1], slot + 1);
      ++slot;
    } else {
      tape.add(target, by_slot[slot], slot);
    }
  }
  auto number = [&](const T&) { return Active<T>::input(value, tape, target); };
  return map_scalars<replace_scalar_t<Plain, T, Active<T>>>(like, number);
}

// The loop, recorded as its derivative by each number that it reads.
template <class Program, class T, class State, class Params, class... X>
auto summed_scan(ScalarTape<T>& tape, std::size_t steps, const State& state, const Params& params,
                 const X&... x) {
  using Block = SumBlock<Program, T>;
  const auto fixed = Program::fixed_values(row_of<T>(params));
  const auto lanes = Block::in_lanes(fixed);
  typename Block::Nodes totals{}, last{};
  SumReaders<T, Block::kSize, X...> readers{SumSource<T, X>{&tape, steps, x}...};
  Block block(row_of<T>(state)[0]);
  Cotangents<T> sums(tape.size());
  std::vector<T>& by_slot = sums.values();
  for (std::size_t step = 0; step < steps; step += Block::kSize) {
    const std::size_t count = std::min(Block::kSize, steps - step);
    each_reader<X...>(readers, block.rows(),
                      [&](auto& reader, auto rows) { reader.read(step, count, rows); });
    if (tape.size() > by_slot.size()) {  // elements computed on read
      by_slot.resize(2 * tape.size());
    }
    block.run(count, lanes, totals, last);
    each_reader<X...>(readers, block.rows(),
                      [&](auto& reader, auto rows) { reader.pass(count, rows, by_slot.data()); });
  }
  each_reader<X...>(readers, block.rows(),
                    [&](auto& reader, auto /*rows*/) { reader.finish(by_slot.data()); });
  by_slot[slots_of(tape, state)[0]] += T(1);
  auto of_fixed = Block::sum_lanes(totals, last, steps);
  Program::reverse_fixed(fixed, of_fixed);
  const auto of_params = slots_of(tape, params);
  for (std::size_t i = 0; i < of_params.size(); ++i) by_slot[of_params[i]] += of_fixed[1 + i];
  return combined(tape, plain_argument<Active<T>>(state), block.sum(), by_slot);
}

// The loop on plain numbers.
template <class Program, class T, class Params, class... X>
T plain_sum(std::size_t steps, T start, const Params& params, const X&... x) {
  using Block = SumBlock<Program, T>;
  const auto lanes = Block::in_lanes(Program::fixed_values(row_of<T>(params)));
  SumReaders<T, Block::kSize, X...> readers{SumSource<T, X>{nullptr, steps, x}...};
  Block block(start);
  for (std::size_t step = 0; step < steps; step += Block::kSize) {
    const std::size_t count = std::min(Block::kSize, steps - step);
    each_reader<X...>(readers, block.rows(),
                      [&](auto& reader, auto rows) { reader.read(step, count, rows); });
    block.run(count, lanes);
  }
  return block.sum();
}

}  // namespace internal
}  // namespace etude
