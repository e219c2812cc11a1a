// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/serve_command.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "etude/base/check.h"

namespace etude::tools {
namespace {

namespace fs = std::filesystem;

// Becomes etude-serve.
void serve(std::vector<std::string> arguments) {
  std::error_code ignored;
  const fs::path program =
      fs::read_symlink("/proc/self/exe", ignored).parent_path() / "etude-serve";
  std::string path = program.string();
  std::vector<char*> argv = {path.data()};
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  ::execv(path.c_str(), argv.data());
  const int code = errno;
  constexpr std::string_view kMissing = ETUDE_SERVE_MISSING;
  if (kMissing.empty() || code != ENOENT) {
    ETUDE_THROW(kNotFound, "serve: the program {} cannot be run: {}", path, std::strerror(code));
  }
  ETUDE_THROW(kNotFound,
              "serve: this build has no server: it needs {}. Get that, and build "
              "etude again",
              kMissing);
}

}  // namespace

void add_serve_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "serves saved functions over HTTP and gRPC; serve --help");
  command->set_help_flag();
  command->prefix_command();
  command->callback([command] { serve(command->remaining()); });
}

}  // namespace etude::tools
