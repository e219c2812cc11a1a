// SPDX-License-Identifier: Apache-2.0
// Empty: CMake needs a source for the headers that are precompiled for all tests.
