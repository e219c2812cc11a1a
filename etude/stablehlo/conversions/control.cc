// SPDX-License-Identifier: Apache-2.0
// Branches and loops. Their regions read values of the block around them by name, so invariants of
// loops are no arguments.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/ops/graph/while_loop.h"
#include "etude/stablehlo/conversions.h"

namespace etude::stablehlo::internal {
namespace {

Terms slice_of(const Terms& list, std::size_t begin, std::size_t end) {
  return {list.begin() + static_cast<std::ptrdiff_t>(begin),
          list.begin() + static_cast<std::ptrdiff_t>(end)};
}
void append(Terms& to, const Terms& more) { to.insert(to.end(), more.begin(), more.end()); }

std::vector<const Type*> types_of(const Terms& terms) {
  std::vector<const Type*> out;
  for (const Term& term : terms) out.push_back(term.type);
  return out;
}

Terms switch_case(Call& call) {
  const auto graphs = call.attrs.objects("branches");
  const Terms operands = slice_of(call.inputs(), 1, call.inputs().size());
  const Term index = convert(call.in(0), kInt32);
  std::vector<std::string> branches;
  std::vector<const Type*> types;
  for (const auto& graph : graphs) {
    branches.push_back(call.writer.region({}, [&](const Terms&) {
      Terms out = call.splice(static_cast<const Graph&>(*graph), operands);
      types = types_of(out);
      return out;
    }));
  }
  return call.writer.add(
      fmt::format("\"stablehlo.case\"({}) ({}) : {} -> {}", index.name, fmt::join(branches, ", "),
                  type_list({index}), type_list(types)),
      types);
}
// A branch without results has no region that is of use.
bool has_results(const CallFacts& call) {
  return !static_cast<const Graph&>(*call.attrs.objects("branches")[0]).outputs().empty();
}

using Holds = std::function<Term(const Terms& values)>;
using Step = std::function<Terms(const Terms& values)>;

// The values after the last step.
Terms loop(Writer& writer, const Terms& first, const Holds& holds, const Step& step) {
  const std::vector<const Type*> types = types_of(first);
  const std::string condition =
      writer.region(types, [&](const Terms& values) { return Terms{holds(values)}; });
  const std::string body = writer.region(types, step);
  return writer.add(fmt::format("\"stablehlo.while\"({}) ({}, {}) : {} -> {}", name_list(first),
                                condition, body, type_list(types), type_list(types)),
                    types);
}

// Row `at` of x, without its axis.
Term row_of(const Term& x, const Term& at) {
  Terms indices = {at};
  while (static_cast<int>(indices.size()) < x.rank()) {
    indices.push_back(x.writer->number(0, at.dtype()));
  }
  Sizes sizes = x.shape().to_vector();
  sizes[0] = 1;
  const Type* type = intern_type(x.dtype(), Shape(sizes));
  Terms operands = {x};
  append(operands, indices);
  const Term part = x.writer->add(
      fmt::format("stablehlo.dynamic_slice {}, sizes = [{}] : {} -> {}", name_list(operands),
                  number_list(sizes), type_list(operands), type_text(type)),
      type);
  sizes.erase(sizes.begin());
  return reshape(part, Shape(sizes));
}
// x with another row `at`.
Term with_row(const Term& x, const Term& row, const Term& at) {
  Sizes sizes = row.shape().to_vector();
  sizes.insert(sizes.begin(), 1);
  Terms operands = {x, reshape(row, Shape(sizes)), at};
  while (static_cast<int>(operands.size()) < x.rank() + 2) {
    operands.push_back(x.writer->number(0, at.dtype()));
  }
  return x.writer->add(fmt::format("stablehlo.dynamic_update_slice {} : {} -> {}",
                                   name_list(operands), type_list(operands), type_text(x.type)),
                       x.type);
}
// Zeros with a row for each step.
Term no_rows(Writer& writer, const Type* row, int64_t steps) {
  Sizes sizes = row->shape().to_vector();
  sizes.insert(sizes.begin(), steps);
  return filled(writer, 0, row->dtype(), Shape(sizes));
}

// The values of a loop: the number of the step, carried values, and rows of the results.
Terms row_scan(Call& call) {
  const auto& body = static_cast<const Graph&>(call.attrs.object("body"));
  const auto carried = static_cast<std::size_t>(call.attrs.integer("carried"));
  const auto rows = static_cast<std::size_t>(call.attrs.integer("rows"));
  const auto length = call.attrs.integer("length");
  const Terms stacks = slice_of(call.inputs(), carried, carried + rows);
  const Terms invariants = slice_of(call.inputs(), carried + rows, call.inputs().size());
  Terms first = {call.writer.number(0, kInt64)};
  append(first, slice_of(call.inputs(), 0, carried));
  for (std::size_t i = carried; i < call.results(); ++i) {
    first.push_back(filled(call.writer, 0, call.result(i).dtype(), call.result(i).shape()));
  }
  const auto holds = [&](const Terms& values) { return values[0] < static_cast<double>(length); };
  const auto step = [&](const Terms& values) {
    const Term at =
        call.attrs.flag("reverse") ? static_cast<double>(length - 1) - values[0] : values[0];
    Terms in = slice_of(values, 1, carried + 1);
    for (const Term& stack : stacks) in.push_back(row_of(stack, at));
    append(in, invariants);
    const Terms made = call.splice(body, in);
    Terms out = {values[0] + 1.0};
    append(out, slice_of(made, 0, carried));
    for (std::size_t i = carried; i < made.size(); ++i) {
      out.push_back(with_row(values[i + 1], made[i], at));
    }
    return out;
  };
  return slice_of(loop(call.writer, first, holds, step), 1, call.results() + 1);
}

// A pass over the steps of a loop: its values are the number of the step, the carried values, and
// the records, a row for each step, which later passes read.
class WhilePasses {
 public:
  explicit WhilePasses(Call& call) : call_(call), loop_(call.attrs, call.inputs().size()) {
    invariants_ = slice_of(call.inputs(), loop_.all_carried(), call.inputs().size());
  }

  Terms run() {
    Terms out;
    Term steps;
    for (std::size_t p = 0; p < loop_.passes(); ++p) {
      Terms first = {call_.writer.number(0, kInt64)};
      const std::size_t begin = loop_.first_carried(p);
      append(first, slice_of(call_.inputs(), begin, begin + loop_.carried[p]));
      append(first, empty_records(p));
      const Terms last = loop(
          call_.writer, first,
          [&](const Terms& values) { return p == 0 ? holds(values) : values[0] < steps; },
          [&](const Terms& values) { return step(p, values, steps); });
      if (p == 0) steps = last[0];
      append(out, slice_of(last, 1, loop_.carried[p] + 1));
      append(records_, slice_of(last, loop_.carried[p] + 1, last.size()));
    }
    return out;
  }

 private:
  Terms empty_records(std::size_t p) const {
    Terms out;
    const Types types = loop_.bodies[p]->output_types();
    for (std::size_t i = loop_.carried[p]; i < types.size(); ++i) {
      out.push_back(no_rows(call_.writer, types[i], loop_.max_steps));
    }
    return out;
  }

  Term holds(const Terms& values) const {
    Terms in = slice_of(values, 1, loop_.carried[0] + 1);
    append(in, invariants_);
    const Term out = call_.splice(*loop_.condition, in)[0];
    if (loop_.max_steps < 0) return out;
    return out & (values[0] < static_cast<double>(loop_.max_steps));
  }

  Terms step(std::size_t p, const Terms& values, const Term& steps) const {
    const std::size_t carried = loop_.carried[p];
    const Term at = p % 2 == 0 ? values[0] : steps - values[0] - 1.0;
    Terms in = slice_of(values, 1, carried + 1);
    for (const Term& record : records_) in.push_back(row_of(record, at));
    append(in, invariants_);
    const Terms made = call_.splice(*loop_.bodies[p], in);
    Terms out = {values[0] + 1.0};
    append(out, slice_of(made, 0, carried));
    for (std::size_t i = carried; i < made.size(); ++i) {
      out.push_back(with_row(values[i + 1], made[i], at));
    }
    return out;
  }

  Call& call_;
  ops::WhileLoop loop_;
  Terms invariants_, records_;
};
Terms while_loop(Call& call) { return WhilePasses(call).run(); }
// Later passes are derivatives. Their records need a number of steps.
bool has_known_records(const CallFacts& call) {
  return call.attrs.objects("bodies").size() == 1 || call.attrs.integer("max_steps") >= 0;
}

// A recurrence along an axis: y = b + a * (y before), with 0 before the first. Factors of 0 hide
// all that is before.
Terms linear_scan(Call& call) {
  const int rank = call.rank(0);
  const int64_t axis = call.axis();
  Sizes front = all_axes(rank), back(front.size());
  front.erase(front.begin() + static_cast<std::ptrdiff_t>(axis));
  front.insert(front.begin(), axis);
  for (std::size_t i = 0; i < front.size(); ++i) {
    back[static_cast<std::size_t>(front[i])] = static_cast<int64_t>(i);
  }
  const Term a = transpose(call.in(0), front), b = transpose(call.in(1), front);
  const int64_t length = a.shape()[0];
  const Term zeros = filled(call.writer, 0, b.dtype(), b.shape());
  Sizes row = b.shape().to_vector();
  row.erase(row.begin());
  const Terms first = {call.writer.number(0, kInt64), filled(call.writer, 0, b.dtype(), Shape(row)),
                       zeros};
  const auto holds = [&](const Terms& values) { return values[0] < static_cast<double>(length); };
  const auto step = [&](const Terms& values) {
    const Term at =
        call.attrs.flag("reverse") ? static_cast<double>(length - 1) - values[0] : values[0];
    const Term factor = row_of(a, at), added = row_of(b, at);
    const Term next = where(factor == 0.0, added, added + factor * values[1]);
    return Terms{values[0] + 1.0, next, with_row(values[2], next, at)};
  };
  return {transpose(loop(call.writer, first, holds, step)[2], back)};
}

}  // namespace

void add_control_conversions(Conversions& to) {
  to.insert(to.end(),
            {{.op = "internal.switch_case", .write = switch_case, .fits = has_results},
             {.op = "internal.scan", .write = row_scan},
             {.op = "internal.linear_scan", .dtypes = kFullComplex, .write = linear_scan},
             {.op = "internal.while_loop", .write = while_loop, .fits = has_known_records}});
}

}  // namespace etude::stablehlo::internal
