// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/kinds_command.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/kinds/kinds.h"
#include "tools/kind_text.h"

namespace etude::tools {
namespace {

struct KindsOptions {
  std::vector<std::string> names;
  std::string group;
  bool json = false, names_only = false;
};

void show(const kinds::Kind& kind) {
  fmt::print("{}\n{}: {}\n", kind.signature(), kinds::name(kind.group), kind.doc);
  for (const std::string& line : parameter_lines(kind)) fmt::print("  {}\n", line);
}

// The first sentence.
std::string_view summary(std::string_view doc) {
  const std::size_t end = doc.find(". ");
  return end == std::string_view::npos ? doc : doc.substr(0, end + 1);
}

void list(const KindsOptions& options) {
  bool is_group = options.group.empty();
  for (const kinds::Kind& kind : kinds::all()) {
    const std::string_view group = kinds::name(kind.group);
    if (!options.group.empty() && options.group != group) continue;
    is_group = true;
    if (options.names_only)
      fmt::print("{}\n", kind.name);
    else
      fmt::print("{:<36} {:<12} {}\n", kind.name, group, summary(kind.doc));
  }
  ETUDE_REQUIRE(is_group, "there is no group '{}' of kinds; groups are in the list of all kinds",
                options.group);
}

void run(const KindsOptions& options) {
  if (options.json) {
    fmt::print("{}\n", kinds_as_json());
  } else if (options.names.empty()) {
    list(options);
  }
  for (const std::string& name : options.names) {
    if (&name != &options.names.front()) fmt::print("\n");
    show(kinds::at(name));
  }
}

}  // namespace

void add_kinds_command(CLI::App& app) {
  const auto options = std::make_shared<KindsOptions>();
  CLI::App* sub = app.add_subcommand("kinds", "layers, optimisers, losses, ... and their options");
  sub->add_option("NAME", options->names, "kinds to show, such as nn.Dense; none: lists all");
  sub->add_option("--group", options->group, "lists one group, such as layer or optimizer");
  sub->add_flag("--names", options->names_only, "names only");
  sub->add_flag("--json", options->json, "all kinds with their parameters as JSON");
  sub->callback([options] { run(*options); });
}

}  // namespace etude::tools
