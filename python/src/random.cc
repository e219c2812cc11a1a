// SPDX-License-Identifier: Apache-2.0
// etude.random: draws and keys, as etude/ops/random.h.
#include "etude/ops/random.h"

#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include "python/src/convert.h"
#include "python/src/dtype.h"

namespace etude::python {
namespace {

int64_t as_size(nb::handle size) {
  const nb::object index = nb::steal(PyNumber_Index(size.ptr()));
  if (!index.is_valid()) throw nb::python_error();
  const int64_t out = PyLong_AsLongLong(index.ptr());
  if (out == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return out;
}

IntList as_sizes(nb::handle shape) {
  if (shape.is_none()) return {};
  const bool is_one = PyLong_Check(shape.ptr()) != 0 ||
                      (PyIndex_Check(shape.ptr()) != 0 && PySequence_Check(shape.ptr()) == 0);
  if (is_one) return IntList(as_size(shape));
  std::vector<int64_t> sizes;
  for (const nb::handle size : shape) sizes.push_back(as_size(size));
  return IntList(std::move(sizes));
}

Tensor as_optional_tensor(nb::handle object) {
  return object.is_none() ? Tensor() : as_tensor(object);
}

// A draw of a shape: its work is known before it begins.
template <class F>
nb::object draw(const IntList& shape, const F& run) {
  int64_t bytes = 8;
  for (const int64_t size : shape.values())
    bytes = std::min(bytes * std::max<int64_t>(size, 1), kSmallBytes + 1);
  const bool keeps = internal::mode_word == 0 && bytes <= kSmallBytes && shape.is_given();
  return wrap(with_user_line([&] { return keeps ? run() : released(run); }));
}

// Options follow the shape by name, so that normal(2, 3) is no shape 2 with the mean 3.
// `options`: "mean and stddev".
void require_one_shape(const std::string& function, const char* options, nb::handle shape,
                       const nb::args& more) {
  if (more.size() == 0) return;
  const std::string call = "et.random." + function + "(";
  bool is_sizes = PyLong_Check(shape.ptr()) != 0;
  std::string sizes = nb::cast<std::string>(nb::repr(shape));
  for (const nb::handle each : more) {
    is_sizes = is_sizes && PyLong_Check(each.ptr()) != 0;
    sizes += ", " + nb::cast<std::string>(nb::repr(each));
  }
  const std::string first =
      is_sizes ? "a shape is one argument: write " + call + "(" + sizes + ")). " : "";
  throw nb::type_error((function + "(): " + first + "Give " + options + " by name: " + call +
                        "shape, " + (function == "uniform" ? "low=0, high=1" : "mean=0, stddev=1") +
                        ")")
                           .c_str());
}

template <class Draw>
auto normal_like(const char* name, const Draw& draw_normal) {
  return
      [name, draw_normal](nb::handle shape, const nb::args& more, nb::handle mean,
                          nb::handle stddev, nb::handle dtype, nb::handle key, nb::handle device) {
        require_one_shape(name, "mean and stddev", shape, more);
        const IntList sizes = as_sizes(shape);
        const random::NormalOptions options = {as_optional_tensor(mean), as_optional_tensor(stddev),
                                               as_optional_dtype(dtype), as_optional_tensor(key),
                                               as_optional_device(device)};
        return draw(sizes, [&] { return draw_normal(sizes, options); });
      };
}

random::DrawOptions draw_options(nb::handle dtype, nb::handle key, nb::handle device) {
  return {as_optional_dtype(dtype), as_optional_tensor(key), as_optional_device(device)};
}

// with SeedScope(seed): draws of this thread use a generator of their own.
class PySeedScope {
 public:
  explicit PySeedScope(Generator generator) : generator_(generator) {}
  void enter() {
    if (scope_) throw nb::value_error("this scope is open already");
    scope_.emplace(generator_);
  }
  void leave() { scope_.reset(); }

 private:
  Generator generator_;
  std::optional<SeedScope> scope_;
};

void bind_generator(nb::module_& m) {
  nb::class_<Generator>(m, "Generator",
                        "A sequence of random keys, as a value: a copy produces the same keys.")
      .def(nb::init<uint64_t, uint64_t>(), nb::arg("seed") = 0, nb::arg("stream") = 0)
      .def_rw("seed", &Generator::seed)
      .def_rw("stream", &Generator::stream)
      .def_rw("position", &Generator::position)
      .def(
          "next_key",
          [](Generator& self) { return wrap(with_user_line([&] { return self.next_key(); })); },
          nb::sig("def next_key(self) -> Tensor"),
          "The key of one draw, uint64[2]. Advances by one.")
      .def("copy", [](const Generator& self) { return self; })
      .def("__copy__", [](const Generator& self) { return self; })
      .def("__deepcopy__", [](const Generator& self, nb::handle) { return self; })
      .def("__getstate__",
           [](const Generator& self) {
             return nb::make_tuple(self.seed, self.stream, self.position);
           })
      .def("__setstate__",
           [](Generator& self, const std::tuple<uint64_t, uint64_t, uint64_t>& state) {
             new (&self) Generator(std::get<0>(state), std::get<1>(state));
             self.position = std::get<2>(state);
           })
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object) -> bool"))
      .def("__repr__", [](const Generator& self) {
        return nb::str("Generator(seed={}, stream={}, position={})")
            .format(self.seed, self.stream, self.position);
      });
  nb::class_<PySeedScope>(m, "SeedScope",
                          "While open, draws of this thread use the given seed or generator.")
      .def(
          "__init__",
          [](PySeedScope* self, nb::handle seed) {
            Generator* generator = nullptr;
            const bool is_generator = nb::try_cast(seed, generator) && generator != nullptr;
            new (self) PySeedScope(is_generator ? *generator : Generator(nb::cast<uint64_t>(seed)));
          },
          nb::arg("seed"), nb::sig("def __init__(self, seed: int | Generator) -> None"))
      .def(
          "__enter__",
          [](PySeedScope& self) -> PySeedScope& {
            self.enter();
            return self;
          },
          nb::rv_policy::reference)
      .def("__exit__", [](PySeedScope& self, const nb::args&) { self.leave(); });
  m.def("set_seed", &set_seed, nb::arg("seed"), "Restarts the random sequence of this thread.");
}

constexpr const char* kShapeKeyDoc = "With `key`, the draw is a function of the key alone.";

void bind_continuous(nb::module_& r) {
  r.def(
      "uniform",
      [](nb::handle shape, const nb::args& more, nb::handle low, nb::handle high, nb::handle dtype,
         nb::handle key, nb::handle device) {
        require_one_shape("uniform", "low and high", shape, more);
        const IntList sizes = as_sizes(shape);
        const random::UniformOptions options = {as_optional_tensor(low), as_optional_tensor(high),
                                                as_optional_dtype(dtype), as_optional_tensor(key),
                                                as_optional_device(device)};
        return draw(sizes, [&] { return random::uniform(sizes, options); });
      },
      nb::arg("shape"), nb::arg("more"), nb::arg("low") = nb::none(), nb::arg("high") = nb::none(),
      nb::arg("dtype") = nb::none(), nb::arg("key") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig(
          "def uniform(shape: object, *, low: object = None, high: object = None, dtype: object "
          "= None, key: object = None, device: object = None) -> object"),
      "Uniform in [low, high), by default [0, 1).");
  r.def("normal",
        normal_like("normal", [](const IntList& s,
                                 const random::NormalOptions& o) { return random::normal(s, o); }),
        nb::arg("shape"), nb::arg("more"), nb::arg("mean") = nb::none(),
        nb::arg("stddev") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("key") = nb::none(),
        nb::arg("device") = nb::none(),
        nb::sig("def normal(shape: object, *, mean: object = None, stddev: object = None, dtype: "
                "object = None, key: object = None, device: object = None) -> object"),
        "Normal (Gaussian), by default of mean 0 and deviation 1.");
  r.def(
      "truncated_normal",
      normal_like("truncated_normal",
                  [](const IntList& s, const random::NormalOptions& o) {
                    return random::truncated_normal(s, o);
                  }),
      nb::arg("shape"), nb::arg("more"), nb::arg("mean") = nb::none(),
      nb::arg("stddev") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("key") = nb::none(),
      nb::arg("device") = nb::none(),
      nb::sig("def truncated_normal(shape: object, *, mean: object = None, stddev: object = None, "
              "dtype: object = None, key: object = None, device: object = None) -> object"),
      "Normal, within two standard deviations of the mean.");
}

void bind_discrete(nb::module_& r) {
  r.def(
      "randint",
      [](nb::handle shape, int64_t low, int64_t high, nb::handle dtype, nb::handle key,
         nb::handle device) {
        const IntList sizes = as_sizes(shape);
        const random::DrawOptions options = draw_options(dtype, key, device);
        return draw(sizes, [&] { return random::randint(sizes, low, high, options); });
      },
      nb::arg("shape"), nb::arg("low"), nb::arg("high"), nb::kw_only(),
      nb::arg("dtype") = nb::none(), nb::arg("key") = nb::none(), nb::arg("device") = nb::none(),
      "Integers in [low, high), int32 by default.");
  r.def(
      "bernoulli",
      [](nb::handle p, nb::handle shape, nb::handle dtype, nb::handle key, nb::handle device) {
        const IntList sizes = as_sizes(shape);
        const random::DrawOptions options = draw_options(dtype, key, device);
        const Tensor probability = as_tensor(p);
        return draw(sizes, [&] { return random::bernoulli(probability, sizes, options); });
      },
      nb::arg("p"), nb::arg("shape") = nb::none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("key") = nb::none(), nb::arg("device") = nb::none(),
      "True with probability p, which broadcasts to the shape.");
  r.def(
      "categorical",
      [](nb::handle logits, nb::handle shape, nb::handle dtype, nb::handle key, nb::handle device) {
        const IntList sizes = as_sizes(shape);
        const random::DrawOptions options = draw_options(dtype, key, device);
        const Tensor x = as_tensor(logits);
        return wrap(
            with_user_line_released([&] { return random::categorical(x, sizes, options); }));
      },
      nb::arg("logits"), nb::arg("shape") = nb::none(), nb::kw_only(),
      nb::arg("dtype") = nb::none(), nb::arg("key") = nb::none(), nb::arg("device") = nb::none(),
      "Classes of the last axis, with the probabilities softmax(logits).");
}

void bind_orders(nb::module_& r) {
  r.def(
      "permutation",
      [](int64_t n, nb::handle dtype, nb::handle key, nb::handle device) {
        const random::DrawOptions options = draw_options(dtype, key, device);
        return wrap(with_user_line_released([&] { return random::permutation(n, options); }));
      },
      nb::arg("n"), nb::kw_only(), nb::arg("dtype") = nb::none(), nb::arg("key") = nb::none(),
      nb::arg("device") = nb::none(), "The numbers 0 to n - 1 in a random order, int64.");
  r.def(
      "shuffle",
      [](nb::handle x, int64_t axis, nb::handle key) {
        const random::ShuffleOptions options = {axis, as_optional_tensor(key)};
        const Tensor tensor = as_tensor(x);
        return wrap(with_user_line_released([&] { return random::shuffle(tensor, options); }));
      },
      nb::arg("x"), nb::kw_only(), nb::arg("axis") = 0, nb::arg("key") = nb::none(),
      "x with its slices along one axis in random order.");
  r.def(
      "choice",
      [](nb::handle x, nb::handle shape, bool replace, nb::handle p, nb::handle key) {
        const random::ChoiceOptions options = {replace, as_optional_tensor(p),
                                               as_optional_tensor(key)};
        const Tensor tensor = as_tensor(x);
        const IntList sizes = as_sizes(shape);
        return wrap(
            with_user_line_released([&] { return random::choice(tensor, sizes, options); }));
      },
      nb::arg("x"), nb::arg("shape"), nb::kw_only(), nb::arg("replace") = true,
      nb::arg("p") = nb::none(), nb::arg("key") = nb::none(),
      "Slices of x along its first axis, drawn at random.");
}

}  // namespace

void bind_random(nb::module_& m) {
  bind_generator(m);
  nb::module_ r = m.def_submodule("random", kShapeKeyDoc);
  r.attr("__name__") = "etude.random";
  r.def(
      "key", [](uint64_t seed) { return wrap(random::key(seed)); }, nb::arg("seed"),
      "A key, uint64[2], from a number.");
  r.def(
      "split",
      [](nb::handle key, int64_t n) {
        return wrap(with_user_line([&] { return random::split(as_tensor(key), n); }));
      },
      nb::arg("key"), nb::arg("n") = 2,
      "n new keys from one key, which should not be used again: uint64[n, 2].");
  r.def(
      "fold_in",
      [](nb::handle key, nb::handle number) {
        Operand operand;
        if (!operand.read(number, CallSite{}, false))
          throw nb::type_error("fold_in(): 'number' is an integer or a tensor of integers");
        const Tensor from = as_tensor(key);
        return wrap(with_user_line([&] { return random::fold_in(from, operand.arg()); }));
      },
      nb::arg("key"), nb::arg("number"),
      "A new key from a key and an integer, such as the number of a step.");
  bind_continuous(r);
  bind_discrete(r);
  bind_orders(r);
  nb::module_::import_("sys").attr("modules")["etude.random"] = r;
}

}  // namespace etude::python
