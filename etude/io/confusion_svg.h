// SPDX-License-Identifier: Apache-2.0
// A confusion matrix as an SVG file. For curves see picture.h, for a terminal Confusion::to_string.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/nn/metrics/metrics.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// Draws one row for each label: the number of its samples in each predicted class, shaded by the
// fraction of the row. `names` are the names of the classes, or empty.
//
//   io::write_confusion_svg("test.svg", result.confusion, data::kFashionMnistClasses);
//
// throws: kInvalidArgument for a matrix without samples and for another number of names;
//         kOutOfRange if there were labels out of range; the errors of AtomicFile.
void write_confusion_svg(const std::string& path, const nn::Confusion& confusion,
                         std::span<const std::string_view> names = {},
                         CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
