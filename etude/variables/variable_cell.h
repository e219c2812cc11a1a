// SPDX-License-Identifier: Apache-2.0
// The state of a Variable, which its handles share. Used by variable.cc.
//
// threads: fields are read and written under `mutex`. No host code of a program and no call of an
// op that may wait for another thread runs under it: an initialiser, a warning, a copy from a
// device or recorded calls run before, and the lock is taken for the result.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "etude/base/call_site.h"
#include "etude/base/check.h"
#include "etude/core/call/builtin.h"
#include "etude/core/context/pending.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/traced.h"
#include "etude/core/tensor.h"
#include "etude/variables/open_shape.h"

namespace etude::internal {

// Whether x has no elements and will have none: it is a placeholder of a trace, or an example of a
// vmap.
inline bool is_standing(const Tensor& x) noexcept {
  return x.has_value() && TensorAccess::is_abstract(x) && !internal::is_unrun(x);
}

struct VariableCell : std::enable_shared_from_this<VariableCell> {
  std::recursive_mutex mutex;  // a staged call that assigns holds it around its own assignments
  Tensor value;
  std::function<Tensor()> initialiser;
  std::optional<DType> dtype;
  std::optional<Shape> shape;  // declared sizes; kAny where they may change
  std::string name;
  bool trainable = true;
  CallSite where;
  Tensor resource;  // represents the cell in calls, with the type of the value

  std::string title() const { return name.empty() ? "Variable" : "Variable '" + name + "'"; }
  std::string made() const {
    return where.known() ? fmt::format("{} made at {}:{}", title(), where.file, where.line)
                         : title();
  }

  void require_fits(const Tensor& x) const {
    ETUDE_REQUIRE(!dtype || x.dtype() == *dtype,
                  "{} is {}, but the value is {}. Cast the value: astype(x, {})", title(),
                  etude::name(*dtype), etude::name(x.dtype()), etude::name(*dtype));
    ETUDE_REQUIRE(!shape || internal::admits(*shape, x.shape()),
                  "{} has shape {}, but the value has shape {}. Reshape the value, or declare the "
                  "sizes that may change as kAny",
                  title(), shape->to_string(), x.shape().to_string());
  }

  // Takes x as the value, with a new identity: without the history of x.
  void set(const Tensor& x) {
    require_fits(x);
    Tensor next = with_type(to_dense(x), x.type());
    if (is_unrun(next)) keep_before(*pending_mark(next));
    value = std::move(next);
    initialiser = nullptr;
  }

  // If recorded calls fail, the Variable gets its value from before them again.
  void keep_before(PendingMark& next) {
    if (!value.has_value()) return;
    Tensor before = is_unrun(value) ? pending_mark(value)->take_before() : Tensor();
    if (!before.has_value()) before = owner_of_elements(value);
    next.keep_before({std::move(before), weak_from_this(), restore});
  }
  static void restore(void* holder) {
    VariableCell& cell = *static_cast<VariableCell*>(holder);
    const std::lock_guard lock(cell.mutex);
    if (!is_unrun(cell.value)) return;
    PendingMark& mark = *pending_mark(cell.value);
    if (!mark.has_failed()) return;
    Tensor before = mark.take_before();
    if (!before.has_value()) return;
    try {
      before = with_type(before, before.type());
    } catch (const std::exception&) {  // no memory for a new identity
    }
    cell.value = std::move(before);
  }

  // The value. Runs the initialiser if there is none yet, so the caller must not hold the lock.
  Tensor ready() {
    {
      const std::lock_guard lock(mutex);
      if (value.has_value()) return value;
    }
    initialise();
    const std::lock_guard lock(mutex);
    return value;
  }
  // Locks the cell once its value has elements. The initialiser and recorded calls run before.
  std::unique_lock<std::recursive_mutex> lock_with_elements() {
    for (;;) {
      std::unique_lock lock(mutex);
      if (value.has_value() && !is_unrun(value)) return lock;
      lock.unlock();
      observe(ready(), where);
    }
  }

  Tensor as_initial(const Tensor& x) const { return to_dense(dtype ? cast(x, *dtype) : x); }
  void set_initial(Tensor x) {
    x = as_initial(x);
    if (!dtype) dtype = x.dtype();
    if (!shape) shape = x.shape();
    set(x);
  }

 private:
  void initialise();
};

// The members of a cell that an assignment sets.
struct CellContent {
  Tensor value;
  std::function<Tensor()> initialiser;
  std::optional<DType> dtype;
  std::optional<Shape> shape;

  // The lock of the cell is held.
  static CellContent of(const VariableCell& c) {
    return {c.value, c.initialiser, c.dtype, c.shape};
  }
  void exchange_with(VariableCell& c) noexcept {
    const std::lock_guard lock(c.mutex);
    std::swap(value, c.value);
    initialiser.swap(c.initialiser);
    std::swap(dtype, c.dtype);
    std::swap(shape, c.shape);
  }
};

}  // namespace etude::internal
