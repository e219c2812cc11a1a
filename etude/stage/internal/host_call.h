// SPDX-License-Identifier: Apache-2.0
// The part of host_function() that does not depend on the types of the callable. The op host_call
// (ops/graph/host_calls.cc) runs a HostCallable.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/base/internal/ref_ptr.h"
#include "etude/core/op/attr_view.h"
#include "etude/core/tensor.h"
#include "etude/core/type.h"
#include "etude/variables/variable.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace internal {

// The properties of a host function, which its calls share. Immutable.
struct HostFacts : RefCounted {
  // throws: kInvalidArgument for a result whose size is not known.
  HostFacts(std::string name, std::vector<TensorSpec> specs, std::vector<Variable> listed,
            CallSite made);
  std::string title() const;  // "host_function 'huber'"

  std::string name;
  CallSite where;                    // of host_function()
  std::vector<const Type*> results;  // the declared types
  std::vector<Variable> variables;   // those with gradients
};

// A callable of a program, as an attribute. Its identity is its equality.
class HostCallable : public HostObject {
 public:
  explicit HostCallable(RefPtr<const HostFacts> facts) : facts_(std::move(facts)) {}
  const HostFacts& facts() const noexcept { return *facts_; }
  // "host_function 'huber' made at train.cc:12".
  std::string to_string() const override;
  // Runs the callable in the contexts of the caller, and returns its tensors.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs) const = 0;

 private:
  RefPtr<const HostFacts> facts_;
};

// Whether a call with these tensors is a plain call of the callable: no trace records it, and its
// tensors have elements, or will have them.
bool is_plain_host_call(std::span<const Tensor> inputs);
// Calls the op host_call, and is defined with its record. Returns one tensor per declared result.
std::vector<Tensor> call_host(const RefPtr<const HostCallable>& callable,
                              std::span<const Tensor> inputs, CallSite where);
// Runs `f`, which is host code of this function. throws: an Error with the exception as its cause;
// an Error of Etude keeps its code and its line.
void run_host_code(const HostFacts& facts, const std::function<void()>& f);
// throws: kInvalidArgument unless these are tensors of the declared types.
void require_declared(const HostFacts& facts, std::span<const Tensor> results);
// throws: kInvalidArgument: the result type of the callable holds `held` tensors when it is made by
// its default constructor.
[[noreturn]] void throw_no_structure(const HostFacts& facts, std::size_t held);

}  // namespace internal
}  // namespace etude
