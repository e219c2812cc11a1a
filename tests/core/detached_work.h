// SPDX-License-Identifier: Apache-2.0
// The work of a detached thread at the end of a process: of a program (detached_thread.cc), and of
// a plug-in that a bare Python opens (detached_plugin.cc).
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "etude/etude.h"

namespace detached {

using namespace etude;

struct Line {
  Tensor slope = ones({3}), offset = ones({3});
};

inline Tensor curve(const Tensor& x) { return tanh(x) * 2.0F; }

// One turn of the work of this name; false for a name that is none.
inline bool turn(std::string_view work) {
  if (work == "large") {
    exp(ones({300000}));
  } else if (work == "gradient") {
    gradient([](const Tensor& x) { return sum(x * x); }, ones({100}));
  } else if (work == "tape") {
    // One result of two, so the rule has an absent cotangent.
    gradient([](const Tensor& x) { return sum(top_k(x, 2).values); }, arange(9.5));
  } else if (work == "staged") {
    function(curve)(ones({100}));
  } else if (work == "calls") {
    // One function, whose graph, plan and machine code other threads make meanwhile. Never
    // destroyed.
    static const auto& f = *new auto(function([](const Tensor& x) {
      return fold([](const Tensor& s, const Tensor& row) { return tanh(s + row) * 0.5F; }, x,
                  ones({20, 100}));
    }));
    f(ones({100}));
  } else if (work == "fit") {
    nn::Dense model(2, 1);
    optim::Adam optimizer;
    data::Loader samples(data::Samples{ones({8, 2}), ones({8, 1})}, {.batch = 4});
    nn::fit(model, optimizer, samples, nn::mean_squared_error, {.epochs = 1});
  } else if (work == "lazy") {
    const LazyScope scope;
    const Tensor x = exp(ones({100})) + 1.0F;
    lazy_barrier();
  } else if (work == "random") {
    random::normal({100});
  } else if (work == "error") {
    try {
      matmul(ones({2, 3}), ones({2, 3}));
    } catch (const Error&) {
      return true;
    }
  } else if (work == "freeze") {
    Line line;
    optim::SGD optimizer;
    optimizer.add(optim::freeze("offset"));
    optimizer.update(line,
                     gradient([](const Line& l) { return sum(l.slope * 2.0F + l.offset); }, line));
  } else {
    return false;
  }
  return true;
}

// Starts a detached thread that works until the process ends.
inline void start(std::string work) {
  std::thread([work = std::move(work)] {
    while (turn(work)) {
    }
    std::fprintf(stderr, "no work is called '%s'\n", work.c_str());
    std::quick_exit(2);
  }).detach();
}

}  // namespace detached
