// SPDX-License-Identifier: Apache-2.0
// Scopes of a thread as context managers: init_scope, lazy scopes, steps, phases, seeds.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "etude/base/check.h"
#include "etude/core/context/ambient.h"
#include "etude/eager/cancel.h"
#include "etude/lazy/lazy.h"
#include "etude/variables/init_scope.h"
#include "python/src/program/held.h"

namespace etude::python {
namespace {

// A context manager that makes a C++ scope when it is entered. It may be entered again, also while
// it is open.
template <class Scope, class... Args>
class Manager {
 public:
  explicit Manager(std::string name, Args... args) : name_(std::move(name)), args_(args...) {}
  Manager(Manager&&) = default;

  void enter() {
    if (open_.empty()) thread_ = std::this_thread::get_id();
    require_own_thread();
    open_.push_back(
        std::apply([](auto&... args) { return std::make_unique<Scope>(args...); }, args_));
  }
  void leave() {
    require_own_thread();
    ETUDE_REQUIRE_CODE(kFailedPrecondition, !open_.empty(), "{}: the scope is not open", name_);
    const std::unique_ptr<Scope> last = std::move(open_.back());
    open_.pop_back();
    // The end of a lazy scope runs pending calls.
    const ReleasedGil gil;
    close(*last);
  }

 private:
  static void close(Scope& scope) {
    if constexpr (requires { scope.end(); }) scope.end();
  }
  void require_own_thread() const {
    ETUDE_REQUIRE_CODE(kFailedPrecondition, std::this_thread::get_id() == thread_,
                       "{}: the scope belongs to the thread that opened it", name_);
  }
  std::string name_;
  std::tuple<Args...> args_;
  std::vector<std::unique_ptr<Scope>> open_;
  std::thread::id thread_;
};

template <class M>
void bind_manager(nb::module_& m, const char* name) {
  nb::class_<M>(m, name)
      .def("__enter__",
           [](nb::handle self) {
             nb::cast<M&>(self).enter();
             return nb::borrow(self);
           })
      .def("__exit__", [](M& self, const nb::args&) { self.leave(); });
}

Phase phase_of(const std::string& word) {
  ETUDE_REQUIRE(word == "training" || word == "inference",
                "PhaseScope: the phase is '{}', but must be 'training' or 'inference'", word);
  return word == "training" ? Phase::kTraining : Phase::kInference;
}

using InitManager = Manager<internal::InitScope>;
using LazyManager = Manager<LazyScope>;
using PhaseManager = Manager<PhaseScope, Phase>;
using CancelManager = Manager<CancelScope, Cancellation>;

// A barrier at the end of the block, unless an exception passes.
struct Step {
  CallSite where;
};

}  // namespace

void bind_scopes(nb::module_& m) {
  bind_manager<InitManager>(m, "_InitScope");
  bind_manager<LazyManager>(m, "_LazyScope");
  bind_manager<PhaseManager>(m, "_PhaseScope");
  m.def(
      "init_scope", [] { return InitManager("init_scope"); },
      "A block whose calls run at once, outside of all traces and tapes.");
  m.def(
      "LazyScope", [] { return LazyManager("LazyScope"); },
      "A block whose calls are recorded, and run together when their elements are needed.");
  m.def(
      "PhaseScope",
      [](const std::string& phase) { return PhaseManager("PhaseScope", phase_of(phase)); },
      nb::arg("phase"), "A block in which layers run in this phase: 'training' or 'inference'.");
  bind_manager<CancelManager>(m, "_CancelScope");
  nb::class_<Cancellation>(m, "Cancellation", "A request to stop, from any thread.")
      .def(nb::init<>())
      .def("cancel", &Cancellation::cancel, "For good: the next computation needs a new object.")
      .def_prop_ro("is_cancelled", &Cancellation::is_cancelled);
  m.def(
      "CancelScope",
      [](const Cancellation& cancellation) { return CancelManager("CancelScope", cancellation); },
      nb::arg("cancellation"),
      "A block whose calls raise CancelledError after cancellation.cancel().");
  m.def("is_cancelled", is_cancelled,
        "Whether a CancelScope around this call was cancelled. For loops of the program.");
  m.def("is_training", is_training, "Whether layers run in the training phase.");
  m.def(
      "lazy_barrier",
      [](bool wait) {
        const CallSite where = here();
        with_user_line_released([&] { lazy_barrier({.wait = wait}, where); });
      },
      nb::kw_only(), nb::arg("wait") = false, "Runs all pending calls of this thread.");
  nb::class_<Step>(m, "_StepScope")
      .def("__enter__", [](Step& s) { s.where = here(); })
      .def("__exit__", [](Step& s, const nb::args& args) {
        const nb::handle type = args[0];
        if (type.is_none()) with_user_line_released([&] { lazy_barrier({}, s.where); });
      });
  m.def(
      "StepScope", [] { return Step(); }, "A block with a lazy_barrier() at its end.");
}

}  // namespace etude::python
