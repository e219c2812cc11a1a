// SPDX-License-Identifier: Apache-2.0
#include "etude/saved/structure.h"

#include <cmath>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "etude/base/check.h"

namespace etude::saved::internal {
namespace {

using etude::internal::JsonWriter;
using nlohmann::json;
using Kind = Form::Kind;

template <class T>
std::optional<T> value_as(const Described& value) {
  try {
    return value.get<T>();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

Parts nothing() { return Parts::without_values(Form::leaf(LeafKind::kHost)->tangent()); }

Parts empty_leaf(const FormLeaf& leaf) {
  return Parts::without_values(Form::leaf(leaf.kind, leaf.is_marked, leaf.is_frozen));
}

bool is_storable(const Described& value) {
  return value_as<bool>(value) || value_as<int64_t>(value) || value_as<uint64_t>(value) ||
         value_as<double>(value) || value_as<std::string>(value);
}

void write_host(JsonWriter& out, const Described& value) {
  if (const auto x = value_as<bool>(value)) return out.value(*x);
  if (const auto x = value_as<int64_t>(value)) return out.value(*x);
  if (const auto x = value_as<uint64_t>(value)) return out.value(*x);
  if (const auto x = value_as<std::string>(value)) return out.value(*x);
  const auto real = value_as<double>(value);
  ETUDE_CHECK(real, "a host value of type {} has no JSON", value.type_name());
  // JSON has neither infinities nor NaN, and its text of a float is not exact in all readers.
  out.object([&] { out.member("float", fmt::format("{:a}", *real)); });
}

Described described_of(const json& value) {
  if (value.is_boolean()) return Described(value.get<bool>());
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    return Described(value.get<uint64_t>());
  }
  if (value.is_number_integer()) return Described(value.get<int64_t>());
  if (value.is_string()) return Described(value.get<std::string>());
  const bool is_real = value.is_object() && value.size() == 1 && value.contains("float") &&
                       value["float"].is_string();
  ETUDE_REQUIRE_CODE(kDataLoss, is_real, "a host value is neither a number nor a text");
  const auto& text = value["float"].get_ref<const std::string&>();
  char* end = nullptr;
  const double real = std::strtod(text.c_str(), &end);
  ETUDE_REQUIRE_CODE(kDataLoss, !text.empty() && *end == '\0', "'{:.40}' is no number", text);
  return Described(real);
}

Tensor tensor_of(const Parts& parts, std::size_t leaf) {
  return Parts::at(parts, parts.leaf(leaf), [](const auto& value) -> Tensor {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, Tensor>) {
      return value;
    } else if constexpr (std::is_same_v<T, LayerState<Tensor>>) {
      return value.value;
    } else if constexpr (std::is_same_v<T, NewState<Tensor>>) {
      return value.value ? *value.value : Tensor();
    } else {
      return Tensor();
    }
  });
}

void set_tensor(Parts& parts, std::size_t leaf, Tensor given) {
  Parts::at(parts, parts.leaf(leaf), [&](auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, Tensor>) {
      value = std::move(given);
    } else if constexpr (std::is_same_v<T, LayerState<Tensor>>) {
      value.value = std::move(given);
    } else if constexpr (std::is_same_v<T, NewState<Tensor>>) {
      value.value = std::move(given);
    } else {
      ETUDE_CHECK(false, "this leaf holds no tensor");
    }
  });
}

namespace {

// Both directions recurse as deep as the form, which count_json() or the types of the program
// bound.
class Rebuilder {
 public:
  explicit Rebuilder(const MakeLeaf& leaf) : leaf_(leaf) {}

  std::optional<Parts> build(const Form& form) {
    switch (form.kind()) {
      case Kind::kLeaf:
        return leaf_(next_++);
      case Kind::kNothing:
        return nothing();
      case Kind::kFields:
      case Kind::kMap: {
        std::vector<Named> parts;
        for (std::size_t i = 0; i < form.parts().size(); ++i) {
          std::optional<Parts> part = build(*form.parts()[i]);
          if (part) parts.emplace_back(form.names()[i], std::move(*part));
        }
        return form.kind() == Kind::kMap ? Parts::map(std::move(parts))
                                         : Parts::fields(std::move(parts));
      }
      case Kind::kList: {
        std::vector<Parts> parts;
        for (const Form* each : form.parts()) {
          std::optional<Parts> part = build(*each);
          parts.push_back(part ? std::move(*part) : nothing());
        }
        return Parts::list(std::move(parts));
      }
      case Kind::kOptional:
        return Parts::optional(form.parts().empty() ? std::nullopt : build(*form.parts()[0]));
      case Kind::kVariant: {
        std::optional<Parts> part = build(*form.parts()[0]);
        if (!part) return std::nullopt;
        return Parts::alternative(std::stoul(form.names()[0]), std::move(*part));
      }
    }
    return std::nullopt;
  }

 private:
  const MakeLeaf& leaf_;
  std::size_t next_ = 0;
};

// The structure as an object with one member, whose key is the kind of the form.
class FormWriter {
 public:
  FormWriter(JsonWriter& out, WriteLeaf leaf) : out_(out), leaf_(leaf) {}

  void write(const Form& form) {
    switch (form.kind()) {
      case Kind::kLeaf:
        return kind("leaf", [&] { leaf_(next_++); });
      case Kind::kNothing:
        return kind("nothing", [&] { out_.value(true); });
      case Kind::kFields:
        return kind("fields", [&] { named(form); });
      case Kind::kMap:
        return kind("map", [&] { named(form); });
      case Kind::kList:
        return kind("list", [&] { list(form); });
      case Kind::kOptional:
        return kind("optional", [&] { list(form); });
      case Kind::kVariant:
        return kind("variant", [&] { named(form); });
    }
  }

 private:
  template <class F>
  void kind(std::string_view key, const F& content) {
    out_.object([&] { out_.member(key, content); });
  }
  void list(const Form& form) {
    out_.list(form.parts(), [&](const Form* part) { write(*part); });
  }
  // Pairs of a name and a part.
  void named(const Form& form) {
    const std::string* name = form.names().data();
    out_.list(form.parts(), [&](const Form* part) {
      out_.pair([&] { out_.value(*name++); }, [&] { write(*part); });
    });
  }

  JsonWriter& out_;
  const WriteLeaf leaf_;
  std::size_t next_ = 0;
};

class PartsOfJson {
 public:
  explicit PartsOfJson(const LeafOfJson& leaf) : leaf_(leaf) {}

  Parts read(const json& from) const {
    ETUDE_REQUIRE_CODE(kDataLoss, from.is_object() && from.size() == 1,
                       "a structure is no object with one key");
    const std::string key = from.begin().key();
    const json& value = from.begin().value();
    if (key == "leaf") return leaf_(value);
    if (key == "nothing") return nothing();
    require(value.is_array(), key);
    if (key == "fields") return Parts::fields(named(value));
    if (key == "map") return Parts::map(named(value));
    if (key == "list" || key == "optional") {
      std::vector<Parts> parts;
      for (const json& part : value) parts.push_back(read(part));
      if (key == "list") return Parts::list(std::move(parts));
      require(parts.size() <= 1, key);
      return Parts::optional(parts.empty() ? std::nullopt : std::optional(std::move(parts[0])));
    }
    require(key == "variant", key);
    std::vector<Named> held = named(value);
    require(held.size() == 1 && !held[0].name.empty() && held[0].name.size() < 10 &&
                held[0].name.find_first_not_of("0123456789") == std::string::npos,
            key);
    return Parts::alternative(std::stoul(held[0].name), std::move(held[0].parts));
  }

 private:
  static void require(bool holds, const std::string& key) {
    ETUDE_REQUIRE_CODE(kDataLoss, holds, "a structure '{:.40}' has another form", key);
  }
  std::vector<Named> named(const json& list) const {
    std::vector<Named> out;
    for (const json& entry : list) {
      require(entry.is_array() && entry.size() == 2 && entry[0].is_string(), "fields");
      out.emplace_back(entry[0].get<std::string>(), read(entry[1]));
    }
    return out;
  }

  const LeafOfJson& leaf_;
};

}  // namespace

std::optional<Parts> rebuilt(const Parts& parts, const MakeLeaf& leaf) {
  return Rebuilder(leaf).build(*parts.form());
}

void write_form(JsonWriter& out, const Form& form, WriteLeaf leaf) {
  FormWriter(out, leaf).write(form);
}

Parts parts_of_json(const json& from, const LeafOfJson& leaf) {
  return PartsOfJson(leaf).read(from);
}

}  // namespace etude::saved::internal
