// SPDX-License-Identifier: Apache-2.0
// Names of devices as text: whole names, parts of names, and how parts of nested scopes are merged.
// Knows no device of this process: core/device.h finds devices by name.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "etude/version.h"

namespace ETUDE_API etude {

// A pattern of device names. A part that is absent fits every device. Plain value.
struct DeviceName {
  std::optional<std::string> job;  // a word that starts with a letter
  std::optional<int> replica;      // 0 if only job and task are named
  std::optional<int> task;
  std::optional<std::string> type;  // "CPU", "GPU", ...: in capitals
  std::optional<int> index;

  // Reads a name: "cpu:1", "CPU", "device:GPU:0", "/job:worker/task:2/device:GPU:0" with its parts
  // in any order. "*" fits every value of a part; "" is the pattern of all devices. "cuda" is
  // another word for "gpu".
  // throws: kInvalidArgument, quoting the name and the part at fault.
  static DeviceName parse(std::string_view text);
  // Merges this name with `inner`. A part that only one name has is taken from that name. Parts
  // that differ are refused.
  // throws: kInvalidArgument, naming both parts.
  DeviceName merged_strictly(const DeviceName& inner) const;
  // Merges in the same way, but where parts differ the inner part wins. A replaced part also
  // removes the parts below it: another job removes the task, another type removes the index.
  DeviceName merged(const DeviceName& inner) const;
  // Whether a device with the whole name `full` fits this pattern.
  bool fits(const DeviceName& full) const;
  // Whether no part is given.
  bool is_empty() const;
  // "/job:worker/replica:0/task:2/device:GPU:0", without absent parts; "*" for an index of any
  // device of a type; "" if no part is given.
  std::string to_string() const;
  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

std::ostream& operator<<(std::ostream& out, const DeviceName& name);

}  // namespace etude
