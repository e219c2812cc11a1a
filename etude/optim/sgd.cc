// SPDX-License-Identifier: Apache-2.0
#include "etude/optim/sgd.h"

#include "etude/base/check.h"
#include "etude/core/call.h"
#include "etude/core/context.h"

namespace etude::optim {

SGD::SGD(SGDOptions options)
    : options_(std::move(options)),
      slots_(options_.momentum != 0 ? std::vector<std::string>{"velocity"}
                                    : std::vector<std::string>{}) {
  ETUDE_REQUIRE(!options_.nesterov || options_.momentum > 0,
                "SGD: nesterov needs a momentum above 0, but momentum is {}", options_.momentum);
}

double SGD::rate() const {
  const std::int64_t done = updates();
  return options_.lr(done) / (1 + options_.decay * static_cast<double>(done));
}

void SGD::restore(State state) {
  slots_.restore(std::move(state));
  restored_ = true;
}

void SGD::update_all(const std::vector<internal::Parameter>& parameters, CallSite where) {
  static const Op& op = etude::internal::op("sgd_update");
  const double lr = rate();
  slots_.begin_update(parameters);
  restored_ = false;
  const double keep = updates() == 1 ? 1 : 1 - options_.dampening;
  const Tensor rates(std::vector<double>{lr, options_.weight_decay, options_.momentum, keep});
  const Attrs attrs = op.attrs({options_.nesterov});
  constexpr std::uint64_t kParameterAndVelocity = 0b1001;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [value, gradient, path] = parameters[i];
    if (!gradient->has_value()) continue;
    slots_.note_copies(i, *value, "SGD::update", where);
    OperandList list({value, gradient, &rates});
    if (options_.momentum != 0) list.add(slots_[i][0]);
    Values out = execute(op, list.view(kParameterAndVelocity), attrs, where);
    *value = std::move(out[0]);
    if (options_.momentum != 0) slots_[i][0] = std::move(out[1]);
  }
}

}  // namespace etude::optim
