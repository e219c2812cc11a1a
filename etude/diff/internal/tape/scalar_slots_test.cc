// SPDX-License-Identifier: Apache-2.0
// Numbers of a derivative that share or own a slot of its tape (slots.h): constants of the active
// type together with kept numbers, copies, moves and compound assignments, in reverse mode.
#include <functional>
#include <utility>

#include "etude/diff/internal/tape/slots.h"
#include "etude/diff/scalar_expect.h"
#include "tests/expect_error.h"

namespace etude {
namespace {

// Each is computed at 2, 3, 4, 5, 6 from y = v0 v1, which is 6 with the slopes 3 and 2.
const Vector at = {2, 3, 4, 5, 6};

// The gradient of f(y, v), in reverse mode. Not a template, which would compile a derivative for
// each case: the test is about Real.
Vector slopes_of(const std::function<Real(Real& y, const Reals& v)>& f) {
  return gradient(
      [&](const Reals& v) {
        Real y = v[0] * v[1];
        return f(y, v);
      },
      at);
}

// The result of make(y) does not change when y is updated in place afterwards, in each way; and y
// does not change when that result is updated.
void expect_apart(const char* what, Real (*make)(Real&), double slope) {
  const Vector want = {3 * slope, 2 * slope, 0, 0, 0}, slopes_of_y = {3, 2, 0, 0, 0};
  void (*const updates[])(Real&, const Reals&) = {
      [](Real& y, const Reals& v) { y += v[2]; },
      [](Real& y, const Reals& v) { y -= v[2]; },
      [](Real& y, const Reals& v) { y *= v[2]; },
      [](Real& y, const Reals& v) { y /= v[2]; },
      [](Real& y, const Reals& v) { y += v[2] * v[3]; },
      [](Real& y, const Reals& v) { y -= v[2] * v[3]; },
      [](Real& y, const Reals&) { y *= 7.0; },
      [](Real& y, const Reals&) { y += y; },
      [](Real& y, const Reals& v) { y = std::move(y) * v[2]; },
      [](Real& y, const Reals& v) { y = v[2] - std::move(y); },
      [](Real& y, const Reals&) { y = -std::move(y); },
      [](Real& y, const Reals&) { y = sin(std::move(y)); }};
  int n = 0;
  for (const auto update : updates) {
    const auto result_stays = [&](Real& y, const Reals& v) {
      Real s = make(y);
      update(y, v);
      return s;
    };
    const auto operand_stays = [&](Real& y, const Reals& v) {
      Real s = make(y);
      update(s, v);
      return y;
    };
    EXPECT_EQ(slopes_of(result_stays), want) << what << ", update " << n;
    EXPECT_EQ(slopes_of(operand_stays), slopes_of_y) << what << ", update of the result " << n;
    ++n;
  }
}

TEST(ScalarSlots, ConstantsThatAreUpdatedByNumbersThatStay) {
  expect_apart(
      "s += y",
      [](Real& y) {
        Real s = 0;
        s += y;
        return s;
      },
      1);
  expect_apart(
      "s -= y",
      [](Real& y) {
        Real s = 0;
        s -= y;
        return s;
      },
      -1);
  expect_apart(
      "s *= y",
      [](Real& y) {
        Real s = 1;
        s *= y;
        return s;
      },
      1);
  expect_apart(
      "s /= y",
      [](Real& y) {
        Real s = 36;
        s /= y;
        return s;
      },
      -1);
}

TEST(ScalarSlots, SumsWithConstantsOfTheActiveType) {
  static const Real one = 1, zero = 0;
  expect_apart(
      "y + Real", [](Real& y) { return y + Real(1); }, 1);
  expect_apart(
      "Real + y", [](Real& y) { return Real(1) + y; }, 1);
  expect_apart(
      "y - Real", [](Real& y) { return y - Real(1); }, 1);
  expect_apart(
      "Real - y", [](Real& y) { return Real(1) - y; }, -1);
  expect_apart(
      "y * Real", [](Real& y) { return y * Real(1); }, 1);
  expect_apart(
      "Real * y", [](Real& y) { return Real(1) * y; }, 1);
  expect_apart(
      "y / Real", [](Real& y) { return y / Real(1); }, 1);
  expect_apart(
      "y + named", [](Real& y) { return y + one; }, 1);
  expect_apart(
      "named + y", [](Real& y) { return zero + y; }, 1);
  expect_apart(
      "y - named", [](Real& y) { return y - one; }, 1);
  expect_apart(
      "y * named", [](Real& y) { return y * one; }, 1);
  expect_apart(
      "fma", [](Real& y) { return fma(one, one, y); }, 1);
  expect_apart(
      "lerp", [](Real& y) { return lerp(y, zero, zero); }, 1);
}

TEST(ScalarSlots, PlainConstantsCopiesAndFunctions) {
  expect_apart(
      "y + 1", [](Real& y) { return y + 1.0; }, 1);
  expect_apart(
      "1 + y", [](Real& y) { return 1 + y; }, 1);
  expect_apart(
      "y - 1", [](Real& y) { return y - 1.0; }, 1);
  expect_apart(
      "1 - y", [](Real& y) { return 1 - y; }, -1);
  expect_apart(
      "2 y", [](Real& y) { return 2.0 * y; }, 2);
  expect_apart(
      "y / 2", [](Real& y) { return y / 2; }, 0.5);
  expect_apart(
      "+y", [](Real& y) { return +y; }, 1);
  expect_apart(
      "-y", [](Real& y) { return -y; }, -1);
  expect_apart(
      "a copy",
      [](Real& y) {
        Real s = y;
        return s;
      },
      1);
  expect_apart(
      "assigned",
      [](Real& y) {
        Real s;
        s = y;
        return s;
      },
      1);
  expect_apart(
      "copied twice",
      [](Real& y) {
        Real s = y, t = s;
        return t;
      },
      1);
  expect_apart(
      "a copy in a list", [](Real& y) { return Reals(2, y)[1]; }, 1);
  expect_apart(
      "y + y", [](Real& y) { return y + y; }, 2);
  expect_apart(
      "fmax", [](Real& y) { return fmax(y, Real(1)); }, 1);
  expect_apart(
      "abs", [](Real& y) { return abs(y); }, 1);
}

// Both operands are one number, and one of them or both expire.
TEST(ScalarSlots, OneNumberTwice) {
  const Vector twice = {6, 4, 0, 0, 0}, none = {0, 0, 0, 0, 0}, square = {36, 24, 0, 0, 0};
  const auto expect = [](const Vector& want, Real (*f)(Real&)) {
    EXPECT_EQ(slopes_of([&](Real& y, const Reals&) { return f(y); }), want);
  };
  expect(twice, [](Real& y) { return y += y; });
  expect(none, [](Real& y) { return y -= y; });
  expect(square, [](Real& y) { return y *= y; });
  expect(none, [](Real& y) { return y /= y; });
  expect(twice, [](Real& y) { return std::move(y) + y; });
  expect(twice, [](Real& y) { return y + std::move(y); });
  expect(twice, [](Real& y) { return std::move(y) + std::move(y); });
  expect(none, [](Real& y) { return std::move(y) - y; });
  expect(none, [](Real& y) { return std::move(y) - std::move(y); });
  expect(square, [](Real& y) { return std::move(y) * y; });
  expect(square, [](Real& y) { return std::move(y) * std::move(y); });
  expect(twice, [](Real& y) { return y += std::move(y); });
  expect(square, [](Real& y) { return y *= std::move(y); });
  expect({3, 2, 0, 0, 0}, [](Real& y) {
    Real& itself = y;
    y = std::move(itself);
    std::swap(y, itself);
    return y;
  });
  expect({24, 16, 0, 0, 0}, [](Real& y) {  // 8 y
    y += y;
    y += y;
    y += y;
    return y;
  });
}

// A call that fails leaves the number that it was to change as it was.
TEST(ScalarSlots, FailedUpdatesChangeNothing) {
  const auto f = [](const Reals& v) {
    Real s = v[0] * v[1];
    const auto inner = [&](const Reals& w) {
      etude::tests::expect_error([&] { s *= w[0]; }, ErrorCode::kInvalidArgument,
                                 {"a number of an outer derivative"});
      return w[0];
    };
    gradient(inner, at);
    s *= v[2];
    return s;
  };
  EXPECT_EQ(gradient(f, at), Vector({12, 8, 6, 0, 0}));
}

// Free slots are not the slots of numbers from elsewhere.
TEST(ScalarSlots, ResultsOfLoopsWithoutSlopesAfterSums) {
  const auto f = [](const Reals& v) {
    Real sum = v[0] * v[1];
    Real t = v[2] * v[3];
    sum *= 2.0;
    t *= 2.0;
    sum += std::move(t);  // its slot is free, and was written by two calls
    const auto flat = [](auto s, const auto& p, auto d) { return s + 0.0 * p[0] * d; };
    const Vector data(300, 1.0);
    return sum * 0.0 + scan(data.size(), Real(0), std::array<Real, 1>{v[4]}, flat, data);
  };
  EXPECT_EQ(gradient(f, at), Vector({0, 0, 0, 0, 0}));
}

#ifdef ETUDE_ASSERTIONS
// The invariants of slots.h are checked: finds a slot that is written while a number still uses it.
TEST(ScalarSlots, WritesBehindANumberAreFound) {
  const auto f = [](const Reals& v) {
    const Real y = v[0] * v[1];
    auto& tape = *internal::ScalarTape<double>::current();
    tape.set(y.slot_on(tape), 1, v[2].slot_on(tape));
    return y * v[3];
  };
  etude::tests::expect_error([&] { gradient(f, at); }, ErrorCode::kInternal,
                             {"was written while a number held it", "a bug in Etude"});
}
#endif

}  // namespace
}  // namespace etude
