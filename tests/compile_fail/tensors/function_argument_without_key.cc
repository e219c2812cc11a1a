// SPDX-License-Identifier: Apache-2.0
// A class that is no structure of tensors and host values, and that nothing compares.
// spec: TC-10
// expect: etude: function(): an argument is a tensor, a number, a text, an enum, a container or a
// expect: plain struct of these, or has ==. This type is none of these: pass what the function
// or expect: Handle
#include "etude/etude.h"

class Handle {
 public:
  explicit Handle(int number) : number_(number) {}
  int number() const { return number_; }

 private:
  int number_;
};

auto f = etude::function([](const etude::Tensor& x, const Handle&) { return x; });
auto y = f(etude::Tensor(1.0), Handle(3));
