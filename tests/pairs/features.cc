// SPDX-License-Identifier: Apache-2.0
#include "tests/pairs/features.h"

#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace pairs {
namespace {

using etude::Tensor;
using Library = LibraryRun;
using Judge = JudgeRun;
using TensorMap = LibraryRun::Map;
using NumberMap = JudgeRun::Map;

// Wrappers that change no value and no derivative.
Numbers plain(Judge&, const NumberMap& f, const Numbers& x) { return f(x); }
Numbers slope_along(Judge& run, const NumberMap& f, const Numbers& x) {
  return run.slope(f, x, x * 0.5);
}
Numbers gradient_of_sum(Judge& run, const NumberMap& f, const Numbers& x) {
  return run.gradient(f, x);
}

Numbers scaled(const Numbers& x, double first, double second, double third) {
  return Numbers::made([&](std::size_t i) {
    return x.at[i] * Number(i == 0 ? first : i == 1 ? second : third);
  });
}
Tensor numbers(double first, double second, double third) {
  return Tensor(std::vector<double>{first, second, third});
}

Tensor by_tape(Library&, const TensorMap& f, const Tensor& x) {
  etude::GradientTape tape;
  const Tensor own = x * 1.0;  // f may read x itself, which is then no source
  tape.watch(own);
  return tape.gradient(sum(f(own)), own, {.unconnected = etude::Unconnected::kZero});
}
Tensor in_branch(Library&, const TensorMap& f, const Tensor& x) {
  return cond(
      sum(x) > 0.4, [&] { return f(x); }, [&] { return f(x * 0.5); });
}
Numbers branch(Judge&, const NumberMap& f, const Numbers& x) {
  return sum(x).value() > 0.4L ? f(x) : f(x * 0.5);
}
Tensor in_while(Library&, const TensorMap& f, const Tensor& x) {
  return std::get<1>(
      etude::while_loop([](const Tensor& i, const Tensor&) { return i < 2; },
                        [&](const Tensor& i, const Tensor& s) { return std::tuple(i + 1, f(s)); },
                        std::tuple(Tensor(0), x)));
}
Numbers twice(Judge&, const NumberMap& f, const Numbers& x) { return f(f(x)); }
Tensor in_fold(Library&, const TensorMap& f, const Tensor& x) {
  const Tensor rows(std::vector<double>{1.0, 0.5, -0.25, 0.5, 1.0, 0.75}, etude::Shape{2, 3});
  return etude::fold([&](const Tensor& s, const Tensor& row) { return f(s * row); }, x, rows);
}
Numbers folded(Judge&, const NumberMap& f, const Numbers& x) {
  return f(scaled(f(scaled(x, 1.0, 0.5, -0.25)), 0.5, 1.0, 0.75));
}
Tensor in_scan(Library&, const TensorMap& f, const Tensor& x) {
  const Tensor rows(std::vector<double>{1.0, 0.5, -0.25, 0.5, 1.0, 0.75}, etude::Shape{2, 3});
  const auto [last, all] = etude::scan(
      [&](const Tensor& s, const Tensor& row) {
        const Tensor next = f(s * row);
        return std::pair(next, next * 0.5);
      },
      x, rows);
  return last + sum(all, {.axis = {0}});
}
Numbers scanned(Judge&, const NumberMap& f, const Numbers& x) {
  const Numbers first = f(scaled(x, 1.0, 0.5, -0.25)), second = f(scaled(first, 0.5, 1.0, 0.75));
  return second + (first * 0.5 + second * 0.5);
}
Tensor assigned(Library& run, const TensorMap& f, const Tensor& x) {
  run.state.assign(f(x));
  return run.state.read() * 2.0 + x;
}
Numbers held_sum(Judge&, const NumberMap& f, const Numbers& x) { return held(f(x)) * 2.0 + x; }
Tensor written(Library&, const TensorMap& f, const Tensor& x) {
  Tensor y = f(x);
  y.at(1) = x.at(0) * 2.0;
  y += x;
  return y;
}
Numbers written_numbers(Judge&, const NumberMap& f, const Numbers& x) {
  Numbers y = f(x);
  y.at[1] = x.at[0] * Number(2);
  return y + x;
}
Tensor throws_first(Library&, const TensorMap& f, const Tensor& x) {
  try {
    f(x);
    throw std::runtime_error("in the middle");
  } catch (const std::runtime_error&) {
  }
  return f(x);
}

struct TwoTensors {
  Tensor a, b;
};
Tensor by_struct(Library&, const TensorMap& f, const Tensor& x) {
  const auto result = [f](const TwoTensors& s) { return sum(f(s.a * s.b)); };
  const TwoTensors slopes = etude::gradient(result, TwoTensors{x, x * 0.5});
  return slopes.a + slopes.b * 2.0;
}
// The same by Parts: a staged function of them, and their gradient.
Tensor by_named_parts(Library&, const TensorMap& f, const Tensor& x) {
  const auto result = [f](const etude::Parts& p) -> Tensor {
    return sum(f(p.tensor("a") * p.tensor("b/0")));
  };
  const etude::Parts at = etude::Parts::fields(
      {{"a", x}, {"b", etude::Parts::list({etude::Parts(x * 0.5)})}, {"n", etude::Described(2)}});
  const auto slopes_at =
      etude::function([result](const etude::Parts& p) { return etude::gradient(result, p); });
  const etude::Parts slopes = slopes_at(at);
  return slopes.tensor("a") + slopes.tensor("b/0") * 2.0;
}
Numbers struct_slopes(Judge& run, const NumberMap& f, const Numbers& x) {
  const Numbers a = run.gradient([&](const Numbers& q) { return f(q * (x * 0.5)); }, x);
  return a + run.gradient([&](const Numbers& q) { return f(x * q); }, x * 0.5) * 2.0;
}
Tensor in_out(Library&, const TensorMap& f, const Tensor& x) {
  Tensor own = x * 1.0;
  const Tensor y = etude::function([f](Tensor& a) {
    a += f(a);
    return a * 0.5;
  })(own);
  return y + own;
}
Tensor writes_parts(Library&, const TensorMap& f, const Tensor& x) {
  Tensor y = f(x);
  const Tensor kept = y;
  y.at(0) += x.at(1);
  y.at(2) *= y.at(0);
  y *= 2.0;
  return y + kept;
}
Numbers parts(Judge&, const NumberMap& f, const Numbers& x) {
  const Numbers kept = f(x);
  Numbers y = kept;
  y.at[0] = y.at[0] + x.at[1];
  y.at[2] = y.at[2] * y.at[0];
  return y * 2.0 + kept;
}
// Host code that looks at elements and chooses. It does not call f, which may use values of a
// trace.
Tensor by_host_function(Library&, const TensorMap& f, const Tensor& x) {
  const auto choose = [](const Tensor& y) -> Tensor {
    return sum(y).item<double>() > 0.4 ? y * y + y : y * 0.5;
  };
  return etude::host_function(choose, etude::TensorSpec{{3}, etude::kFloat64})(f(x));
}
Numbers chosen(Judge&, const NumberMap& f, const Numbers& x) {
  const Numbers y = f(x);
  return sum(y).value() > 0.4L ? y * y + y : y * 0.5;
}
Tensor added_to_variable(Library& run, const TensorMap& f, const Tensor& x) {
  const Tensor y = f(x);  // may assign as well
  const Tensor before = run.state.read();
  run.state.assign_add(y);
  return run.state.read() - before + x;
}
Tensor rows_of_table(Library&, const TensorMap& f, const Tensor& x) {
  const Tensor table = reshape(f(x), {3, 1});
  return sum(etude::take(table, Tensor({2, 0, 2, 1}), {.axis = 0}) * reshape(x, {1, 3}),
             {.axis = {0}});
}
Numbers table_sum(Judge&, const NumberMap& f, const Numbers& x) {
  const Numbers y = f(x);
  return Numbers::made([&](std::size_t i) { return (sum(y) + y.at[2]) * x.at[i]; });
}

// A feature is one row. surroundings.cc has the features of manifolds, layers, files, threads and
// exceptions.
constexpr Feature kFeatures[] = {
    {"function",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::function([f](const Tensor& q) { return f(q); })(x);
     },
     plain},
    {"lazy_scope",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       const etude::LazyScope lazy;
       return f(x);
     },
     plain},
    {"vmap",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       const auto all =
           etude::vmap([f](const Tensor& q) { return f(q); }, {.randomness = "different"});
       return sum(all(etude::stack({x, x * 0.5})), {.axis = {0}});
     },
     [](Judge&, const NumberMap& f, const Numbers& x) { return f(x) + f(x * 0.5); }},
    {"jvp",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::jvp(f, x, x * 0.5).second;
     },
     slope_along},
    {"tape", by_tape, gradient_of_sum},
    {"gradient",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::gradient([f](const Tensor& q) { return sum(f(q)); }, x);
     },
     gradient_of_sum},
    {"recompute_grad",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::recompute_grad(f)(x);
     },
     plain},
    {"checkpointed",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::checkpointed(2, x, [f](std::size_t, const Tensor& s) { return f(s); });
     },
     twice},
    {"custom_gradient",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::custom_gradient([](const Tensor& y) {
         return std::pair{y, [](const Tensor& dy) { return dy * 2.0; }};
       })(f(x));
     },
     [](Judge&, const NumberMap& f, const Numbers& x) {
       const Numbers y = f(x);
       return Numbers::made([&](std::size_t i) { return y.at[i].slopes_times(2); });
     }},
    {"cond", in_branch, branch},
    {"while_loop", in_while, twice},
    {"fold", in_fold, folded},
    {"scan", in_scan, scanned},
    {"captured_tensor",
     [](Library& run, const TensorMap& f, const Tensor& x) -> Tensor {
       return f(x * run.captured);
     },
     [](Judge& run, const NumberMap& f, const Numbers& x) {
       return f(x * run.sources[kCaptured]);
     }},
    {"captured_variable",
     [](Library& run, const TensorMap& f, const Tensor& x) -> Tensor {
       return f(x) * run.variable.read();
     },
     [](Judge& run, const NumberMap& f, const Numbers& x) {
       return f(x) * run.sources[kVariable];
     }},
    {"captured_struct",
     [](Library& run, const TensorMap& f, const Tensor& x) -> Tensor {
       return f(x * run.fields.a) + run.fields.b * 0.5;
     },
     [](Judge& run, const NumberMap& f, const Numbers& x) {
       return f(x * run.sources[kFieldA]) + run.sources[kFieldB] * 0.5;
     }},
    {"assigned_variable", assigned, held_sum},
    {"write_in_place", written, written_numbers},
    {"slices",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       const Tensor y = f(x);
       return etude::stack({y.at(2), y.at(0) * x.at(1), y.at(1)});
     },
     [](Judge&, const NumberMap& f, const Numbers& x) {
       const Numbers y = f(x);
       const Number all[] = {y.at[2], y.at[0] * x.at[1], y.at[1]};
       return Numbers::made([&](std::size_t i) { return all[i]; });
     }},
    {"random_draw",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return f(x * etude::where(etude::random::uniform({3}) < 2.0, numbers(1, 0.5, 1),
                                 numbers(0, 0, 0)));
     },
     [](Judge&, const NumberMap& f, const Numbers& x) { return f(scaled(x, 1, 0.5, 1)); }},
    {"frozen",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::stop_gradient(f(x)) * 2.0 + x;
     },
     held_sum},
    {"take_rows",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::take(f(x), Tensor({2, 0, 2}), {.axis = 0});
     },
     [](Judge&, const NumberMap& f, const Numbers& x) {
       const Numbers y = f(x);
       return Numbers::made([&](std::size_t i) { return y.at[i == 1 ? 0 : 2]; });
     }},
    {"exception", throws_first, plain},
    {"in_out_argument", in_out,
     [](Judge&, const NumberMap& f, const Numbers& x) { return (f(x) + x) * 1.5; }},
    {"pullback",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       const auto back = etude::pullback([f](const Tensor& q) { return f(q); }, x);
       return back(numbers(1, 1, 1)) * 0.5 + back(numbers(0.5, 0.5, 0.5));
     },
     gradient_of_sum},
    {"jacobian",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return sum(etude::jacobian([f](const Tensor& q) { return f(q); }, x), {.axis = {0}});
     },
     gradient_of_sum},
    {"hvp",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::hvp([f](const Tensor& q) { return sum(f(q)); }, x, x * 0.5);
     },
     [](Judge& run, const NumberMap& f, const Numbers& x) {
       return run.slope([&](const Numbers& q) { return run.gradient(f, q); }, x, x * 0.5);
     }},
    {"gradient_by_struct", by_struct, struct_slopes},
    {"gradient_by_parts", by_named_parts, struct_slopes},
    {"with_derivative",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::with_derivative(f(x), [](const Tensor& dy) { return dy * 0.5; });
     },
     [](Judge&, const NumberMap& f, const Numbers& x) {
       const Numbers y = f(x);
       return Numbers::made([&](std::size_t i) { return y.at[i].slopes_times(0.5); });
     }},
    {"write_parts", writes_parts, parts},
    {"add_to_variable", added_to_variable,
     [](Judge&, const NumberMap& f, const Numbers& x) { return held(f(x)) + x; }},
    {"rows_of_table", rows_of_table, table_sum},
    {"host_function", by_host_function, chosen, 1e-9, true},
    {"switch_case",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return etude::switch_case(
           astype(sum(x) > 0.4, etude::kInt32) + 1,
           std::tuple([&] { return x; }, [&] { return f(x); }, [&] { return f(x * 0.5); }));
     },
     [](Judge&, const NumberMap& f, const Numbers& x) {
       return sum(x).value() > 0.4L ? f(x * 0.5) : f(x);
     }},
    {"persistent_tape",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       etude::GradientTape tape({.persistent = true});
       const Tensor own = x * 1.0;  // as in by_tape
       tape.watch(own);
       const Tensor y = f(own);
       const auto slope = [&](const Tensor& of) {
         return tape.gradient(of, own, {.unconnected = etude::Unconnected::kZero});
       };
       return slope(sum(y)) * 0.5 + slope(sum(y * 0.5));
     },
     gradient_of_sum},
    {"hessian",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       return sum(etude::hessian([f](const Tensor& q) { return sum(f(q)); }, x), {.axis = {0}});
     },
     [](Judge& run, const NumberMap& f, const Numbers& x) {
       return run.gradient([&](const Numbers& q) { return run.gradient(f, q); }, x);
     }},
    {"dropout_at_rest",
     [](Library&, const TensorMap& f, const Tensor& x) -> Tensor {
       const etude::PhaseScope inference(etude::Phase::kInference);
       return etude::nn::Dropout(0.5)(f(x));
     },
     plain},
};

}  // namespace

std::span<const Feature> features() {
  static const std::vector<Feature> all = [] {
    std::vector<Feature> out(std::begin(kFeatures), std::end(kFeatures));
    out.insert(out.end(), surroundings().begin(), surroundings().end());
    return out;
  }();
  return all;
}

}  // namespace pairs
