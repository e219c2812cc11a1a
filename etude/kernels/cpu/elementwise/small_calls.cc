// SPDX-License-Identifier: Apache-2.0
#include "etude/kernels/cpu/elementwise/small_calls.h"

#include <cstring>
#include <numeric>
#include <vector>

namespace etude::kernels::cpu {
namespace {

// Where the kernel moves elements to: it is run on their numbers.
template <class Number>
bool describe_numbers(const Prepared& call, std::span<const Type* const> operands, SmallCall& out) {
  std::vector<std::vector<Number>> numbers;
  std::vector<const void*> in;
  std::size_t next = 0;
  for (const Type* type : operands) {
    auto& list = numbers.emplace_back(static_cast<std::size_t>(type->count()));
    std::iota(list.begin(), list.end(), static_cast<Number>(next));
    next += list.size();
    in.push_back(list.data());
  }
  if (next > 256) return false;  // as many as fit in a byte
  std::vector<Number> found(static_cast<std::size_t>(call.results[0]->count()));
  void* result = found.data();
  if (!call.run({call.state, &result, in.data()})) return false;
  out.kind = SmallCall::Kind::kMove;
  out.at.assign(1, {found.begin(), found.end()});
  return true;
}

}  // namespace

bool describe_small_call(const Prepared& call, std::span<const Type* const> operands,
                         SmallCall& out) {
  if (describe_elementwise(call, out) || describe_product(call, out) || describe_reduce(call, out))
    return true;
  if (!is_copy(call.run) && !is_broadcast(call.run) && !is_join(call.run)) return false;
  for (const Type* type : operands) {
    if (type->dtype() != call.results[0]->dtype()) return false;
  }
  return call.results[0]->dtype() == kBool ? describe_numbers<uint8_t>(call, operands, out)
                                           : describe_numbers<uint32_t>(call, operands, out);
}

}  // namespace etude::kernels::cpu
