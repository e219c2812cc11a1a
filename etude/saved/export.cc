// SPDX-License-Identifier: Apache-2.0
// Exported signatures: names for the inputs and results of a function, for servers.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/edit_distance.h"
#include "etude/base/warning.h"
#include "etude/saved/gather_function.h"

namespace etude::saved::internal {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A name of letters, digits and '_' that begins with a letter and is not among `used`.
std::string legal(const std::string& name, const std::string& otherwise,
                  std::set<std::string>& used) {
  std::string out;
  for (const char c : name) out += is_letter(c) || is_digit(c) ? c : '_';
  if (out.empty()) out = otherwise;
  if (!is_letter(out[0])) out = "_" + out;
  const std::string base = out;
  for (int n = 1; !used.insert(out).second; ++n) out = fmt::format("{}_{}", base, n);
  return out;
}

class Exporter {
 public:
  explicit Exporter(const SavedFunction& function) : function_(function) {}

  SavedExport make() {
    const SavedGraph& first = function_.graphs.front();
    std::set<std::string> used;
    for (const SavedTensor& x : first.tensors) {
      if (x.state >= 0) continue;
      out_.input_paths.push_back(x.path);
      out_.inputs.push_back(name(x.path, "input", used));
    }
    std::set<std::string> results;
    for (const SavedGraph& graph : function_.graphs) {
      SavedExport outputs;
      std::swap(outputs.outputs, out_.outputs);
      add_outputs(graph, results);
      results.clear();
      ETUDE_REQUIRE(outputs.outputs.empty() || outputs.outputs == out_.outputs,
                    "function '{}': its graphs return results with different names, so it has no "
                    "exported signature",
                    function_.name);
    }
    return std::move(out_);
  }

 private:
  std::string name(const std::string& path, const std::string& otherwise,
                   std::set<std::string>& used) {
    std::string made = legal(path, otherwise, used);
    if (made != path && !path.empty()) {
      etude::internal::warn_once(
          fmt::format("saved signature {} {}", function_.name, path),
          fmt::format(
              "saved::save: '{}' of function '{}' is called '{}' in its exported signature. "
              "Names have letters, digits and '_'",
              path, function_.name, made));
    }
    return made;
  }

  void add_outputs(const SavedGraph& graph, std::set<std::string>& used) {
    const Parts& parts = graph.result.parts;
    const Form::Kind kind = parts.form()->kind();
    const bool is_flat = kind == Form::Kind::kLeaf || kind == Form::Kind::kFields ||
                         kind == Form::Kind::kMap || kind == Form::Kind::kList;
    const auto is_leaf = [](const Form* part) { return part->kind() == Form::Kind::kLeaf; };
    ETUDE_REQUIRE(is_flat && std::ranges::all_of(parts.form()->parts(), is_leaf),
                  "function '{}' returns {}, but an exported signature has tensors with names: "
                  "return a tensor, a struct or a map of tensors",
                  function_.name, parts.form()->to_string());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const FormLeaf& leaf = parts.leaf(i);
      ETUDE_REQUIRE(
          leaf.kind == LeafKind::kTensor && graph.result.is_present[i] != 0,
          "function '{}' returns '{}', which is {}, but an exported signature has tensors "
          "only. Return tensors",
          function_.name, leaf.path, leaf.kind == LeafKind::kHost ? "a host value" : "no tensor");
      const std::string otherwise = "output";
      const bool is_list = kind == Form::Kind::kList;
      out_.outputs.push_back(is_list ? legal(fmt::format("output_{}", i), otherwise, used)
                                     : name(leaf.path, otherwise, used));
    }
  }

  const SavedFunction& function_;
  SavedExport out_;
};

}  // namespace

void export_signature(Content& to, const std::string& name) {
  const auto found = std::ranges::find(to.functions, name, &SavedFunction::name);
  if (found == to.functions.end()) {
    std::vector<std::string_view> names;
    for (const SavedFunction& each : to.functions) names.push_back(each.name);
    ETUDE_THROW(kInvalidArgument,
                "SaveOptions::signatures names '{}', but no function has this name. There are: {}",
                name, fmt::join(etude::internal::nearest_names(name, names, false), ", "));
  }
  ETUDE_REQUIRE(
      !found->graphs.empty(),
      "function '{}' has no graph, so it has no exported signature. Call it once before it "
      "is saved",
      name);
  found->exported = Exporter(*found).make();
}

}  // namespace etude::saved::internal
