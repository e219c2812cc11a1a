// SPDX-License-Identifier: Apache-2.0
// The Differentiable protocol: which types have a tangent, the zero tangent, and moving along one.
// Used by every gradient, optimiser and layer. Numbers are in protocol.h, containers in
// containers.h, plain structs in aggregates.h, sums and multiples in tangent_math.h. Knows no
// tensor: tensors join by specialising DifferentiableTraits, as any type may.
#pragma once

#include "etude/diff/aggregates.h"
#include "etude/diff/containers.h"
#include "etude/diff/freezable.h"
#include "etude/diff/protocol.h"
#include "etude/diff/tangent_math.h"
