// SPDX-License-Identifier: Apache-2.0
// Tensors by name in a safetensors file, and pytrees of tensors by path: `save` and `load` of
// models. Files are written whole or not at all, and are not trusted when read. For whole training
// runs see checkpoint.h.
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

// Writes all tensors to one file, which appears whole or not at all. The format has no complex128:
// such a tensor is stored as float64 with a last axis of 2, and marked by a metadata entry.
//
// throws: kInvalidArgument for an absent tensor or a name that is not UTF-8; kFailedPrecondition,
//         with its name, for a tensor without elements, as in a function that is being traced; for
//         the file: the errors of AtomicFile.
// cost:   writes directly from the tensors; no copy.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata = {}, CallSite where = CallSite::here());

// Reads such a file, bit for bit.
//
// throws: kNotFound when there is no file; kDataLoss, with file and offset, when it is truncated or
//         not a safetensors file; kUnimplemented for a dtype that Etude lacks.
SafetensorsFile load_safetensors(const std::string& path, CallSite where = CallSite::here());

struct LoadOptions {
  bool strict = true;                    // missing, superfluous or unfit tensors are an error
  std::vector<std::string> ignore = {};  // paths to skip, with all paths below them
  std::map<std::string, std::string> rename = {};  // path in the structure -> name in the file
  std::string separator = "/";                     // in file names, unless renamed: "." of PyTorch
};

// The result of `load`. With strict=false the caller has to check it.
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
// Prepares to fill all places. The returned function exchanges the tensors of the places and the
// new ones, and does not throw. throws: kInvalidArgument, with the report, unless it is empty.
std::function<void()> prepare_places(const std::vector<Place>& places, NamedTensors tensors,
                                     std::string_view source);
// Fills the places. Changes nothing if it throws.
LoadReport fill_places(const std::vector<Place>& places, NamedTensors tensors,
                       const LoadOptions& options, std::string_view source);
}  // namespace internal

// Returns the tensors of a pytree by path, "conv1/filter", including those marked NoDerivative.
// Absent tensors are left out.
template <class S>
NamedTensors named_tensors(const S& structure) {
  NamedTensors all;
  for_each_leaf<Tensor, Marked::kVisit>(structure, [&](const std::string& path, const Tensor& x) {
    if (x.has_value()) all.emplace(path, x);
  });
  return all;
}

// Assigns tensors to the leaves of a pytree with the same paths. Shapes and dtypes must be those in
// the pytree; an absent tensor accepts any.
//
// throws: kInvalidArgument, with the report, if `strict` is true and the report is not empty; the
//         pytree is then unchanged.
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

// Saves the tensors of a model, or of any pytree. throws and cost: as save_safetensors.
template <class S>
void save(const S& model, const std::string& path, const Metadata& metadata = {},
          CallSite where = CallSite::here()) {
  save_safetensors(path, named_tensors(model), metadata, where);
}

// Loads the output of `save` into a model of the same structure. throws: as load_safetensors, and
// as assign_tensors.
template <class S>
LoadReport load(S& model, const std::string& path, const LoadOptions& options = {},
                CallSite where = CallSite::here()) {
  return assign_tensors(model, load_safetensors(path, where).tensors, options, path, where);
}

}  // namespace io
}  // namespace etude
