// SPDX-License-Identifier: Apache-2.0
// etude-bench: the workloads in Etude. See worker.h.
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "benchmarks/workloads/workload.h"
#include "etude/codegen/compiler.h"
#include "etude/device/cpu/parallel.h"
#include "etude/version.h"

int main(int argc, char** argv) {
  using namespace etude::bench;
  if (const char* threads = std::getenv("BENCH_THREADS"))
    etude::set_thread_count(std::atoi(threads));
  std::vector<Workload> all;
  for (auto* family : {small_workloads, dynamic_workloads, network_workloads, deep_workloads,
                       array_workloads, product_workloads, sequence_workloads, layer_workloads,
                       numeric_workloads, file_workloads}) {
    std::vector<Workload> some = family();
    std::transform(some.begin(), some.end(), std::back_inserter(all), with_lazy_mode);
  }
  return run_worker(argc, argv, {"etude", etude::version(), etude::wait_for_compile},
                    std::move(all));
}
