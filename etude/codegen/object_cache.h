// SPDX-License-Identifier: Apache-2.0
// Compiled programs on disk, so that the next process need not make them again. One file each, in
// the folder that the environment variable ETUDE_KERNEL_CACHE names ("off": none), else in
// $XDG_CACHE_HOME/etude/kernels or ~/.cache/etude/kernels. Nothing depends on it: what is missing,
// damaged, foreign or cannot be written is as if it were not there.
//
// What is read becomes machine code, so a folder or a file is used only if it belongs to the user
// of this process and nobody else may write to it. Files are written under another name and then
// renamed: a process that dies meanwhile, or two that write the same one, leave none torn.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace etude::codegen {

// thread-safe.
class ObjectCache {
 public:
  // "": no folder.
  explicit ObjectCache(std::string folder) : folder_(std::move(folder)) {}
  // The folder of the environment.
  static const ObjectCache& of_process();

  // The object file that was stored under this key.
  std::optional<std::string> find(std::string_view key) const noexcept;
  // Whether it is there now. Of more than 2,048 files those go that were written first.
  bool store(std::string_view key, std::string_view object) const noexcept;

 private:
  std::string path_of(std::string_view key) const;

  std::string folder_;
};

}  // namespace etude::codegen
