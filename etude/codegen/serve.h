// SPDX-License-Identifier: Apache-2.0
// Makes machine code for programs of kernels and for regions of plans (core/op/tiered_code.h), and
// does other background work (plan/background.h). etude/startup.cc connects lower folders with
// these functions.
#pragma once

#include <functional>

#include "etude/core/op/tiered_code.h"

namespace etude::codegen {

// Makes code of this tier in the background, or before it returns. If that fails, precompiled
// kernels run as before. thread-safe.
void make_soon(const internal::TieredCode& code, internal::Tier tier) noexcept;
void make_now(const internal::TieredCode& code, internal::Tier tier) noexcept;

// internal::do_soon(): see plan/background.h.
bool work_soon(std::function<void()> work) noexcept;

}  // namespace etude::codegen
