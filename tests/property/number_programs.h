// SPDX-License-Identifier: Apache-2.0
// Small programs on numbers, as trees. number_maker.h makes them up, number_machine.h runs them on
// numbers of any kind, number_text.h writes them as C++, random_numbers_test.cc compares.
//
// A program has registers r0..r3, an array a, a struct s, locals t0, t1, .. of the blocks around a
// statement, and i, which counts the innermost loop's rounds. It begins with r = {x0, x1, x2, 1},
// a = {x0, x1, x2, 0.5}, s = {x0 * x1, 2, {x2, x0}}.
#pragma once

#include <cstddef>
#include <vector>

namespace etude::programs {

inline constexpr int kInputs = 3, kRegisters = 4, kFields = 4;

// Functions of <cmath>, each with the argument that keeps it in its domain and away from poles,
// where v() is the number given, small() lies within 1/2 of 0 and positive() is 1/4 or more.
// two() is 2 at run time only: of a literal, compilers make a product for plain numbers.
// clang-format off
#define ETUDE_SMOOTH_CALLS(F)                                                     \
  F(sin, v()) F(cos, v()) F(atan, v()) F(tanh, v()) F(asinh, v())                 \
  F(erf, v()) F(erfc, v()) F(tan, small(v())) F(asin, small(v()))                 \
  F(acos, small(v())) F(sinh, small(v())) F(cosh, small(v()))                     \
  F(atanh, small(v())) F(exp, small(v())) F(exp2, small(v()))                     \
  F(expm1, small(v())) F(log1p, small(v())) F(log, positive(v()))                 \
  F(log2, positive(v())) F(log10, positive(v())) F(sqrt, positive(v()))           \
  F(cbrt, positive(v())) F(lgamma, positive(v())) F(acosh, positive(v()) + 1)     \
  F(tgamma, small(v()) + 1.5)
#define ETUDE_KINKED_CALLS(F) F(abs) F(fabs)
#define ETUDE_ROUNDED_CALLS(F) \
  F(floor) F(ceil) F(round) F(trunc) F(rint) F(nearbyint)
#define ETUDE_PAIR_CALLS(F)                                                       \
  F(pow, positive(u()), small(v())) F(pow, u(), two()) F(pow, u(), 3.0)               \
  F(pow, 1.5, small(v())) F(atan2, u(), positive(v())) F(hypot, u(), positive(v()))
// By adding 0 a zero loses its sign, which is not promised where it is a derivative.
#define ETUDE_KINKED_PAIR_CALLS(F)                                                  \
  F(fmod, u(), v()) F(remainder, u(), v()) F(fmin, u(), v()) F(fmax, u(), v())        \
  F(fdim, u(), v()) F(copysign, u(), v() + 0.0)
// clang-format on
inline constexpr int kSmoothCalls = 25, kKinkedCalls = 2, kRoundedCalls = 6, kPairCalls = 6,
                     kKinkedPairCalls = 6;

struct Place {
  enum Kind { kRegister, kLocal, kElement, kElementAtCount, kElementAtValue, kField };
  Kind kind = kRegister;
  int index = 0;

  bool operator==(const Place&) const = default;
};

// The values of `which` of a kCall; the text of each is in number_text.h.
enum Call {
  kRecursion,        // a function that calls itself, by value
  kClosure,          // a lambda that captured one operand
  kErased,           // std::function
  kCustom,           // custom_gradient
  kHook,             // with_derivative
  kRecompute,        // recompute_grad
  kRule,             // differentiable<&f> with a reverse rule
  kJointRule,        // the same with a joint one
  kInnerDerivative,  // a derivative inside of the program, of the operands
  kInnerGradient,
  kInnerPullback,
  kPassOn,  // by value, and back
  kMean,
  kFma,
  kLerp,
  kClamp,       // std::min(std::max())
  kAccumulate,  // std::accumulate over a
  kProduct,     // std::inner_product of a with itself
  kMost,        // *std::max_element of a
  kCalls
};

struct Expr {
  enum Kind {
    kNumber,  // a constant of the active type
    kInput,
    kPlace,
    kNamed,   // args[0] as an operand that stays
    kChoice,  // args[0] < args[1] ? args[2] : args[3]; an operand that stays, of two places
    kNegate,
    kArithmeticCall,  // of two; or of one and a plain `number`, on the side of place.index
    kSmooth,
    kKinked,
    kRounded,
    kPair,
    kKinkedPair,
    kCall
  };
  Kind kind = kNumber;
  int which = 0;
  double number = 0;
  Place place{};
  std::vector<Expr> args{};
};

inline constexpr int kAlgorithms = 10, kBlocks = 3, kCopies = 4;

struct Stmt {
  enum Kind {
    kSet,     // target = e
    kUpdate,  // target op= e
    kItself,  // target op= target
    kStep,    // ++target, --target
    kFork,    // T t = target; target op= e; second op= t
    kMove,    // T n = e; T t = move(target); target = move(n); second = move(t)
    kTake,    // target = move(second) op e, target op= move(second) and so on; second = e
    kSwap,    // swap(target, second)
    kPass,    // a function by references to target and second, and by e
    kAppend,  // a.push_back(e), of a reference into a, insert
    kRemove,  // a.pop_back(), erase, resize
    kCopy,    // of a or s as a whole
    kStruct,  // s = {e, ...}
    kAlgorithm,
    kDeclare,  // T t = e, T t(constant), T t = move(second), T& t = second; body
    kIf,
    kFor,         // a count that is fixed
    kForByValue,  // a count by a value
    kWhile,       // target < 2 && ...; target += positive(e)
    kBreak,       // if (e < e) break
    kContinue,
    kReturn,  // if (e < e) return e
    kTry,     // body; catch (thrown) { target = thrown; otherwise }
    kThrow,   // if (e < e) throw e
    kBlock
  };
  Kind kind = kSet;
  int which = 0, count = 0;
  Place target{}, second{};
  bool settles = true;  // whether assigned values are kept small
  std::vector<Expr> args{};
  std::vector<Stmt> body{}, otherwise{};
};

// The results of a program: r0, the registers, the array, or all of these. An early result comes
// first.
enum class Results { kNumber, kRegisters, kArray, kAll };

struct Program {
  std::vector<Stmt> body;
  Results results = Results::kNumber;
};

}  // namespace etude::programs
