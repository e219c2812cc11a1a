// SPDX-License-Identifier: Apache-2.0
// Weights of `etude convert`: the state of saved functions as tensors by path, and tensors as the
// state of a folder.
#pragma once

#include <string>

#include "etude/io/safetensors.h"
#include "etude/saved/saved.h"

namespace etude::tools {

// The state that has a value, by the first path of each Variable. With a function, the state that
// this function uses.
io::NamedTensors state_of(const saved::Program& program, const std::string& function);

// Sets the state. `from` names the source of the tensors, and `to` the program. With a function,
// the state that this function uses; is_partial: state without a tensor keeps its value.
//
// throws: kInvalidArgument, with the names, for state without a tensor, for tensors that are no
//   state, for a tensor of another type, and for two tensors for one Variable. The program is then
//   unchanged.
void set_state(const saved::Program& program, const std::string& function, io::NamedTensors tensors,
               bool is_partial, const std::string& from, const std::string& to);

}  // namespace etude::tools
