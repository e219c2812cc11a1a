// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/parse.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/core/op/exact_text.h"
#include "etude/core/op/op.h"
#include "etude/core/op/upgrade.h"
#include "etude/files/read_budget.h"
#include "etude/graph/builder.h"
#include "etude/graph/check_call.h"
#include "etude/graph/text/attr_reader.h"
#include "etude/graph/text/constant_text.h"
#include "etude/graph/text/names.h"
#include "etude/graph/text/text_reader.h"

namespace etude {
namespace {

using internal::SubGraphs;
using internal::TextReader;
using Draft = GraphBuilder::Draft;

// One graph: from its header to its return.
class GraphParser {
 public:
  GraphParser(TextReader in, const SubGraphs& others, internal::ReadBudget& budget)
      : in_(in), others_(others), budget_(budget), header_at_(in.at()) {}

  // The spelling of its name in references.
  const std::string& name() const { return name_; }
  // The number of graph levels below this graph.
  int depth() const { return depth_; }

  GraphRef parse() {
    header();
    std::vector<Draft> outputs;
    while (!returned(outputs)) node();
    check_outputs(outputs);
    in_.skip_lines();
    if (!in_.is_at_end()) {
      in_.fail(fmt::format("a graph ends with its return, but here is {}", in_.seen()));
    }
    return build_->finish(outputs, true);
  }

 private:
  struct Name {
    std::size_t at;
    std::string spelling;
    const Type* type;  // if it is written after the name
  };

  // ---- header

  void header() {
    in_.need("graph", "the start of a line");
    const std::string name = in_.name("the graph");
    name_ = spelling("@", name);
    build_.emplace(name);
    in_.need("(", "the name of a graph");
    in_.skip_lines();
    for (bool is_first = true; !in_.take(")"); is_first = false) {
      if (!is_first) in_.need(",", "an input");
      in_.skip_lines();
      input();
      in_.skip_lines();
    }
    in_.skip_lines();
    in_.need("->", "the inputs of a graph");
    in_.need("(", "'->'");
    for (bool is_first = true; !in_.take(")"); is_first = false) {
      if (!is_first) in_.need(",", "the type of a result");
      in_.skip_blanks();
      wanted_at_.push_back(in_.at());
      wanted_.push_back(in_.take("none") ? nullptr : in_.type());
    }
    end_line("the header of a graph");
  }

  void input() {
    count_one();
    in_.skip_blanks();
    const std::size_t at = in_.at();
    const internal::RoleText& text = role();
    if (text.role < last_role_) {
      in_.fail(at, "the order of inputs is: arguments, *keys, &variables, ^captures");
    }
    last_role_ = text.role;
    const std::string name = in_.name("an input");
    if (name.empty()) in_.fail(at, "the name of an input is empty");
    const std::string sigil(text.sigil);
    const std::string given = spelling(sigil, name);
    const std::string wanted = unique_.add(sigil + internal::spell_name(name));
    if (given != wanted) {
      in_.fail(at, fmt::format("an input is written {} here, as the names before it are", wanted));
    }
    in_.need(":", "the name of an input");
    values_.emplace(given, build_->add_input(name, in_.type(), text.role));
  }

  // The role of the sigil at the current position.
  const internal::RoleText& role() {
    for (const internal::RoleText& text : internal::role_texts().subspan(1)) {
      if (in_.take(text.sigil)) return text;
    }
    return internal::role_text(InputRole::kArgument);
  }

  // The printed form of a name that was just read, including an ordinal after it.
  std::string spelling(std::string_view sigil, const std::string& name) {
    const uint64_t n = in_.ordinal();
    return fmt::format("{}{}{}", sigil, internal::spell_name(name),
                       n > 1 ? fmt::format("~{}", n) : "");
  }

  void end_line(std::string_view what) {
    if (!in_.is_line_end()) {
      in_.fail(fmt::format("the line must end after {}, but here is {}", what, in_.seen()));
    }
  }

  // ---- values

  // "%5", "x", "*key~2", or "none".
  Name value_name() {
    in_.skip_blanks();
    Name name{in_.at(), "", nullptr};
    if (in_.take("%")) {
      const std::string_view word = in_.word();
      if (word.empty()) in_.fail("the number of a value must follow '%'");
      name.spelling = fmt::format("%{}", word);
      return name;
    }
    const std::string_view sigil = role().sigil;
    const bool is_quoted = in_.peek() == '"';
    const std::string text = in_.name("a value");
    const bool is_none = text == "none" && sigil.empty() && !is_quoted;
    name.spelling = is_none ? text : spelling(sigil, text);
    return name;
  }

  Draft value(const Name& name) const {
    if (name.spelling == "none") return GraphBuilder::kNoDraft;
    const auto found = values_.find(name.spelling);
    if (found != values_.end()) return found->second;
    for (const std::string_view sigil : {"^", "&", "*"}) {  // forgotten most easily
      if (!values_.contains(fmt::format("{}{}", sigil, name.spelling))) continue;
      in_.fail(name.at,
               fmt::format("there is no value {0} above. Is {1}{0} meant?", name.spelling, sigil));
    }
    in_.fail(
        name.at,
        fmt::format(
            "there is no value {} above. Values are the inputs and the results of earlier lines",
            name.spelling));
  }

  void give(const Name& name, Draft draft) {
    if (values_.emplace(name.spelling, draft).second) return;
    in_.fail(name.at, fmt::format("there is a value {} already", name.spelling));
  }

  // ---- lines

  bool returned(std::vector<Draft>& outputs) {
    in_.skip_lines();
    if (in_.is_at_end()) in_.fail("the graph has no return");
    TextReader behind = in_;
    if (behind.word() != "return" || behind.peek() == '(') return false;
    in_ = behind;
    for (bool is_first = true; !in_.is_line_end(); is_first = false) {
      if (!is_first) in_.need(",", "an output");
      outputs.push_back(value(value_name()));
    }
    return true;
  }

  void check_outputs(const std::vector<Draft>& outputs) const {
    if (outputs.size() != wanted_.size()) {
      in_.fail(header_at_, fmt::format("the header has {} results, but {} are returned",
                                       wanted_.size(), outputs.size()));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Type* type = outputs[i] == GraphBuilder::kNoDraft ? nullptr : build_->type(outputs[i]);
      if (type == wanted_[i]) continue;
      in_.fail(wanted_at_[i],
               fmt::format("result {} is {} here, but the graph returns {}", i,
                           internal::type_text(wanted_[i]), internal::type_text(type)));
    }
  }

  std::vector<Name> results() {
    std::vector<Name> out;
    in_.skip_blanks();
    while (in_.peek() == '%') {
      out.push_back(value_name());
      if (in_.take(":")) out.back().type = in_.type();
      if (!in_.take(",")) break;
      in_.skip_blanks();
    }
    if (!out.empty()) in_.need("=", "the results of a node");
    return out;
  }

  // Counts an input or a node, with its types and names.
  void count_one() {
    constexpr uint64_t kBytes = 512;
    if (budget_.has_items() && budget_.has_bytes(kBytes)) return;
    in_.fail(in_.at(), budget_.excess(), ErrorCode::kResourceExhausted);
  }

  void node() {
    count_one();
    const std::vector<Name> names = results();
    in_.skip_blanks();
    const std::size_t at = in_.at();
    const std::string op = in_.name("an op");
    if (op == "constant" && in_.peek() != '(') return constant(names, at);
    call(names, at, op);
  }

  void constant(const std::vector<Name>& names, std::size_t at) {
    if (names.size() != 1) in_.fail(at, "a constant is one value");
    const Type* type = in_.type();
    in_.skip_blanks();
    const char* behind = in_.data();
    std::string fault;
    Tensor elements = internal::read_constant(behind, in_.end(), type, fault);
    in_.set(behind);
    if (!fault.empty()) in_.fail(fault);
    check_written(names[0], type);
    give(names[0], build_->add_constant(std::move(elements)));
    end_line("the elements of a constant");
  }

  // Returns the result of f(); its errors show the position `at`.
  template <class F>
  auto shown_at(std::size_t at, F&& f) const -> decltype(f()) {
    try {
      return f();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) throw;
      const bool is_unknown_op = error.code() == ErrorCode::kUnimplemented;
      in_.fail(at, error.what(), is_unknown_op ? error.code() : ErrorCode::kInvalidArgument);
    }
  }

  // The operands and attributes of a call, up to its ')'.
  void arguments(const Op& op, uint32_t version, std::vector<Draft>& operands,
                 internal::NamedAttrs& attrs) {
    in_.need("(", "the name of an op");
    for (bool is_first = true; !in_.take(")"); is_first = false) {
      if (!is_first) in_.need(",", "an operand or attribute");
      const Name name = value_name();
      if (!in_.take("=")) {
        if (!attrs.empty()) in_.fail(name.at, "operands must precede the attributes");
        operands.push_back(value(name));
        continue;
      }
      const AttrDef& def = shown_at(name.at, [&]() -> const AttrDef& {
        return internal::find_read_attr(op, version, name.spelling);
      });
      const auto is_given = [&](const auto& attr) { return attr.first == def.name; };
      if (std::ranges::any_of(attrs, is_given)) {
        in_.fail(name.at, fmt::format("attribute '{}' is given twice", def.name));
      }
      attrs.emplace_back(def.name, internal::read_attr(in_, def, others_, depth_, budget_));
    }
  }

  void call(const std::vector<Name>& names, std::size_t at, const std::string& op_name) {
    const Op& op = shown_at(at, [&]() -> const Op& { return internal::find_read_op(op_name); });
    const uint32_t version = op_version(at, op);
    std::vector<Draft> operands;
    internal::NamedAttrs given;
    arguments(op, version, operands, given);
    const CallSite where = call_site();
    const internal::ReadCall call = shown_at(
        at, [&] { return internal::upgrade_read_call(op, version, *build_, operands, given); });
    std::vector<uint32_t> places = call.places;
    if (places.empty()) {
      places.resize(call.results.size());
      std::iota(places.begin(), places.end(), uint32_t{0});
    }
    if (places.size() != names.size()) {
      in_.fail(at, fmt::format("{} has {} results here, but {} names before it", op.name(),
                               places.size(), names.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      check_written(names[i], call.results[places[i]]);
    }
    const Draft first = build_->add_node(op, call.attrs, call.operands, call.results, where);
    for (std::size_t i = 0; i < names.size(); ++i) give(names[i], first + places[i]);
  }

  // The 2 of "softclip@2"; 1 if there is none.
  uint32_t op_version(std::size_t at, const Op& op) {
    uint32_t version = 1;
    if (in_.take("@")) {
      const std::string_view text = in_.word();
      const auto read = std::from_chars(text.data(), text.data() + text.size(), version);
      if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) {
        in_.fail(at, fmt::format("'@' after an op is followed by its version, as in {}@2",
                                 internal::op_text(op)));
      }
    }
    shown_at(at, [&] { internal::require_readable(op, version); });
    return version;
  }

  void check_written(const Name& name, const Type* type) const {
    if (name.type == nullptr || name.type == type) return;
    in_.fail(name.at, fmt::format("{} is {} here, but the result of this line is {}", name.spelling,
                                  internal::type_text(name.type), internal::type_text(type)));
  }

  // The end of a call's line: nothing, or "# train.cc:41".
  CallSite call_site() {
    if (!in_.take("#")) {
      end_line("a call");
      return {};
    }
    in_.skip_blanks();
    const std::size_t at = in_.at();
    const std::string_view text = in_.rest_of_line();
    const std::size_t colon = text.rfind(':');
    CallSite where;
    const char* end = text.data() + text.size();
    const char* behind = end;
    std::errc fault = std::errc::invalid_argument;
    if (colon != std::string_view::npos) {
      const auto read = std::from_chars(text.data() + colon + 1, end, where.line);
      behind = read.ptr;
      fault = read.ec;
    }
    if (fault != std::errc() || behind != end || where.line == 0) {
      in_.fail(at,
               "'#' after a call is followed by the line that made it, as in # train.cc:41. Put a "
               "comment on a line of its own");
    }
    where.file = kept(at, text.substr(0, colon));
    return where;
  }

  const char* kept(std::size_t at, std::string_view file) {
    std::string decoded(file);
    if (file.starts_with('"')) {
      const char* behind = file.data();
      const bool is_read = internal::read_quoted(behind, file.data() + file.size(), decoded);
      if (!is_read || behind != file.data() + file.size()) {
        in_.fail(at, "the name of a file in quotes is torn");
      }
    }
    const auto [place, is_new] = files_.emplace(decoded, nullptr);
    if (is_new) place->second = build_->keep_text(decoded);
    return place->second;
  }

  TextReader in_;
  const SubGraphs& others_;
  internal::ReadBudget& budget_;
  std::size_t header_at_;
  int depth_ = 0;
  std::string name_;
  std::optional<GraphBuilder> build_;
  InputRole last_role_ = InputRole::kArgument;
  internal::UniqueNames unique_;
  std::vector<const Type*> wanted_;  // types of results, by the header
  std::vector<std::size_t> wanted_at_;
  std::map<std::string, Draft, std::less<>> values_;
  std::map<std::string, const char*, std::less<>> files_;
};

// The starts of graphs: lines that begin with the word "graph".
std::vector<std::size_t> find_graphs(std::string_view text) {
  constexpr std::string_view kWord = "graph ";
  std::vector<std::size_t> out;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kWord)) out.push_back(at);
    at = text.find('\n', at);
    if (at != std::string_view::npos) ++at;
  }
  return out;
}

}  // namespace

GraphRef parse_graph(std::string_view text) {
  const std::vector<std::size_t> begins = find_graphs(text);
  TextReader before(text, 0, begins.empty() ? text.size() : begins[0]);
  before.skip_lines();
  if (begins.empty() || !before.is_at_end()) {
    before.fail(fmt::format("a text begins with graph NAME(INPUTS) -> (TYPES), but here is {}",
                            before.seen()));
  }
  // From last to first, so that a graph is known when others refer to it.
  internal::ReadBudget budget("the text of a graph", text.size());
  SubGraphs known;
  internal::UniqueGraphs unique;
  GraphRef graph;
  for (std::size_t i = begins.size(); i-- > 0;) {
    const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : text.size();
    const TextReader in(text, begins[i], end);
    GraphParser parser(in, known, budget);
    graph = parser.parse();
    const GraphRef first = unique.add(graph);
    if (i > 0) graph = first;
    const bool is_new =
        known.emplace(parser.name(), internal::SubGraph{graph, parser.depth()}).second;
    if (!is_new) {
      in.fail(begins[i], fmt::format("two graphs are called {}", parser.name()));
    }
  }
  return graph;
}

}  // namespace etude
