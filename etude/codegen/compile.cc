// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/compile.h"

#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "etude/base/check.h"
#include "etude/codegen/backend.h"
#include "etude/codegen/check_program.h"
#include "etude/codegen/object_cache.h"

namespace etude::codegen {
namespace {

using CodePtr = std::shared_ptr<const Code>;

// Code by key. An entry without code is being compiled by the thread that made it; others wait. The
// list is in the order of use, the newest first.
class Cache {
 public:
  template <class F>
  CodePtr find_or(const std::string& key, F build) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto found = entries_.find(key);
      if (found == entries_.end()) break;
      if (found->second->code != nullptr) {
        used_.splice(used_.begin(), used_, found->second);
        return found->second->code;
      }
      changed_.wait(lock);  // what was compiled may have failed: look again
    }
    used_.push_front({key, nullptr});
    const auto place = used_.begin();
    entries_.emplace(key, place);
    lock.unlock();
    CodePtr code = build_or_forget(build, place);
    lock.lock();
    place->code = code;
    changed_.notify_all();
    drop_oldest();
    return code;
  }

 private:
  struct Entry {
    std::string key;
    CodePtr code;
  };
  using Place = std::list<Entry>::iterator;

  template <class F>
  CodePtr build_or_forget(F build, Place place) {
    try {
      return build();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      entries_.erase(place->key);
      used_.erase(place);
      changed_.notify_all();
      throw;
    }
  }

  void drop_oldest() {
    constexpr std::size_t kKept = 256;
    auto at = used_.end();
    while (used_.size() > kKept && at != used_.begin()) {
      --at;
      if (at->code == nullptr) continue;  // somebody is about to fill it
      entries_.erase(at->key);
      at = used_.erase(at);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> used_;
  std::unordered_map<std::string, Place> entries_;
};

Cache& cache() {
  static auto* const cache = new Cache;  // lives on: kernels may run while statics are destroyed
  return *cache;
}

CodePtr make(const scalar::Program& program, const CompileOptions& options) {
  return backend::link(backend::object(program, options));
}

// From the disk, or made and stored there.
CodePtr make_or_load(const scalar::Program& program, const CompileOptions& options,
                     const std::string& key) {
  const ObjectCache& disk = ObjectCache::of_process();
  const std::string whole = backend::maker() + "\n" + key;
  if (const std::optional<std::string> stored = disk.find(whole)) {
    try {
      return backend::link(*stored);
    } catch (const Error&) {
      // No object file, although its sum is right: it is made and stored again.
    }
  }
  const std::string object = backend::object(program, options);
  disk.store(whole, object);
  return backend::link(object);
}

void check(const scalar::Program& program, const CompileOptions& options) {
  check_options(options);
  check_program(program);
}

}  // namespace

bool is_available() { return backend::is_available(); }

CompiledProgram compile(const scalar::Program& program, const CompileOptions& options) {
  check(program, options);
  return {make(program, options), options};
}

CompiledProgram compile_cached(const scalar::Program& program, const CompileOptions& options) {
  check(program, options);
  const std::string key = key_of(program, options);
  return {cache().find_or(key, [&] { return make_or_load(program, options, key); }), options};
}

std::string ir_text(const scalar::Program& program, const CompileOptions& options, bool optimized) {
  check(program, options);
  return backend::ir_text(program, options, optimized);
}

std::string assembly_text(const scalar::Program& program, const CompileOptions& options) {
  check(program, options);
  return backend::assembly_text(program, options);
}

}  // namespace etude::codegen
