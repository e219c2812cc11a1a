// SPDX-License-Identifier: Apache-2.0
#include "etude/io/png.h"

#include <algorithm>
#include <filesystem>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/host_door.h"
#include "etude/files/atomic_file.h"
#include "etude/files/file_reader.h"
#include "etude/files/png_bytes.h"

namespace etude::io {

Tensor decode_png(std::span<const uint8_t> file, std::string_view name, const PngOptions& options,
                  CallSite where) {
  etude::internal::check_options("read_png", options, where);
  return etude::internal::located("read_png", where, [&] {
    return etude::internal::image_of_png(file, name, options.channels);
  });
}

Tensor read_png(const std::string& path, const PngOptions& options, CallSite where) {
  etude::internal::check_options("read_png", options, where);
  return etude::internal::located("read_png", where, [&] {
    const etude::internal::FileBytes file(path);
    return etude::internal::image_of_png(file.bytes(), path, options.channels);
  });
}

void write_png(const std::string& path, const Tensor& image, CallSite where) {
  etude::internal::located("write_png", where, [&] {
    const std::vector<uint8_t> bytes = etude::internal::png_of_image(image);
    etude::internal::AtomicFile file(path);
    file.write(bytes);
    file.commit();
  });
}

ImageFolder image_folder(const std::string& path, CallSite where) {
  namespace fs = std::filesystem;
  return etude::internal::located("image_folder", where, [&] {
    std::error_code problem;
    ETUDE_REQUIRE_CODE(kNotFound, fs::is_directory(path, problem), "there is no folder '{}'", path);
    const auto sorted = [](const fs::path& folder, const auto& is_wanted) {
      std::vector<std::string> names;
      for (const fs::path& inner : etude::internal::paths_in(folder)) {
        if (is_wanted(inner)) names.push_back(inner.filename().string());
      }
      std::sort(names.begin(), names.end());
      return names;
    };
    ImageFolder out;
    out.classes =
        sorted(path, [&](const fs::path& inner) { return fs::is_directory(inner, problem); });
    for (std::size_t i = 0; i < out.classes.size(); ++i) {
      const fs::path folder = fs::path(path) / out.classes[i];
      for (const std::string& name :
           sorted(folder, [](const fs::path& inner) { return inner.extension() == ".png"; })) {
        out.files.push_back({(folder / name).string(), static_cast<int32_t>(i)});
      }
    }
    ETUDE_REQUIRE_CODE(kNotFound, !out.files.empty(),
                       "'{}' has no file CLASS/NAME.png: it needs one folder for each class", path);
    return out;
  });
}

data::Samples load_image(const ImageFile& file, const PngOptions& options, CallSite where) {
  const Tensor levels = read_png(file.path, options, where);
  const auto from = levels.data<uint8_t>();
  data::Samples out;
  out.inputs = etude::internal::make_tensor(intern_type(kFloat32, levels.shape()));
  std::transform(from.begin(), from.end(),
                 static_cast<float*>(etude::internal::host_elements_for_writing(out.inputs)),
                 [](uint8_t level) { return static_cast<float>(level) / 255.0F; });
  out.labels = Tensor(file.label);
  return out;
}

}  // namespace etude::io
