// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "etude/version.h"

int main() { std::printf("etude %s\n", etude::version()); }
