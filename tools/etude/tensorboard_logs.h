// SPDX-License-Identifier: Apache-2.0
// Graphs as logs of TensorBoard, for `etude inspect --tensorboard`.
#pragma once

#include <string>

#include "tools/etude/stored.h"

namespace etude::tools {

// Writes a folder of logs for each graph below `logs`: "predict", "predict_2", ... Graphs for the
// sizes 1 and 0 are left out. throws: kInvalidArgument for content without functions; the errors of
// nn::EventFile.
void write_tensorboard(const Stored& stored, const std::string& logs);

}  // namespace etude::tools
