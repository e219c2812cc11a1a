// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/llvm/function_calls.h"

#include <string>
#include <vector>

namespace etude::codegen {

using llvm::Value;
using scalar::Fn;

void set_attributes(llvm::Function& function) {
  function.setDoesNotThrow();
  function.addFnAttr("prefer-vector-width", "512");
  // Denormals may count as 0 when the code runs: nothing is to be computed before on that ground.
  function.addFnAttr("denormal-fp-math", "dynamic,dynamic");
}

Value* FunctionCalls::call(const IrPlace& place, Fn fn, std::span<Value* const> args) {
  if (instruction_count(place.isa, fn) <= most_inline_) return emit_call(place, fn, args);
  const std::vector<Value*> list(args.begin(), args.end());
  return place.builder->CreateCall(shared(place.isa, fn), list);
}

llvm::Function* FunctionCalls::shared(internal::Isa isa, Fn fn) {
  llvm::Function*& known = shared_[{isa, fn}];
  if (known != nullptr) return known;
  llvm::IRBuilder<> builder(module_.getContext());
  const IrPlace place{&builder, isa};
  const std::vector<llvm::Type*> types(static_cast<std::size_t>(scalar::info(fn).arity),
                                       place.float_vector());
  auto* type = llvm::FunctionType::get(place.float_vector(), types, false);
  const std::string name =
      std::string(scalar::info(fn).op) + "." + std::string(internal::name(isa));
  known = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module_);
  set_attributes(*known);
  known->addFnAttr(llvm::Attribute::NoInline);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", known));
  std::vector<Value*> args;
  for (llvm::Argument& arg : known->args()) args.push_back(&arg);
  builder.CreateRet(emit_call(place, fn, args));
  return known;
}

}  // namespace etude::codegen
