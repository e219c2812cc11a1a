// SPDX-License-Identifier: Apache-2.0
#include "tools/tensor_file.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "etude/base/check.h"
#include "etude/io/atomic_file.h"
#include "etude/io/safetensors_format.h"

namespace etude::tools {
namespace {

using internal::SafetensorsEntry;
using internal::SafetensorsHeader;

constexpr std::pair<DType, std::string_view> kNames[] = {
    {kBool, "BOOL"},   {kInt8, "I8"},       {kInt16, "I16"},     {kInt32, "I32"},
    {kInt64, "I64"},   {kUInt8, "U8"},      {kUInt16, "U16"},    {kUInt32, "U32"},
    {kUInt64, "U64"},  {kFloat16, "F16"},   {kBFloat16, "BF16"}, {kFloat32, "F32"},
    {kFloat64, "F64"}, {kComplex64, "C64"},
};

DType dtype_in_file(const std::string& text, const std::filesystem::path& file) {
  for (const auto& [dtype, known] : kNames) {
    if (text == known) return dtype;
  }
  ETUDE_THROW(kUnimplemented, "{}: there is no tensor of dtype '{}'", file.string(), text);
}

std::string name_in_file(DType dtype, const std::string& tensor) {
  for (const auto& [known, text] : kNames) {
    if (dtype == known) return std::string(text);
  }
  ETUDE_THROW(kUnimplemented,
              "tensor '{}' is {}, which safetensors files do not hold. Cast it to complex64",
              tensor, name(dtype));
}

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  ETUDE_REQUIRE_CODE(kNotFound, in.good(), "{}: cannot be read. Is the path right?", file.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TensorMap load_tensors(const std::filesystem::path& file) {
  const std::vector<std::uint8_t> bytes = bytes_of(file);
  const SafetensorsHeader header = internal::parse_safetensors_header(bytes, file.string());
  TensorMap out;
  for (const SafetensorsEntry& entry : header.entries) {
    Tensor x =
        internal::make_tensor(intern_type(dtype_in_file(entry.dtype, file), Shape(entry.shape)));
    const std::uint64_t count = entry.end - entry.begin;
    ETUDE_CHECK(count == static_cast<std::uint64_t>(x.nbytes()), "{} bytes for {}", count,
                x.type()->to_string());
    if (count > 0)
      std::memcpy(TensorAccess::writable(x), bytes.data() + header.data_offset + entry.begin,
                  count);
    out.emplace(entry.name, std::move(x));
  }
  return out;
}

void save_tensors(const std::filesystem::path& file, const TensorMap& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& [key, x] : tensors) {
    entries.push_back({key, name_in_file(x.dtype(), key), x.shape().to_vector()});
  }
  const std::string header = internal::make_safetensors_header(entries, {});
  internal::AtomicFile out(file);
  out.write(header);
  for (const SafetensorsEntry& entry : entries) {
    const Tensor& x = tensors.at(entry.name);
    out.write(std::span(static_cast<const std::uint8_t*>(TensorAccess::data(x)),
                        static_cast<std::size_t>(x.nbytes())));
  }
  out.commit();
}

}  // namespace etude::tools
