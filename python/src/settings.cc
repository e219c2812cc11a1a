// SPDX-License-Identifier: Apache-2.0
// Settings and counters of the process and of this thread: threads, memory, denormals, promotion,
// limits of readers, lazy execution, diagnostics, and the compiler in the background. Options and
// their defaults come from the fields of the C++ structs.
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <nanobind/stl/string.h>

#include "etude/base/check.h"
#include "etude/base/fields.h"
#include "etude/base/warning.h"
#include "etude/codegen/compiler.h"
#include "etude/core/buffer.h"
#include "etude/core/context/ambient.h"
#include "etude/core/copies.h"
#include "etude/core/device.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/device/cpu/parallel.h"
#include "etude/files/read_limits.h"
#include "etude/lazy/lazy.h"
#include "python/src/bind.h"
#include "python/src/dtype.h"
#include "python/src/program/held.h"

namespace etude::python {

using internal::field_count;
using internal::field_name;
using internal::fields;

namespace {

// Words of enumerations.
template <class E>
struct Words;
template <>
struct Words<Denormals> {
  static constexpr std::pair<const char*, Denormals> all[] = {{"flush", Denormals::kFlush},
                                                              {"keep", Denormals::kKeep}};
};
template <>
struct Words<Promotion> {
  static constexpr std::pair<const char*, Promotion> all[] = {{"kinds", Promotion::kKinds},
                                                              {"strict", Promotion::kStrict}};
};
template <>
struct Words<Severity> {
  static constexpr std::pair<const char*, Severity> all[] = {
      {"ignore", Severity::kIgnore}, {"warn", Severity::kWarn}, {"error", Severity::kError}};
};

template <class E>
const char* word_of(E value) {
  for (const auto& [word, each] : Words<E>::all) {
    if (each == value) return word;
  }
  return "";
}
template <class E>
E of_word(const std::string& function, const std::string& option, const std::string& given) {
  std::string known;
  for (const auto& [word, each] : Words<E>::all) {
    if (given == word) return each;
    known += std::string(known.empty() ? "'" : ", '") + word + "'";
  }
  ETUDE_THROW(kInvalidArgument, "{}: {} is '{}', but must be one of {}", function, option, given,
              known);
}

template <class T>
nb::object value_of(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return nb::str(word_of(value));
  } else {
    return nb::cast(value);
  }
}

template <class T>
void assign(T& to, nb::handle value, const std::string& function, const std::string& name) {
  PyObject* const x = value.ptr();
  if constexpr (std::is_enum_v<T>) {
    ETUDE_REQUIRE(PyUnicode_Check(x) != 0, "{}: {} is a {}, but must be a text", function, name,
                  type_text(value));
    to = of_word<T>(function, name, nb::cast<std::string>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    ETUDE_REQUIRE(PyBool_Check(x) != 0, "{}: {} is a {}, but must be a bool", function, name,
                  type_text(value));
    to = x == Py_True;
  } else {
    static_assert(std::integral<T>);
    const bool is_integer = PyLong_Check(x) != 0 && PyBool_Check(x) == 0;
    int overflow = 0;
    const int64_t number = is_integer ? PyLong_AsLongLongAndOverflow(x, &overflow) : -1;
    const bool fits = is_integer && overflow == 0 && (std::is_signed_v<T> || number >= 0);
    ETUDE_REQUIRE(fits, "{}: {} is {}, but must be an integer{}", function, name,
                  nb::cast<std::string>(nb::repr(value)),
                  std::is_signed_v<T> ? "" : " of at least 0");
    to = static_cast<T>(number);
  }
}

template <class T, class Fn>
void each_field(T& options, const Fn& fn) {
  auto all = fields(options);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (fn(std::string(field_name<std::remove_const_t<T>, I>), std::get<I>(all)), ...);
  }
  (std::make_index_sequence<field_count<std::remove_const_t<T>>()>());
}

// The defaults of T with the given options.
template <class T>
T options_of(const std::string& function, const nb::kwargs& given) {
  T out;
  std::size_t used = 0;
  std::string names;
  each_field(out, [&](const std::string& name, auto& field) {
    names += (names.empty() ? "" : ", ") + name;
    if (!given.contains(name.c_str())) return;
    ++used;
    assign(field, nb::object(given[name.c_str()]), function, name);
  });
  ETUDE_REQUIRE(used == given.size(), "{}: there is an unknown option. It has: {}", function,
                names);
  return out;
}

template <class T>
std::string type_name_of(const T&) {
  return std::is_enum_v<T> ? "str" : std::is_same_v<T, bool> ? "bool" : "int";
}

// "def set_lazy_options(*, roll: bool = True) -> None", which lives as long as the module.
template <class T>
const char* signature_of(const std::string& function, const std::string& result) {
  std::string text = "def " + function + "(*";
  T defaults;
  each_field(defaults, [&](const std::string& name, const auto& field) {
    text += ", " + name + ": " + type_name_of(field) + " = " +
            nb::cast<std::string>(nb::repr(value_of(field)));
  });
  return (new std::string(text + ") -> " + result))->c_str();
}

// A class with the fields of T as properties.
template <class T>
void bind_fields(nb::module_& m, const char* name, const char* doc) {
  nb::class_<T> made(m, name, doc);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (made.def_prop_ro(std::string(field_name<T, I>).c_str(),
                      [](const T& self) { return value_of(std::get<I>(fields(self))); }),
     ...);
  }
  (std::make_index_sequence<field_count<T>()>());
  made.def("__repr__", [shown = std::string(name)](const T& self) {
    std::string text = shown + "(";
    bool is_first = true;
    each_field(self, [&](const std::string& field, const auto& value) {
      text += (std::exchange(is_first, false) ? "" : ", ") + field + "=" +
              nb::cast<std::string>(nb::repr(value_of(value)));
    });
    return text + ")";
  });
}

void bind_threads(nb::module_& m) {
  m.def(
      "set_thread_count", [](int count) { with_user_line([&] { set_thread_count(count); }); },
      nb::arg("count"), "Sets worker_count() for loops that start from now on. 0: the default.");
  m.def(
      "worker_count", [] { return with_user_line([] { return worker_count(); }); },
      "The number of threads of one loop, including the caller: set_thread_count(), ETUDE_THREADS, "
      "or the processors that the process may use.");
  m.def(
      "set_denormals",
      [](const std::string& mode) {
        set_denormals(of_word<Denormals>("set_denormals", "mode", mode));
      },
      nb::arg("mode"), "Denormal numbers: 'flush' to zero, the default, or 'keep'.");
  m.def(
      "denormals", [] { return word_of(denormals()); }, "'flush' or 'keep'.");
  m.def(
      "set_promotion",
      [](const std::string& mode) {
        ambient().promotion = of_word<Promotion>("set_promotion", "mode", mode);
      },
      nb::arg("mode"),
      "How operands of two kinds of dtypes are promoted on this thread: 'kinds', to the dtype of "
      "the higher kind, or 'strict', which refuses them.");
  m.def(
      "promotion", [] { return word_of(ambient().promotion); }, "'kinds' or 'strict'.");
}

void bind_memory(nb::module_& m) {
  bind_fields<MemoryStats>(m, "MemoryStats", "The memory use of tensors, in bytes and counts.");
  m.def(
      "memory_stats",
      [](nb::handle device) {
        const std::optional<Device> of = as_optional_device(device);
        return released([&] { return of ? memory_stats(*of) : memory_stats(); });
      },
      nb::arg("device") = nb::none(), "The memory use of a device; default: cpu:0.");
  m.def(
      "reset_peak_memory",
      [](nb::handle device) {
        const std::optional<Device> of = as_optional_device(device);
        released([&] { of ? reset_peak_memory(*of) : reset_peak_memory(); });
      },
      nb::arg("device") = nb::none(), "Resets peak_bytes to live_bytes.");
  m.def(
      "set_memory_limit",
      [](int64_t bytes, nb::handle device) {
        const std::optional<Device> of = as_optional_device(device);
        with_user_line_released(
            [&] { of ? set_memory_limit(*of, bytes) : set_memory_limit(bytes); });
      },
      nb::arg("bytes"), nb::arg("device") = nb::none(),
      "Allocations beyond the limit raise ResourceExhaustedError. 0: no limit.");
  m.def(
      "trim_memory", [] { released([] { trim_memory(); }); },
      "Returns memory that is kept for reuse to the operating system.");
  m.def("explain_copy", explain_copy,
        "Describes the latest write of this thread that copied, and the holder of the elements; "
        "empty if there was none.");
}

void bind_limits(nb::module_& m) {
  bind_fields<ReadLimits>(m, "ReadLimits", "Limits for readers of files, which are not trusted.");
  m.def("read_limits", read_limits, "The limits for readers of files.");
  m.def(
      "set_read_limits",
      [](const nb::kwargs& given) {
        const ReadLimits limits = options_of<ReadLimits>("set_read_limits", given);
        const CallSite where = here();
        return with_user_line([&] { return set_read_limits(limits, where); });
      },
      nb::sig(signature_of<ReadLimits>("set_read_limits", "ReadLimits")),
      "Sets the limits for all readers that begin from now on, and returns the former limits.");
  bind_fields<Diagnostics>(m, "Diagnostics", "The severity of findings of derivatives.");
  m.def("diagnostics", diagnostics, "The severity of each finding.");
  m.def(
      "set_diagnostics",
      [](const nb::kwargs& given) {
        return set_diagnostics(options_of<Diagnostics>("set_diagnostics", given));
      },
      nb::sig(signature_of<Diagnostics>("set_diagnostics", "Diagnostics")),
      "Sets the severities of findings, 'ignore', 'warn' or 'error', and returns the former ones.");
}

void bind_lazy(nb::module_& m) {
  bind_fields<LazyOptions>(m, "LazyOptions", "Options of lazy execution.");
  m.def("lazy_options", lazy_options, "The options of lazy execution.");
  m.def(
      "set_lazy_options",
      [](const nb::kwargs& given) {
        const LazyOptions options = options_of<LazyOptions>("set_lazy_options", given);
        with_user_line_released([&] { set_lazy_options(options); });
      },
      nb::sig(signature_of<LazyOptions>("set_lazy_options", "None")),
      "Replaces the options of the process, and forgets all programs of lazy scopes.");
  m.def("is_lazy", is_lazy, "Whether calls of this thread are being recorded.");
  m.def(
      "is_pending", [](nb::handle x) { return is_tensor(x) && is_pending(tensor_of(x)); },
      nb::arg("x"), "Whether x waits for recorded calls.");
  m.def("pending_nodes", pending_nodes, "The number of pending calls of this thread.");
  m.def(
      "dump_pending", [] { return released([] { return dump_pending(); }); },
      "The pending calls of this thread, as the text of a graph.");
  bind_fields<CompilerReport>(m, "CompilerReport", "Counts of the compiler in the background.");
  m.def(
      "compiler_report", [] { return released([] { return compiler_report(); }); },
      "The programs that the compiler in the background made.");
  m.def(
      "wait_for_compile", [] { released([] { wait_for_compile(); }); },
      "Waits until all requested machine code is made. For benchmarks.");
}

}  // namespace

void bind_settings(nb::module_& m) {
  bind_threads(m);
  bind_memory(m);
  bind_limits(m);
  bind_lazy(m);
}

}  // namespace etude::python
