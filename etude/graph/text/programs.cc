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
#include <vector>

#include <fmt/format.h>

#include "etude/base/internal/fork_lock.h"
#include "etude/base/permanent.h"
#include "etude/base/scalars/program_text.h"
#include "etude/core/op/registry.h"

namespace etude::internal {
namespace {

struct Table {
  std::map<std::string, std::vector<const ScalarDef*>, std::less<>> by_text;
  std::unordered_map<const ScalarDef*, ProgramPlace> places;
};

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

Table make_table(const std::vector<const Op*>& ops) {
  Table table;
  for (const Op* op : ops) {
    for (uint32_t place = 0; place < kProgramPlaces; ++place) {
      const ScalarDef* def = in_record(op->def(), place);
      if (def == nullptr) continue;
      const auto [known, is_new] = table.places.try_emplace(def, ProgramPlace{op, place});
      if (is_new) {
        table.by_text[scalar::to_string(*def->program)].push_back(def);
      } else if (op->full_name() < known->second.op->full_name()) {
        known->second = {op, place};
      }
    }
  }
  return table;
}

// The programs of all records; rebuilt when there are more records.
std::shared_ptr<const Table> program_table() {
  static auto& mutex = *new ForkSafeMutex;
  static std::size_t of_ops = 0;
  static Permanent<std::shared_ptr<const Table>> table;
  const std::vector<const Op*> ops = Registry::global().ops();
  const std::lock_guard lock(mutex);
  if (*table == nullptr || of_ops != ops.size()) {
    *table = std::make_shared<const Table>(make_table(ops));
    of_ops = ops.size();
  }
  return *table;
}

// Programs that are in no record, at stable addresses.
class MadePrograms {
 public:
  const ScalarDef* of(const scalar::Program& program) {
    constexpr std::size_t kMost = 16384;  // so that texts from outside cannot fill the memory
    const std::lock_guard lock(mutex_);
    std::string text = scalar::to_string(program);
    const auto known = by_text_.find(text);
    if (known != by_text_.end()) return known->second;
    if (programs_.size() >= kMost) return nullptr;
    programs_.push_back(program);
    const ScalarDef& def = defs_.emplace_back(ScalarDef{&programs_.back()});
    by_text_.emplace(std::move(text), &def);
    return &def;
  }

 private:
  std::mutex mutex_;
  std::deque<scalar::Program> programs_;
  std::deque<ScalarDef> defs_;
  std::map<std::string, const ScalarDef*, std::less<>> by_text_;
};

const ScalarDef* made_program(const Table& table, std::string_view text) {
  static Permanent<MadePrograms> made;  // attributes point into it
  std::optional<scalar::Program> program = scalar::parse_program(text);
  if (!program) return nullptr;
  // Equal calls in the text become one node, which prints differently, and so does the operand
  // "x01". Printed text parses to itself; a record may have the same text.
  const std::string printed = scalar::to_string(*program);
  if (printed == text) return made->of(*program);
  const auto found = table.by_text.find(printed);
  if (found != table.by_text.end()) return found->second.front();
  return made->of(*scalar::parse_program(printed));
}

}  // namespace

std::string program_text(const ScalarDef* program) {
  if (program == nullptr || program->program == nullptr) return "{}";
  const std::string text = scalar::to_string(*program->program);
  const std::shared_ptr<const Table> table = program_table();
  const auto found = table->by_text.find(text);
  if (found == table->by_text.end()) return fmt::format("{{{}}}", text);
  const auto at = std::ranges::find(found->second, program);
  if (at == found->second.end() || at == found->second.begin()) return fmt::format("{{{}}}", text);
  return fmt::format("{{{}}}~{}", text, at - found->second.begin() + 1);
}

const ScalarDef* find_program(std::string_view text, uint64_t n) {
  const std::shared_ptr<const Table> table = program_table();
  const auto found = table->by_text.find(text);
  if (found == table->by_text.end()) return n == 1 ? made_program(*table, text) : nullptr;
  if (n == 0 || n > found->second.size()) return nullptr;
  return found->second[n - 1];
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
  const std::shared_ptr<const Table> table = program_table();
  const auto found = table->places.find(program);
  return found == table->places.end() ? ProgramPlace{} : found->second;
}

const ScalarDef* program_at(const ProgramPlace& place, std::string_view text) {
  const ScalarDef* def = place.op == nullptr ? nullptr : in_record(place.op->def(), place.place);
  // The text has the meaning: a later release may have another program there.
  if (def != nullptr && scalar::to_string(*def->program) == text) return def;
  return find_program(text, 1);
}

}  // namespace etude::internal
