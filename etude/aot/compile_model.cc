// SPDX-License-Identifier: Apache-2.0
#include "etude/aot/compile_model.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <dlfcn.h>

#include "etude/aot/blocks.h"
#include "etude/aot/image.h"
#include "etude/aot/link_model.h"
#include "etude/aot/model.h"
#include "etude/aot/unroll.h"
#include "etude/base/check.h"
#include "etude/codegen/kept_code.h"
#include "etude/codegen/load_object.h"
#include "etude/codegen/request.h"
#include "etude/codegen/worker.h"
#include "etude/core/call/located.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/files/file_reader.h"
#include "etude/graph/binary.h"
#include "etude/kernels/cpu/elementwise/fused_program.h"
#include "etude/passes/graph_copy.h"
#include "etude/plan/plan.h"

namespace etude::aot {
namespace {

namespace fs = std::filesystem;
using internal::PlanLayout;

// Of our kernels, and of those parts of libstdc++ that they use.
std::vector<std::string> archive_files(Machine machine) {
  if (machine == Machine::kArm64) return {"libetude_aot_arm64.a", "libetude_aot_cxx_arm64.a"};
  return {"libetude_aot.a", "libetude_aot_cxx.a"};
}

fs::path find_archive(const std::string& file) {
  std::vector<fs::path> places;
  const auto add = [&](const fs::path& module) {
    std::error_code failed;
    const fs::path whole = fs::canonical(module, failed);
    if (failed) return;
    const fs::path folder = whole.parent_path();
    for (const fs::path& place : {folder, folder.parent_path() / "lib", folder.parent_path()}) {
      places.push_back(place / file);
    }
  };
  Dl_info info;
  if (::dladdr(reinterpret_cast<const void*>(&codegen::find_compiler), &info) != 0 &&
      info.dli_fname != nullptr) {
    add(info.dli_fname);
  }
  add("/proc/self/exe");
  for (const fs::path& place : places) {
    std::error_code failed;
    if (fs::exists(place, failed)) return place;
  }
  ETUDE_THROW(kNotFound,
              "the archive of kernels {} was not found next to the program or in its folder lib. "
              "Build the target etude_aot_archive (for 64-bit Arm: etude_aot_arm64, which needs "
              "g++-aarch64-linux-gnu), or install Etude",
              file);
}

std::vector<std::string> isas_above(internal::Isa isa) {
  std::vector<std::string> out;
  for (const internal::Isa each : {internal::Isa::kAvx2, internal::Isa::kAvx512}) {
    if (each > isa) out.emplace_back(internal::name(each));
  }
  return out;
}

void require_name(const std::string& name) {
  const auto is_letter = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  };
  ETUDE_REQUIRE(!name.empty() && std::ranges::all_of(name, is_letter) &&
                    std::isdigit(static_cast<unsigned char>(name[0])) == 0,
                "a model cannot be called '{}': C takes letters, digits and _ with no digit in "
                "front. Use --name",
                name);
}

// The bytes of a value as they lie in memory.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

Home home_of(PlanLayout::Home home) {
  switch (home) {
    case PlanLayout::Home::kInput:
      return Home::kInput;
    case PlanLayout::Home::kConstant:
      return Home::kConstant;
    case PlanLayout::Home::kArena:
      return Home::kScratch;
    case PlanLayout::Home::kMade:
      return Home::kOutput;
    case PlanLayout::Home::kNone:
      break;
  }
  return Home::kNone;
}

}  // namespace

bool runs_graphs(const Attrs& attrs) {
  const auto is_graph = [](const auto& object) {
    return dynamic_cast<const Graph*>(object.get()) != nullptr;
  };
  using Object = internal::RefPtr<const AttrObject>;
  return std::ranges::any_of(attrs.values(), [&](const AttrValue& value) {
    if (const auto* one = std::get_if<Object>(&value)) return is_graph(*one);
    const auto* all = std::get_if<std::vector<Object>>(&value);
    return all != nullptr && std::ranges::any_of(*all, is_graph);
  });
}

struct KernelArchives::Content {
  Machine machine = Machine::kThis;
  std::list<internal::FileBytes> files;
  std::list<std::vector<ObjectFile>> archives;
};

KernelArchives::KernelArchives(Machine machine) {
  auto content = std::make_unique<Content>();
  content->machine = machine;
  for (const std::string& file : archive_files(machine)) {
    const fs::path path = find_archive(file);
    const auto bytes = content->files.emplace_back(path.string()).bytes();
    content->archives.push_back(
        read_archive(path.string(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  content_ = std::move(content);
}
KernelArchives::~KernelArchives() = default;

struct ModelCompiler::State {
  explicit State(const KernelArchives::Content& content)
      : machine(content.machine),
        linker(pointers(content), isas_above(internal::best_isa())),
        image(linker, [this](uintptr_t address, const ProgramSymbol& symbol) {
          return function(address, symbol);
        }) {}

  static std::vector<const std::vector<ObjectFile>*> pointers(
      const KernelArchives::Content& content) {
    std::vector<const std::vector<ObjectFile>*> out;
    for (const auto& archive : content.archives) out.push_back(&archive);
    return out;
  }

  // Of the archives by its name, or generated.
  LinkTarget function(uintptr_t address, const ProgramSymbol& symbol) {
    if (const auto known = functions.find(address); known != functions.end()) return known->second;
    LinkTarget out;
    if (const auto code = codegen::kept_code(reinterpret_cast<const void*>(address))) {
      out = generated(*code);
    } else if (symbol.is_function && symbol.begin == address) {
      out = linker.find(symbol.name, symbol.source);
    }
    if (out.is_known()) functions[address] = out;
    return out;
  }

  LinkTarget generated(const codegen::KeptCode& code) {
    std::string& bytes = texts.emplace_back(code.object);
    if (machine == Machine::kArm64) {
      codegen::Request request = code.request;
      request.product = codegen::Product::kArm64Object;
      bytes = codegen::Worker::of_process().make(request);
    }
    const ObjectFile& object = objects.emplace_back("generated code", bytes);
    std::map<std::string, LinkTarget, std::less<>> imports;
    for (const ObjectFile::Symbol& each : object.symbols()) {
      if (each.is_defined() || each.name.empty() || !each.name.starts_with("etude_")) continue;
      const auto address = reinterpret_cast<uintptr_t>(codegen::imported_function(each.name));
      const LinkTarget to = function(address, symbol_at(address));
      ETUDE_CHECK(to.is_known(), "generated code calls {}, which is not in the archive", each.name);
      imports.emplace(each.name, to);
    }
    return linker.add_object(object, codegen::kKernelName, imports);
  }

  // Shows a function of the archive by another name.
  void show(const std::string& name, const char* function) {
    const LinkTarget found = linker.find(function, "");
    ETUDE_CHECK(found.is_known(), "the archive of kernels has no {}", function);
    linker.show(name, found, true);
  }

  // All of it or nothing.
  LinkTarget add(const PlanLayout& plan, const PlanLayout& twin, ModelFacts& facts);

  Machine machine;
  ModelLinker linker;
  Image image;
  std::map<uintptr_t, LinkTarget> functions;
  std::list<std::string> texts;
  std::list<ObjectFile> objects;
  std::vector<internal::RefPtr<const internal::Plan>> plans;  // images refer to their parameters
  std::vector<GraphRef> graphs;
};

namespace {

// Writes one model as data.
class ModelWriter {
 public:
  // For two plans of one graph: images compare their parameters (image.h).
  ModelWriter(ModelLinker& linker, Image& image, const PlanLayout& plan, const PlanLayout& twin)
      : linker_(linker), image_(image), plan_(plan), twin_(twin) {}

  LinkTarget write(ModelFacts& facts) {
    place_made();
    add_steps();
    add_outputs(facts);
    for (const Graph::Input& input : plan_.graph->inputs()) {
      facts.inputs.push_back({input.name, input.type});
      input_bytes_.push_back(static_cast<uint64_t>(input.type->bytes()));
    }
    model_.step_count = steps_.size();
    model_.copy_count = copies_.size();
    model_.scratch_bytes = scratch_;
    model_.inputs = input_bytes_.size();
    model_.outputs = output_bytes_.size();
    model_.isa = facts.isa = internal::best_isa();
    model_.flushes_denormals = denormals() == Denormals::kFlush;
    facts.scratch_bytes = whole_scratch_bytes(model_);
    return write_model();
  }

 private:
  // Tensors that a run makes are outputs, or are in scratch memory after the arena.
  void place_made() {
    scratch_ = static_cast<uint64_t>((plan_.arena_bytes + 63) / 64 * 64);
    std::vector<std::optional<uint32_t>> output(plan_.made.size());
    uint32_t count = 0;
    for (const PlanLayout::Output& each : plan_.outputs) {
      if (each.type == nullptr) continue;
      if (each.is_whole) output[each.place.index] = count;
      ++count;
    }
    for (std::size_t m = 0; m < plan_.made.size(); ++m) {
      if (output[m]) {
        made_.push_back({Home::kOutput, *output[m], 0});
        continue;
      }
      made_.push_back({Home::kScratch, 0, static_cast<int64_t>(scratch_)});
      scratch_ += static_cast<uint64_t>((plan_.made[m]->bytes() + 63) / 64 * 64);
    }
  }

  ModelPlace place(const PlanLayout::Place& from) const {
    if (from.home != PlanLayout::Home::kMade) {
      return {home_of(from.home), from.index, from.offset};
    }
    ModelPlace out = made_[from.index];
    out.offset += from.offset;
    return out;
  }

  bool is_nothing(const Graph::Node& node) const {
    for (uint32_t r = 0; r < node.results; ++r) {
      if (plan_.graph->type(node.first_result + r)->bytes() > 0) return false;
    }
    return true;
  }

  void add_steps() {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      const PlanLayout::Step& step = plan_.steps[i];
      const Graph::Node node = plan_.graph->node(step.node);
      internal::located(node.op, node.where, [&] {
        ETUDE_REQUIRE_CODE(kUnimplemented, !internal::has_effects(node.op, node.attrs),
                           "has an effect outside of its graph, which a model that is compiled "
                           "ahead of time has not. Leave the call out of the graph");
        ETUDE_REQUIRE_CODE(kUnimplemented, !runs_graphs(node.attrs),
                           "runs graphs of its own, which a model that is compiled ahead of time "
                           "does not. Leave the call out of the graph, or unroll it");
        if (!is_nothing(node)) add_step(step, twin_.steps[i].params, node);
      });
    }
  }

  void add_step(const PlanLayout::Step& step, const void* twin, const Graph::Node& node) {
    Links links;
    try {
      if (step.params != nullptr) links.params = image_.add(step.params, twin);
      links.run = image_.function_at(reinterpret_cast<uintptr_t>(step.run));
      linker_.take_all();
    } catch (const Error& error) {
      ETUDE_REQUIRE_CODE(kUnimplemented, error.code() != ErrorCode::kUnimplemented,
                         "its kernel cannot be compiled ahead of time: {}. Leave the call out of "
                         "the graph, or run the graph with Etude",
                         error.what());
      throw;
    }
    ModelStep to;
    to.first_place = static_cast<uint32_t>(places_.size());
    to.results = static_cast<uint32_t>(step.results.size());
    to.operands = static_cast<uint32_t>(step.operands.size());
    to.name = name_of(node);
    for (const auto& each : step.results) places_.push_back(place(each));
    for (const auto& each : step.operands) places_.push_back(place(each));
    model_.most_places = std::max<uint64_t>(model_.most_places, to.results + to.operands);
    steps_.push_back(to);
    links_.push_back(links);
  }

  uint32_t name_of(const Graph::Node& node) {
    names_.push_back(node.where.known() ? fmt::format("{} at {}:{}", node.op.name(),
                                                      node.where.file, node.where.line)
                                        : std::string(node.op.name()));
    return static_cast<uint32_t>(names_.size() - 1);
  }

  void add_outputs(ModelFacts& facts) {
    for (const PlanLayout::Output& each : plan_.outputs) {
      if (each.type == nullptr) continue;
      const auto number = static_cast<uint32_t>(facts.outputs.size());
      facts.outputs.push_back({fmt::format("y{}", number), each.type});
      output_bytes_.push_back(static_cast<uint64_t>(each.type->bytes()));
      if (each.is_whole || each.type->bytes() == 0) continue;
      copies_.push_back({number, static_cast<uint32_t>(places_.size()), output_bytes_.back()});
      places_.push_back(place(each.place));
    }
    if (facts.outputs.size() == 1) facts.outputs[0].name = std::string(1, 'y');
  }

  template <class T>
  void point_to(std::size_t field, const std::vector<T>& values, LinkTarget model) {
    if (values.empty()) return;
    const LinkTarget data = linker_.add_data(".rodata", bytes_of(values), alignof(T), false);
    linker_.point({model.section, model.offset + field}, data);
  }

  LinkTarget write_steps() {
    const LinkTarget out = linker_.add_data(".data.rel.ro", bytes_of(steps_), 16, true);
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const uint64_t at = out.offset + i * sizeof(ModelStep);
      linker_.point({out.section, at + offsetof(ModelStep, run)}, links_[i].run);
      if (links_[i].params.is_known()) {
        linker_.point({out.section, at + offsetof(ModelStep, params)}, links_[i].params);
      }
    }
    return out;
  }

  LinkTarget write_pointers(const std::vector<LinkTarget>& targets) {
    const LinkTarget out = linker_.add_data(
        ".data.rel.ro", std::string(targets.size() * sizeof(void*), '\0'), 16, true);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      linker_.point({out.section, out.offset + i * sizeof(void*)}, targets[i]);
    }
    return out;
  }

  LinkTarget write_constants() {
    std::vector<LinkTarget> targets;
    for (const Tensor& constant : plan_.graph->constants()) {
      const auto count = static_cast<std::size_t>(constant.type()->bytes());
      std::string bytes(static_cast<const char*>(TensorAccess::data(constant)), count);
      targets.push_back(linker_.add_data(".rodata", bytes, 64, false));
    }
    return write_pointers(targets);
  }

  LinkTarget write_names() {
    std::string all;
    std::vector<LinkTarget> targets;
    for (const std::string& name : names_) {
      targets.push_back({0, all.size()});
      all.append(name).push_back('\0');
    }
    const LinkTarget texts = linker_.add_data(".rodata", all, 1, false);
    for (LinkTarget& each : targets) each = {texts.section, texts.offset + each.offset};
    return write_pointers(targets);
  }

  LinkTarget write_model() {
    const LinkTarget out =
        linker_.add_data(".data.rel.ro", bytes_of(std::vector<Model>{model_}), 16, true);
    const auto point = [&](std::size_t field, LinkTarget to) {
      linker_.point({out.section, out.offset + field}, to);
    };
    point(offsetof(Model, steps), write_steps());
    point(offsetof(Model, constants), write_constants());
    point(offsetof(Model, names), write_names());
    point_to(offsetof(Model, places), places_, out);
    point_to(offsetof(Model, copies), copies_, out);
    point_to(offsetof(Model, input_bytes), input_bytes_, out);
    point_to(offsetof(Model, output_bytes), output_bytes_, out);
    return out;
  }

  struct Links {
    LinkTarget run, params;
  };

  ModelLinker& linker_;
  Image& image_;
  const PlanLayout& plan_;
  const PlanLayout& twin_;
  Model model_;
  uint64_t scratch_ = 0;
  std::vector<ModelPlace> made_, places_;
  std::vector<ModelStep> steps_;
  std::vector<Links> links_;
  std::vector<ModelCopy> copies_;
  std::vector<std::string> names_;
  std::vector<uint64_t> input_bytes_, output_bytes_;
};

}  // namespace

LinkTarget ModelCompiler::State::add(const PlanLayout& plan, const PlanLayout& twin,
                                     ModelFacts& facts) {
  const ModelLinker::Mark mark = linker.mark();
  image.forget();
  try {
    return ModelWriter(linker, image, plan, twin).write(facts);
  } catch (const Error&) {
    linker.return_to(mark);
    std::erase_if(functions, [&](const auto& each) { return mark.is_behind(each.second); });
    throw;
  }
}

ModelCompiler::ModelCompiler(const KernelArchives& archives)
    : state_(std::make_unique<State>(*archives.content_)) {
  ETUDE_REQUIRE_CODE(kFailedPrecondition, are_blocks_recorded(),
                     "compiling ahead of time needs a program that records its memory. Use the "
                     "program etude");
  const std::string why = codegen::Worker::of_process().why_absent();
  ETUDE_REQUIRE_CODE(kUnimplemented, why.empty(), "nothing is compiled ahead of time: {}", why);
  ETUDE_REQUIRE_CODE(
      kFailedPrecondition,
      state_->machine == Machine::kThis || internal::best_isa() == internal::Isa::kPortable,
      "models for 64-bit Arm are made of portable kernels, but this process uses "
      "{}. Set ETUDE_ISA=portable",
      internal::name(internal::best_isa()));
  codegen::keep_code();
}
ModelCompiler::~ModelCompiler() = default;

ModelFacts ModelCompiler::add(const std::string& name, const Graph& graph) {
  require_name(name);
  // A graph keeps its plan, which was made for other kernels.
  const std::string bytes = to_binary(*unrolled(graph));
  std::vector<PlanLayout> layouts;
  for (int i = 0; i < 2; ++i) {
    const kernels::cpu::CodeScope code;
    std::optional<TwinScope> twin;
    if (i == 1) twin.emplace();
    state_->graphs.push_back(read_binary(bytes));
    state_->plans.push_back(internal::Plan::of(*state_->graphs.back()));
    layouts.push_back(state_->plans.back()->layout());
  }
  ModelFacts facts;
  facts.name = name;
  facts.machine = state_->machine;
  facts.graph = graph.name();
  const LinkTarget model = state_->add(layouts[0], layouts[1], facts);
  state_->linker.show(fmt::format("{}_run", name),
                      state_->linker.copy(kRunName, {{kModelName, model}}), true);
  state_->show(fmt::format("{}_error", name), kErrorName);
  state_->linker.take_all();
  return facts;
}

void ModelCompiler::add_choice(const std::string& name) {
  require_name(name);
  state_->show(fmt::format("{}_error", name), kErrorName);
  state_->show(fmt::format("{}_refuse_size", name), kRefuseSizeName);
  state_->linker.take_all();
}

std::string ModelCompiler::finish() { return state_->linker.finish(); }

}  // namespace etude::aot
