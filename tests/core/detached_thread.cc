// SPDX-License-Identifier: Apache-2.0
// detached_thread WORK MILLISECONDS: main returns while a detached thread works with tensors.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "etude/etude.h"

using namespace etude;

namespace {

struct Line {
  Tensor slope = ones({3}), offset = ones({3});
};

Tensor curve(const Tensor& x) { return tanh(x) * 2.0F; }

// One turn of the work of this name; false for a name that is none.
bool turn(std::string_view work) {
  if (work == "large") {
    exp(ones({300000}));
  } else if (work == "gradient") {
    gradient([](const Tensor& x) { return sum(x * x); }, ones({100}));
  } else if (work == "tape") {
    // One result of two, so the rule has an absent cotangent.
    gradient([](const Tensor& x) { return sum(top_k(x, 2).values); }, arange(9.5));
  } else if (work == "staged") {
    function(curve)(ones({100}));
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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: detached_thread WORK MILLISECONDS\n");
    return 2;
  }
  std::thread([work = std::string_view(argv[1])] {
    while (turn(work)) {
    }
    std::fprintf(stderr, "no work is called '%s'\n", work.data());
    std::quick_exit(2);
  }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(argv[2])));
  return 0;
}
