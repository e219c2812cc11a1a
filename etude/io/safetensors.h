// SPDX-License-Identifier: Apache-2.0
// Tensors by name in a safetensors file, and pytrees of tensors by path: `save` and `load` of
// models. Files are written whole or not at all. Files that are read are not trusted. For whole
// training runs see checkpoint/checkpoint.h.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/tensor.h"
#include "etude/version.h"

namespace ETUDE_API etude {
namespace io {

using NamedTensors = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

struct SafetensorsFile {
  NamedTensors tensors;
  Metadata metadata;
};

// Writes all tensors to one file, which appears whole or not at all. The format has no complex128.
// A complex128 tensor is stored as float64 with a last axis of size 2, and a metadata entry marks
// the tensor.
//
// throws: kInvalidArgument for an absent tensor or a name that is not UTF-8; kFailedPrecondition,
//         with the name, for a tensor whose value is not known, as in a traced function; the errors
//         of AtomicFile.
// cost:   no copy of tensors on cpu:0.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata = {}, CallSite where = CallSite::here());

// Reads a safetensors file, bit for bit.
//
// throws: kNotFound if the file does not exist; kDataLoss, with file and offset, if it is truncated
//         or not a safetensors file; kUnimplemented for a dtype that Etude lacks;
//         kResourceExhausted beyond read_limits().
SafetensorsFile load_safetensors(const std::string& path, CallSite where = CallSite::here());

struct LoadOptions {
  bool strict = true;                    // throws if tensors are missing, superfluous or unfit
  std::vector<std::string> ignore = {};  // paths to skip, with all paths below them
  std::map<std::string, std::string> rename = {};  // path in the structure -> name in the file
  std::string separator = "/";  // in names in the file, unless renamed; PyTorch uses "."
};

// The result of `load`. With strict=false the caller must check the report.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;  // in the structure, not in the file
  std::vector<std::string> extra;    // in the file, not in the structure
  std::vector<std::string> unfit;  // other shape or dtype: "fc1/weight: float32[400,120] here, ..."
  bool is_complete() const { return missing.empty() && extra.empty() && unfit.empty(); }
  // Returns the counts, then the first paths that are missing, superfluous or unfit.
  std::string to_string() const;
};

namespace internal {
void add_named(NamedTensors& all, const std::string& path, const Tensor& x);
struct Place {
  std::string path;
  Tensor* tensor;
};
void add_place(std::vector<Place>& places, const std::string& path, Tensor& x);
// Prepares to fill all places. Returns a function that exchanges the tensors of the places and the
// new tensors. The function does not throw. throws: kInvalidArgument, with the report, unless the
// report is empty.
std::function<void()> prepare_places(const std::vector<Place>& places, NamedTensors tensors,
                                     std::string_view source);
// Assigns the tensors to the places. An exception leaves all places unchanged.
LoadReport fill_places(const std::vector<Place>& places, NamedTensors tensors,
                       const LoadOptions& options, std::string_view source);
}  // namespace internal

// Returns the tensors of a pytree by path, such as "conv1/filter". Tensors marked NoDerivative are
// included. Absent tensors are left out.
//
// throws: kInvalidArgument if two tensors have one path, which keys of maps with a '/' can cause.
template <class S>
NamedTensors named_tensors(const S& structure, CallSite where = CallSite::here()) {
  NamedTensors all;
  etude::internal::located("", where, [&] {
    for_each_leaf<Tensor, Marked::kVisit>(structure, [&](const std::string& path, const Tensor& x) {
      internal::add_named(all, path, x);
    });
  });
  return all;
}

// Assigns tensors to the leaves of a pytree with the same paths. A tensor must have the shape and
// dtype of its leaf. An absent leaf accepts any tensor.
//
// throws: kInvalidArgument, with the report, if `strict` is true and the report is not complete.
//         The pytree is then unchanged.
template <class S>
LoadReport assign_tensors(S& structure, NamedTensors tensors, const LoadOptions& options = {},
                          std::string_view source = "the tensors",
                          CallSite where = CallSite::here()) {
  std::vector<internal::Place> places;
  for_each_leaf<Tensor, Marked::kVisit>(
      structure, [&](const std::string& path, Tensor& x) { internal::add_place(places, path, x); });
  return etude::internal::located("", where, [&] {
    return internal::fill_places(places, std::move(tensors), options, source);
  });
}

// Saves the tensors of a model, or of any pytree. throws and cost: as named_tensors and
// save_safetensors.
template <class S>
void save(const S& model, const std::string& path, const Metadata& metadata = {},
          CallSite where = CallSite::here()) {
  save_safetensors(path, named_tensors(model, where), metadata, where);
}

// Loads the output of `save` into a model of the same structure.
//
// throws: as load_safetensors and assign_tensors.
template <class S>
LoadReport load(S& model, const std::string& path, const LoadOptions& options = {},
                CallSite where = CallSite::here()) {
  return assign_tensors(model, load_safetensors(path, where).tensors, options, path, where);
}

}  // namespace io
}  // namespace etude
