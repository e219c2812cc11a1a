// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/diff_command.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/files/file_reader.h"
#include "etude/graph/diff.h"
#include "etude/graph/text/names.h"
#include "etude/ops.h"
#include "tools/etude/name_text.h"
#include "tools/etude/option_words.h"
#include "tools/etude/pages/html_text.h"
#include "tools/etude/saved_command.h"
#include "tools/etude/stored.h"

namespace etude::tools {
namespace {

struct DiffOptions {
  std::string a, b, function;
  double atol = 0, rtol = 0;
};

// By how much the elements of two tensors of one type differ.
struct Difference {
  int64_t count = 0;
  double absolute = 0, relative = 0;
};

// Integers of 64 bits have no wider float: their difference is taken in integers.
Tensor distance(const Tensor& a, const Tensor& b) {
  if (a.dtype() == kInt64 || a.dtype() == kUInt64) {
    const Tensor high = astype(maximum(a, b), kUInt64), low = astype(minimum(a, b), kUInt64);
    return astype(high - low, kFloat64);
  }
  const DType wide = is_complex(a.dtype()) ? kComplex128 : kFloat64;
  const Tensor x = astype(a, wide), y = astype(b, wide);
  // Equal infinities differ by nothing, and so do two NaN; a NaN and a number differ without limit.
  const Tensor is_equal = logical_or(equal(x, y), logical_and(isnan(x), isnan(y)));
  const Tensor delta = abs(x - y);
  return where(is_equal, 0.0, where(isnan(delta), INFINITY, delta));
}

Difference difference(const Tensor& a, const Tensor& b, double atol, double rtol) {
  if (a.size() == 0 || same_value(a, b)) return {};
  const Tensor delta = distance(a, b);
  const DType wide = is_complex(a.dtype()) ? kComplex128 : kFloat64;
  const Tensor size_a = abs(astype(a, wide)), size_b = abs(astype(b, wide));
  const Tensor size = maximum(size_a, size_b);
  const Tensor relative =
      where(equal(delta, 0.0), 0.0, where(isinf(delta), INFINITY, delta / size));
  const Tensor is_finite = logical_not(logical_or(isinf(size_b), isnan(size_b)));
  const Tensor limit = where(is_finite, atol + rtol * size_b, atol);
  Difference out;
  out.count = astype(sum(astype(greater(delta, limit), kInt64)), kInt64).item<int64_t>();
  out.absolute = max(delta).item<double>();
  out.relative = max(relative).item<double>();
  // Other bits of equal numbers: -0 and 0, or other NaN.
  if (out.absolute == 0 && atol == 0 && rtol == 0) out.count = -1;
  return out;
}

// Collects the lines of a comparison.
class Comparison {
 public:
  Comparison(const Stored& a, const Stored& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options) {}

  std::string text() {
    if (has_functions(a_) && has_functions(b_)) functions();
    if (has_state(a_) && has_state(b_)) {
      section("state", [&] { state(); });
      section("metadata", [&] { metadata(); });
    }
    section("objects", [&] { names(a_.objects, b_.objects); });
    section("assets", [&] { assets(); });
    return std::move(text_);
  }

  static bool has_functions(const Stored& stored) {
    return stored.kind == StoredKind::kFunctions || stored.kind == StoredKind::kGraphs;
  }
  static bool has_state(const Stored& stored) { return stored.kind != StoredKind::kGraphs; }

 private:
  template <class... A>
  void line(fmt::format_string<A...> text, A&&... args) {
    text_ += fmt::format("{:{}}{}\n", "", indent_,
                         without_controls(fmt::format(text, std::forward<A>(args)...)));
  }
  // The lines that `body` adds, below a heading; no heading without lines.
  template <class F>
  void section(const std::string& heading, const F& body) {
    std::string before = std::move(text_);
    text_.clear();
    indent_ += 2;
    body();
    indent_ -= 2;
    if (!text_.empty()) {
      before += fmt::format("{:{}}{}\n", "", indent_, without_controls(heading)) + text_;
    }
    text_ = std::move(before);
  }
  void names(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    for (const std::string& each : a) {
      if (std::ranges::count(b, each) == 0) line("- {}", each);
    }
    for (const std::string& each : b) {
      if (std::ranges::count(a, each) == 0) line("+ {}", each);
    }
  }
  void texts(std::string_view what, const std::string& a, const std::string& b) {
    if (a == b) return;
    line("- {}: {}", what, a);
    line("+ {}: {}", what, b);
  }

  // ---- Functions and graphs.

  void functions() {
    const auto is_asked = [&](const StoredFunction& f) {
      return options_.function.empty() || f.name == options_.function;
    };
    for (const StoredFunction& f : a_.functions) {
      if (!is_asked(f)) continue;
      const auto other = std::ranges::find(b_.functions, f.name, &StoredFunction::name);
      if (other == b_.functions.end()) {
        line("- function {}", f.name);
      } else {
        section("function " + f.name, [&] { function(f, *other); });
      }
    }
    for (const StoredFunction& f : b_.functions) {
      const bool is_new = std::ranges::count(a_.functions, f.name, &StoredFunction::name) == 0;
      if (is_asked(f) && is_new) line("+ function {}", f.name);
    }
  }

  void function(const StoredFunction& a, const StoredFunction& b) {
    texts("parameters", fmt::format("{}", fmt::join(a.arguments, ", ")),
          fmt::format("{}", fmt::join(b.arguments, ", ")));
    texts("exported", a.exported.value_or("no signature"), b.exported.value_or("no signature"));
    // Graphs with one signature belong together, in their order.
    std::set<std::size_t> taken;
    for (const StoredGraph& graph : a.graphs) {
      std::size_t at = 0;
      const auto fits = [&] {
        return b.graphs[at].title == graph.title && b.graphs[at].is_special == graph.is_special;
      };
      while (at < b.graphs.size() && (taken.contains(at) || !fits())) ++at;
      if (at == b.graphs.size()) {
        line("- graph {}", graph.title);
        continue;
      }
      taken.insert(at);
      section("graph " + graph.title, [&] { this->graph(graph, b.graphs[at]); });
    }
    for (std::size_t at = 0; at < b.graphs.size(); ++at) {
      if (!taken.contains(at)) line("+ graph {}", b.graphs[at].title);
    }
  }

  void graph(const StoredGraph& a, const StoredGraph& b) {
    if (a.inputs.size() == b.inputs.size()) {
      for (std::size_t i = 0; i < a.inputs.size(); ++i) input(i, a.inputs[i], b.inputs[i]);
    }
    if (a.outputs != b.outputs) names(a.outputs, b.outputs);
    if (a.symbolic && b.symbolic) {
      texts("sizes", sizes_of(*a.symbolic), sizes_of(*b.symbolic));
    } else if (a.symbolic || b.symbolic) {
      line("one is a graph for many sizes, the other for one size");
    }
    if (a.graph->same(*b.graph)) return;
    ops(*a.graph, *b.graph);
    std::istringstream lines(diff(*a.graph, *b.graph));
    for (std::string each; std::getline(lines, each);) line("{}", each);
  }

  static std::string sizes_of(const SymbolicGraph& symbolic) {
    std::vector<std::string> out;
    for (const SymbolicGraph::Size& size : symbolic.sizes()) out.push_back(size.name);
    return fmt::format("{}", fmt::join(out, ", "));
  }

  void input(std::size_t i, const GraphInput& a, const GraphInput& b) {
    const auto is_constant = [](const GraphInput& x, const Stored& of) {
      return x.source == GraphInput::Source::kConstant && of.loaded != nullptr;
    };
    if (is_constant(a, a_) && is_constant(b, b_)) {
      values(fmt::format("constant of input {}", i),
             a_.constants[static_cast<std::size_t>(a.index)],
             b_.constants[static_cast<std::size_t>(b.index)]);
    } else if (a.path != b.path) {
      line("input {} is {} in the first and {} in the second", i, a.path, b.path);
    }
  }

  // How often each op is called, where that differs.
  void ops(const Graph& a, const Graph& b) {
    std::map<std::string, std::pair<int64_t, int64_t>> count;
    for (std::size_t i = 0; i < a.size(); ++i) ++count[internal::op_text(a.node(i).op)].first;
    for (std::size_t i = 0; i < b.size(); ++i) ++count[internal::op_text(b.node(i).op)].second;
    std::vector<std::string> changed;
    for (const auto& [op, n] : count) {
      if (n.first != n.second) changed.push_back(fmt::format("{} {} -> {}", op, n.first, n.second));
    }
    if (!changed.empty()) line("calls: {}", fmt::join(changed, ", "));
  }

  // ---- State.

  void state() {
    for (const auto& [path, x] : a_.state) {
      const auto other = b_.state.find(path);
      if (other == b_.state.end()) {
        line("- {}: {}", path, x.type);
        continue;
      }
      const StoredTensor& y = other->second;
      if (x.is_trainable != y.is_trainable) {
        line("{}: trainable in the {} only", path, x.is_trainable ? "first" : "second");
      }
      if (x.type != y.type) {
        texts(path, x.type, y.type);
      } else {
        values(path, x.value, y.value);
      }
    }
    for (const auto& [path, y] : b_.state) {
      if (!a_.state.contains(path)) line("+ {}: {}", path, y.type);
    }
  }

  void values(const std::string& what, const Tensor& a, const Tensor& b) {
    if (!a.has_value() || !b.has_value()) {
      if (a.has_value() != b.has_value()) {
        line("{}: has a value in the {} only", what, a.has_value() ? "first" : "second");
      }
      return;
    }
    if (a.type() != b.type()) {
      line("- {}: {}", what, a.type()->to_string());
      line("+ {}: {}", what, b.type()->to_string());
      return;
    }
    const Difference d = difference(a, b, options_.atol, options_.rtol);
    if (d.count < 0) line("{}: equal numbers with other bits, such as -0 and 0", what);
    if (d.count <= 0) return;
    line("{}: {} of {} elements differ, by {:.4g} at most, relative {:.4g}", what, d.count,
         a.size(), d.absolute, d.relative);
  }

  void metadata() {
    std::set<std::string> keys;
    for (const auto& each : a_.metadata) keys.insert(each.first);
    for (const auto& each : b_.metadata) keys.insert(each.first);
    const auto text = [](const io::Metadata& all, const std::string& key) {
      const auto found = all.find(key);
      return found == all.end() ? std::string("none") : shortened(found->second, 100);
    };
    for (const std::string& key : keys) {
      const auto x = a_.metadata.find(key), y = b_.metadata.find(key);
      const bool is_same =
          x != a_.metadata.end() && y != b_.metadata.end() && x->second == y->second;
      if (is_same) continue;
      line("- {}: {}", key, text(a_.metadata, key));
      line("+ {}: {}", key, text(b_.metadata, key));
    }
  }

  void assets() {
    names(a_.assets, b_.assets);
    if (!a_.loaded || !b_.loaded) return;
    for (const auto& x : a_.loaded->content.assets) {
      const auto& all = b_.loaded->content.assets;
      const auto y = std::ranges::find(all, x.name, &saved::internal::SavedAsset::name);
      if (y == all.end()) continue;
      const internal::FileBytes bytes_x(x.from), bytes_y(y->from);
      if (!std::ranges::equal(bytes_x.bytes(), bytes_y.bytes())) line("{}: other bytes", x.name);
    }
  }

  const Stored &a_, &b_;
  const DiffOptions& options_;
  std::string text_;
  int indent_ = 0;
};

void require_function(const Stored& stored, const std::string& name) {
  if (name.empty()) return;
  std::vector<std::string> names;
  for (const StoredFunction& each : stored.functions) names.push_back(each.name);
  static_cast<void>(chosen_index(names, name, fmt::format("'{}'", stored.path)));
}

bool print_difference(const DiffOptions& options) {
  const Stored a = read_stored(options.a), b = read_stored(options.b);
  const bool both_run = Comparison::has_functions(a) && Comparison::has_functions(b);
  const bool both_have_state = Comparison::has_state(a) && Comparison::has_state(b);
  ETUDE_REQUIRE(both_run || both_have_state,
                "'{}' is {} and '{}' is {}: they have nothing to compare. Name two that have "
                "functions, or two that have state",
                a.path, words_of(a.kind), b.path, words_of(b.kind));
  require_function(a, options.function);
  require_function(b, options.function);
  if (a.kind != b.kind) {
    fmt::print(stderr, "'{}' is {} and '{}' is {}: only their {} are compared\n", a.path,
               words_of(a.kind), b.path, words_of(b.kind), both_run ? "functions" : "states");
  }
  const std::string text = Comparison(a, b, options).text();
  fmt::print("{}", text);
  return !text.empty();
}

}  // namespace

void end_with_status(const std::function<bool()>& compare) {
  bool differs = false;
  try {
    differs = compare();
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) throw;  // a fault of standard output
    fmt::print(stderr, "etude: {}\n", error.what());
    throw CLI::RuntimeError(kDiffError);
  }
  if (differs) throw CLI::RuntimeError(kDiffers);
}

void add_diff_command(CLI::App& app) {
  const auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand(
      "diff",
      "what differs between two saved folders, files of graphs, checkpoints or safetensors files. "
      "Status: 0 equal, 1 different, 2 an error");
  command->add_option("A", options->a)->required();
  command->add_option("B", options->b)->required();
  command->add_option("--function", options->function, "compares this function, and the state");
  command
      ->add_option("--atol", options->atol,
                   "numbers x and y are equal if |x - y| <= atol + rtol * |y|; 0: by their bits")
      ->check(number_from_0())
      ->capture_default_str();
  command->add_option("--rtol", options->rtol, "as --atol")
      ->check(number_from_0())
      ->capture_default_str();
  command->callback([options] { end_with_status([&] { return print_difference(*options); }); });
}

}  // namespace etude::tools
