// SPDX-License-Identifier: Apache-2.0
#include "etude/io/internal/prepared_restore.h"

#include <cstddef>
#include <exception>
#include <new>

#include "etude/base/check.h"
#include "etude/io/checkpoint/object_graph.h"

namespace etude::io::internal {
namespace {

using Objects = std::vector<const PreparedRestore*>;

// Undoes runs, the last run first. Removes the undone objects from `done`; the others may keep
// their saved state.
void undo_runs(Objects& done) noexcept {
  for (std::size_t i = done.size(); i > 0; --i) {
    const auto at = done.begin() + static_cast<std::ptrdiff_t>(i - 1);
    if ((*at)->undo == nullptr) continue;
    try {
      (*at)->undo();
      done.erase(at);
    } catch (...) {  // the error of the run is thrown, and names this object
    }
  }
}

// Throws the exception that is handled, with the object that it comes from.
[[noreturn]] void throw_refused(std::string_view source, std::string_view path,
                                const Objects& kept = {}) {
  const auto text = [&](std::string_view reason) {
    std::string outcome = kept.empty() ? "nothing was restored" : "only these may have theirs:";
    for (const PreparedRestore* object : kept) outcome += fmt::format(" '{}'", object->path);
    return fmt::format("checkpoint '{}': '{}' does not take its saved state; {}: {}", source, path,
                       outcome, reason);
  };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    if (kept.empty()) throw;
    throw Error(ErrorCode::kResourceExhausted, text("the host has no memory left"));
  } catch (const Error& error) {
    throw Error(may_pass(error.code()) ? error.code() : ErrorCode::kInvalidArgument,
                text(error.what()));
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalidArgument, text(error.what()));
  }
}

}  // namespace

void prepare_at(std::string_view source, std::string_view path,
                etude::internal::FunctionRef<void()> prepare) {
  try {
    prepare();
  } catch (...) {
    throw_refused(source, path);
  }
}

void restore_all(std::vector<PreparedRestore> objects, std::string_view source) {
  Objects run;
  run.reserve(objects.size());
  for (const PreparedRestore& object : objects) {
    if (object.exchange != nullptr) object.exchange();
  }
  try {
    for (const PreparedRestore& object : objects) {
      if (object.run == nullptr) continue;
      run.push_back(&object);
      object.run();
    }
  } catch (...) {
    const std::string& path = run.back()->path;
    for (auto object = objects.rbegin(); object != objects.rend(); ++object) {
      if (object->exchange != nullptr) object->exchange();
    }
    undo_runs(run);
    throw_refused(source, path, run);
  }
}

}  // namespace etude::io::internal
