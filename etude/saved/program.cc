// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/edit_distance.h"
#include "etude/core/call/call_scope.h"
#include "etude/saved/loaded.h"
#include "etude/saved/match.h"
#include "etude/saved/saved.h"
#include "etude/variables/assignment_undo.h"

namespace etude::saved {
namespace {

using etude::internal::located;
using internal::Content;
using internal::SavedAsset;
using internal::SavedFunction;
using internal::SavedObject;
using internal::SavedVariable;

[[noreturn]] void throw_unknown(const internal::Loaded& program, const char* what,
                                std::string_view name, const std::vector<std::string_view>& names) {
  const auto near = etude::internal::nearest_names(name, names, false);
  ETUDE_THROW(kNotFound, "the program '{}' has no {} '{}'. {}", program.folder.string(), what, name,
              near.empty() ? std::string("It has none")
                           : fmt::format("It has: {}{}", fmt::join(near, ", "),
                                         near.size() < names.size() ? ", ..." : ""));
}

template <class T>
const T& find(const internal::Loaded& program, const std::vector<T>& all, const char* what,
              std::string_view name) {
  const auto found = std::ranges::find(all, name, &T::name);
  if (found != all.end()) return *found;
  std::vector<std::string_view> names;
  for (const T& each : all) names.push_back(each.name);
  throw_unknown(program, what, name, names);
}

template <class T>
std::vector<std::string> names_of(const std::vector<T>& all) {
  std::vector<std::string> out;
  for (const T& each : all) out.push_back(each.name);
  return out;
}

std::string variable_text(const SavedVariable& v) {
  const Variable& variable = *v.variable;
  return fmt::format("{}: {}{}{}{}", fmt::join(v.paths, " = "), name(variable.dtype()),
                     variable.shape().to_string(), v.is_trainable ? "" : ", not trainable",
                     variable.initialized() ? "" : ", no value");
}

}  // namespace

Function Program::function(std::string_view name, CallSite where) const {
  return located("", where, [&] {
    const auto& all = loaded_->content.functions;
    const SavedFunction& found = find(*loaded_, all, "function", name);
    return Function(loaded_, static_cast<std::size_t>(&found - all.data()));
  });
}

std::vector<std::string> Program::functions() const { return names_of(loaded_->content.functions); }

Variable Program::variable(std::string_view path, CallSite where) const {
  return located("", where, [&] {
    std::vector<std::string_view> paths;
    for (const SavedVariable& v : loaded_->content.variables) {
      if (std::ranges::find(v.paths, path) != v.paths.end()) return *v.variable;
      paths.insert(paths.end(), v.paths.begin(), v.paths.end());
    }
    throw_unknown(*loaded_, "Variable", path, paths);
  });
}

std::vector<std::pair<std::string, Variable>> Program::variables() const {
  std::vector<std::pair<std::string, Variable>> out;
  for (const SavedVariable& v : loaded_->content.variables) {
    out.emplace_back(v.paths.front(), *v.variable);
  }
  return out;
}

Parts Program::object(std::string_view name, CallSite where) const {
  return located("", where,
                 [&] { return find(*loaded_, loaded_->content.objects, "object", name).parts; });
}

std::vector<std::string> Program::objects() const { return names_of(loaded_->content.objects); }

std::vector<ExportedSignature> Program::signatures() const {
  std::vector<ExportedSignature> out;
  for (const SavedFunction& function : loaded_->content.functions) {
    if (!function.exported) continue;
    out.push_back({function.name, function.exported->inputs, function.exported->input_paths,
                   function.exported->outputs});
  }
  return out;
}

std::filesystem::path Program::asset(std::string_view name, CallSite where) const {
  return located("", where,
                 [&] { return find(*loaded_, loaded_->content.assets, "asset", name).from; });
}

std::vector<std::string> Program::assets() const { return names_of(loaded_->content.assets); }

std::string Program::to_string() const {
  const Content& content = loaded_->content;
  std::string out;
  for (std::size_t i = 0; i < content.functions.size(); ++i) {
    const Function function(loaded_, i);
    out += fmt::format("function {}\n", function.name());
    if (content.functions[i].graphs.empty()) out += "  no graph: it had not been called\n";
    for (const GraphSignature& signature : function.signatures()) {
      std::vector<std::string> results;
      for (const Port& port : signature.outputs) results.push_back(port.name + ": " + port.type);
      out += fmt::format("  {} -> ({})\n", signature.to_string(), fmt::join(results, ", "));
      if (!signature.changed.empty()) {
        constexpr std::size_t kShown = 8;
        const std::size_t shown = std::min(kShown, signature.changed.size());
        out += fmt::format(
            "    changes {}",
            fmt::join(signature.changed.begin(),
                      signature.changed.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
        if (shown < signature.changed.size()) {
          out += fmt::format(" and {} more", signature.changed.size() - shown);
        }
        out += "\n";
      }
    }
    if (const auto& exported = content.functions[i].exported) {
      out += fmt::format("  exported: {} -> {}\n", fmt::join(exported->inputs, ", "),
                         fmt::join(exported->outputs, ", "));
    }
  }
  for (const SavedVariable& v : content.variables) {
    out += fmt::format("variable {}\n", variable_text(v));
  }
  for (const SavedObject& object : content.objects) {
    out += fmt::format("object {}: {}\n", object.name, object.parts.form()->to_string());
  }
  for (const SavedAsset& asset : content.assets) out += fmt::format("asset {}\n", asset.name);
  return out;
}

void internal::assign_all(const std::vector<Variable>& variables, const std::vector<Tensor>& values,
                          CallSite where) {
  etude::internal::AssignmentUndo undo;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    undo.before(variables[i]);
    variables[i].assign(Arg(values[i], where));
  }
  undo.keep();
}

}  // namespace etude::saved
