// SPDX-License-Identifier: Apache-2.0
// Functions of etude that are also members of etude::linalg, as in the linear algebra extension of
// the Python Array API standard. All other functions of etude::linalg are in ops.h.
#pragma once

#include "etude/ops.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace linalg {

using etude::matmul;
using etude::MatmulOptions;
using etude::matrix_transpose;
using etude::outer;
using etude::tensordot;
using etude::vecdot;
using etude::VecdotOptions;

}  // namespace linalg
}  // namespace etude
