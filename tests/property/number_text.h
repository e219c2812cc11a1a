// SPDX-License-Identifier: Apache-2.0
// Programs on numbers (number_programs.h) as C++ that compiles: random_numbers_test.cc prints a
// failed program in this form.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/property/number_programs.h"

namespace etude::programs {

inline constexpr std::string_view kComparisons[] = {" < ", " > ", " <= ", " >= "};
inline constexpr std::string_view kOperators[] = {" + ", " - ", " * ", " / ", " / "};

// Each U and V of a text is an operand.
inline std::string with_operands(std::string_view text, const std::string& u,
                                 const std::string& v) {
  std::string out;
  for (const char c : text) {
    if (c == 'U') {
      out += u;
    } else if (c == 'V') {
      out += v;
    } else {
      out += c;
    }
  }
  return out;
}
inline std::string number_text(double number) {
  char out[32];
  std::snprintf(out, sizeof out, "%.17g", number);
  std::string text = out;
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

inline std::string text_of(const Place& at) {
  const std::string n = std::to_string(at.index);
  switch (at.kind) {
    case Place::kRegister:
      return "r" + n;
    case Place::kLocal:
      return "t" + n;
    case Place::kElement:
      return "a[" + n + " % a.size()]";
    case Place::kElementAtCount:
      return "a[static_cast<std::size_t>(i + " + n + ") % a.size()]";
    case Place::kElementAtValue:
      return "a[static_cast<std::size_t>(std::abs(static_cast<int>(4 * r" + n + "))) % a.size()]";
    case Place::kField:
      break;
  }
  constexpr std::string_view kNames[] = {"s.mass", "s.spring", "s.position[0]", "s.position[1]"};
  return std::string(kNames[at.index]);
}

namespace names {
#define ETUDE_OF_ONE(f, argument) #f "(" #argument ")",
#define ETUDE_OF_TWO(f, first, second) #f "(" #first ", " #second ")",
#define ETUDE_BARE(f) #f "(U)",
inline constexpr std::string_view kSmooth[] = {ETUDE_SMOOTH_CALLS(ETUDE_OF_ONE)};
inline constexpr std::string_view kKinked[] = {ETUDE_KINKED_CALLS(ETUDE_BARE)};
inline constexpr std::string_view kRounded[] = {ETUDE_ROUNDED_CALLS(ETUDE_BARE)};
inline constexpr std::string_view kPairs[] = {ETUDE_PAIR_CALLS(ETUDE_OF_TWO)};
inline constexpr std::string_view kKinkedPairs[] = {ETUDE_KINKED_PAIR_CALLS(ETUDE_OF_TWO)};
#undef ETUDE_OF_ONE
#undef ETUDE_OF_TWO
#undef ETUDE_BARE
inline constexpr std::string_view kCall[kCalls] = {
    "(power(U, 3) - V)",
    "by_closure<T>(U, V)",
    "by_function<T>(U, V)",
    "custom_gradient(CustomRule())(T(U), T(V))",
    "(with_derivative(T(U), [](const auto& ct) { return ct; }) * V)",
    "recompute_grad(Recomputed())(T(U), T(V))",
    "T(differentiable<&damped>(T(U), T(V)))",
    "T(differentiable<&waved>(T(U), T(V)))",
    "inner_derivative<T>(U, V)",
    "inner_gradient<T>(U, V)",
    "inner_pullback<T>(U, V)",
    "(pass_on<T>(U) * pass_on(pass_on<T>(V)))",
    "mean<T>(U, V)",
    "fma(U, V, U)",
    "lerp(U, V, T(0.25))",
    "std::min<T>(std::max<T>(U, T(-1)), V)",
    "std::accumulate(a.begin(), a.end(), T(0))",
    "(std::inner_product(a.begin(), a.end(), a.begin(), T(0)) * 0.125)",
    "(*std::max_element(a.begin(), a.end()))"};
inline constexpr std::string_view kAlgorithm[kAlgorithms] = {
    "std::sort(a.begin(), a.end())",
    "std::sort(a.begin(), a.end(), [](const T& u, const T& v) { return u > v; })",
    "std::reverse(a.begin(), a.end())",
    "std::rotate(a.begin(), a.begin() + 1, a.end())",
    "std::partial_sum(a.begin(), a.end(), a.begin())",
    "std::adjacent_difference(a.begin(), a.end(), a.begin())",
    "std::transform(a.begin(), a.end(), a.begin(), [](const T& v) { return v * v; })",
    "for (T& v : a) v *= 0.5",
    "std::iter_swap(a.begin(), a.end() - 1)",
    "std::nth_element(a.begin(), a.begin() + 1, a.end())"};
inline constexpr std::string_view kCopy[kCopies] = {
    "{ auto b = a; a[0] *= U; b[1] += a[0]; std::swap(a, b); }",
    "{ const T by = U; auto b = std::move(a); b[0] -= by; a = b; }",
    "{ auto t = s; s.mass /= positive(U); t.spring += s.mass; s = t; }",
    "{ const T by = U; auto t = std::move(s); t.position[0] += by; s = std::move(t); }"};
}  // namespace names

// A text with v(), u() and two(), with operands in their places.
inline std::string called(std::string_view text, const std::string& u, const std::string& v) {
  std::string out(text);
  const auto replace = [&](std::string_view from, const std::string& to) {
    const std::size_t found = out.find(from);
    if (found != std::string::npos) out.replace(found, from.size(), to);
  };
  replace("two()", "2");
  replace("u()", "U");
  replace("v()", "V");
  return with_operands(out, u, v);
}

inline std::string text_of(const Expr& e) {
  std::vector<std::string> args;
  for (const Expr& a : e.args) args.push_back(text_of(a));
  const auto which = static_cast<std::size_t>(e.which);
  const std::string none;
  switch (e.kind) {
    case Expr::kNumber:
      return "T(" + number_text(e.number) + ")";
    case Expr::kInput:
      return "x[" + std::to_string(e.which) + "]";
    case Expr::kPlace:
      return text_of(e.place);
    case Expr::kNamed:
      return "named<T>(" + args[0] + ")";
    case Expr::kChoice:
      return "(" + args[0] + " < " + args[1] + " ? " + args[2] + " : " + args[3] + ")";
    case Expr::kNegate:
      return "-" + args[0];
    case Expr::kArithmeticCall: {
      if (e.args.size() == 2) {
        const std::string b = e.which == 3   ? "positive<T>(" + args[1] + ")"
                              : e.which == 4 ? "named(positive<T>(" + args[1] + "))"
                                             : args[1];
        return "(" + args[0] + std::string(kOperators[which]) + b + ")";
      }
      const std::string n = number_text(e.number), op(kOperators[which]);
      if (e.place.index != 0) return "(" + args[0] + op + n + ")";
      return "(" + n + op + (e.which == 3 ? "positive<T>(" + args[0] + ")" : args[0]) + ")";
    }
    case Expr::kSmooth:
      return called(names::kSmooth[which], none, args[0]);
    case Expr::kKinked:
      return called(names::kKinked[which], args[0], none);
    case Expr::kRounded:
      return called(names::kRounded[which], args[0], none);
    case Expr::kPair:
      return called(names::kPairs[which], args[0], args[1]);
    case Expr::kKinkedPair:
      return called(names::kKinkedPairs[which], args[0],
                    e.which < 2 ? "positive<T>(" + args[1] + ")" : args[1]);
    case Expr::kCall:
      break;
  }
  return args.empty() ? std::string(names::kCall[which])
                      : called(names::kCall[which], args[0], args[1]);
}

// Writes statements, one a line.
class Writer {
 public:
  std::string body(const Program& program) {
    constexpr std::string_view kResults[] = {
        "r0", "r0, r1, r2, r3", "",
        "r0, r1, r2, r3, s.mass, s.spring, s.position[0], s.position[1]"};
    begin("x[1]", "x[2]", "{x[0], x[1], x[2], 0.5}");
    line("const auto results = [&](auto... early) {");
    line("  std::vector<T> out{early..., " +
         std::string(kResults[static_cast<std::size_t>(program.results)]) + "};");
    if (program.results >= Results::kArray) line("  out.insert(out.end(), a.begin(), a.end());");
    line("  return out;");
    line("};");
    for (const Stmt& s : program.body) write(s);
    line("return results();");
    return std::move(out_);
  }

 private:
  void line(const std::string& text) {
    out_ += std::string(2 * static_cast<std::size_t>(depth_), ' ') + text + "\n";
  }
  void begin(const std::string& second, const std::string& third, const std::string& array) {
    line("using T = std::decay_t<decltype(x[0])>;");
    line("[[maybe_unused]] T r0 = x[0], r1 = " + second + ", r2 = " + third + ", r3 = 1;");
    line("[[maybe_unused]] std::vector<T> a = " + array + ";");
    line("[[maybe_unused]] Body<T> s{r0 * r1, T(2), {r2, r0}};");
    line("[[maybe_unused]] const int i = 0;");
  }
  void block(const std::string& head, const std::vector<Stmt>& statements) {
    line(head + " {");
    ++depth_;
    for (const Stmt& s : statements) write(s);
    --depth_;
  }
  static std::string compared(const Stmt& s) {
    return "if (" + text_of(s.args[0]) + std::string(kComparisons[s.which]) + text_of(s.args[1]) +
           ") ";
  }
  static std::string updated(const std::string& target, int which, const std::string& by) {
    constexpr std::string_view kUpdates[] = {" += ", " -= ", " *= ", " /= ", " /= "};
    const std::string e = which == 3   ? "positive<T>(" + by + ")"
                          : which == 4 ? "named(positive<T>(" + by + "))"
                                       : by;
    return target + std::string(kUpdates[which]) + e + ";";
  }
  void write(const Stmt& s) {
    if (s.kind >= Stmt::kDeclare) return control(s);
    const std::string t = text_of(s.target), u = text_of(s.second);
    line(assigning(s, t, u));
    if (!s.settles) return;
    if (s.kind > Stmt::kPass) {
      line("for (T& v : a) settle(v);");
      line("for (int k = 0; k < 4; ++k) settle(s.at(k));");
    } else {
      line("settle(" + t + ");");
      if (u != t) line("settle(" + u + ");");
    }
  }
  static std::string assigning(const Stmt& s, const std::string& t, const std::string& u) {
    const std::string e = s.args.empty() ? "" : text_of(s.args[0]);
    const auto which = static_cast<std::size_t>(s.which);
    switch (s.kind) {
      case Stmt::kSet:
        return t + " = " + e + ";";
      case Stmt::kUpdate:
        return updated(t, s.which, e);
      case Stmt::kItself:
        return updated(t, s.which, t);
      case Stmt::kStep:
        return (s.which == 0 ? "++" : "--") + t + ";";
      case Stmt::kFork:
        return "{ const T t = " + t + "; " + updated(t, s.which, e) + " " + u + " += t; }";
      case Stmt::kMove:
        return "{ T n = " + e + "; T t = std::move(" + t + "); " + t + " = std::move(n); " + u +
               " = std::move(t); }";
      case Stmt::kTake:
        return taking(s, t, u, e);
      case Stmt::kSwap:
        return "std::swap(" + t + ", " + u + ");";
      case Stmt::kPass: {
        constexpr std::string_view kNames[] = {"trade<T>(", "turn<T>(", "gather<T>("};
        const std::string by = s.which == 1 ? "T(" + e + ")" : e;
        return std::string(kNames[which]) + t + ", " + u + ", " + by + ");";
      }
      case Stmt::kAppend:
        if (s.which == 1) return "if (a.size() < 10) a.push_back(a[0]);";
        return (s.which == 0 ? "if (a.size() < 10) a.push_back("
                             : "if (a.size() < 10) a.insert(a.begin(), ") +
               e + ");";
      case Stmt::kRemove: {
        constexpr std::string_view kNames[] = {"if (a.size() > 2) a.pop_back();",
                                               "if (a.size() > 2) a.erase(a.begin());",
                                               "a.resize(3);"};
        return std::string(kNames[which]);
      }
      case Stmt::kCopy:
        return with_operands(names::kCopy[which], e, "");
      case Stmt::kStruct:
        return "s = Body<T>{" + e + ", " + text_of(s.args[1]) + ", {s.mass, s.spring}};";
      default:
        return std::string(names::kAlgorithm[which]) + ";";
    }
  }
  static std::string taking(const Stmt& s, const std::string& t, const std::string& u,
                            const std::string& e) {
    const std::string taken = "std::move(" + u + ")";
    const auto both = [&](const std::string& a, const std::string& b) {
      const std::string by = s.which == 3   ? "positive<T>(" + b + ")"
                             : s.which == 4 ? "named(positive<T>(" + b + "))"
                                            : b;
      return t + " = " + a + std::string(kOperators[s.which]) + by + ";";
    };
    const std::string how = s.count == 0   ? both(taken, e)
                            : s.count == 1 ? both(e, taken)
                            : s.count == 2 ? t + " = " + taken + " * 0.5 + " + e + ";"
                            : s.count == 3 ? updated(t, s.which, taken)
                                           : both(taken, u);
    return "{ T n = " + text_of(s.args[1]) + "; " + how + " " + u + " = std::move(n); }";
  }
  void declare(const Stmt& s) {
    const std::string name = "t" + std::to_string(locals_++), e = text_of(s.args[0]);
    const std::string c = number_text(s.args[1].number), of = text_of(s.second);
    line("{");
    ++depth_;
    if (s.which == 0) line("T " + name + " = " + e + ";");
    if (s.which == 1) line("T " + name + " = " + c + "; " + updated(name, s.count, e));
    if (s.which == 2) line("T& " + name + " = " + of + ";");
    if (s.which == 3) line("T " + name + " = std::move(" + of + "); " + of + " = " + c + ";");
    for (const Stmt& inner : s.body) write(inner);
    --depth_;
    line("}");
    --locals_;
  }
  void control(const Stmt& s) {
    switch (s.kind) {
      case Stmt::kDeclare:
        return declare(s);
      case Stmt::kIf:
        block(compared(s), s.body);
        if (!s.otherwise.empty()) block("} else", s.otherwise);
        return line("}");
      case Stmt::kFor:
        block("for (int i = 0; i < " + std::to_string(s.count) + "; ++i)", s.body);
        return line("}");
      case Stmt::kForByValue:
        block("for (int i = 0, n = std::abs(static_cast<int>(8 * small<T>(" + text_of(s.args[0]) +
                  "))) % 4; i < n; ++i)",
              s.body);
        return line("}");
      case Stmt::kWhile: {
        const std::string t = text_of(s.target);
        block("for (int i = 0; i < 4 && " + t + " < 2; " + t + " += positive<T>(" +
                  text_of(s.args[0]) + "), settle(" + t + "), ++i)",
              s.body);
        return line("}");
      }
      case Stmt::kBreak:
        return line(compared(s) + "break;");
      case Stmt::kContinue:
        return line(compared(s) + "continue;");
      case Stmt::kReturn:
        return line(compared(s) + "return results(T(" + text_of(s.args[2]) + "));");
      case Stmt::kThrow:
        return line(compared(s) + "throw Thrown<T>{" + text_of(s.args[2]) + "};");
      case Stmt::kTry:
        block("try", s.body);
        block("} catch (const Thrown<T>& thrown)", {});
        ++depth_;
        line(text_of(s.target) + " = thrown.value;");
        for (const Stmt& inner : s.otherwise) write(inner);
        --depth_;
        return line("}");
      default:
        return function(s);
    }
  }
  // A block as a function of the array.
  void function(const Stmt& s) {
    constexpr std::string_view kHeads[] = {"a = recompute_grad(f)(a);",
                                           "a = custom_gradient(f, [&](const auto& at) { return "
                                           "value_with_pullback(f, at); })(a);",
                                           "a = checkpointed(2, a, [&](std::size_t, const auto& "
                                           "at) { return f(at); });"};
    const int locals = std::exchange(locals_, 0);
    line("{");
    ++depth_;
    line("const auto f = [](const auto& x) {");
    ++depth_;
    begin("x[0]", "x[0]", "x");
    for (const Stmt& inner : s.body) write(inner);
    line("return a;");
    --depth_;
    line("};");
    line(std::string(kHeads[s.which]));
    --depth_;
    line("}");
    locals_ = locals;
    if (s.settles) line("for (T& v : a) settle(v);");
  }

  std::string out_;
  int depth_ = 1, locals_ = 0;
};

// A program with the weighted sum of its results, whose gradient at x is taken.
inline std::string text_of(const Program& program, const std::vector<double>& x,
                           const std::vector<double>& weights) {
  const auto list = [](const std::vector<double>& numbers) {
    std::string out = "{";
    for (const double n : numbers) out += (out.size() > 1 ? ", " : "") + number_text(n);
    return out + "}";
  };
  return "#include <algorithm>\n#include <numeric>\n#include <vector>\n\n"
         "#include \"tests/property/number_calls.h\"\n\n"
         "using namespace etude;\nusing namespace etude::programs;\n\n"
         "const auto program = [](const auto& x) {\n" +
         Writer().body(program) +
         "};\n"
         "const auto f = [](const auto& x) {\n"
         "  const std::vector<double> weights = " +
         list(weights) +
         ";\n"
         "  const auto y = program(x);\n"
         "  std::decay_t<decltype(x[0])> sum = 0;\n"
         "  for (std::size_t k = 0; k < weights.size(); ++k) sum += weights[k] * y[k];\n"
         "  return sum;\n"
         "};\n"
         "const auto slopes = gradient(f, std::vector<double>" +
         list(x) + ");\n";
}

}  // namespace etude::programs
