// SPDX-License-Identifier: Apache-2.0
// Memory that runs out at each allocation of a job: the job ends with an error or as it should, and
// afterwards its result is as before. ETUDE_TEST_CASES is the number of places per job.
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "etude/etude.h"

namespace {

thread_local long left = 0;  // until the allocation that fails; 0: none does

bool fails_now() { return left > 0 && --left == 0; }

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (fails_now()) throw std::bad_alloc();
  if (void* made = std::malloc(size == 0 ? 1 : size)) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  if (fails_now()) throw std::bad_alloc();
  if (void* made = std::aligned_alloc(step, (size + step) / step * step)) return made;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return fails_now() ? nullptr : std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace etude {
namespace {

struct Job {
  const char* name;
  std::function<std::string()> run;  // a fresh start each time; returns its result as text
};

std::string text_of(const Tensor& x) {
  std::string text;
  for (const float v : x.to_vector<float>()) text += std::to_string(v) + " ";
  return text;
}

Tensor base() { return reshape(astype(arange(6), kFloat32), {2, 3}) + 1.0F; }

const auto& kept_function() {
  static const auto f = function([](const Tensor& x) { return tanh(x) * 2.0F + sum(x); });
  return f;
}

std::vector<Job> jobs() {
  return {
      {"eager",
       [] {
         return text_of(tanh(base()) * 2.0F + matmul(base(), ones({3, 3})));
       }},
      {"a new function",
       [] {
         const auto f = function([](const Tensor& x) { return tanh(x) * x + 1.0F; });
         return text_of(f(base())) + text_of(f(ones({2})));
       }},
      {"a known function", [] { return text_of(kept_function()(base())); }},
      {"gradient",
       [] { return text_of(gradient([](const Tensor& x) { return sum(x * tanh(x)); })(base())); }},
      {"gradient of a function",
       [] {
         const auto f = function([](const Tensor& x) { return sum(x * tanh(x)); });
         return text_of(gradient([&](const Tensor& x) { return f(x); })(base()));
       }},
      {"vmap", [] { return text_of(vmap([](const Tensor& x) { return x * sum(x); })(base())); }},
      {"a text of a graph",
       [] {
         const GraphRef g =
             parse_graph("graph f(x: float32[2]) -> (float32[2])\n  %1 = tanh(x)\n  return %1\n");
         return g->to_string();
       }},
      {"lazy updates",
       [] {
         Tensor a = base(), b = ones({3});
         {
           const LazyScope lazy;
           for (int step = 0; step < 3; ++step) {
             for (Tensor* p : {&a, &b}) *p -= *p * 0.25F;
             lazy_barrier();
           }
         }
         return text_of(a) + text_of(b);
       }},
      {"lazy calls that are observed",
       [] {
         const LazyScope lazy;
         const Tensor y = tanh(base()) + base();
         return text_of(y) + text_of(y * 2.0F);
       }},
  };
}

long places() {
  const char* const wish = std::getenv("ETUDE_TEST_CASES");
  return wish != nullptr ? std::strtol(wish, nullptr, 10) : 400;
}

TEST(AllocationFailures, AnErrorAndTheStateAsBefore) {
  for (const Job& job : jobs()) {
    const std::string right = job.run();
    ASSERT_EQ(job.run(), right) << job.name;
    bool has_ended = false;
    for (long n = 1; n <= places() && !has_ended; ++n) {
      std::string seen, failure;
      left = n;
      try {
        seen = job.run();
      } catch (const Error& error) {
        left = 0;
        failure = error.what();
        EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted)
            << job.name << ", allocation " << n << ": " << failure;
      } catch (const std::bad_alloc&) {
        left = 0;
        failure = "std::bad_alloc";
      }
      has_ended = left > 0;
      left = 0;
      if (failure.empty()) {
        EXPECT_EQ(seen, right) << job.name << ", allocation " << n;
      }
      ASSERT_EQ(job.run(), right) << job.name << " after allocation " << n << " failed";
    }
  }
}

}  // namespace
}  // namespace etude
