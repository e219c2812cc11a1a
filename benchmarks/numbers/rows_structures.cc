// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "benchmarks/numbers/adolc.h"
#include "benchmarks/numbers/programs/bundle.h"
#include "benchmarks/numbers/programs/thermal.h"
#include "benchmarks/numbers/rows.h"
#include "etude/diff/scalar_operators.h"

namespace etude::bench::numbers {

// In the namespace of their types, where contender() finds them.
void append(std::vector<double>& out, const House<double>& house) {
  each_number(house, [&](double number) { out.push_back(number); });
}
void append(std::vector<double>& out, const BundleBlock& block) {
  for (const auto& row : block.residuals) append(out, row);
  out.push_back(block.error);
}

namespace {

// By scan, or with each step on the tape.
template <bool uses_scan>
Case thermal(const std::string& name) {
  const auto program = std::make_shared<const Thermal>();
  Case out;
  out.name = name;
  out.aim = uses_scan ? 6 : 0;
  append(out.parameters, program->house);
  const auto on_list = [program](const auto& numbers) { return (*program)(house_of(numbers)); };
  out.primal = contender([=] { return (*program)(program->house); });
  out.gradient = contender([=] {
    return etude::gradient(
        [&](const auto& house) { return uses_scan ? program->by_scan(house) : (*program)(house); },
        program->house);
  });
  out.hand = contender([=] { return program->hand(); });
  out.value_at = on_list;
  add_adolc(out, on_list);
  return out;
}

// fn(camera, point, weight, seen) for each observation, into one row each.
template <class Out, class Fn>
std::vector<Out> each_observation(const Bundle& bundle, const Fn& fn) {
  std::vector<Out> out(bundle.observations.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto& [camera, point, seen] = bundle.observations[i];
    out[i] = fn(bundle.cameras[camera], bundle.points[point], bundle.weights[i], seen);
  }
  return out;
}

using Residuals = std::array<double, 3>;

// The pullback of both residuals, called once for each.
BundleBlock by_pullback(const Camera<double>& camera, const Vector3<double>& point, double weight,
                        const std::array<double, 2>& seen) {
  const auto pull = etude::pullback(
      [&](const auto& c, const auto& p, const auto& w) { return reprojection(c, p, w, seen); },
      camera, point, weight);
  BundleBlock out;
  for (std::size_t k = 0; k < 2; ++k) {
    const auto [of_camera, of_point, of_weight] = pull({k == 0 ? 1.0 : 0.0, k == 1 ? 1.0 : 0.0});
    auto at = std::copy(of_camera.begin(), of_camera.end(), out.residuals[k].begin());
    at = std::copy(of_point.begin(), of_point.end(), at);
    *at = of_weight;
  }
  out.error = etude::gradient([](const auto& w) { return weight_error(w); }, weight);
  return out;
}

// One vector of the 15 numbers of an observation, as those functions want it that take vectors.
template <class List>
auto on_list(const List& x, const std::array<double, 2>& seen) {
  using T = typename List::value_type;
  Camera<T> camera;
  for (std::size_t i = 0; i < 11; ++i) camera[i] = x[i];
  return reprojection(camera, Vector3<T>{x[11], x[12], x[13]}, x[14], seen);
}
std::vector<double> list_of(const Camera<double>& camera, const Vector3<double>& point,
                            double weight) {
  std::vector<double> x(camera.begin(), camera.end());
  x.insert(x.end(), point.begin(), point.end());
  x.push_back(weight);
  return x;
}

BundleBlock by_jacobian(const Camera<double>& camera, const Vector3<double>& point, double weight,
                        const std::array<double, 2>& seen) {
  const auto rows = etude::jacobian(
      [&](const auto& x) {
        using T = typename std::remove_cvref_t<decltype(x)>::value_type;
        const auto both = on_list(x, seen);
        return std::vector<T>{both[0], both[1]};
      },
      list_of(camera, point, weight));
  BundleBlock out;
  for (std::size_t k = 0; k < 2; ++k) {
    std::copy(rows[k].begin(), rows[k].end(), out.residuals[k].begin());
  }
  out.error = etude::gradient([](const auto& w) { return weight_error(w); }, weight);
  return out;
}

#ifdef ETUDE_HAVE_ADOLC
// The tape of a block. The observation is a constant of it.
class AdolcBlock {
 public:
  explicit AdolcBlock(bool records) : records_(records) {}

  BundleBlock operator()(const Camera<double>& camera, const Vector3<double>& point, double weight,
                         const std::array<double, 2>& seen) {
    std::array<double, 15> x;
    std::copy(camera.begin(), camera.end(), x.begin());
    std::copy(point.begin(), point.end(), x.begin() + 11);
    x[14] = weight;
    BundleBlock out;
    if (records_ || !is_ready_) {
      *seen_ = seen;
      tape_.record(x.data());
      is_ready_ = true;
    }
    std::array<double, 3> values;
    if (!records_) tape_.evaluate(x.data(), values.data());
    std::array<std::array<double, 3>, 3> weights = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
    std::array<double, 15> of_error;
    double* from[3] = {weights[0].data(), weights[1].data(), weights[2].data()};
    double* to[3] = {out.residuals[0].data(), out.residuals[1].data(), of_error.data()};
    tape_.reverse(from, to);
    // Only the derivative by the weight depends on the observation.
    for (std::size_t k = 0; k < 2; ++k) out.residuals[k][14] += (*seen_)[k] - seen[k];
    out.error = of_error[14];
    return out;
  }

 private:
  struct Record {
    std::shared_ptr<std::array<double, 2>> seen;
    std::array<adouble, 3> operator()(const std::vector<adouble>& x) const {
      const auto both = on_list(x, *seen);
      return {both[0], both[1], weight_error(x[14])};
    }
  };
  bool records_, is_ready_ = false;
  std::shared_ptr<std::array<double, 2>> seen_ = std::make_shared<std::array<double, 2>>();
  AdolcTape<Record> tape_{Record{seen_}, 15, 3};
};

void add_adolc_blocks(Case& out, const std::shared_ptr<const Bundle>& bundle) {
  const auto blocks = [bundle](bool records) {
    return contender([bundle, block = std::make_shared<AdolcBlock>(records)] {
      return each_observation<BundleBlock>(*bundle,
                                           [&](const auto&... x) { return (*block)(x...); });
    });
  };
  out.adolc = blocks(true);
  out.adolc_again = blocks(false);
}
#else
void add_adolc_blocks(Case&, const std::shared_ptr<const Bundle>&) {}
#endif

template <BundleBlock (*etude_block)(const Camera<double>&, const Vector3<double>&, double,
                                     const std::array<double, 2>&)>
Case bundle(const std::string& name) {
  const auto data = std::make_shared<const Bundle>();
  Case out;
  out.name = name;
  out.aim = 28;
  out.primal = contender([data] {
    return each_observation<Residuals>(
        *data, [](const auto& camera, const auto& point, double weight, const auto& seen) {
          const auto both = reprojection(camera, point, weight, seen);
          return Residuals{both[0], both[1], weight_error(weight)};
        });
  });
  out.gradient = contender([data] { return each_observation<BundleBlock>(*data, *etude_block); });
  out.hand = contender([data] { return each_observation<BundleBlock>(*data, Bundle::hand_block); });
  add_adolc_blocks(out, data);
  return out;
}

}  // namespace

void add_structures(std::vector<Entry>& entries) {
  entries.push_back({"thermal", thermal<true>});
  entries.push_back({"thermal_tape", thermal<false>});
  entries.push_back({"bundle", bundle<by_pullback>});
  entries.push_back({"bundle_jacobian", bundle<by_jacobian>});
}

}  // namespace etude::bench::numbers
