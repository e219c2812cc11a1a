// SPDX-License-Identifier: Apache-2.0
// Signatures fix the types of the arguments of a staged function in advance. Sizes may be left
// open. One graph then serves all sizes, and other arguments are refused.
//
//   auto norm = function([](const Tensor& x) { return sqrt(sum(x * x)); },
//                        {.signature = Signature{TensorSpec{{kAny}}}});
//
// The function is traced at several made-up sizes, so no call is needed. The graphs are then
// compared (graph/symbolic_graph.h). Host code that reads an open size is refused, since it would
// see an arbitrary number. Open sizes that are equal in the first call are one size of the graph. A
// call in which they differ is traced again. A call with a size of 0 or 1 has a graph of its own.
// Host values stay part of the key.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "etude/base/call_site.h"
#include "etude/core/type.h"
#include "etude/stage/internal/arguments.h"
#include "etude/version.h"

namespace ETUDE_API etude {

// Accepts any Variable of this dtype and shape.
struct VariableSpec {
  Shape shape;
  DType dtype = kFloat32;
};

// Accepts no tensor: the place of an absent one, such as the bias of a layer without a bias.
struct AbsentSpec {};

// Specs of the tensors and Variables of the arguments, in flattening order. A tensor spec may have
// a name, which becomes the name of the graph input:
//
//   Signature{{"image", TensorSpec{{kAny, 784}}}, TensorSpec{{10}}}
class Signature {
 public:
  class Spec {
   public:
    Spec(TensorSpec tensor);
    Spec(VariableSpec variable);
    Spec(AbsentSpec absent);
    Spec(std::string name, TensorSpec tensor);

    using Type = std::variant<TensorSpec, VariableSpec, AbsentSpec>;
    const Type& type() const noexcept { return type_; }
    const std::string& name() const noexcept { return name_; }  // "": none

   private:
    Type type_;
    std::string name_;
  };
  // throws: kInvalidArgument if two specs have the same name.
  Signature(std::initializer_list<Spec> specs, CallSite where = CallSite::here())
      : Signature(std::vector<Spec>(specs), where) {}
  // The same, of specs that are known at run time.
  explicit Signature(std::vector<Spec> specs, CallSite where = CallSite::here());

  const std::vector<Spec>& specs() const noexcept { return specs_; }
  // By tensor. An absent tensor has the spec of a scalar.
  std::vector<TensorSpec> tensors() const;
  std::vector<uint8_t> is_absent() const;  // by tensor
  std::vector<VariableSpec> variables() const;
  // The names of the tensor specs; "" for a spec without a name.
  std::vector<std::string> tensor_names() const;
  bool has_open_sizes() const;
  // "(image: float32[?,784], variable float32[10])".
  std::string to_string() const;

 private:
  std::vector<Spec> specs_;
};

namespace internal {

// The number of made-up sizes at which a signature is traced: two to compare, and one to check.
inline constexpr std::size_t kMadeUpPoints = 3;
// The tensor types at one of these points. Open sizes that are equal in `given` get the same
// made-up size. An absent tensor is null in `given`. If `given` is empty, all open sizes are
// different.
// throws: kInvalidArgument for more open sizes than a symbolic graph supports.
std::vector<const Type*> made_up_types(std::span<const TensorSpec> specs,
                                       std::span<const Type* const> given, std::size_t point);

// Whether `size` is in the list of made-up sizes. A caller that only computes with such a size can
// compute it in the graph, from a tensor of that size.
bool is_made_up(int64_t size) noexcept;

// Abstract tensors for the arguments of a call, at the first of these points.
// throws: kInvalidArgument if the call has another number of tensors.
std::vector<Tensor> made_up_tensors(const Signature& signature, const Arguments& call,
                                    const std::string& function);

// throws: kInvalidArgument, with the given types and the signature, unless the call fits it.
void require_signature(const Signature& signature, const Arguments& call,
                       const std::string& function);
// The names of the graph inputs for tensors at these paths: the name of the spec if it has a name,
// else the path without the positions at its end. Repeated names are numbered, so the tensors of a
// list `x` are x, x_1, x_2.
std::vector<std::string> input_names(const std::vector<std::string>& paths,
                                     const Signature* signature);
// For a function without structs among its parameters; `parameters` is the number of its tensors
// and Variables. throws: kInvalidArgument if the signature has more specs.
void require_parameters(const Signature& signature, std::size_t parameters,
                        const std::string& function);

}  // namespace internal
}  // namespace etude
