// SPDX-License-Identifier: Apache-2.0
// Writes a confusion matrix as an SVG file. For curves see picture.h. For a terminal see
// Confusion::to_string.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/nn/metrics/metrics.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// Draws one row for each label. A row has the number of samples in each predicted class. The shade
// of a cell is its fraction of the row. `names` are the names of the classes, or empty.
//
//   io::write_confusion_svg("test.svg", result.confusion, data::kFashionMnistClasses);
//
// throws: kInvalidArgument for a matrix without samples, and if the number of names is neither 0
//         nor the number of classes; kOutOfRange if a label was out of range; the errors of
//         AtomicFile.
void write_confusion_svg(const std::string& path, const nn::Confusion& confusion,
                         std::span<const std::string_view> names = {},
                         CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
