// SPDX-License-Identifier: Apache-2.0
// The tensors of a safetensors file, one by one: for whole files (safetensors.cc) and for shards of
// checkpoints.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/function_ref.h"
#include "etude/io/safetensors.h"
#include "etude/io/safetensors_format.h"

namespace etude::internal {

// The bytes of x, which is computed if it was not yet; they live as long as x does.
std::span<const std::uint8_t> bytes_of(const Tensor& x);

// Appends a line with the number of `paths` and `what` they are, and a line for each of the first
// twelve; nothing where there are none.
void append_paths(std::string& text, std::string_view what, const std::vector<std::string>& paths);

// Hands the bytes of a file of these tensors to `write`, in order. cost: no copy of a tensor.
//
// throws: kInvalidArgument for an absent tensor or a name that is not UTF-8.
void write_tensors(const io::NamedTensors& tensors, const io::Metadata& metadata,
                   FunctionRef<void(std::span<const std::uint8_t>)> write);

// Reads a file; `bytes`, its content, must outlive it.
class TensorFile {
 public:
  // throws: kDataLoss, with file and offset, when it is torn or no safetensors file.
  TensorFile(std::span<const std::uint8_t> bytes, const std::string& name);
  const io::Metadata& metadata() const { return header_.metadata; }
  const std::map<std::string, const SafetensorsEntry*>& entries() const { return entries_; }
  // A copy. throws: kNotFound; kDataLoss for truths that are none; kUnimplemented for a dtype that
  // Etude has not.
  Tensor read(const std::string& name) const;

 private:
  std::span<const std::uint8_t> bytes_;
  std::string name_;
  SafetensorsHeader header_;
  std::map<std::string, const SafetensorsEntry*> entries_;
  std::map<std::string, bool> is_complex128_;
};

}  // namespace etude::internal
