// SPDX-License-Identifier: Apache-2.0
// Any bytes are a file of each format or an Error, never a crash and never much memory. The first
// byte selects the reader of the rest.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "etude/base/error.h"
#include "etude/files/crc32c.h"
#include "etude/files/read_budget.h"
#include "etude/io/checkpoint/object_graph.h"
#include "etude/io/csv.h"
#include "etude/io/json.h"
#include "etude/io/npy.h"
#include "etude/io/pickle.h"
#include "etude/io/png.h"
#include "etude/io/tensor_file.h"
#include "etude/io/torch_file.h"
#include "etude/saved/manifest.h"

namespace {

using namespace etude::io;
using Bytes = std::span<const uint8_t>;

void read_csv_text(std::string_view text) {
  static_cast<void>(parse_csv(text, "fuzz"));
  CsvOptions typed;
  typed.header = false;
  typed.delimiter = ';';
  typed.dtypes = {{"0", etude::kFloat32}};
  typed.on_error = etude::data::OnError::kSkip;
  static_cast<void>(parse_csv(text, "fuzz", typed));
}

void read_pickle(Bytes bytes) {
  etude::internal::ReadBudget budget("fuzz", bytes.size());
  static_cast<void>(etude::internal::Pickle(bytes, 0, budget));
}

void read_saved(std::string_view text) {
  etude::saved::internal::Manifest manifest;
  const std::string whole = fmt::format("{{\"crc32c\":\"{:08x}\",\"saved\":{}}}\n",
                                        etude::internal::crc32c(0, text), text);
  static_cast<void>(etude::saved::internal::read_manifest(whole, "fuzz", manifest));
}

void read(char kind, Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  switch (kind) {
    case '0':
      static_cast<void>(parse_npy(bytes, "fuzz"));
      break;
    case '1':
      static_cast<void>(parse_npz(bytes, "fuzz"));
      break;
    case '2':
      static_cast<void>(decode_png(bytes, "fuzz"));
      static_cast<void>(
          decode_png(bytes, "fuzz", {.channels = static_cast<int>(bytes.size() % 4) + 1}));
      break;
    case '3':
      static_cast<void>(parse_torch(bytes, "fuzz"));
      break;
    case '4':
      read_pickle(bytes);
      break;
    case '5':
      read_csv_text(text);
      break;
    case '6':
      static_cast<void>(
          internal::SavedGraph("fuzz", fmt::format("{{\"crc32c\":\"{:08x}\",\"checkpoint\":{}}}\n",
                                                   etude::internal::crc32c(0, bytes), text)));
      break;
    case '7':
      static_cast<void>(from_json(text));
      break;
    case '8':
      static_cast<void>(etude::internal::TensorFile(bytes, "fuzz"));
      break;
    case '9':
      read_saved(text);
      break;
    default:
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // Limits that a file of a fuzzer can reach, far below the memory of the process.
  static const etude::ReadLimits before = etude::set_read_limits(
      {.free_bytes = int64_t{4} << 20, .bytes_per_byte = 20, .free_items = 20'000});
  static_cast<void>(before);
  try {
    read(static_cast<char>(data[0]), {data + 1, size - 1});
  } catch (const etude::Error&) {
  }
  return 0;
}
