// SPDX-License-Identifier: Apache-2.0
// Reads and writes the tensors of a safetensors file one by one. Used for whole files
// (safetensors.cc) and for shards of checkpoints.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/internal/function_ref.h"
#include "etude/files/file_reader.h"
#include "etude/io/safetensors.h"
#include "etude/io/safetensors_format.h"

namespace etude::internal {

// The bytes of x, valid as long as x. A pending x is computed first.
std::span<const uint8_t> bytes_of(const Tensor& x);

// Appends a line with the number of `paths` and the word `what`, and a line for each of the first
// twelve paths. Appends nothing if there are no paths.
void append_paths(std::string& text, std::string_view what, const std::vector<std::string>& paths);

// Passes the bytes of a file with these tensors to `write`, in order. cost: no copy of a tensor.
//
// throws: kInvalidArgument for an absent tensor or a name that is not UTF-8.
void write_tensors(const io::NamedTensors& tensors, const io::Metadata& metadata,
                   FunctionRef<void(std::span<const uint8_t>)> write);

// Reads a file; `source`, its content, must outlive it.
class TensorFile {
 public:
  // throws: kDataLoss, with file and offset, when it is truncated or not a safetensors file;
  //         kResourceExhausted beyond read_limits().
  TensorFile(ByteSource source, const std::string& name);
  const io::Metadata& metadata() const { return header_.metadata; }
  const std::map<std::string, const SafetensorsEntry*>& entries() const { return entries_; }
  // Returns a copy. throws: kNotFound; kDataLoss for bools that are neither 0 nor 1; kUnimplemented
  // for a dtype that Etude lacks.
  Tensor read(const std::string& name) const;

 private:
  ByteSource source_;
  std::string name_;
  SafetensorsHeader header_;
  std::map<std::string, const SafetensorsEntry*> entries_;
  std::map<std::string, bool> is_complex128_;
};

}  // namespace etude::internal
