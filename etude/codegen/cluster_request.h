// SPDX-License-Identifier: Apache-2.0
// The request for a cluster (plan/cluster.h), as request.h has it for programs. Its source consists
// of all numbers of the cluster in a fixed order, and the sources of its programs.
#pragma once

#include <string_view>

#include "etude/codegen/request.h"
#include "etude/plan/cluster.h"

namespace etude::codegen {

// The cluster must be checked. The request does not include the values of parameters, since the
// code receives them as arguments.
Request request_of(Product product, const internal::Cluster& cluster,
                   const CompileOptions& options);

// Reads a cluster from the source of a request.
//
// throws: kInvalidArgument for an invalid text, kInternal for an invalid cluster.
internal::Cluster read_cluster(std::string_view source);

}  // namespace etude::codegen
