// SPDX-License-Identifier: Apache-2.0
// Writes the reference pages as Markdown: `docgen FOLDER`. One page per namespace from the op
// records, and in FOLDER/kinds one per group of kinds.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "etude/core/op/registry.h"
#include "etude/kinds/kinds.h"
#include "tools/kind_text.h"
#include "tools/record_text.h"

namespace etude::tools {
namespace {

std::string list(std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string out = fmt::format("\n{}:\n\n", title);
  for (const std::string& line : lines) out += fmt::format("* `{}`\n", line);
  return out;
}

std::string section(const Op& op) {
  std::string out = fmt::format("\n## {}\n\n```\n{}\n```\n\n{} ({})\n", op.name(), signature(op),
                                op.def().doc, kind_name(op.def().kind));
  if (!op.def().symbol.empty()) out += fmt::format("\nOperator: `{}`.\n", op.def().symbol);
  out += list("Operands", operand_lines(op)) + list("Attributes", attr_lines(op));
  out += list("Per element", program_lines(op)) +
         list("Kept for a gradient, by operand", residual_lines(op));
  if (!op.def().no_derivative.empty())
    out += fmt::format("\nNo derivative: {}.\n", op.def().no_derivative);
  return out + list("Errors", error_lines(op));
}

std::string title_of(const std::string& space) {
  return space.empty() ? "etude" : "etude::" + space;
}
std::string file_of(const std::string& space) { return (space.empty() ? "array" : space) + ".md"; }

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  if (!out.flush()) throw std::runtime_error(file.string() + " cannot be written");
}

void write_pages(const std::filesystem::path& folder) {
  std::map<std::string, std::map<std::string, std::string>> sections;
  for (const Op* op : Registry::global().ops()) {
    if (op->def().space != "internal")
      sections[std::string(op->def().space)][std::string(op->name())] = section(*op);
  }
  std::filesystem::create_directories(folder);
  std::string index = "# Reference\n\n";
  for (const auto& [space, by_name] : sections) {
    std::string page = fmt::format("# {}\n", title_of(space));
    for (const auto& [name, text] : by_name) page += text;
    write(folder / file_of(space), page);
    index +=
        fmt::format("* [{}]({}): {} functions\n", title_of(space), file_of(space), by_name.size());
  }
  write(folder / "README.md", index);
}

// The names that C++ calls by `kinds::make`, with all options.
void write_kind_pages(const std::filesystem::path& folder) {
  std::map<std::string, std::string> pages;
  for (const kinds::Kind& kind : kinds::all()) {
    const std::string group(kinds::name(kind.group));
    std::string& page = pages[group];
    if (page.empty()) page = fmt::format("# Kinds of group {}\n", group);
    page += kind_section(kind);
  }
  std::filesystem::create_directories(folder);
  for (const auto& [group, page] : pages) write(folder / (group + ".md"), page);
}

}  // namespace

int run_program(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: docgen FOLDER\n");
    return 2;
  }
  try {
    write_pages(argv[1]);
    write_kind_pages(std::filesystem::path(argv[1]) / "kinds");
  } catch (const std::exception& error) {
    fmt::print(stderr, "docgen: {}\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace etude::tools

int main(int argc, char** argv) { return etude::tools::run_program(argc, argv); }
