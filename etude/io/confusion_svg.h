// SPDX-License-Identifier: Apache-2.0
// A confusion matrix as an SVG file. Curves: picture.h; in a terminal: Confusion::to_string.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "etude/base/call_site.h"
#include "etude/nn/metrics.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// Draws a row per label with its samples by predicted class: numbers, and shades by their part of
// the row. `names` are those of the classes, or none.
//
//   io::write_confusion_svg("test.svg", result.confusion, data::kFashionMnistClasses);
//
// throws: kInvalidArgument for a matrix without samples and another number of names; kOutOfRange if
//         there were labels outside; what the file system reports.
void write_confusion_svg(const std::string& path, const nn::Confusion& confusion,
                         std::span<const std::string_view> names = {},
                         CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
