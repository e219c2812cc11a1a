// SPDX-License-Identifier: Apache-2.0
#include "etude/files/safe_owner.h"

#include <cerrno>
#include <system_error>

#include <unistd.h>

#include "etude/base/check.h"

namespace etude::internal {

std::string why_unsafe(const struct stat& facts, uid_t also) {
  if (facts.st_uid != ::geteuid() && facts.st_uid != also) {
    return fmt::format("it belongs to user {}", facts.st_uid);
  }
  if ((facts.st_mode & S_IWOTH) != 0) return "all users may write to it";
  const bool is_private_group = facts.st_gid == facts.st_uid;
  if ((facts.st_mode & S_IWGRP) != 0 && !is_private_group) {
    return fmt::format("group {} may write to it", facts.st_gid);
  }
  return "";
}

std::string why_unsafe_program(const std::filesystem::path& path,
                               const std::filesystem::path& beside) {
  std::error_code failed;
  std::filesystem::path at = std::filesystem::canonical(path, failed);
  struct stat neighbour, facts;
  if (failed || ::stat(beside.c_str(), &neighbour) != 0 || ::stat(at.c_str(), &facts) != 0) {
    return "it cannot be looked at";
  }
  if (!S_ISREG(facts.st_mode) || ::access(at.c_str(), X_OK) != 0) return "it is no program";
  for (bool is_file = true;; is_file = false) {
    if (::stat(at.c_str(), &facts) != 0) return "it cannot be looked at";
    const bool is_root = facts.st_uid == 0;
    const bool is_sticky = !is_file && (facts.st_mode & S_ISVTX) != 0;
    if (is_sticky) facts.st_mode &= static_cast<mode_t>(~(S_IWGRP | S_IWOTH));
    const std::string why = why_unsafe(facts, is_root ? 0 : neighbour.st_uid);
    if (!why.empty()) return is_file ? why : fmt::format("'{}': {}", at.string(), why);
    if (at == at.root_path()) return "";
    at = at.parent_path();
  }
}

}  // namespace etude::internal
