// SPDX-License-Identifier: Apache-2.0
// The request for a cluster (plan/cluster.h), the counterpart of request.h for programs: its
// source is all numbers of the cluster in one order, and the sources of its programs.
#pragma once

#include <string_view>

#include "etude/codegen/request.h"
#include "etude/plan/cluster.h"

namespace etude::codegen {

// For a checked cluster. The values of parameters are not included, since code gets them as
// arguments.
Request request_of(Product product, const internal::Cluster& cluster,
                   const CompileOptions& options);

// Reads a cluster from the source of a request.
//
// throws: kInvalidArgument for an invalid text, kInternal for an invalid cluster.
internal::Cluster read_cluster(std::string_view source);

}  // namespace etude::codegen
