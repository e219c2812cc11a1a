// SPDX-License-Identifier: Apache-2.0
// Messages name the arguments of the caller: its own operands if an op runs others, the element of
// a list, the op of an attribute, sizes as they were written.
#include <cmath>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/autodiff/batch.h"
#include "etude/autodiff/gradient.h"
#include "etude/core/call/builtin.h"
#include "etude/core/op/registry.h"
#include "etude/ops.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

using tests::expect_error;

constexpr ErrorCode kWrong = ErrorCode::kInvalidArgument;

// spec: IM-12.a
TEST(Messages, OfOpsThatRunOthersTellTheirOwnOperands) {
  const Tensor a = zeros({2, 3}), b = zeros({4, 3});
  const std::vector<std::string_view> similar = {
      "cosine_similarity: operand 'x' is float32[2,3] and operand 'y' is float32[4,3]; in its call "
      "of multiply: ",
      "sizes 2 and 4", "messages_test.cc"};
  expect_error([&] { cosine_similarity(a, b); }, kWrong, similar);
  // Also where types are inferred, under a tape and in a batch.
  expect_error([&] { gradient([&](const Tensor& x) { return sum(cosine_similarity(x, b)); }, a); },
               kWrong, similar);
  expect_error(
      [&] {
        vmap([&](const Tensor& x) { return cosine_similarity(x, b); })(zeros({5, 2, 3}));
      },
      kWrong, similar);
  // An op within an op within an op: the outermost operands, and the fault.
  expect_error([&] { allclose(a, b); }, kWrong,
               {"allclose: operand 'x1' is float32[2,3] and operand 'x2' is float32[4,3]: "});
  // Ops without a public function are not named.
  expect_error(
      [&] {
        gather_nd(a, Tensor({{0, 9}}));
      },
      ErrorCode::kOutOfRange,
      {"gather_nd: operand 'x' is float32[2,3] and operand 'indices' is int32[1,2]: index 9 "
       "is out of range for axis 1 of size 3"});
  expect_error([&] { broadcast_arrays({a, b, a}); }, kWrong, {"[2,3] and [4,3] do not broadcast"});
}

// Every composition, with operands that do not fit: an operand in the message belongs to the op, or
// is named as an operand of an inner call.
TEST(Messages, OfEveryCompositionNameItsOperands) {
  int seen = 0;
  for (const Op* op : Registry::global().ops()) {
    const OpDef& def = op->def();
    if (def.lower == nullptr || def.samples.calls.empty() || def.operands.empty()) continue;
    std::set<std::string> own;
    for (const OperandDef& operand : def.operands) own.insert(std::string(operand.name));
    for (const AttrDef& attr : def.attrs) own.insert(std::string(attr.name));
    const Sample& sample = def.samples.calls[0];
    for (std::size_t changed = 0; changed < sample.operands.size(); ++changed) {
      std::vector<Tensor> in;
      for (std::size_t i = 0; i < sample.operands.size(); ++i) {
        const bool absent = sample.operands[i] == "-";
        const Type* type = absent ? nullptr : parse_type(sample.operands[i], kFloat32);
        if (!absent && i == changed) {
          Shape shape = type->shape();
          for (int a = 0; a < shape.rank(); ++a) shape.set(a, shape[a] + 7);
          type = intern_type(type->dtype(), shape);
        }
        in.push_back(absent ? Tensor() : internal::full(type, 0));
      }
      try {
        const OperandList list{std::span<const Tensor>(in)};
        execute(*op, list.view(), op->attrs_by_name(sample.attrs), CallSite::here());
      } catch (const Error& error) {
        ++seen;
        const std::string text = error.what(),
                          front = text.substr(0, text.find("; in its call of"));
        EXPECT_TRUE(text.starts_with(std::string(op->name()) + ": ")) << text;
        const std::regex named("(?:operands?|and) '([^']*)'");
        for (std::sregex_iterator at(front.begin(), front.end(), named), end; at != end; ++at) {
          EXPECT_TRUE(own.contains((*at)[1])) << text;
        }
      }
    }
  }
  EXPECT_GT(seen, 20);
}

// spec: IM-12.a
TEST(Messages, OfListsSayWhichElement) {
  const Tensor a = zeros({2, 3});
  ambient().promotion = Promotion::kStrict;
  expect_error(
      [&] {
        stack({a, a, a, astype(a, kInt64)});
      },
      kWrong,
      {"stack: element 3 of 'xs' is int64 and element 0 of 'xs' is float32",
       "astype(xs[3], float32)"});
  ambient().promotion = Promotion::kKinds;
  expect_error([&] { concat({a, a, Tensor()}); }, kWrong, {"concat: element 2 of 'xs' is absent"});
  expect_error(
      [&] {
        einsum("ij,j->i", {astype(a, kBool), astype(ones({3}), kBool)});
      },
      kWrong, {"element 0 of 'xs' is bool"});
  expect_error([&] { where(a, a, a); }, kWrong, {"where: operand 'condition' is float32"});
}

// spec: IM-12.a
TEST(Messages, OfSizesShowThemAsTheyWereGiven) {
  expect_error([] { zeros({-1}); }, kWrong, {"zeros: shape [-1] has a negative size"});
  expect_error([] { zeros({2, -5}); }, kWrong, {"zeros: shape [2,-5] has a negative size"});
  expect_error([] { full({3, -1}, 1); }, kWrong, {"full: shape [3,-1] has a negative size"});
  expect_error([] { broadcast_to(Tensor(1), {-1, 3}); }, kWrong, {"shape [-1,3] has a negative"});
  expect_error([] { reshape(zeros({6}), {-1, 4}); }, kWrong, {"cannot view 6 elements as [-1,4]"});
  expect_error(
      [] {
        Tensor(std::vector<float>{1, 2}, Shape{-1});
      },
      kWrong, {"tensor: shape [-1] has a negative size"});
  expect_error(
      [] {
        tensor(std::vector<float>{1, 2}, {-1});
      },
      kWrong, {"tensor: shape [-1] has a negative size"});
}

// spec: IM-12.a
TEST(Messages, OfAttributesNameTheOp) {
  const Op& op = Registry::global().at("sum");
  expect_error(
      [&] {
        op.attrs_by_name({{"axes", int64_t{1}}});
      },
      kWrong, {"sum: there is no attribute 'axes'"});
  expect_error(
      [&] {
        op.attrs_by_name({{"keepdims", 0.5}});
      },
      kWrong, {"sum: attribute 'keepdims' cannot be 0.5"});
  expect_error([&] { Registry::global().at("reshape").attrs_by_name({}); }, kWrong,
               {"reshape: attribute 'shape' is missing"});
}

TEST(Messages, OfImpossibleRequestsSayThatTheyAre) {
  try {
    zeros({1 << 24, 1 << 24});  // 1 PiB
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
    EXPECT_TRUE(text.starts_with("zeros: 1.0 PiB were requested, but the system has ")) << text;
    EXPECT_NE(text.find(" in all. Use smaller sizes"), text.npos) << text;
    EXPECT_EQ(text.find("ree values"), text.npos) << text;
  }
}

// spec: IM-14.a
TEST(Messages, OfNanShowNoSign) {
  for (const double sign : {1.0, -1.0}) {
    const double nan = std::copysign(std::nan(""), sign);
    const Tensor x(std::vector<double>{nan, -2});
    EXPECT_EQ(x.to_string(), "Tensor([nan, -2.], shape=[2], dtype=float64, device=cpu:0)");
    EXPECT_NE(astype(x, kFloat16).to_string().find("[nan, -2.]"), std::string::npos);
    const Tensor z(std::vector<std::complex<double>>{{nan, nan}, {1, -2}});
    EXPECT_NE(z.to_string().find("[nan+nanj, 1-2j]"), std::string::npos) << z.to_string();
  }
}

}  // namespace
}  // namespace etude
