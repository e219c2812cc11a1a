// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/calls.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "etude/base/sanitizers.h"
#include "etude/core/internal/convert.h"

namespace etude::matrix {
namespace {

constexpr double kMargin = 0.05;  // distance of drawn values from a point to avoid
constexpr std::pair<double, double> kDefaultRange = {-2, 2};

// Shapes of the standard set, by operand; a longer operand list goes round.
const std::vector<std::vector<std::string_view>> kStandardShapes = {
    {"[]"},
    {"[0]"},
    {"[17]"},
    {"[33]"},
    {"[2,1,3]", "[4,1]", "[3]"},
    {"[33]", "[]"},
    {"[]", "[33]"},
    {"[0,3]", "[3]"},
    {"[3]", "[2,3]", "[1]"},
};

double rounded_into(double value, DType dtype, std::pair<double, double> range) {
  if (!is_integer(dtype)) return value;
  const double low = kUnsignedIntegers.contains(dtype) ? std::max(0.0, range.first) : range.first;
  return std::clamp(std::floor(value), std::ceil(low),
                    std::max(std::ceil(low), std::floor(range.second)));
}

bool is_near(double value, std::span<const double> avoid) {
  return std::any_of(avoid.begin(), avoid.end(),
                     [&](double a) { return std::abs(value - a) < kMargin; });
}

// Values that are spread over the range, so that no two are close: comparisons of elements do not
// change when a value moves a little.
std::vector<double> spread(Draw& draw, int64_t n, std::pair<double, double> range) {
  std::vector<int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw.bits() % i]);
  std::vector<double> out;
  for (const int64_t k : order) {
    const double at = (static_cast<double>(k) + draw.uniform(0.2, 0.8)) / static_cast<double>(n);
    out.push_back(range.first + at * (range.second - range.first));
  }
  return out;
}

Tensor from_doubles(const Type* type, const std::vector<double>& values) {
  Tensor out = internal::make_tensor(type);
  // Complex tensors take two values per element.
  const DType from = is_complex(type->dtype()) ? kComplex128 : kFloat64;
  internal::convert_elements(TensorAccess::writable(out), type->dtype(), values.data(), from,
                             type->count());
  return out;
}

std::pair<double, double> range_of(const Op& op, const std::vector<std::pair<double, double>>& own,
                                   std::size_t i) {
  const auto& ranges = own.empty() ? op.def().samples.ranges : own;
  if (i < ranges.size()) return ranges[i];
  const bool covers_list = op.is_variadic() && ranges.size() >= op.arity();
  return covers_list ? ranges.back() : kDefaultRange;
}

// Adds to the diagonals of square matrices: a sample with one more range than operands requests it.
void add_to_diagonals(Tensor& x, double value) {
  const int64_t n = x.shape()[x.rank() - 1];
  std::vector<std::complex<double>> values = x.to_vector<std::complex<double>>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) % (n * n);
    if (at % (n + 1) == 0) values[i] += value;
  }
  internal::convert_elements(TensorAccess::writable(x), x.dtype(), values.data(), kComplex128,
                             x.size());
}

std::vector<Tensor> operands_of(const Op& op, const std::vector<std::string_view>& texts,
                                const std::vector<std::pair<double, double>>& ranges, DType dtype,
                                Draw& draw) {
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Type* type = operand_type(texts[i], dtype);
    const bool own = texts[i].empty() || texts[i][0] != '[';
    if (type != nullptr && !own && !op.operand(i).dtypes.empty() &&
        !op.operand(i).dtypes.contains(dtype)) {
      // "[4]" of an operand with dtypes of its own: the first of those.
      for (int d = 0; d < kDTypeCount; ++d) {
        if (!op.operand(i).dtypes.contains(static_cast<DType>(d))) continue;
        type = intern_type(static_cast<DType>(d), type->shape());
        break;
      }
    }
    if (type == nullptr) {
      out.emplace_back();
      continue;
    }
    out.push_back(draw_tensor(draw, type, range_of(op, ranges, i), op.def().samples.avoid));
    const bool has_diagonals = i == 0 && !op.is_variadic() && ranges.size() == op.arity() + 1;
    if (has_diagonals && type->rank() >= 2) add_to_diagonals(out[0], ranges.back().first);
  }
  return out;
}

// The attributes of calls from the standard set: the attributes of the first sample, or the
// defaults.
Attrs standard_attrs(const Op& op) {
  const auto& calls = op.def().samples.calls;
  return calls.empty() ? op.default_attrs() : op.attrs_by_name(calls[0].attrs);
}

Call same_tensor_call(const Op& op, DType dtype, Draw& draw) {
  std::pair<double, double> range = range_of(op, {}, 0);
  for (std::size_t i = 1; i < op.arity(); ++i) {
    const auto other = range_of(op, {}, i);
    range = {std::max(range.first, other.first), std::min(range.second, other.second)};
  }
  Call call{&op, dtype, 0, {}, standard_attrs(op), true};
  if (range.first >= range.second) return call;
  const Tensor x = draw_tensor(draw, intern_type(dtype, {5}), range, op.def().samples.avoid);
  for (std::size_t i = 0; i < op.arity(); ++i) {
    const DTypeSet own = op.operand(i).dtypes;
    call.operands.push_back(
        own.empty()
            ? x
            : draw_tensor(draw, intern_type(own.contains(kBool) ? kBool : kInt32, {5}), range, {}));
  }
  return call;
}

void add_standard_calls(const Op& op, DType dtype, Draw& draw, std::vector<Call>& out) {
  for (const auto& shapes : kStandardShapes) {
    if (op.arity() == 1 && shapes.size() == 2) continue;  // adds nothing
    std::vector<std::string_view> texts;
    for (std::size_t i = 0; i < op.arity(); ++i) texts.push_back(shapes[i % shapes.size()]);
    out.push_back({&op, dtype, 0, operands_of(op, texts, {}, dtype, draw), standard_attrs(op)});
  }
  if (op.arity() < 2) return;
  Call same = same_tensor_call(op, dtype, draw);
  if (!same.operands.empty()) out.push_back(std::move(same));
}

// An attribute that is a scalar program takes the programs of all records, each on operands that
// fit, drawn for this record alone: a change of another record has no effect here.
void add_program_calls(const Op& op, std::size_t attr, DType dtype, int seed,
                       std::vector<Call>& out) {
  for (const Op* other : Registry::global().ops()) {
    Draw draw(fmt::format("{} {} {}", op.name(), other->name(), seed));
    std::vector<const ScalarDef*> defs = {&other->def().scalar};
    for (const ScalarDef& partial : other->def().partials.by_operand) {
      if (is_differentiable(dtype)) defs.push_back(&partial);
    }
    for (const ScalarDef* def : defs) {
      const scalar::Program* program = def->program;
      // If a record has its own kernel or type rule, its program has more than one meaning.
      const bool plain = other->def().kernels == Kernels() && other->def().type == nullptr;
      if (program == nullptr || program->operands == 0 || !plain ||
          !other->def().dtypes.contains(dtype)) {
        continue;
      }
      Call call{&op, dtype, 0, {}, {}};
      call.is_exempt =
          def == &other->def().scalar && !other->def().samples.no_gradient_check.empty();
      for (int i = 0; i < program->operands; ++i) {
        const bool is_bool = (program->bools >> i) & 1;
        const auto range = range_of(*other, {}, program->sources[static_cast<std::size_t>(i)]);
        const Shape shape = i == 1 ? Shape{3} : Shape{2, 3};
        call.operands.push_back(draw_tensor(draw, intern_type(is_bool ? kBool : dtype, shape),
                                            range, other->def().samples.avoid));
      }
      std::vector<AttrValue> values(op.def().attrs.size());
      for (std::size_t a = 0; a < values.size(); ++a) {
        if (a == attr)
          values[a] = def;
        else if (op.def().attrs[a].kind == AttrKind::kReals) {
          values[a] = std::vector<double>(static_cast<std::size_t>(program->params), 0.5);
        }
      }
      call.attrs = op.attrs(values);
      out.push_back(std::move(call));
    }
  }
}

// An op that takes graphs takes the graph of a call of each other record that takes none: of its
// first sample, or of a pair of operands. The address sanitizer slows down their planning
// twentyfold, to half of the matrix; to it the code is the same whichever op the graph holds: it
// sees each fourth.
std::vector<Call> make_graph_calls(const Op& op, int seed) {
  std::vector<Call> out;
  const std::vector<const Op*> others = Registry::global().ops();
  for (std::size_t i = 0; i < others.size(); i += internal::kHasAddressSanitizer ? 4 : 1) {
    const Op* other = others[i];
    const OpDef& def = other->def();
    // An op without a rule is an error of its gradient, which is not tested here.
    const bool has_rule = other->is_differentiable() || !def.no_derivative.empty();
    if (def.samples.around != nullptr || def.data != nullptr || !has_rule) continue;
    const DType dtype = def.dtypes.contains(kFloat32) ? kFloat32 : dtypes_of(*other).front();
    const std::vector<Call> calls = calls_of(*other, dtype, seed);
    for (const Call& inner : calls) {
      Call call{&op, kFloat32, 0, {}, {}};  // whatever its operands are
      call.is_exempt = !def.samples.no_gradient_check.empty() || inner.is_same_tensor;
      std::vector<Tensor> inputs;
      for (const Tensor& x : inner.operands) {
        if (x.has_value()) inputs.push_back(to_dense(x));
      }
      try {
        const GraphRef graph = graph_of(inner);
        if (other->is_differentiable() && !has_graph_derivative(inner, *graph)) break;
        GraphSample sample = op.def().samples.around(*graph, inputs);
        call.operands = std::move(sample.operands);
        call.attrs = op.attrs_by_name(sample.attrs);
        out.push_back(std::move(call));
        break;
      } catch (const Error&) {  // its rule refuses this one
      }
    }
  }
  return out;
}

// They are made once: their plans and derivatives are kept by the graphs.
void add_graph_calls(const Op& op, int seed, std::vector<Call>& out) {
  static std::map<std::pair<const Op*, int>, std::vector<Call>> made;
  std::vector<Call>& calls = made[{&op, seed}];
  if (calls.empty()) calls = make_graph_calls(op, seed);
  out.insert(out.end(), calls.begin(), calls.end());
}

}  // namespace

std::string Call::label(std::string_view mode) const {
  return fmt::format("{} {} cpu {} sample {}", op->name(), mode, name(dtype), sample);
}

Draw::Draw(std::string_view purpose) : key_(14695981039346656037ull) {
  for (const char c : purpose) key_ = (key_ ^ static_cast<unsigned char>(c)) * 1099511628211ull;
}
uint64_t Draw::bits() {
  const auto words = philox({key_, 0}, count_++);
  return uint64_t{words[0]} << 32 | words[1];
}
double Draw::uniform(double low, double high) {
  const auto words = philox({key_, 0}, count_++);
  return low + uniform_double(words[0], words[1]) * (high - low);
}

Tensor draw_tensor(Draw& draw, const Type* type, std::pair<double, double> range,
                   std::span<const double> avoid) {
  const DType dtype = type->dtype();
  const int64_t count = type->count() * (is_complex(dtype) ? 2 : 1);
  if (dtype == kBool) range = {0, 1.99};
  std::vector<double> values = spread(draw, count, range);
  for (double& value : values) {
    for (int tries = 0; tries < 100 && is_near(value, avoid); ++tries) {
      value = draw.uniform(range.first, range.second);
    }
    value = dtype == kBool ? std::floor(value) : rounded_into(value, dtype, range);
  }
  return from_doubles(type, values);
}

Tensor draw_like(Draw& draw, const Type* type) { return draw_tensor(draw, type, {-1, 1}, {}); }

const Type* operand_type(std::string_view text, DType dtype) {
  return text == "-" ? nullptr : parse_type(text, dtype);
}

std::vector<DType> dtypes_of(const Op& op) {
  bool shares = false;
  for (const OperandDef& d : op.def().operands) shares = shares || d.dtypes.empty();
  // A sample may also put the dtype under test into an operand with dtypes of its own.
  DTypeSet set = op.def().dtypes;
  if (!shares) {
    set = kFloat32;
    for (const OperandDef& d : op.def().operands) {
      if (d.dtypes.contains(kFloat64)) set = set | (d.dtypes & kAnyDType);
    }
  }
  std::vector<DType> out;
  for (int d = 0; d < kDTypeCount; ++d) {
    if (set.contains(static_cast<DType>(d))) out.push_back(static_cast<DType>(d));
  }
  return out;
}

std::vector<Call> calls_of(const Op& op, DType dtype, int seed) {
  std::vector<Call> out;
  Draw draw(fmt::format("{} {}", op.name(), seed));
  for (const Sample& s : op.def().samples.calls) {
    out.push_back({&op, dtype, 0, operands_of(op, s.operands, s.ranges, dtype, draw),
                   op.attrs_by_name(s.attrs)});
  }
  if (op.def().kind == Kind::kElementwise) add_standard_calls(op, dtype, draw, out);
  for (std::size_t a = 0; a < op.def().attrs.size(); ++a) {
    const AttrDef& def = op.def().attrs[a];
    if (def.kind == AttrKind::kProgram) add_program_calls(op, a, dtype, seed, out);
  }
  // Graphs have dtypes of their own.
  if (op.def().samples.around != nullptr && dtype == kFloat32) add_graph_calls(op, seed, out);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].sample = static_cast<int>(i);
  return out;
}

// All calls of an op are drawn at once, and kept for the few seeds that a column uses.
const Call& call_of_seed(const Call& call, int seed) {
  static std::pair<const Op*, DType> of;
  static std::map<int, std::vector<Call>> drawn;
  const std::pair wanted(call.op, call.dtype);
  if (std::exchange(of, wanted) != wanted) drawn.clear();
  std::vector<Call>& calls = drawn[seed];
  if (calls.empty()) calls = calls_of(*call.op, call.dtype, seed);
  return calls[static_cast<std::size_t>(call.sample)];
}

Call error_call(const Op& op, const ErrorCase& c, Fill fill) {
  Draw draw(op.name());
  const auto& calls = op.def().samples.calls;
  const auto ranges = calls.empty() ? std::vector<std::pair<double, double>>{} : calls[0].ranges;
  Call call{&op, kFloat32, 0, operands_of(op, c.operands, ranges, kFloat32, draw),
            op.attrs_by_name(c.attrs)};
  for (Tensor& x : call.operands) {
    if (fill == Fill::kDrawn || !x.has_value() || TensorAccess::is_sparse(x)) continue;
    const double value = fill == Fill::kZeros ? 0 : 100;
    const double step = is_complex(x.dtype()) ? 2 : 1;
    x = from_doubles(
        x.type(),
        std::vector<double>(static_cast<std::size_t>(step * static_cast<double>(x.size())), value));
  }
  return call;
}

}  // namespace etude::matrix
