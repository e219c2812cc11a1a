// SPDX-License-Identifier: Apache-2.0
#include "etude/eager/owner_lock.h"

#include <thread>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace etude::internal {
namespace {

bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

thread_local constinit char OwnerLock::token_ = 0;
const bool OwnerLock::has_barrier_ = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);

// A guest is inside or waiting: the mutex decides.
void OwnerLock::lock_as_host() {
  inside_.store(false, std::memory_order_release);
  mutex_.lock();
  has_mutex_ = true;
}

void OwnerLock::lock_as_guest() {
  guests_.fetch_add(1, std::memory_order_seq_cst);
  mutex_.lock();
  // The children of a registered process are registered too. If the call still fails, the slow
  // barrier needs no registration.
  if (has_barrier_ && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
    membarrier(MEMBARRIER_CMD_GLOBAL);
  }
  while (inside_.load(std::memory_order_seq_cst)) std::this_thread::yield();
}

void OwnerLock::unlock_as_guest() noexcept {
  mutex_.unlock();
  guests_.fetch_sub(1, std::memory_order_release);
}

}  // namespace etude::internal
