// SPDX-License-Identifier: Apache-2.0
#include "tools/record_text.h"

#include <fmt/format.h>

#include "etude/autodiff/derive.h"
#include "etude/core/context/context.h"

namespace etude::tools {
namespace {

std::string name_of(AttrKind kind) {
  switch (kind) {
    case AttrKind::kFlag:
      return "true or false";
    case AttrKind::kInt:
      return "integer";
    case AttrKind::kReal:
      return "number";
    case AttrKind::kDType:
      return "dtype";
    case AttrKind::kInts:
      return "integers";
    case AttrKind::kText:
      return "text";
    case AttrKind::kReals:
      return "numbers";
    case AttrKind::kProgram:
      return "scalar program";
    case AttrKind::kGraph:
      return "graph";
    case AttrKind::kGraphs:
      return "graphs";
    case AttrKind::kHost:
      return "object of this process";
    case AttrKind::kNone:
      break;
  }
  return "none";
}

std::string attrs_text(const std::vector<std::pair<std::string_view, AttrValue>>& attrs) {
  std::vector<std::string> list;
  for (const auto& [key, value] : attrs)
    list.push_back(fmt::format("{}={}", key, to_string(value)));
  return list.empty() ? "" : fmt::format("; {}", fmt::join(list, ", "));
}

// Types and attributes of a call that the record is sure to allow, to try its reverse rule on.
struct Example {
  Types operands;
  Attrs attrs;
};
Example example_of(const Op& op) {
  Example out;
  const auto& calls = op.def().samples.calls;
  if (calls.empty()) {
    for (std::size_t i = 0; i < op.arity(); ++i) {
      const DTypeSet own = op.operand(i).dtypes;
      out.operands.push_back(
          intern_type(own.empty() || own.contains(kFloat32) ? kFloat32 : kBool, {2, 3}));
    }
    out.attrs = op.default_attrs();
    return out;
  }
  for (const std::string_view text : calls[0].operands) {
    out.operands.push_back(text == "-" ? nullptr : parse_type(text));
  }
  out.attrs = op.attrs_by_name(calls[0].attrs);
  return out;
}

std::string operand_name(const Op& op, std::size_t i) {
  const OperandDef& def = op.operand(i);
  return def.variadic ? fmt::format("{}[{}]", def.name, i + 1 - op.arity()) : std::string(def.name);
}

std::string kept_for(const Op& op, const Example& example, std::size_t wanted) {
  const Types results =
      infer_types(op, {example.operands.data(), example.operands.size()}, example.attrs);
  const internal::Reads reads = internal::find_reads(
      op, example.attrs, {example.operands.data(), example.operands.size()}, uint64_t{1} << wanted);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < example.operands.size(); ++i) {
    if ((reads.operands >> i) & 1) names.push_back(operand_name(op, i));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (((reads.results >> i) & 1) == 0) continue;
    const std::size_t last = op.def().results.size() - 1;
    names.push_back("result " + std::string(op.def().results[std::min(i, last)]));
  }
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::string kind_name(Kind kind) {
  switch (kind) {
    case Kind::kElementwise:
      return "element-wise";
    case Kind::kLinear:
      return "linear";
    case Kind::kComposition:
      return "composition";
    case Kind::kGeneral:
      break;
  }
  return "general";
}

std::string signature(const Op& op) {
  std::vector<std::string> list;
  for (const OperandDef& d : op.def().operands) {
    list.push_back(fmt::format("{}{}", d.name, d.variadic ? "..." : d.optional ? "?" : ""));
  }
  for (const AttrDef& a : op.def().attrs) {
    list.push_back(a.required ? std::string(a.name)
                              : fmt::format("{}={}", a.name, to_string(a.default_value)));
  }
  return fmt::format("{}({}) -> {}", op.full_name(), fmt::join(list, ", "),
                     fmt::join(op.def().results, ", "));
}

std::vector<std::string> operand_lines(const Op& op) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < op.arity(); ++i) {
    const OperandDef& d = op.def().operands[i];
    out.push_back(fmt::format("{}: {}{}{}", d.name, describe(op.operand_dtypes(i)),
                              d.optional ? ", may be absent" : "",
                              d.variadic ? ", any number" : ""));
  }
  return out;
}

std::vector<std::string> attr_lines(const Op& op) {
  std::vector<std::string> out;
  for (const AttrDef& a : op.def().attrs) {
    out.push_back(fmt::format("{}: {}, {}", a.name, name_of(a.kind),
                              a.required ? "required" : "default " + to_string(a.default_value)));
  }
  return out;
}

std::vector<std::string> program_lines(const Op& op) {
  std::vector<std::string> out;
  if (op.def().scalar.program == nullptr) return out;
  out.push_back("y = " + scalar::to_string(*op.def().scalar.program));
  for (std::size_t i = 0; i < op.def().partials.by_operand.size(); ++i) {
    const scalar::Program* partial = op.def().partials.by_operand[i].program;
    if (partial == nullptr || i >= op.arity()) continue;
    std::vector<std::string> sources;
    for (int k = 0; k < partial->operands; ++k) {
      const std::size_t from = partial->sources[static_cast<std::size_t>(k)];
      sources.push_back(fmt::format("x{} = {}", k + 1,
                                    from < op.arity()    ? std::string(op.operand(from).name)
                                    : from == op.arity() ? "result"
                                                         : "tangent"));
    }
    out.push_back(
        fmt::format("by {}: {}{}", op.operand(i).name, scalar::to_string(*partial),
                    sources.empty() ? "" : fmt::format("  with {}", fmt::join(sources, ", "))));
  }
  return out;
}

std::vector<std::string> residual_lines(const Op& op) {
  std::vector<std::string> out;
  if (!op.is_differentiable()) return out;
  if (!internal::has_vjp(op)) return {"what the calls of its lowering keep"};
  if (op.def().residuals != nullptr) return {"results of its own, which its backward graph reads"};
  if (op.def().samples.around != nullptr) return {"what its graphs read"};
  const auto is_host = [](const AttrDef& def) { return def.kind == AttrKind::kHost; };
  if (std::ranges::any_of(op.def().attrs, is_host)) return {"its operands, for another run"};
  const Example example = example_of(op);
  for (std::size_t i = 0; i < example.operands.size(); ++i) {
    const Type* type = example.operands[i];
    if (type == nullptr || !is_differentiable(type->dtype())) continue;
    out.push_back(fmt::format("{}: {}", operand_name(op, i), kept_for(op, example, i)));
  }
  return out;
}

std::vector<std::string> sample_lines(const Op& op) {
  std::vector<std::string> out;
  for (const Sample& s : op.def().samples.calls) {
    out.push_back(fmt::format("{}{}", fmt::join(s.operands, ", "), attrs_text(s.attrs)));
  }
  return out;
}

std::vector<std::string> error_lines(const Op& op) {
  std::vector<std::string> out;
  for (const ErrorCase& c : op.def().errors) {
    out.push_back(fmt::format("{}{} is {}: ...{}...", fmt::join(c.operands, ", "),
                              attrs_text(c.attrs), to_string(c.code), c.fragment));
  }
  return out;
}

}  // namespace etude::tools
