// SPDX-License-Identifier: Apache-2.0
// onnx_import FOLDER: imports models and runs them. FOLDER/cases.txt lists models, one a line:
// NUMBER TAB FILE. The inputs of a model are FOLDER/NUMBER.safetensors, and its results become
// FOLDER/NUMBER.out.safetensors, by their order. Prints a line for each model: its number, then
// "ok", "fixed" with the names of inputs that got fixed values, or an error.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "etude/etude.h"
#include "etude/onnx/onnx.h"

namespace etude::onnx_import {
namespace {

// The inputs that an error names: {{"shape", ...}, {"axes", ...}}.
std::vector<std::string> asked_for(const std::string& text) {
  std::vector<std::string> out;
  if (text.find("LoadOptions::constants") == std::string::npos) return out;
  static const std::regex name("\"([^\"]+)\", \\.\\.\\.");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), name); at != std::sregex_iterator();
       ++at) {
    out.push_back((*at)[1]);
  }
  return out;
}

// Loads a model. Inputs that have to be known get their values.
saved::Program load_fixed(const std::string& file, const io::NamedTensors& inputs,
                          onnx::LoadOptions& options) {
  for (;;) {
    try {
      return onnx::load(file, options);
    } catch (const Error& error) {
      bool is_new = false;
      for (const std::string& name : asked_for(error.what())) {
        const auto value = inputs.find(name);
        if (value == inputs.end()) throw;
        is_new = options.constants.emplace(name, value->second).second || is_new;
      }
      if (!is_new) throw;
    }
  }
}

void run_case(const std::filesystem::path& folder, const std::string& number,
              const std::string& file) {
  const io::NamedTensors inputs =
      io::load_safetensors((folder / (number + ".safetensors")).string()).tensors;
  onnx::LoadOptions options;
  const saved::Program program = load_fixed(file, inputs, options);
  const saved::Function f = program.function("predict");
  std::vector<Parts> arguments;
  for (const std::string& name : f.arguments()) {
    // The name of an argument has no '/'.
    auto found = inputs.find(name);
    if (found == inputs.end()) {
      for (auto at = inputs.begin(); at != inputs.end(); ++at) {
        std::string plain = at->first;
        std::ranges::replace(plain, '/', '_');
        if (plain == name) found = at;
      }
    }
    if (found == inputs.end()) throw std::runtime_error("there is no input " + name);
    arguments.emplace_back(Parts(found->second));
  }
  const Parts result = f(Parts::list(std::move(arguments)));
  io::NamedTensors out;
  result.each_part([&](const FormLeaf&, const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Tensor>) {
      out.emplace(std::to_string(out.size() + 1000), to_dense(value));
    }
  });
  io::save_safetensors((folder / (number + ".out.safetensors")).string(), out);
  std::string fixed;
  for (const auto& [name, value] : options.constants) fixed += (fixed.empty() ? "" : " ") + name;
  fmt::print("{}\t{}\t{}\n", number, fixed.empty() ? "ok" : "fixed", fixed);
}

int run(const std::filesystem::path& folder) {
  std::ifstream list(folder / "cases.txt");
  for (std::string line; std::getline(list, line);) {
    const std::size_t tab = line.find('\t');
    const std::string number = line.substr(0, tab);
    try {
      run_case(folder, number, line.substr(tab + 1));
    } catch (const std::exception& error) {
      std::string text = error.what();
      std::ranges::replace(text, '\n', ' ');
      fmt::print("{}\terror\t{}\n", number, text);
    }
  }
  return 0;
}

}  // namespace
}  // namespace etude::onnx_import

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print("onnx_import FOLDER\n");
    return 2;
  }
  return etude::onnx_import::run(argv[1]);
}
