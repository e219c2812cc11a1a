// SPDX-License-Identifier: Apache-2.0
// Reads files of PyTorch's torch.save (zip files, since version 1.6): weights of models, and
// checkpoints made of dicts, lists, numbers and tensors. Such a file holds a program for Python's
// pickle machine. Etude does not run this program: it interprets the few instructions that build
// these values, and refuses all others by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "etude/io/safetensors.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// Returns the tensors of a file by path: dict keys and list indices, joined by '/'. A state dict is
// {"conv1.weight": ...}; a checkpoint with a state dict below "model" has "model/conv1.weight".
// Numbers of any size, bools and texts are returned as metadata, printed. Tensors are copied;
// tensors that share storage in the file do not share it here.
//
// PyTorch stores filters as [out, in, height, width] and weights of linear layers as [out, in];
// Etude has [height, width, in, out] and [in, out]. Permute such tensors before assign_tensors.
//
// throws: kNotFound when there is no file; kDataLoss, with file and offset, when it is truncated or
//         altered; kUnimplemented for the older format without zip, for unknown instructions and
//         names, and for dtypes that Etude lacks; kResourceExhausted beyond read_limits().
// cost:   one pass over the file; memory for the tensors, for a storage until its last tensor, and
//         a small factor of the pickle.
SafetensorsFile load_torch(const std::string& path, CallSite where = CallSite::here());
// Parses the tensors in `file`, the content of a file with that `name`. throws: as load_torch.
SafetensorsFile parse_torch(std::span<const uint8_t> file, std::string_view name,
                            CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
