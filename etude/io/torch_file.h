// SPDX-License-Identifier: Apache-2.0
// Reads what PyTorch's torch.save writes (zip files, since version 1.6): weights of models and
// checkpoints made of dicts, lists, numbers and tensors. Such a file holds a program for Python's
// pickle machine; Etude runs none of it: a few instructions that build these values are understood,
// and everything else is refused by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "etude/io/safetensors.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

// The tensors of a file, by path: keys of dicts and places in lists, joined by '/'. A state dict is
// {"conv1.weight": ...}; a checkpoint that holds one below "model" gives "model/conv1.weight".
// Numbers, truths and texts come as metadata, printed. Tensors are copied; those that share storage
// in the file do not share it here.
//
// PyTorch has filters as [out, in, height, width] and weights of linear layers as [out, in], where
// Etude has [height, width, in, out] and [in, out]: permute what needs it before assign_tensors.
//
// throws: kNotFound when there is no file; kDataLoss, with file and offset, when it is torn or
//         altered; kUnimplemented for the older format without zip, for instructions and names that
//         are not understood, and for dtypes that Etude has not.
// cost:   one pass over the file; memory for the tensors and a small factor of its pickle.
SafetensorsFile load_torch(const std::string& path, CallSite where = CallSite::here());
// The tensors in `file`, the content of a file with that `name`. throws: as load_torch.
SafetensorsFile parse_torch(std::span<const std::uint8_t> file, std::string_view name,
                            CallSite where = CallSite::here());

}  // namespace io
}  // namespace etude
