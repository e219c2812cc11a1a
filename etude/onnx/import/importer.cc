// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/import/importer.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <mutex>
#include <set>
#include <system_error>
#include <unordered_set>

#include "etude/base/permanent.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/call/run.h"
#include "etude/core/context/context.h"
#include "etude/core/dtype_functions.h"
#include "etude/files/read_budget.h"
#include "etude/onnx/import/names.h"
#include "etude/onnx/import/windows.h"
#include "etude/ops.h"
#include "etude/stage/make_graph.h"

namespace etude::onnx::importing {
namespace {

constexpr std::size_t kMostInputs = 8;  // that an error names

constexpr const char* kTooOften =
    "it runs too often while the model is loaded, as in a loop without end. If the file is "
    "trusted, raise the limit by set_read_limits()";

// Names of a node or a graph that are looked through in the time of a step.
constexpr std::size_t kNamesInStep = 8;

class ImportTable {
 public:
  ImportTable() {
    add_elementwise_imports(rows_);
    add_activation_imports(rows_);
    add_reduction_imports(rows_);
    add_shape_imports(rows_);
    add_index_imports(rows_);
    add_network_imports(rows_);
    add_normalization_imports(rows_);
    add_pool_imports(rows_);
    add_recurrent_imports(rows_);
    add_attention_imports(rows_);
    add_quantization_imports(rows_);
    add_image_imports(rows_);
    add_region_imports(rows_);
    add_deform_imports(rows_);
    add_signal_imports(rows_);
    add_random_imports(rows_);
    add_control_imports(rows_);
    add_refused_imports(rows_);
    for (const Import& row : rows_) {
      const bool is_new = by_op_.emplace(row.op, &row).second;
      ETUDE_CHECK(is_new, "the operator '{}' has two rows", row.op);
    }
  }
  const Imports& rows() const { return rows_; }
  const Import* find(std::string_view op) const {
    const auto found = by_op_.find(op);
    return found == by_op_.end() ? nullptr : found->second;
  }

 private:
  Imports rows_;
  std::unordered_map<std::string_view, const Import*> by_op_;
};

const ImportTable& import_table() {
  static const etude::internal::Permanent<ImportTable> table;
  return *table;
}

void add_inputs(std::vector<std::string>& to, const std::vector<std::string>& more) {
  for (const std::string& name : more) {
    if (to.size() < kMostInputs && std::ranges::find(to, name) == to.end()) to.push_back(name);
  }
}

// Texts that live as long as the process, since lines of calls refer to them. After many texts, new
// texts are not kept.
class SiteTexts {
 public:
  const char* keep(const std::string& text) {
    constexpr std::size_t kMost = 10'000;
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(text);
    if (found != texts_.end()) return found->c_str();
    return texts_.size() < kMost ? texts_.insert(text).first->c_str() : "model.onnx";
  }

 private:
  std::mutex mutex_;
  std::set<std::string> texts_;
};
SiteTexts& site_texts() {
  static etude::internal::Permanent<SiteTexts> texts;
  return *texts;
}

// Shapes are vectors of integers, and determine sizes. All other constants that may depend on open
// sizes are recorded too, since a graph for many sizes has formulas in calls, but not in constants.
bool may_depend_on_sizes(const NodeCall& call) {
  static constexpr std::string_view kMakers[] = {"ConstantOfShape", "Expand", "EyeLike", "OneHot",
                                                 "Range",           "Tile",   "Trilu"};
  if (std::ranges::find(kMakers, call.node().op) != std::end(kMakers)) return true;
  return std::ranges::any_of(call.inputs(),
                             [](const Value& input) { return input.recorded.has_value(); });
}

// Whether an operand of an image of this rank has a number for each channel, [c,1,1] or [1,c,1,1],
// or a single number.
bool is_by_channel(const Shape& shape, int rank) {
  const int first = rank - shape.rank();  // the axis of the image that has its first axis
  if (first >= 0 && shape.count() == 1) return true;
  if (first < 0 || first > 1) return false;
  for (int i = 0; i < shape.rank(); ++i) {
    if (first + i != 1 && shape[i] != 1) return false;
  }
  return true;
}

// While alive, one more graph runs.
class Level {
 public:
  explicit Level(int64_t& levels) : levels_(levels) { ++levels_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --levels_; }

 private:
  int64_t& levels_;
};

// The call of a formula.
std::vector<Tensor> made_call(const NodeCall& n) {
  const Graph::Node node = n.call()->node(0);
  const Tensor absent;
  OperandList operands;
  for (const GraphValue value : node.operands) {
    operands.add(value == kNoValue ? absent : n.x(value));
  }
  return etude::internal::list(etude::internal::run_all(node.op, operands, node.attrs));
}

void require_axis(int64_t axis, int rank) {
  ETUDE_REQUIRE(axis >= 0 && axis < rank, "axis {} is outside of the {} axes of an operand", axis,
                rank);
}

}  // namespace

const Import* find_import(std::string_view op) { return import_table().find(op); }
const Imports& all_imports() { return import_table().rows(); }

const Value* Scope::find(const std::string& name) const {
  for (const Scope* at = this; at != nullptr; at = at->outer_) {
    const auto found = at->values_.find(name);
    if (found != at->values_.end()) return &found->second;
  }
  return nullptr;
}

bool Scope::add(const std::string& name, Value value) {
  return values_.emplace(name, std::move(value)).second;
}

Tensor as_dtype(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : astype(x, dtype); }

Tensor least_of(DType dtype) {
  if (dtype == kBool) return Tensor(false);
  return astype(is_floating(dtype) ? Tensor(-inf) : int_scalar(iinfo(dtype).min), dtype);
}

Tensor largest_of(DType dtype) {
  if (dtype == kBool) return Tensor(true);
  if (is_floating(dtype)) return astype(Tensor(inf), dtype);
  const auto bits = static_cast<int64_t>(iinfo(dtype).max);  // the bits of a uint64 stay the same
  return astype(int_scalar(bits), dtype);
}

Tensor int_tensor(const std::vector<int64_t>& values) {
  return Tensor(values, Shape{static_cast<int64_t>(values.size())});
}

Tensor int_scalar(int64_t value) { return Tensor(std::vector<int64_t>{value}, Shape{}); }

Tensor numbered(int64_t count, DType dtype) {
  return arange(0.0, {.stop = static_cast<double>(count), .dtype = dtype});
}

Tensor on_axis(const Tensor& x, int64_t axis, int rank) {
  require_axis(axis, rank);
  std::vector<int64_t> sizes(static_cast<std::size_t>(rank), 1);
  sizes[static_cast<std::size_t>(axis)] = x.type()->count();
  return reshape(x, sizes);
}

Tensor span_of(const Tensor& x, int64_t axis, int64_t begin, int64_t end) {
  require_axis(axis, x.type()->rank());
  std::vector<int64_t> stop = x.type()->shape().to_vector(), start(stop.size(), 0);
  start[static_cast<std::size_t>(axis)] = begin;
  stop[static_cast<std::size_t>(axis)] = end;
  return slice(x, start, stop);
}

ImportBudget::ImportBudget(uint64_t file_bytes) {
  constexpr int64_t kTraces = 4;  // of a small file, that take all the steps of a trace
  const ReadLimits limits = read_limits();
  const int64_t free_steps = limits.free_items / 10;
  most_bytes_ = etude::internal::limit_of(limits.free_bytes, limits.bytes_per_byte, file_bytes);
  most_trace_steps_ = etude::internal::limit_of(free_steps, limits.items_per_byte, file_bytes);
  steps_left_ = etude::internal::limit_of(kTraces * free_steps, limits.items_per_byte, file_bytes);
}

void ImportBudget::begin_trace() {
  bytes_left_ = most_bytes_;
  trace_steps_left_ = most_trace_steps_;
}

uint64_t ImportBudget::missing_bytes(uint64_t n) {
  return take(n, bytes_left_) ? 0 : n - bytes_left_;
}

Importer::Importer(const FileModel& model, std::string file, uint64_t file_bytes,
                   ImportBudget& budget, int64_t max_loop_steps, bool has_open_sizes)
    : model_(model),
      file_(std::move(file)),
      file_bytes_(file_bytes),
      max_loop_steps_(max_loop_steps),
      has_open_sizes_(has_open_sizes),
      most_levels_(read_limits().depth),
      budget_(budget),
      opset_(model.opset) {
  budget_.begin_trace();
  add_functions();
}

std::string Importer::title(const FileNode& node) const {
  std::string name = node.name;
  if (name.empty() && !node.outputs.empty()) name = node.outputs[0];
  const std::string function =
      functions_.empty() ? "" : fmt::format("function '{:.100}': ", functions_.back()->name);
  return fmt::format("{}: {}node '{:.200}' ({:.100}{}{:.100})", file_, function, name, node.domain,
                     node.domain.empty() ? "" : ".", node.op);
}

void Importer::need_bytes(const NodeCall& call, int64_t bytes) {
  const uint64_t missing =
      budget_.missing_bytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
  if (missing > 0) {
    call.fail(ErrorCode::kResourceExhausted,
              fmt::format("its constants need {} bytes more than the limit for a file of this "
                          "size. If the file is trusted, raise the limit by set_read_limits()",
                          missing));
  }
}

void Importer::need_steps(const FileNode& node, int64_t steps) {
  if (!budget_.has_steps(static_cast<uint64_t>(std::max<int64_t>(steps, 0)))) {
    throw NodeError(ErrorCode::kResourceExhausted, fmt::format("{}: {}", title(node), kTooOften));
  }
}

CallSite Importer::site_of(const FileNode& node, std::size_t number) const {
  const std::size_t colon = node.doc.rfind(':');
  if (is_ours() && colon != std::string::npos && colon > 0 && colon < 200) {
    int line = 0;
    const char* const end = node.doc.data() + node.doc.size();
    const auto read = std::from_chars(node.doc.data() + colon + 1, end, line);
    if (read.ec == std::errc() && read.ptr == end && line > 0) {
      return {site_texts().keep(node.doc.substr(0, colon)), line};
    }
  }
  const std::string name = std::filesystem::path(file_).filename().string();
  return {site_texts().keep(name), static_cast<int>(number) + 1};
}

const GraphFacts& Importer::facts(const FileGraph& graph) {
  const auto [found, is_new] = facts_.try_emplace(&graph);
  if (is_new) found->second = facts_of(graph);
  return found->second;
}

void Importer::keep_results(const FileNode& node, std::vector<Value> results, Scope& scope) const {
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const std::string& name = node.outputs[k];
    if (name.empty()) continue;
    if (k >= results.size() || !results[k].has_value()) {
      throw NodeError(
          ErrorCode::kUnimplemented,
          fmt::format("{}: result {} ('{:.200}') is not computed here", title(node), k, name));
    }
    if (!scope.add(name, std::move(results[k]))) {
      throw NodeError(ErrorCode::kInvalidArgument,
                      fmt::format("{}: its result '{:.200}' has the name of another value. Each "
                                  "value of a graph has a name of its own",
                                  title(node), name));
    }
  }
}

std::vector<Value> Importer::run(const FileGraph& graph, Scope& scope) {
  const Level level(levels_);
  ETUDE_REQUIRE_CODE(
      kResourceExhausted, levels_ <= most_levels_,
      "{}: graph '{:.200}' runs in {} other graphs and functions, but at most {} "
      "levels are read. If the file is trusted, raise the limit by set_read_limits()",
      file_, graph.name, levels_ - 1, most_levels_);
  // Nodes that no result needs are looked through, too.
  const std::size_t names = graph.nodes.size() + graph.constants.size() + graph.outputs.size();
  ETUDE_REQUIRE_CODE(kResourceExhausted, budget_.has_steps(names / kNamesInStep),
                     "{}: graph '{:.200}': {}", file_, graph.name, kTooOften);
  const GraphFacts& known = facts(graph);
  const auto most_bytes = static_cast<int64_t>(std::min<uint64_t>(file_bytes_, kMaxCount));
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const FileNode& node = graph.nodes[i];
    if (known.is_needed[i] == 0) continue;
    const CallScope line(site_of(node, i));
    const auto formula = known.formulas.find(i);
    const GraphRef call = formula == known.formulas.end()
                              ? GraphRef()
                              : call_of(formula->second, graph, scope, opset_, most_bytes);
    if (call) {
      keep_results(formula->second.node, run_call(formula->second.node, *call, scope), scope);
      i += formula->second.count - 1;
    } else {
      keep_results(node, run_node(node, scope), scope);
    }
  }
  std::vector<Value> out;
  for (const FilePort& port : graph.outputs) {
    const Value* value = scope.find(port.name);
    ETUDE_REQUIRE(value != nullptr,
                  "{}: graph '{:.200}' has the output '{:.200}', which no node computes", file_,
                  graph.name, port.name);
    out.push_back(*value);
  }
  return out;
}

std::vector<Value> Importer::run_inner(const FileGraph& graph, const Scope& outer,
                                       std::vector<Value> inputs) {
  Scope scope(&outer);
  ETUDE_REQUIRE(inputs.size() == graph.inputs.size(),
                "{}: graph '{:.200}' takes {} inputs, but gets {}", file_, graph.name,
                graph.inputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    scope.add(graph.inputs[i].name, std::move(inputs[i]));
  }
  for (const FileConstant& constant : graph.constants) {
    ETUDE_REQUIRE_CODE(kUnimplemented, constant.refusal.empty(),
                       "{}: constant '{:.200}' cannot be imported: {}", file_, constant.name,
                       constant.refusal);
    scope.add(constant.name, {constant.value, {}, {}});
  }
  return run(graph, scope);
}

void Importer::check_attributes(const FileNode& node, const Import& row) const {
  const std::vector<std::string_view> known = words_of(row.attributes);
  for (const FileAttribute& attribute : node.attributes) {
    if (std::ranges::find(known, attribute.name) != known.end()) continue;
    throw NodeError(
        ErrorCode::kUnimplemented,
        fmt::format("{}: the attribute '{:.100}' is unknown. {} has: {}", title(node),
                    attribute.name, row.op,
                    known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
}

std::vector<Value> Importer::inputs_of(const FileNode& node, const Import& row,
                                       const Scope& scope) const {
  const std::vector<std::string_view> names = words_of(row.inputs);
  const bool is_open = !names.empty() && names.back().ends_with("...");
  if (!is_open && node.inputs.size() > names.size()) {
    throw NodeError(ErrorCode::kInvalidArgument,
                    fmt::format("{}: it has {} inputs, but {} has at most {} ({})", title(node),
                                node.inputs.size(), row.op, names.size(), row.inputs));
  }
  std::vector<Value> out;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    out.push_back(node.inputs[i].empty() ? Value() : value_of(node, i, scope));
  }
  return out;
}

const Value& Importer::value_of(const FileNode& node, std::size_t input, const Scope& scope) const {
  const Value* const value = scope.find(node.inputs[input]);
  if (value != nullptr) return *value;
  throw NodeError(ErrorCode::kInvalidArgument,
                  fmt::format("{}: its input '{:.200}' is no input and no constant of the graph, "
                              "and no earlier node computes it. Nodes come after the nodes that "
                              "they read, without a cycle",
                              title(node), node.inputs[input]));
}

std::vector<Value> Importer::run_node(const FileNode& node, const Scope& scope) {
  const FileFunction* const function = function_of(node);
  if (function != nullptr) return run_function(node, *function, scope);
  if (!node.domain.empty() && node.domain != "ai.onnx") {
    throw NodeError(
        ErrorCode::kUnimplemented,
        fmt::format(
            "{}: operators of the domain '{:.100}' are not imported, only those of ai.onnx and "
            "functions of the file. Export the model without them, or replace the node by nodes of "
            "ai.onnx",
            title(node), node.domain));
  }
  const Import* row = find_import(node.op);
  if (row == nullptr) {
    std::vector<std::string_view> names;
    for (const Import& each : all_imports()) names.push_back(each.op);
    throw NodeError(ErrorCode::kUnimplemented,
                    fmt::format("{}: there is no such operator in opset {} of ai.onnx. Similar "
                                "operators: {}",
                                title(node), opset_, nearest_listed(node.op, names)));
  }
  if (!row->refusal.empty()) {
    throw NodeError(ErrorCode::kUnimplemented, fmt::format("{}: {}", title(node), row->refusal));
  }
  const std::size_t names = node.inputs.size() + node.outputs.size() + node.attributes.size();
  need_steps(node, static_cast<int64_t>(1 + names / kNamesInStep));
  check_attributes(node, *row);
  return run_row(NodeCall(*this, node, *row, scope, inputs_of(node, *row, scope)));
}

std::vector<Value> Importer::run_call(const FileNode& node, const Graph& call, const Scope& scope) {
  static constexpr Import kRows[] = {
      {.op = "call", .inputs = "operands...", .convert = made_call},
      {.op = "call", .inputs = "operands...", .convert = made_call, .is_elementwise = true}};
  const Import& row = kRows[call.node(0).op.def().kind == Kind::kElementwise ? 1 : 0];
  need_steps(node, 1);
  return run_row(NodeCall(*this, node, row, scope, inputs_of(node, row, scope), &call));
}

std::vector<Value> Importer::run_row(const NodeCall& call) {
  try {
    return call.row().run != nullptr ? call.row().run(call) : converted(call);
  } catch (const NodeError&) {
    throw;
  } catch (const Error& error) {
    throw NodeError(error.code(), fmt::format("{}: {}", title(call.node()), error.text()));
  }
}

// Constants are computed at once; the first trace shows how much memory they need.
std::vector<Tensor> Importer::folded(const NodeCall& call) {
  const bool is_direct = call.row().kind != Import::Kind::kPlain;
  if (is_direct) {
    const BottomScope at_once(eager_context());
    std::vector<Tensor> out = call.row().convert(call);
    for (const Tensor& x : out) need_bytes(call, x.has_value() ? x.type()->bytes() : 0);
    return out;
  }
  std::vector<uint8_t> is_present;
  const GraphRef graph =
      etude::internal::make_graph(call.node().op, {}, [&](std::span<const Tensor>) {
        std::vector<Tensor> out;
        for (Tensor& x : call.row().convert(call)) {
          is_present.push_back(x.has_value() ? 1 : 0);
          if (x.has_value()) out.push_back(std::move(x));
        }
        return out;
      });
  int64_t bytes = 0;
  for (GraphValue v = 0; v < graph->value_count(); ++v) {
    const int64_t more = graph->type(v)->bytes();
    if (__builtin_add_overflow(bytes, std::max<int64_t>(more, 0), &bytes)) {
      bytes = std::numeric_limits<int64_t>::max();
    }
  }
  need_bytes(call, bytes);
  const BottomScope at_once(eager_context());
  std::vector<Tensor> results = interpret(*graph, std::span<const Tensor>());
  std::vector<Tensor> out;
  std::size_t next = 0;
  for (const uint8_t is : is_present) out.push_back(is != 0 ? results[next++] : Tensor());
  return out;
}

const Tensor* Importer::channels_last(const Tensor& x) const {
  const auto found = last_.find(x.ref());
  return found == last_.end() ? nullptr : &found->second.second;
}
void Importer::set_channels_last(const Tensor& x, const Tensor& last) {
  last_.insert_or_assign(x.ref(), std::pair(x, last));
}

const Tensor* Importer::operand_of(std::string_view op, const Tensor& made) const {
  const auto found = made_.find(made.ref());
  return found == made_.end() || found->second.op != op ? nullptr : &found->second.operand;
}
void Importer::set_operand(std::string_view op, const Tensor& made, const Tensor& operand) {
  made_.insert_or_assign(made.ref(), Made{op, made, operand});
}

// Operators of elements run on images with channels last, if all their images are known so.
std::vector<Value> Importer::in_channels_last(const NodeCall& call) {
  if (!call.row().is_elementwise) return {};
  int rank = 0;
  for (const Value& input : call.inputs()) {
    if (!input.traced.has_value() || channels_last(input.traced) == nullptr) continue;
    if (rank != 0 && rank != input.traced.type()->rank()) return {};
    rank = input.traced.type()->rank();
  }
  if (rank == 0) return {};
  std::vector<Value> moved = call.inputs();
  for (Value& input : moved) {
    if (!input.has_value()) continue;
    const Tensor& x = input.tensor();
    const Tensor* last = input.traced.has_value() ? channels_last(x) : nullptr;
    Tensor at = last != nullptr ? *last : x;
    if (last == nullptr && x.type()->rank() != 0) {
      if (!is_by_channel(x.type()->shape(), rank)) return {};
      at = reshape(x, {x.type()->count()});  // along the last axis
    }
    input = {{}, at};
  }
  const NodeCall on_last = call.with(std::move(moved));
  std::vector<Value> out;
  for (Tensor& y : call.row().convert(on_last)) out.push_back({{}, std::move(y)});
  return out;
}

std::vector<Value> Importer::constants(const NodeCall& call) {
  const bool records =
      has_open_sizes_ && call.row().kind == Import::Kind::kPlain && may_depend_on_sizes(call);
  std::vector<Value> inputs = call.inputs();
  for (Value& input : inputs) input.recorded = {};
  const NodeCall plain = call.with(std::move(inputs));
  std::vector<Value> out;
  for (Tensor& x : folded(plain)) out.push_back({std::move(x), {}});
  if (!records) return out;
  std::vector<Tensor> recorded = call.row().convert(call);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].recorded = std::move(recorded[i]);
  return out;
}

std::vector<Value> Importer::converted(const NodeCall& call) {
  const Import::Kind kind = call.row().kind;
  bool are_known = kind != Import::Kind::kRandom;
  std::vector<std::string> sources;
  for (const Value& input : call.inputs()) {
    are_known = are_known && !input.traced.has_value();
    add_inputs(sources, input.inputs);
  }
  if (kind == Import::Kind::kSizes) {
    for (std::size_t i = 0; i < call.count(); ++i) {
      if (call.has(i)) static_cast<void>(call.known(i));
    }
    are_known = true;
  }
  if (are_known || kind == Import::Kind::kFacts) return constants(call);
  std::vector<Value> out;
  for (Value& value : in_channels_last(call)) {
    const Tensor y = channels_first(call, value.traced);
    out.push_back({{}, y, sources});
  }
  if (!out.empty()) return out;
  for (Tensor& x : call.row().convert(call)) out.push_back({{}, std::move(x), sources});
  return out;
}

}  // namespace etude::onnx::importing
