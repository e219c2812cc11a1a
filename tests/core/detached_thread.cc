// SPDX-License-Identifier: Apache-2.0
// detached_thread WORK MILLISECONDS: main returns while a detached thread works with tensors.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/core/detached_work.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: detached_thread WORK MILLISECONDS\n");
    return 2;
  }
  detached::start(argv[1]);
  std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(argv[2])));
  return 0;
}
