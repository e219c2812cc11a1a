// SPDX-License-Identifier: Apache-2.0
#include "etude/lazy/structure.h"

#include <cstring>
#include <string>

#include "etude/base/check.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/graph/builder.h"

namespace etude::internal {
namespace {

std::array<uint64_t, 2> bits_of(const Tensor& x) {
  std::array<uint64_t, 2> bits{};
  std::memcpy(bits.data(), host_elements(x), static_cast<std::size_t>(x.type()->bytes()));
  return bits;
}

// Whether this number is part of the structure: numbers that rules and passes treat specially.
bool is_structure(const Tensor& x) {
  if (is_complex(x.dtype())) return false;
  double value = 0;
  convert_elements(&value, kFloat64, host_elements(x), x.dtype(), 1);
  return value == 0 || value == 1 || value == -1 || value == 2;
}

}  // namespace

std::vector<LazyNumber> numbers_of(const LazySegment& segment) {
  std::vector<LazyNumber> out;
  for (const Tensor& x : segment.numbers) out.push_back({!is_structure(x), bits_of(x)});
  return out;
}

std::vector<uint64_t> words_of(const LazySegment& s) {
  std::vector<uint64_t> words(3 + 2 * s.nodes.size() + s.operands.size() + s.inputs.size() +
                              s.numbers.size() + s.outputs.size());
  uint64_t* to = words.data();
  for (const std::size_t size : {s.nodes.size(), s.inputs.size(), s.numbers.size()}) *to++ = size;
  const uint32_t* operand = s.operands.data();
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    const uint64_t count = s.first_operand[i + 1] - s.first_operand[i];
    *to++ = s.nodes[i]->op->index() | count << 32;
    *to++ = s.nodes[i]->attrs.hash();
    for (uint64_t k = 0; k < count; ++k) *to++ = *operand++;
  }
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    *to++ = s.inputs[i].type()->id() | uint64_t{s.given[i]} << 32;
  }
  for (const Tensor& x : s.numbers) *to++ = x.type()->id();
  for (const LazySegment::Output& y : s.outputs) *to++ = s.first_value[y.node] + y.result;
  ETUDE_CHECK(to == words.data() + words.size(), "the structure of a segment has other words");
  return words;
}

LazyStructure::LazyStructure(const LazySegment& s)
    : operands(s.operands), given(s.given), numbers(s.numbers), where(s.where) {
  nodes.reserve(s.nodes.size());
  for (std::size_t i = 0; i < s.nodes.size(); ++i) {
    const LazyNode& node = *s.nodes[i];
    Types results;
    for (const LazyResult& r : node.results) results.push_back(r.type);
    nodes.push_back({node.op, node.attrs, node.where, std::move(results),
                     s.first_operand[i + 1] - s.first_operand[i]});
  }
  for (const Tensor& x : s.inputs) inputs.push_back(x.type());
  for (const LazySegment::Output& y : s.outputs) {
    outputs.push_back(s.first_value[y.node] + y.result);
  }
}

std::vector<uint64_t> LazyStructure::common_words(const std::vector<LazyNumber>& values) const {
  const auto word_of = [](const Type* type) {
    const Device device = type->device();
    return static_cast<uint64_t>(type->dtype()) | static_cast<uint64_t>(type->rank()) << 8 |
           static_cast<uint64_t>(device.id()) << 16;
  };
  std::vector<uint64_t> words = {nodes.size(), inputs.size(), numbers.size()};
  for (const Node& node : nodes) {
    words.push_back(node.op->index());
    words.push_back(node.operands);
  }
  words.insert(words.end(), operands.begin(), operands.end());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    words.push_back(word_of(inputs[i]) | uint64_t{given[i]} << 32);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    words.push_back(word_of(numbers[i].type()) | uint64_t{values[i].is_input} << 32);
    if (!values[i].is_input) {
      words.insert(words.end(), values[i].bits.begin(), values[i].bits.end());
    }
  }
  words.insert(words.end(), outputs.begin(), outputs.end());
  return words;
}

GraphRef LazyStructure::graph(const std::vector<LazyNumber>& values) const {
  using Draft = GraphBuilder::Draft;
  GraphBuilder builder("lazy");
  std::vector<Draft> given_values, constants, results, drafts, wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    given_values.push_back(builder.add_input("x" + std::to_string(i), inputs[i]));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    constants.push_back(values[i].is_input
                            ? builder.add_input("n" + std::to_string(i), numbers[i].type())
                            : builder.add_constant(numbers[i]));
  }
  const uint32_t* operand = operands.data();
  for (const Node& node : nodes) {
    drafts.clear();
    for (uint32_t k = 0; k < node.operands; ++k) {
      const uint32_t code = *operand++, index = code & LazySegment::kIndex;
      const uint32_t kind = code & ~LazySegment::kIndex;
      drafts.push_back(kind == LazySegment::kInput    ? given_values[index]
                       : kind == LazySegment::kNumber ? constants[index]
                       : kind == LazySegment::kResult ? results[index]
                                                      : GraphBuilder::kNoDraft);
    }
    const Draft first = builder.add_node(*node.op, node.attrs, drafts, node.results, node.where);
    for (Draft r = 0; r < node.results.size(); ++r) results.push_back(first + r);
  }
  for (const uint32_t y : outputs) wanted.push_back(results[y]);
  return builder.finish(wanted);
}

}  // namespace etude::internal
