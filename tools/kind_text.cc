// SPDX-License-Identifier: Apache-2.0
#include "tools/kind_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace etude::tools {
namespace {

using kinds::Kind;
using kinds::Parameter;

// A cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

std::string default_text(const Parameter& parameter) {
  return parameter.is_required ? "" : parameter.default_value.to_string();
}

}  // namespace

std::vector<std::string> parameter_lines(const Kind& kind) {
  std::vector<std::string> lines;
  for (const Parameter& parameter : kind.parameters) {
    std::string line = parameter.name + ": " + parameter.type.to_string();
    if (!parameter.is_required) line += " = " + default_text(parameter);
    if (parameter.range) line += ", " + parameter.range_text();
    if (!parameter.doc.empty()) line += fmt::format(": {}", parameter.doc);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string kind_section(const Kind& kind) {
  std::string out = fmt::format("\n## {}\n\n{}\n", kind.name, cell(kind.doc));
  if (kind.parameters.empty()) return out;
  out += "\n| parameter | type | default | range | |\n| --- | --- | --- | --- | --- |\n";
  for (std::size_t i = 0; i < kind.parameters.size(); ++i) {
    const Parameter& parameter = kind.parameters[i];
    const std::string value = default_text(parameter);
    out += fmt::format("| `{}`{} | {} | {} | {} | {} |\n", parameter.name,
                       i < kind.positional ? "" : " (option)", cell(parameter.type.to_string()),
                       value.empty() ? "" : fmt::format("`{}`", value), parameter.range_text(),
                       cell(parameter.doc));
  }
  return out;
}

std::string kinds_as_json() {
  using Json = nlohmann::ordered_json;
  Json out = Json::array();
  for (const Kind& kind : kinds::all()) {
    Json parameters = Json::array();
    for (const Parameter& parameter : kind.parameters) {
      Json one = {{"name", parameter.name}, {"type", parameter.type.to_string()}};
      if (!parameter.is_required) one["default"] = default_text(parameter);
      if (parameter.range) one["range"] = parameter.range_text();
      if (!parameter.doc.empty()) one["doc"] = parameter.doc;
      parameters.push_back(std::move(one));
    }
    out.push_back({{"name", kind.name},
                   {"group", kinds::name(kind.group)},
                   {"doc", kind.doc},
                   {"positional", kind.positional},
                   {"parameters", std::move(parameters)}});
  }
  return out.dump(1);
}

}  // namespace etude::tools
