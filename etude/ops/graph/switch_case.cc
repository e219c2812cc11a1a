// SPDX-License-Identifier: Apache-2.0
// switch_case: one of several graphs, chosen while it runs. cond() becomes this op in a trace.
#include <algorithm>
#include <ranges>
#include <set>

#include "etude/base/check.h"
#include "etude/core/call/located.h"
#include "etude/ops/families.h"
#include "etude/ops/graph/graph_attrs.h"
#include "etude/stage/make_graph.h"

namespace etude::ops {
namespace {

Types switch_type(const TypeCall& call) {
  ETUDE_REQUIRE(call.rank(0) == 0,
                "operand 'index' has shape {}, but one branch is chosen: it is a single bool or "
                "integer",
                call.shape(0).to_string());
  const Graphs branches = graphs_of(call.attrs, "branches");
  ETUDE_REQUIRE(!branches.empty(), "attribute 'branches' is empty: there is nothing to choose");
  ETUDE_REQUIRE(call.dtype(0) != kBool || branches.size() == 2,
                "operand 'index' is a bool, so that there are two branches, and not {}",
                branches.size());
  const Types first = branches[0]->output_types();
  ETUDE_REQUIRE(std::ranges::count(first, nullptr) == 0, "a result of the branches is absent");
  for (std::size_t b = 0; b < branches.size(); ++b) {
    internal::require_inputs(*branches[b], call.types.subspan(1));
    const Types types = branches[b]->output_types();
    ETUDE_REQUIRE(std::ranges::equal(types, first),
                  "branch {} ({}) and branch 0 ({}) give results of other types", b,
                  branches[b]->to_string(), branches[0]->to_string());
  }
  return first;
}

struct SwitchParams : PlanParams {
  int64_t (*read)(const void*) = nullptr;
};

template <class T>
int64_t read_index(const void* index) {
  return static_cast<int64_t>(*static_cast<const T*>(index));
}
int64_t (*reader_of(DType dtype))(const void*) {
  switch (dtype) {
    case kBool:
    case kUInt8:
      return read_index<uint8_t>;
    case kInt8:
      return read_index<int8_t>;
    case kInt16:
      return read_index<int16_t>;
    case kUInt16:
      return read_index<uint16_t>;
    case kInt32:
      return read_index<int32_t>;
    case kUInt32:
      return read_index<uint32_t>;
    default:
      return read_index<int64_t>;  // of uint64, numbers beyond are negative: no branch either way
  }
}

bool run_switch(const KernelCall& call) {
  const auto& p = *static_cast<const SwitchParams*>(call.params);
  const int64_t i = p.read(call.in[0]);
  if (i < 0 || i >= static_cast<int64_t>(p.plans.size())) {
    return report_fault(
        ErrorCode::kOutOfRange,
        fmt::format("operand 'index' is {}, but branches are 0 to {}", i, p.plans.size() - 1));
  }
  return guarded([&] {
    internal::Plan::Runner runner(*p.plans[static_cast<std::size_t>(i)]);
    return runner.run(call.in + 1, call.out);
  });
}

void prepare_switch(const PrepareCall& call) {
  auto params = internal::make_ref<SwitchParams>();
  params->read = reader_of(call.dtype(0));
  for (const GraphRef& branch : graphs_of(call.attrs, "branches")) params->add(branch);
  call.set(run_switch, params);
}

// Branches that return results of the same types, none of them absent: outputs that no branch has
// are left out, and a branch that lacks an output returns zeros for it. The outputs are results,
// and then tangents; the first `own` results and their tangents come first.
struct Aligned {
  Aligned(const Graphs& branches, std::size_t own) {
    Types wanted(branches[0]->outputs().size());
    for (const GraphRef& branch : branches) {
      const Types types = branch->output_types();
      for (std::size_t i = 0; i < types.size(); ++i) {
        if (types[i] != nullptr) wanted[i] = types[i];
      }
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] != nullptr) given.push_back(i);
    }
    const std::size_t results = wanted.size() / 2;
    const auto is_own = [&](std::size_t i) { return i % results < own; };
    std::ranges::stable_partition(given, is_own);
    own_count = std::ranges::count_if(given, is_own);
    for (const GraphRef& branch : branches) {
      graphs.push_back(
          internal::make_graph(branch->name(), branch->inputs(), [&](std::span<const Tensor> in) {
            const Tensors results = interpret(*branch, in);
            Tensors out;
            for (const std::size_t i : given) {
              out.push_back(results[i].has_value() ? results[i] : internal::full(wanted[i], 0));
            }
            return out;
          }));
    }
  }
  Graphs graphs;
  std::vector<std::size_t> given;  // which outputs these give
  int64_t own_count = 0;
};

// The derivatives of all branches, combined: the residuals of all branches share places.
class SwitchDerivative {
 public:
  // Results from `first_residual` on are residuals of earlier derivatives.
  SwitchDerivative(const Graphs& branches, const Chosen& chosen, std::size_t first_residual)
      : branches_(branches), chosen_(chosen), first_residual_(first_residual) {
    std::set<int64_t> read;
    for (const GraphRef& branch : branches_) {
      pairs_.push_back(internal::derivative_of(*branch, chosen, chosen));
      read.insert(pairs_.back()->read.begin(), pairs_.back()->read.end());
      add_places(*pairs_.back());
    }
    read_.assign(read.begin(), read.end());
  }

  // Operands of the call that the backward graphs read. Operand 0 is the index.
  std::vector<int64_t> operands() const {
    std::vector<int64_t> out;
    for (const int64_t i : read_) out.push_back(i + 1);
    return out;
  }

  Graphs forward() const {
    Graphs out;
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      out.push_back(internal::make_graph(
          branches_[b]->name(), branches_[b]->inputs(), [&](std::span<const Tensor> in) {
            Tensors results = interpret(*pairs_[b]->forward, in);
            Tensors places(places_.size());
            const std::size_t visible = branches_[b]->outputs().size();
            for (std::size_t k = 0; k < place_of_[b].size(); ++k) {
              places[place_of_[b][k]] = results[visible + k];
            }
            results.resize(visible);
            for (std::size_t p = 0; p < places.size(); ++p) {
              const auto& [type, result] = places_[p];
              if (result != visible) {
                results.push_back(results[result]);
              } else {
                results.push_back(places[p].has_value() ? places[p] : internal::full(type, 0));
              }
            }
            return results;
          }));
    }
    return out;
  }

  // Returns, for each chosen input, the given sum plus the cotangents of a branch.
  Graphs backward() const {
    Inputs inputs;
    const auto all = branches_[0]->inputs();
    for (const int64_t i : read_) add_inputs(inputs, all.subspan(static_cast<std::size_t>(i), 1));
    for (const Place& place : places_) inputs.push_back({"residual", place.type});
    for (const Type* type : differentiable(branches_[0]->output_types())) {
      inputs.push_back({"ct", type});
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (chosen_[i]) add_inputs(inputs, all.subspan(i, 1), "sum_");
    }
    Graphs out;
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      out.push_back(internal::make_graph(
          pairs_[b]->backward->name(), inputs, [&](std::span<const Tensor> in) {
            Tensors given;
            for (const int64_t i : pairs_[b]->read) {
              given.push_back(
                  in[static_cast<std::size_t>(std::ranges::lower_bound(read_, i) - read_.begin())]);
            }
            for (const std::size_t p : place_of_[b]) given.push_back(in[read_.size() + p]);
            append(given, in.subspan(read_.size() + places_.size()));
            return interpret(*pairs_[b]->backward, given);
          }));
    }
    return out;
  }

  // By chosen input: whether any branch has a cotangent for it.
  std::vector<bool> adds() const {
    std::vector<bool> out = pairs_[0]->adds;
    for (const auto& pair : pairs_) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = out[i] || pair->adds[i];
    }
    return out;
  }

 private:
  // A kept value that is result r of its branch is result r in all branches, and the cotangents of
  // both are one sum. For other values `result` is the number of results.
  struct Place {
    const Type* type;
    std::size_t result;
    bool operator==(const Place&) const = default;
  };

  void add_places(const internal::GraphDerivative& pair) {
    std::vector<bool> is_taken(places_.size());
    std::vector<std::size_t>& mine = place_of_.emplace_back();
    const auto outputs = pair.forward->output_types();
    const std::size_t visible = branches_[0]->outputs().size();
    for (std::size_t k = visible; k < outputs.size(); ++k) {
      const std::size_t first = internal::first_output(*pair.forward, k, first_residual_);
      const Place place{outputs[k], std::min(first, visible)};
      std::size_t p = 0;
      while (p < places_.size() && (is_taken[p] || places_[p] != place)) ++p;
      if (p == places_.size()) {
        places_.push_back(place);
        is_taken.push_back(false);
      }
      is_taken[p] = true;
      mine.push_back(p);
    }
  }

  const Graphs& branches_;
  const Chosen& chosen_;
  std::size_t first_residual_;
  std::vector<internal::RefPtr<const internal::GraphDerivative>> pairs_;
  std::vector<int64_t> read_;                       // inputs of branches
  std::vector<Place> places_;                       // of residuals
  std::vector<std::vector<std::size_t>> place_of_;  // by branch
};

ResidualCall switch_residuals(std::span<const Type* const> types, const Attrs& attrs,
                              uint64_t bits) {
  std::vector<bool> which = wanted(bits, types);
  which.erase(which.begin());
  const Chosen chosen(which);
  const Graphs branches = graphs_of(attrs, "branches");
  const auto visible = static_cast<int64_t>(branches[0]->outputs().size());
  const int64_t results = own_results(attrs, visible);
  const SwitchDerivative derivative(branches, chosen, static_cast<std::size_t>(results));
  std::vector<int64_t> sums, gives;  // operands of the call; operand 0 is the index
  const std::vector<bool> adds = derivative.adds();
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (!which[i]) continue;
    if (adds[sums.size()]) gives.push_back(static_cast<int64_t>(i + 1));
    sums.push_back(static_cast<int64_t>(i + 1));
  }
  return {op<"switch_case">().attrs_by_name({{"branches", graphs_value(derivative.forward())},
                                             {"backward", graphs_value(derivative.backward())},
                                             {"visible", visible},
                                             {"results", results},
                                             {"read", derivative.operands()},
                                             {"sums", sums},
                                             {"gives", gives}}),
          internal::operand_bits(derivative.operands()) | 1};
}

// The backward graphs if some sums began empty. A sum to which a branch adds nothing then is 0, as
// without the branch, and not the initial -0.
Graphs settled(const Graphs& backward, const std::vector<bool>& is_empty) {
  Graphs out;
  for (const GraphRef& graph : backward) {
    const auto stays = [&](std::size_t s) {
      return is_empty[s] && graph->outputs()[s] < graph->inputs().size();
    };
    if (std::ranges::none_of(std::views::iota(std::size_t{0}, is_empty.size()), stays)) {
      out.push_back(graph);
      continue;
    }
    out.push_back(
        internal::make_graph(graph->name(), graph->inputs(), [&](std::span<const Tensor> in) {
          Tensors sums = interpret(*graph, in);
          for (std::size_t s = 0; s < sums.size(); ++s) {
            if (stays(s)) sums[s] = internal::full(sums[s].type(), 0);
          }
          return sums;
        }));
  }
  return out;
}

Values switch_vjp(const VjpCall& call) {
  const auto visible = static_cast<std::size_t>(call.attrs.integer("visible"));
  const std::vector<int64_t>& sums = call.attrs.ints("sums");
  const std::vector<int64_t>& gives = call.attrs.ints("gives");
  Values out(call.in.size());
  if (gives.empty()) return out;
  Tensors in = {call.in[0]};
  for (const int64_t i : call.attrs.ints("read"))
    in.push_back(call.in[static_cast<std::size_t>(i)]);
  for (std::size_t i = visible; i < call.out.size(); ++i) in.push_back(call.out[i]);
  add_cotangents(in, call, 0, visible);
  const std::vector<bool> is_empty = add_sums(in, call, sums, gives);
  const Graphs backward = settled(graphs_of(call.attrs, "backward"), is_empty);
  const Values found = call_op(op<"switch_case">(), in, {{"branches", graphs_value(backward)}});
  for (std::size_t s = 0; s < sums.size(); ++s) {
    const bool is_given = std::ranges::count(gives, sums[s]) > 0;
    if (is_given) out[static_cast<std::size_t>(sums[s])] = found[s];
  }
  return out;
}

Values switch_jvp(const JvpCall& call) {
  std::vector<bool> moves = moving(call);
  Tensors in = list_of(call.in);
  for (std::size_t i = 0; i < call.in.size(); ++i) {
    if (moves[i]) in.push_back(call.tangents[i]);
  }
  moves.erase(moves.begin());
  Graphs pushed;
  for (const GraphRef& branch : graphs_of(call.attrs, "branches")) {
    pushed.push_back(internal::pushed_graph_of(*branch, Chosen(moves)));
  }
  Values out(pushed[0]->outputs().size());
  const auto results = static_cast<int64_t>(out.size() / 2);
  const Aligned aligned(pushed, static_cast<std::size_t>(own_results(call.attrs, results)));
  const Values found =
      call_op(op<"switch_case">(), in,
              {{"branches", graphs_value(aligned.graphs)}, {"results", aligned.own_count}});
  for (std::size_t i = 0; i < found.size(); ++i) out[aligned.given[i]] = found[i];
  return out;
}

// Where the examples choose each for itself, they run one by one: a branch that an example does not
// take must not run for it.
Values switch_batch(const BatchCall& call) {
  if (call.is_batched(0)) return {};
  std::vector<bool> chosen = batched(call);
  chosen.erase(chosen.begin());
  Graphs branches;
  for (const GraphRef& branch : graphs_of(call.attrs, "branches")) {
    const Chosen all(std::vector<bool>(branch->outputs().size(), true));
    branches.push_back(internal::batched_graph_of(*branch, Chosen(chosen), call.size, all));
  }
  const auto results = static_cast<int64_t>(branches[0]->outputs().size());
  return call_op(
      op<"switch_case">(), list_of(call.in),
      {{"branches", graphs_value(branches)}, {"results", own_results(call.attrs, results)}});
}

GraphSample switch_around(const AttrObject& graph, std::span<const Tensor> inputs) {
  const GraphRef branch(static_cast<const Graph*>(&graph));
  GraphSample out{{Tensor(true)}, {{"branches", graphs_value({branch, branch})}}};
  append(out.operands, inputs);
  return out;
}

}  // namespace

void define_switch_case(Registry& r) {
  r.define({
      .name = "switch_case",
      .space = "internal",
      .kind = Kind::kGeneral,
      .doc = "Runs one of several graphs: number `index`, or for a bool the second if it is true.",
      .operands = {{"index@host", kIntegers | kBool}, {"xs...", kAnyDType}},
      .attrs = {{"branches", AttrKind::kGraphs},
                {"backward", AttrKind::kGraphs, none},
                {"visible", AttrKind::kInt, none},
                {"results", AttrKind::kInt, none},
                {"read", AttrKind::kInts, none},
                {"sums", AttrKind::kInts, none},
                {"gives", AttrKind::kInts, none}},
      .results = {"ys..."},
      .type = switch_type,
      .kernels = {.cpu = prepare_switch},
      .vjp = switch_vjp,
      .residuals = switch_residuals,
      .takes_sums = true,
      .jvp = switch_jvp,
      .batch = switch_batch,
      .samples = {.around = switch_around},
  });
}

}  // namespace etude::ops
