// SPDX-License-Identifier: Apache-2.0
#include "etude/graph/text/programs.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "etude/base/internal/fork_lock.h"
#include "etude/base/permanent.h"
#include "etude/base/scalars/program_text.h"
#include "etude/core/op/registry.h"

namespace etude::internal {
namespace {

// The program at a place of a record; null if there is none.
const ScalarDef* in_record(const OpDef& def, uint32_t place) {
  const ScalarDef* out = nullptr;
  if (place == 0) {
    out = &def.scalar;
  } else if (place < 4) {
    out = &def.partials.by_operand[place - 1];
  } else if (place < kProgramPlaces && def.scalar.derived != nullptr) {
    out = &def.scalar.derived->by_operand[place - 4];
  }
  return out != nullptr && out->program != nullptr ? out : nullptr;
}

// A number that programs with equal texts share: the text has the name of each function that is
// called. Printing a program takes longer.
uint64_t calls_of(const scalar::Program& program) {
  uint64_t out = 0;
  for (int i = 0; i < program.size; ++i) {
    const scalar::FnInfo& fn = scalar::info(program.nodes[static_cast<std::size_t>(i)].fn);
    if (fn.arity == 0) continue;
    out += (uint64_t{1} << 32) + (fn.op.size() << 8) + static_cast<unsigned char>(fn.op.front());
  }
  return out;
}

// The programs of all records. Each list is made at its first use: a program that runs a graph
// needs no text of programs that the graph does not have.
class Table {
 public:
  explicit Table(std::vector<const Op*> ops) : ops_(std::move(ops)) {}

  std::size_t of_ops() const { return ops_.size(); }

  using Texts = std::map<std::string, std::vector<const ScalarDef*>, std::less<>>;
  const Texts& by_text() const {
    once(has_texts_, [this] {
      each([this](const Op*, uint32_t, const ScalarDef* def) {
        std::vector<const ScalarDef*>& all = texts_[scalar::to_string(*def->program)];
        if (std::ranges::find(all, def) == all.end()) all.push_back(def);
      });
    });
    return texts_;
  }
  // The first program with this text, which is the text of `like`; null if there is none.
  const ScalarDef* first(const scalar::Program& like, std::string_view text) const {
    once(has_calls_, [this] {
      each([this](const Op*, uint32_t, const ScalarDef* def) {
        by_calls_[calls_of(*def->program)].push_back(def);
      });
    });
    const auto found = by_calls_.find(calls_of(like));
    if (found == by_calls_.end()) return nullptr;
    for (const ScalarDef* def : found->second) {
      if (scalar::to_string(*def->program) == text) return def;
    }
    return nullptr;
  }
  ProgramPlace place_of(const ScalarDef* program) const {
    once(has_places_, [this] {
      each([this](const Op* op, uint32_t place, const ScalarDef* def) {
        const auto [known, is_new] = places_.try_emplace(def, ProgramPlace{op, place});
        const bool is_before = op->full_name() < known->second.op->full_name();
        if (!is_new && is_before) known->second = {op, place};
      });
    });
    const auto found = places_.find(program);
    return found == places_.end() ? ProgramPlace{} : found->second;
  }

 private:
  // Makes a list, unless it is made. With std::call_once a child of fork() could wait without end
  // if another thread was making the list.
  template <class Fn>
  void once(bool& is_made, const Fn& make) const {
    const std::lock_guard lock(mutex_);
    if (is_made) return;
    make();
    is_made = true;
  }
  template <class Fn>
  void each(const Fn& fn) const {
    for (const Op* op : ops_) {
      for (uint32_t place = 0; place < kProgramPlaces; ++place) {
        if (const ScalarDef* def = in_record(op->def(), place)) fn(op, place, def);
      }
    }
  }

  std::vector<const Op*> ops_;
  mutable ForkSafeMutex mutex_;
  mutable bool has_texts_ = false, has_calls_ = false, has_places_ = false;
  mutable Texts texts_;
  mutable std::unordered_map<uint64_t, std::vector<const ScalarDef*>> by_calls_;
  mutable std::unordered_map<const ScalarDef*, ProgramPlace> places_;
};

// Made again when there are more records.
std::shared_ptr<const Table> program_table() {
  static auto& mutex = *new ForkSafeMutex;
  static Permanent<std::shared_ptr<const Table>> table;
  std::vector<const Op*> ops = Registry::global().ops();
  const std::lock_guard lock(mutex);
  if (*table == nullptr || (*table)->of_ops() != ops.size()) {
    *table = std::make_shared<const Table>(std::move(ops));
  }
  return *table;
}

// Programs that are in no record, at stable addresses.
class MadePrograms {
 public:
  static MadePrograms& all() {
    static Permanent<MadePrograms> made;  // attributes point into it
    return *made;
  }

  const ScalarDef* find(std::string_view text) const {
    const std::lock_guard lock(mutex_);
    const auto known = by_text_.find(text);
    return known == by_text_.end() ? nullptr : known->second;
  }
  // `text`: of the program.
  const ScalarDef* of(const scalar::Program& program, std::string text) {
    constexpr std::size_t kMost = 16384;  // so that texts from outside cannot fill the memory
    const std::lock_guard lock(mutex_);
    const auto known = by_text_.find(text);
    if (known != by_text_.end()) return known->second;
    if (programs_.size() >= kMost) return nullptr;
    programs_.push_back(program);
    const ScalarDef& def = defs_.emplace_back(ScalarDef{&programs_.back()});
    by_text_.emplace(std::move(text), &def);
    return &def;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<scalar::Program> programs_;
  std::deque<ScalarDef> defs_;
  std::map<std::string, const ScalarDef*, std::less<>> by_text_;
};

// The program of a text that no record has.
const ScalarDef* made_program(const Table& table, std::string_view text) {
  if (const ScalarDef* known = MadePrograms::all().find(text)) return known;
  std::optional<scalar::Program> program = scalar::parse_program(text);
  if (!program) return nullptr;
  // Equal calls in the text become one node, which prints differently, and so does the operand
  // "x01". Printed text parses to itself; a record may have the same text.
  std::string printed = scalar::to_string(*program);
  if (printed != text) {
    if (const ScalarDef* known = table.first(*program, printed)) return known;
    program = scalar::parse_program(printed);
  }
  return MadePrograms::all().of(*program, std::move(printed));
}

}  // namespace

std::string program_text(const ScalarDef* program) {
  if (program == nullptr || program->program == nullptr) return "{}";
  const std::string text = scalar::to_string(*program->program);
  const std::shared_ptr<const Table> table = program_table();
  const Table::Texts& by_text = table->by_text();
  const auto found = by_text.find(text);
  if (found == by_text.end()) return fmt::format("{{{}}}", text);
  const auto at = std::ranges::find(found->second, program);
  if (at == found->second.end() || at == found->second.begin()) return fmt::format("{{{}}}", text);
  return fmt::format("{{{}}}~{}", text, at - found->second.begin() + 1);
}

const ScalarDef* find_program(std::string_view text, uint64_t n) {
  const std::shared_ptr<const Table> table = program_table();
  const Table::Texts& by_text = table->by_text();
  const auto found = by_text.find(text);
  if (found == by_text.end()) return n == 1 ? made_program(*table, text) : nullptr;
  if (n == 0 || n > found->second.size()) return nullptr;
  return found->second[n - 1];
}

const ScalarDef* find_program(const scalar::Program& program) {
  const std::string text = scalar::to_string(program);
  const std::shared_ptr<const Table> table = program_table();
  if (const ScalarDef* known = table->first(program, text)) return known;
  return made_program(*table, text);
}

const ScalarDef* spelled_program(std::string_view spelled) {
  const std::size_t end = spelled.rfind('}');
  if (!spelled.starts_with('{') || end == std::string_view::npos) return nullptr;
  const std::string_view behind = spelled.substr(end + 1);
  uint64_t n = 1;
  if (!behind.empty()) {
    const auto read = std::from_chars(behind.data() + 1, behind.data() + behind.size(), n);
    const bool is_whole = read.ptr == behind.data() + behind.size();
    if (behind[0] != '~' || read.ec != std::errc() || !is_whole || n < 2) return nullptr;
  }
  return find_program(spelled.substr(1, end - 1), n);
}

ProgramPlace place_of_program(const ScalarDef* program) {
  return program_table()->place_of(program);
}

const ScalarDef* program_at(const ProgramPlace& place, std::string_view text) {
  const ScalarDef* def = place.op == nullptr ? nullptr : in_record(place.op->def(), place.place);
  // The text has the meaning: a later release may have another program there.
  if (def != nullptr && scalar::to_string(*def->program) == text) return def;
  return find_program(text, 1);
}

}  // namespace etude::internal
