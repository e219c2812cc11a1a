// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/import/model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/internal/host_door.h"
#include "etude/graph/symbolic_graph.h"
#include "etude/onnx/import/names.h"
#include "etude/ops.h"
#include "etude/saved/gather_function.h"
#include "etude/stage/make_graph.h"

namespace etude::onnx::importing {
namespace {

using saved::internal::Content;
using saved::internal::SavedFunction;
using saved::internal::SavedGraph;
using Point = std::vector<int64_t>;

constexpr std::size_t kTracePoints = 4;
constexpr std::size_t kMostSubsets = 4;  // with more open sizes, not all subsets are traced at 1
constexpr std::size_t kMostSingles = 16;
constexpr std::size_t kMostSizes = 256;  // open sizes: each has graphs of its own
constexpr int64_t kMostFolded = 4096;    // elements of integers that are folded

// Sizes at which an open model is traced: small sizes, and sizes of images.
struct SizeRange {
  int64_t first, step, count;
};
constexpr SizeRange kSizeRanges[] = {{3, 1, 17}, {16, 1, 64}, {32, 32, 13}, {224, 32, 13}};

Point point_in(const SizeRange& range, std::size_t number, std::size_t sizes) {
  Point out;
  uint64_t state = 0x9E3779B97F4A7C15ull * (number + 1);
  for (std::size_t i = 0; i < sizes; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const auto random = static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(range.count));
    out.push_back(range.first + range.step * random);
  }
  return out;
}

std::vector<Point> points_in(const SizeRange& range, std::size_t sizes) {
  std::vector<Point> out;
  for (std::size_t number = 0; out.size() < kTracePoints; ++number) {
    Point made = point_in(range, number, sizes);
    const bool is_new = std::ranges::none_of(out, [&](const Point& other) {
      for (std::size_t i = 0; i < sizes; ++i) {
        if (other[i] == made[i]) return true;  // each size differs between points
      }
      return false;
    });
    if (is_new || number > 1000) out.push_back(std::move(made));
  }
  return out;
}

// Names without '/', which separates parts of paths. A name that is used already gets a number.
class Names {
 public:
  std::string unique(const std::string& name) {
    std::string out = name;
    // Many equal names must not cost a search each.
    for (int64_t& n = latest_[name]; !used_.insert(out).second;) {
      out = fmt::format("{}_{}", name, n = std::max<int64_t>(n + 1, 2));
    }
    return out;
  }
  std::string plain(std::string name, const char* otherwise) {
    std::ranges::replace(name, '/', '_');
    return unique(name.empty() ? otherwise : name);
  }

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, int64_t> latest_;  // the last number for a name
};

bool may_be_state(const FileConstant& constant, const FileModel& model) {
  const Tensor& x = constant.value;
  const bool is_ours = model.producer == "etude" && constant.name.starts_with("constant_");
  if (x.rank() == 0 || is_ours) return false;
  return is_floating(x.dtype()) || is_complex(x.dtype()) || x.size() > kMostFolded;
}

// Statistics of batches, which training by gradients does not change.
std::unordered_set<std::string> statistics_of(const FileGraph& graph) {
  std::unordered_set<std::string> out;
  for (const FileNode& node : graph.nodes) {
    if (node.op != "BatchNormalization") continue;
    for (std::size_t i = 3; i < std::min<std::size_t>(node.inputs.size(), 5); ++i) {
      out.insert(node.inputs[i]);
    }
  }
  return out;
}

bool is_inexact(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

// Whether a tensor of this shape can be an input with these axes.
bool fits(const Shape& shape, const std::optional<std::vector<FileAxis>>& axes) {
  if (!axes) return true;
  if (static_cast<std::size_t>(shape.rank()) != axes->size()) return false;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const FileAxis& axis = (*axes)[i];
    const bool is_open = axis.size == kAny || !axis.name.empty();
    if (!is_open && axis.size != shape[static_cast<int>(i)]) return false;
  }
  return true;
}

// "[batch,3]"
std::string axes_text(const std::vector<FileAxis>& axes) {
  std::vector<std::string> out;
  for (const FileAxis& axis : axes) {
    out.push_back(!axis.name.empty()  ? axis.name
                  : axis.size == kAny ? "?"
                                      : std::to_string(axis.size));
  }
  return fmt::format("[{}]", fmt::join(out, ","));
}

}  // namespace

void ModelImporter::check_opset() const {
  ETUDE_REQUIRE_CODE(kDataLoss, model_.opset != 0,
                     "{}: the model states no opset of ai.onnx, the version of its operators",
                     file_);
  ETUDE_REQUIRE_CODE(
      kUnimplemented,
      model_.opset >= LoadOptions::kOldestOpset && model_.opset <= LoadOptions::kNewestOpset,
      "{}: the model uses opset {}, but opsets {} to {} are imported. Convert it with "
      "onnx.version_converter",
      file_, model_.opset, LoadOptions::kOldestOpset, LoadOptions::kNewestOpset);
}

void ModelImporter::add_constants() {
  for (const FileConstant& constant : model_.graph.constants) {
    ETUDE_REQUIRE_CODE(kUnimplemented, constant.refusal.empty(),
                       "{}: constant '{:.200}' cannot be imported: {}", file_, constant.name,
                       constant.refusal);
    ETUDE_REQUIRE(!constant.name.empty() && constants_.emplace(constant.name, &constant).second,
                  "{}: two constants are called '{:.200}', or one has no name", file_,
                  constant.name);
  }
  const std::vector<std::string> read = names_read(model_.graph);
  const std::unordered_set<std::string> is_read(read.begin(), read.end());
  const std::unordered_set<std::string> statistics = statistics_of(model_.graph);
  Names used;
  for (const FileConstant& constant : model_.graph.constants) {
    if (!is_read.contains(constant.name) || !may_be_state(constant, model_)) continue;
    std::string path =
        constant.name.substr(std::min(constant.name.find_first_not_of('/'), constant.name.size()));
    if (path.empty()) path = "constant";
    const bool is_trainable = options_.trainable && is_floating(constant.value.dtype()) &&
                              !statistics.contains(constant.name);
    states_.push_back({&constant, used.unique(path), is_trainable});
  }
}

int64_t ModelImporter::open_size(const std::string& name) {
  const auto fixed = options_.sizes.find(name);
  if (fixed != options_.sizes.end()) return fixed->second;
  const auto [found, is_new] = size_numbers_.emplace(name, sizes_.size());
  if (is_new) {
    ETUDE_REQUIRE_CODE(kUnimplemented, sizes_.size() < kMostSizes,
                       "{}: the inputs have more than {} open sizes. Fix some of them: "
                       "LoadOptions::sizes = {{{{\"{}\", 8}}}}",
                       file_, kMostSizes, name);
    sizes_.push_back(name);
  }
  return -1 - static_cast<int64_t>(found->second);
}

DType ModelImporter::input_dtype(const FilePort& port) const {
  ETUDE_REQUIRE_CODE(kUnimplemented, port.other_kind.empty(),
                     "{}: input '{:.200}' is {}, but only tensors are imported", file_, port.name,
                     port.other_kind);
  const std::optional<DType> dtype = dtype_of(port.dtype);
  ETUDE_REQUIRE_CODE(kUnimplemented, dtype.has_value(),
                     "{}: input '{:.200}' has the dtype {}, which Etude lacks", file_, port.name,
                     dtype_text(port.dtype));
  return *dtype;
}

void ModelImporter::add_argument(const FilePort& port) {
  Argument out{port.name, "", input_dtype(port), {}};
  const auto given = options_.shapes.find(port.name);
  const bool is_given = given != options_.shapes.end();
  ETUDE_REQUIRE_CODE(kFailedPrecondition, is_given || port.axes.has_value(),
                     "{}: input '{:.200}' has no shape in the model. State it: "
                     "LoadOptions::shapes = {{{{\"{:.200}\", {{kAny, 3}}}}}}",
                     file_, port.name, port.name);
  std::vector<FileAxis> axes = port.axes.value_or(std::vector<FileAxis>());
  if (is_given) {
    const Shape& shape = given->second;
    ETUDE_REQUIRE(
        !port.axes || static_cast<int>(axes.size()) == shape.rank(),
        "LoadOptions::shapes has the shape {} for input '{:.200}', which has {} axes in {}",
        shape.to_string(), port.name, axes.size(), file_);
    axes.resize(static_cast<std::size_t>(shape.rank()));
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const int64_t size = shape[static_cast<int>(i)];
      if (size != kAny) axes[i] = {size, ""};
    }
  }
  ETUDE_REQUIRE(axes.size() <= static_cast<std::size_t>(kMaxRank),
                "{}: input '{:.200}' has {} axes, but a tensor has at most {}", file_, port.name,
                axes.size(), kMaxRank);
  int64_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool is_open = axes[i].size == kAny || !axes[i].name.empty();
    const std::string name =
        axes[i].name.empty() ? fmt::format("{}.{}", port.name, i) : axes[i].name;
    out.sizes.push_back(is_open ? open_size(name) : axes[i].size);
    if (is_open) continue;
    ETUDE_REQUIRE(!__builtin_mul_overflow(count, std::max<int64_t>(axes[i].size, 1), &count) &&
                      count <= kMaxCount,
                  "{}: input '{:.200}' has axes of the sizes {}, which is too large", file_,
                  port.name, fmt::join(out.sizes, ", "));
  }
  arguments_.push_back(std::move(out));
}

Tensor ModelImporter::fixed_value(const FilePort& port, const Tensor& given) const {
  const DType dtype = input_dtype(port);
  ETUDE_REQUIRE(given.has_value(), "LoadOptions::constants has no value for input '{}'", port.name);
  ETUDE_REQUIRE(!options_.shapes.contains(port.name),
                "LoadOptions::shapes names '{}', but LoadOptions::constants has its value",
                port.name);
  const Tensor value = etude::internal::at_home(given);
  ETUDE_REQUIRE(fits(value.shape(), port.axes),
                "LoadOptions::constants has {} for input '{}', whose shape in {} is {}",
                value.type()->to_string(), port.name, file_, axes_text(*port.axes));
  if (value.dtype() == dtype) return value;
  const bool is_real = !is_complex(value.dtype()) || is_complex(dtype);
  const Tensor made = is_real ? astype(value, dtype) : Tensor();
  const bool may_round = is_inexact(value.dtype()) && is_inexact(dtype);
  ETUDE_REQUIRE(
      is_real && (may_round || array_equal(astype(made, value.dtype()), value).item<bool>()),
      "LoadOptions::constants has {} for input '{}', but some elements do not fit {}, its dtype in "
      "{}",
      value.type()->to_string(), port.name, name(dtype), file_);
  return made;
}

void ModelImporter::add_arguments() {
  std::unordered_set<std::string> names;
  Names paths, results;
  for (const FilePort& port : model_.graph.inputs) {
    ETUDE_REQUIRE(!port.name.empty() && names.insert(port.name).second,
                  "{}: two inputs are called '{:.200}', or one has no name", file_, port.name);
    if (constants_.contains(port.name)) continue;
    const auto given = options_.constants.find(port.name);
    if (given != options_.constants.end()) {
      fixed_.emplace(port.name, fixed_value(port, given->second));
      continue;
    }
    add_argument(port);
    arguments_.back().path = paths.plain(port.name, "input");
  }
  for (const FilePort& port : model_.graph.outputs) {
    results_.push_back(results.plain(port.name, "output"));
  }
  ETUDE_REQUIRE(!results_.empty(), "{}: the model has no output", file_);
  require_known_options();
}

void ModelImporter::require_known_options() const {
  std::vector<std::string_view> inputs;
  for (const FilePort& port : model_.graph.inputs) {
    if (!constants_.contains(port.name)) inputs.push_back(port.name);
  }
  const auto require_input = [&](const std::string& name, const char* option) {
    ETUDE_REQUIRE_CODE(kNotFound, std::ranges::find(inputs, name) != inputs.end(),
                       "LoadOptions::{} names '{}', but {} has no such input. It has: {}", option,
                       name, file_, nearest_listed(name, inputs));
  };
  for (const auto& [name, shape] : options_.shapes) require_input(name, "shapes");
  for (const auto& [name, value] : options_.constants) require_input(name, "constants");
  for (const auto& [name, size] : options_.sizes) {
    bool is_known = false;
    std::vector<std::string_view> names(sizes_.begin(), sizes_.end());
    for (const FilePort& port : model_.graph.inputs) {
      for (std::size_t i = 0; port.axes && i < port.axes->size(); ++i) {
        is_known =
            is_known || (*port.axes)[i].name == name || fmt::format("{}.{}", port.name, i) == name;
      }
    }
    ETUDE_REQUIRE_CODE(kNotFound, is_known,
                       "LoadOptions::sizes names '{}', but {} has no such open size. It has: {}",
                       name, file_, nearest_listed(name, names));
    ETUDE_REQUIRE(size >= 0,
                  "LoadOptions::sizes has the size {} for '{}', but a size is at least 0", size,
                  name);
  }
}

std::vector<Tensor> ModelImporter::run(std::span<const Tensor> inputs) const {
  Importer importer(model_, file_, file_bytes_, budget_, options_.max_loop_steps, !sizes_.empty());
  Scope scope(nullptr);
  std::size_t next = 0;
  std::unordered_set<const FileConstant*> are_state;
  for (const State& state : states_) {
    scope.add(state.constant->name, {state.constant->value, inputs[next++], {}});
    are_state.insert(state.constant);
  }
  for (const FileConstant& constant : model_.graph.constants) {
    if (!are_state.contains(&constant)) scope.add(constant.name, {constant.value, {}, {}});
  }
  for (const Argument& argument : arguments_) {
    scope.add(argument.name, {{}, inputs[next++], {argument.name}});
  }
  for (const auto& [name, value] : fixed_) scope.add(name, {value, {}, {}});
  std::vector<Tensor> out;
  for (Value& value : importer.run(model_.graph, scope)) out.push_back(value.tensor());
  return out;
}

GraphRef ModelImporter::trace(const std::vector<int64_t>& sizes) const {
  std::vector<Graph::Input> inputs;
  for (const State& state : states_) {
    inputs.push_back({state.path, state.constant->value.type(), InputRole::kArgument});
  }
  for (const Argument& argument : arguments_) {
    std::vector<int64_t> shape;
    for (const int64_t size : argument.sizes) {
      shape.push_back(size >= 0 ? size : sizes[static_cast<std::size_t>(-1 - size)]);
    }
    inputs.push_back({argument.path, intern_type(argument.dtype, shape), InputRole::kArgument});
  }
  const std::string name = options_.function;
  return etude::internal::make_graph(
      name, inputs, [&](std::span<const Tensor> placeholders) { return run(placeholders); });
}

// A constant is no state if the trace read its elements only. Returns the trace without inputs for
// such constants.
GraphRef ModelImporter::first_trace(const Point& point) {
  GraphRef graph = trace(point);
  const std::size_t before = states_.size();
  drop_unread_states(*graph);
  return states_.size() == before ? graph : trace(point);
}

void ModelImporter::drop_unread_states(const Graph& graph) {
  std::vector<uint8_t> is_read(states_.size());
  const auto mark = [&](GraphValue value) {
    if (value < is_read.size()) is_read[value] = 1;
  };
  for (std::size_t i = 0; i < graph.size(); ++i) {
    for (const GraphValue value : graph.node(i).operands) mark(value);
  }
  for (const GraphValue value : graph.outputs()) mark(value);
  std::vector<State> kept;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (is_read[i] != 0) kept.push_back(states_[i]);
  }
  states_ = std::move(kept);
}

SavedGraph ModelImporter::saved_graph() const {
  SavedGraph out;
  out.made_for = std::filesystem::path(file_).filename().string();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    out.tensors.push_back({static_cast<int64_t>(i), states_[i].path});
  }
  for (const Argument& argument : arguments_) out.tensors.push_back({-1, argument.path});
  if (results_.size() == 1) {
    out.result.parts = Parts(Tensor());
  } else {
    std::vector<Named> fields;
    for (const std::string& name : results_) fields.emplace_back(name, Parts(Tensor()));
    out.result.parts = Parts::fields(std::move(fields));
  }
  out.result.is_present.assign(results_.size(), 1);
  return out;
}

std::optional<SavedGraph> ModelImporter::graph_at(const std::vector<Point>& points,
                                                  std::string& reason, GraphRef first) const {
  std::vector<GraphRef> graphs;
  for (const Point& point : points) {
    graphs.push_back(first && graphs.empty() ? first : trace(point));
    if (options_.max_loop_steps > 0) {
      saved::internal::require_loop_limits(*graphs.back(), options_.max_loop_steps, file_);
    }
  }
  SavedGraph out = saved_graph();
  if (graphs.size() == 1) {
    out.graph = graphs[0];
    return out;
  }
  SymbolicFound found = SymbolicGraph::of(graphs);
  out.symbolic = std::move(found.symbolic);
  if (out.symbolic) return out;
  reason = found.difference;
  return std::nullopt;
}

void ModelImporter::add_main(SavedFunction& to) {
  if (sizes_.empty()) {
    const GraphRef graph = first_trace({});
    std::string reason;
    to.graphs.push_back(*graph_at({Point()}, reason, graph));
    return;
  }
  std::optional<Error> refusal;
  bool is_of_sizes = false;  // whether the fault differs between sizes
  std::string reason;
  for (const SizeRange& range : kSizeRanges) {
    const std::vector<Point> points = points_in(range, sizes_.size());
    try {
      const GraphRef first = first_trace(points[0]);
      std::optional<SavedGraph> made = graph_at(points, reason, first);
      if (!made) continue;
      to.graphs.push_back(std::move(*made));
      points_ = points;
      return;
    } catch (const UnknownValue&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument && error.code() != ErrorCode::kOutOfRange) {
        throw;
      }
      if (refusal && refusal->text() != error.text()) is_of_sizes = true;
      if (!refusal) refusal = error;  // perhaps the model needs larger sizes
    }
  }
  const std::string sizes = listed(sizes_);
  ETUDE_REQUIRE_CODE(
      kFailedPrecondition, reason.empty() && refusal,
      "{}: the model has no graph for all sizes {}: at two sizes its graphs differ in "
      "{}. Fix sizes: LoadOptions::sizes = {{{{\"{:.100}\", 8}}}}",
      file_, sizes, reason, sizes_[0]);
  if (!is_of_sizes) throw *refusal;
  throw Error(refusal->code(),
              fmt::format("{}\nThe open sizes are {}. Fix them if the model needs others than were "
                          "tried: LoadOptions::sizes = {{{{\"{:.100}\", 8}}}}",
                          refusal->text(), sizes, sizes_[0]));
}

// A graph for many sizes serves no size of 1 or 0, since broadcasting depends on them.
void ModelImporter::add_special(SavedFunction& to) const {
  const std::size_t count = sizes_.size();
  if (count == 0) return;
  std::vector<std::vector<uint8_t>> subsets;  // by size: whether it is 1
  if (count <= kMostSubsets) {
    for (uint32_t set = 1; set < (uint32_t{1} << count); ++set) {
      std::vector<uint8_t>& is_one = subsets.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i) is_one[i] = (set >> i) & 1;
    }
  } else {
    const std::size_t singles = count <= kMostSingles ? count : 0;
    for (std::size_t i = 0; i < singles; ++i) subsets.emplace_back(count)[i] = 1;
    subsets.emplace_back(count, 1);
  }
  const auto add = [&](const std::vector<Point>& points) {
    std::string reason;
    try {
      std::optional<SavedGraph> made = graph_at(points, reason);
      if (!made) return;
      made->is_special = true;
      to.graphs.push_back(std::move(*made));
    } catch (const Error& error) {
      // The model is not for these sizes, unless memory or the budget has ended.
      if (error.code() == ErrorCode::kInternal || error.code() == ErrorCode::kResourceExhausted) {
        throw;
      }
    }
  };
  for (const std::vector<uint8_t>& is_one : subsets) {
    const bool is_all = std::ranges::count(is_one, 1) == static_cast<std::ptrdiff_t>(count);
    std::vector<Point> points;
    for (const Point& point : points_) {
      Point& at = points.emplace_back(point);
      for (std::size_t i = 0; i < count; ++i) at[i] = is_one[i] != 0 ? 1 : at[i];
      if (is_all) break;
    }
    add(points);
  }
  if (count == 1) add({Point{0}});
}

void ModelImporter::add_state(Content& to) const {
  for (const State& state : states_) {
    const Tensor& value = state.constant->value;
    saved::internal::SavedVariable& v = to.variables.emplace_back();
    v.paths = {state.path};
    v.name = state.path;
    v.is_trainable = state.is_trainable;
    v.dtype = value.dtype();
    v.shape = value.shape();
    v.value = value;
  }
}

Content ModelImporter::import() {
  check_opset();
  ETUDE_REQUIRE(!options_.function.empty() && options_.function.find('/') == std::string::npos,
                "LoadOptions::function is '{}', but a name is not empty and has no '/'",
                options_.function);
  add_constants();
  add_arguments();
  SavedFunction function{.name = options_.function, .display = options_.function};
  for (const Argument& argument : arguments_) function.arguments.push_back(argument.path);
  add_main(function);
  add_special(function);
  Content out;
  add_state(out);
  out.functions.push_back(std::move(function));
  saved::internal::export_signature(out, options_.function);
  const auto is_plain_letter = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (results_.size() == 1 && std::ranges::all_of(results_[0], is_plain_letter)) {
    out.functions[0].exported->outputs = results_;  // a lone result keeps its name
  }
  return out;
}

}  // namespace etude::onnx::importing
