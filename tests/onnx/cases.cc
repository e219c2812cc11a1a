// SPDX-License-Identifier: Apache-2.0
#include "tests/onnx/cases.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <fmt/format.h>

namespace etude::onnx_cases {

std::filesystem::path Cases::file(const std::string& label) {
  labels_.push_back(label);
  runs_.emplace_back();
  return file_of(labels_.size() - 1);
}

std::filesystem::path Cases::file_of(std::size_t i) const {
  return folder_ / fmt::format("{}{}", i, form_.extension);
}

void Cases::add(const std::vector<Run>& runs) {
  const std::size_t number = labels_.size() - 1;
  runs_[number] = runs;
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const auto listed = [&](const io::NamedTensors& tensors, const char* kind) {
      std::vector<std::string> out;
      for (const auto& [name, x] : tensors) {
        const std::string key = fmt::format("{}/{}/{}/{}", number, r, kind, name);
        tensors_[key] = x;
        out.push_back(fmt::format("\"{}\": \"{}\"", name, key));
      }
      return fmt::format("{{{}}}", fmt::join(out, ", "));
    };
    texts.push_back(fmt::format("{{\"inputs\": {}, \"results\": {}}}", listed(runs[r].inputs, "in"),
                                listed(runs[r].results, "out")));
  }
  texts_.push_back(fmt::format("{{\"label\": \"{}\", \"model\": \"{}{}\", \"runs\": [{}]}}",
                               labels_[number], number, form_.extension, fmt::join(texts, ", ")));
}

void Cases::write() const {
  std::ofstream(folder_ / "cases.json") << fmt::format("[{}]\n", fmt::join(texts_, ",\n"));
  io::save_safetensors(folder_ / "tensors.safetensors", tensors_);
}

int check_list(const std::filesystem::path& list, std::string_view head,
               const std::vector<std::string>& lines, std::string_view advice) {
  const std::string text = fmt::format("{}{}\n", head, fmt::join(lines, "\n"));
  if (std::getenv("ETUDE_UPDATE") != nullptr) {
    std::ofstream(list) << text;
    return 0;
  }
  std::ifstream in(list);
  const std::string known{std::istreambuf_iterator<char>(in), {}};
  if (known == text) return 0;
  std::istringstream old(known);
  std::vector<std::string> before;
  for (std::string line; std::getline(old, line);) before.push_back(line);
  for (const std::string& line : lines) {
    if (std::ranges::find(before, line) == before.end()) fmt::print("new: {}\n", line);
  }
  for (const std::string& line : before) {
    const bool is_comment = line.starts_with("#");
    if (!is_comment && std::ranges::find(lines, line) == lines.end())
      fmt::print("gone: {}\n", line);
  }
  fmt::print("{} is stale. {}\n", list.string(), advice);
  return 1;
}

}  // namespace etude::onnx_cases
