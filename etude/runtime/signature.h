// SPDX-License-Identifier: Apache-2.0
// Signatures: the types that a staged function takes, fixed in advance; sizes may be left open.
// One graph then serves all sizes, and anything else is refused.
//
//   auto norm = function([](const Tensor& x) { return sqrt(sum(x * x)); },
//                        {.signature = Signature{TensorSpec{{kAny}}}});
//
// The function is traced at made-up sizes, so that no call is needed, and the graphs are compared
// (graph/family.h). Host code that looks at an open size is refused: it would decide by a number
// that nobody chose. Open sizes that are equal in the first call are one size, and must be equal
// from then on; other calls have a graph of their own, as have sizes of 0 and 1, and those where an
// op rounds. Host values stay part of the key.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "etude/core/type.h"
#include "etude/runtime/arguments.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Any Variable of this dtype and shape.
struct VariableSpec {
  Shape shape;
  DType dtype = kFloat32;
};

// Specs of the tensors of the arguments, and of their Variables, in the order in which the
// parameters, their fields and elements have them.
class Signature {
 public:
  using Spec = std::variant<TensorSpec, VariableSpec>;
  Signature(std::initializer_list<Spec> specs) : specs_(specs) {}

  std::span<const Spec> specs() const noexcept { return specs_; }
  std::vector<TensorSpec> tensors() const;
  std::vector<VariableSpec> variables() const;
  bool has_open_sizes() const;
  // "(float32[?,784], variable float32[10])".
  std::string to_string() const;

 private:
  std::vector<Spec> specs_;
};

namespace internal {

// A signature is traced at as many made-up sizes: two to compare, and one to check them by.
inline constexpr std::size_t kMadeUpPoints = 3;
// The types of the tensors at one of these points. Open sizes that are equal in `given` are one;
// without types each is another. throws: kInvalidArgument for more open sizes than families take.
std::vector<const Type*> made_up_types(const Signature& signature,
                                       std::span<const Type* const> given, std::size_t point);

// Tensors without elements for the arguments of a call, at the first of these points.
// throws: kInvalidArgument if the call has another number of tensors.
std::vector<Tensor> made_up_tensors(const Signature& signature, const Arguments& call,
                                    const std::string& function);

// throws: kInvalidArgument, with the given types beside the signature, unless the call fits it.
void require_signature(const Signature& signature, const Arguments& call,
                       const std::string& function);
// throws: kInvalidArgument if there are more specs than parameters, each of which is one tensor,
// one Variable or a host value.
void require_parameters(const Signature& signature, std::size_t parameters,
                        const std::string& function);

}  // namespace internal
}  // namespace etude
