// SPDX-License-Identifier: Apache-2.0
// The request for a region (plan/region.h), as request.h has that for a program: its source is
// all numbers of the region in one order, and the sources of its programs.
#pragma once

#include <string_view>

#include "etude/codegen/request.h"
#include "etude/plan/region.h"

namespace etude::codegen {

// Of a region that is checked. The values of parameters do not go with it, since code is given
// them.
Request request_of(Product product, const internal::Region& region, const CompileOptions& options);

// The way back from its source.
//
// throws: kInvalidArgument for another text, kInternal for a region that is none.
internal::Region read_region(std::string_view source);

}  // namespace etude::codegen
