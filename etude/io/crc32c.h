// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), the checksum of checkpoints and of TensorBoard's event files: finds every
// single error burst of up to 32 bits. Not against forgery.
#pragma once

#include <cstdint>
#include <span>

namespace etude::internal {

// The checksum of what `crc` is the checksum of (0: nothing), followed by `bytes`.
//
// cost: by the instruction of the CPU, three streams at a time; without it, 8 bytes per 8 table
//       look-ups.
std::uint32_t crc32c(std::uint32_t crc, std::span<const std::uint8_t> bytes);
// The same by tables alone. For tests.
std::uint32_t crc32c_by_table(std::uint32_t crc, std::span<const std::uint8_t> bytes);

}  // namespace etude::internal
