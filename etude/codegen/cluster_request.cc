// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/cluster_request.h"

#include <array>
#include <bit>
#include <charconv>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "etude/base/check.h"

namespace etude::codegen {
namespace {

using internal::Cluster;
using internal::SmallCall;

// Numbers, each followed by a space; a list begins with its length.
class Writer {
 public:
  std::string text;

  template <class... T>
  void numbers(const T&... all) {
    ((text += fmt::format("{} ", static_cast<int64_t>(all))), ...);
  }
  void number(float x) { numbers(std::bit_cast<uint32_t>(x)); }
  template <class T, class F>
  void list(const std::vector<T>& all, F each) {
    numbers(all.size());
    for (const T& one : all) each(one);
  }
  void program(const std::shared_ptr<const scalar::Program>& program) {
    const std::string source =
        program == nullptr
            ? ""
            : request_of(Product::kObject, *program, {.isa = internal::Isa::kPortable}).source;
    numbers(source.size());
    text += source;
  }
};

class ClusterReader {
 public:
  explicit ClusterReader(std::string_view text) : text_(text) {}

  template <class... T>
  void numbers(T&... all) {
    ((all = static_cast<T>(next())), ...);
  }
  void number(float& x) { x = std::bit_cast<float>(static_cast<uint32_t>(next())); }
  template <class T, class F>
  void list(std::vector<T>& all, F each) {
    all.resize(length());
    for (T& one : all) each(one);
  }
  void program(std::shared_ptr<const scalar::Program>& program) {
    const std::size_t size = length();
    if (size > 0) {
      program = std::make_shared<const scalar::Program>(read_program(text_.substr(0, size)));
    }
    text_.remove_prefix(size);
  }
  void expect_end() const {
    ETUDE_REQUIRE(text_.empty(), "the compiler was sent more than a cluster: '{}'", text_);
  }

 private:
  int64_t next() {
    int64_t out = 0;
    const auto read = std::from_chars(text_.data(), text_.data() + text_.size(), out);
    const auto used = static_cast<std::size_t>(read.ptr - text_.data());
    ETUDE_REQUIRE(read.ec == std::errc() && used < text_.size() && *read.ptr == ' ',
                  "the compiler received an invalid cluster: '{}' where a number is needed",
                  text_.substr(0, 20));
    text_.remove_prefix(used + 1);
    return out;
  }
  // Each element takes a character at least.
  std::size_t length() {
    const int64_t out = next();
    ETUDE_REQUIRE(out >= 0 && static_cast<uint64_t>(out) <= text_.size(),
                  "the compiler received an invalid cluster: a list of {} in {} characters", out,
                  text_.size());
    return static_cast<std::size_t>(out);
  }

  std::string_view text_;
};

// The order of all parts of a cluster, for reading and writing: R is const for writing.
template <class Io, class P>
void pass_place(Io& io, P& place) {
  io.numbers(place.value, place.slot, place.offset, place.stride);
}
template <class Io, class C>
void pass_call(Io& io, C& what) {
  io.numbers(what.kind, what.depth, what.strides[0], what.strides[1], what.combine);
  io.number(what.divisor);
  io.list(what.at, [&io](auto& list) { io.list(list, [&io](auto& k) { io.numbers(k); }); });
  io.list(what.params, [&io](auto& param) {
    std::conditional_t<std::is_const_v<std::remove_reference_t<decltype(param)>>, const int, int>
        none = 0;  // a number each, so that lists are no longer than texts
    io.numbers(none);
  });
  io.list(what.passes, [&io](auto& axes) { io.numbers(axes.outer, axes.size, axes.inner); });
  io.program(what.program);
}
template <class Io, class R>
void pass_cluster(Io& io, R& cluster) {
  io.numbers(cluster.is_loop, cluster.is_reverse);
  io.list(cluster.values, [&io](auto& value) { io.numbers(value.count, value.is_bool); });
  io.list(cluster.loads, [&io](auto& place) { pass_place(io, place); });
  io.list(cluster.calls, [&io](auto& call) {
    io.numbers(call.result);
    io.list(call.operands, [&io](auto& operand) { io.numbers(operand); });
    pass_call(io, call.what);
  });
  io.list(cluster.stores, [&io](auto& place) { pass_place(io, place); });
  io.list(cluster.carried, [&io](auto& c) {
    io.numbers(c.before, c.after);
    pass_place(io, c.from);
    pass_place(io, c.to);
  });
}

}  // namespace

Request request_of(Product product, const Cluster& cluster, const CompileOptions& options) {
  Writer writer;
  pass_cluster(writer, cluster);
  return {product, "cluster", options, std::move(writer.text)};
}

Cluster read_cluster(std::string_view source) {
  ClusterReader reader(source);
  Cluster cluster;
  pass_cluster(reader, cluster);
  reader.expect_end();
  internal::check(cluster);
  return cluster;
}

}  // namespace etude::codegen
