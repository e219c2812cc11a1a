// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <system_error>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/context.h"
#include "etude/core/context/device_scope.h"
#include "etude/files/file_reader.h"
#include "etude/onnx/import/file.h"
#include "etude/onnx/import/model.h"
#include "etude/onnx/onnx.h"
#include "etude/saved/loaded.h"
#include "etude/variables/init_scope.h"

namespace etude::onnx {

namespace {

// Before the file is read. throws: kInvalidArgument for more bytes than a message of protobuf has.
void require_size(const std::filesystem::path& file) {
  constexpr uint64_t kMost = std::numeric_limits<int32_t>::max();
  std::error_code none;
  const uint64_t size = std::filesystem::file_size(file, none);
  ETUDE_REQUIRE(none || size <= kMost,
                "{} has {} bytes, but a model of ONNX has at most {}. Larger models keep their "
                "weights in files beside the model (external data)",
                file.string(), size, kMost);
}

}  // namespace

saved::Program load(const std::filesystem::path& file, const LoadOptions& options, CallSite where) {
  return etude::internal::located("onnx::load", where, [&] {
    etude::internal::check_options("onnx::load", options, where);
    const etude::internal::OutsideScope outside;
    const BottomScope at_once(eager_context());
    const etude::internal::NoDeviceScope nowhere;
    importing::FileModel model;
    require_size(file);
    uint64_t size = 0;
    {
      const etude::internal::FileBytes content(file);
      size = content.bytes().size();
      model = importing::read_file(file, content.bytes());
    }
    importing::ModelImporter importer(model, file.string(), size, options);
    return saved::internal::ProgramAccess::make(file, importer.import());
  });
}

}  // namespace etude::onnx
