// SPDX-License-Identifier: Apache-2.0
// fit, evaluate and predict for models of Python, over the training loop of nn/fit: the model is an
// nn::Layer whose computation is a Python callable.
#include <memory>
#include <utility>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "etude/base/check.h"
#include "etude/data/fashion_mnist.h"
#include "etude/data/loader.h"
#include "etude/io/checkpoint/checkpoint.h"
#include "etude/io/safetensors.h"
#include "etude/nn/fit/fit.h"
#include "python/src/program/held.h"
#include "python/src/program/layers.h"
#include "python/src/program/python_function.h"

namespace etude::python {
namespace {

struct LoaderObject {
  data::Loader<data::Samples> loader;
};

// A model of Python: its parts travel through the library, its computation is a call of the object.
class PythonModel {
 public:
  explicit PythonModel(nb::handle model)
      : tree_(tree_of(model, Numbers::kKeep)),
        hosts_(std::make_shared<KeptLeaves>(tree_.leaves)),
        layer_(make_layer()) {
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
  void publish() const { assign_leaves(tree_, layer_); }

 private:
  nn::Layer make_layer() const {
    const TreeDef* const def = tree_.def;
    // Trained tensors come as parts: only host values are kept.
    std::vector<nb::object> kept = tree_.leaves;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (def->leaves[i] == NodeKind::kTensor || def->leaves[i] == NodeKind::kState) {
        kept[i] = nb::none();
      }
    }
    const auto hosts = std::make_shared<KeptLeaves>(kept);
    return nn::Layer(parts_of_tree(tree_), [def, hosts](const Parts& parts, const Tensor& x) {
      return with_gil([&] {
        const nb::object model = tree_of_parts(*def, parts, hosts->get());
        return as_tensor(model(wrap(x)));
      });
    });
  }

  Tree tree_;
  std::shared_ptr<KeptLeaves> hosts_;
  nn::Layer layer_;
};

// A loss of the library, or a callable of the program.
class PythonLoss {
 public:
  explicit PythonLoss(nb::handle loss) {
    if (nb::isinstance<KindObject>(loss)) {
      known_ = nb::cast<KindObject&>(loss).made.as<kinds::Loss>(here());
    } else if (nb::hasattr(loss, "_loss")) {
      known_ = nb::cast<KindObject&>(loss.attr("_loss")).made.as<kinds::Loss>(here());
    } else {
      callable_ = share(loss);
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

// callback(event, state), which may return the part of the run to end.
nn::Callback callback_of(nb::handle callback, const PythonModel& model) {
  if (nb::isinstance<KindObject>(callback)) {
    return nb::cast<KindObject&>(callback).made.as<nn::Callback>(here());
  }
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

// Ctrl-C ends a run after a batch; the model then has the state after the last one.
void look_for_signals(nn::Event event, nn::FitState&) {
  if (event != nn::Event::kBatchEnd) return;
  with_gil([] {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
}

nn::Metrics metrics_of(const nb::dict& given) {
  nn::Metrics out;
  for (const auto& [name, metric] : given) {
    out.emplace(nb::cast<std::string>(name), nb::cast<MetricObject&>(metric).metric);
  }
  return out;
}

nn::Mode mode_of(const std::string& mode) {
  ETUDE_REQUIRE(
      mode == "eager" || mode == "lazy",
      "fit: mode is '{}', but must be 'eager' or 'lazy'. A staged step is written by hand, "
      "with @et.function(donate=...)",
      mode);
  return mode == "lazy" ? nn::Mode::kLazy : nn::Mode::kEager;
}
nn::NonFinite non_finite_of(const std::string& word) {
  if (word == "go_on") return nn::NonFinite::kGoOn;
  if (word == "stop") return nn::NonFinite::kStop;
  ETUDE_REQUIRE(word == "skip", "fit: on_non_finite is '{}', but must be 'go_on', 'stop' or 'skip'",
                word);
  return nn::NonFinite::kSkip;
}

nb::dict evaluation(const nn::Evaluation& made) {
  nb::dict out;
  out["loss"] = made.loss;
  out["accuracy"] = made.accuracy;
  for (const auto& [name, value] : made.metrics) out[name.c_str()] = value;
  return out;
}

data::Samples samples_of(nb::handle inputs, nb::handle labels) {
  return {as_tensor(inputs), as_tensor(labels)};
}

// The steps of nn::fit, without its staged mode: an optimiser of a kind is no structure.
void run_steps(nn::Layer& model, OptimizerObject& optimizer, data::Loader<data::Samples>& data,
               const PythonLoss& loss, nn::internal::FitRun& run, const nn::FitOptions& options,
               CallSite where) {
  const bool is_lazy = options.mode == nn::Mode::kLazy;
  const auto step = [&](const data::Samples& batch) {
    run.state().batch_size = batch.inputs.shape()[0];
    if (run.emit(nn::Event::kBatchStart, nn::Cancel::kBatch)) {
      const PhaseScope training(Phase::kTraining);
      std::optional<LazyScope> lazy;
      if (is_lazy) lazy.emplace();
      const auto [given, gradients] =
          nn::internal::infer(model, batch.inputs, batch.labels, loss,
                              optimizer.optimizer->loss_scale(), options.gradient_norms, where);
      if (run.may_update(given, batch.labels)) {
        optimizer.optimizer->update(model, gradients, where);
      }
      if (is_lazy) lazy_barrier({}, where);
    }
    lazy_barrier({}, where);
    return run.end_batch();
  };
  run.emit(nn::Event::kFitStart, nn::Cancel::kFit);
  while (data.position().epoch < options.epochs && !run.is_cancelled(nn::Cancel::kFit)) {
    const int64_t epoch = data.position().epoch;
    run.start_epoch(epoch, data.position().step);
    if (run.emit(nn::Event::kEpochStart, nn::Cancel::kEpoch) &&
        run.emit(nn::Event::kTrainingStart, nn::Cancel::kPart)) {
      bool goes_on = true;
      while (goes_on && data.position().epoch == epoch) goes_on = step(data.next());
      run.emit(nn::Event::kTrainingEnd, nn::Cancel::kEpoch);
    }
    const bool was_cut_short = data.position().epoch == epoch;
    if (was_cut_short && !run.is_cancelled(nn::Cancel::kFit)) data.seek({epoch + 1, 0});
    run.end_epoch();
  }
  run.emit(nn::Event::kFitEnd, nn::Cancel::kFit);
  nn::internal::warn_of_waiting(*optimizer.optimizer, where);
}

nb::dict fit(nb::handle model, OptimizerObject& optimizer, LoaderObject& data, nb::handle loss,
             const nb::dict& given) {
  const CallSite where = here();
  PythonModel python(model);
  const PythonLoss of(loss);
  nn::FitOptions options;
  options.epochs = nb::cast<int64_t>(given["epochs"]);
  options.mode = mode_of(nb::cast<std::string>(given["mode"]));
  options.prolong = nb::cast<bool>(given["prolong"]);
  options.on_non_finite = non_finite_of(nb::cast<std::string>(given["on_non_finite"]));
  options.gradient_norms = nb::cast<bool>(given["gradient_norms"]);
  options.metrics = metrics_of(nb::cast<nb::dict>(given["metrics"]));
  for (const nb::handle each : nb::iter(nb::object(given["callbacks"]))) {
    options.callbacks.push_back(callback_of(each, python));
  }
  options.callbacks.emplace_back(look_for_signals);
  const nb::object validation = given["validation"];
  data::Samples held_out;
  if (!validation.is_none()) {
    held_out = samples_of(nb::object(validation[0]), nb::object(validation[1]));
    options.validation = [&, where] {
      return nn::evaluate(python.layer(), data::batches(held_out, 500), of, options.metrics, where);
    };
  }
  nb::dict out;
  python.take_tensors();
  try {
    nn::History history = with_user_line_released([&] {
      etude::internal::check_options("fit", options, where);
      nn::internal::require_same_epochs(options, data.loader.plan().epochs,
                                        data.loader.plan().checkpoint, where);
      data.loader.set_plan({.epochs = options.epochs});
      lazy_barrier({}, where);
      nn::internal::FitRun run(options, data.loader.steps_per_epoch());
      run_steps(python.layer(), optimizer, data.loader, of, run, options, where);
      run.state().history.was_cancelled = run.is_cancelled(nn::Cancel::kFit);
      return std::move(run.state().history);
    });
    nb::list epochs;
    for (const nn::EpochRecord& each : history.epochs) epochs.append(record(each));
    out["epochs"] = epochs;
    out["batch_losses"] = history.batch_losses;
    out["gradient_norms"] = history.gradient_norms;
    out["skipped_batches"] = history.skipped_batches;
    out["was_cancelled"] = history.was_cancelled;
    out["why"] = history.why;
  } catch (...) {
    python.publish();
    throw;
  }
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
  const Parts parts = parts_of_tree(tree_of(model, Numbers::kKeep));
  io::Metadata stored(metadata.begin(), metadata.end());
  const CallSite where = here();
  with_user_line_released([&] { io::save(parts, path, stored, where); });
}
void load_model(nb::handle model, const std::string& path) {
  const Tree tree = tree_of(model, Numbers::kKeep);
  Parts parts = parts_of_tree(tree);
  const CallSite where = here();
  with_user_line_released([&] { io::load(parts, path, {}, where); });
  assign_leaves(tree, std::move(parts));
}
void save_checkpoint(const std::string& path, nb::handle model, const OptimizerObject& optimizer,
                     const LoaderObject& data) {
  const Parts parts = parts_of_tree(tree_of(model, Numbers::kKeep));
  const CallSite where = here();
  with_user_line_released(
      [&] { io::save_checkpoint(path, parts, *optimizer.optimizer, data.loader, {}, where); });
}
void load_checkpoint(const std::string& path, nb::handle model, OptimizerObject& optimizer,
                     LoaderObject& data) {
  const Tree tree = tree_of(model, Numbers::kKeep);
  Parts parts = parts_of_tree(tree);
  const CallSite where = here();
  with_user_line_released(
      [&] { io::load_checkpoint(path, parts, *optimizer.optimizer, data.loader, where); });
  assign_leaves(tree, std::move(parts));
}

nb::tuple batch_of(const data::Samples& batch) {
  return nb::make_tuple(wrap(batch.inputs), wrap(batch.labels));
}

}  // namespace

void bind_training(nb::module_& m) {
  nb::class_<LoaderObject>(m, "Loader",
                           "An endless series of batches over samples in memory, shuffled for each "
                           "epoch. The position can be saved and restored.")
      .def(
          "__init__",
          [](LoaderObject* self, nb::handle inputs, nb::handle labels, int64_t batch, uint64_t seed,
             bool shuffle, bool keep_remainder, int prefetch) {
            const CallSite where = here();
            new (self) LoaderObject{data::Loader<data::Samples>(samples_of(inputs, labels),
                                                                {.batch = batch,
                                                                 .seed = seed,
                                                                 .shuffle = shuffle,
                                                                 .keep_remainder = keep_remainder,
                                                                 .prefetch = prefetch},
                                                                where)};
          },
          nb::arg("inputs"), nb::arg("labels"), nb::kw_only(), nb::arg("batch") = 32,
          nb::arg("seed") = 0, nb::arg("shuffle") = true, nb::arg("keep_remainder") = false,
          nb::arg("prefetch") = 2)
      .def(
          "next",
          [](LoaderObject& self) {
            const CallSite where = here();
            return batch_of(released([&] { return self.loader.next(where); }));
          },
          "The next batch: (inputs, labels).")
      .def(
          "seek",
          [](LoaderObject& self, int64_t epoch, int64_t step) {
            const CallSite where = here();
            released([&] { self.loader.seek({epoch, step}, where); });
          },
          nb::arg("epoch"), nb::arg("step"))
      .def_prop_ro("position",
                   [](const LoaderObject& self) {
                     return std::pair(self.loader.position().epoch, self.loader.position().step);
                   })
      .def_prop_ro("steps_per_epoch",
                   [](const LoaderObject& self) { return self.loader.steps_per_epoch(); })
      .def_prop_ro("samples", [](const LoaderObject& self) { return self.loader.samples(); });
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
