// SPDX-License-Identifier: Apache-2.0
#include "etude/stablehlo/module.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"
#include "etude/stablehlo/number_text.h"

namespace etude::stablehlo::internal {
namespace {

constexpr int64_t kMostShown = 16;  // elements of a constant that are numbers, not bytes

const Type* typed(DType dtype, const Shape& shape) { return intern_type(dtype, shape); }

// The shape of a list, as in "[[1, 2], [3, 4]]".
std::string nested(std::span<const std::string> elements, std::span<const int64_t> sizes) {
  if (sizes.empty()) return elements[0];
  const auto part = elements.size() / static_cast<std::size_t>(sizes[0]);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < elements.size(); i += part) {
    parts.push_back(nested(elements.subspan(i, part), sizes.subspan(1)));
  }
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

// Whether all elements have the same bytes.
bool is_splat(const uint8_t* bytes, std::size_t item, std::size_t count) {
  return std::memcmp(bytes, bytes + item, item * (count - 1)) == 0;
}

std::string bytes_text(const uint8_t* bytes, std::size_t size) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "\"0x";
  out.reserve(2 * size + 4);
  for (std::size_t i = 0; i < size; ++i) {
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out + '"';
}

std::string dense_text(const Tensor& x) {
  const auto* const bytes = static_cast<const uint8_t*>(etude::internal::host_elements(x));
  const auto item = static_cast<std::size_t>(itemsize(x.dtype()));
  const auto count = static_cast<std::size_t>(x.size());
  if (count == 0) return "";
  if (is_splat(bytes, item, count)) return number_text(bytes, x.dtype());
  if (count > static_cast<std::size_t>(kMostShown)) return bytes_text(bytes, item * count);
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < count; ++i) {
    elements.push_back(number_text(bytes + i * item, x.dtype()));
  }
  return nested(elements, x.shape().sizes());
}

}  // namespace

std::string Writer::fresh() {
  std::string name = fmt::format("%{}", next_++);
  while (taken.contains(name)) name = fmt::format("%{}", next_++);
  return name;
}

void Writer::line(std::string_view text) {
  std::string& to = blocks_.back().text;
  to.append(2 * blocks_.size() + 2, ' ');
  to += text;
  if (!location.empty()) to += " " + location;
  to += '\n';
}

Terms Writer::add(std::string_view text, const std::vector<const Type*>& results) {
  const std::string name = fresh();
  const bool is_lone = results.size() == 1;
  line(fmt::format("{}{} = {}", name, is_lone ? "" : fmt::format(":{}", results.size()), text));
  Terms out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    out.push_back({this, is_lone ? name : fmt::format("{}#{}", name, i), results[i]});
  }
  return out;
}

Term Writer::add(std::string_view text, const Type* result) {
  return add(text, std::vector{result})[0];
}

std::string Writer::region(const std::vector<const Type*>& arguments, MakeBody make) {
  Terms in;
  std::vector<std::string> heads;
  for (const Type* type : arguments) {
    in.push_back({this, fresh(), type});
    heads.push_back(fmt::format("{}: {}", in.back().name, type_text(type)));
  }
  open_block();
  const Terms results = make(in);
  line(fmt::format("stablehlo.return {} : {}", name_list(results), [&] {
    const std::string types = type_list(results);
    return types.substr(1, types.size() - 2);
  }()));
  std::string body = std::move(blocks_.back().text);
  blocks_.pop_back();
  const std::string indent(2 * blocks_.size() + 2, ' ');
  const std::string head =
      in.empty() ? "" : fmt::format("\n{}^bb0({}):", indent, fmt::join(heads, ", "));
  return fmt::format("{{{}\n{}{}}}", head, body, indent);
}

Term Writer::constant(const Tensor& given) {
  Tensor x = to_dense(etude::internal::at_home(given));
  const Type* type = typed(x.dtype(), x.shape());
  if (x.dtype() == kBool && x.size() > kMostShown) {  // their bytes have no text form
    Tensor numbers = etude::internal::make_tensor(typed(kInt8, x.shape()));
    etude::internal::convert_elements(etude::internal::host_elements_for_writing(numbers), kInt8,
                                      etude::internal::host_elements(x), kBool, x.size());
    return convert(constant(numbers), kBool);
  }
  const std::string text =
      fmt::format("stablehlo.constant dense<{}> : {}", dense_text(x), type_text(type));
  for (const Block& block : blocks_) {
    const auto known = block.constants.find(text);
    if (known != block.constants.end()) return {this, known->second, type};
  }
  const Term out = add(text, type);
  if (x.size() <= kMostShown) blocks_.back().constants.emplace(text, out.name);
  return out;
}

Term Writer::number(double value, DType dtype) {
  Tensor out = etude::internal::make_tensor(typed(dtype, Shape{}));
  etude::internal::convert_elements(etude::internal::host_elements_for_writing(out), dtype, &value,
                                    kFloat64, 1);
  return constant(out);
}

std::string element_text(DType dtype) {
  switch (dtype) {
    case kBool:
      return "i1";
    case kFloat16:
      return "f16";
    case kBFloat16:
      return "bf16";
    case kFloat32:
      return "f32";
    case kFloat64:
      return "f64";
    case kComplex64:
      return "complex<f32>";
    case kComplex128:
      return "complex<f64>";
    default:
      break;
  }
  return fmt::format("{}i{}", kUnsignedIntegers.contains(dtype) ? "u" : "", 8 * itemsize(dtype));
}

std::string type_text(const Type* type) {
  std::string out = "tensor<";
  for (const int64_t size : type->shape()) out += fmt::format("{}x", size);
  return out + element_text(type->dtype()) + ">";
}

std::string type_list(const std::vector<const Type*>& types) {
  std::vector<std::string> texts;
  for (const Type* type : types) texts.push_back(type_text(type));
  return fmt::format("({})", fmt::join(texts, ", "));
}
std::string type_list(const Terms& terms) {
  std::vector<const Type*> types;
  for (const Term& term : terms) types.push_back(term.type);
  return type_list(types);
}
std::string name_list(const Terms& terms) {
  std::vector<std::string> names;
  for (const Term& term : terms) names.push_back(term.name);
  return fmt::format("{}", fmt::join(names, ", "));
}
std::string number_list(const Sizes& numbers) {
  return fmt::format("{}", fmt::join(numbers, ", "));
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 32 || byte > 126 || c == '"' || c == '\\') {
      out += fmt::format("\\{:02X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

Term lowest(Writer& writer, DType dtype) {
  if (is_floating(dtype)) return writer.number(-std::numeric_limits<double>::infinity(), dtype);
  if (dtype == kBool || kUnsignedIntegers.contains(dtype)) return writer.number(0, dtype);
  return writer.number(-std::ldexp(1.0, static_cast<int>(8 * itemsize(dtype)) - 1), dtype);
}
Term highest(Writer& writer, DType dtype) {
  if (is_floating(dtype)) return writer.number(std::numeric_limits<double>::infinity(), dtype);
  if (dtype == kBool) return writer.number(1, dtype);
  // Conversion saturates.
  return writer.number(std::ldexp(1.0, 64), dtype);
}

Sizes last_swapped(int rank, int64_t axis) {
  Sizes axes = all_axes(rank);
  std::swap(axes[static_cast<std::size_t>(axis)], axes.back());
  return axes;
}

Sizes other_axes(const Sizes& axes, int rank) {
  Sizes out = all_axes(rank);
  std::erase_if(out, [&](int64_t axis) { return std::ranges::find(axes, axis) != axes.end(); });
  return out;
}

}  // namespace etude::stablehlo::internal
