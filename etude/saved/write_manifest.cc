// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/files/crc32c.h"
#include "etude/files/json_writer.h"
#include "etude/saved/manifest.h"
#include "etude/saved/structure.h"

namespace etude::saved::internal {
namespace {

using etude::internal::JsonWriter;

// The members of each object are sorted, as the reader expects them.
class Writer {
 public:
  std::string text(const Content& content, const Manifest& manifest) {
    out_.object([&] {
      member("assets", [&] { assets(content, manifest); });
      member("constants", [&] { out_.list(manifest.shard_of_constant); });
      member("format", kFormat);
      member("functions", content.functions);
      member("graphs", [&] { write(manifest.graphs); });
      member("objects", content.objects);
      member("tensors", manifest.shards);
      member("variables", [&] { variables(content, manifest); });
    });
    return out_.text();
  }

 private:
  template <class X>
  void member(std::string_view key, const X& x) {
    out_.member(key, x);
  }
  // A list of records.
  template <class T>
  void member(std::string_view key, const std::vector<T>& records) {
    out_.member(key, [&] { out_.list(records, [&](const T& each) { write(each); }); });
  }
  void texts(std::string_view key, const std::vector<std::string>& all) {
    out_.member(key, [&] { out_.list(all); });
  }

  void write_file(const StoredFile& file) {
    member("bytes", file.bytes);
    member("crc32c", fmt::format("{:08x}", file.crc));
    member("file", file.name);
  }
  void write(const StoredFile& file) {
    out_.object([&] { write_file(file); });
  }

  void assets(const Content& content, const Manifest& manifest) {
    const StoredFile* file = manifest.assets.data();
    out_.list(content.assets, [&](const SavedAsset& asset) {
      out_.object([&] {
        write_file(*file++);
        member("name", asset.name);
      });
    });
  }

  void variables(const Content& content, const Manifest& manifest) {
    const std::size_t* shard = manifest.shard_of_variable.data();
    out_.list(content.variables, [&](const SavedVariable& v) {
      out_.object([&] {
        member("device", v.device);
        member("dtype", etude::name(v.dtype));
        member("name", v.name);
        texts("paths", v.paths);
        or_null("shape", v.shape.has_value(), [&] { out_.list(*v.shape); });
        or_null("shard", v.value.has_value(), [&] { out_.value(*shard); });
        member("trainable", v.is_trainable);
      });
      ++shard;
    });
  }

  template <class F>
  void or_null(std::string_view key, bool is_there, const F& write) {
    out_.member(key, [&] { is_there ? write() : out_.value(nullptr); });
  }

  // `value`: the last members.
  template <class F>
  void leaf(const FormLeaf& leaf, const F& value) {
    static constexpr const char* kKinds[] = {"tensor", "variable", "state", "new_state", "host"};
    out_.object([&] {
      if (leaf.is_marked) member("constant", true);
      if (leaf.is_frozen) member("frozen", true);
      member("kind", kKinds[static_cast<std::size_t>(leaf.kind)]);
      value();
    });
  }
  void host(const Parts& parts, const FormLeaf& leaf) {
    out_.member("value", [&] { write_host(out_, parts.host(leaf.path)); });
  }

  void write(const SavedObject& object) {
    out_.object([&] {
      member("name", object.name);
      out_.member("parts", [&] {
        write_form(out_, *object.parts.form(), [&](std::size_t i) {
          const FormLeaf& facts = object.parts.leaf(i);
          leaf(facts, [&] {
            facts.kind == LeafKind::kHost ? host(object.parts, facts)
                                          : member("value", object.values[i]);
          });
        });
      });
    });
  }

  void write(const SavedResult& result) {
    write_form(out_, *result.parts.form(), [&](std::size_t i) {
      const FormLeaf& facts = result.parts.leaf(i);
      leaf(facts, [&] {
        facts.kind == LeafKind::kHost ? host(result.parts, facts)
                                      : member("present", result.is_present[i] != 0);
      });
    });
  }

  void write(const SavedTensor& x) {
    out_.object([&] {
      member("absent", x.is_absent);
      member("changed", x.is_changed);
      member("path", x.path);
      member("state", x.state);
    });
  }
  void write(const SavedUse& use) {
    out_.object([&] {
      member("argument", use.argument);
      member("read", use.is_read);
      member("variable", use.variable);
      member("written", use.is_written);
    });
  }
  // A pair of a path and a value.
  template <class X>
  void pair(const std::string& path, const X& x) {
    out_.pair([&] { out_.value(path); }, [&] { out_.value(x); });
  }
  void write(const SavedHost& host) { pair(host.path, host.text); }
  void write(const SavedVariableArgument& v) { pair(v.path, v.same_as); }

  void write(const SavedGraph& graph) {
    out_.object([&] {
      out_.member("captures", [&] { out_.list(graph.captures); });
      member("hosts", graph.hosts);
      member("made_for", graph.made_for);
      out_.member("result", [&] { write(graph.result); });
      member("special", graph.is_special);
      member("tensors", graph.tensors);
      member("training", graph.phase == Phase::kTraining);
      member("uses", graph.uses);
      member("variables", graph.variable_arguments);
    });
  }

  void write(const SavedFunction& function) {
    out_.object([&] {
      texts("arguments", function.arguments);
      member("display", function.display);
      or_null("exported", function.exported.has_value(), [&] {
        out_.object([&] {
          texts("inputs", function.exported->inputs);
          texts("outputs", function.exported->outputs);
          texts("paths", function.exported->input_paths);
        });
      });
      member("graphs", function.graphs);
      member("name", function.name);
    });
  }

  JsonWriter out_;
};

}  // namespace

std::string variable_key(std::size_t index, const SavedVariable& variable) {
  return variable.paths.empty() ? fmt::format("variable.{}", index) : variable.paths.front();
}

// A path of a Variable has the name of an entry, which holds no '/', in front, so no path begins
// with a '/'.
std::string constant_key(std::size_t index) { return fmt::format("/constant/{}", index); }

std::string graph_key(const std::string& function, std::size_t graph) {
  return fmt::format("{}#{}", function, graph);
}

std::string manifest_text(const Content& content, const Manifest& manifest) {
  std::string text;
  try {
    text = Writer().text(content, manifest);
  } catch (const nlohmann::json::exception&) {
    ETUDE_THROW(kInvalidArgument, "a name of a function, an argument or an object is not UTF-8");
  }
  return fmt::format("{{\"crc32c\":\"{:08x}\",\"saved\":{}}}\n", etude::internal::crc32c(0, text),
                     text);
}

}  // namespace etude::saved::internal
