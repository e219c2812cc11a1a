// SPDX-License-Identifier: Apache-2.0
#include "etude/codegen/llvm/emit.h"

#include <algorithm>
#include <array>
#include <vector>

#include <llvm/IR/IRBuilder.h>

#include "etude/base/check.h"
#include "etude/codegen/llvm/function_calls.h"
#include "etude/codegen/llvm/ir_math.h"

namespace etude::codegen {
namespace {

using llvm::BasicBlock;
using llvm::Value;
using scalar::Fn;
using scalar::Node;
using scalar::Program;

// Programs of so many instructions run on four vectors side by side, or on two.
constexpr int kMostFourTimes = 24;
constexpr int kMostTwice = 100;
// A longer program runs on several vectors if the code with calls of its longer functions is at
// most this many times as long as the code of one vector with all functions in line: the time to
// compile follows the length of the code.
constexpr double kMostGrowth = 1.2;

// How the code of a program is laid out.
struct BodyPlan {
  int most_inline = kMostInline;
  unsigned vectors = 1;  // side by side in the loop over whole ones; 0: the masked loop does all
  unsigned masked = 1;   // side by side in the masked loop
};

// Counts of the instructions of a program. A function of more than kMostInline counts as a single
// instruction.
struct BodySize {
  int total = 0;
  int of_short = 0;  // of functions of at most kFewInline
  int long_calls = 0;
  int longest = 0;     // on the longest path of dependences
  bool calls = false;  // a function is longer than kMostInline
};

BodySize measure(const Program& program, internal::Isa isa) {
  BodySize size;
  std::array<int, scalar::kMaxNodes> path{};  // the longest up to a node
  for (std::size_t i = 0; i < static_cast<std::size_t>(program.size); ++i) {
    const Node& node = program.nodes[i];
    const int whole = instruction_count(isa, node.fn), count = whole > kMostInline ? 1 : whole;
    size.calls = size.calls || whole > kMostInline;
    size.total += count;
    (whole > kFewInline ? size.long_calls : size.of_short) += whole > kFewInline ? 1 : whole;
    for (std::size_t a = 0; a < static_cast<std::size_t>(scalar::info(node.fn).arity); ++a) {
      path[i] = std::max(path[i], path[node.args[a]]);
    }
    path[i] += count;
    size.longest = std::max(size.longest, path[i]);
  }
  return size;
}

// The number of vectors that a long program runs on with calls of its longer functions; 1: all
// functions are in line. If each function waits for its predecessor, the other vectors fill the
// time.
unsigned vectors_of_calls(const BodySize& size) {
  if (size.total <= kMostTwice || 2 * size.longest < size.total) return 1;
  for (const unsigned vectors : {4u, 2u}) {
    const double length = vectors * static_cast<double>(size.of_short + size.long_calls);
    if (length <= kMostGrowth * size.total) return vectors;
  }
  return 1;
}

// One vector depends on itself only, so that several hide each other's latencies, as long as they
// fit the registers. A masked loop alone is half of the code; where masks cost nothing, it is about
// as fast unless the program is short.
BodyPlan plan_body(const Program& program, const CompileOptions& options) {
  const BodySize size = measure(program, options.isa);
  BodyPlan plan;
  if (size.total > kMostInBody) plan.most_inline = kFewInline;
  const bool wide = options.isa == internal::Isa::kAvx512;  // masks are free, registers are many
  const unsigned side_by_side = vectors_of_calls(size);
  if (side_by_side > 1) {
    plan.most_inline = kFewInline;
    plan.vectors = wide ? 0 : side_by_side;
    plan.masked = wide ? side_by_side : 1;
  } else if (size.calls || size.total > kMostTwice || options.tier == Tier::kFast) {
    plan.vectors = wide ? 0 : 1;
  } else {
    plan.vectors = size.total <= kMostFourTimes ? 4 : wide ? 2 : 1;
  }
  return plan;
}

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const Program& program, const CompileOptions& options)
      : module_(module),
        program_(program),
        options_(options),
        plan_(plan_body(program, options)),
        builder_(module.getContext()),
        place_{&builder_, options.isa},
        lanes_(place_.lanes()),
        calls_(module, plan_.most_inline) {}

  void emit(const std::string& name) {
    declare(name);
    begin();
    BasicBlock* entry = builder_.GetInsertBlock();
    BasicBlock *rest = block("rest"), *tail = block("tail"), *end = block("end");
    Value* whole = builder_.getInt64(0);
    if (plan_.vectors == 0) {
      builder_.CreateBr(rest);
    } else {
      const unsigned step = plan_.vectors * lanes_;
      whole = builder_.CreateAnd(n_, builder_.getInt64(~uint64_t{step - 1}), "whole");
      BasicBlock* loop = block("loop");
      builder_.CreateCondBr(is_zero(whole), rest, loop);
      builder_.SetInsertPoint(loop);
      llvm::PHINode* i = index_from(builder_.getInt64(0), entry);
      emit_vectors(i, plan_.vectors, false);
      close_loop(i, step, whole, loop, rest);
    }

    builder_.SetInsertPoint(rest);
    builder_.CreateCondBr(builder_.CreateICmpEQ(whole, n_), end, tail);

    builder_.SetInsertPoint(tail);
    llvm::PHINode* i = index_from(whole, rest);
    emit_vectors(i, plan_.masked, true);
    close_loop(i, plan_.masked * lanes_, n_, tail, end);

    builder_.SetInsertPoint(end);
    builder_.CreateRetVoid();
  }

 private:
  BasicBlock* block(const char* name) {
    return BasicBlock::Create(module_.getContext(), name, function_);
  }
  Value* is_zero(Value* x) { return builder_.CreateICmpEQ(x, builder_.getInt64(0)); }
  bool is_strided() const { return options_.layout == Layout::kStrided; }
  const Node& node(int k) const { return program_.nodes[static_cast<std::size_t>(k)]; }
  llvm::Type* element(bool is_bool) {
    return is_bool ? builder_.getInt8Ty() : builder_.getFloatTy();
  }
  llvm::Type* vector(llvm::Type* type) { return llvm::FixedVectorType::get(type, lanes_); }
  bool is_bool_operand(std::size_t k) const { return ((program_.bools >> k) & 1) != 0; }

  void declare(const std::string& name) {
    llvm::Type *pointer = builder_.getPtrTy(), *size = builder_.getInt64Ty();
    std::vector<llvm::Type*> types = {pointer, pointer, pointer, size};
    if (is_strided()) types.insert(types.begin() + 2, pointer);
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(), types, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
    set_attributes(*function_);
    unsigned at = 0;
    const auto take = [&](const char* label) {
      llvm::Argument* arg = function_->getArg(at++);
      arg->setName(label);
      return arg;
    };
    out_ = take("out");
    in_ = take("in");
    if (is_strided()) strides_ = take("strides");
    params_ = take("params");
    n_ = take("n");
  }

  // Values that are equal for all elements: addresses of operands, parameters and constants.
  void begin() {
    builder_.SetInsertPoint(block("entry"));
    if (is_strided()) {  // the one element of an operand is there only if there are any
      BasicBlock *none = block("none"), *some = block("some");
      builder_.CreateCondBr(is_zero(n_), none, some);
      builder_.SetInsertPoint(none);
      builder_.CreateRetVoid();
      builder_.SetInsertPoint(some);
    }
    for (std::size_t k = 0; k < static_cast<std::size_t>(program_.operands); ++k) {
      operands_.push_back(load_at(builder_.getPtrTy(), in_, builder_.getPtrTy(), k));
      if (is_strided()) spread_single(k);
    }
    for (int k = 0; k < program_.size; ++k) {
      if (node(k).fn == Fn::kConstant) {
        fixed_[static_cast<std::size_t>(k)] = emit_constant(place_, node(k).constant);
      } else if (node(k).fn == Fn::kParam) {
        llvm::Type* number = builder_.getDoubleTy();
        Value* param = load_at(number, params_, number, node(k).args[0]);
        fixed_[static_cast<std::size_t>(k)] = builder_.CreateVectorSplat(
            lanes_, builder_.CreateFPTrunc(param, builder_.getFloatTy()));
      }
    }
  }

  Value* load_at(llvm::Type* type, Value* base, llvm::Type* element, std::size_t index) {
    return builder_.CreateLoad(
        type, builder_.CreateConstInBoundsGEP1_64(element, base, static_cast<uint64_t>(index)));
  }

  // An operand of one element becomes a vector of it in the frame, which is read again and again.
  void spread_single(std::size_t k) {
    llvm::Type* type = element(is_bool_operand(k));
    Value* stride = load_at(builder_.getInt64Ty(), strides_, builder_.getInt64Ty(), k);
    Value* single = is_zero(stride);
    llvm::IRBuilder<> at(&function_->getEntryBlock(), function_->getEntryBlock().begin());
    llvm::AllocaInst* spread = at.CreateAlloca(vector(type));
    spread->setAlignment(llvm::Align(64));
    Value* first = builder_.CreateLoad(type, operands_[k]);
    Value* all = builder_.CreateVectorSplat(lanes_, first);
    builder_.CreateStore(all, spread);
    operands_[k] = builder_.CreateSelect(single, spread, operands_[k]);
    steps_.push_back(builder_.CreateSelect(single, builder_.getInt64(0), builder_.getInt64(-1)));
  }

  llvm::PHINode* index_from(Value* start, BasicBlock* from) {
    llvm::PHINode* i = builder_.CreatePHI(builder_.getInt64Ty(), 2, "i");
    i->addIncoming(start, from);
    return i;
  }

  void close_loop(llvm::PHINode* i, unsigned step, Value* limit, BasicBlock* again,
                  BasicBlock* after) {
    Value* next = builder_.CreateAdd(i, builder_.getInt64(step), "next", true, true);
    i->addIncoming(next, builder_.GetInsertBlock());
    builder_.CreateCondBr(builder_.CreateICmpULT(next, limit), again, after);
  }

  // The mask of the first `left` lanes.
  Value* lanes_before(Value* left) {
    Value* most =
        builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, left, builder_.getInt64(lanes_));
    Value* count = builder_.CreateTrunc(most, builder_.getInt32Ty());
    llvm::SmallVector<uint32_t, 16> numbers;
    for (unsigned k = 0; k < lanes_; ++k) numbers.push_back(k);
    return builder_.CreateICmpULT(llvm::ConstantDataVector::get(module_.getContext(), numbers),
                                  builder_.CreateVectorSplat(lanes_, count), "mask");
  }

  // Elements from i on, several vectors at once: node by node, so that independent instructions are
  // close.
  void emit_vectors(Value* i, unsigned vectors, bool masked) {
    std::vector<std::array<Value*, scalar::kMaxNodes>> values(vectors, fixed_);
    std::vector<Value*> starts, masks(vectors, nullptr);
    for (unsigned v = 0; v < vectors; ++v) {
      Value* before = builder_.getInt64(v * lanes_);
      starts.push_back(builder_.CreateAdd(i, before));
      if (!masked) continue;
      Value* left = builder_.CreateSub(n_, i);
      masks[v] =
          lanes_before(builder_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, left, before));
    }
    for (int k = 0; k < program_.size; ++k) {
      if (fixed_[static_cast<std::size_t>(k)] != nullptr) continue;
      for (unsigned v = 0; v < vectors; ++v) {
        values[v][static_cast<std::size_t>(k)] = node(k).fn == Fn::kOperand
                                                     ? load(node(k).args[0], i, starts[v], masks[v])
                                                     : call(k, values[v]);
      }
    }
    for (unsigned v = 0; v < vectors; ++v) {
      store(values[v][static_cast<std::size_t>(program_.size - 1)], starts[v], masks[v]);
    }
  }

  // An element of operand k.
  Value* element_at(std::size_t k, Value* i) {
    if (is_strided()) i = builder_.CreateAnd(i, steps_[k]);
    return builder_.CreateGEP(element(is_bool_operand(k)), operands_[k], i);
  }

  // Elements of operand k from i on. Elements that the mask leaves out may lie beyond the end.
  Value* load(std::size_t k, Value* there, Value* i, Value* mask) {
    const bool is_bool = is_bool_operand(k);
    Value* from = element_at(k, i);
    llvm::Type* type = vector(element(is_bool));
    const llvm::Align align(is_bool ? 1 : 4);
    Value* x = nullptr;
    if (mask == nullptr) {
      x = builder_.CreateAlignedLoad(type, from, align);
    } else {
      // The lanes beyond the end repeat an element of the operand, so that they raise no
      // floating-point exception of their own.
      Value* first = builder_.CreateAlignedLoad(element(is_bool), element_at(k, there), align);
      x = builder_.CreateMaskedLoad(type, from, align, mask,
                                    builder_.CreateVectorSplat(lanes_, first));
    }
    return is_bool ? builder_.CreateICmpNE(x, llvm::Constant::getNullValue(type)) : x;
  }

  void store(Value* x, Value* i, Value* mask) {
    llvm::Type* type = element(program_.is_bool);
    if (program_.is_bool) x = builder_.CreateZExt(x, vector(type));
    Value* to = builder_.CreateGEP(type, out_, i);
    const llvm::Align align(program_.is_bool ? 1 : 4);
    if (mask == nullptr) {
      builder_.CreateAlignedStore(x, to, align);
    } else {
      builder_.CreateMaskedStore(x, to, align, mask);
    }
  }

  Value* call(int k, const std::array<Value*, scalar::kMaxNodes>& values) {
    const Fn fn = node(k).fn;
    std::vector<Value*> args;
    for (int a = 0; a < scalar::info(fn).arity; ++a) {
      args.push_back(values[node(k).args[static_cast<std::size_t>(a)]]);
    }
    return calls_.call(place_, fn, args);
  }

  llvm::Module& module_;
  const Program& program_;
  const CompileOptions& options_;
  BodyPlan plan_;
  llvm::IRBuilder<> builder_;
  IrPlace place_;
  unsigned lanes_;
  llvm::Function* function_ = nullptr;
  Value *out_ = nullptr, *in_ = nullptr, *strides_ = nullptr, *params_ = nullptr, *n_ = nullptr;
  std::vector<Value*> operands_;  // where they begin
  std::vector<Value*> steps_;     // 0 or -1, a mask for indices
  std::array<Value*, scalar::kMaxNodes> fixed_{};
  FunctionCalls calls_;
};

}  // namespace

std::unique_ptr<llvm::Module> emit_module(llvm::LLVMContext& context, const std::string& name,
                                          const Program& program, const CompileOptions& options) {
  auto module = std::make_unique<llvm::Module>(name, context);
  KernelEmitter(*module, program, options).emit(name);
  return module;
}

}  // namespace etude::codegen
