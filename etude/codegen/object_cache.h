// SPDX-License-Identifier: Apache-2.0
// A cache of compiled programs on disk, so that later processes need not compile them again. Each
// program is a file in the folder of the environment variable ETUDE_KERNEL_CACHE ("off": no cache),
// else in $XDG_CACHE_HOME/etude/kernels or ~/.cache/etude/kernels. A file that is missing, damaged
// or of another user, or that cannot be written, is treated as absent, so no result depends on the
// cache.
//
// Its contents become machine code, so a folder or a file is used only if it belongs to the user of
// this process and no other user may write to it. Files are written under a temporary name and then
// renamed. So no partial file remains if a process dies while writing, or if two processes write
// the same file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace etude::codegen {

// threads: thread-safe.
class ObjectCache {
 public:
  // "": no folder.
  explicit ObjectCache(std::string folder) : folder_(std::move(folder)) {}
  // The cache in the folder of the environment.
  static const ObjectCache& of_process();

  // The object file that was stored under this key.
  std::optional<std::string> find(std::string_view key) const noexcept;
  // Returns whether it is stored now. If there are more than 2,048 files, the oldest are removed:
  // only files that a cache has written.
  bool store(std::string_view key, std::string_view object) const noexcept;

 private:
  std::string path_of(std::string_view key) const;

  std::string folder_;
};

}  // namespace etude::codegen
