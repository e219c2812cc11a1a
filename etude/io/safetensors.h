// SPDX-License-Identifier: Apache-2.0
// Tensors by name in a safetensors file, and structures of tensors by path: what `save` and `load`
// do for models. Files are written whole or not at all, and are not trusted when read.
// Not for whole training runs: checkpoint.h.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "etude/base/structure.h"
#include "etude/core/call_scope.h"
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

// Writes all tensors to one file, which appears whole or not at all. The format has no complex128:
// such a tensor is stored as float64 with a last axis of 2, and a metadata entry says so.
//
// throws: kInvalidArgument for an absent tensor or a name that is not UTF-8; kFailedPrecondition,
//         naming it, for a tensor without elements, as in a function that is being traced; for the
//         file: what AtomicFile throws.
// cost:   writes straight from the tensors; no copy.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata = {}, CallSite where = CallSite::here());

// Reads it back, bit for bit.
//
// throws: kNotFound when there is no file; kDataLoss, with file and offset, when it is torn or no
//         safetensors file; kUnimplemented for a dtype that Etude has not.
SafetensorsFile load_safetensors(const std::string& path, CallSite where = CallSite::here());

struct LoadOptions {
  bool strict = true;                    // missing, superfluous or unfit tensors are an error
  std::vector<std::string> ignore = {};  // paths that are left alone, with all paths below them
  std::map<std::string, std::string> rename = {};  // path in the structure -> name in the file
  std::string separator = "/";  // in the file, of those that `rename` leaves: "." of PyTorch
};

// What `load` found. With strict=false the caller decides what it means.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;  // in the structure, not in the file
  std::vector<std::string> extra;    // in the file, not in the structure
  std::vector<std::string> unfit;  // other shape or dtype: "fc1/weight: float32[400,120] here, ..."
  bool is_complete() const { return missing.empty() && extra.empty() && unfit.empty(); }
  // Counts, then the paths of each kind.
  std::string to_string() const;
};

namespace internal {
struct Place {
  std::string path;
  Tensor* tensor;
};
void add_place(std::vector<Place>& places, const std::string& path, Tensor& x);
// Fills the places. Nothing is changed if it throws.
LoadReport fill_places(const std::vector<Place>& places, NamedTensors tensors,
                       const LoadOptions& options, std::string_view source);
}  // namespace internal

// The tensors of a structure by path, "conv1/filter", with those marked as NoDerivative. Absent
// ones are left out.
template <class S>
NamedTensors named_tensors(const S& structure) {
  NamedTensors all;
  for_each_leaf<Tensor, Marked::kWalk>(structure, [&](const std::string& path, const Tensor& x) {
    if (x.has_value()) all.emplace(path, x);
  });
  return all;
}

// Puts tensors into the places of a structure that have their path. The structure decides shapes
// and dtypes; an absent tensor takes any.
//
// throws: kInvalidArgument with the report, unless it is complete or `strict` is false; the
//         structure is then as it was.
template <class S>
LoadReport assign_tensors(S& structure, NamedTensors tensors, const LoadOptions& options = {},
                          std::string_view source = "the tensors",
                          CallSite where = CallSite::here()) {
  std::vector<internal::Place> places;
  for_each_leaf<Tensor, Marked::kWalk>(
      structure, [&](const std::string& path, Tensor& x) { internal::add_place(places, path, x); });
  return etude::internal::located("", where, [&] {
    return internal::fill_places(places, std::move(tensors), options, source);
  });
}

// Saves the tensors of a model, or of any structure. throws and cost: as save_safetensors.
template <class S>
void save(const S& model, const std::string& path, const Metadata& metadata = {},
          CallSite where = CallSite::here()) {
  save_safetensors(path, named_tensors(model), metadata, where);
}

// Loads what `save` wrote into a model of the same structure. throws: as load_safetensors, and as
// assign_tensors.
template <class S>
LoadReport load(S& model, const std::string& path, const LoadOptions& options = {},
                CallSite where = CallSite::here()) {
  return assign_tensors(model, load_safetensors(path, where).tensors, options, path, where);
}

}  // namespace io
}  // namespace etude
