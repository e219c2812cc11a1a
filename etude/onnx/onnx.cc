// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/onnx.h"

#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/context.h"
#include "etude/core/context/device_scope.h"
#include "etude/core/internal/host_door.h"
#include "etude/onnx/conversions.h"
#include "etude/onnx/emit.h"
#include "etude/onnx/formula.h"
#include "etude/onnx/sizes.h"
#include "etude/onnx/tidy.h"
#include "etude/onnx/write.h"
#include "etude/saved/source.h"
#include "etude/variables/init_scope.h"

namespace etude::onnx {
namespace {

using internal::GraphModel;
using internal::Value;
using internal::Writing;
using saved::internal::Source;
using saved::internal::SourceInput;

// The model of a graph, with the names of the source for its inputs and outputs.
GraphModel model_of(Writing& writing, const Source& source, const Graph& graph) {
  GraphModel out;
  out.name = source.function;
  std::vector<Value> names;
  for (std::size_t i = 0; i < source.inputs.size(); ++i) {
    const SourceInput& input = source.inputs[i];
    names.push_back(input.name);
    if (input.value.has_value()) {
      out.constants.push_back({input.name, to_dense(etude::internal::at_home(input.value))});
    } else if (!input.is_key) {
      out.inputs.push_back(internal::port_of(input.name, graph.inputs()[i].type));
    }
  }
  const std::vector<Value> results = internal::emit_graph(writing, out, graph, names);
  const Types types = graph.output_types();
  for (std::size_t i = 0; i < source.outputs.size(); ++i) {
    const std::string& name = source.outputs[i];
    out.outputs.push_back(internal::port_of(name, types[i]));
    out.nodes.push_back({"Identity", writing.fresh("Identity"), "", {results[i]}, {name}, {}});
  }
  return out;
}

// In a model, a result cannot have the name of an input.
void separate_names(Source& source) {
  std::set<std::string> used;
  for (const SourceInput& input : source.inputs) used.insert(input.name);
  for (std::string& name : source.outputs) name = saved::internal::unique_name(name, used);
}

// ONNX has dtypes for complex numbers, but almost no operator takes them, and runtimes load no such
// model.
void refuse_complex(const internal::GraphModel& graph) {
  const auto check = [](const char* kind, const std::string& name, DType dtype) {
    ETUDE_REQUIRE_CODE(kUnimplemented, !is_complex(dtype),
                       "{} '{}' is {}, and complex numbers have no form in ONNX. Export a function "
                       "of real(x) and imag(x)",
                       kind, name, etude::name(dtype));
  };
  for (const internal::Port& port : graph.inputs) check("input", port.name, port.dtype);
  for (const internal::Constant& each : graph.constants) {
    check("constant", each.name, each.value.dtype());
  }
}

}  // namespace

internal::Model internal::make_model(const saved::internal::Source& source,
                                     const SaveOptions& options) {
  Writing writing{.opset = options.opset};
  for (const SourceInput& input : source.inputs) writing.taken.insert(input.name);
  writing.taken.insert(source.outputs.begin(), source.outputs.end());
  std::vector<GraphModel> models;
  for (const GraphRef& graph : source.graphs) {
    writing.next = 0;  // so that all have the same names
    models.push_back(model_of(writing, source, *graph));
  }
  Model out{options.opset, {}, options.doc, {}};
  out.graph = models.size() == 1
                  ? std::move(models[0])
                  : with_open_sizes(writing, std::move(models), source.points, source.sizes);
  tidy(out.graph);
  refuse_complex(out.graph);
  write_formulas(out.graph);
  out.metadata = {{"etude.version", version()}, {"etude.function", source.function}};
  if (!source.made_for.empty()) out.metadata.emplace_back("etude.made_for", source.made_for);
  return out;
}

void save(const std::filesystem::path& file, const std::vector<saved::Entry>& entries,
          const SaveOptions& options, CallSite where) {
  etude::internal::located("onnx::save", where, [&] {
    etude::internal::check_options("onnx::save", options, where);
    const etude::internal::OutsideScope outside;
    Source source = saved::internal::source_of(entries, {.format = "a model of ONNX",
                                                         .function = options.function,
                                                         .graph = options.graph,
                                                         .training = options.training,
                                                         .open_sizes = options.open_sizes});
    separate_names(source);
    const BottomScope at_once(eager_context());
    const etude::internal::NoDeviceScope nowhere;
    internal::write_model(file, internal::make_model(source, options), options.external_bytes);
  });
}

void save(const std::filesystem::path& file, const saved::Bound& f, const SaveOptions& options,
          CallSite where) {
  const std::string name = saved::internal::entry_name(f.function.display);
  save(file, std::vector{saved::Entry(name, f)}, options, where);
}

void save(const std::filesystem::path& file, const saved::Function& f, const SaveOptions& options,
          CallSite where) {
  save(file, std::vector{saved::Entry(saved::internal::entry_name(f.name()), f)}, options, where);
}

void save(const std::filesystem::path& file, const saved::Program& program,
          const SaveOptions& options, CallSite where) {
  save(file, std::vector{saved::Entry("program", program)}, options, where);
}

}  // namespace etude::onnx
