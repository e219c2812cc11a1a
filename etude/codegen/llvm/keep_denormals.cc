// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/llvm/keep_denormals.h"

#include <vector>

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/PatternMatch.h>

#include "etude/codegen/llvm/ir_math.h"

namespace etude::codegen {
namespace {

using llvm::FCmpInst;
using llvm::Value;

bool is_same(Value* a, Value* b) {
  using llvm::PatternMatch::m_AnyZeroFP;
  return a == b || (match(a, m_AnyZeroFP()) && match(b, m_AnyZeroFP()));
}

// The comparison that chooses between its own operands, or null.
FCmpInst* comparison_of(llvm::Instruction& instruction) {
  auto* choice = llvm::dyn_cast<llvm::SelectInst>(&instruction);
  if (choice == nullptr || !choice->getType()->getScalarType()->isFloatTy()) return nullptr;
  auto* comparison = llvm::dyn_cast<FCmpInst>(choice->getCondition());
  if (comparison == nullptr) return nullptr;
  Value *a = comparison->getOperand(0), *b = comparison->getOperand(1);
  Value *yes = choice->getTrueValue(), *no = choice->getFalseValue();
  const bool chooses = (is_same(a, yes) && is_same(b, no)) || (is_same(a, no) && is_same(b, yes));
  return chooses ? comparison : nullptr;
}

// The number of a predicate on x86, if every SSE has it; -1 if only swapped ones do.
int number_of(FCmpInst::Predicate predicate) {
  switch (predicate) {
    case FCmpInst::FCMP_OEQ:
      return 0;
    case FCmpInst::FCMP_OLT:
      return 1;
    case FCmpInst::FCMP_OLE:
      return 2;
    case FCmpInst::FCMP_UNE:
      return 4;
    case FCmpInst::FCMP_UGE:  // not less
      return 5;
    case FCmpInst::FCMP_UGT:
      return 6;
    default:
      return -1;
  }
}

// The same comparison, in a form that no pass recognises as a comparison.
Value* opaque(llvm::IRBuilder<>& builder, FCmpInst& comparison) {
  Value *a = comparison.getOperand(0), *b = comparison.getOperand(1);
  int number = number_of(comparison.getPredicate());
  if (number < 0) {
    number = number_of(comparison.getSwappedPredicate());
    std::swap(a, b);
  }
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  const unsigned lanes = type == nullptr ? 1 : type->getNumElements();
  if (number < 0 || (lanes != 4 && lanes != 8 && lanes != 16)) return &comparison;
  if (lanes == 16) {
    constexpr int kRoundAsSet = 4;
    auto* all = llvm::ConstantInt::getTrue(comparison.getType());
    return builder.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_cmp_ps_512, {},
                                   {a, b, builder.getInt32(static_cast<uint32_t>(number)), all,
                                    builder.getInt32(kRoundAsSet)});
  }
  const auto id =
      lanes == 8 ? llvm::Intrinsic::x86_avx_cmp_ps_256 : llvm::Intrinsic::x86_sse_cmp_ps;
  Value* bits =
      builder.CreateIntrinsic(id, {}, {a, b, builder.getInt8(static_cast<uint8_t>(number))});
  Value* wholes =
      builder.CreateBitCast(bits, llvm::FixedVectorType::get(builder.getInt32Ty(), lanes));
  return builder.CreateICmpSLT(wholes, llvm::Constant::getNullValue(wholes->getType()));
}

}  // namespace

void keep_denormals(llvm::Module& module) {
  if (!is_for_x86()) return;
  std::vector<llvm::SelectInst*> choices;
  for (llvm::Function& function : module) {
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      if (comparison_of(instruction) == nullptr) continue;
      choices.push_back(llvm::cast<llvm::SelectInst>(&instruction));
    }
  }
  for (llvm::SelectInst* choice : choices) {
    llvm::IRBuilder<> builder(choice);
    choice->setCondition(opaque(builder, *llvm::cast<FCmpInst>(choice->getCondition())));
  }
}

}  // namespace etude::codegen
