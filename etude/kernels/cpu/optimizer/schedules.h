// SPDX-License-Identifier: Apache-2.0
// Schedules as data: trees of formulas that the attributes of a call can hold, and their values.
// Eager updates and the op rule_rates run this code, so both compute the same bits. Users write
// schedules with etude/optim/schedule.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace etude::optimizer {

struct ScheduleFormula;  // a row of the table in schedules.cc

struct ScheduleTree {
  const ScheduleFormula* formula = nullptr;
  std::vector<double> numbers = {};
  std::vector<ScheduleTree> parts = {};
  // A host function, which a graph cannot hold; the other members are then unset.
  std::shared_ptr<const std::function<double(int64_t)>> host = nullptr;

  bool operator==(const ScheduleTree& other) const;
};

// The tree of a formula. throws: kInvalidArgument for an unknown name, and for numbers or parts
// that do not fit it.
ScheduleTree make_schedule(std::string_view formula, std::vector<double> numbers,
                           std::vector<ScheduleTree> parts = {});
// The value for an update, counted from 0.
double value_at(const ScheduleTree& tree, int64_t update);
// Whether it contains a host function.
bool needs_host(const ScheduleTree& tree);

// A tree without host functions as attributes: "join(linear_warmup, cosine)", and the numbers of
// its formulas in this order; lists of numbers begin with their length.
std::string formulas_of(const ScheduleTree& tree);
std::vector<double> numbers_of(const ScheduleTree& tree);
// Reads a tree from such attributes. throws: kInvalidArgument for an invalid text or invalid
// numbers.
ScheduleTree read_schedule(std::string_view formulas, std::span<const double> numbers);

}  // namespace etude::optimizer
