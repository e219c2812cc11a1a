// SPDX-License-Identifier: Apache-2.0
// Reads files of PyTorch's torch.save (zip files, since version 1.6): weights of models, and
// checkpoints made of dicts, lists, numbers and tensors. Such a file holds a program for Python's
// pickle machine. Etude does not run this program. It interprets the few instructions that build
// such values, and refuses every other instruction with an error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "etude/io/safetensors.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// Returns the tensors of a file by path. A path consists of dict keys and list indices, joined by
// '/'. A tensor of a state dict has a path such as "conv1.weight". If a checkpoint has the state
// dict at the key "model", the path is "model/conv1.weight". Numbers, bools and texts are returned
// as metadata, in text form. Tensors are copied: two tensors of one storage do not share memory
// here.
//
// PyTorch stores filters as [out, in, height, width] and weights of linear layers as [out, in].
// Etude uses [height, width, in, out] and [in, out]. Permute such tensors before assign_tensors.
//
// throws: kNotFound if the file does not exist; kDataLoss, with file and offset, if it is truncated
//         or altered; kUnimplemented for the older format without zip, for unknown instructions and
//         names, and for dtypes that Etude lacks; kResourceExhausted beyond read_limits().
// cost:   one pass over the file. Memory: the tensors, each storage until its last tensor is made,
//         and a small multiple of the size of the pickle.
SafetensorsFile load_torch(const std::string& path, CallSite where = CallSite::here());
// Parses the tensors in `file`, the content of a file with that `name`. throws: as load_torch.
SafetensorsFile parse_torch(std::span<const uint8_t> file, std::string_view name,
                            CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
