// SPDX-License-Identifier: Apache-2.0
// A confusion matrix as an SVG file. Curves: picture.h; in a terminal: Confusion::to_string.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/nn/metrics/metrics.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// Draws one row per label, with the number of its samples by predicted class, shaded by fraction of
// the row. `names` are the names of the classes, or empty.
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
