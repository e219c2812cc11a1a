// SPDX-License-Identifier: Apache-2.0
// Any bytes are a model of ONNX whose graphs can be made, or an Error. Limits are low, so that an
// input takes little time.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "etude/base/error.h"
#include "etude/core/context/context.h"
#include "etude/files/read_limits.h"
#include "etude/onnx/import/file.h"
#include "etude/onnx/import/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  static const bool is_ready = [] {
    etude::set_read_limits({.depth = 20,
                            .free_bytes = 1 << 20,
                            .bytes_per_byte = 100,
                            .free_items = 2000,
                            .items_per_byte = 4});
    return true;
  }();
  static_cast<void>(is_ready);
  try {
    const etude::BottomScope at_once(etude::eager_context());
    const etude::onnx::importing::FileModel model =
        etude::onnx::importing::read_file("/nonexistent/fuzz.onnx", {data, size});
    etude::onnx::LoadOptions options;
    options.max_loop_steps = 100;
    etude::onnx::importing::ModelImporter importer(model, "fuzz.onnx", size, options);
    importer.import();
  } catch (const etude::Error& error) {
    if (error.code() == etude::ErrorCode::kInternal) std::abort();
  }
  return 0;
}
