// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/optimizer/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "etude/base/check.h"
#include "etude/base/scalars/evaluate.h"
#include "etude/base/scalars/expression_math.h"
#include "etude/base/scalars/scalar_program.h"

namespace etude::optimizer {

struct ScheduleFormula {
  std::string_view name;
  double (*at)(const ScheduleTree& tree, int64_t update);
  int numbers;        // kMany: as many as there are
  int parts;          // kMany: at least one
  bool is_separated;  // the numbers are bounds between the parts
};

namespace {

constexpr int kMany = -1;
constexpr int kDeepest = 32;  // trees that are read; each level is a call

double real(int64_t n) { return static_cast<double>(n); }

// From `a` at part 0 to `b` at part 1, along half a wave; of numbers, or in a formula.
template <class S>
constexpr S half_wave(const S& a, const S& b, const S& part) {
  using std::cos;
  return b + (a - b) * 0.5 * (1.0 + cos(std::numbers::pi * part));
}

template <class F, int kNumbers>
constexpr scalar::Program kProgram = scalar::build<F, 1, kNumbers>();

// The row of a formula: a lambda on the update and then kNumbers numbers.
template <int kNumbers, class F>
constexpr ScheduleFormula row(std::string_view name, F) {
  return {name,
          [](const ScheduleTree& tree, int64_t update) {
            const double t = real(update);
            return scalar::evaluate(kProgram<F, kNumbers>, {&t, 1}, tree.numbers);
          },
          kNumbers, 0, false};
}

double constant_at(const ScheduleTree& tree, int64_t) { return tree.numbers[0]; }

// The part that `update` falls into.
std::size_t part_of(std::span<const double> bounds, int64_t update) {
  return static_cast<std::size_t>(std::ranges::upper_bound(bounds, real(update)) - bounds.begin());
}

// Numbers: n bounds, then n + 1 values.
double piecewise_at(const ScheduleTree& tree, int64_t update) {
  const std::span all(tree.numbers);
  const auto bounds = all.first(all.size() / 2);
  return all[bounds.size() + part_of(bounds, update)];
}

double restarts_at(const ScheduleTree& tree, int64_t update) {
  const double base = tree.numbers[0], mult = tree.numbers[2], end = tree.numbers[3];
  double length = tree.numbers[1], at = real(update);
  if (mult == 1) return half_wave(base, end, std::fmod(at, length) / length);
  for (; at >= length; length *= mult) at -= length;
  return half_wave(base, end, at / length);
}

double product_at(const ScheduleTree& tree, int64_t update) {
  double product = 1;
  for (const ScheduleTree& factor : tree.parts) product *= value_at(factor, update);
  return product;
}

double joined_at(const ScheduleTree& tree, int64_t update) {
  const std::size_t part = part_of(tree.numbers, update);
  const double start = part == 0 ? 0 : tree.numbers[part - 1];
  return value_at(tree.parts[part], update - static_cast<int64_t>(start));
}

constexpr ScheduleFormula kFormulas[] = {
    {"constant", constant_at, 1, 0, false},
    row<3>("step",
           [](auto t, auto from, auto by, auto steps) { return from * pow(by, floor(t / steps)); }),
    row<2>("exponential", [](auto t, auto from, auto by) { return from * pow(by, t); }),
    row<2>("inverse_time", [](auto t, auto from, auto by) { return from / (1.0 + by * t); }),
    row<4>("polynomial",
           [](auto t, auto from, auto to, auto exponent, auto length) {
             const auto left = 1.0 - math::minimum(t / length, 1.0);
             return (from - to) * pow(left, exponent) + to;
           }),
    row<3>("cosine",
           [](auto t, auto from, auto to, auto length) {
             return where(t >= length, to, half_wave(from, to, t / length));
           }),
    row<2>(
        "linear_warmup",
        [](auto t, auto to, auto length) { return to * math::minimum((t + 1.0) / length, 1.0); }),
    row<5>("one_cycle",
           [](auto t, auto from, auto high, auto to, auto turn, auto length) {
             const auto at = math::minimum(t, length);
             const auto rising = where(turn > 0.0, half_wave(from, high, at / turn), high);
             const auto part = where(length > turn, (at - turn) / (length - turn), 1.0);
             return where(at <= turn, rising, half_wave(high, to, part));
           }),
    row<2>("inverse_sqrt",
           [](auto t, auto top, auto length) {
             const auto part = (t + 1.0) / length;
             return top * math::minimum(part, 1.0 / sqrt(part));
           }),
    {"cosine_restarts", restarts_at, 4, 0, false},
    {"piecewise", piecewise_at, kMany, 0, false},
    {"chain", product_at, 0, kMany, false},
    {"join", joined_at, kMany, kMany, true},
};

const ScheduleFormula& formula_of(std::string_view name) {
  const auto* found = std::ranges::find(kFormulas, name, &ScheduleFormula::name);
  ETUDE_REQUIRE(found != std::end(kFormulas), "there is no schedule '{}'", name);
  return *found;
}

// throws: kInvalidArgument for another number of numbers or parts than the formula has.
void check(const ScheduleTree& tree) {
  const ScheduleFormula& f = *tree.formula;
  const std::size_t numbers = tree.numbers.size(), parts = tree.parts.size();
  bool fits = f.numbers == kMany || numbers == static_cast<std::size_t>(f.numbers);
  fits = fits && (f.parts == kMany ? parts > 0 : parts == 0);
  if (f.numbers == kMany) fits = fits && (f.is_separated ? parts == numbers + 1 : numbers % 2 == 1);
  ETUDE_REQUIRE(fits, "the schedule '{}' does not take {} numbers and {} parts", f.name, numbers,
                parts);
}

// Reads a tree from the beginning of texts and lists, which become shorter.
class Reader {
 public:
  Reader(std::string_view text, std::span<const double> numbers) : text_(text), numbers_(numbers) {}

  ScheduleTree all() {
    ScheduleTree tree = next(0);
    ETUDE_REQUIRE(text_.empty(), "the schedule ends before '{}'", text_);
    ETUDE_REQUIRE(numbers_.empty(), "the schedule has {} numbers too many", numbers_.size());
    return tree;
  }

 private:
  ScheduleTree next(int depth) {
    ETUDE_REQUIRE(depth < kDeepest, "the schedule is a tree of more than {} levels", kDeepest);
    const std::string_view name = text_.substr(0, text_.find_first_of("(), "));
    text_.remove_prefix(name.size());
    ScheduleTree tree{.formula = &formula_of(name)};
    const int fixed = tree.formula->numbers;
    const double count = fixed == kMany ? take(1, name)[0] : fixed;
    ETUDE_REQUIRE(count >= 0 && count <= real(static_cast<int64_t>(numbers_.size())),
                  "the schedule '{}' has too few numbers", name);
    const auto own = take(static_cast<std::size_t>(count), name);
    tree.numbers.assign(own.begin(), own.end());
    for (std::string_view open = "("; tree.formula->parts == kMany && text_.starts_with(open);
         open = ", ") {
      text_.remove_prefix(open.size());
      tree.parts.push_back(next(depth + 1));
    }
    if (!tree.parts.empty()) {
      ETUDE_REQUIRE(text_.starts_with(')'), "the schedule '{}' has no closing parenthesis", name);
      text_.remove_prefix(1);
    }
    check(tree);
    return tree;
  }

  std::span<const double> take(std::size_t count, std::string_view name) {
    ETUDE_REQUIRE(count <= numbers_.size(), "the schedule '{}' has too few numbers", name);
    const auto out = numbers_.first(count);
    numbers_ = numbers_.subspan(count);
    return out;
  }

  std::string_view text_;
  std::span<const double> numbers_;
};

void add_numbers(const ScheduleTree& tree, std::vector<double>& to) {
  if (tree.formula->numbers == kMany) {
    to.push_back(real(static_cast<int64_t>(tree.numbers.size())));
  }
  to.insert(to.end(), tree.numbers.begin(), tree.numbers.end());
  for (const ScheduleTree& part : tree.parts) add_numbers(part, to);
}

}  // namespace

bool ScheduleTree::operator==(const ScheduleTree& other) const {
  return formula == other.formula && numbers == other.numbers && parts == other.parts &&
         host == other.host;
}

ScheduleTree make_schedule(std::string_view formula, std::vector<double> numbers,
                           std::vector<ScheduleTree> parts) {
  ScheduleTree tree{
      .formula = &formula_of(formula), .numbers = std::move(numbers), .parts = std::move(parts)};
  check(tree);
  return tree;
}

double value_at(const ScheduleTree& tree, int64_t update) {
  return tree.host ? (*tree.host)(update) : tree.formula->at(tree, update);
}

bool needs_host(const ScheduleTree& tree) {
  return tree.host != nullptr || std::ranges::any_of(tree.parts, needs_host);
}

std::string formulas_of(const ScheduleTree& tree) {
  std::string text(tree.formula->name);
  for (std::size_t i = 0; i < tree.parts.size(); ++i) {
    text += (i == 0 ? "(" : ", ") + formulas_of(tree.parts[i]);
  }
  return tree.parts.empty() ? text : text + ")";
}

std::vector<double> numbers_of(const ScheduleTree& tree) {
  std::vector<double> out;
  add_numbers(tree, out);
  return out;
}

ScheduleTree read_schedule(std::string_view formulas, std::span<const double> numbers) {
  return Reader(formulas, numbers).all();
}

}  // namespace etude::optimizer
