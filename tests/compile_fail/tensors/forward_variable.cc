// SPDX-License-Identifier: Apache-2.0
// spec: G15
// expect: etude: forward mode does not follow Variables; pass their values
#include "etude/autodiff/gradient.h"

auto g = etude::jvp([](const etude::Variable& v) { return v.read(); }, etude::Variable(1.0),
                    etude::Tensor(1.0));
