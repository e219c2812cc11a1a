// SPDX-License-Identifier: Apache-2.0
// The lines of text files as a Dataset: for texts that are read while training.
#pragma once

#include <string>

#include "etude/data/dataset.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// The lines of a file in order, without "\n" or "\r\n"; a last line needs no end. Bytes are given
// as they are. The file is opened by each walk and must stay as it is. A walk is resumed by looking
// for line ends alone.
//
// throws: while walking, kNotFound when there is no file, and what else reading it gives.
data::Dataset<std::string> text_lines(const std::string& path);

}  // namespace io
}  // namespace etude
