// SPDX-License-Identifier: Apache-2.0
// DTypes: names, sizes, limits, promotion against the table of the Array API standard, conversion.
#include "etude/core/dtype.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "etude/core/dtype_functions.h"
#include "etude/core/internal/convert.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

std::vector<DType> all_dtypes() {
  std::vector<DType> out;
  for (int d = 0; d < kDTypeCount; ++d) out.push_back(static_cast<DType>(d));
  return out;
}

TEST(DType, NamesAreReadBack) {
  for (const DType d : all_dtypes()) EXPECT_EQ(dtype_named(name(d)), d);
  for (const char* text : {"", "float", "Float32", "float32 ", "int", "float128"}) {
    EXPECT_EQ(dtype_named(text), std::nullopt) << text;
  }
}

TEST(DType, SizesAndElementTypesAgree) {
  for (const DType d : all_dtypes()) {
    visit_dtype(d, [&]<class T>() {
      EXPECT_EQ(dtype_of<T>, d);
      EXPECT_EQ(itemsize(d), static_cast<int64_t>(sizeof(T))) << name(d);
    });
  }
}

TEST(DType, EachIsOfOneKind) {
  for (const DType d : all_dtypes()) {
    const int kinds = int{d == kBool} + int{kSignedIntegers.contains(d)} +
                      int{kUnsignedIntegers.contains(d)} + int{is_floating(d)} + int{is_complex(d)};
    EXPECT_EQ(kinds, 1) << name(d);
    EXPECT_EQ(isdtype(d, "integral"), is_integer(d));
    EXPECT_EQ(isdtype(d, "numeric"), d != kBool);
    EXPECT_EQ(isdtype(d, "real floating") || isdtype(d, "complex floating"), is_differentiable(d));
  }
  tests::expect_error([] { isdtype(kBool, "number"); }, ErrorCode::kInvalidArgument,
                      {"\"number\"", "complex floating"});
}

// The standard: within a kind the wider dtype; a signed and an unsigned integer promote to the next
// signed dtype that holds both; floating and complex promote together; other kinds do not mix.
std::optional<DType> promoted_by_the_standard(DType a, DType b) {
  if (a == b) return a;
  const auto wider = [](DType x, DType y) { return itemsize(x) >= itemsize(y) ? x : y; };
  if (is_integer(a) && is_integer(b)) {
    if (kSignedIntegers.contains(a) == kSignedIntegers.contains(b)) return wider(a, b);
    const DType s = kSignedIntegers.contains(a) ? a : b, u = s == a ? b : a;
    if (itemsize(s) > itemsize(u)) return s;
    if (itemsize(u) == 8) return std::nullopt;  // mixed kinds by the standard: int64 and uint64
    constexpr DType kNext[] = {kInt16, kInt32, kInt64};
    return kNext[itemsize(u) == 1 ? 0 : itemsize(u) == 2 ? 1 : 2];
  }
  if (!is_differentiable(a) || !is_differentiable(b)) return std::nullopt;
  const bool halves = itemsize(a) == 2 && itemsize(b) == 2;
  const DType real = halves ? kFloat32 : wider(real_dtype(a), real_dtype(b));
  if (!is_complex(a) && !is_complex(b)) return real;
  return real == kFloat64 ? kComplex128 : kComplex64;
}

TEST(DType, PromotesByTheStandard) {
  for (const DType a : all_dtypes()) {
    for (const DType b : all_dtypes()) {
      const auto got = promote(a, b), want = promoted_by_the_standard(a, b);
      EXPECT_EQ(got, want) << name(a) << " and " << name(b) << " give "
                           << (got ? name(*got) : "nothing") << ", want "
                           << (want ? name(*want) : "nothing");
      EXPECT_EQ(got, promote(b, a));
      EXPECT_EQ(can_cast(a, b), got == b);
      if (got) {
        EXPECT_EQ(result_type(a, b, *got), *got);
      }
    }
  }
  tests::expect_error([] { result_type(kInt64, kUInt64); }, ErrorCode::kInvalidArgument,
                      {"int64", "uint64", "astype"});
}

template <class T>
void expect_limits() {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::is_integer) {
    const IInfo info = iinfo(dtype_of<T>);
    EXPECT_EQ(info.bits, 8 * static_cast<int>(sizeof(T)));
    EXPECT_EQ(info.max, static_cast<uint64_t>(Limits::max()));
    EXPECT_EQ(info.min, static_cast<int64_t>(Limits::min()));
  } else {
    const FInfo info = finfo(dtype_of<T>);
    EXPECT_EQ(info.max, Limits::max());
    EXPECT_EQ(info.min, Limits::lowest());
    EXPECT_EQ(info.eps, Limits::epsilon());
    EXPECT_EQ(info.smallest_normal, Limits::min());
  }
}

TEST(DType, Limits) {
  expect_limits<int8_t>();
  expect_limits<int16_t>();
  expect_limits<int32_t>();
  expect_limits<int64_t>();
  expect_limits<uint8_t>();
  expect_limits<uint16_t>();
  expect_limits<uint32_t>();
  expect_limits<uint64_t>();
  expect_limits<float>();
  expect_limits<double>();
  EXPECT_EQ(finfo(kFloat16).max, 65504);
  EXPECT_EQ(finfo(kBFloat16).eps, 0x1p-7);
  EXPECT_EQ(finfo(kComplex64).dtype, kFloat32);
  tests::expect_error([] { finfo(kInt8); }, ErrorCode::kInvalidArgument, {"int8", "iinfo"});
  tests::expect_error([] { iinfo(kFloat16); }, ErrorCode::kInvalidArgument, {"float16", "finfo"});
}

// ---- conversion of elements

template <class To, class From>
To converted(From value) {
  To out;
  internal::convert_elements(&out, dtype_of<To>, &value, dtype_of<From>, 1);
  return out;
}

// Floats are truncated towards zero and saturate at the limits.
template <class To>
void expect_floats_saturate() {
  using Limits = std::numeric_limits<To>;
  for (const double x :
       {0.0, -0.0, 0.9, -0.9, 1.5,  -1.5, 100.7, 127.9, 128.0, -128.9, 255.5,       256.0,
        1e5, -1e5, 3e9, -3e9, 1e18, 1e19, 2e19,  -1e19, 1e300, -1e300, double{inf}, -double{inf}}) {
    const long double cut = std::trunc(static_cast<long double>(x));
    const To want = cut <= static_cast<long double>(Limits::min())   ? Limits::min()
                    : cut >= static_cast<long double>(Limits::max()) ? Limits::max()
                                                                     : static_cast<To>(cut);
    EXPECT_EQ(converted<To>(x), want) << x << " to " << name(dtype_of<To>);
  }
  EXPECT_EQ(converted<To>(double{nan}), To{0});
}

TEST(Convert, FloatsToIntegersAreCutAndHeld) {
  expect_floats_saturate<int8_t>();
  expect_floats_saturate<int16_t>();
  expect_floats_saturate<int32_t>();
  expect_floats_saturate<int64_t>();
  expect_floats_saturate<uint8_t>();
  expect_floats_saturate<uint16_t>();
  expect_floats_saturate<uint32_t>();
  expect_floats_saturate<uint64_t>();
}

TEST(Convert, IntegersWrap) {
  EXPECT_EQ(converted<uint8_t>(int32_t{-1}), 255);
  EXPECT_EQ(converted<int8_t>(int64_t{200}), -56);
  EXPECT_EQ(converted<uint64_t>(int8_t{-1}), ~uint64_t{0});
}

TEST(Convert, AnythingThatIsNotZeroIsTrue) {
  EXPECT_TRUE(converted<bool>(double{nan}));
  EXPECT_TRUE(converted<bool>(1e-300));
  EXPECT_FALSE(converted<bool>(-0.0));
  EXPECT_TRUE(converted<bool>(std::complex<float>(0, 1)));
  EXPECT_TRUE(converted<bool>(Float16(0.5F)));
  EXPECT_EQ(converted<double>(true), 1.0);
}

TEST(Convert, ComplexToRealKeepsTheRealPart) {
  EXPECT_EQ(converted<float>(std::complex<double>(2.5, 7)), 2.5F);
  EXPECT_EQ(converted<int16_t>(std::complex<float>(-2.5F, 7)), -2);
  EXPECT_EQ(converted<std::complex<double>>(3), std::complex<double>(3, 0));
}

// Conversion to a dtype that holds all values of another, and back, returns the same values.
TEST(Convert, ThereAndBack) {
  for (const DType from : all_dtypes()) {
    for (const DType to : all_dtypes()) {
      if (promote(from, to) != to) continue;
      const auto bytes = static_cast<std::size_t>(itemsize(from));
      std::vector<unsigned char> in(64 * bytes), out(in.size()),
          wide(64 * static_cast<std::size_t>(itemsize(to)));
      const std::vector<double> values = {0, 1, -1, 2, -2, 0.5, 100, -100, 127};
      std::vector<double> numbers(64);
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = values[i % values.size()];
      internal::convert_elements(in.data(), from, numbers.data(), kFloat64, 64);
      internal::convert_elements(wide.data(), to, in.data(), from, 64);
      internal::convert_elements(out.data(), from, wide.data(), to, 64);
      EXPECT_EQ(std::memcmp(in.data(), out.data(), in.size()), 0)
          << name(from) << " by " << name(to);
    }
  }
}

}  // namespace
}  // namespace etude
