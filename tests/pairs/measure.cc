// SPDX-License-Identifier: Apache-2.0
#include "tests/pairs/measure.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "etude/base/warning.h"
#include "tests/pairs/features.h"

namespace pairs {
namespace {

using etude::Tensor;
using Measured = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

constexpr Point kPoint = {
    {{0.3, -0.6, 0.9}, {0.7, 1.1, -0.4}, {-0.8, 0.5, 1.2}, {0.4, -1.3, 0.6}, {1.4, 0.2, -0.9}}};

// Rounding errors may be so many times the change of the results if x changes by four units in its
// last place.
constexpr double kRoundings = 64;

template <class A>
Tensor tensor(const A& elements) {
  return Tensor(std::vector<double>(elements.begin(), elements.end()));
}

// One row of the table on either side.
struct ByLibrary {
  LibraryRun* run;
  Tensor operator()(std::size_t feature, const LibraryRun::Map& f, const Tensor& x) const {
    const auto inside = [run = run, f](const Tensor& q) {
      const Tensor y = f(q);
      if (run->throws_in > 0 && --run->throws_in == 0) throw InTheMiddle();
      return y;
    };
    return features()[feature].runs(*run, inside, x);
  }
};
struct ByJudge {
  JudgeRun* run;
  Numbers operator()(std::size_t feature, const JudgeRun::Map& f, const Numbers& x) const {
    return features()[feature].means(*run, f, x);
  }
};

bool is_first_order(const Program& program) {
  return std::any_of(program.levels.begin(), program.levels.end(),
                     [](const Level& level) { return features()[level.feature].is_first_order; });
}

Measured measure(const Program& program, LibraryRun& run, const Tensor& x) {
  const auto total = [&](const Tensor& at) {
    return sum(run_from(program, 0, std::vector<Tensor>{at}, ByLibrary{&run}) * tensor(kWeights));
  };
  etude::GradientTape tape;
  const auto sources = std::tuple(x, run.captured, run.variable, run.fields.a, run.fields.b);
  tape.watch(sources);
  const Tensor y = total(x);
  const auto [gx, gw, gv, ga, gb] =
      tape.gradient(y, sources, {.unconnected = etude::Unconnected::kZero});
  const Tensor second =
      is_first_order(program) ? Tensor() : etude::hvp(total, x, tensor(kDirection));
  return {y, gx, gw, gv, ga, gb, second};
}

Measured in_mode(const Program& program, std::size_t mode) {
  etude::set_seed(7);
  LibraryRun run{tensor(kPoint[kCaptured]),
                 etude::Variable(tensor(kPoint[kVariable])),
                 {tensor(kPoint[kFieldA]), tensor(kPoint[kFieldB])},
                 etude::Variable(tensor(kPoint[kVariable]))};
  const Tensor x = tensor(kPoint[kArgument]);
  if (mode == 0) return measure(program, run, x);
  if (mode == 1) {
    const auto staged =
        etude::function([&](const Tensor& at, const Tensor& w, const Tensor& a, const Tensor& b) {
          LibraryRun inside{w, run.variable, {a, b}, run.state};
          return measure(program, inside, at);
        });
    return staged(x, run.captured, run.fields.a, run.fields.b);
  }
  const etude::LazyScope lazy;
  return measure(program, run, x);
}

std::vector<double> elements(const Measured& all) {
  std::vector<double> out;
  const auto add = [&](const Tensor& t) {
    if (!t.has_value()) return;  // a second derivative that is not measured
    const std::vector<double> more = to_dense(t).to_vector<double>();
    out.insert(out.end(), more.begin(), more.end());
  };
  std::apply([&](const auto&... each) { (add(each), ...); }, all);
  return out;
}

struct Span {
  const char* kind;
  const std::vector<double>&want, &nearby;
};

// The most that one part moves where x moves by a few units in its last place.
double moved(const std::vector<double>& want, const std::vector<double>& nearby) {
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    most = std::max(most, std::abs(want[i] - nearby[i]));
  return most;
}

// The parts of `got` that are far from the parts of `want`. `nearby`: the results for an x that is
// a few units in the last place away, which bounds the rounding errors.
std::vector<Wrong> compared(const std::vector<double>& got, const Results& want,
                            const Results& nearby, double tolerance, bool is_first_order,
                            const std::string& mode) {
  std::vector<Wrong> out;
  std::size_t at = 0;
  for (const Span& part : {Span{"value", want.value, nearby.value},
                           {"gradient", want.gradient, nearby.gradient},
                           {"second", want.second, nearby.second}}) {
    double scale = 1;
    for (const double w : part.want) scale = std::max(scale, std::abs(w));
    const double allowed = tolerance * scale + kRoundings * moved(part.want, part.nearby);
    for (std::size_t i = 0; i < part.want.size(); ++i, ++at) {
      if (at < got.size() && std::abs(got[at] - part.want[i]) <= allowed) continue;
      if (at == got.size() && &part.want == &want.second && is_first_order) break;
      std::string where = mode;
      if (&part.want == &want.gradient) where += std::string(" by ") + kSourceNames[i / kLength];
      if (at < got.size())
        where += ": got " + std::to_string(got[at]) + ", want " + std::to_string(part.want[i]);
      out.push_back({part.kind, where});
      at += part.want.size() - i;
      break;
    }
  }
  return out;
}

// x by four units in its last place away.
Point point_nearby() {
  Point out = kPoint;
  for (double& x : out[kArgument]) x *= 1 + 0x1p-50;
  return out;
}

// Where derivatives are large, digits of results get lost.
double tolerance_of(const Program& program, const Results& want) {
  double rounded = 0, largest = 0;
  for (const Level& level : program.levels)
    rounded = std::max(rounded, features()[level.feature].tolerance);
  for (const auto* part : {&want.value, &want.gradient, &want.second}) {
    for (const double w : *part) largest = std::max(largest, std::abs(w));
  }
  return rounded * std::max(1.0, std::sqrt(largest) / 30);
}

// The first results that differ, if any do: in a bit, but for which NaN it is.
std::optional<std::size_t> first_difference(const std::vector<double>& a,
                                            const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], sizeof(double)) != 0) return i;
  }
  return {};
}

void add_once(std::vector<Wrong>& to, Wrong wrong) {
  const auto same = [&](const Wrong& w) { return w.kind == wrong.kind; };
  const auto found = std::find_if(to.begin(), to.end(), same);
  if (found == to.end()) {
    to.push_back(std::move(wrong));
  } else {
    found->detail += "; " + wrong.detail;
  }
}

}  // namespace

void silence_warnings() {
  etude::set_warning_handler([](std::string_view) {});
}

Outcome outcome_of(const Program& program) {
  const auto runs = [&](JudgeRun& run, const Numbers& x) {
    return run_from(program, 0, std::vector<Numbers>{x}, ByJudge{&run});
  };
  const Results want = judge(runs, kPoint), nearby = judge(runs, point_nearby());
  const double tolerance = tolerance_of(program, want);
  Outcome out;
  if (want.left != nullptr) out.unjudged = std::string("a number is beyond ") + want.left;
  std::optional<std::vector<double>> first;
  for (std::size_t mode = 0; mode < std::size(kModes); ++mode) {
    try {
      const std::vector<double> got = elements(in_mode(program, mode));
      std::vector<Wrong> far;
      if (out.unjudged.empty())
        far = compared(got, want, nearby, tolerance, is_first_order(program), kModes[mode]);
      for (const Wrong& wrong : far) add_once(out.wrong, wrong);
      const auto at = first && far.empty() ? first_difference(got, *first) : std::nullopt;
      if (at) {
        add_once(out.wrong,
                 {"bits", kModes[mode] + std::string(" at result ") + std::to_string(*at)});
      }
      if (!first && far.empty()) first = got;
    } catch (const std::exception& e) {
      std::string text = e.what();
      std::replace(text.begin(), text.end(), '\n', ' ');
      add_once(out.wrong, {"error", std::string(kModes[mode]) + ": " + text});
      out.thrown.push_back({kModes[mode], text});
    }
  }
  return out;
}

}  // namespace pairs
