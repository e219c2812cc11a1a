// SPDX-License-Identifier: Apache-2.0
#include "etude/base/fields.h"

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace etude::internal {
namespace {

struct Empty {};

struct Dense {
  std::vector<double> weight;
  double bias;
  bool flag;
};

struct Nested {
  Dense dense;
  std::array<Dense, 2> pair;
  std::optional<Dense> maybe;
  Empty empty;
};

struct NoDefault {
  explicit NoDefault(int first, int second) : sum(first + second) {}
  int sum;
};

struct Hard {
  NoDefault first;
  std::optional<std::any> any;
  std::variant<int, std::string> variant;
  std::function<int(int)> function;
  std::unique_ptr<int> pointer;
  std::map<std::string, Hard> map;
  std::vector<Hard> children;
  std::string_view view;
  std::span<int> span;
  std::tuple<int, std::string> tuple;
  NoDefault last;
};

struct Base {
  int a;
};
struct Derived : Base {
  int b;
};
struct DerivedEmpty : Empty {
  int b;
};
struct SmallArray {
  int a;
  float values[3];
  int b;
};
struct ObjectArray {
  NoDefault values[2];
};
struct BigArray {
  int a;
  float values[2000];
};
struct Holder {
  SmallArray inner;  // an error only when it is visited itself
  Base base;
};

struct Fields64 {
  int a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20,
      a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39,
      a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, a58,
      a59, a60, a61, a62, a63;
};
struct Fields66 {
  Base b;
  int a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20,
      a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39,
      a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, a58,
      a59, a60, a61, a62, a63, a64;
};

class Listed {
 public:
  explicit Listed(double scale) : scale_(scale) {}
  const std::vector<int>& sizes() const { return sizes_; }

 private:
  double scale_;
  std::vector<int> sizes_;
  int hidden_ = 7;
  ETUDE_FIELDS(Listed, scale_, sizes_);

 public:
  int hidden() const { return hidden_; }
};

struct ListedDerived : Base {
  int b;
  ETUDE_FIELDS(ListedDerived, a, b);
};
template <class T>
struct TemplateBase {
  T a;
};
template <class T>
struct ListedTemplate : TemplateBase<T> {
  T b;
  ETUDE_FIELDS(ListedTemplate, a, b);
};
struct ListedNone {
  int ignored;
  ETUDE_FIELDS(ListedNone);
};
struct Unlisted : ListedDerived {};

static_assert(field_count<Empty>() == 0);
static_assert(field_count<Dense>() == 3 && field_count<const Dense>() == 3);
static_assert(field_count<Nested>() == 4);
static_assert(field_count<Hard>() == 11);
static_assert(field_count<Holder>() == 2);
static_assert(field_count<Fields64>() == 64);
static_assert(field_count<Listed>() == 2);
static_assert(field_count<ListedDerived>() == 2);
static_assert(field_count<ListedTemplate<double>>() == 2);
static_assert(field_name<ListedTemplate<double>, 0> == "a");
static_assert(field_count<ListedNone>() == 0);

static_assert(field_name<Dense, 0> == "weight" && field_name<Dense, 1> == "bias");
static_assert(field_name<const Dense, 2> == "flag");
static_assert(field_name<Nested, 0> == "dense" && field_name<Nested, 1> == "pair");
static_assert(field_name<Nested, 2> == "maybe" && field_name<Nested, 3> == "empty");
static_assert(field_name<Hard, 0> == "first" && field_name<Hard, 10> == "last");
static_assert(field_name<Fields64, 63> == "a63");
static_assert(field_name<Listed, 0> == "scale" && field_name<Listed, 1> == "sizes");
static_assert(field_name<ListedDerived, 1> == "b");

// The conditions of the messages. tests/compile_fail checks that the messages appear.
static_assert(has_base<Derived>() && has_base<DerivedEmpty>());
static_assert(!has_base<Empty>() && !has_base<Hard>() && !has_base<Nested>());
static_assert(has_c_array<SmallArray, count_values<SmallArray>()>());
static_assert(has_c_array<ObjectArray, count_values<ObjectArray>()>());
static_assert(has_c_array<BigArray, count_values<BigArray>()>());
// A C array is one field, whether its elements are counted or the braces that make it.
struct NamedArrays {
  std::string name;
  double grid[2][3];
  char tag[8];
};
static_assert(field_count<SmallArray>() == 3 && field_count<BigArray>() == 2);
static_assert(field_count<NamedArrays>() == 3 && field_name<NamedArrays, 2> == "tag");
static_assert(std::is_same_v<decltype(fields(std::declval<NamedArrays&>())),
                             std::tuple<std::string&, double (&)[2][3], char (&)[8]>>);
static_assert(!has_c_array<Hard, count_values<Hard>()>());
static_assert(!has_c_array<Nested, count_values<Nested>()>());
static_assert(!has_c_array<Fields66, count_values<Fields66>()>());
static_assert(count_values<Fields66>() > kMaxFields);
static_assert(!Reflectable<Unlisted> || has_base<Unlisted>());
// Why fields cannot be read is asked without a message.
struct View {
  double& value;
  double scale;
};
struct Pinned {
  int id;
  std::mutex lock;
};
static_assert(kFieldsFault<View> == FieldsFault::kReference);
static_assert(kFieldsFault<Derived> == FieldsFault::kBase);
static_assert(kFieldsFault<Fields66> == FieldsFault::kTooMany);
static_assert(kFieldsFault<Pinned> == FieldsFault::kImmovable);
static_assert(kFieldsFault<NoDefault> == FieldsFault::kClass);
static_assert(kFieldsFault<Dense> == FieldsFault::kNone);
static_assert(kFieldsFault<const Dense> == FieldsFault::kNone);
static_assert(kFieldsFault<Listed> == FieldsFault::kNone);
static_assert(Reflectable<Dense> && Reflectable<Listed> && !Reflectable<NoDefault>);
static_assert(!Reflectable<int> && !Reflectable<std::string> && !Reflectable<std::vector<int>>);

TEST(Fields, AreReferencesInOrder) {
  Dense dense{{1, 2}, 3, true};
  auto bound = fields(dense);
  static_assert(std::is_same_v<decltype(bound), std::tuple<std::vector<double>&, double&, bool&>>);
  EXPECT_EQ(&std::get<0>(bound), &dense.weight);
  std::get<1>(bound) = 4;
  EXPECT_EQ(dense.bias, 4);
}

TEST(Fields, KeepConst) {
  const Dense dense{{1, 2}, 3, true};
  auto bound = fields(dense);
  static_assert(std::is_same_v<std::tuple_element_t<1, decltype(bound)>, const double&>);
  EXPECT_EQ(&std::get<2>(bound), &dense.flag);
}

TEST(Fields, WorkInConstantExpressions) {
  constexpr int kSum = [] {
    Base base{5};
    std::get<0>(fields(base)) += 2;
    return base.a;
  }();
  static_assert(kSum == 7);
}

TEST(Fields, ReachTheLast) {
  Fields64 many{};
  std::get<63>(fields(many)) = 9;
  EXPECT_EQ(many.a63, 9);
}

TEST(Fields, ListedFieldsMayBePrivate) {
  Listed listed(2.5);
  EXPECT_EQ(std::get<0>(fields(listed)), 2.5);
  std::get<1>(fields(listed)).push_back(8);
  EXPECT_EQ(listed.sizes(), std::vector<int>{8});
  EXPECT_EQ(listed.hidden(), 7);
  const Listed& view = listed;
  static_assert(
      std::is_same_v<decltype(fields(view)), std::tuple<const double&, const std::vector<int>&>>);
}

TEST(Fields, ListedFieldsMayBeInABase) {
  ListedDerived derived{{1}, 2};
  EXPECT_EQ(&std::get<0>(fields(derived)), &derived.a);
  EXPECT_EQ(&std::get<1>(fields(derived)), &derived.b);
}

}  // namespace
}  // namespace etude::internal
