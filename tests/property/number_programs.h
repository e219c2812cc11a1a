// SPDX-License-Identifier: Apache-2.0
// Small programs on numbers, as trees, and their text. number_maker.h makes them up,
// number_machine.h runs them on numbers of any kind, random_numbers_test.cc compares.
//
// A program has registers r0..r3, an array a, a struct s, and i, which counts the innermost loop's
// rounds. It begins with r = {x0, x1, x2, 1}, a = {x0, x1, x2, 0.5}, s = {x0 * x1, 2, x2, x0}.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
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
#define ETUDE_KINKED_PAIR_CALLS(F) \
  F(fmod) F(remainder) F(fmin) F(fmax) F(fdim) F(copysign)
// clang-format on

struct Place {
  enum Kind { kRegister, kElement, kElementAtCount, kElementAtValue, kField } kind = kRegister;
  int index = 0;

  std::string text() const {
    const std::string n = std::to_string(index);
    switch (kind) {
      case kRegister:
        return "r" + n;
      case kElement:
        return "a[" + n + " % a.size()]";
      case kElementAtCount:
        return "a[(i + " + n + ") % a.size()]";
      case kElementAtValue:
        return "a[abs(int(4 * r" + n + ")) % a.size()]";
      case kField:
        return "s." + n;
    }
    return "";
  }
};

// What `which` of a kCall is.
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
  kClamp,       // std::min(std::max())
  kAccumulate,  // std::accumulate over a
  kProduct,     // std::inner_product of a with itself
  kMost,        // *std::max_element of a
  kCalls
};
inline constexpr std::string_view kCallNames[kCalls] = {
    "recursion",        "closure",        "function",       "custom_gradient",
    "with_derivative",  "recompute_grad", "differentiable", "differentiable_joint",
    "inner_derivative", "inner_gradient", "inner_pullback", "clamp",
    "accumulate",       "inner_product",  "max_element"};

inline constexpr std::string_view kComparisons[] = {"<", ">", "<=", ">="};
inline constexpr std::string_view kArithmetic[] = {"+", "-", "*", "/"};  // by positive() of it

struct Expr {
  enum Kind {
    kNumber,
    kInput,
    kPlace,
    kNegate,
    kArithmeticCall,  // of two, or of one and `number` on the side that index says
    kSmooth,
    kKinked,
    kRounded,
    kPair,
    kKinkedPair,
    kChoice,  // args[0] < args[1] ? args[2] : args[3]
    kCall
  } kind = kNumber;
  int which = 0;
  double number = 0;
  Place place{};
  std::vector<Expr> args{};

  std::string text() const {
    switch (kind) {
      case kNumber:
        return number_text();
      case kInput:
        return "x" + std::to_string(which);
      case kPlace:
        return place.text();
      case kNegate:
        return "-" + args[0].text();
      case kArithmeticCall:
        return "(" + side(0) + " " + std::string(kArithmetic[which]) + " " + side(1) + ")";
      case kSmooth:
        return name_of(kSmoothNames) + list();
      case kKinked:
        return name_of(kKinkedNames) + list();
      case kRounded:
        return name_of(kRoundedNames) + list();
      case kPair:
        return "[" + name_of(kPairNames) + "]" + list();
      case kKinkedPair:
        return name_of(kKinkedPairNames) + list();
      case kChoice:
        return "(" + args[0].text() + " < " + args[1].text() + " ? " + args[2].text() + " : " +
               args[3].text() + ")";
      case kCall:
        return std::string(kCallNames[which]) + list();
    }
    return "";
  }

#define ETUDE_NAME(f, ...) #f "(" #__VA_ARGS__ ")",
#define ETUDE_BARE_NAME(f) #f,
  static constexpr std::string_view kSmoothNames[] = {ETUDE_SMOOTH_CALLS(ETUDE_NAME)};
  static constexpr std::string_view kKinkedNames[] = {ETUDE_KINKED_CALLS(ETUDE_BARE_NAME)};
  static constexpr std::string_view kRoundedNames[] = {ETUDE_ROUNDED_CALLS(ETUDE_BARE_NAME)};
  static constexpr std::string_view kPairNames[] = {ETUDE_PAIR_CALLS(ETUDE_NAME)};
  static constexpr std::string_view kKinkedPairNames[] = {ETUDE_KINKED_PAIR_CALLS(ETUDE_BARE_NAME)};
#undef ETUDE_NAME
#undef ETUDE_BARE_NAME

 private:
  std::string number_text() const {
    char out[32];
    std::snprintf(out, sizeof out, "%g", number);
    return out;
  }
  // An operand of arithmetic; with one operand, `number` stands at place.index.
  std::string side(int i) const {
    if (args.size() == 2) return args[static_cast<std::size_t>(i)].text();
    return i == place.index ? number_text() : args[0].text();
  }
  template <std::size_t n>
  std::string name_of(const std::string_view (&names)[n]) const {
    return std::string(names[static_cast<std::size_t>(which)]);
  }
  std::string list() const {
    std::string out = "(";
    for (const Expr& a : args) out += (out.size() > 1 ? ", " : "") + a.text();
    return out + ")";
  }
};

// What `which` of a kAlgorithm is, on a.
inline constexpr std::string_view kAlgorithms[] = {
    "sort(a)",        "sort(a, greater)",       "reverse(a)",          "rotate(a, 1)",
    "partial_sum(a)", "adjacent_difference(a)", "transform(a, v * v)", "for (auto& v : a) v *= 0.5",
    "iter_swap(a)",   "nth_element(a)"};
// What `which` of a kBlock is: a block of statements on a as a function of a.
inline constexpr std::string_view kBlocks[] = {"recompute_grad", "custom_gradient", "checkpointed"};
// What `which` of a kCopy is.
inline constexpr std::string_view kCopies[] = {
    "auto b = a; a[0] *= e; b[1] += a[0]; swap(a, b)", "auto b = move(a); b[0] -= e; a = b",
    "auto t = s; s.0 /= positive(e); t.1 += s.0; s = t", "auto t = move(s); t.2 += e; s = move(t)"};

struct Stmt {
  enum Kind {
    kSet,     // target = e
    kUpdate,  // target op= e
    kItself,  // target op= target
    kStep,    // ++target, --target
    kFork,    // auto t = target; target op= e; second op= t
    kMove,    // auto n = e; auto t = move(target); target = move(n); second = move(t)
    kSwap,    // swap(target, second)
    kAppend,  // a.push_back(e), of a reference into a, insert
    kRemove,  // a.pop_back(), erase, resize
    kCopy,    // of a or s as a whole
    kStruct,  // s = {e, ...}
    kAlgorithm,
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
  } kind = kSet;
  int which = 0, count = 0;
  Place target{}, second{};
  std::vector<Expr> args{};
  std::vector<Stmt> body{}, otherwise{};

  std::string text(int depth) const {
    return std::string(static_cast<std::size_t>(2 * depth), ' ') + line() + block(body, depth) +
           (otherwise.empty() ? "" : " else/catch" + block(otherwise, depth)) + "\n";
  }

 private:
  static std::string block(const std::vector<Stmt>& statements, int depth) {
    if (statements.empty()) return "";
    std::string out = " {\n";
    for (const Stmt& s : statements) out += s.text(depth + 1);
    return out + std::string(static_cast<std::size_t>(2 * depth), ' ') + "}";
  }
  std::string arg(std::size_t i) const { return args[i].text(); }
  std::string compared() const {
    return "if (" + arg(0) + " " + std::string(kComparisons[which]) + " " + arg(1) + ")";
  }
  std::string line() const {
    const std::string t = target.text(), op = std::string(kArithmetic[which % 4]) + "= ";
    switch (kind) {
      case kSet:
        return t + " = " + arg(0);
      case kUpdate:
        return t + " " + op + arg(0);
      case kItself:
        return t + " " + op + t;
      case kStep:
        return (which == 0 ? "++" : "--") + t;
      case kFork:
        return "auto t = " + t + "; " + t + " " + op + arg(0) + "; " + second.text() + " += t";
      case kMove:
        return "auto n = " + arg(0) + "; auto t = move(" + t + "); " + t + " = move(n); " +
               second.text() + " = move(t)";
      case kSwap:
        return "swap(" + t + ", " + second.text() + ")";
      case kAppend:
        return (which == 0   ? "a.push_back"
                : which == 1 ? "push_back(a[0]) "
                             : "a.insert(begin)") +
               arg(0);
      case kRemove:
        return which == 0 ? "a.pop_back()" : which == 1 ? "a.erase(begin)" : "a.resize(3)";
      case kCopy:
        return std::string(kCopies[which]) + ", e = " + arg(0);
      case kStruct:
        return "s = {" + arg(0) + ", " + arg(1) + ", s.0, s.1}";
      default:
        return control_line();
    }
  }
  std::string control_line() const {
    switch (kind) {
      case kAlgorithm:
        return std::string(kAlgorithms[which]);
      case kIf:
        return compared();
      case kFor:
        return "for (i < " + std::to_string(count) + ")";
      case kForByValue:
        return "for (i < abs(int(8 * small(" + arg(0) + "))) % 4)";
      case kWhile:
        return "while (" + target.text() + " < 2 && i < 4), each " + target.text() +
               " += positive(" + arg(0) + ")";
      case kBreak:
        return compared() + " break";
      case kContinue:
        return compared() + " continue";
      case kReturn:
        return compared() + " return " + arg(2);
      case kTry:
        return "try, catch to " + target.text();
      case kThrow:
        return compared() + " throw " + arg(2);
      case kBlock:
        return "a = " + std::string(kBlocks[which]) + "(block)(a)";
      default:
        return "";
    }
  }
};

// What a program gives: r0, the registers, the array, or all there is. What it returns early
// stands in front.
enum class Results { kNumber, kRegisters, kArray, kAll };

struct Program {
  std::vector<Stmt> body;
  Results results = Results::kNumber;

  std::string text() const {
    constexpr std::string_view kNames[] = {"{r0}", "r", "a", "{r, s, a}"};
    std::string out;
    for (const Stmt& s : body) out += s.text(0);
    return out + "results: " + std::string(kNames[static_cast<std::size_t>(results)]) + "\n";
  }
};

}  // namespace etude::programs
