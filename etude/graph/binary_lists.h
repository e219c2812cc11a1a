// SPDX-License-Identifier: Apache-2.0
// The lists of a container of graphs (binary.h) while it is read: texts, types, programs, ops and
// constants, and the graphs that were read so far. binary_reader.cc uses them to read graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "etude/core/op/op.h"
#include "etude/core/tensor.h"
#include "etude/files/read_budget.h"
#include "etude/graph/binary_bytes.h"
#include "etude/graph/check_call.h"
#include "etude/graph/graph.h"

namespace etude::internal {

// An attribute of an op, as the file describes it.
struct StoredAttr {
  std::string_view name;
  AttrKind kind = AttrKind::kNone;
  bool is_required = false;
  AttrValue value = {};   // the default in the file
  std::size_t size = 0;   // of the default, in bytes that a copy takes; 0 for the record's default
  std::size_t place = 0;  // in the record, if the op has its present version
};
struct StoredOp {
  const Op* op = nullptr;
  uint32_t version = 1;
  std::vector<StoredAttr> attrs = {};

  bool is_present() const { return version == static_cast<uint32_t>(op->def().version); }
};

// threads: confined to one reader.
class BinaryLists {
 public:
  // Reads the lists before the graphs. `elements` is the offset of the elements of constants.
  BinaryLists(std::string_view bytes, uint32_t version, ByteReader& in, std::size_t elements);

  bool is_first_version() const { return version_ == 1; }

  // Each function reads an index and returns the item. In version 1 the type of a constant and the
  // name of an op replace their indices.
  std::string_view text() { return texts_[in_.place(texts_.size(), "text")]; }
  std::string copied_text();
  // The texts by number + 1; empty for 0.
  std::size_t text_count() const { return texts_.size(); }
  std::string_view text_at(std::size_t i) const { return texts_[i]; }
  const Type* type() { return types_[in_.place(types_.size(), "type")]; }
  Tensor constant();
  const StoredOp& op();

  // Reads the value of an attribute. Raises `depth` to the number of levels of the graphs in the
  // value.
  AttrValue value(std::size_t at, std::string_view name, AttrKind kind, int& depth);

  // Counts bytes that a reader makes, copies or hashes without taking them from the file.
  // throws: kResourceExhausted if they are too many, naming `at`.
  void charge(std::size_t at, std::size_t bytes);
  // The same for a node of a graph.
  void charge_node(std::size_t at);

  struct Read {
    GraphRef graph;        // with the names and lines of this place in the file
    int depth = 0;         // levels of graphs below it
    std::size_t size = 0;  // bytes
    GraphRef shared = {};  // the first equal graph in an attribute, once it is in one
  };
  std::vector<Read>& graphs() { return graphs_; }
  // The end of the elements that were read.
  std::size_t elements() const { return elements_; }

 private:
  using Object = RefPtr<const AttrObject>;

  void read_texts();
  void read_types();
  void read_programs();
  void read_ops();
  void read_constants();
  StoredOp stored_op();
  StoredAttr stored_attr(const StoredOp& op);
  void take_defaults(std::size_t at, StoredOp& op) const;
  Tensor elements_of(std::size_t at, const Type* type);
  DType dtype();
  const ScalarDef* program();
  const ScalarDef* spelled_program();
  Object graph(int& depth);
  template <class T, class F>
  std::vector<T> list(F&& item);

  const std::string_view bytes_;
  const uint32_t version_;
  ByteReader& in_;
  std::vector<std::string_view> texts_;
  std::vector<const Type*> types_;
  std::vector<const ScalarDef*> programs_;
  std::vector<StoredOp> ops_;
  std::unordered_map<std::string_view, std::size_t> ops_by_name_;  // of version 1
  std::vector<Tensor> constants_;
  std::vector<bool> is_taken_;  // by constant
  std::vector<Read> graphs_;
  UniqueGraphs unique_;  // of graphs in attributes
  std::size_t elements_;
  ReadBudget budget_;
};

// The graphs of a symbolic graph of version 1, which is a file of files.
// throws: kDataLoss unless all bytes are present.
std::vector<std::string_view> split_symbolic(std::string_view bytes);

}  // namespace etude::internal
