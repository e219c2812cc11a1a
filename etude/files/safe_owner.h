// SPDX-License-Identifier: Apache-2.0
// Whether a file can be trusted as code: only users that control this process anyway may have
// written it, or may replace it. Used for the kernel cache and for the compiler's program.
#pragma once

#include <filesystem>
#include <string>

#include <sys/stat.h>

namespace etude::internal {

// The reason why another user may have written a file or folder with these facts, or may write to
// it now: "it belongs to user 1000"; "" for none. Owners may be the user of this process and
// `also`. A group may write if it is the private group of the owner, which has the owner's number.
std::string why_unsafe(const struct stat& facts, uid_t also);

// The same for the program at `path` and all folders above it, after symbolic links are followed.
// Root may own them, and the owner of `beside`, a file that this process runs already. A folder in
// which all may write, but remove their own files only, such as /tmp, is safe as a folder above.
std::string why_unsafe_program(const std::filesystem::path& path,
                               const std::filesystem::path& beside);

}  // namespace etude::internal
