// SPDX-License-Identifier: Apache-2.0
// A saved folder, a file of graphs or a checkpoint as one HTML page that needs nothing else. Used
// by `etude inspect --html`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/etude/stored.h"

namespace etude::tools {

// A run of one graph of the page, for its times.
struct TimedGraph {
  std::size_t function = 0, graph = 0;
  GraphRef at_sizes;           // the graph that ran
  std::vector<double> micros;  // by node
  std::string note;            // how it was measured
};

// throws: kResourceExhausted for a graph of more nodes than a page can show.
std::string inspect_html(const Stored& stored, const TimedGraph* timed);

}  // namespace etude::tools
