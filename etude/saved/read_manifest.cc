// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/files/canonical_json.h"
#include "etude/files/crc32c.h"
#include "etude/files/json_tree.h"
#include "etude/files/read_budget.h"
#include "etude/saved/manifest.h"
#include "etude/saved/structure.h"

namespace etude::saved::internal {
namespace {

using nlohmann::json;

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  etude::internal::JsonTree<json> body(std::string_view text) {
    constexpr std::string_view kBegin = "{\"crc32c\":\"", kMiddle = "\",\"saved\":", kEnd = "}\n";
    constexpr std::size_t kDigits = 8, kBody = kBegin.size() + kDigits + kMiddle.size();
    require_at(text.size() > kBody + kEnd.size() && text.starts_with(kBegin) &&
                   text.substr(kBegin.size() + kDigits).starts_with(kMiddle) &&
                   text.ends_with(kEnd),
               text.size(), "it is cut off, or no manifest of saved functions");
    const std::string_view part = text.substr(kBody, text.size() - kBody - kEnd.size());
    etude::internal::ReadBudget budget(file_, text.size());
    etude::internal::count_json(part, budget);
    require_at(text.substr(kBegin.size(), kDigits) ==
                   fmt::format("{:08x}", etude::internal::crc32c(0, part)),
               kBody, "the CRC-32C does not match the rest: the file is damaged");
    etude::internal::JsonTree<json> tree = etude::internal::read_canonical_json(part);
    const json& out = tree.root();
    require_at(!out.is_discarded(), kBody, "it was not written by Etude");
    const int64_t format = number(out, "format");
    ETUDE_REQUIRE_CODE(
        kUnimplemented, format <= kFormat,
        "{}: the folder has format {}, but this version of Etude reads formats up to "
        "{}. Load it with a newer version",
        file_, format, kFormat);
    require(format == kFormat, "it has no format");
    return tree;
  }

  const json& at(const json& from, const char* key) const {
    const auto found = from.is_object() ? from.find(key) : from.end();
    require(from.is_object() && found != from.end(), "'{}' is missing", key);
    return *found;
  }
  const json& list(const json& from, const char* key) const { return list(at(from, key), key, 0); }
  std::string text(const json& from, const char* key) const { return text_of(at(from, key), key); }
  bool flag(const json& from, const char* key) const {
    const json& value = at(from, key);
    require(value.is_boolean(), "'{}' is neither true nor false", key);
    return value.get<bool>();
  }
  int64_t number(const json& from, const char* key) const { return number_of(at(from, key), key); }
  // An index below `size`; -1 too if `or_none`.
  int64_t index(const json& value, std::size_t size, const char* what, bool or_none = false) const {
    const int64_t i = number_of(value, what);
    require((i >= 0 && static_cast<uint64_t>(i) < size) || (or_none && i == -1),
            "'{}' is {}, but there are {}", what, i, size);
    return i;
  }
  std::vector<std::string> texts(const json& from, const char* key) const {
    std::vector<std::string> out;
    for (const json& each : list(from, key)) out.push_back(text_of(each, key));
    return out;
  }
  // A list of pairs.
  template <class Fn>
  void each_pair(const json& from, const char* key, const Fn& fn) const {
    for (const json& each : list(from, key)) {
      require(each.is_array() && each.size() == 2, "'{}' is no list of pairs", key);
      fn(text_of(each[0], key), each[1]);
    }
  }
  std::string text_of(const json& value, const char* key) const {
    require(value.is_string(), "'{}' is no text", key);
    return value.get<std::string>();
  }
  int64_t number_of(const json& value, const char* key) const {
    require(value.is_number_integer() &&
                (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX}),
            "'{}' is no number", key);
    return value.get<int64_t>();
  }
  // Formats the text only if it is needed: a manifest has thousands of values.
  template <class... Args>
  void require(bool holds, fmt::format_string<const Args&...> what, const Args&... args) const {
    if (!holds) require_at(false, 0, fmt::format(what, args...));
  }
  void require_at(bool holds, std::size_t offset, std::string_view what) const {
    ETUDE_REQUIRE_CODE(kDataLoss, holds, "{}: offset {}: {}", file_, offset, what);
  }
  const std::string& file() const { return file_; }

 private:
  const json& list(const json& value, const char* key, int) const {
    require(value.is_array(), "'{}' is no list", key);
    return value;
  }
  const std::string& file_;
};

StoredFile stored_file(const Reader& in, const json& from, std::string_view prefix) {
  StoredFile out{in.text(from, "file")};
  const int64_t bytes = in.number(from, "bytes");
  in.require(bytes >= 0, "a file has no size");
  out.bytes = static_cast<uint64_t>(bytes);
  const std::string digits = in.text(from, "crc32c");
  const char* end = digits.data() + digits.size();
  const auto [at, problem] = std::from_chars(digits.data(), end, out.crc, 16);
  in.require(digits.size() == 8 && problem == std::errc() && at == end, "a file has no checksum");
  in.require(out.name.find('/') == out.name.npos && out.name.find('\0') == out.name.npos &&
                 out.name != "." && out.name != ".." && !out.name.empty() &&
                 out.name.starts_with(prefix),
             "the file '{:.100}' does not lie in this folder", out.name);
  return out;
}

Shape shape_of(const Reader& in, const json& list) {
  in.require(list.is_array() && list.size() <= static_cast<std::size_t>(kMaxRank),
             "a shape is no list of sizes");
  std::vector<int64_t> sizes;
  for (const json& size : list) {
    sizes.push_back(in.number_of(size, "shape"));
    in.require(sizes.back() >= 0 || sizes.back() == kAny, "a size is negative");
  }
  return Shape(sizes);
}

SavedVariable variable_of(const Reader& in, const json& from) {
  SavedVariable out;
  out.paths = in.texts(from, "paths");
  in.require(!out.paths.empty(), "a Variable has no path");
  out.name = in.text(from, "name");
  out.is_trainable = in.flag(from, "trainable");
  const std::string dtype = in.text(from, "dtype");
  const auto known = dtype_named(dtype);
  in.require(known.has_value(), "'{:.40}' is no dtype", dtype);
  out.dtype = *known;
  if (const json& shape = in.at(from, "shape"); !shape.is_null()) out.shape = shape_of(in, shape);
  out.device = in.text(from, "device");
  return out;
}

FormLeaf leaf_of(const Reader& in, const json& from) {
  static constexpr std::string_view kKinds[] = {"tensor", "variable", "state", "new_state", "host"};
  const std::string kind = in.text(from, "kind");
  const auto known = std::ranges::find(kKinds, kind);
  in.require(known != std::end(kKinds), "'{:.40}' is no kind of leaf", kind);
  FormLeaf out;
  out.kind = static_cast<LeafKind>(known - std::begin(kKinds));
  out.is_marked = from.contains("constant");
  out.is_frozen = from.contains("frozen");
  return out;
}

// A Variable is represented by its index until there are Variables.
SavedObject object_of(const Reader& in, const json& from, const Content& content) {
  SavedObject out{in.text(from, "name"), {}};
  out.parts = parts_of_json(in.at(from, "parts"), [&](const json& leaf) {
    const FormLeaf facts = leaf_of(in, leaf);
    const json& value = in.at(leaf, "value");
    out.is_variable.push_back(facts.kind == LeafKind::kVariable ? 1 : 0);
    if (facts.kind == LeafKind::kHost) {
      out.values.push_back(-1);
      return Parts(described_of(value));
    }
    if (facts.kind == LeafKind::kVariable) {
      out.values.push_back(in.index(value, content.variables.size(), "variable"));
      return Parts(Described(out.values.back()));
    }
    out.values.push_back(in.index(value, content.constants.size(), "constant", true));
    return empty_leaf(facts);
  });
  return out;
}

SavedResult result_of(const Reader& in, const json& from) {
  SavedResult out;
  out.parts = parts_of_json(from, [&](const json& leaf) {
    const FormLeaf facts = leaf_of(in, leaf);
    in.require(facts.kind != LeafKind::kVariable, "a result is a Variable");
    if (facts.kind == LeafKind::kHost) {
      out.is_present.push_back(0);
      return Parts(described_of(in.at(leaf, "value")));
    }
    out.is_present.push_back(in.flag(leaf, "present") ? 1 : 0);
    return empty_leaf(facts);
  });
  return out;
}

SavedGraph graph_of(const Reader& in, const json& from, const Content& content) {
  SavedGraph out;
  out.phase = in.flag(from, "training") ? Phase::kTraining : Phase::kInference;
  out.is_special = in.flag(from, "special");
  out.made_for = in.text(from, "made_for");
  for (const json& x : in.list(from, "tensors")) {
    SavedTensor& to = out.tensors.emplace_back();
    to.path = in.text(x, "path");
    to.state = in.index(in.at(x, "state"), content.variables.size(), "state", true);
    to.is_absent = in.flag(x, "absent");
    to.is_changed = in.flag(x, "changed");
    in.require(!to.is_absent || (!to.is_changed && to.state < 0), "an absent tensor is changed");
  }
  in.each_pair(from, "hosts", [&](std::string path, const json& text) {
    out.hosts.push_back({std::move(path), in.text_of(text, "hosts")});
  });
  in.each_pair(from, "variables", [&](std::string path, const json& same) {
    const std::size_t most = out.variable_arguments.size() + 1;
    out.variable_arguments.push_back({std::move(path), in.index(same, most, "variables")});
  });
  for (const json& use : in.list(from, "uses")) {
    SavedUse& to = out.uses.emplace_back();
    to.variable = in.index(in.at(use, "variable"), content.variables.size(), "variable", true);
    to.argument = in.index(in.at(use, "argument"), out.variable_arguments.size(), "argument", true);
    in.require((to.variable < 0) != (to.argument < 0), "a use names no Variable");
    to.is_read = in.flag(use, "read");
    to.is_written = in.flag(use, "written");
  }
  for (const json& c : in.list(from, "captures")) {
    out.captures.push_back(in.index(c, content.constants.size(), "captures"));
  }
  out.result = result_of(in, in.at(from, "result"));
  return out;
}

SavedFunction function_of(const Reader& in, const json& from, const Content& content) {
  SavedFunction out{in.text(from, "name"), in.text(from, "display"), in.texts(from, "arguments")};
  for (const json& graph : in.list(from, "graphs")) {
    out.graphs.push_back(graph_of(in, graph, content));
  }
  const json& exported = in.at(from, "exported");
  if (exported.is_null()) return out;
  SavedExport& to = out.exported.emplace();
  to.inputs = in.texts(exported, "inputs");
  to.input_paths = in.texts(exported, "paths");
  to.outputs = in.texts(exported, "outputs");
  in.require(to.inputs.size() == to.input_paths.size(), "an exported signature has no paths");
  return out;
}

void read_lists(const Reader& in, const json& body, Content& content, Manifest& manifest) {
  manifest.graphs = stored_file(in, in.at(body, "graphs"), kGraphsPrefix);
  for (const json& file : in.list(body, "tensors")) {
    manifest.shards.push_back(stored_file(in, file, kTensorsPrefix));
  }
  constexpr std::size_t kNone = ~std::size_t{0};
  for (const json& v : in.list(body, "variables")) {
    content.variables.push_back(variable_of(in, v));
    const json& shard = in.at(v, "shard");
    manifest.shard_of_variable.push_back(
        shard.is_null()
            ? kNone
            : static_cast<std::size_t>(in.index(shard, manifest.shards.size(), "shard")));
  }
  for (const json& shard : in.list(body, "constants")) {
    manifest.shard_of_constant.push_back(
        static_cast<std::size_t>(in.index(shard, manifest.shards.size(), "constants")));
  }
  content.constants.resize(manifest.shard_of_constant.size());
  for (const json& object : in.list(body, "objects")) {
    content.objects.push_back(object_of(in, object, content));
  }
  std::set<std::string> names;
  for (const json& function : in.list(body, "functions")) {
    content.functions.push_back(function_of(in, function, content));
    in.require(names.insert(content.functions.back().name).second, "two functions have one name");
  }
  names.clear();
  for (const json& asset : in.list(body, "assets")) {
    manifest.assets.push_back(stored_file(in, asset, ""));
    content.assets.push_back({in.text(asset, "name"), manifest.assets.back().name, {}});
    in.require(names.insert(content.assets.back().name).second, "two assets have one name");
  }
  names.clear();
  for (const SavedVariable& v : content.variables) {
    for (const std::string& path : v.paths) {
      in.require(names.insert(path).second, "two Variables have one path");
    }
  }
}

}  // namespace

Content read_manifest(std::string_view text, const std::string& file, Manifest& manifest) {
  Reader in(file);
  const etude::internal::JsonTree<json> body = in.body(text);
  Content out;
  try {
    read_lists(in, body.root(), out, manifest);
  } catch (const Error& error) {
    // Names of parts that are empty or repeated, and structures of another form.
    if (std::string_view(error.what()).starts_with(file)) throw;
    in.require(false, "{}", std::string_view(error.what()));
  }
  return out;
}

}  // namespace etude::saved::internal
