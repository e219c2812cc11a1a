// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/convert_weights.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/base/edit_distance.h"
#include "etude/saved/loaded.h"
#include "etude/variables/open_shape.h"
#include "tools/etude/name_text.h"

namespace etude::tools {
namespace {

using saved::internal::Content;
using saved::internal::SavedVariable;

std::vector<const SavedVariable*> variables_of(const saved::Program& program,
                                               const std::string& function) {
  const Content& content = saved::internal::ProgramAccess::content_of(program);
  std::vector<const SavedVariable*> out;
  for (const SavedVariable& v : content.variables) out.push_back(&v);
  if (function.empty()) return out;
  const std::vector<Variable> used = program.function(function, CallSite{}).variables();
  std::erase_if(out, [&](const SavedVariable* v) {
    return std::ranges::find(used, v->variable->ref(), &Variable::ref) == used.end();
  });
  return out;
}

// The name of the tensor for a Variable: one of its paths; "" if there is none.
std::string name_in(const io::NamedTensors& tensors, const SavedVariable& v,
                    const std::string& from) {
  std::string name;
  for (const std::string& path : v.paths) {
    if (!tensors.contains(path)) continue;
    ETUDE_REQUIRE(name.empty(),
                  "{} has tensors '{}' and '{}', which are one Variable. Leave one of them out",
                  from, shown(name), shown(path));
    name = path;
  }
  return name;
}

void require_known(const io::NamedTensors& tensors, const std::vector<std::string>& names,
                   const std::string& from, const std::string& to) {
  if (tensors.empty()) return;
  std::vector<std::string> unknown;
  for (const auto& entry : tensors) unknown.push_back(entry.first);
  const std::vector<std::string_view> all(names.begin(), names.end());
  const auto nearest = [&] {
    const auto found = internal::nearest_names(unknown[0], all, false);
    return shown(std::vector<std::string>(found.begin(), found.end()));
  };
  ETUDE_THROW(kInvalidArgument, "{} has {}, which {} no state of {}. The nearest: {}", from,
              listed(unknown), unknown.size() == 1 ? "is" : "are", to,
              all.empty() ? "there is no state" : nearest());
}

void require_fit(const Variable& variable, const SavedVariable& v, const Tensor& x,
                 const std::string& name, const std::string& from, const std::string& to) {
  // Declared sizes, where kAny may change; otherwise the sizes of the value.
  const Shape shape = v.shape ? *v.shape : variable.shape();
  const bool fits = x.dtype() == variable.dtype() && internal::admits(shape, x.shape());
  ETUDE_REQUIRE(fits, "'{}' is {} in {}, but {}{} in {}", shown(name), x.type()->to_string(), from,
                etude::name(variable.dtype()), shape.to_string(), to);
}

}  // namespace

io::NamedTensors state_of(const saved::Program& program, const std::string& function) {
  io::NamedTensors out;
  for (const SavedVariable* v : variables_of(program, function)) {
    if (v->variable->initialized()) out.emplace(v->paths.front(), v->variable->read(CallSite{}));
  }
  return out;
}

void set_state(const saved::Program& program, const std::string& function, io::NamedTensors tensors,
               bool is_partial, const std::string& from, const std::string& to) {
  std::vector<std::pair<Variable, Tensor>> found;
  std::vector<std::string> missing, names;
  for (const SavedVariable* v : variables_of(program, function)) {
    names.push_back(v->paths.front());
    const std::string name = name_in(tensors, *v, from);
    if (name.empty()) {
      if (v->variable->initialized()) missing.push_back(v->paths.front());
      continue;
    }
    const auto at = tensors.find(name);
    require_fit(*v->variable, *v, at->second, name, from, to);
    found.emplace_back(*v->variable, std::move(at->second));
    tensors.erase(at);
  }
  require_known(tensors, names, from, to);
  ETUDE_REQUIRE(is_partial || missing.empty(),
                "{} has no tensor for {}, which {} state of {}. Give --partial to keep the values "
                "that are missing{}",
                from, listed(missing), missing.size() == 1 ? "is" : "are", to,
                function.empty() ? ", or --function for the state of one function" : "");
  for (const auto& [variable, value] : found) variable.assign(Arg(value, CallSite{}));
}

}  // namespace etude::tools
