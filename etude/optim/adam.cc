// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/adam.h"

#include <cmath>

#include "etude/base/check.h"
#include "etude/core/call.h"
#include "etude/core/context.h"

namespace etude::optim {

Adam::Adam(AdamOptions options, bool decoupled)
    : options_(std::move(options)),
      decoupled_(decoupled),
      slots_(options_.amsgrad ? std::vector<std::string>{"mean", "variance", "highest"}
                              : std::vector<std::string>{"mean", "variance"}) {
  const auto is_fraction = [](double beta) { return beta >= 0 && beta < 1; };
  ETUDE_REQUIRE(is_fraction(options_.beta1) && is_fraction(options_.beta2),
                "Adam: beta1 is {} and beta2 is {}; both must be in [0, 1)", options_.beta1,
                options_.beta2);
}

double Adam::rate() const {
  const std::int64_t done = updates();
  return options_.lr(done) / (1 + options_.decay * static_cast<double>(done));
}

void Adam::restore(State state) {
  slots_.restore(std::move(state));
  restored_ = true;
}

// In the order of kernels/cpu/optimizer_steps.h.
Tensor Adam::rates(double lr) const {
  const auto t = static_cast<double>(updates());
  return Tensor(std::vector<double>{
      lr, decoupled_ ? lr * options_.weight_decay : options_.weight_decay, options_.beta1,
      1 - options_.beta1, options_.beta2, 1 - options_.beta2, 1 / (1 - std::pow(options_.beta1, t)),
      1 / (1 - std::pow(options_.beta2, t)), options_.eps});
}

void Adam::update_all(const std::vector<internal::Parameter>& parameters, CallSite where) {
  static const Op& op = etude::internal::op("adam_update");
  const double lr = rate();
  slots_.begin_update(parameters);
  restored_ = false;
  const Tensor rates = this->rates(lr);
  const Attrs attrs = op.attrs({decoupled_});
  constexpr std::uint64_t kParameterAndState = 0b111001;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [value, gradient, path] = parameters[i];
    if (!gradient->has_value()) continue;
    slots_.note_copies(i, *value, "Adam::update", where);
    std::array<Tensor, 3>& state = slots_[i];
    OperandList list({value, gradient, &rates, &state[0], &state[1]});
    if (options_.amsgrad) list.add(state[2]);
    Values out = execute(op, list.view(kParameterAndState), attrs, where);
    *value = std::move(out[0]);
    for (std::size_t k = 1; k < out.size(); ++k) state[k - 1] = std::move(out[k]);
  }
}

}  // namespace etude::optim
