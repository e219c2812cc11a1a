// SPDX-License-Identifier: Apache-2.0
#include "tests/failures/jobs.h"

namespace etude::failures {
namespace staged_parts {

struct Line {
  Tensor w, b;
};

const auto& kept_function() {
  static const auto f = function([](const Tensor& x) { return tanh(x) * 2.0F + sum(x); });
  return f;
}

std::string new_functions() {
  const auto f = function([](const Tensor& x) { return tanh(x) * x + 1.0F; });
  return bits(f(counted({2, 3}))) + bits(f(ones({2})));
}

std::string many_sizes() {
  const auto f = function([](const Tensor& x) { return x - mean(x, {.axis = {0}}); });
  std::string out;
  for (const int64_t n : {4, 5, 1, 7}) out += bits(f(counted({n, 2})));
  return out + std::to_string(f.trace_count());
}

std::string many_graphs() {
  const auto f = function([](const Tensor& x, int k) { return x * static_cast<float>(k); },
                          {.max_traces = 10});
  std::string out;
  for (int k = 0; k < 12; ++k) out += bits(f(counted({2}), k));
  return out + std::to_string(f.trace_count()) + bits(f(counted({2}), 3));
}

std::string with_signature() {
  const auto f =
      function([](const Tensor& x) { return x * 2.0F + sum(x, {.axis = {1}, .keepdims = true}); },
               {.signature = Signature{TensorSpec{{kAny, 3}}}});
  return bits(f(counted({2, 3}))) + bits(f(counted({4, 3}))) + f.explain();
}

// A staged call that changes its argument: all of it or nothing.
Run in_out() {
  auto line = std::make_shared<Line>(Line{counted({2, 3}), counted({3})});
  auto is_over = std::make_shared<bool>(false);
  auto step = std::make_shared<Function<Tensor(Line&, const Tensor&)>>(
      function<Tensor(Line&, const Tensor&)>([](Line& l, const Tensor& x) {
        l.w -= 0.5F * tanh(l.w * x);
        l.b *= sum(l.w);
        return sum(l.b);
      }));
  return {[=] {
            if (*is_over) return std::string("again");
            const Tensor out = (*step)(*line, ones({2, 3}));
            *is_over = true;
            return quietly([&] { return bits(out); });
          },
          [=] { return bits(line->w) + bits(line->b); }};
}

Run variables() {
  auto a = std::make_shared<Variable>(counted({40})), b = std::make_shared<Variable>(counted({3}));
  auto step = std::make_shared<Function<Tensor(const Tensor&)>>(
      function<Tensor(const Tensor&)>([a, b](const Tensor& x) {
        a->assign_add(sum(x) * a->read());
        b->assign(b->read() * 2.0F);
        return sum(a->read()) + sum(b->read());
      }));
  return {[=] {
            const Tensor out = (*step)(ones({2}));
            return quietly([&] { return bits(out); });
          },
          [=] { return bits(a->read()) + bits(b->read()); }};
}

Run variable_writes() {
  auto v = std::make_shared<Variable>(counted({40}));
  return {[=] {
            v->assign_add(v->read() * 0.5F);
            return quietly([&] { return bits(v->read()); });
          },
          [=] { return bits(v->read()); }};
}

// The first call makes a Variable.
Run makes_a_variable() {
  auto v = std::make_shared<std::optional<Variable>>();
  auto f = std::make_shared<Function<Tensor(const Tensor&)>>(
      function<Tensor(const Tensor&)>([v](const Tensor& x) {
        if (!*v) v->emplace(2.0F, VariableOptions{.name = "v"});
        return (*v)->read() * x;
      }));
  return {[=] { return bits((*f)(counted({3}))); }};
}

Run draws() {
  set_seed(3);
  auto f = std::make_shared<Function<Tensor(const Tensor&)>>(function<Tensor(const Tensor&)>(
      [](const Tensor& x) { return x + random::normal({3}) + random::uniform({3}); }));
  (*f)(ones({3}));
  set_seed(4);
  return {[=] {
            const Tensor out = (*f)(counted({3}));
            return quietly([&] { return bits(out); });
          },
          [] { return std::to_string(ambient().generator.position); }};
}

std::string control_flow() {
  const auto f = function([](const Tensor& x) {
    const auto [i, s] =
        while_loop([](const Tensor& i, const Tensor&) { return i < 4; },
                   [](const Tensor& i, const Tensor& s) { return std::tuple(i + 1, s * 1.5F); },
                   std::tuple(Tensor(0), x));
    const Tensor c = cond(
        sum(s) > 3.0F, [&] { return s + 1.0F; }, [&] { return s * x; });
    const auto [last, all] =
        scan([](const Tensor& a, const Tensor& row) { return std::pair(a + row, a * row); }, c,
             stack({x, x}));
    return last + sum(all, {.axis = {0}});
  });
  return bits(f(counted({3}))) + bits(f(counted({3}) * 0.01F));
}

std::string parsed() {
  const GraphRef g =
      parse_graph("graph f(x: float32[2]) -> (float32[2])\n  %1 = tanh(x)\n  return %1\n");
  return g->to_string() + read_binary(to_binary(*g))->to_string();
}

std::vector<Job> staged_jobs() {
  return {
      plain_job("staged: new functions", new_functions),
      plain_job("staged: a known function",
                [] {
                  return bits(kept_function()(counted({2, 3})));
                }),
      plain_job("staged: many sizes", many_sizes),
      plain_job("staged: many graphs", many_graphs),
      plain_job("staged: a signature", with_signature),
      {"staged: in-out arguments", in_out},
      {"staged: Variables", variables},
      {"staged: a first call that makes a Variable", makes_a_variable},
      {"staged: draws", draws},
      plain_job("staged: loops and branches", control_flow),
      plain_job("staged: texts and bytes of graphs", parsed),
      {"eager: a Variable", variable_writes},
  };
}

}  // namespace staged_parts

std::vector<Job> staged_jobs() { return staged_parts::staged_jobs(); }

}  // namespace etude::failures
