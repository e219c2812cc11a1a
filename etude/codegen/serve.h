// SPDX-License-Identifier: Apache-2.0
// Makes machine code for programs of kernels and for clusters of plans (core/op/tiered_code.h), and
// does other background work (plan/background.h). etude/startup.cc connects lower folders with
// these functions.
#pragma once

#include <functional>

#include "etude/core/op/tiered_code.h"

namespace etude::codegen {

// Makes code of this tier in the background, or before it returns. If that fails, precompiled
// kernels run as before. threads: thread-safe.
void make_in_background(const internal::TieredCode& code, internal::Tier tier) noexcept;
void make_now(const internal::TieredCode& code, internal::Tier tier) noexcept;

// internal::run_in_background(): see plan/background.h.
bool work_in_background(std::function<void()> work) noexcept;

// Registers the handlers of fork() for code and background work, at the first call. Starts nothing.
void prepare_for_forks();

}  // namespace etude::codegen
