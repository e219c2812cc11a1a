// SPDX-License-Identifier: Apache-2.0
// Gathers one live function. Used by gather.cc.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "etude/saved/content.h"
#include "etude/saved/gather.h"
#include "etude/saved/internal/given.h"

namespace etude::saved::internal {

// "net" and "out/weight" are "net/out/weight".
std::string joined(const std::string& name, const std::string& path);

// The state of an object to which functions are bound.
struct BoundState {
  std::string prefix;
  // By tensor of the object: the Variable, or -1 for an absent tensor. Set with the first function.
  std::vector<int64_t> variables;
  std::vector<Tensor> values;
};
using StateOf = std::function<BoundState&(const BoundObject&)>;

class FunctionGatherer {
 public:
  FunctionGatherer(Store& store, const SaveOptions& options, std::string name,
                   const GivenFunction& given)
      : store_(store), options_(options), name_(std::move(name)), given_(given) {}

  SavedFunction gather(const StateOf& state_of);

 private:
  bool is_usable(const GivenTrace& given);
  SavedGraph graph_of(const GivenTrace& given);
  void add_graphs(SavedGraph& to, const GivenTrace& given);
  void add_tensors(SavedGraph& to, const etude::internal::Trace& trace);
  void add_hosts(SavedGraph& to, const etude::internal::Trace& trace);
  void add_uses(SavedGraph& to, const etude::internal::Trace& trace);
  void add_result(SavedGraph& to, const Parts& result);
  void bind(const StateOf& state_of, const etude::internal::Trace& trace);
  [[noreturn]] void refuse_state() const;

  Store& store_;
  const SaveOptions& options_;
  const std::string name_;
  const GivenFunction& given_;
  std::vector<int64_t> states_;  // by bound tensor: its Variable
  std::vector<int64_t> bound_variables_;
  std::string unusable_;  // why a graph was left out
  ErrorCode unusable_code_ = ErrorCode::kFailedPrecondition;
};

// Adds an exported signature to a function. throws: kInvalidArgument, naming the function, for an
// unknown one, and for results that are not tensors with names.
void export_signature(Content& to, const std::string& function);

}  // namespace etude::saved::internal
