// SPDX-License-Identifier: Apache-2.0
// The fields of protobuf messages, with checks of their wire types, and the tensors in them. Used
// by read_file.cc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protozero/pbf_reader.hpp>

#include "etude/files/file_reader.h"
#include "etude/files/read_budget.h"
#include "etude/onnx/import/file.h"

namespace etude::onnx::importing {

class MessageFile;

// The fields of one message, in order. protozero asserts that a field has the wire type that is
// read, so each reader here checks it first.
class Fields {
 public:
  Fields(const MessageFile& file, protozero::pbf_reader reader) : file_(file), reader_(reader) {}

  bool next() { return reader_.next(); }
  uint32_t tag() const { return reader_.tag(); }
  void skip() { reader_.skip(); }
  int64_t integer() {
    need(protozero::pbf_wire_type::varint);
    return reader_.get_int64();
  }
  float real() {
    need(protozero::pbf_wire_type::fixed32);
    return reader_.get_float();
  }
  double wide_real() {
    need(protozero::pbf_wire_type::fixed64);
    return reader_.get_double();
  }
  std::string_view bytes() {
    need(protozero::pbf_wire_type::length_delimited);
    const protozero::data_view view = reader_.get_view();
    return {view.data(), view.size()};
  }
  // Texts may be no UTF-8; they are names, and shown in messages only.
  std::string text() { return std::string(bytes()); }
  Fields message() {
    need(protozero::pbf_wire_type::length_delimited);
    return {file_, reader_.get_message()};
  }
  bool is_packed() const {
    return reader_.wire_type() == protozero::pbf_wire_type::length_delimited;
  }
  // Of the next field, in the file.
  uint64_t offset() const;
  [[noreturn]] void fault(const std::string& what) const;

 private:
  void need(protozero::pbf_wire_type type) const {
    if (!reader_.has_wire_type(type)) fault(wrong_type());
  }
  std::string wrong_type() const;

  const MessageFile& file_;
  protozero::pbf_reader reader_;
};

// A file of messages, with its budget and its external data.
class MessageFile {
 public:
  MessageFile(const std::filesystem::path& file, std::span<const uint8_t> bytes);

  Fields fields() const;
  uint64_t offset_of(const char* at) const;
  const std::string& name() const { return name_; }

  // Runs a reader; faults of the wire format become errors with the file.
  template <class F>
  auto guarded(F&& read) {
    try {
      return read();
    } catch (const protozero::exception& error) {
      damaged(error.what());
    }
  }

  void need_depth(int64_t depth, const Fields& in) { budget_.need_depth(depth, in.offset()); }
  // An item that takes this much memory.
  void need_item(const Fields& in, uint64_t bytes = 32) {
    budget_.need_items(1, in.offset());
    budget_.need_bytes(bytes, in.offset());
  }
  // A field of a list, packed or not.
  void integers(Fields& in, std::vector<int64_t>& to);
  void reals(Fields& in, std::vector<double>& to);
  void wide_reals(Fields& in, std::vector<double>& to);
  // A key and a value.
  static std::pair<std::string, std::string> entry(Fields in);
  // A TensorProto.
  FileConstant constant(Fields in);

 private:
  struct Read;
  struct External {
    std::unique_ptr<etude::internal::FileReader> file;
    std::unique_ptr<etude::internal::ReadBudget> budget;
  };
  [[noreturn]] void damaged(const char* what) const;
  void read_fields(Fields& in, Read& to);
  Tensor tensor_of(const Fields& in, const Read& read);
  static void fill_listed(const Read& read, Tensor& to);
  void fill_external(const External& place, const Fields& in, const Read& read, Tensor& to);
  External& external(const Fields& in, const Read& read);

  std::filesystem::path path_;
  std::string name_;
  std::span<const uint8_t> bytes_;
  etude::internal::ReadBudget budget_;
  std::map<std::string, External> externals_;
};

}  // namespace etude::onnx::importing
