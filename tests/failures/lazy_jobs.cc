// SPDX-License-Identifier: Apache-2.0
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace lazy_parts {

// Two updates as one barrier: a failure applies none of them, or all of one tensor, never twice.
std::string updates() {
  Tensor a = counted({2, 3}), b = ones({3});
  {
    const LazyScope lazy;
    for (int step = 0; step < 3; ++step) {
      for (Tensor* p : {&a, &b}) *p -= *p * 0.25F;
      lazy_barrier();
    }
  }
  return bits(a) + bits(b);
}

std::string observed() {
  const LazyScope lazy;
  const Tensor y = tanh(counted({2, 3})) + counted({2, 3});
  return bits(y) + bits(y * 2.0F);
}

std::string at_other_sizes() {
  const LazyScope lazy;
  std::string out;
  for (const int64_t n : {3, 4, 5, 3}) {
    const Tensor x = counted({n, 2});
    out += bits(sum(tanh(x * 0.1F) * x, {.axis = {0}}));
  }
  return out;
}

std::string slopes() {
  const LazyScope lazy;
  return bits(gradient([](const Tensor& x) { return sum(x * tanh(x)); })(counted({2, 3})));
}

std::string examples() {
  const LazyScope lazy;
  return bits(vmap([](const Tensor& x) { return x * sum(x); })(counted({2, 3})));
}

// A tensor that the lazy calls did not change keeps its value, whatever failed.
Run pending_writes() {
  auto x = std::make_shared<Tensor>(counted({2, 3}));
  return {[x] {
            const LazyScope lazy;
            Tensor y = *x;
            y.at(0) = y.at(1) * 3.0F;
            y += sum(y);
            lazy_barrier();
            return bits(y);
          },
          [x] { return bits(*x); }};
}

// An assignment, then a barrier. If the barrier fails before calls run, the assignment waits for
// the next one; if calls fail, the Variable has its earlier value again.
Run assignment() {
  auto v = std::make_shared<Variable>(counted({40}));
  const std::string before = bits(v->read());
  return {[=] {
            const LazyScope lazy;
            if (quietly([&] { return bits(v->read()) == before; })) {
              v->assign(v->read() * 0.5F + 1.0F);
            }
            lazy_barrier();
            return quietly([&] { return bits(v->read()); });
          },
          [v] { return bits(v->read()); }};
}

std::vector<Job> lazy_jobs() {
  return {
      plain_job("lazy: updates", updates),
      plain_job("lazy: observed calls", observed),
      plain_job("lazy: other sizes", at_other_sizes),
      plain_job("lazy: a gradient", slopes),
      plain_job("lazy: a vmap", examples),
      {"lazy: writes", pending_writes},
      {"lazy: a Variable", assignment,
       [] {
         const Run run = assignment();
         run.go();
         return std::vector{run.state()};
       }},
  };
}

}  // namespace lazy_parts

std::vector<Job> lazy_jobs() { return lazy_parts::lazy_jobs(); }

}  // namespace etude::failures
