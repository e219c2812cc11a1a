// SPDX-License-Identifier: Apache-2.0
// The models of a server: folders, which are looked at again and again. A version that appears is
// loaded, and takes the place of the one before it when it is ready.
//
// The name of a model is the name of its folder, also if that is a symbolic link.
//
//   lenet/                   saved::save() wrote it: model 'lenet', version 1
//   lenet/3/  lenet/4/       versions of model 'lenet'
//   models/lenet/4/  ...     a folder of models
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "serve/metrics.h"
#include "serve/model.h"
#include "serve/threads.h"

namespace etude::serve {

struct RepositoryOptions {
  ModelOptions model;
  int64_t versions = 1;                  // the newest versions of a model that are served
  std::chrono::milliseconds poll{2000};  // between two looks at the folders
};

// A version, for the repository API.
struct IndexEntry {
  std::string name, version, state, reason;  // READY, UNAVAILABLE
};

// threads: thread-safe.
class Repository {
 public:
  // Loads the models in the folders. `log` gets a line for each event.
  // throws: kNotFound for a folder that does not exist; kInvalidArgument for two folders of one
  //   name, and for a folder of `folders` whose name has not only letters, digits, '.', '_', '-'.
  Repository(std::vector<std::filesystem::path> folders, const RepositoryOptions& options,
             Metrics& metrics, std::function<void(const std::string&)> log);
  // The destructor answers all requests that wait.

  // A version; the newest for "".
  // throws: kNotFound for an unknown model or version; kUnavailable if it is not loaded.
  std::shared_ptr<Model> find(const std::string& name, const std::string& version) const;
  std::vector<std::string> versions_of(const std::string& name) const;
  std::vector<IndexEntry> index() const;
  // Whether every model has a version that answers requests.
  bool is_ready() const;

  // Reads the folder of a model now, also after unload().
  // throws: kNotFound for an unknown model; kUnavailable with the error of its newest version, also
  //   if an older version is still served.
  void load(const std::string& name);
  // Stops serving a model until load().
  // throws: kNotFound.
  void unload(const std::string& name);

 private:
  struct Version {
    std::string stamp;             // of its manifest; of all its files if its last load failed
    std::shared_ptr<Model> model;  // null: it could not be loaded
    std::string error;             // of its last load
  };
  struct Served {
    std::filesystem::path folder;
    std::map<int64_t, Version> versions;
    bool is_unloaded = false;
  };

  void poll(const Threads::Stop& stop);
  void report(const std::exception& error) const noexcept;
  void look();
  std::vector<std::string> find_models();
  void refuse_folder(const std::string& reason, bool is_named);
  void refresh(const std::string& name, bool forced);
  Version load_version(const std::string& name, int64_t version,
                       const std::filesystem::path& folder);
  void retire(std::shared_ptr<Model> model);
  void reap();

  std::vector<std::filesystem::path> folders_;
  RepositoryOptions options_;
  Metrics& metrics_;
  std::function<void(const std::string&)> log_;

  std::mutex loading_;  // held while folders are read; before mutex_
  bool has_started_ = false;
  std::set<std::string> refused_;  // reasons that were reported, under loading_
  mutable std::mutex mutex_;
  std::map<std::string, Served> models_;
  std::vector<std::shared_ptr<Model>> retired_;  // until no request holds them
  std::condition_variable_any changed_;
  std::optional<Threads> poller_;
};

}  // namespace etude::serve
