// SPDX-License-Identifier: Apache-2.0
#include "tools/etude/run_op.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "etude/autodiff/tape/tape.h"
#include "etude/base/check.h"
#include "etude/core/op/registry.h"

namespace etude::tools {
namespace {

constexpr int kMaxDepth = 16;

// The op's name goes in front in attrs_from_json().
[[noreturn]] void refuse(const AttrDef& def, const Json& json, std::string_view wanted) {
  ETUDE_THROW(kInvalidArgument, "attribute '{}' is {}, but must be {}", def.name,
              json.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80), wanted);
}

double number_from(const AttrDef& def, const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string text =
      json.is_string() ? json.get<std::string>() : "";  // JSON has no such numbers
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  refuse(def, json, "a number, \"inf\", \"-inf\" or \"nan\"");
}

int64_t integer_from(const AttrDef& def, const Json& json) {
  const bool fits =
      json.is_number_integer() &&
      (!json.is_number_unsigned() ||
       json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits) refuse(def, json, "an integer of 64 bits");
  return json.get<int64_t>();
}

template <class T, class F>
std::vector<T> list_from(const AttrDef& def, const Json& json, std::string_view wanted, F item) {
  if (!json.is_array()) refuse(def, json, wanted);
  std::vector<T> out;
  for (const Json& value : json) out.push_back(item(def, value));
  return out;
}

AttrValue attr_from(const AttrDef& def, const Json& json) {
  switch (def.kind) {
    case AttrKind::kFlag:
      if (!json.is_boolean()) refuse(def, json, "true or false");
      return json.get<bool>();
    case AttrKind::kInt:
      return integer_from(def, json);
    case AttrKind::kReal:
      return number_from(def, json);
    case AttrKind::kDType: {
      const auto dtype = json.is_string() ? dtype_named(json.get<std::string>()) : std::nullopt;
      if (!dtype) refuse(def, json, "the name of a dtype");
      return *dtype;
    }
    case AttrKind::kInts:
      if (json.is_number()) return std::vector<int64_t>{integer_from(def, json)};
      return list_from<int64_t>(def, json, "a list of integers", integer_from);
    case AttrKind::kText:
      if (!json.is_string()) refuse(def, json, "a text");
      return json.get<std::string>();
    case AttrKind::kReals:
      return list_from<double>(def, json, "a list of numbers", number_from);
    default:
      refuse(def, json, "left out: it cannot be written as JSON");
  }
}

class Operands {
 public:
  Operands(const Op& op, const OpRun& run, const io::NamedTensors& tensors)
      : run_(run), tensors_(tensors) {
    for (const OperandDef& def : op.def().operands) {
      if (def.variadic)
        add_list(def);
      else
        add_one(op, def);
    }
    refuse_others();
  }

  std::vector<Tensor> values;
  std::vector<std::string> names;

  Tensor cotangent(const std::string& result) const { return find("ct/" + result); }

  // A misspelt cotangent must not count as absent.
  void refuse_other_cotangents(const std::vector<std::string>& results) const {
    for (auto at = tensors_.lower_bound(run_.prefix + "ct/");
         at != tensors_.end() && at->first.starts_with(run_.prefix + "ct/"); ++at) {
      const std::string name = at->first.substr(run_.prefix.size() + 3);
      ETUDE_REQUIRE(std::ranges::find(results, name) != results.end(),
                    "{}: there is no result for the cotangent 'ct/{}'. Results are: {}", run_.op,
                    name, fmt::join(results, ", "));
    }
  }

 private:
  Tensor find(const std::string& name) const {
    const auto found = tensors_.find(run_.prefix + name);
    return found == tensors_.end() ? Tensor() : found->second;
  }

  void add_one(const Op& op, const OperandDef& def) {
    const std::string name(def.name);
    Tensor x = find(name);
    ETUDE_REQUIRE(x.has_value() || def.optional,
                  "{}: operand '{}' is missing: there is no tensor '{}{}'", op.name(), name,
                  run_.prefix, name);
    names.push_back(name);
    values.push_back(std::move(x));
  }

  void add_list(const OperandDef& def) {
    for (int i = 0;; ++i) {
      const std::string name = fmt::format("{}/{}", def.name, i);
      Tensor x = find(name);
      if (!x.has_value()) return;
      names.push_back(name);
      values.push_back(std::move(x));
    }
  }

  // A misspelt operand must not count as absent.
  void refuse_others() const {
    const std::set<std::string> known(names.begin(), names.end());
    for (auto at = tensors_.lower_bound(run_.prefix);
         at != tensors_.end() && at->first.starts_with(run_.prefix); ++at) {
      const std::string name = at->first.substr(run_.prefix.size());
      ETUDE_REQUIRE(known.contains(name) || name.starts_with("ct/"),
                    "{}: there is no operand '{}'. There are: {}", run_.op, name,
                    fmt::join(names, ", "));
    }
  }

  const OpRun& run_;
  const io::NamedTensors& tensors_;
};

std::vector<std::string> result_names(const Op& op, std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    std::string_view text = op.def().results[std::min(i, op.def().results.size() - 1)];
    const bool list = text.ends_with("...");
    if (list) text.remove_suffix(3);
    out.push_back(list ? fmt::format("{}/{}", text, i + 1 - op.def().results.size())
                       : std::string(text));
  }
  return out;
}

void add_gradients(Tape& tape, const Values& y, const std::vector<std::string>& names,
                   const Operands& operands, io::NamedTensors& out) {
  std::vector<Tensor> seeds;
  for (std::size_t i = 0; i < y.size(); ++i) seeds.push_back(operands.cotangent(names[i]));
  for (std::size_t i = 0; i < y.size(); ++i) {
    ETUDE_REQUIRE(!seeds[i].has_value() || seeds[i].type() == y[i].type(),
                  "cotangent 'ct/{}' is {}, but the result is {}", names[i],
                  seeds[i].type()->to_string(), y[i].type()->to_string());
  }
  const std::vector<Tensor> found = tape.gradient({y.data(), y.size()}, operands.values, seeds);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].has_value()) out.emplace("grad/" + operands.names[i], to_dense(found[i]));
  }
}

}  // namespace

Json parse_json(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const Json::parser_callback_t check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    ETUDE_REQUIRE(depth <= kMaxDepth, "the JSON is nested deeper than {}", kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = parsed.get<std::string>();
      ETUDE_REQUIRE(keys.back().insert(key).second, "the JSON has the key '{}' twice", key);
    }
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& error) {
    // The text is "[json.exception.parse_error.101] parse error at line 1, ...".
    const std::string_view text_of_parser = error.what();
    const std::size_t tag = text_of_parser.find("] ");
    ETUDE_THROW(kInvalidArgument, "this is no JSON: {}",
                text_of_parser.substr(tag == std::string_view::npos ? 0 : tag + 2));
  }
}

namespace {

std::vector<std::pair<std::string_view, AttrValue>> values_from_json(const Op& op,
                                                                     const Json& json) {
  ETUDE_REQUIRE(json.is_object(), "attributes are an object like {{\"axis\": [0]}}");
  std::vector<std::pair<std::string_view, AttrValue>> values;
  for (const auto& [key, value] : json.items()) {
    const auto& defs = op.def().attrs;
    const auto def = std::find_if(defs.begin(), defs.end(),
                                  [&, &k = key](const AttrDef& d) { return d.name == k; });
    ETUDE_REQUIRE(def != defs.end(), "there is no attribute '{}'. See `etude ops show {}`", key,
                  op.name());
    if (!value.is_null()) values.emplace_back(def->name, attr_from(*def, value));
  }
  return values;
}

}  // namespace

Attrs attrs_from_json(const Op& op, const Json& json) {
  try {
    return op.attrs_by_name(values_from_json(op, json));
  } catch (Error& error) {
    error.name_op(op.name());
    throw;
  }
}

io::NamedTensors run_op(const OpRun& run, const io::NamedTensors& tensors) {
  const Op& op = Registry::global().at(run.op);
  const Attrs attrs = attrs_from_json(op, run.attrs);
  const Operands operands(op, run, tensors);
  Tape tape;
  std::optional<TapeContext> context;
  if (run.gradient) {
    context.emplace(tape);
    for (const Tensor& x : operands.values) {
      if (x.has_value() && is_differentiable(x.dtype())) tape.watch(x);
    }
  }
  const OperandList list{std::span<const Tensor>(operands.values)};
  const Values y = execute(op, list.view(), attrs, {});
  context.reset();
  const std::vector<std::string> names = result_names(op, y.size());
  operands.refuse_other_cotangents(names);
  io::NamedTensors out;
  for (std::size_t i = 0; i < y.size(); ++i) out.emplace(names[i], to_dense(y[i]));
  if (run.gradient) add_gradients(tape, y, names, operands, out);
  return out;
}

}  // namespace etude::tools
