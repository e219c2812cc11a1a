// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/llvm/ir_math.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <type_traits>

#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include "etude/base/check.h"

namespace etude::codegen {
namespace {

// One source for compiled kernels and for generated code: here V is a value that is computed later.
#define ISA_INLINE [[maybe_unused]] inline
#include "etude/codegen/llvm/ir_vec.inc"
#include "etude/kernels/cpu/simd/math_functions.inc"
#include "etude/kernels/cpu/simd/program_functions.inc"
#undef ISA_INLINE
#undef VIA_DOUBLE
#undef VIA_DOUBLE_2

template <scalar::Fn kFn>
Value* emit_bool(std::span<Value* const> args) {
  using enum scalar::Fn;
  if constexpr (kFn == kLogicalNot) {
    return (~M(args[0])).value;
  } else if constexpr (kFn >= kLogicalAnd && kFn <= kLogicalXor) {
    return combine<kFn>(M(args[0]), M(args[1])).value;
  } else if constexpr (kFn <= kGreaterEqual) {
    return compare<kFn>(V(args[0]), V(args[1])).value;
  } else {
    return classify<kFn>(V(args[0])).value;
  }
}

Value* emit_function(scalar::Fn fn, std::span<Value* const> args) {
  switch (fn) {
    case scalar::Fn::kWhere:
      return select(M(args[0]), V(args[1]), V(args[2])).value;
#define ETUDE_UNARY(fn, f, dx) \
  case scalar::Fn::fn:         \
    return apply_1<scalar::Fn::fn>(V(args[0])).value;
#define ETUDE_BINARY(fn, f, da, db) \
  case scalar::Fn::fn:              \
    return apply_2<scalar::Fn::fn>(V(args[0]), V(args[1])).value;
#define ETUDE_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#define ETUDE_NUMBER_UNARY(fn, f, dx)
#define ETUDE_NUMBER_BINARY(fn, f, da, db)
#define ETUDE_NUMBER_ROUNDING(fn, f)
#define ETUDE_OP_UNARY(fn, f, dx) ETUDE_UNARY(fn, f, dx)
#define ETUDE_OP_BINARY(fn, f, da, db) ETUDE_BINARY(fn, f, da, db)
#define ETUDE_OP_ROUNDING(fn, f) ETUDE_UNARY(fn, f, 0)
#define ETUDE_OP_TRUTH(fn, f, arity) \
  case scalar::Fn::fn:               \
    return emit_bool<scalar::Fn::fn>(args);
#include "etude/base/scalars/scalar_functions.inc"
    default:
      ETUDE_CHECK(false, "no code for '{}'", scalar::info(fn).op);
      return nullptr;
  }
}

// As emitted into a module of its own.
int count_instructions(internal::Isa isa, scalar::Fn fn) {
  llvm::LLVMContext context;
  llvm::Module module("count", context);
  llvm::IRBuilder<> builder(context);
  const IrPlace place{&builder, isa};
  const int arity = scalar::info(fn).arity;
  llvm::Type* number = place.float_vector();
  llvm::Type* boolean = llvm::FixedVectorType::get(builder.getInt1Ty(), place.lanes());
  const bool logical = fn >= scalar::Fn::kLogicalAnd && fn <= scalar::Fn::kLogicalNot;
  std::vector<llvm::Type*> types(static_cast<std::size_t>(arity), logical ? boolean : number);
  if (fn == scalar::Fn::kWhere) types[0] = boolean;
  auto* function =
      llvm::Function::Create(llvm::FunctionType::get(builder.getVoidTy(), types, false),
                             llvm::Function::ExternalLinkage, "f", module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  std::vector<Value*> args;
  for (llvm::Argument& arg : function->args()) args.push_back(&arg);
  const PlaceScope scope(place);
  emit_function(fn, args);
  builder.CreateRetVoid();
  return static_cast<int>(function->getInstructionCount());
}

}  // namespace

Value* emit_call(const IrPlace& place, scalar::Fn fn, std::span<Value* const> args) {
  const PlaceScope scope(place);
  return emit_function(fn, args);
}

Value* emit_constant(const IrPlace& place, double number) {
  const PlaceScope scope(place);
  llvm::APFloat rounded(number);
  bool inexact = false;
  rounded.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return splat_value(1, float_constant(rounded));
}

int instruction_count(internal::Isa isa, scalar::Fn fn) {
  if (scalar::info(fn).arity == 0) return 0;
  static std::array<std::atomic<int>, 3 * std::size(scalar::kFnInfo)> known{};
  std::atomic<int>& count = known[static_cast<std::size_t>(isa) * std::size(scalar::kFnInfo) +
                                  static_cast<std::size_t>(fn)];
  if (count == 0) count = count_instructions(isa, fn);
  return count;
}

}  // namespace etude::codegen
