// SPDX-License-Identifier: Apache-2.0
#include "etude/files/png_bytes.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include <png.h>

#include "etude/base/check.h"
#include "etude/core/context/pending.h"
#include "etude/core/dtype.h"
#include "etude/core/internal/host_door.h"
#include "etude/files/read_budget.h"

namespace etude::internal {
namespace {

constexpr png_uint_32 kMostAlong = 1'000'000;  // pixels along an axis, as libpng has it

// Names of chunks, five bytes each as libpng wants them.
constexpr png_byte kUnused[] =
    "bKGD\0eXIf\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sCAL\0sPLT\0tEXt\0tIME\0zTXt";

// The input of libpng, and its error message. It reports errors by longjmp, so all objects with a
// destructor are in frames outside of those with a setjmp.
struct Source {
  std::span<const uint8_t> file;
  std::size_t at = 0;
  char message[160] = "";
  bool has_no_memory = false;
};

// The memory of libpng and of its zlib, whose texts for a failed malloc differ.
png_voidp take_memory(png_structp png, png_alloc_size_t bytes) {
  void* const made = std::malloc(bytes);
  if (made == nullptr) static_cast<Source*>(png_get_mem_ptr(png))->has_no_memory = true;
  return made;
}
void give_memory_back(png_structp, png_voidp memory) { std::free(memory); }

void note_error(png_structp png, png_const_charp message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::snprintf(source->message, sizeof(source->message), "%s", message);
  png_longjmp(png, 1);
}
void ignore_warning(png_structp, png_const_charp) {}

void give_bytes(png_structp png, png_bytep to, std::size_t n) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (n > source->file.size() - source->at) {
    source->at = source->file.size();
    png_error(png, "the file is cut off here");
  }
  std::copy_n(source->file.data() + source->at, n, to);
  source->at += n;
}

bool read_info(png_structp png, png_infop info, int channels) {
  if (setjmp(png_jmpbuf(png))) return false;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION  // else fuzzers would not get past a checksum
  png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
#endif
  png_set_user_limits(png, kMostAlong, kMostAlong);
  // Texts, profiles and times would be inflated and stored, and no caller wants them.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kUnused,
                              static_cast<int>(sizeof(kUnused) / 5));
  png_set_chunk_malloc_max(png, 8 << 20);
  png_read_info(png, info);
  png_set_scale_16(png);
  png_set_expand(png);  // palettes to colours, few bits to 8, transparency to alpha
  const bool has_colour = (png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR) != 0;
  const bool has_alpha = (png_get_color_type(png, info) & PNG_COLOR_MASK_ALPHA) != 0 ||
                         png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  if (channels > 0) {
    const bool wants_colour = channels >= 3, wants_alpha = channels % 2 == 0;
    constexpr int kQuietly = 1;
    if (has_colour && !wants_colour) png_set_rgb_to_gray_fixed(png, kQuietly, 21260, 71520);
    if (!has_colour && wants_colour) png_set_gray_to_rgb(png);
    if (has_alpha && !wants_alpha) png_set_strip_alpha(png);
    if (!has_alpha && wants_alpha) png_set_add_alpha(png, 0xFF, PNG_FILLER_AFTER);
  }
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

bool read_rows(png_structp png, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

class PngReader {
 public:
  explicit PngReader(Source& source) {
    png_ = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &source, note_error, ignore_warning,
                                    &source, take_memory, give_memory_back);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) destroy();
    ETUDE_REQUIRE_CODE(kResourceExhausted, info_ != nullptr, "libpng could not start");
    png_set_read_fn(png_, &source, give_bytes);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { destroy(); }
  png_structp png() const { return png_; }
  png_infop info() const { return info_; }

 private:
  void destroy() { png_destroy_read_struct(&png_, &info_, nullptr); }
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

struct Sink {
  std::vector<uint8_t> bytes;
  char message[160] = "";
};

void note_write_error(png_structp png, png_const_charp message) {
  auto* sink = static_cast<Sink*>(png_get_error_ptr(png));
  std::snprintf(sink->message, sizeof(sink->message), "%s", message);
  png_longjmp(png, 1);
}

void take_bytes(png_structp png, png_bytep from, std::size_t n) {
  auto* sink = static_cast<Sink*>(png_get_io_ptr(png));
  bool has_room = true;
  try {
    sink->bytes.insert(sink->bytes.end(), from, from + n);
  } catch (const std::bad_alloc&) {  // must not pass through libpng
    has_room = false;
  }
  if (!has_room) png_error(png, "no memory");
}

bool write_rows(png_structp png, png_infop info, png_uint_32 width, png_uint_32 height,
                int channels, png_bytepp rows) {
  constexpr int kColours[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                              PNG_COLOR_TYPE_RGB_ALPHA};
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_IHDR(png, info, width, height, 8, kColours[channels - 1], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  png_write_image(png, rows);
  png_write_end(png, nullptr);
  return true;
}

std::vector<uint8_t> levels_of(const Tensor& image) {
  observe(image);
  if (image.dtype() == kUInt8) {
    const auto data = image.data<uint8_t>();
    return {data.begin(), data.end()};
  }
  std::vector<uint8_t> out;
  for (const float level : image.to_vector<float>()) {
    const float scaled = level * 255.0F + 0.5F;
    out.push_back(scaled > 0 ? static_cast<uint8_t>(std::min(scaled, 255.0F)) : 0);
  }
  return out;
}

}  // namespace

Tensor image_of_png(std::span<const uint8_t> file, std::string_view name, int channels) {
  Source source{.file = file};
  const PngReader reader(source);
  const auto require = [&](bool holds) {
    ETUDE_REQUIRE_CODE(kResourceExhausted, holds || !source.has_no_memory,
                       "{}: libpng has no memory for the image", name);
    ETUDE_REQUIRE_CODE(kDataLoss, holds, "{}: offset {}: {}", name, source.at, source.message);
  };
  require(read_info(reader.png(), reader.info(), channels));
  const uint64_t height = png_get_image_height(reader.png(), reader.info());
  const uint64_t width = png_get_image_width(reader.png(), reader.info());
  const uint64_t row_bytes = png_get_rowbytes(reader.png(), reader.info());
  // A pixel takes at least one bit of the inflated data, and no deflate stream grows by more.
  constexpr uint64_t kMostGrowth = 1032;
  ETUDE_REQUIRE_CODE(
      kDataLoss, height * width / 8 <= (file.size() + 1) * kMostGrowth,
      "{}: offset {}: the header declares {} x {} pixels, more than {} bytes can hold", name,
      source.at, height, width, file.size());
  ReadBudget budget(name, file.size());
  budget.need_bytes(height * (row_bytes + sizeof(png_bytep)), source.at);
  Tensor out = make_tensor(
      intern_type(kUInt8, Shape{static_cast<int64_t>(height), static_cast<int64_t>(width),
                                static_cast<int64_t>(row_bytes / width)}));
  auto* bytes = static_cast<uint8_t*>(etude::internal::host_elements_for_writing(out));
  std::vector<png_bytep> rows(height);
  for (uint64_t i = 0; i < height; ++i) rows[i] = bytes + i * row_bytes;
  require(read_rows(reader.png(), rows.data()));
  ETUDE_REQUIRE_CODE(kDataLoss, source.at == file.size(),
                     "{}: the image ends at offset {}, but {} more bytes follow", name, source.at,
                     file.size() - source.at);
  return out;
}

std::vector<uint8_t> png_of_image(const Tensor& image) {
  ETUDE_REQUIRE(image.has_value(), "there is no image: the tensor has no value");
  const Shape& shape = image.shape();
  const int64_t channels = shape.rank() == 3 ? shape[2] : 1;
  ETUDE_REQUIRE((shape.rank() == 2 || shape.rank() == 3) && channels >= 1 && channels <= 4 &&
                    shape[0] >= 1 && shape[1] >= 1 && shape[0] <= kMostAlong &&
                    shape[1] <= kMostAlong,
                "the image is {}, but must be [height, width] or [height, width, channels] with 1 "
                "to 4 channels",
                image.type()->to_string());
  ETUDE_REQUIRE(image.dtype() == kUInt8 || is_floating(image.dtype()),
                "the image is {}, but must be uint8 or of floats; cast it", name(image.dtype()));
  std::vector<uint8_t> levels = levels_of(image);
  std::vector<png_bytep> rows;
  for (int64_t i = 0; i < shape[0]; ++i) rows.push_back(levels.data() + i * shape[1] * channels);
  Sink sink;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &sink, note_write_error, ignore_warning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  bool is_done = info != nullptr;
  if (is_done) {
    png_set_write_fn(png, &sink, take_bytes, nullptr);
    is_done =
        write_rows(png, info, static_cast<png_uint_32>(shape[1]),
                   static_cast<png_uint_32>(shape[0]), static_cast<int>(channels), rows.data());
  }
  png_destroy_write_struct(&png, &info);
  ETUDE_REQUIRE_CODE(kResourceExhausted, is_done, "libpng could not write the image: {}",
                     sink.message);
  return std::move(sink.bytes);
}

}  // namespace etude::internal
