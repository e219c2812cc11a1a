// SPDX-License-Identifier: Apache-2.0
#include "python/src/program/batches.h"

#include <utility>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "etude/base/check.h"

namespace etude::python {

data::Samples samples_of(nb::handle inputs, nb::handle labels) {
  return {as_tensor(inputs), as_tensor(labels)};
}

IterableBatches::IterableBatches(nb::handle source, std::optional<int64_t> steps)
    : source_(share(source)),
      steps_(steps),
      is_once_(PyIter_Check(source.ptr()) != 0),
      counts_(steps.has_value()) {
  const bool is_other = PyDict_Check(source.ptr()) != 0 || PyUnicode_Check(source.ptr()) != 0;
  const bool is_iterable =
      !is_other && (nb::hasattr(source, "__iter__") || nb::hasattr(source, "__getitem__"));
  ETUDE_REQUIRE(
      is_iterable || PyCallable_Check(source.ptr()) != 0,
      "fit: the data is a {}. Pass an et.data.Loader, a pair (inputs, labels), an iterable "
      "of batches (inputs, labels), or a function that returns one",
      type_text(source));
  ETUDE_REQUIRE(!steps || *steps > 0, "fit: steps_per_epoch is {}, but must be at least 1",
                steps.value_or(0));
  if (!steps && is_iterable) {
    const Py_ssize_t length = PyObject_LengthHint(source.ptr(), -1);
    if (length < 0) PyErr_Clear();
    // A hint may be wrong, __len__ may not.
    if (length >= 0 && PyObject_HasAttrString(source.ptr(), "__len__") != 0) steps_ = length;
    if (steps_ == 0) throw_no_batches();
  }
}

void IterableBatches::throw_no_batches() const {
  ETUDE_REQUIRE(position_.epoch > 0 || position_.step > 0, "fit: the data has no batches");
  ETUDE_THROW(kInvalidArgument, "fit: the data has no more batches at epoch {}, batch {}. {}",
              position_.epoch + 1, position_.step + 1,
              is_once_ ? "A generator gives its batches once: pass a function that returns a new "
                         "one, such as fit(model, optimizer, lambda: batches(), ...)"
                       : "Each pass over it has to give as many");
}

void IterableBatches::start_pass() {
  nb::object source = nb::borrow(source_->get());
  const bool is_function = !nb::hasattr(source, "__iter__") && !nb::hasattr(source, "__getitem__");
  if (is_function) source = source();
  PyObject* const iterator = PyObject_GetIter(source.ptr());
  if (iterator == nullptr) throw nb::python_error();
  iterator_ = share(nb::steal(iterator));
  read_ = 0;
}

std::optional<data::Samples> IterableBatches::read() {
  PyObject* const got = PyIter_Next(iterator_->get().ptr());
  if (got == nullptr) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return std::nullopt;
  }
  const nb::object item = nb::steal(got);
  const bool is_pair =
      (PyTuple_Check(item.ptr()) != 0 || PyList_Check(item.ptr()) != 0) && nb::len(item) == 2;
  ETUDE_REQUIRE(is_pair, "fit: batch {} of the data is a {}{}, but must be a pair (inputs, labels)",
                read_ + 1, type_text(item),
                PyTuple_Check(item.ptr()) || PyList_Check(item.ptr())
                    ? " of " + std::to_string(nb::len(item)) + " items"
                    : "");
  ++read_;
  return samples_of(nb::object(item[0]), nb::object(item[1]));
}

data::Samples IterableBatches::next() {
  return with_gil([&] {
    if (iterator_ == nullptr) start_pass();
    std::optional<data::Samples> batch = ahead_ ? std::exchange(ahead_, std::nullopt) : read();
    // Epochs of a given length may take several passes.
    if (!batch && counts_ && !is_once_ && read_ > 0) {
      start_pass();
      batch = read();
    }
    if (!batch) throw_no_batches();
    ++position_.step;
    bool is_last = steps_ && position_.step == *steps_;
    if (!steps_) {
      ahead_ = read();
      is_last = !ahead_;
    }
    if (is_last) {
      position_ = {position_.epoch + 1, 0};
      if (!counts_) iterator_ = nullptr;
    }
    return *std::move(batch);
  });
}

void IterableBatches::seek(data::Position position) {
  position_ = position;
  ahead_.reset();
  iterator_ = nullptr;
}

void bind_batches(nb::module_& m) {
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
            const data::Samples batch = released([&] { return self.loader.next(where); });
            return nb::make_tuple(wrap(batch.inputs), wrap(batch.labels));
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
}

}  // namespace etude::python
