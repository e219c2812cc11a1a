// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/spline/memory.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/wait.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace etude::bench::spline {
namespace {

std::size_t allocated = 0;

// Counts page by page. The numbers of getrusage and /proc/self/status lag by more than the bounds
// that are checked here.
long resident_kib() {
  std::FILE* file = std::fopen("/proc/self/smaps_rollup", "r");
  if (file == nullptr) return -1;
  char line[256];
  long kib = -1;
  while (kib < 0 && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, "Anonymous:", 10) == 0) kib = std::strtol(line + 10, nullptr, 10);
  }
  std::fclose(file);
  return kib;
}

// Free memory is first returned to the system, so that its use counts.
void keep_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_MMAP_MAX, 0);
#endif
}

}  // namespace

std::size_t allocations() { return allocated; }

long resident_growth(const std::function<void()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    keep_freed_memory();
    const long before = resident_kib();
    work();
    const long after = resident_kib();
    const long growth = before < 0 || after < 0 ? -1 : after - before;
    const bool told = write(ends[1], &growth, sizeof growth) == sizeof growth;
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  long growth = -1;
  if (child < 0 || read(ends[0], &growth, sizeof growth) != sizeof growth) growth = -1;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return growth;
}

}  // namespace etude::bench::spline

// NOLINTBEGIN(misc-new-delete-overloads): the others call these
void* operator new(std::size_t size) {
  ++etude::bench::spline::allocated;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
// NOLINTEND(misc-new-delete-overloads)
