// SPDX-License-Identifier: Apache-2.0
// Nothing: CMake asks for a source beside headers that are compiled for all tests.
