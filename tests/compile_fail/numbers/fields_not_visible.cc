// SPDX-License-Identifier: Apache-2.0
// Structs whose fields cannot be read: where that is found, templates lie around it.
// spec: D18
// error: etude: a field of this struct is a reference; hold a value or a pointer
// error: etude: the fields of a struct with a base class are not visible; list them with ETUDE_
// error: etude: a class with ETUDE_FIELDS or with a C array is made by its default constructor
// expect: View<double>
// expect: Derived<double>
#include "etude/diff.h"

const auto f = [](const auto& s) { return s.value * s.value; };

template <class T>
struct View {
  T& value;
  T scale;
};
double number = 1;
auto reference = etude::gradient(f, View<double>{number, 2});

template <class T>
struct Base {
  T value;
};
template <class T>
struct Derived : Base<T> {
  T scale;
};
auto base = etude::gradient(f, Derived<double>{{1}, 2});

template <class T>
class Made {
 public:
  explicit Made(T number) : value(number) {}
  T value;
  ETUDE_FIELDS(Made, value);
};
auto made = etude::gradient(f, Made<double>(2));
