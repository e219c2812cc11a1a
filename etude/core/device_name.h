// SPDX-License-Identifier: Apache-2.0
// Device names as text: whole names, partial names, and the merging of partial names in nested
// scopes. Does not know the devices of this process: core/device.h finds devices by name.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include "etude/version.h"

namespace ETUDE_API etude {

// A pattern of device names. An absent part fits every device. A plain value type.
struct DeviceName {
  std::optional<std::string> job;  // a word that starts with a letter
  std::optional<int> replica;      // printed as 0 if only job and task are set
  std::optional<int> task;
  std::optional<std::string> type;  // "CPU", "GPU", ...: in capitals
  std::optional<int> index;

  // Parses a name: "cpu:1", "CPU", "device:GPU:0", or "/job:worker/task:2/device:GPU:0" with its
  // parts in any order. "*" fits every value of a part. "" is the pattern of all devices. "cuda"
  // means "gpu".
  // throws: kInvalidArgument, quoting the name and the invalid part.
  static DeviceName parse(std::string_view text);
  // Merges this name with `inner`. A part that only one name has is taken from that name. If both
  // names have a part, they must have the same value for it.
  // throws: kInvalidArgument if a part differs, naming both values.
  DeviceName merged_strictly(const DeviceName& inner) const;
  // As merged_strictly, but if a part differs, the part of `inner` is taken. Another job in `inner`
  // also removes the replica and task of this name; another type removes the index.
  DeviceName merged(const DeviceName& inner) const;
  // Whether a device with the whole name `full` fits this pattern.
  bool fits(const DeviceName& full) const;
  // Whether all parts are absent.
  bool is_empty() const;
  // Returns a text such as "/job:worker/replica:0/task:2/device:GPU:0", without absent parts. If
  // only one of type and index is present, the other is "*". Returns "" if all parts are absent.
  std::string to_string() const;
  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

std::ostream& operator<<(std::ostream& out, const DeviceName& name);

}  // namespace etude
