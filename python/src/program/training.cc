// SPDX-License-Identifier: Apache-2.0
// fit, evaluate and predict for models of Python, over the training loop of nn/fit: the model is an
// nn::Layer whose computation is a Python callable.
#include <memory>
#include <utility>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "etude/base/check.h"
#include "etude/data/fashion_mnist.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/io/safetensors.h"
#include "etude/nn/fit/callbacks.h"
#include "etude/nn/fit/fit.h"
#include "python/src/program/batches.h"
#include "python/src/program/held.h"
#include "python/src/program/layers.h"
#include "python/src/program/optimizers.h"
#include "python/src/program/python_function.h"
#include "python/src/program/shared_leaves.h"
#include "python/src/program/staged.h"

namespace etude::python {
namespace {

// A model of Python: its parts travel through the library, its computation is a call of the object.
class PythonModel {
 public:
  // With `converts`, its control flow is converted, as in a staged function.
  explicit PythonModel(nb::handle model, bool converts = false)
      : tree_(tree_of(model, Numbers::kKeep)), shared_(tree_), layer_(make_layer(model, converts)) {
    ETUDE_REQUIRE(
        PyCallable_Check(model.ptr()) != 0,
        "the model is a {}, which cannot be called. Give its class a method __call__(self, "
        "x)",
        type_text(model));
  }
  nn::Layer& layer() { return layer_; }

  // While the library trains the parts, the objects of Python have no tensors, so that updates
  // happen in place.
  void take_tensors() const {
    for (std::size_t i = 0; i < tree_.leaves.size(); ++i) {
      if (tree_.def->leaves[i] == NodeKind::kTensor && is_tensor(tree_.leaves[i])) {
        mutable_tensor_of(tree_.leaves[i]).reset();
      }
    }
  }
  // Sets the objects to the parts as they are. Requires the GIL.
  void publish() const {
    Parts parts = layer_;
    shared_.fill(parts);
    assign_leaves(tree_, std::move(parts));
  }

 private:
  nn::Layer make_layer(nb::handle model, bool converts) const {
    const TreeDef* const def = tree_.def;
    // Trained tensors come as parts: only host values are kept.
    std::vector<nb::object> kept = tree_.leaves;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (def->leaves[i] == NodeKind::kTensor || def->leaves[i] == NodeKind::kState) {
        kept[i] = nb::none();
      }
    }
    const auto hosts = std::make_shared<KeptLeaves>(kept);
    SharedObject call;
    const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(model.ptr())));
    if (converts && nb::hasattr(type, "__call__")) call = share(converted(type.attr("__call__")));
    // The training has an object at several paths once.
    Parts trained = parts_of_tree(tree_);
    shared_.take_away(trained);
    const auto run = [def, hosts, call, shared = shared_](const Parts& given, const Tensor& x) {
      return with_gil([&] {
        Parts parts = given;
        shared.fill(parts);
        std::vector<nb::object> before = leaves_of_parts(*def, parts, hosts->get());
        shared.join(before);
        const nb::object model = unflatten(*def, before);
        const nb::object y = call == nullptr ? model(wrap(x)) : call->get()(model, wrap(x));
        require_unchanged(*def, before, parts, model);
        ETUDE_REQUIRE(is_tensor(y) || is_array_like(y),
                      "the model returned {}, but must return one tensor{}",
                      y.is_none() ? "None" : "a " + type_text(y),
                      y.is_none() ? " (is a return missing?)" : "");
        return as_tensor(y);
      });
    };
    return nn::Layer(std::move(trained), run);
  }

  // A call gets a model of its own, so that changes of it would be lost.
  static void require_unchanged(const TreeDef& def, std::span<const nb::object> before,
                                const Parts& parts, const nb::object& model) {
    constexpr const char* kAdvice =
        "a training passes a copy to each call, so that the change would be lost. Return the "
        "value, "
        "keep it outside of the model, or train with a loop of your own";
    const Tree after = tree_of(model, Numbers::kKeep);
    ETUDE_REQUIRE(after.def == &def, "the model changes its parts while it is called, to {}: {}",
                  after.def->to_string(), kAdvice);
    const Parts now = parts_of_tree(after);
    std::size_t i = 0;
    const auto require_same = [&](bool is_same) {
      ETUDE_REQUIRE(is_same, "the model changes its part '{}' while it is called: {}",
                    def.python_path(i), kAdvice);
    };
    for (; i < before.size(); ++i) {
      if (def.leaves[i] == NodeKind::kHost) require_same(after.leaves[i].is(before[i]));
    }
    std::vector<const void*> refs;
    for_each_leaf<Tensor>(parts, [&](const Tensor& x) { refs.push_back(x.ref()); });
    std::size_t next = 0;
    for_each_leaf<Tensor>(now, [&](const std::string& path, const Tensor& x) {
      ETUDE_REQUIRE(x.ref() == refs[next++],
                    "the model changes its part '{}' while it is called: {}", path, kAdvice);
    });
  }

  Tree tree_;
  SharedLeaves shared_;
  nn::Layer layer_;
};

// A loss of the library, or a callable of the program.
class PythonLoss {
 public:
  explicit PythonLoss(nb::handle loss, bool converts = false) {
    if (nb::isinstance<KindObject>(loss)) {
      known_ = nb::cast<KindObject&>(loss).made.as<kinds::Loss>(here());
    } else if (nb::hasattr(loss, "_loss")) {
      known_ = nb::cast<KindObject&>(loss.attr("_loss")).made.as<kinds::Loss>(here());
    } else {
      ETUDE_REQUIRE(PyCallable_Check(loss.ptr()) != 0,
                    "the loss is a {}, but must be a function loss(predicted, labels)",
                    type_text(loss));
      callable_ = share(converts ? converted(loss) : nb::borrow(loss));
    }
  }
  Tensor operator()(const Tensor& predicted, const Tensor& labels) const {
    if (known_) return known_(predicted, labels);
    return with_gil([&] { return as_tensor(callable_->get()(wrap(predicted), wrap(labels))); });
  }

 private:
  kinds::Loss known_;
  SharedObject callable_;
};

constexpr const char* kEvents[] = {"fit_start",        "fit_end",        "epoch_start",
                                   "epoch_end",        "training_start", "training_end",
                                   "validation_start", "validation_end", "batch_start",
                                   "batch_end",        "update_start",   "inference_end"};

nb::dict record(const nn::EpochRecord& epoch) {
  nb::dict out;
  out["epoch"] = epoch.epoch;
  for (const auto& [name, value] : nn::numbers_of(epoch)) out[name.c_str()] = value;
  return out;
}

nn::Cancel cancel_of(const std::string& part) {
  if (part == "batch") return nn::Cancel::kBatch;
  if (part == "part") return nn::Cancel::kPart;
  if (part == "epoch") return nn::Cancel::kEpoch;
  ETUDE_REQUIRE(part == "fit",
                "a callback returned '{}'. Return None to go on, or the part to end: "
                "'batch', 'part', 'epoch' or 'fit'",
                part);
  return nn::Cancel::kFit;
}

// et.nn.keep_best(): the model at the end of the run is the model after the best epoch.
struct KeepBestObject {
  nn::Monitored monitor;
};

// callback(event, state), which may return the part of the run to end.
nn::Callback callback_of(nb::handle callback, PythonModel& model) {
  if (nb::isinstance<KindObject>(callback)) {
    return nb::cast<KindObject&>(callback).made.as<nn::Callback>(here());
  }
  if (nb::isinstance<KeepBestObject>(callback)) {
    return nn::keep_best(model.layer(), nb::cast<KeepBestObject&>(callback).monitor, here());
  }
  ETUDE_REQUIRE(
      PyCallable_Check(callback.ptr()) != 0,
      "fit: a callback is a {}, but must be an object of et.nn, such as et.nn.progress(), "
      "or a function callback(event, state)",
      type_text(callback));
  return [f = share(callback), &model](nn::Event event, nn::FitState& state) {
    with_gil([&] {
      nb::dict shown;
      shown["epoch"] = state.epoch;
      shown["epochs"] = state.epochs;
      shown["step"] = state.step;
      shown["steps"] = state.steps;
      shown["batch_loss"] = state.batch_loss;
      shown["loss"] = state.loss.result();
      shown["gradient_norm"] = state.gradient_norm;
      nb::list epochs;
      for (const nn::EpochRecord& each : state.history.epochs) epochs.append(record(each));
      shown["history"] = epochs;
      // A callback sees the model as it is now.
      if (event == nn::Event::kEpochEnd || event == nn::Event::kFitEnd) model.publish();
      const nb::object said = f->get()(kEvents[static_cast<int>(event)], shown);
      if (said.is_none()) return;
      const nn::Cancel part = cancel_of(nb::cast<std::string>(said));
      state.cancel = std::max(state.cancel, part);
      if (state.history.why.empty()) state.history.why = "a callback ended it";
    });
  };
}

nn::Metrics metrics_of(const nb::dict& given) {
  nn::Metrics out;
  for (const auto& [name, metric] : given) {
    out.emplace(nb::cast<std::string>(name), nb::cast<MetricObject&>(metric).metric);
  }
  return out;
}

nn::Mode mode_of(const std::string& mode) {
  if (mode == "eager") return nn::Mode::kEager;
  if (mode == "staged") return nn::Mode::kStaged;
  ETUDE_REQUIRE(mode == "lazy", "fit: mode is '{}', but must be 'eager', 'staged' or 'lazy'", mode);
  return nn::Mode::kLazy;
}
nn::NonFinite non_finite_of(const std::string& word) {
  if (word == "go_on") return nn::NonFinite::kGoOn;
  if (word == "stop") return nn::NonFinite::kStop;
  if (word == "skip") return nn::NonFinite::kSkip;
  ETUDE_REQUIRE(word == "restore_best",
                "fit: on_non_finite is '{}', but must be 'go_on', 'stop', 'skip' or 'restore_best'",
                word);
  return nn::NonFinite::kRestoreBest;
}

nb::dict evaluation(const nn::Evaluation& made) {
  nb::dict out;
  out["loss"] = made.loss;
  out["accuracy"] = made.accuracy;
  for (const auto& [name, value] : made.metrics) out[name.c_str()] = value;
  if (made.confusion.classes() > 0) out["confusion"] = nb::cast(made.confusion);
  return out;
}

// The options of fit as they are in C++. The optimiser lends its state to callbacks.
nn::FitOptions options_of(const nb::dict& given, PythonModel& model, RunOptimizer& optimizer) {
  nn::FitOptions options;
  options.epochs = nb::cast<int64_t>(given["epochs"]);
  options.mode = mode_of(nb::cast<std::string>(given["mode"]));
  options.prolong = nb::cast<bool>(given["prolong"]);
  options.on_non_finite = non_finite_of(nb::cast<std::string>(given["on_non_finite"]));
  options.gradient_norms = nb::cast<bool>(given["gradient_norms"]);
  options.metrics = metrics_of(nb::cast<nb::dict>(given["metrics"]));
  for (const nb::handle each : nb::iter(nb::object(given["callbacks"]))) {
    options.callbacks.push_back(
        [callback = callback_of(each, model), &optimizer](nn::Event event, nn::FitState& state) {
          optimizer.lend([&] { callback(event, state); });
        });
  }
  return options;
}

nb::dict history_of(const nn::History& history) {
  nb::dict out;
  nb::list epochs;
  for (const nn::EpochRecord& each : history.epochs) epochs.append(record(each));
  out["epochs"] = epochs;
  out["batch_losses"] = history.batch_losses;
  out["gradient_norms"] = history.gradient_norms;
  out["skipped_batches"] = history.skipped_batches;
  out["was_cancelled"] = history.was_cancelled;
  out["why"] = history.why;
  return out;
}

FitData data_of(nb::handle data, const nb::dict& given) {
  const auto steps = nb::cast<std::optional<int64_t>>(given["steps_per_epoch"]);
  if (nb::isinstance<LoaderObject>(data)) {
    ETUDE_REQUIRE(!steps, "fit: steps_per_epoch is for iterables; the Loader knows its {} steps",
                  nb::cast<LoaderObject&>(data).loader.steps_per_epoch());
    return FitData(nb::cast<LoaderObject&>(data).loader);
  }
  return FitData(IterableBatches(data, steps));
}

nb::dict fit(nb::handle model, nb::handle optimizer, nb::handle data, nb::handle loss,
             const nb::dict& given) {
  const CallSite where = here();
  const bool is_staged = nb::cast<std::string>(given["mode"]) == "staged";
  PythonModel python(model, is_staged);
  const PythonLoss of(loss, is_staged);
  FitData batches = data_of(data, given);
  ETUDE_REQUIRE(is_optimizer(optimizer),
                "fit: the optimizer is a {}, but must be one of et.optim, such as et.optim.Adam()",
                type_text(optimizer));
  const uint64_t key = key_of_optimizer(optimizer);
  const FilledOptimizer filled(optimizer);
  RunOptimizer run(*filled, key);
  filled.set_changed();
  nn::FitOptions options = options_of(given, python, run);
  const nb::object validation = given["validation"];
  if (!validation.is_none()) {
    const data::Samples held_out = samples_of(nb::object(validation[0]), nb::object(validation[1]));
    options.validation = [&, held_out, where] {
      return nn::evaluate(python.layer(), data::batches(held_out, 500), of, options.metrics, where);
    };
  }
  nb::dict out;
  python.take_tensors();
  try {
    const nn::History history = with_user_line_released(
        [&] { return nn::fit(python.layer(), run, batches, of, options, where); });
    out = history_of(history);
  } catch (...) {
    run.give_back();
    python.publish();
    throw;
  }
  run.give_back();
  python.publish();
  return out;
}

nb::dict evaluate(nb::handle model, nb::handle inputs, nb::handle labels, nb::handle loss,
                  int64_t batch, const nb::dict& metrics) {
  const CallSite where = here();
  PythonModel python(model);
  const PythonLoss of(loss);
  const data::Samples samples = samples_of(inputs, labels);
  const nn::Metrics all = metrics_of(metrics);
  return evaluation(with_user_line_released(
      [&] { return nn::evaluate(python.layer(), data::batches(samples, batch), of, all, where); }));
}

nb::object predict(nb::handle model, nb::handle inputs, int64_t batch) {
  const CallSite where = here();
  PythonModel python(model);
  const Tensor x = as_tensor(inputs);
  return wrap(with_user_line_released(
      [&] { return nn::predict(python.layer(), data::batches(x, batch), where); }));
}

void save_model(nb::handle model, const std::string& path,
                const std::map<std::string, std::string>& metadata) {
  const Tree tree = tree_of(model, Numbers::kKeep);
  require_file_paths(tree, "et.io.save");
  const Parts parts = parts_of_tree(tree);
  io::Metadata stored(metadata.begin(), metadata.end());
  const CallSite where = here();
  with_user_line_released([&] { io::save(parts, path, stored, where); });
}
void load_model(nb::handle model, const std::string& path) {
  const Tree tree = tree_of(model, Numbers::kKeep);
  require_file_paths(tree, "et.io.load");
  Parts parts = parts_of_tree(tree);
  const CallSite where = here();
  with_user_line_released([&] { io::load(parts, path, {}, where); });
  assign_leaves(tree, std::move(parts));
}
void save_checkpoint(const std::string& path, nb::handle model, nb::handle optimizer,
                     const LoaderObject& data) {
  const Tree tree = tree_of(model, Numbers::kKeep);
  require_file_paths(tree, "et.io.save_checkpoint");
  const Parts parts = parts_of_tree(tree);
  const FilledOptimizer filled(optimizer);
  const CallSite where = here();
  with_user_line_released(
      [&] { io::save_checkpoint(path, parts, *filled, data.loader, {}, where); });
}
void load_checkpoint(const std::string& path, nb::handle model, nb::handle optimizer,
                     LoaderObject& data) {
  const Tree tree = tree_of(model, Numbers::kKeep);
  Parts parts = parts_of_tree(tree);
  const FilledOptimizer filled(optimizer);
  filled.set_changed();
  const CallSite where = here();
  with_user_line_released([&] { io::load_checkpoint(path, parts, *filled, data.loader, where); });
  assign_leaves(tree, std::move(parts));
}

nb::tuple batch_of(const data::Samples& batch) {
  return nb::make_tuple(wrap(batch.inputs), wrap(batch.labels));
}

}  // namespace

void bind_training(nb::module_& m) {
  nb::class_<KeepBestObject>(m, "_KeepBest")
      .def(
          "__init__",
          [](KeepBestObject* self, nb::handle monitor) {
            nn::Monitored what;
            if (!monitor.is_none())
              what = nb::cast<KindObject&>(monitor).made.as<nn::Monitored>(here());
            nn::internal::check_monitored("keep_best", what, here());
            new (self) KeepBestObject{std::move(what)};
          },
          nb::arg("monitor").none());
  m.def("_fit", fit);
  m.def("_evaluate", evaluate);
  m.def("_predict", predict);
  m.def("_save_model", save_model);
  m.def("_load_model", load_model);
  m.def("_save_checkpoint", save_checkpoint);
  m.def("_load_checkpoint", load_checkpoint);
  m.def("_fashion_mnist", [](const std::string& folder) {
    const CallSite where = here();
    const data::FashionMnist all = with_user_line_released([&] {
      data::FashionMnistOptions options;
      if (!folder.empty()) options.folder = folder;
      return data::fashion_mnist(options, where);
    });
    return nb::make_tuple(batch_of(all.train), batch_of(all.test));
  });
}

}  // namespace etude::python
