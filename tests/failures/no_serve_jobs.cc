// SPDX-License-Identifier: Apache-2.0
// In place of serve_jobs.cc, where etude-serve is not built.
#include "tests/failures/jobs.h"

namespace etude::failures {

std::vector<Job> serve_jobs() { return {}; }

}  // namespace etude::failures
