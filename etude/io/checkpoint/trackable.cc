// SPDX-License-Identifier: Apache-2.0
// Kinds of nodes.
#include "etude/io/checkpoint/trackable.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/core/internal/host_door.h"
#include "etude/io/checkpoint/object_graph.h"
#include "etude/stage/trace.h"
#include "etude/variables/variable_state.h"

namespace etude::io {
namespace internal {
namespace {

std::string types_differ(const Type* here, const Type* saved) {
  return fmt::format("{} here, {} in the checkpoint", here->to_string(), saved->to_string());
}

class CoreTrackee final : public Trackee {
 public:
  explicit CoreTrackee(const std::shared_ptr<TrackableCore>& core) : at_(core.get()), core_(core) {}
  Identity identity() const override { return {at_, ""}; }
  std::vector<Edge> edges() const override {
    const auto core = core_.lock();
    return core == nullptr ? std::vector<Edge>{} : core->edges();
  }
  std::optional<std::weak_ptr<const void>> life() const override { return core_; }
  std::shared_ptr<TrackableCore> core() const override { return core_.lock(); }

 private:
  const void* at_;
  std::weak_ptr<TrackableCore> core_;  // objects may refer to each other in circles
};

// The number of the latest restore of each Variable: a later call wins, in any order of edges.
class LastRestores {
 public:
  // Makes an entry, so that exchange() allocates nothing.
  void prepare(const Variable& variable) {
    const std::lock_guard lock(mutex_);
    if (orders_.size() > 2 * live_ + kFree) {
      std::erase_if(orders_, [](const auto& entry) { return entry.second.cell.expired(); });
      live_ = orders_.size();
    }
    Last& last = orders_[variable.ref()];
    if (last.cell.expired()) last = {etude::internal::weak_state(variable), 0};
  }
  // Exchanges the number of a Variable and `order`. Returns false, and changes nothing, if the
  // restore that is being done is not the latest.
  bool exchange(const Variable& variable, int64_t& order, bool is_undone) noexcept {
    const std::lock_guard lock(mutex_);
    int64_t& last = orders_.find(variable.ref())->second.order;
    if (!is_undone && last > order) return false;
    std::swap(last, order);
    return true;
  }
  static LastRestores& global() {
    static LastRestores* made = new LastRestores;  // Variables of static objects may be restored
    return *made;
  }

 private:
  static constexpr std::size_t kFree = 1000;
  struct Last {
    std::weak_ptr<void> cell;  // another Variable may lie where one was
    int64_t order = 0;
  };
  std::mutex mutex_;
  std::map<const void*, Last> orders_;
  std::size_t live_ = 0;
};

class VariableTrackee final : public Trackee {
 public:
  explicit VariableTrackee(Variable variable) : variable_(std::move(variable)) {}
  Identity identity() const override { return {variable_.ref(), ""}; }
  bool takes_values() const override { return true; }
  NamedTensors values() const override {
    require_now("saved");
    ETUDE_REQUIRE_CODE(kFailedPrecondition, variable_.initialized(),
                       "{} has no value yet, so it cannot be saved. Assign one before",
                       etude::internal::title_of(variable_));
    return {{"", variable_.read()}};
  }
  std::string refuse(const NamedTensors& values) const override {
    require_now("restored");
    const Tensor& value = values.at("");
    if (etude::internal::has_value(variable_)) {
      const Type* here = etude::internal::peek(variable_).type();
      if (here == value.type()) return "";
    }
    try {
      etude::internal::require_fits(variable_, value);
    } catch (const Error&) {
      return fmt::format("{}{} here, {} in the checkpoint", name(variable_.dtype()),
                         variable_.shape().to_string(), value.type()->to_string());
    }
    return "";
  }
  PreparedRestore prepare(NamedTensors values, int64_t order) const override {
    LastRestores::global().prepare(variable_);
    return {
        .exchange = [variable = variable_, order, is_done = false,
                     assign = etude::internal::prepare_saved(variable_, values.at(""))]() mutable {
          if (!LastRestores::global().exchange(variable, order, is_done)) return;
          assign();
          is_done = !is_done;
        }};
  }
  std::optional<std::weak_ptr<const void>> life() const override {
    return etude::internal::weak_state(variable_);
  }

 private:
  // In a trace, reads and writes here would concern the value outside, not the value at this point
  // of the program. For a Variable that the trace has just made, both are the same.
  void require_now(std::string_view done) const {
    const auto* trace = etude::internal::TraceContext::innermost();
    if (trace == nullptr) return;
    const bool is_new = std::ranges::any_of(trace->created(), [&](const auto& made) {
      return made.state.lock().get() == variable_.ref();
    });
    ETUDE_REQUIRE_CODE(
        kFailedPrecondition, is_new,
        "{} cannot be {} in function '{}' while that is traced: it would be {} once, "
        "and not when the graph runs. Do it outside of the function, or give that "
        "the option run_eagerly",
        etude::internal::title_of(variable_), done, trace->info().function, done);
  }

  Variable variable_;
};

class TensorTrackee final : public Trackee {
 public:
  explicit TensorTrackee(Tensor& tensor) : tensor_(&tensor) {}
  Identity identity() const override { return {tensor_, ""}; }
  bool takes_values() const override { return true; }
  bool needs_values() const override { return tensor_->has_value(); }
  NamedTensors values() const override {
    if (!tensor_->has_value()) return {};
    return {{"", *tensor_}};
  }
  std::string refuse(const NamedTensors& values) const override {
    const Type* saved = values.at("").type();
    if (!tensor_->has_value() || tensor_->type()->on(Device()) == saved->on(Device())) return "";
    return types_differ(tensor_->type(), saved);
  }
  PreparedRestore prepare(NamedTensors values, int64_t /*order*/) const override {
    return {.exchange = exchange_with(
                *tensor_, etude::internal::restored_to(*tensor_, std::move(values.at(""))))};
  }

 private:
  Tensor* tensor_;
};

class HooksTrackee final : public Trackee {
 public:
  HooksTrackee(Identity identity, Hooks hooks)
      : identity_(std::move(identity)), hooks_(std::move(hooks)) {}
  Identity identity() const override { return identity_; }
  bool takes_values() const override {
    return hooks_.restore != nullptr || hooks_.prepare != nullptr;
  }
  NamedTensors values() const override {
    return hooks_.save == nullptr ? NamedTensors{} : hooks_.save();
  }
  PreparedRestore prepare(NamedTensors values, int64_t /*order*/) const override {
    return prepare_hooks(hooks_, std::move(values));
  }

 private:
  Identity identity_;
  Hooks hooks_;
};

// A struct, or the parts below one of its components.
class PartsTrackee final : public Trackee {
 public:
  PartsTrackee(const void* at, std::string prefix, std::function<std::vector<Part>()> parts)
      : at_(at), prefix_(std::move(prefix)), parts_(std::move(parts)) {}
  Identity identity() const override { return {at_, "/" + prefix_}; }
  // A component gets its own parts, as they are now: each is visited once for each level.
  std::vector<Edge> edges() const override {
    struct Component {
      std::string name;
      std::vector<Part> below;
      TrackeePtr leaf = nullptr;
    };
    std::vector<Component> components;  // in the order of their first parts
    std::unordered_map<std::string, std::size_t> by_name;
    for (Part& part : parts_()) {
      const std::size_t begin = prefix_.size(), slash = part.path.find('/', begin);
      const bool is_leaf = slash == part.path.npos;
      const std::string name = part.path.substr(begin, is_leaf ? slash : slash - begin);
      const auto [at, is_new] = by_name.try_emplace(name, components.size());
      if (is_new) components.push_back({name, {}});
      Component& component = components[at->second];
      ETUDE_REQUIRE(is_new || (!is_leaf && component.leaf == nullptr),
                    "a value and an entry of a map are both called '{}{}'. Leave '/' out "
                    "of keys",
                    prefix_, name);
      if (is_leaf) {
        component.leaf = std::move(part.to);
      } else {
        component.below.push_back(std::move(part));
      }
    }
    std::vector<Edge> out;
    for (Component& component : components) {
      TrackeePtr to = std::move(component.leaf);
      if (to == nullptr) {
        to = std::make_shared<PartsTrackee>(at_, prefix_ + component.name + "/",
                                            [below = std::move(component.below)] { return below; });
      }
      out.push_back({std::move(component.name), std::move(to)});
    }
    return out;
  }

 private:
  const void* at_;
  std::string prefix_;  // ends in '/' unless it is empty
  std::function<std::vector<Part>()> parts_;
};

class KeepingTrackee final : public Trackee {
 public:
  KeepingTrackee(TrackeePtr node, std::shared_ptr<const void> owner)
      : node_(std::move(node)), owner_(std::move(owner)) {}
  Identity identity() const override { return node_->identity(); }
  std::vector<Edge> edges() const override { return node_->edges(); }
  bool takes_values() const override { return node_->takes_values(); }
  bool needs_values() const override { return node_->needs_values(); }
  NamedTensors values() const override { return node_->values(); }
  std::string refuse(const NamedTensors& values) const override { return node_->refuse(values); }
  PreparedRestore prepare(NamedTensors values, int64_t order) const override {
    return node_->prepare(std::move(values), order);
  }
  std::optional<std::weak_ptr<const void>> life() const override { return node_->life(); }
  std::shared_ptr<TrackableCore> core() const override { return node_->core(); }

 private:
  TrackeePtr node_;
  std::shared_ptr<const void> owner_;
};

}  // namespace

TrackeePtr track_core(const std::shared_ptr<TrackableCore>& core) {
  return std::make_shared<CoreTrackee>(core);
}
TrackeePtr track_variable(const Variable& variable) {
  return std::make_shared<VariableTrackee>(variable);
}
TrackeePtr track_tensor(Tensor& tensor) { return std::make_shared<TensorTrackee>(tensor); }
TrackeePtr track_hooks(Identity identity, Hooks hooks) {
  return std::make_shared<HooksTrackee>(std::move(identity), std::move(hooks));
}

PreparedRestore prepare_hooks(const Hooks& hooks, NamedTensors values) {
  if (hooks.prepare != nullptr) return {.exchange = hooks.prepare(std::move(values))};
  PreparedRestore out;
  out.run = [restore = hooks.restore, values = std::move(values)]() mutable {
    restore(std::move(values));
  };
  if (hooks.save == nullptr) return out;
  try {
    out.undo = [restore = hooks.restore, former = hooks.save()]() mutable {
      restore(std::move(former));
    };
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const Error& error) {
    if (may_pass(error.code())) throw;
  } catch (const std::exception&) {  // as any other Error: an object without a state yet
  }
  return out;
}

void add_part(std::vector<Part>& parts, const std::string& path, TrackeePtr node) {
  parts.push_back({path, std::move(node)});
}

TrackeePtr track_parts(const void* at, std::function<std::vector<Part>()> parts) {
  return std::make_shared<PartsTrackee>(at, "", std::move(parts));
}
TrackeePtr keep_with(TrackeePtr node, std::shared_ptr<const void> owner) {
  return std::make_shared<KeepingTrackee>(std::move(node), std::move(owner));
}

TrackeePtr track_generator(Generator& generator) {
  return track_hooks({&generator, ""},
                     {.save =
                          [&generator] {
                            const std::vector<uint64_t> words{generator.seed, generator.stream,
                                                              generator.position};
                            return NamedTensors{{"", Tensor(words)}};
                          },
                      .prepare =
                          [&generator](const NamedTensors& values) {
                            const auto words = values.at("").to_vector<uint64_t>();
                            Generator saved(words.at(0), words.at(1));
                            saved.position = words.at(2);
                            return exchange_with(generator, saved);
                          }});
}

namespace {
Tensor tensor_of(const std::string& text) {
  return Tensor(std::vector<uint8_t>(text.begin(), text.end()));
}
std::string text_of(const Tensor& tensor) {
  const auto bytes = tensor.data<uint8_t>();
  return {bytes.begin(), bytes.end()};
}
}  // namespace

TrackeePtr track_text(std::string& text) {
  return track_hooks({&text, ""}, {.save =
                                       [&text] {
                                         return NamedTensors{{"", tensor_of(text)}};
                                       },
                                   .prepare =
                                       [&text](const NamedTensors& values) {
                                         return exchange_with(text, text_of(values.at("")));
                                       }});
}

NamedTensors position_values(std::vector<int64_t> numbers, const std::string& pipeline) {
  NamedTensors out{{"position", Tensor(numbers)}};
  if (!pipeline.empty()) out.emplace("pipeline", tensor_of(pipeline));
  return out;
}

std::vector<int64_t> position_in(const NamedTensors& values, std::size_t count,
                                 const std::string& pipeline) {
  const auto at = values.find("position"), text = values.find("pipeline");
  ETUDE_REQUIRE(at != values.end() && at->second.size() == static_cast<int64_t>(count),
                "the saved state is no position of this kind");
  const std::string saved = text == values.end() ? "" : text_of(text->second);
  ETUDE_REQUIRE(saved == pipeline,
                "the position is one in '{}', but the data is '{}' now. Make it as it was", saved,
                pipeline);
  return at->second.to_vector<int64_t>();
}

}  // namespace internal

Trackable::Trackable() : core_(std::make_shared<internal::TrackableCore>()) {}
Trackable::~Trackable() = default;

void Trackable::attach(const std::string& name, internal::TrackeePtr to, bool replaces,
                       CallSite where) {
  etude::internal::located(replaces ? "Trackable::replace" : "Trackable::track", where,
                           [&] { core_->attach(name, std::move(to), replaces); });
}

void Trackable::track_state(const std::string& name, std::function<NamedTensors()> save,
                            std::function<void(NamedTensors)> restore, CallSite where) {
  attach(name,
         internal::track_hooks({core_.get(), name},
                               {.save = std::move(save), .restore = std::move(restore)}),
         false, where);
}

void Trackable::untrack(const std::string& name, CallSite where) {
  etude::internal::located("Trackable::untrack", where, [&] { core_->detach(name); });
}

}  // namespace etude::io
