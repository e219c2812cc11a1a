// SPDX-License-Identifier: Apache-2.0
#include "etude/io/safetensors.h"

#include <algorithm>
#include <array>

#include "etude/base/check.h"
#include "etude/core/context/pending.h"
#include "etude/core/internal/host_door.h"
#include "etude/core/internal/traced.h"
#include "etude/files/atomic_file.h"
#include "etude/files/file_reader.h"
#include "etude/io/safetensors_format.h"
#include "etude/io/tensor_file.h"

namespace etude::io {
namespace {

using etude::internal::append_paths;
using etude::internal::bytes_of;
using etude::internal::SafetensorsEntry;

constexpr std::string_view kComplexMark = "etude.complex128/";

constexpr std::array<std::pair<std::string_view, DType>, 14> kDTypes = {{
    {"BOOL", kBool},
    {"I8", kInt8},
    {"I16", kInt16},
    {"I32", kInt32},
    {"I64", kInt64},
    {"U8", kUInt8},
    {"U16", kUInt16},
    {"U32", kUInt32},
    {"U64", kUInt64},
    {"F16", kFloat16},
    {"BF16", kBFloat16},
    {"F32", kFloat32},
    {"F64", kFloat64},
    {"C64", kComplex64},
}};

SafetensorsEntry entry_of(const std::string& name, const Tensor& x) {
  ETUDE_REQUIRE(x.has_value(), "tensor '{}' is absent and cannot be saved", name);
  ETUDE_REQUIRE_CODE(kFailedPrecondition, etude::internal::observe(x),
                     "tensor '{}' cannot be saved here: {}", name,
                     etude::internal::explain_abstract(x));
  SafetensorsEntry entry{.name = name, .dtype = "F64", .shape = x.shape().to_vector()};
  if (x.dtype() == kComplex128) {
    entry.shape.push_back(2);
    return entry;
  }
  for (const auto& [text, dtype] : kDTypes) {
    if (dtype == x.dtype()) entry.dtype = text;
  }
  return entry;
}

const Type* type_of(const SafetensorsEntry& entry, bool is_complex128, const std::string& file) {
  const auto known = std::find_if(kDTypes.begin(), kDTypes.end(),
                                  [&](const auto& row) { return row.first == entry.dtype; });
  ETUDE_REQUIRE_CODE(kUnimplemented, known != kDTypes.end(),
                     "{}: tensor '{}' has dtype {}, which Etude has not", file, entry.name,
                     entry.dtype);
  std::vector<int64_t> shape = entry.shape;
  DType dtype = known->second;
  if (is_complex128) {
    ETUDE_REQUIRE_CODE(kDataLoss, dtype == kFloat64 && !shape.empty() && shape.back() == 2,
                       "{}: tensor '{}' is marked as complex128, but is not F64 with a last axis "
                       "of 2",
                       file, entry.name);
    shape.pop_back();
    dtype = kComplex128;
  }
  ETUDE_REQUIRE_CODE(kUnimplemented, shape.size() <= static_cast<std::size_t>(kMaxRank),
                     "{}: tensor '{}' has {} axes; Etude's tensors have up to {}", file, entry.name,
                     shape.size(), kMaxRank);
  return intern_type(dtype, shape);
}

// A bool is one byte that is 0 or 1; anything else would be undefined behaviour later on.
void require_bools(const Tensor& x, const SafetensorsEntry& entry, uint64_t offset,
                   const std::string& file) {
  const auto bytes = bytes_of(x);
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](auto byte) { return byte > 1; });
  ETUDE_REQUIRE_CODE(kDataLoss, bad == bytes.end(),
                     "{}: offset {}: a bool of tensor '{}' is {}, but must be 0 or 1", file,
                     offset + static_cast<uint64_t>(bad - bytes.begin()), entry.name, *bad);
}

bool is_below(std::string_view path, std::string_view folder) {
  return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

std::string with_separator(std::string path, const std::string& separator) {
  for (std::size_t at = 0; separator != "/" && (at = path.find('/', at)) != path.npos;) {
    path.replace(at, 1, separator);
    at += separator.size();
  }
  return path;
}

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata, CallSite where) {
  etude::internal::located("", where, [&] {
    for (const auto& [name, tensor] : tensors) entry_of(name, tensor);  // before there is a file
    etude::internal::AtomicFile file(path);
    etude::internal::write_tensors(tensors, metadata,
                                   [&](std::span<const uint8_t> bytes) { file.write(bytes); });
    file.commit();
  });
}

SafetensorsFile load_safetensors(const std::string& path, CallSite where) {
  return etude::internal::located("", where, [&] {
    const etude::internal::FileReader file(path);
    const etude::internal::TensorFile tensors(file, path);
    SafetensorsFile out;
    for (const auto& [name, entry] : tensors.entries()) {
      out.tensors.emplace(name, tensors.read(name));
    }
    out.metadata = tensors.metadata();
    return out;
  });
}

std::string LoadReport::to_string() const {
  std::string text = fmt::format("{} loaded, {} missing, {} superfluous, {} of another type",
                                 loaded.size(), missing.size(), extra.size(), unfit.size());
  append_paths(text, "missing", missing);
  append_paths(text, "superfluous", extra);
  append_paths(text, "of another type", unfit);
  return text;
}

namespace internal {

void add_named(NamedTensors& all, const std::string& path, const Tensor& x) {
  if (!x.has_value()) return;
  ETUDE_REQUIRE(all.emplace(path, x).second,
                "two tensors have the path '{}', and a file holds one tensor for a path. Rename a "
                "key of a map",
                path);
}

void add_place(std::vector<Place>& places, const std::string& path, Tensor& x) {
  places.push_back({path, &x});
}

namespace {

using Fitting = std::vector<std::pair<Tensor*, Tensor>>;

// Finds the tensors that fit, and makes all copies.
LoadReport fit_places(const std::vector<Place>& places, NamedTensors tensors,
                      const LoadOptions& options, std::string_view source, Fitting& fitting) {
  LoadReport report;
  const auto is_ignored = [&](const std::string& path) {
    return std::any_of(options.ignore.begin(), options.ignore.end(),
                       [&](const std::string& folder) { return is_below(path, folder); });
  };
  for (const Place& place : places) {
    if (is_ignored(place.path)) continue;
    const auto other = options.rename.find(place.path);
    const auto found =
        tensors.find(other != options.rename.end() ? other->second
                                                   : with_separator(place.path, options.separator));
    if (found == tensors.end()) {
      if (place.tensor->has_value()) report.missing.push_back(place.path);
      continue;
    }
    if (place.tensor->has_value() &&
        place.tensor->type()->on(Device()) != found->second.type()->on(Device())) {
      report.unfit.push_back(fmt::format("{}: {} here, {} in {}", place.path,
                                         place.tensor->type()->to_string(),
                                         found->second.type()->to_string(), source));
    } else {
      report.loaded.push_back(place.path);
      fitting.emplace_back(place.tensor, std::move(found->second));
    }
    tensors.erase(found);
  }
  for (const auto& [name, tensor] : tensors) {
    if (!is_ignored(name)) report.extra.push_back(name);
  }
  ETUDE_REQUIRE(!options.strict || report.is_complete(),
                "{} does not fit: {}\nPass strict=false to take the tensors that fit", source,
                report.to_string());
  for (auto& [place, tensor] : fitting) {
    tensor = etude::internal::restored_to(*place, std::move(tensor));
  }
  return report;
}

}  // namespace

std::function<void()> prepare_places(const std::vector<Place>& places, NamedTensors tensors,
                                     std::string_view source) {
  Fitting fitting;
  fit_places(places, std::move(tensors), {}, source, fitting);
  return [fitting = std::move(fitting)]() mutable {
    for (auto& [place, tensor] : fitting) std::swap(*place, tensor);
  };
}

LoadReport fill_places(const std::vector<Place>& places, NamedTensors tensors,
                       const LoadOptions& options, std::string_view source) {
  Fitting fitting;
  LoadReport report = fit_places(places, std::move(tensors), options, source, fitting);
  for (auto& [place, tensor] : fitting) *place = std::move(tensor);
  return report;
}

}  // namespace internal
}  // namespace etude::io

namespace etude::internal {

std::span<const uint8_t> bytes_of(const Tensor& x) {
  return {static_cast<const uint8_t*>(host_elements(x)), static_cast<std::size_t>(x.nbytes())};
}

void append_paths(std::string& text, std::string_view what, const std::vector<std::string>& paths) {
  constexpr std::size_t kShown = 12;
  if (paths.empty()) return;
  text += fmt::format("\n  {} {}:", paths.size(), what);
  for (std::size_t i = 0; i < std::min(paths.size(), kShown); ++i) text += "\n    " + paths[i];
  if (paths.size() > kShown) text += fmt::format("\n    and {} more", paths.size() - kShown);
}

void write_tensors(const io::NamedTensors& tensors, const io::Metadata& metadata,
                   FunctionRef<void(std::span<const uint8_t>)> write) {
  std::vector<SafetensorsEntry> entries;
  io::Metadata all = metadata;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back(io::entry_of(name, tensor));
    if (tensor.dtype() == kComplex128) {
      all[std::string(io::kComplexMark) + name] =
          "the last axis is the real and the imaginary part";
    }
  }
  const std::string header = make_safetensors_header(entries, all);
  write({reinterpret_cast<const uint8_t*>(header.data()), header.size()});
  for (const SafetensorsEntry& entry : entries) {
    const Tensor& tensor = tensors.at(entry.name);
    observe(tensor);
    const Tensor home = at_home(tensor);
    const auto bytes = bytes_of(home);
    if (!bytes.empty()) write(bytes);
  }
}

namespace {

SafetensorsHeader header_of(const ByteSource& source, const std::string& name) {
  ReadBudget budget(name, source.size());
  std::vector<uint8_t> first, all;
  const uint64_t length_bytes = std::min<uint64_t>(source.size(), 8);
  const uint64_t end =
      safetensors_header_end(source.view(0, length_bytes, first), source.size(), name);
  return parse_safetensors_header(source.view(0, end, all), source.size(), budget);
}

}  // namespace

TensorFile::TensorFile(ByteSource source, const std::string& name)
    : source_(source), name_(name), header_(header_of(source, name)) {
  for (const SafetensorsEntry& entry : header_.entries) {
    entries_.emplace(entry.name, &entry);
    is_complex128_[entry.name] =
        header_.metadata.erase(std::string(io::kComplexMark) + entry.name) > 0;
  }
}

Tensor TensorFile::read(const std::string& name) const {
  const auto found = entries_.find(name);
  ETUDE_REQUIRE_CODE(kNotFound, found != entries_.end(), "{}: there is no tensor '{}'", name_,
                     name);
  const SafetensorsEntry& entry = *found->second;
  Tensor x = make_tensor(io::type_of(entry, is_complex128_.at(name), name_));
  const uint64_t offset = header_.data_offset + entry.begin;
  if (entry.end > entry.begin) {
    source_.read(offset, {static_cast<uint8_t*>(host_elements_for_writing(x)),
                          static_cast<std::size_t>(entry.end - entry.begin)});
  }
  if (x.dtype() == kBool) io::require_bools(x, entry, offset, name_);
  return x;
}

}  // namespace etude::internal
