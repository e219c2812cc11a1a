// SPDX-License-Identifier: Apache-2.0
// Polynomials of several numbers, with derivatives of all orders in closed form, by arithmetic on
// doubles alone. The reference for derivatives of products and determinants.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

namespace etude::tests {

struct Polynomial {
  struct Term {
    double factor = 1;
    std::vector<int> powers;  // of each number
  };
  std::vector<Term> terms;

  double operator()(const std::vector<double>& at) const {
    double sum = 0;
    for (const Term& term : terms) {
      double product = term.factor;
      for (std::size_t i = 0; i < at.size(); ++i) product *= std::pow(at[i], term.powers[i]);
      sum += product;
    }
    return sum;
  }
  Polynomial by(std::size_t i) const {
    Polynomial slope;
    for (Term term : terms) {
      if (term.powers[i] == 0) continue;
      term.factor *= term.powers[i]--;
      slope.terms.push_back(std::move(term));
    }
    return slope;
  }
};

}  // namespace etude::tests
