// SPDX-License-Identifier: Apache-2.0
// Makes machine code for the programs that kernels run (kernels/cpu/elementwise/fused_program.h)
// and for regions of plans (plan/region_code.h), and does other background work (plan/soon.h).
// etude/startup.cc connects lower folders with these functions.
#pragma once

#include <functional>

#include "etude/core/op/tier.h"
#include "etude/kernels/cpu/elementwise/fused_program.h"
#include "etude/plan/region_code.h"

namespace etude::codegen {

// Makes code of this tier in the background. If that fails, precompiled kernels run as before.
// thread-safe.
void make_soon(const kernels::cpu::FusedProgram& program, internal::Tier tier) noexcept;
void make_soon(const internal::RegionCode& region, internal::Tier tier) noexcept;
// The same before it returns.
void make_now(const kernels::cpu::FusedProgram& program, internal::Tier tier) noexcept;
void make_now(const internal::RegionCode& region, internal::Tier tier) noexcept;

// internal::do_soon(): see plan/soon.h.
bool work_soon(std::function<void()> work) noexcept;

}  // namespace etude::codegen
