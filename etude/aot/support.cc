// SPDX-License-Identifier: Apache-2.0
// The parts of a compiled model besides its kernels: the function that is called, and the parts of
// the library and of the C++ runtime that kernels need, in the smallest form. It is linked into
// models alone: each name here replaces a name of libetude or libstdc++ (docs/design/0019).
//
// A model runs on the thread that calls it. An exception of a kernel, and a lack of memory, end the
// run by longjmp: the functions that run kernels own nothing that has to be freed.
#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include <fmt/format.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "etude/aot/model.h"
#include "etude/base/check.h"
#include "etude/core/op/tiered_code.h"
#include "etude/device/cpu/float_mode.h"
#include "etude/device/cpu/parallel.h"
#include "etude/kernels/cpu/onednn/onednn.h"
#include "etude/kernels/cpu/product/packed_product.h"

namespace etude::aot {
namespace {

struct Run {
  std::jmp_buf end;
  const Model* model = nullptr;
};
// Memory for threads is scarce in libraries that are loaded while a program runs: pointers alone.
constexpr std::size_t kMessageBytes = 512;
thread_local Run* running = nullptr;
thread_local char* message = nullptr;  // from the first failure of the thread until its end

// Of glibc.
extern "C" int __cxa_thread_atexit_impl(void (*)(void*), void*, void*);
extern "C" void* __dso_handle;

void say(const char* text, std::size_t size) {
  if (message == nullptr) {
    message = static_cast<char*>(std::malloc(kMessageBytes));
    if (message == nullptr) return;
    __cxa_thread_atexit_impl(std::free, message, &__dso_handle);
  }
  const std::size_t count = std::min(size, kMessageBytes - 1);
  std::memmove(message, text, count);
  message[count] = '\0';
}
void say(const char* text) { say(text, std::strlen(text)); }

[[noreturn]] void end_run(Status status) {
  if (running == nullptr) std::abort();
  std::longjmp(running->end, static_cast<int>(status));
}
[[noreturn]] void end_internal(const char* what) {
  say(what);
  end_run(Status::kInternal);
}

bool has_isa(internal::Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (isa == internal::Isa::kAvx2) return avx2;
  if (isa == internal::Isa::kAvx512) {
    return avx2 && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0;
  }
#endif
  return isa == internal::Isa::kPortable;
}

// The float mode of Etude while it lives. Not FloatModeScope: longjmp may leave a FloatModeScope of
// a kernel open.
class Mode {
 public:
  explicit Mode(bool flushes) {
#if defined(__aarch64__)
    constexpr uint64_t kFlush = uint64_t{1} << 24;  // FZ of FPCR: as operands and as results
    before_ = __builtin_aarch64_get_fpcr64();
    __builtin_aarch64_set_fpcr64((before_ & ~kFlush) | (flushes ? kFlush : 0));
#elif defined(__SSE2__)
    before_ = _mm_getcsr();
    const auto now = static_cast<unsigned>(before_);
    _mm_setcsr((now & ~internal::kFlushBits) | (flushes ? internal::kFlushBits : 0));
    ++internal::float_scope_depth;
#else
    static_cast<void>(flushes);
#endif
  }
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;
  ~Mode() {
#if defined(__aarch64__)
    __builtin_aarch64_set_fpcr64(before_);
#elif defined(__SSE2__)
    internal::float_scope_depth = 0;
    _mm_setcsr(static_cast<unsigned>(before_));
#endif
  }

 private:
  uint64_t before_ = 0;
};

// Prefixes the message of a kernel with the op and the line of its call.
void name_step(const char* name) {
  char text[kMessageBytes];
  std::snprintf(text, sizeof text, "%s: %s", name, message == nullptr ? "" : message);
  say(text);
}

struct Memory {
  const void* const* in;
  void* const* out;
  char* scratch;
};

void* address(const Model& m, const ModelPlace& place, const Memory& memory) {
  switch (place.home) {
    case Home::kInput:
      return static_cast<char*>(const_cast<void*>(memory.in[place.index])) + place.offset;
    case Home::kConstant:
      return static_cast<char*>(const_cast<void*>(m.constants[place.index])) + place.offset;
    case Home::kScratch:
      return memory.scratch + place.offset;
    case Home::kOutput:
      return static_cast<char*>(memory.out[place.index]) + place.offset;
    case Home::kNone:
      break;
  }
  return nullptr;
}

Status run_steps(const Model& m, const Memory& memory, void** pointers) {
  for (uint64_t s = 0; s < m.step_count; ++s) {
    const ModelStep& step = m.steps[s];
    const ModelPlace* const places = m.places + step.first_place;
    for (uint32_t i = 0; i < step.results + step.operands; ++i) {
      pointers[i] = address(m, places[i], memory);
    }
    KernelCall call{{step.params, {}}, pointers, pointers + step.results};
    if (!step.run(call)) {
      name_step(m.names[step.name]);
      return Status::kRefused;
    }
  }
  for (uint64_t c = 0; c < m.copy_count; ++c) {
    const ModelCopy& copy = m.copies[c];
    std::memcpy(memory.out[copy.output], address(m, m.places[copy.place], memory), copy.bytes);
  }
  return Status::kOk;
}

// The number of the first array that is missing; `count`: none is.
template <class P>
uint64_t first_missing(const P* arrays, const uint64_t* bytes, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    if (bytes[i] > 0 && (arrays == nullptr || arrays[i] == nullptr)) return i;
  }
  return count;
}

Status check_arguments(const Model& m, const void* const* in, void* const* out,
                       const void* scratch) {
  const uint64_t no_input = first_missing(in, m.input_bytes, m.inputs);
  const uint64_t no_output = first_missing(out, m.output_bytes, m.outputs);
  char text[128];
  if (no_input < m.inputs) {
    std::snprintf(text, sizeof text, "input %llu is a null pointer",
                  static_cast<unsigned long long>(no_input));
  } else if (no_output < m.outputs) {
    std::snprintf(text, sizeof text, "output %llu is a null pointer",
                  static_cast<unsigned long long>(no_output));
  } else if (scratch == nullptr) {
    std::snprintf(text, sizeof text, "the scratch memory is a null pointer");
  } else {
    return Status::kOk;
  }
  say(text);
  return Status::kNullPointer;
}

Status run_model(const Model& m, const void* const* in, void* const* out, void* scratch) {
  if (message != nullptr) message[0] = '\0';
  if (const Status status = check_arguments(m, in, out, scratch); status != Status::kOk) {
    return status;
  }
  if (!has_isa(m.isa)) {
    say("this machine lacks the instruction set that the model was compiled for");
    return Status::kProcessor;
  }
  const auto address_of = reinterpret_cast<uintptr_t>(scratch);
  char* const aligned = static_cast<char*>(scratch) +
                        ((kScratchAlignment - address_of % kScratchAlignment) % kScratchAlignment);
  void** const pointers = reinterpret_cast<void**>(aligned + m.scratch_bytes);
  const Mode mode(m.flushes_denormals);
  Run run;
  run.model = &m;
  Run* const outer = running;
  running = &run;
  const int ended = setjmp(run.end);
  const Status status =
      ended != 0 ? static_cast<Status>(ended) : run_steps(m, {in, out, aligned}, pointers);
  running = outer;
  return status;
}

}  // namespace
}  // namespace etude::aot

extern "C" {

extern const etude::aot::Model etude_aot_model;

int etude_aot_run_model(const etude::aot::Model* model, const void* const* in, void* const* out,
                        void* scratch) {
  return static_cast<int>(etude::aot::run_model(*model, in, out, scratch));
}

int etude_aot_run(const void* const* in, void* const* out, void* scratch) {
  return etude_aot_run_model(&etude_aot_model, in, out, scratch);
}

const char* etude_aot_error() { return etude::aot::message == nullptr ? "" : etude::aot::message; }

// A call of a function for several sizes, with another size.
int etude_aot_refuse_size(long long size, const char* sizes) {
  char text[etude::aot::kMessageBytes];
  std::snprintf(text, sizeof text, "the size is %lld, but this function was compiled for %s", size,
                sizes);
  etude::aot::say(text);
  return static_cast<int>(etude::aot::Status::kRefused);
}

// Kernels of other instruction sets, which best_isa() does not choose.
void etude_aot_left_out() { std::abort(); }

}  // extern "C"

// ---- in the place of libetude
namespace ETUDE_API etude {

int worker_count() { return 1; }

void parallel_for(int64_t chunks, double /*estimated_us*/,
                  internal::FunctionRef<void(int64_t)> body) {
  for (int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk);
}

bool report_fault(ErrorCode /*code*/, std::string text) {
  aot::say(text.data(), text.size());
  return false;
}

namespace internal {

void make_code_in_background(const TieredCode& /*code*/, Tier /*tier*/) noexcept {}

Isa best_isa() { return aot::running == nullptr ? Isa::kPortable : aot::running->model->isa; }

void throw_error(ErrorCode /*code*/, std::string text) {
  aot::say(text.data(), text.size());
  aot::end_run(aot::Status::kRefused);
}
void throw_check(const char* file, int line, const char* condition, const std::string& text) {
  char all[aot::kMessageBytes];
  std::snprintf(all, sizeof all, "%s:%d: %s: %s", file, line, condition, text.c_str());
  aot::say(all);
  aot::end_run(aot::Status::kInternal);
}

}  // namespace internal

namespace kernels::cpu::onednn {

void gemm(const Gemm& g, float* out, const float* a, const float* b) { own_gemm(g, out, a, b); }

}  // namespace kernels::cpu::onednn
}  // namespace etude

// ---- replaces {fmt} for messages of kernels, which only have values in braces
namespace {

struct Appender {
  std::string& out;
  template <class T>
  void operator()(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      out += value ? "true" : "false";
    } else if constexpr (std::is_same_v<T, char>) {
      out += value;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) <= sizeof(long long)) {
      char text[24];
      std::snprintf(text, sizeof text, std::is_signed_v<T> ? "%lld" : "%llu",
                    static_cast<long long>(value));
      out += text;
    } else if constexpr (std::is_floating_point_v<T>) {
      char text[40];
      std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
      out += text;
    } else if constexpr (std::is_same_v<T, const char*>) {
      out += value;
    } else if constexpr (std::is_same_v<T, fmt::string_view>) {
      out.append(value.data(), value.size());
    } else {
      out += "?";
    }
  }
};

}  // namespace

namespace fmt {
inline namespace v9 {

std::string vformat(string_view text, format_args args) {
  std::string out;
  int next = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text.data()[i];
    const bool is_double = i + 1 < text.size() && text.data()[i + 1] == c;
    if ((c == '{' || c == '}') && is_double) {
      out += c;
      ++i;
    } else if (c == '{') {
      while (i < text.size() && text.data()[i] != '}') ++i;
      visit_format_arg(Appender{out}, args.get(next++));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace v9
}  // namespace fmt

// ---- in the place of the runtime of C++
namespace {

void* take_memory(std::size_t bytes, std::size_t alignment) {
  void* out = nullptr;
  if (posix_memalign(&out, std::max(alignment, sizeof(void*)), std::max<std::size_t>(bytes, 1)) !=
      0) {
    etude::aot::say("the host has no memory left for this call");
    etude::aot::end_run(etude::aot::Status::kOutOfMemory);
  }
  return out;
}
void* try_memory(std::size_t bytes) noexcept {
  return std::malloc(std::max<std::size_t>(bytes, 1));
}

}  // namespace

void* operator new(std::size_t bytes) { return take_memory(bytes, 16); }
void* operator new[](std::size_t bytes) { return take_memory(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take_memory(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take_memory(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return try_memory(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return try_memory(bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace std {
const nothrow_t nothrow{};

void __throw_length_error(const char* what) { etude::aot::end_internal(what); }
void __throw_logic_error(const char* what) { etude::aot::end_internal(what); }
void __throw_out_of_range(const char* what) { etude::aot::end_internal(what); }
void __throw_out_of_range_fmt(const char* what, ...) { etude::aot::end_internal(what); }
void __throw_bad_function_call() { etude::aot::end_internal("an empty function was called"); }
void __throw_system_error(int) { etude::aot::end_internal("a lock failed"); }
void __throw_bad_alloc() {
  etude::aot::say("the host has no memory left for this call");
  etude::aot::end_run(etude::aot::Status::kOutOfMemory);
}
void __throw_bad_array_new_length() { __throw_bad_alloc(); }
void __glibcxx_assert_fail(const char* file, int line, const char*,
                           const char* condition) noexcept {
  std::fprintf(stderr, "%s:%d: %s\n", file == nullptr ? "" : file, line,
               condition == nullptr ? "" : condition);
  std::abort();
}
void terminate() noexcept { std::abort(); }
}  // namespace std

extern "C" {
void* __cxa_allocate_exception(std::size_t) noexcept {
  etude::aot::end_internal("a kernel failed");
}
void __cxa_free_exception(void*) noexcept {}
void __cxa_throw(void*, void*, void (*)(void*)) { etude::aot::end_internal("a kernel failed"); }
void* __cxa_begin_catch(void*) noexcept { std::abort(); }
void __cxa_end_catch() { std::abort(); }
void __cxa_rethrow() { std::abort(); }
void __cxa_pure_virtual() { std::abort(); }
void __gxx_personality_v0() { std::abort(); }
void _Unwind_Resume(void*) { std::abort(); }
// Objects of a thread are freed when it ends.
int __cxa_thread_atexit(void (*end)(void*), void* object, void* program) {
  return etude::aot::__cxa_thread_atexit_impl(end, object, program);
}

// Constants of functions. Kernels compute them from nothing but the processor, so that two threads
// that do give the same; but one must not see half of it.
int __cxa_guard_acquire(long long* guard) {
  char* const state = reinterpret_cast<char*>(guard);
  for (;;) {
    if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == 1) return 0;
    char free = 0;
    if (__atomic_compare_exchange_n(state + 1, &free, 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
      if (__atomic_load_n(state, __ATOMIC_ACQUIRE) == 0) return 1;
      __atomic_store_n(state + 1, 0, __ATOMIC_RELEASE);
      return 0;
    }
  }
}
void __cxa_guard_release(long long* guard) {
  char* const state = reinterpret_cast<char*>(guard);
  __atomic_store_n(state, 1, __ATOMIC_RELEASE);
  __atomic_store_n(state + 1, 0, __ATOMIC_RELEASE);
}
void __cxa_guard_abort(long long* guard) {
  __atomic_store_n(reinterpret_cast<char*>(guard) + 1, 0, __ATOMIC_RELEASE);
}
}  // extern "C"
