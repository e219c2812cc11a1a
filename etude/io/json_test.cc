// SPDX-License-Identifier: Apache-2.0
#include "etude/io/json.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "etude/core/dtype.h"
#include "etude/ops.h"
#include "etude/ops/random.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"

namespace etude::io {
namespace {

using etude::tests::error_of;

// spec: T3.a, K2.a
TEST(Json, EveryDTypeKeepsItsBits) {
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    visit_dtype(dtype, [&]<class T>() {
      for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{0, 4}}) {
        std::vector<T> values;
        for (int i = 0; i < shape.count(); ++i) values.push_back(T(static_cast<float>(i % 2)));
        const Tensor x(values, shape);
        EXPECT_TRUE(same_value(from_json(to_json(x)), x)) << to_json(x);
      }
    });
  }
}

// spec: T3.a
TEST(Json, DigitsBringBackTheSameNumber) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x({0.1f, -0.0f, 1e-45f, 3.4028235e38f, inf, -inf, std::nanf("5"), 16777217.0f});
  EXPECT_EQ(to_json(x),
            "{\"dtype\":\"float32\",\"shape\":[8],\"data\":[0.1,-0.0,1e-45,3.4028235e+38,"
            "\"0x7f800000\",\"0xff800000\",\"0x7fc00005\",16777216.0]}");
  EXPECT_TRUE(same_value(from_json(to_json(x)), x));
  const Tensor y(std::vector<double>{0.1, 5e-324, -1.7976931348623157e308, 1.0 / 3});
  EXPECT_TRUE(same_value(from_json(to_json(y)), y));
  const Tensor z(std::vector<int64_t>{INT64_MIN, INT64_MAX});
  EXPECT_TRUE(same_value(from_json(to_json(z)), z));
  const Tensor u(std::vector<uint64_t>{UINT64_MAX});
  EXPECT_TRUE(same_value(from_json(to_json(u)), u));
  Tensor random = random::normal({200});
  EXPECT_TRUE(same_value(from_json(to_json(random)), random));
}

// spec: T3.a
TEST(Json, OtherTextIsAnError) {
  struct Bad {
    const char *text, *message;
  };
  for (const Bad& bad : std::initializer_list<Bad>{
           {"", "this is not JSON: "},
           {"{\"dtype\":", "this is not JSON: {\"dtype\":"},
           {"[1]", "\"dtype\" is missing"},
           {R"({"dtype":"float31","shape":[],"data":[1]})", "\"float31\" is no dtype"},
           {R"({"dtype":1,"shape":[],"data":[1]})", "1 is no dtype"},
           {R"({"dtype":"bool","data":[1]})", "\"shape\" is missing"},
           {R"({"dtype":"bool","shape":[-1],"data":[]})", "-1 is no size"},
           {R"({"dtype":"bool","shape":3,"data":[]})", "\"shape\" is no list"},
           {R"({"dtype":"int8","shape":[2,2],"data":[1,2,3]})",
            "3 elements, which are not those of shape [2,2]"},
           {R"({"dtype":"int8","shape":[1000000000000,1000000000000],"data":[1]})",
            "which are not those of shape"},
           {R"({"dtype":"int8","shape":[1000000000,1000000000],"data":[1]})",
            "which are not those of shape"},
           {R"({"dtype":"int8","shape":[1],"data":[128]})",
            "the element 128 is no integer from -128 to 127"},
           {R"({"dtype":"uint8","shape":[1],"data":[-1]})",
            "the element -1 is no integer from 0 to 255"},
           {R"({"dtype":"int8","shape":[1],"data":[1.5]})", "the element 1.5 is no integer"},
           {R"({"dtype":"bool","shape":[1],"data":[1]})",
            "the element 1 is neither true nor false"},
           {R"({"dtype":"float32","shape":[1],"data":[null]})", "the element null is no number"},
           {R"({"dtype":"float32","shape":[1],"data":["0x7f"]})", "is not \"0x\" and 8 hex digits"},
           {R"({"dtype":"float32","shape":[1],"data":[1e39]})", "1e+39 is too large for its dtype"},
           {R"({"dtype":"float16","shape":[1],"data":[65520]})",
            "65520 is too large for its dtype"},
           {R"({"dtype":"complex64","shape":[1],"data":[1]})", "the element 1 is no pair"}}) {
    const std::string text = error_of(ErrorCode::kDataLoss, [&] { from_json(bad.text); });
    EXPECT_NE(text.find(bad.message), std::string::npos) << bad.text << "\n" << text;
  }
  EXPECT_NE(error_of(ErrorCode::kInvalidArgument, [] { to_json(Tensor()); }).find("is absent"),
            std::string::npos);
}

// spec: T3.c
TEST(Json, DescribesInOneLine) {
  EXPECT_EQ(describe(Tensor({{-1.0f, 4.0f}, {1.0f, 2.0f}})),
            "float32[2,2]: min -1, max 4, mean 1.5, deviation 1.802776, 0 of 4 not finite");
  EXPECT_EQ(describe(Tensor(std::vector<double>{1.0, std::nan("")})),
            "float64[2]: min 1, max 1, mean 1, deviation 0, 1 of 2 not finite");
  EXPECT_EQ(describe(zeros({0, 3})), "float32[0,3]: no finite element of 0");
  EXPECT_NE(error_of(ErrorCode::kInvalidArgument, [] { describe(Tensor()); }).find("is absent"),
            std::string::npos);
}

}  // namespace
}  // namespace etude::io
