// SPDX-License-Identifier: Apache-2.0
// Calls of an op by name, for rules and contexts of the library:
//   Tensor y = run(op<"reshape">(), {&x}, {sizes});
// Users call the functions of etude/ops.h, which accept host numbers as operands and record the
// user's line.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "etude/core/context/context.h"
#include "etude/core/internal/call.h"
#include "etude/core/op/op.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// A string as a template argument.
template <std::size_t size>
struct OpName {
  consteval OpName(const char (&name)[size]) {
    for (std::size_t i = 0; i < size; ++i) text[i] = name[i];
  }
  char text[size] = {};
};

// The record of this name, looked up once. throws: kInternal if there is none.
template <OpName name>
const Op& op() {
  static constinit const NamedOp found(name.text);
  return found;
}

// The attributes of a call in any form that rules use: values in braces in the order of the record,
// a list, an Attrs of this op, or nothing for the defaults. Borrowed, for one call.
class GivenAttrs {
 public:
  GivenAttrs() = default;
  GivenAttrs(std::initializer_list<AttrView> list) : form_(Form::kViews), views_(list) {}
  GivenAttrs(const std::vector<AttrValue>& list) : form_(Form::kValues), values_(list) {}
  GivenAttrs(const Attrs& set) : form_(Form::kSet), set_(&set) {}

  Attrs of(const Op& op) const {
    switch (form_) {
      case Form::kDefaults:
        return op.default_attrs();
      case Form::kViews:
        return op.attrs(views_);
      case Form::kValues:
        return op.attrs(values_);
      case Form::kSet:
        return *set_;
    }
    return {};
  }

 private:
  enum class Form { kDefaults, kViews, kValues, kSet };
  Form form_ = Form::kDefaults;
  std::initializer_list<AttrView> views_;
  std::span<const AttrValue> values_;
  const Attrs* set_ = nullptr;
};

// Calls an op once. run_all returns all results, run the only result. Operands are not converted.
// Without `where` the call has the line of the user's call whose rule is running. throws: as
// execute().
inline Values run_all(const Op& op, Operands in, const GivenAttrs& attrs = {},
                      CallSite where = {}) {
  return execute(op, in, attrs.of(op), where);
}
inline Values run_all(const Op& op, const OperandList& in, const GivenAttrs& attrs = {},
                      CallSite where = {}) {
  return run_all(op, in.view(), attrs, where);
}
inline Tensor run(const Op& op, Operands in, const GivenAttrs& attrs = {}, CallSite where = {}) {
  return only(run_all(op, in, attrs, where));
}
inline Tensor run(const Op& op, const OperandList& in, const GivenAttrs& attrs = {},
                  CallSite where = {}) {
  return only(run_all(op, in.view(), attrs, where));
}

}  // namespace internal
}  // namespace etude
