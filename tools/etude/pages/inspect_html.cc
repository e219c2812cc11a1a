// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/pages/inspect_html.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/files/xml_text.h"
#include "tools/etude/pages/graph_html.h"
#include "tools/etude/pages/html_text.h"
#include "tools/etude/pages/page_style.h"

namespace etude::tools {
namespace {

using internal::xml_text;

constexpr std::size_t kMostNodes = 20'000;
constexpr int kDeepest = 32;  // files may have longer paths

std::string numbers_text(int64_t count) {
  std::string out = std::to_string(count);
  for (std::size_t at = out.size(); at > 3;) out.insert(at -= 3, ",");
  return out;
}

struct Sum {
  int64_t numbers = 0, bytes = 0;
};

// State by path: groups for the components that paths share.
class StateTree {
 public:
  explicit StateTree(const std::map<std::string, StoredTensor>& state)
      : all_(state.begin(), state.end()) {}

  Sum sum() const { return sum(0, all_.size()); }
  std::string text() const {
    std::string out = "<div class=\"tree\">\n";
    part(out, 0, all_.size(), 0, 0);
    return out + "</div>\n";
  }

 private:
  Sum sum(std::size_t first, std::size_t end) const {
    Sum out;
    std::set<const void*> seen;  // a Variable may have several paths
    for (std::size_t i = first; i < end; ++i) {
      const Tensor& x = all_[i].second.value;
      if (!x.has_value()) continue;
      if (x.nbytes() > 0 && !seen.insert(TensorAccess::data(x)).second) continue;
      out.numbers += x.size();
      out.bytes += x.nbytes();
    }
    return out;
  }

  // Entries [first, end) agree in their first `begin` bytes. The map is sorted, so entries with a
  // common component are neighbours.
  void part(std::string& out, std::size_t first, std::size_t end, std::size_t begin,
            int depth) const {
    for (std::size_t at = first; at < end;) {
      const std::string_view path = all_[at].first;
      const std::size_t slash = path.find('/', begin);
      std::size_t stop = at + 1;
      if (slash != path.npos && depth < kDeepest) {
        const std::string_view head = path.substr(0, slash + 1);
        while (stop < end && all_[stop].first.starts_with(head)) ++stop;
      }
      if (stop == at + 1) {
        leaf(out, at, begin, depth);
        at = stop;
        continue;
      }
      const std::size_t shared = shared_length(at, stop, slash + 1);
      const Sum all = sum(at, stop);
      out += fmt::format(
          "<details{}><summary style=\"--depth:{}\"><b>{}</b><span class=\"type\">{} "
          "numbers</span><span class=\"bytes\">{}</span></summary>\n",
          all_.size() <= 60 || depth < 1 ? " open" : "", depth,
          xml_text(path.substr(begin, shared - 1 - begin)), numbers_text(all.numbers),
          bytes_text(all.bytes));
      part(out, at, stop, shared, depth + 1);
      out += "</details>\n";
      at = stop;
    }
  }

  // The end of the last component that all these paths share, with its slash.
  std::size_t shared_length(std::size_t first, std::size_t end, std::size_t known) const {
    const std::string &a = all_[first].first, &b = all_[end - 1].first;  // sorted: the extremes
    const auto differs = std::ranges::mismatch(a, b).in1 - a.begin();
    const std::size_t slash =
        a.rfind('/', static_cast<std::size_t>(std::max<std::ptrdiff_t>(differs - 1, 0)));
    return slash == a.npos ? known : std::max(known, slash + 1);
  }

  void leaf(std::string& out, std::size_t at, std::size_t begin, int depth) const {
    const auto& [path, x] = all_[at];
    out += fmt::format(
        "<div class=\"leaf\" style=\"--depth:{}\"><span>{}</span><span class=\"type\">{}{}{}"
        "</span><span class=\"bytes\">{}</span></div>\n",
        depth, xml_text(path.substr(begin)), xml_text(x.type),
        x.is_trainable ? "" : ", not trainable", x.value.has_value() ? "" : ", no value",
        x.value.has_value() ? bytes_text(x.value.nbytes()) : "");
  }

  std::vector<std::pair<std::string, StoredTensor>> all_;
};

class Page {
 public:
  Page(const Stored& stored, const TimedGraph* timed) : stored_(stored), timed_(timed) {}

  std::string text() const {
    const StateTree state(stored_.state);
    std::string body;
    for (std::size_t f = 0; f < stored_.functions.size(); ++f) body += function(f);
    if (!stored_.state.empty()) {
      const Sum all = state.sum();
      body += fmt::format(
          "<section><h2>State</h2>\n<p class=\"note\">{} tensors, {} numbers, {}"
          "</p>\n{}</section>\n",
          stored_.state.size(), numbers_text(all.numbers), bytes_text(all.bytes), state.text());
    }
    body += list("Objects", stored_.objects) + list("Assets", stored_.assets);
    std::vector<std::string> metadata;
    for (const auto& [key, value] : stored_.metadata) {
      metadata.push_back(shortened(key + ": " + value, 400));
    }
    body += list("Metadata", metadata);
    const std::string name =
        xml_text(std::filesystem::path(stored_.path).lexically_normal().string());
    return fmt::format(kInspectPage, fmt::arg("name", name), fmt::arg("style", kInspectStyle),
                       fmt::arg("what", words_of(stored_.kind)), fmt::arg("body", body),
                       fmt::arg("script", kInspectScript));
  }

 private:
  static std::string list(std::string_view title, const std::vector<std::string>& items) {
    if (items.empty()) return "";
    std::string out = fmt::format("<section><h2>{}</h2><ul>\n", title);
    for (const std::string& item : items) out += "<li>" + xml_text(item) + "</li>\n";
    return out + "</ul></section>\n";
  }

  std::string function(std::size_t f) const {
    const StoredFunction& from = stored_.functions[f];
    std::string out = fmt::format(
        "<section><h2>{}</h2>\n<p class=\"fold\"><button data-fold=\"open\">open all</button> "
        "<button data-fold=\"close\">fold all</button></p>\n",
        xml_text(from.name));
    if (from.graphs.empty()) out += "<p class=\"note\">no graph: it had not been called</p>\n";
    if (from.exported) {
      out += fmt::format("<p class=\"note\">exported: {}</p>\n", xml_text(*from.exported));
    }
    for (std::size_t g = 0; g < from.graphs.size(); ++g) out += graph(f, g);
    return out + "</section>\n";
  }

  std::string graph(std::size_t f, std::size_t g) const {
    const StoredGraph& from = stored_.functions[f].graphs[g];
    const bool is_timed = timed_ != nullptr && timed_->function == f && timed_->graph == g;
    DrawnGraph drawn{.graph = is_timed ? timed_->at_sizes.get() : from.graph.get(),
                     .inputs = from.inputs,
                     .outputs = from.outputs,
                     .id = fmt::format("f{}g{}", f, g)};
    ETUDE_REQUIRE_CODE(kResourceExhausted, drawn.graph->size() <= kMostNodes,
                       "graph '{}' has {} nodes, but a page shows {} at most. `etude graph show` "
                       "prints it as text",
                       drawn.graph->name(), drawn.graph->size(), kMostNodes);
    drawn.types = type_texts(*drawn.graph, is_timed ? nullptr : from.symbolic.get());
    if (is_timed) drawn.micros = timed_->micros;
    const bool is_first = timed_ != nullptr ? is_timed : g == 0;
    std::string notes;
    if (from.is_special) notes += " for sizes of 1 and 0";
    if (!from.made_for.empty()) notes += ", made for " + xml_text(from.made_for);
    return fmt::format(
        "<details class=\"graph\"{}><summary><b>{}</b> <span class=\"note\">{}{}</span>"
        "</summary>\n{}{}</details>\n",
        is_first ? " open" : "", xml_text(from.title), calls_text(drawn.graph->size()), notes,
        is_timed ? "<p class=\"note\">" + xml_text(timed_->note) + "</p>\n" : "",
        graph_html(drawn));
  }

  const Stored& stored_;
  const TimedGraph* timed_;
};

}  // namespace

std::string inspect_html(const Stored& stored, const TimedGraph* timed) {
  return Page(stored, timed).text();
}

}  // namespace etude::tools
