// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/sample_graphs.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "etude/base/philox.h"
#include "etude/core/internal/host_door.h"

namespace etude::tests {
namespace {

Values run_attribute(Operands in, const Attrs& attrs) {
  const auto& graph = dynamic_cast<const Graph&>(attrs.object("graph"));
  Values out;
  for (Tensor& y : interpret(graph, in)) out.push_back(std::move(y));
  return out;
}

Types types_of_attribute(const TypeCall& call) {
  return dynamic_cast<const Graph&>(call.attrs.object("graph")).output_types();
}

OpDef sample_def(std::string_view name, std::vector<AttrDef> attrs) {
  OpDef def;
  def.name = name;
  def.doc = "For tests of graphs.";
  def.kind = Kind::kComposition;
  def.attrs = std::move(attrs);
  return def;
}

const Type* matrix(int64_t rows, int64_t columns) { return intern_type(kFloat32, {rows, columns}); }

// Elements of all bytes 0x00, 0x01, ...: arbitrary bit patterns.
Tensor patterned(DType dtype, const Shape& shape, uint8_t first) {
  Tensor x = internal::make_tensor(intern_type(dtype, shape));
  auto* bytes = static_cast<uint8_t*>(etude::internal::host_elements_for_writing(x));
  for (int64_t i = 0; i < x.nbytes(); ++i) {
    const auto byte = static_cast<uint8_t>(first + 37 * i);
    bytes[i] = dtype == kBool ? byte & 1 : byte;
  }
  return x;
}

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t below(uint64_t n) { return philox({seed_, 17}, count_++)[0] % n; }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

// Element-wise ops of one or two operands, on float32 and without required attributes.
const std::vector<const Op*>& plain_ops() {
  static const std::vector<const Op*> ops = [] {
    std::vector<const Op*> out;
    for (const Op* op : Registry::global().ops()) {
      const OpDef& def = op->def();
      const bool fits =
          def.kind == Kind::kElementwise && op->is_uniform() && op->arity() <= 2 &&
          def.dtypes.contains(kFloat32) && def.result_dtype == ResultDType::kSame &&
          def.type == nullptr &&
          std::ranges::none_of(def.attrs, [](const AttrDef& a) { return a.required; });
      if (fits) out.push_back(op);
    }
    return out;
  }();
  return ops;
}

class RandomGraph {
 public:
  RandomGraph(uint64_t seed, int depth)
      : seed_(seed), depth_(depth), random_(seed), build_(random_.below(2) == 0 ? "f" : "g h") {}

  GraphRef make() {
    for (uint64_t i = 0; i < 2; ++i) values_.push_back(build_.add_input("x", matrix(2, 3)));
    if (random_.below(2) == 0) {
      values_.push_back(build_.add_input("c", matrix(2, 3), InputRole::kCapture));
    }
    const uint64_t nodes = random_.below(12);
    for (uint64_t i = 0; i < nodes; ++i) add();
    std::vector<Draft> outputs = {any(), any()};
    if (random_.below(3) == 0) outputs.push_back(GraphBuilder::kNoDraft);
    return build_.finish(outputs, random_.below(2) == 0);
  }

 private:
  Draft any() { return values_[random_.below(values_.size())]; }
  CallSite line() {
    if (random_.below(3) == 0) return {};
    return {build_.keep_text(fmt::format("dir/file {}.cc", random_.below(3))),
            static_cast<int>(random_.below(500)) + 1};
  }
  void add_call(const Op& op, const Attrs& attrs, const std::vector<Draft>& operands) {
    const Draft first = build_.add_node(op, attrs, operands, line());
    const Type* type = build_.type(first);
    if (type == matrix(2, 3)) values_.push_back(first);
  }

  void add() {
    switch (random_.below(6)) {
      case 0:
        values_.push_back(build_.add_constant(
            patterned(kFloat32, {2, 3}, static_cast<uint8_t>(random_.below(255)))));
        break;
      case 1:
        add_call(op("concat"), attrs_of(op("concat"), {{"axis", int64_t{0}}}),
                 {any(), any(), any()});
        break;
      case 2: {
        const Op& sum = op("sum");
        const auto axis = static_cast<int64_t>(random_.below(2));
        add_call(sum, attrs_of(sum, {{"axis", std::vector<int64_t>{axis}}, {"keepdims", true}}),
                 {any()});
        break;
      }
      case 3:
        if (depth_ > 0) {
          const GraphRef inner = random_graph(seed_ * 3 + random_.below(3), depth_ - 1);
          std::vector<Draft> operands(inner->inputs().size());
          std::ranges::generate(operands, [&] { return any(); });
          add_call(apply_op(),
                   attrs_of(apply_op(), {{"graph", internal::RefPtr<const AttrObject>(inner)}}),
                   operands);
          break;
        }
        [[fallthrough]];
      default: {
        const Op& op = *plain_ops()[random_.below(plain_ops().size())];
        std::vector<Draft> operands(op.arity());
        std::ranges::generate(operands, [&] { return any(); });
        add_call(op, op.default_attrs(), operands);
      }
    }
  }

  uint64_t seed_;
  int depth_;
  Random random_;
  GraphBuilder build_;
  std::vector<Draft> values_;
};

Draft add(GraphBuilder& build, std::string_view name, std::vector<Draft> operands,
          CallSite where = {}) {
  return build.add_node(op(name), op(name).default_attrs(), operands, where);
}

}  // namespace

const Op& apply_op() {
  static const Op& made = [&]() -> const Op& {
    OpDef def = sample_def("apply_sample", {{"graph", AttrKind::kGraph}});
    def.operands = {{"xs...", kAnyDType}};
    def.results = {"ys..."};
    def.type = types_of_attribute;
    def.lower = run_attribute;
    return Registry::global().define(std::move(def));
  }();
  return made;
}

const Op& attrs_op() {
  static const Op& made = [&]() -> const Op& {
    OpDef def = sample_def("attrs_sample", {{"flag", false},
                                            {"count", 3},
                                            {"scale", 0.5},
                                            {"mode", "same"},
                                            {"axes", AttrKind::kInts, none},
                                            {"kind", kFloat32},
                                            {"weights", AttrKind::kReals, none},
                                            {"program", AttrKind::kProgram, none}});
    def.space = "samples";
    def.operands = {"x", "bias?"};
    def.lower = [](Operands in, const Attrs&) { return Values{in[0]}; };
    return Registry::global().define(std::move(def));
  }();
  return made;
}

Attrs attrs_of(const Op& op, const std::vector<std::pair<std::string_view, AttrValue>>& values) {
  return op.attrs_by_name(values);
}

GraphRef layer_graph() {
  GraphBuilder build("layer");
  const Draft x = build.add_input("x", matrix(2, 3));
  const Draft w = build.add_input("layers[0]/w", matrix(3, 4));
  build.add_input("key", intern_type(kUInt64, {2}), InputRole::kKey);
  const Draft scale = build.add_input("scale", intern_type(kFloat32, {}), InputRole::kCapture);
  const Draft half = build.add_constant(Tensor(0.5F));
  const Draft y = add(build, "matmul", {x, w}, {"train.cc", 41});
  const Draft scaled = add(build, "multiply", {y, scale}, {"train.cc", 42});
  const Draft z = add(build, "tanh", {scaled}, {"train.cc", 42});
  return build.finish(std::array{add(build, "add", {z, half}, {"train.cc", 43})});
}

GraphRef nested_graph() {
  const auto applied = [](std::string name, const GraphRef& inner, int times) {
    GraphBuilder build(std::move(name));
    std::vector<Draft> inputs;
    for (const Graph::Input& input : inner->inputs()) {
      inputs.push_back(build.add_input(input.name, input.type));
    }
    const Attrs attrs =
        attrs_of(apply_op(), {{"graph", internal::RefPtr<const AttrObject>(inner)}});
    Draft y = build.add_node(apply_op(), attrs, inputs, {"model.cc", 7});
    for (int i = 1; i < times; ++i) y = add(build, "exp", {y});
    return build.finish(std::array{y});
  };
  const GraphRef layer = layer_graph();
  const GraphRef body = applied("body", layer, 2), other = applied("body", layer, 3);
  GraphBuilder build("main");
  std::vector<Draft> inputs;
  for (const Graph::Input& input : layer->inputs()) {
    inputs.push_back(build.add_input(input.name, input.type));
  }
  std::vector<Draft> outputs;
  for (const GraphRef& graph : {body, other, layer}) {
    const Attrs attrs =
        attrs_of(apply_op(), {{"graph", internal::RefPtr<const AttrObject>(graph)}});
    outputs.push_back(build.add_node(apply_op(), attrs, inputs, {"model.cc", 12}));
  }
  return build.finish(outputs);
}

GraphRef constants_graph() {
  GraphBuilder build("constants");
  std::vector<Draft> outputs;
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{2, 3}, Shape{1, 1, 1}, Shape{5, 7}}) {
      outputs.push_back(build.add_constant(patterned(dtype, shape, static_cast<uint8_t>(d * 16))));
    }
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  outputs.push_back(build.add_constant(
      Tensor(std::vector<float>{0.0F, -0.0F, kInfinity, -kInfinity, nan, -nan, 0.1F, 1e-45F})));
  return build.finish(outputs);
}

GraphRef names_graph() {
  GraphBuilder build("not a \"name\"\n");
  std::vector<Draft> inputs;
  for (const char* name : {"x", "x", "none", "a b", "x~2", "x", "na\xc3\xafve", "[0]", "a[0]"}) {
    inputs.push_back(build.add_input(name, matrix(2, 3)));
  }
  for (const InputRole role : {InputRole::kKey, InputRole::kVariable, InputRole::kCapture}) {
    for (int i = 0; i < 2; ++i) inputs.push_back(build.add_input("x", matrix(2, 3), role));
  }
  std::vector<Draft> outputs = {GraphBuilder::kNoDraft};
  for (const Draft x : inputs) {
    const std::array operands = {x, GraphBuilder::kNoDraft};
    const CallSite where{build.keep_text("a file\n\".cc:7"), 8};
    outputs.push_back(build.add_node(attrs_op(), attrs_op().default_attrs(), operands, where));
  }
  return build.finish(outputs);
}

GraphRef random_graph(uint64_t seed, int depth) { return RandomGraph(seed, depth).make(); }

std::vector<GraphRef> sample_graphs() {
  std::vector<GraphRef> out = {layer_graph(), nested_graph(), constants_graph(), names_graph(),
                               GraphBuilder("empty").finish({})};
  for (uint64_t seed = 0; seed < 40; ++seed) out.push_back(random_graph(seed));
  return out;
}

}  // namespace etude::tests
