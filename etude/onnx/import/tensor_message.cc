// SPDX-License-Identifier: Apache-2.0
#include "etude/onnx/import/tensor_message.h"

#include <charconv>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>
#include <sys/stat.h>

#include "etude/base/check.h"
#include "etude/core/internal/convert.h"
#include "etude/core/internal/host_door.h"

namespace etude::onnx::importing {
namespace {

// Whether lists of elements are integers: the values, or the bits of floats of 16 bits.
bool is_listed_in_integers(DType dtype) {
  return is_integer(dtype) || dtype == kBool || dtype == kFloat16 || dtype == kBFloat16;
}

int64_t number_in(const std::string& text) {
  int64_t out = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() ? out : -1;
}

}  // namespace

std::optional<DType> dtype_of(int64_t number) {
  constexpr std::optional<DType> kNone;
  const std::optional<DType> all[] = {
      kNone, kFloat32, kUInt8,   kInt8,   kUInt16, kInt16,     kInt32,      kInt64,   kNone,
      kBool, kFloat16, kFloat64, kUInt32, kUInt64, kComplex64, kComplex128, kBFloat16};
  if (number < 0 || number >= static_cast<int64_t>(std::size(all))) return kNone;
  return all[number];
}

uint64_t Fields::offset() const { return file_.offset_of(reader_.data().data()); }

std::string Fields::wrong_type() const {
  return fmt::format("field {} has wire type {}, which it cannot have", tag(),
                     static_cast<int>(reader_.wire_type()));
}

void Fields::fault(const std::string& what) const {
  ETUDE_THROW(kDataLoss, "{}: offset {}: {}", file_.name(), offset(), what);
}

MessageFile::MessageFile(const std::filesystem::path& file, std::span<const uint8_t> bytes)
    : path_(file), name_(file.string()), bytes_(bytes), budget_(name_, bytes.size()) {}

Fields MessageFile::fields() const {
  return {*this,
          protozero::pbf_reader(reinterpret_cast<const char*>(bytes_.data()), bytes_.size())};
}

uint64_t MessageFile::offset_of(const char* at) const {
  const auto* const begin = reinterpret_cast<const char*>(bytes_.data());
  const bool is_inside = at >= begin && at <= begin + bytes_.size();
  return is_inside ? static_cast<uint64_t>(at - begin) : bytes_.size();
}

void MessageFile::damaged(const char* what) const {
  ETUDE_THROW(
      kDataLoss,
      "{}: offset 0: the file is no model of ONNX, or is damaged: {}. Is the file complete?", name_,
      what);
}

void MessageFile::integers(Fields& in, std::vector<int64_t>& to) {
  if (!in.is_packed()) {
    budget_.need_bytes(sizeof(int64_t), in.offset());
    to.push_back(in.integer());
    return;
  }
  const std::string_view packed = in.bytes();
  const char *at = packed.data(), *const end = at + packed.size();
  budget_.need_bytes(packed.size() * sizeof(int64_t), in.offset());
  budget_.need_items(packed.size(), in.offset());
  while (at != end) to.push_back(static_cast<int64_t>(protozero::decode_varint(&at, end)));
}

void MessageFile::reals(Fields& in, std::vector<double>& to) {
  if (!in.is_packed()) {
    budget_.need_bytes(sizeof(double), in.offset());
    to.push_back(static_cast<double>(in.real()));
    return;
  }
  const std::string_view packed = in.bytes();
  if (packed.size() % sizeof(float) != 0) in.fault("a list of floats has a part of a float");
  budget_.need_bytes(packed.size() * 2, in.offset());
  for (std::size_t i = 0; i < packed.size(); i += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, packed.data() + i, sizeof value);
    to.push_back(static_cast<double>(value));
  }
}

void MessageFile::wide_reals(Fields& in, std::vector<double>& to) {
  if (!in.is_packed()) {
    budget_.need_bytes(sizeof(double), in.offset());
    to.push_back(in.wide_real());
    return;
  }
  const std::string_view packed = in.bytes();
  if (packed.size() % sizeof(double) != 0) in.fault("a list of doubles has a part of a double");
  budget_.need_bytes(packed.size(), in.offset());
  const std::size_t before = to.size();
  to.resize(before + packed.size() / sizeof(double));
  if (!packed.empty()) std::memcpy(&to[before], packed.data(), packed.size());
}

std::pair<std::string, std::string> MessageFile::entry(Fields in) {
  std::pair<std::string, std::string> out;
  while (in.next()) {
    if (in.tag() == 1) {
      out.first = in.text();
    } else if (in.tag() == 2) {
      out.second = in.text();
    } else {
      in.skip();
    }
  }
  return out;
}

// The fields of a TensorProto.
struct MessageFile::Read {
  std::string name;
  int64_t dtype = 0;
  std::vector<int64_t> dims, integers;
  std::vector<double> reals;
  std::string_view raw = {};
  bool has_raw = false, has_texts = false, is_external = false;
  std::map<std::string, std::string> place;
};

FileConstant MessageFile::constant(Fields in) {
  Read read;
  read_fields(in, read);
  FileConstant out{read.name, {}};
  if (read.has_texts || !dtype_of(read.dtype)) {
    out.refusal = fmt::format("its dtype is {}, which Etude lacks", dtype_text(read.dtype));
    return out;
  }
  out.value = tensor_of(in, read);
  return out;
}

void MessageFile::read_fields(Fields& in, Read& to) {
  while (in.next()) {
    need_item(in);
    switch (in.tag()) {
      case 1:
        integers(in, to.dims);
        break;
      case 2:
        to.dtype = in.integer();
        break;
      case 4:
        reals(in, to.reals);
        break;
      case 5:
      case 7:
      case 11:
        integers(in, to.integers);
        break;
      case 6:
        to.has_texts = true;
        in.skip();
        break;
      case 8:
        to.name = in.text();
        break;
      case 9:
        to.raw = in.bytes();
        to.has_raw = true;
        break;
      case 10:
        wide_reals(in, to.reals);
        break;
      case 13:
        to.place.insert(entry(in.message()));
        break;
      case 14:
        to.is_external = in.integer() == 1;
        break;
      default:
        in.skip();
    }
  }
}

Tensor MessageFile::tensor_of(const Fields& in, const Read& read) {
  const std::string title = fmt::format("constant '{:.200}'", read.name);
  if (read.dims.size() > static_cast<std::size_t>(kMaxRank)) {
    in.fault(fmt::format("{} has {} axes, but a tensor has at most {}", title, read.dims.size(),
                         kMaxRank));
  }
  int64_t count = 1;
  for (const int64_t size : read.dims) {
    const bool fits =
        size >= 0 && !__builtin_mul_overflow(count, size, &count) && count <= kMaxCount;
    if (!fits) in.fault(fmt::format("{} has the sizes [{}]", title, fmt::join(read.dims, ",")));
  }
  const DType dtype = *dtype_of(read.dtype);
  const Type* const type = intern_type(dtype, Shape(read.dims));
  // The elements must be there before memory for them is taken.
  const auto bytes = static_cast<uint64_t>(type->bytes());
  const auto listed = static_cast<uint64_t>(count) * (is_complex(dtype) ? 2 : 1);
  const bool is_listed = !read.is_external && !read.has_raw;
  const uint64_t given = is_listed_in_integers(dtype) ? read.integers.size() : read.reals.size();
  if (!read.is_external && read.has_raw && read.raw.size() != bytes) {
    in.fault(fmt::format("{} is {}, which has {} bytes, but there are {}", title, type->to_string(),
                         bytes, read.raw.size()));
  }
  if (is_listed && given != listed) {
    in.fault(fmt::format("{} is {}, but there are {} elements", title, type->to_string(), given));
  }
  if (!read.is_external) budget_.need_bytes(bytes, in.offset());
  External* const place = read.is_external ? &external(in, read) : nullptr;
  if (place != nullptr) place->budget->need_bytes(bytes, 0);
  Tensor out = etude::internal::make_tensor(type);
  if (count == 0) return out;
  if (place != nullptr) {
    fill_external(*place, in, read, out);
  } else if (read.has_raw) {
    std::memcpy(etude::internal::host_elements_for_writing(out), read.raw.data(), bytes);
  } else {
    fill_listed(read, out);
  }
  if (dtype == kBool) {  // any byte but 0 is true
    auto* const at = static_cast<uint8_t*>(etude::internal::host_elements_for_writing(out));
    for (int64_t i = 0; i < count; ++i) at[i] = at[i] != 0 ? 1 : 0;
  }
  return out;
}

void MessageFile::fill_listed(const Read& read, Tensor& to) {
  const DType dtype = to.dtype();
  void* const at = etude::internal::host_elements_for_writing(to);
  const auto count = static_cast<int64_t>(to.size());
  if (dtype == kFloat16 || dtype == kBFloat16) {  // their bits
    auto* const bits = static_cast<uint16_t*>(at);
    for (int64_t i = 0; i < count; ++i) {
      bits[i] = static_cast<uint16_t>(read.integers[static_cast<std::size_t>(i)]);
    }
  } else if (is_listed_in_integers(dtype)) {
    // A uint64 has the bits of the int64 that was read.
    const DType from = dtype == kUInt64 ? kUInt64 : kInt64;
    etude::internal::convert_elements(at, dtype, read.integers.data(), from, count);
  } else if (is_complex(dtype)) {
    const DType part = dtype == kComplex64 ? kFloat32 : kFloat64;
    etude::internal::convert_elements(at, part, read.reals.data(), kFloat64, 2 * count);
  } else {
    etude::internal::convert_elements(at, dtype, read.reals.data(), kFloat64, count);
  }
}

MessageFile::External& MessageFile::external(const Fields& in, const Read& read) {
  const auto found = read.place.find("location");
  if (found == read.place.end()) in.fault("external data has no location");
  const std::string& text = found->second;
  const auto known = externals_.find(text);
  if (known != externals_.end()) return known->second;
  const std::filesystem::path location = text;
  bool is_inside = !text.empty() && !location.is_absolute();
  for (const std::filesystem::path& part : location) is_inside = is_inside && part != "..";
  ETUDE_REQUIRE_CODE(kInvalidArgument, is_inside,
                     "{}: offset {}: constant '{:.200}' has external data in '{:.300}', which is "
                     "outside of the folder of the model. Move the data next to the model",
                     name_, in.offset(), read.name, text);
  // A link could lead to any file that this process may read.
  std::filesystem::path at = path_.parent_path();
  for (const std::filesystem::path& part : location) {
    at /= part;
    struct stat facts {};
    ETUDE_REQUIRE_CODE(
        kNotFound, ::lstat(at.c_str(), &facts) == 0,
        "{}: constant '{:.200}' has external data in {:.300}, but there is no such file. "
        "A model moves together with its external data",
        name_, read.name, at.string());
    ETUDE_REQUIRE_CODE(
        kInvalidArgument, !S_ISLNK(facts.st_mode),
        "{}: constant '{:.200}' has external data in {:.300}, which is a link, and may "
        "lead out of the folder of the model. Copy the file there",
        name_, read.name, at.string());
  }
  External made;
  made.file = std::make_unique<etude::internal::FileReader>(at);
  made.budget = std::make_unique<etude::internal::ReadBudget>(made.file->name(), made.file->size());
  return externals_.emplace(text, std::move(made)).first->second;
}

void MessageFile::fill_external(const External& place, const Fields& in, const Read& read,
                                Tensor& to) {
  const auto bytes = static_cast<uint64_t>(to.type()->bytes());
  const auto number = [&](const char* key, uint64_t otherwise) {
    const auto found = read.place.find(key);
    if (found == read.place.end()) return otherwise;
    const int64_t value = number_in(found->second);
    if (value < 0) in.fault(fmt::format("external data has the {} '{:.50}'", key, found->second));
    return static_cast<uint64_t>(value);
  };
  const uint64_t offset = number("offset", 0), length = number("length", bytes);
  ETUDE_REQUIRE_CODE(
      kDataLoss,
      length == bytes && offset <= place.file->size() && bytes <= place.file->size() - offset,
      "{}: constant '{:.200}' needs {} bytes, but its external data is {} bytes at offset {} of "
      "{}, "
      "which has {} bytes. Export the model again",
      name_, read.name, bytes, length, offset, place.file->name(), place.file->size());
  place.file->read(offset,
                   {static_cast<uint8_t*>(etude::internal::host_elements_for_writing(to)), bytes});
}

}  // namespace etude::onnx::importing
