// SPDX-License-Identifier: Apache-2.0
// Plain loops over containers of n numbers. The time for one element of their gradients must not
// grow with n, and no element may need an allocation.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "benchmarks/numbers/programs/random.h"

namespace etude::bench::numbers {

// Each loop makes its argument of n numbers, all different, and knows its gradient.
inline std::vector<double> list_of(std::size_t n) { return Random(47).uniforms(n, 0.999, 1.001); }

struct SumByIndex {
  static std::vector<double> make(std::size_t n) { return list_of(n); }
  template <class T>
  T operator()(const std::vector<T>& v) const {
    T sum(0);
    for (std::size_t i = 0; i < v.size(); ++i) sum += v[i];
    return sum;
  }
  std::vector<double> hand(const std::vector<double>& v) const {
    return std::vector<double>(v.size(), 1);
  }
};

struct ProductByIndex {
  static std::vector<double> make(std::size_t n) { return list_of(n); }
  template <class T>
  T operator()(const std::vector<T>& v) const {
    T product(1);
    for (std::size_t i = 0; i < v.size(); ++i) product *= v[i];
    return product;
  }
  // No element is 0.
  std::vector<double> hand(const std::vector<double>& v) const {
    const double product = (*this)(v);
    std::vector<double> out(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) out[i] = product / v[i];
    return out;
  }
};

// Each element is changed in place, by the one before it.
struct ChangeByIndex {
  static std::vector<double> make(std::size_t n) { return list_of(n); }
  template <class T>
  T operator()(std::vector<T> v) const {
    for (std::size_t i = 1; i < v.size(); ++i) v[i] = 0.5 * (v[i] * v[i] + v[i - 1]);
    return v.back();
  }
  std::vector<double> hand(const std::vector<double>& v) const {
    std::vector<double> out(v.size());
    double back = 1;
    for (std::size_t i = v.size(); i-- > 1; back *= 0.5) out[i] = back * v[i];
    out[0] = back;
    return out;
  }
};

template <class T>
struct Row {
  std::vector<T> w;
};

// Rows of ten.
struct NestedSubscripts {
  static std::vector<Row<double>> make(std::size_t n) {
    const std::vector<double> numbers = list_of(n);
    std::vector<Row<double>> rows(n / 10);
    for (std::size_t i = 0; i < n; ++i) rows[i / 10].w.push_back(numbers[i]);
    return rows;
  }
  template <class T>
  T operator()(const std::vector<Row<T>>& v) const {
    T sum(0);
    for (std::size_t i = 0; i < v.size(); ++i) {
      for (std::size_t j = 0; j < v[i].w.size(); ++j) sum += v[i].w[j] * v[i].w[j];
    }
    return sum;
  }
  std::vector<Row<double>> hand(std::vector<Row<double>> v) const {
    for (auto& row : v) {
      for (double& x : row.w) x *= 2;
    }
    return v;
  }
};

struct MapEntries {
  static std::map<int, double> make(std::size_t n) {
    const std::vector<double> numbers = list_of(n);
    std::map<int, double> entries;
    for (std::size_t i = 0; i < n; ++i) entries[static_cast<int>(i)] = numbers[i];
    return entries;
  }
  template <class T>
  T operator()(const std::map<int, T>& entries) const {
    T sum(0);
    for (const auto& [key, value] : entries) sum += value * value;
    return sum;
  }
  std::map<int, double> hand(std::map<int, double> entries) const {
    for (auto& [key, value] : entries) value *= 2;
    return entries;
  }
};

}  // namespace etude::bench::numbers
