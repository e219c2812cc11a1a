// SPDX-License-Identifier: Apache-2.0
// Calls with extreme attributes and sizes for the type rules of all records. Shared by the fuzz
// target, which draws from bytes, and the property test, which draws from seeds. Names no op.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "etude/base/error.h"
#include "etude/core/internal/infer.h"
#include "etude/core/op/exact_text.h"
#include "etude/core/op/registry.h"
#include "etude/core/type.h"

namespace etude::extreme {

// `Source` has uint8_t next().
template <class Source>
int64_t number(Source& in) {
  constexpr int64_t kMax = INT64_MAX, kMin = INT64_MIN;
  constexpr int64_t kNumbers[] = {kMin,
                                  kMin + 1,
                                  kMin / 2,
                                  -(int64_t{1} << 32),
                                  -3,
                                  -2,
                                  -1,
                                  0,
                                  1,
                                  2,
                                  3,
                                  4,
                                  5,
                                  8,
                                  (int64_t{1} << 31) - 1,
                                  int64_t{1} << 31,
                                  int64_t{1} << 32,
                                  int64_t{1} << 40,
                                  kMaxCount,
                                  kMax / 2,
                                  kMax / 2 + 1,
                                  kMax - 1,
                                  kMax};
  return kNumbers[in.next() % std::size(kNumbers)];
}

template <class Source>
double real(Source& in) {
  constexpr double kNumbers[] = {0.0,
                                 -0.0,
                                 1.0,
                                 -1.0,
                                 0.5,
                                 2.0,
                                 1e-300,
                                 1e18,
                                 1e19,
                                 -1e19,
                                 1e308,
                                 -1e308,
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()};
  return kNumbers[in.next() % std::size(kNumbers)];
}

// A size that a tensor may have.
template <class Source>
int64_t size(Source& in) {
  constexpr int64_t kSizes[] = {
      0, 1, 2, 3, 4, 6, 1 << 16, int64_t{1} << 31, int64_t{1} << 40, kMaxCount};
  return kSizes[in.next() % std::size(kSizes)];
}

template <class Source>
AttrValue value(Source& in, AttrKind kind, const AttrValue& otherwise) {
  constexpr std::string_view kWords[] = {"",      "same",  "valid", "ij,jk->ik",
                                         "ii->i", "ortho", "full",  "constant"};
  switch (kind) {
    case AttrKind::kFlag:
      return in.next() % 2 == 0;
    case AttrKind::kInt:
      return number(in);
    case AttrKind::kReal:
      return real(in);
    case AttrKind::kDType:
      return static_cast<DType>(in.next() % kDTypeCount);
    case AttrKind::kInts: {
      std::vector<int64_t> list(in.next() % 5);
      for (int64_t& n : list) n = number(in);
      return list;
    }
    case AttrKind::kReals: {
      std::vector<double> list(in.next() % 4);
      for (double& x : list) x = real(in);
      return list;
    }
    case AttrKind::kText:
      return std::string(kWords[in.next() % std::size(kWords)]);
    default:
      return otherwise;
  }
}

// The type with another size, or another axis.
template <class Source>
const Type* changed(Source& in, const Type* type) {
  std::vector<int64_t> sizes = type->shape().to_vector();
  const std::size_t axis = sizes.empty() ? 0 : in.next() % sizes.size();
  switch (in.next() % 4) {
    case 0:
      sizes.push_back(size(in));
      break;
    case 1:
      if (!sizes.empty()) sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
      break;
    default:
      if (!sizes.empty()) sizes[axis] = size(in);
  }
  try {
    return intern_type(type->dtype(), Shape(sizes));
  } catch (const Error&) {  // no tensor has so many elements
    return type;
  }
}

struct Call {
  const Op* op = nullptr;
  Types types;
  std::vector<std::pair<std::string_view, AttrValue>> attrs;

  std::string to_string() const {
    std::string text = std::string(op->name()) + "(";
    for (const Type* type : types) text += (type == nullptr ? "-" : type->to_string()) + " ";
    for (const auto& [name, v] : attrs) text += std::string(name) + "=" + etude::to_string(v) + " ";
    return text + ")";
  }
};

// A call near a sample of a record: some sizes and attributes are others.
template <class Source>
Call call(Source& in) {
  static const std::vector<const Op*> ops = Registry::global().ops();
  Call out;
  const std::size_t which = in.next() * 256u + in.next();
  out.op = ops[which % ops.size()];
  const OpDef& def = out.op->def();
  const auto& samples = def.samples.calls;
  const Sample* sample = samples.empty() ? nullptr : &samples[in.next() % samples.size()];
  const std::size_t operands = sample != nullptr ? sample->operands.size() : def.operands.size();
  for (std::size_t i = 0; i < operands; ++i) {
    const std::string_view text = sample != nullptr ? sample->operands[i] : "[2,3]";
    const DTypeSet set = out.op->operand_dtypes(i);
    DType dtype = kFloat32;
    for (int d = 0; d < kDTypeCount && !set.contains(dtype); ++d) dtype = static_cast<DType>(d);
    const Type* type = text == "-" ? nullptr : parse_type(text, dtype);
    for (int n = in.next() % 4; type != nullptr && n > 2; --n) type = changed(in, type);
    out.types.push_back(type);
  }
  for (const AttrDef& attr : def.attrs) {
    AttrValue v = attr.default_value;
    if (sample != nullptr) {
      for (const auto& [name, given] : sample->attrs) {
        if (name == attr.name) v = given;
      }
    }
    if (in.next() % 3 == 0) v = value(in, attr.kind, v);
    if (v.index() != 0) out.attrs.emplace_back(attr.name, std::move(v));
  }
  return out;
}

// Whether the type rule of the call returns types or refuses the call with an error of the caller.
inline bool is_answered(const Call& call) {
  try {
    const Attrs attrs = call.op->attrs_by_name(call.attrs);
    infer_types(*call.op, {call.types.data(), call.types.size()}, attrs);
  } catch (const Error& error) {
    return error.code() != ErrorCode::kInternal;
  }
  return true;
}

}  // namespace etude::extreme
