// SPDX-License-Identifier: Apache-2.0
#include "etude/stage/internal/host_call.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <variant>

#include <cxxabi.h>
#include <fmt/format.h>

#include "etude/base/check.h"
#include "etude/core/call/call_scope.h"
#include "etude/core/context/pending.h"
#include "etude/variables/enclosing_trace.h"

namespace etude::internal {
namespace {

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : type.name();
}

ErrorCode code_of(const std::exception& error) {
  const auto is = [&]<class... T>(std::type_identity<T>...) {
    return ((dynamic_cast<const T*>(&error) != nullptr) || ...);
  };
  if (is(std::type_identity<std::invalid_argument>(), std::type_identity<std::domain_error>(),
         std::type_identity<std::length_error>(), std::type_identity<std::bad_cast>(),
         std::type_identity<std::bad_variant_access>())) {
    return ErrorCode::kInvalidArgument;
  }
  if (is(std::type_identity<std::out_of_range>())) return ErrorCode::kOutOfRange;
  if (is(std::type_identity<std::bad_alloc>())) return ErrorCode::kResourceExhausted;
  return ErrorCode::kFailedPrecondition;
}

[[noreturn]] void throw_caused(const HostFacts& facts, ErrorCode code, const std::string& text) {
  Error error(code, "its callable threw " + text);
  error.name_op(facts.title());
  error.set_cause(std::current_exception());
  throw error;
}

}  // namespace

HostFacts::HostFacts(std::string given, std::vector<TensorSpec> specs, std::vector<Variable> listed,
                     CallSite made)
    : name(std::move(given)), where(user_line(made)), variables(std::move(listed)) {
  if (name.empty()) {
    const std::string_view file = where.file;
    name = where.known() ? fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line)
                         : "function";
  }
  located(title(), where, [&] {
    for (const TensorSpec& spec : specs) {
      const Type* type = intern_type(spec.dtype, spec.shape);
      ETUDE_REQUIRE(type->count() != kAny,
                    "result {} was declared as {}. A graph knows all sizes, so declare each of "
                    "them; make another host_function for other sizes",
                    results.size(), type->to_string());
      results.push_back(type);
    }
  });
}

std::string HostFacts::title() const { return fmt::format("host_function '{}'", name); }

std::string HostCallable::to_string() const {
  const HostFacts& f = facts();
  return f.where.known() ? fmt::format("{} made at {}:{}", f.title(), f.where.file, f.where.line)
                         : f.title();
}

bool is_plain_host_call(std::span<const Tensor> inputs) {
  if (EnclosingTrace::innermost() != nullptr) return false;
  return std::ranges::all_of(inputs, [](const Tensor& x) {
    return !x.has_value() || !TensorAccess::is_abstract(x) || is_unrun(x);
  });
}

void run_host_code(const HostFacts& facts, const std::function<void()>& f) {
  try {
    f();
  } catch (Error& error) {
    error.name_caller(facts.name, {});
    throw;
  } catch (const std::exception& error) {
    throw_caused(facts, code_of(error), type_name(typeid(error)) + ": " + error.what());
  } catch (...) {
    throw_caused(facts, ErrorCode::kFailedPrecondition, "an object that is no std::exception");
  }
}

void require_declared(const HostFacts& facts, std::span<const Tensor> results) {
  const auto declared = [&] {
    std::vector<std::string> texts;
    for (const Type* type : facts.results) texts.push_back(type->to_string());
    return texts.empty() ? std::string("no results")
                         : fmt::format("{} ({})", texts.size(), fmt::join(texts, ", "));
  };
  if (results.size() != facts.results.size()) {
    std::vector<std::string> texts;
    for (const Tensor& x : results) {
      texts.push_back(x.has_value() ? x.type()->to_string() : "absent");
    }
    ETUDE_THROW(kInvalidArgument, "its callable returned {} results ({}), but {} were declared",
                results.size(), fmt::join(texts, ", "), declared());
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Type* want = facts.results[i];
    ETUDE_REQUIRE(results[i].has_value(),
                  "its callable returned nothing as result {}, which was declared as {}", i,
                  want->to_string());
    const Tensor& x = results[i];
    ETUDE_REQUIRE(
        x.dtype() == want->dtype() && x.shape() == want->shape(),
        "its callable returned {} as result {}, which was declared as {}. Cast or reshape "
        "it, or declare its type",
        x.type()->to_string(), i, want->to_string());
  }
}

void throw_no_structure(const HostFacts& facts, std::size_t held) {
  ETUDE_THROW(kInvalidArgument,
              "a graph makes the result by the default constructor of its type and puts tensors "
              "into it, but it has {} tensors then, and {} results were declared. Return a tensor, "
              "a tuple, an array or a struct of tensors, or a std::vector<Tensor>",
              held, facts.results.size());
}

}  // namespace etude::internal
