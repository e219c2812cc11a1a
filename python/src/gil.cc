// SPDX-License-Identifier: Apache-2.0
// References to Python objects that die on a thread without the GIL.
#include <atomic>

#include "python/src/bind.h"

namespace etude::python {
namespace {

struct Waiting {
  PyObject* object;
  Waiting* next;
};
std::atomic<Waiting*> waiting{nullptr};

bool is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

int release_from_interpreter(void*) {
  release_pending();
  return 0;
}

}  // namespace

void release_later(PyObject* object) noexcept {
  if (is_finalizing()) return;  // its destructor may not run any more
  if (PyGILState_Check() != 0) {
    Py_DECREF(object);
    return;
  }
  auto* entry = new (std::nothrow) Waiting{object, waiting.load(std::memory_order_relaxed)};
  if (entry == nullptr) return;
  while (!waiting.compare_exchange_weak(entry->next, entry, std::memory_order_release)) {
  }
  // The interpreter empties the list even if the program calls Etude no more.
  Py_AddPendingCall(release_from_interpreter, nullptr);
}

void release_pending() noexcept {
  if (waiting.load(std::memory_order_relaxed) == nullptr) return;
  Waiting* entry = waiting.exchange(nullptr, std::memory_order_acquire);
  while (entry != nullptr) {
    Py_DECREF(entry->object);
    delete std::exchange(entry, entry->next);
  }
}

}  // namespace etude::python
