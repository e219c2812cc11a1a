// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/compile.h"

#include <atomic>
#include <condition_variable>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <pthread.h>

#include "etude/base/check.h"
#include "etude/codegen/check_program.h"
#include "etude/codegen/cluster_request.h"
#include "etude/codegen/kept_code.h"
#include "etude/codegen/load_object.h"
#include "etude/codegen/object_cache.h"
#include "etude/codegen/worker.h"

namespace etude::codegen {
namespace {

using CodePtr = std::shared_ptr<const Code>;

// Code by key. An entry without code is being compiled by the thread that made it; others wait. The
// list is in the order of use, the newest first.
class Cache {
 public:
  // For a child of fork(): the finished code. The compiling thread and the waiting threads do not
  // exist there.
  Cache* copy_for_child() const {
    auto* const out = new Cache;
    for (const Entry& entry : used_) {
      if (entry.code == nullptr) continue;
      out->used_.push_back(entry);
      out->entries_.emplace(entry.key, std::prev(out->used_.end()));
    }
    return out;
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

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
      changed_.wait(lock);  // the compilation may have failed: look again
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
      if (at->code == nullptr) continue;  // still compiling
      entries_.erase(at->key);
      at = used_.erase(at);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> used_;
  std::unordered_map<std::string, Place> entries_;
};

std::atomic<Cache*> the_cache{nullptr};

Cache& cache() {
  static const bool is_made = [] {
    the_cache = new Cache;  // lives on: kernels may run while statics are destroyed
    return pthread_atfork([] { the_cache.load()->lock(); }, [] { the_cache.load()->unlock(); },
                          [] {
                            Cache* const old = the_cache.load();
                            the_cache = old->copy_for_child();
                            old->unlock();
                          }) == 0;
  }();
  static_cast<void>(is_made);
  return *the_cache.load();
}

// The name of code for people: the text of its program, or "cluster".
std::string name_of(const Request& request) {
  const std::size_t line = request.source.find('\n');
  const bool has_text = request.kind == "program" && line != std::string::npos;
  return has_text ? request.source.substr(line + 1) : request.kind;
}

CodePtr link(const Request& request, const std::string& object) {
  CodePtr out = load_object(object, name_of(request));
  note_code(out->entry(), request, object);
  return out;
}

// From the disk, or made and stored there.
CodePtr make_or_load(const Request& request, const std::string& key) {
  const ObjectCache& disk = ObjectCache::of_process();
  const std::string whole = maker() + "\n" + key;
  if (const std::optional<std::string> stored = disk.find(whole)) {
    try {
      return link(request, *stored);
    } catch (const Error&) {
      // No object file, although its sum is right: it is made and stored again.
    }
  }
  const std::string object = Worker::of_process().make(request);
  disk.store(whole, object);
  return link(request, object);
}

void check(const scalar::Program& program, const CompileOptions& options) {
  check_options(options);
  check_program(program);
}

}  // namespace

bool is_available() { return Worker::of_process().why_absent().empty(); }

CompiledProgram compile(const scalar::Program& program, const CompileOptions& options) {
  check(program, options);
  return {load_object(Worker::of_process().make(request_of(Product::kObject, program, options))),
          options};
}

void prepare_cache_for_forks() { static_cast<void>(cache()); }

CompiledProgram compile_cached(const scalar::Program& program, const CompileOptions& options) {
  check(program, options);
  const std::string key = key_of(program, options);
  const auto build = [&] {
    return make_or_load(request_of(Product::kObject, program, options), key);
  };
  return {cache().find_or(key, build), options};
}

CompiledCluster compile_cluster(const internal::Cluster& cluster, const CompileOptions& options) {
  check_options(options);
  internal::check(cluster);
  const std::string key = fmt::format("cluster {} {}\n{}", static_cast<int>(options.tier),
                                      internal::name(options.isa), internal::to_string(cluster));
  const auto build = [&] {
    return make_or_load(request_of(Product::kObject, cluster, options), key);
  };
  return {cache().find_or(key, build)};
}

std::string cluster_ir_text(const internal::Cluster& cluster, const CompileOptions& options,
                            bool optimized) {
  check_options(options);
  internal::check(cluster);
  return Worker::of_process().make(
      request_of(optimized ? Product::kOptimizedIr : Product::kIr, cluster, options));
}

std::string cluster_assembly_text(const internal::Cluster& cluster, const CompileOptions& options) {
  check_options(options);
  internal::check(cluster);
  return Worker::of_process().make(request_of(Product::kAssembly, cluster, options));
}

std::string ir_text(const scalar::Program& program, const CompileOptions& options, bool optimized) {
  check(program, options);
  return Worker::of_process().make(
      request_of(optimized ? Product::kOptimizedIr : Product::kIr, program, options));
}

std::string assembly_text(const scalar::Program& program, const CompileOptions& options) {
  check(program, options);
  return Worker::of_process().make(request_of(Product::kAssembly, program, options));
}

}  // namespace etude::codegen
