// SPDX-License-Identifier: Apache-2.0
// Fields without a derivative: the error names the struct, the field, its type and a remedy.
// spec: G11
// error: NoDerivative<>; a pointer does not say whose number it is: hold the value itself
// error: NoDerivative<>; a pointer does not say whose number it is: hold the value itself
// error: NoDerivative<>; std::function hides what it computes: hold the callable itself
// error: NoDerivative<>; what std::shared_ptr or std::unique_ptr holds lies elsewhere
// error: NoDerivative<>; what std::shared_ptr or std::unique_ptr holds lies elsewhere
// error: NoDerivative<>; keys of a set cannot move: hold a std::vector
// error: NoDerivative<>; a class of your own lists its fields with ETUDE_FIELDS(Class, a, b)
// expect: Node<double>
// expect: Node<double>*
// expect: "next"
// expect: "activation"
// expect: Layers<double>
// expect: "parts"
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "etude/diff.h"

const auto f = [](const auto& s) { return s.value * s.value; };

template <class T>
struct Node {
  T value;
  Node* next;
};
auto pointer = etude::gradient(f, Node<double>{2, nullptr});

template <class T>
struct Layer {
  T value;
  std::function<T(T)> activation;
};
auto function = etude::gradient(f, Layer<double>{2, nullptr});

template <class T>
struct Shared {
  T value;
  std::shared_ptr<T> weight;
};
auto shared = etude::pullback(f, Shared<double>{2, nullptr});

template <class T>
struct Owned {
  T value;
  std::unique_ptr<T> weight;
};
const Owned<double> model{2, nullptr};
auto owned = etude::jvp(f, model, model);

template <class T>
struct Layers {
  T value;
  std::vector<Node<T>*> parts;
};
auto nested = etude::gradient(f, Layers<double>{2, {}});

template <class T>
struct Keys {
  T value;
  std::set<T> keys;
};
auto keys = etude::gradient(f, Keys<double>{2, {}});

template <class T>
class Hidden {
 public:
  explicit Hidden(T value) : value_(value) {}

 private:
  T value_;
};
template <class T>
struct Holder {
  T value;
  Hidden<T> hidden;
};
auto hidden = etude::gradient(f, Holder<double>{2, Hidden<double>(1)});
