// SPDX-License-Identifier: Apache-2.0
#include "etude/version.h"

#include <cstdio>

int main() { std::printf("etude %s\n", etude::version()); }
