// SPDX-License-Identifier: Apache-2.0
// Pictures of training runs for notebooks and files: curves, and confusion matrices.
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "etude/base/check.h"
#include "etude/io/confusion_svg.h"
#include "etude/io/picture.h"
#include "etude/nn/metrics/metrics.h"
#include "python/src/program/held.h"

namespace etude::python {
namespace {

void write_curves(const std::string& path, const nb::dict& curves, const std::string& title,
                  const std::string& x, const std::string& y, bool log_y) {
  std::vector<io::Curve> all;
  for (const auto& [name, values] : curves) {
    all.push_back({nb::cast<std::string>(name), nb::cast<std::vector<float>>(values)});
  }
  const CallSite where = here();
  with_user_line(
      [&] { io::write_svg(path, all, {.title = title, .x = x, .y = y, .log_y = log_y}, where); });
}

nb::list matrix_of(const nn::Confusion& confusion) {
  nb::list out;
  const int64_t n = confusion.classes();
  for (int64_t label = 0; label < n; ++label) {
    nb::list row;
    for (int64_t predicted = 0; predicted < n; ++predicted) {
      row.append(confusion.count(label, predicted));
    }
    out.append(row);
  }
  return out;
}

}  // namespace

void bind_pictures(nb::module_& m) {
  m.def("_write_curves", write_curves);
  nb::class_<nn::Confusion>(m, "Confusion", "The numbers of samples by label and predicted class.")
      .def(nb::init<>())
      .def(
          "update",
          [](nn::Confusion& self, nb::handle predicted, nb::handle labels) {
            const Tensor p = as_tensor(predicted), y = as_tensor(labels);
            const CallSite where = here();
            with_user_line_released([&] { self.update(p, y, where); });
          },
          nb::arg("predicted"), nb::arg("labels"))
      .def_prop_ro("accuracy", [](const nn::Confusion& self) { return self.accuracy(); })
      .def("tolist", matrix_of, "A row for each label, a column for each predicted class.")
      .def("_write",
           [](const nn::Confusion& self, const std::string& path,
              const std::vector<std::string>& names) {
             const std::vector<std::string_view> views(names.begin(), names.end());
             const CallSite where = here();
             with_user_line([&] { io::write_confusion_svg(path, self, views, where); });
           })
      .def("__repr__", [](const nn::Confusion& self) { return self.to_string(); });
}

}  // namespace etude::python
