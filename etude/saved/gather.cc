// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/gather.h"

#include <algorithm>
#include <map>
#include <optional>
#include <type_traits>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/saved/gather_function.h"
#include "etude/saved/loaded.h"
#include "etude/saved/structure.h"

namespace etude::saved::internal {
namespace {

void require_name(const std::string& name) {
  ETUDE_REQUIRE(!name.empty() && name.find('/') == name.npos,
                "'{}' is no name of an entry: it is empty or has a '/', which separates the parts "
                "of paths",
                name);
}

class Gatherer {
 public:
  explicit Gatherer(const SaveOptions& options) : options_(options), store_(out_) {}

  Gathered gather(const std::vector<Entry>& entries) {
    std::set<std::string> names;
    for (const Entry& entry : entries) {
      require_name(entry.name());
      ETUDE_REQUIRE(names.insert(entry.name()).second, "the name '{}' is given twice",
                    entry.name());
      if (entry.object() && entry.object()->parts)
        objects_by_identity_[identity(*entry.object())] = entry.name();
    }
    prefixes_ = std::move(names);
    for (const Entry& entry : entries) find_bound(entry);
    for (const Entry& entry : entries) {
      if (entry.object()) add_object(entry.name(), *entry.object());
      if (entry.loaded() != nullptr) add_loaded(entry);
    }
    for (const Entry& entry : entries) {
      if (entry.function()) {
        FunctionGatherer gatherer(store_, options_, entry.name(), *entry.function());
        out_.functions.push_back(gatherer.gather(
            [&](const BoundObject& object) -> BoundState& { return state_of(object); }));
        if (out_.functions.back().graphs.empty()) {
          warnings_.push_back(
              fmt::format("function '{}' has no graph, so it cannot be called after loading. Call "
                          "it once before it is saved, or give it a signature",
                          entry.name()));
        }
      } else if (entry.loaded() != nullptr) {
        add_loaded_functions(entry);
      }
    }
    for (const std::string& name : options_.signatures) export_signature(out_, name);
    add_assets();
    return {std::move(out_), std::move(warnings_)};
  }

 private:
  using Key = std::pair<const void*, std::type_index>;
  static Key identity(const GivenObject& object) { return {object.at, object.type}; }

  // An object to which functions are bound is state, and not an object of the program.
  void find_bound(const Entry& entry) {
    if (!entry.function()) return;
    for (const BoundObject& object : entry.function()->bound)
      bound_.insert({object.at, object.type});
  }

  // Returns the state of a bound object, which all functions share.
  BoundState& state_of(const BoundObject& object) {
    const Key key{object.at, object.type};
    const auto known = states_.find(key);
    if (known != states_.end()) return known->second;
    const auto named = objects_by_identity_.find(key);
    std::string prefix = named != objects_by_identity_.end() ? named->second : object.name;
    if (named == objects_by_identity_.end()) {
      for (int n = 1; !prefixes_.insert(prefix).second; ++n) {
        prefix = fmt::format("{}_{}", object.name, n);
      }
    }
    return states_.emplace(key, BoundState{std::move(prefix), {}}).first->second;
  }

  void add_object(const std::string& name, const GivenObject& object) {
    if (!object.parts) {
      for (const auto& [path, cell] : object.cells) store_.expect(joined(name, path), cell);
      return;
    }
    const Parts& given = *object.parts;
    if (bound_.contains(identity(object))) {  // its tensors are state of the functions
      given.each_part([&](const FormLeaf& leaf, const auto& value) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Variable>) {
          store_.add(value, joined(name, leaf.path));
        }
      });
      return;
    }
    std::vector<std::string> lost;
    const std::optional<Parts> kept = rebuilt(given, [&](std::size_t i) -> std::optional<Parts> {
      return Parts::at(given, given.leaf(i), [&](const auto& value) -> std::optional<Parts> {
        using T = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Variable>) {
          return Parts(value);
        } else if constexpr (std::is_same_v<T, Described>) {
          if (is_storable(value)) return Parts(value);
          lost.push_back(
              fmt::format("'{}' ({})", joined(name, given.leaf(i).path), value.type_name()));
          return std::nullopt;
        } else {
          Parts leaf = empty_leaf(given.leaf(i));
          set_tensor(leaf, 0, tensor_of(given, i));
          return leaf;
        }
      });
    });
    if (!lost.empty()) {
      warnings_.push_back(
          fmt::format("{} cannot be saved and {} left out: a file holds tensors, Variables, "
                      "numbers and texts",
                      fmt::join(lost, ", "), lost.size() == 1 ? "is" : "are"));
    }
    if (kept) add_parts(name, *kept);
  }

  void add_parts(const std::string& name, const Parts& parts) {
    SavedObject made{name, parts};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const FormLeaf& leaf = parts.leaf(i);
      made.is_variable.push_back(leaf.kind == LeafKind::kVariable ? 1 : 0);
      if (leaf.kind == LeafKind::kVariable) {
        made.values.push_back(store_.add(parts.variable(leaf.path), joined(name, leaf.path)));
      } else {
        const Tensor value = tensor_of(parts, i);
        made.values.push_back(value.has_value() ? store_.constant(value) : -1);
      }
    }
    out_.objects.push_back(std::move(made));
  }

  // The state and the objects of a loaded program.
  void add_loaded(const Entry& entry) {
    const Loaded& program = *entry.loaded();
    const std::string prefix = entry.name() + "/";
    std::set<int64_t> used;
    if (entry.loaded_function() >= 0) {
      const SavedFunction& only =
          program.content.functions[static_cast<std::size_t>(entry.loaded_function())];
      for (const SavedGraph& graph : only.graphs) add_used(graph, used);
    }
    for (std::size_t v = 0; v < program.content.variables.size(); ++v) {
      const bool is_used = used.contains(static_cast<int64_t>(v));
      if (entry.loaded_function() >= 0 && !is_used) continue;
      store_.add(program.content.variables[v], prefix);
    }
    if (entry.loaded_function() >= 0) return;
    for (const SavedObject& object : program.content.objects) {
      add_parts(prefix + object.name, object.parts);
    }
    for (const SavedAsset& asset : program.content.assets) add_asset(asset.from, asset.name);
  }
  static void add_used(const SavedGraph& graph, std::set<int64_t>& used) {
    for (const SavedTensor& x : graph.tensors) used.insert(x.state);
    for (const SavedUse& use : graph.uses) used.insert(use.variable);
  }

  void add_loaded_functions(const Entry& entry) {
    const Loaded& program = *entry.loaded();
    for (std::size_t i = 0; i < program.content.functions.size(); ++i) {
      const bool is_only = entry.loaded_function() == static_cast<int64_t>(i);
      if (entry.loaded_function() >= 0 && !is_only) continue;
      SavedFunction copy = program.content.functions[i];
      copy.name = is_only ? entry.name() : entry.name() + "/" + copy.name;
      const auto moved = [&](int64_t v) {
        if (v < 0) return v;
        const SavedVariable& from = program.content.variables[static_cast<std::size_t>(v)];
        return store_.find(from.variable->ref());
      };
      for (SavedGraph& graph : copy.graphs) {
        for (SavedTensor& x : graph.tensors) x.state = moved(x.state);
        for (SavedUse& use : graph.uses) use.variable = moved(use.variable);
        for (int64_t& c : graph.captures) {
          c = store_.constant(program.content.constants[static_cast<std::size_t>(c)]);
        }
      }
      out_.functions.push_back(std::move(copy));
    }
  }

  void add_assets() {
    for (const std::filesystem::path& from : options_.assets) {
      add_asset(from, from.filename().string());
    }
  }
  void add_asset(const std::filesystem::path& from, const std::string& name) {
    ETUDE_REQUIRE(!name.empty() && name != "." && name != "..",
                  "asset '{}' has no file name. Give the path of a file", from.string());
    const auto known = std::ranges::find(out_.assets, name, &SavedAsset::name);
    if (known == out_.assets.end()) {
      out_.assets.push_back({name, "", from});
      return;
    }
    std::error_code none;
    ETUDE_REQUIRE(std::filesystem::equivalent(known->from, from, none),
                  "assets '{}' and '{}' have one file name. Rename one of the files",
                  known->from.string(), from.string());
  }

  const SaveOptions& options_;
  Content out_;
  Store store_;
  std::map<Key, std::string> objects_by_identity_;
  std::set<Key> bound_;
  std::map<Key, BoundState> states_;
  std::set<std::string> prefixes_;
  std::vector<std::string> warnings_;
};

}  // namespace

Gathered gather(const std::vector<Entry>& entries, const SaveOptions& options) {
  return Gatherer(options).gather(entries);
}

}  // namespace etude::saved::internal
