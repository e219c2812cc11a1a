// SPDX-License-Identifier: Apache-2.0
// Clusters as functions: values in registers, as vectors whose lanes beyond the value repeat its
// elements. So no lane holds anything else, and a value of one element is in all lanes. Reads of
// other elements are shuffles. Narrow values take narrow vectors, whose formulas have the same
// bits.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include <llvm/IR/IRBuilder.h>

#include "etude/base/check.h"
#include "etude/codegen/llvm/emit.h"
#include "etude/codegen/llvm/function_calls.h"
#include "etude/codegen/llvm/ir_math.h"

namespace etude::codegen {
namespace {

using internal::Cluster;
using internal::Isa;
using internal::SmallCall;
using llvm::BasicBlock;
using llvm::Value;
using scalar::Fn;
using List = SmallCall::List;

// A value: `count` elements in vectors of `lanes`.
struct Small {
  std::vector<Value*> parts;
  unsigned lanes = 0;
  unsigned count = 0;

  bool is_given() const { return count > 0; }
  // Different elements in a part.
  unsigned period(unsigned part) const { return std::min(lanes, count - part * lanes); }
};

// An element of a vector, which is there in each further `period` lanes.
struct Pick {
  Value* vector = nullptr;
  unsigned lane = 0, period = 1, lanes = 1;

  // The lane that is the cheapest to bring to `target` of so many: there already, or in its 128
  // bits.
  int nearest(unsigned target, unsigned targets) const {
    if (period == 1 && lanes != targets) return 0;
    unsigned best = lane;
    for (unsigned at = lane; at < lanes; at += period) {
      if (at == target) return static_cast<int>(at);
      if (at / 4 == target / 4) best = at;
    }
    return static_cast<int>(best);
  }
};

class ClusterEmitter {
 public:
  ClusterEmitter(llvm::Module& module, const Cluster& cluster, Isa isa)
      : cluster_(cluster),
        isa_(isa),
        builder_(module.getContext()),
        entry_(module.getContext()),
        calls_(module, most_inline()),
        values_(cluster.values.size()) {}

  void emit(llvm::Module& module, const std::string& name) {
    llvm::Type *pointer = builder_.getPtrTy(), *size = builder_.getInt64Ty();
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(), {pointer, pointer, size}, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
    set_attributes(*function_);
    BasicBlock *first = block("entry"), *body = block("body");
    builder_.SetInsertPoint(first);
    entry_.SetInsertPoint(builder_.CreateBr(body));
    builder_.SetInsertPoint(body);
    cluster_.is_loop ? emit_loop(body) : emit_calls();
    builder_.CreateRetVoid();
  }

 private:
  BasicBlock* block(const char* name) {
    return BasicBlock::Create(builder_.getContext(), name, function_);
  }
  llvm::Argument* slots() { return function_->getArg(0); }
  llvm::Argument* params() { return function_->getArg(1); }
  llvm::Argument* steps() { return function_->getArg(2); }

  int most_inline() const {
    int total = 0;
    for (const Cluster::Call& call : cluster_.calls) {
      if (call.what.kind != SmallCall::Kind::kProgram) continue;
      const Small out = room(cluster_.values[call.result].count);
      const scalar::Program& program = *call.what.program;
      for (std::size_t k = 0; k < static_cast<std::size_t>(program.size); ++k) {
        const int count = instruction_count(isa_of(out.lanes), program.nodes[k].fn);
        total += static_cast<int>(out.parts.size()) * (count > kMostInline ? 1 : count);
      }
    }
    return total > kMostInBody ? kFewInline : kMostInline;
  }

  unsigned lanes_for(unsigned count) const {
    unsigned lanes = 4;
    while (lanes < count && lanes < static_cast<unsigned>(internal::lanes(isa_))) lanes *= 2;
    return lanes;
  }
  static Isa isa_of(unsigned lanes) {
    return lanes == 16 ? Isa::kAvx512 : lanes == 8 ? Isa::kAvx2 : Isa::kPortable;
  }
  IrPlace place(unsigned lanes) { return {&builder_, isa_of(lanes)}; }
  Small room(unsigned count) const {
    const unsigned lanes = lanes_for(count);
    return {std::vector<Value*>((count + lanes - 1) / lanes), lanes, count};
  }

  // --- loops ---

  void emit_loop(BasicBlock* body) {
    for (const Cluster::Place& load : cluster_.loads) {
      if (load.stride == 0) values_[load.value] = load_at(entry_, load);
    }
    std::vector<Small> starts;
    for (const Cluster::Carried& c : cluster_.carried) starts.push_back(load_at(entry_, c.from));
    BasicBlock* const before = entry_.GetInsertBlock();
    step_ = builder_.CreatePHI(builder_.getInt64Ty(), 2, "step");
    step_->addIncoming(builder_.getInt64(0), before);
    for (std::size_t c = 0; c < starts.size(); ++c) {
      Small& value = values_[cluster_.carried[c].before] = starts[c];
      for (Value*& part : value.parts) {
        llvm::PHINode* const phi = builder_.CreatePHI(part->getType(), 2);
        phi->addIncoming(part, before);
        part = phi;
      }
    }
    row_ = step_;
    if (cluster_.is_reverse) {
      row_ = builder_.CreateSub(builder_.CreateSub(steps(), builder_.getInt64(1)), step_);
    }
    emit_calls();
    for (const Cluster::Carried& c : cluster_.carried) value(c.after);
    BasicBlock* const last = builder_.GetInsertBlock();
    for (const Cluster::Carried& c : cluster_.carried) {
      const Small &phis = values_[c.before], &after = values_[c.after];
      for (std::size_t p = 0; p < phis.parts.size(); ++p) {
        llvm::cast<llvm::PHINode>(phis.parts[p])->addIncoming(after.parts[p], last);
      }
    }
    Value* const next = builder_.CreateAdd(step_, builder_.getInt64(1), "next", true, true);
    step_->addIncoming(next, last);
    BasicBlock* const end = block("end");
    builder_.CreateCondBr(builder_.CreateICmpULT(next, steps()), body, end);
    builder_.SetInsertPoint(end);
    for (const Cluster::Carried& c : cluster_.carried) store(values_[c.after], c.to);
  }

  void emit_calls() {
    std::size_t first_param = 0;
    for (const Cluster::Call& call : cluster_.calls) {
      std::vector<const Small*> operands;
      for (const uint32_t v : call.operands) value(v);
      for (const uint32_t v : call.operands) operands.push_back(&values_[v]);
      values_[call.result] = run(call, operands, first_param);
      first_param += call.what.params.size();
      if (!cluster_.is_loop) store_all(call.result);
    }
    for (std::size_t v = 0; v < values_.size() && cluster_.is_loop; ++v) {
      store_all(static_cast<uint32_t>(v));
    }
  }

  void store_all(uint32_t v) {
    for (const Cluster::Place& to : cluster_.stores) {
      if (to.value == v) store(value(v), to);
    }
  }

  // --- memory ---

  const Small& value(uint32_t v) {
    if (!values_[v].is_given()) {
      const auto load = std::ranges::find(cluster_.loads, v, &Cluster::Place::value);
      ETUDE_CHECK(load != cluster_.loads.end(), "value {} of a cluster comes from nowhere", v);
      values_[v] = load_at(builder_, *load);
    }
    return values_[v];
  }

  bool is_bool(uint32_t v) const { return cluster_.values[v].is_bool; }
  llvm::Type* element(bool boolean) {
    return boolean ? builder_.getInt8Ty() : builder_.getFloatTy();
  }

  Value* address(llvm::IRBuilder<>& at, const Cluster::Place& place, int64_t more) {
    Value*& base = slots_[place.slot];
    if (base == nullptr) {
      base = entry_.CreateLoad(builder_.getPtrTy(), entry_.CreateConstInBoundsGEP1_64(
                                                        builder_.getPtrTy(), slots(), place.slot));
    }
    Value* offset = at.getInt64(static_cast<uint64_t>(place.offset + more));
    if (place.stride != 0) {
      Value* const rows = at.CreateMul(row_, at.getInt64(static_cast<uint64_t>(place.stride)));
      offset = at.CreateAdd(rows, offset);
    }
    return at.CreateGEP(at.getInt8Ty(), base, offset);
  }

  Small load_at(llvm::IRBuilder<>& at, const Cluster::Place& place) {
    const bool boolean = is_bool(place.value);
    Small out = room(cluster_.values[place.value].count);
    const unsigned bytes = boolean ? 1 : 4;
    for (unsigned p = 0; p < out.parts.size(); ++p) {
      const unsigned period = out.period(p);
      auto* type = llvm::FixedVectorType::get(element(boolean), period);
      Value* from = address(at, place, int64_t{p} * out.lanes * bytes);
      Value* part = at.CreateAlignedLoad(type, from, llvm::Align(bytes));
      llvm::SmallVector<int, 16> mask;
      for (unsigned lane = 0; lane < out.lanes; ++lane) {
        mask.push_back(static_cast<int>(lane % period));
      }
      if (period != out.lanes) part = at.CreateShuffleVector(part, mask);
      if (boolean) part = at.CreateICmpNE(part, llvm::Constant::getNullValue(part->getType()));
      out.parts[p] = part;
    }
    return out;
  }

  void store(const Small& x, const Cluster::Place& place) {
    const bool boolean = is_bool(place.value);
    const unsigned bytes = boolean ? 1 : 4;
    for (unsigned p = 0; p < x.parts.size(); ++p) {
      const unsigned period = x.period(p);
      Value* part = x.parts[p];
      if (boolean) {
        part = builder_.CreateZExt(part, llvm::FixedVectorType::get(element(true), x.lanes));
      }
      llvm::SmallVector<int, 16> mask;
      for (unsigned lane = 0; lane < period; ++lane) mask.push_back(static_cast<int>(lane));
      if (period != x.lanes) part = builder_.CreateShuffleVector(part, mask);
      builder_.CreateAlignedStore(part, address(builder_, place, int64_t{p} * x.lanes * bytes),
                                  llvm::Align(bytes));
    }
  }

  // --- elements ---

  static Pick pick(const Small& x, unsigned element) {
    const unsigned part = element / x.lanes;
    return {x.parts[part], element % x.lanes, x.period(part), x.lanes};
  }

  // A vector with these elements.
  Value* assemble(std::span<const Pick> picks) {
    std::vector<Value*> sources;
    for (const Pick& p : picks) {
      if (std::ranges::find(sources, p.vector) == sources.end()) sources.push_back(p.vector);
    }
    const auto lanes = static_cast<unsigned>(picks.size());
    Value* out = nullptr;
    std::vector<bool> is_there(lanes, false);
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const bool takes_two = out == nullptr && s + 1 < sources.size() &&
                             sources[0]->getType() == sources[1]->getType();
      llvm::SmallVector<int, 16> mask(lanes, -1), blend(lanes, -1);
      bool is_same = picks[0].lanes == lanes;
      for (unsigned i = 0; i < lanes; ++i) {
        const Pick& p = picks[i];
        if (is_there[i]) blend[i] = static_cast<int>(i);
        const bool is_first = p.vector == sources[s];
        if (!is_first && !(takes_two && p.vector == sources[s + 1])) continue;
        mask[i] = p.nearest(i, lanes) + (is_first ? 0 : static_cast<int>(p.lanes));
        blend[i] = static_cast<int>(lanes + i);
        is_there[i] = true;
        is_same = is_same && mask[i] == static_cast<int>(i);
      }
      if (sources.size() == 1 && is_same) return sources[0];
      Value* const more = takes_two ? builder_.CreateShuffleVector(sources[s], sources[s + 1], mask)
                                    : builder_.CreateShuffleVector(sources[s], mask);
      out = out == nullptr ? more : builder_.CreateShuffleVector(out, more, blend);
      if (takes_two) ++s;
    }
    return out;
  }

  // `count` elements; pick_of(i) is the source of element i.
  template <class F>
  Small gather(unsigned count, F pick_of) {
    Small out = room(count);
    for (unsigned p = 0; p < out.parts.size(); ++p) {
      std::vector<Pick> picks;
      for (unsigned lane = 0; lane < out.lanes; ++lane) {
        picks.push_back(pick_of(p * out.lanes + lane % out.period(p)));
      }
      out.parts[p] = assemble(picks);
    }
    return out;
  }
  Small gather(const Small& x, const List& list, unsigned more = 0) {
    return gather(static_cast<unsigned>(list.size()),
                  [&](unsigned i) { return pick(x, list[i] + more); });
  }

  // --- calls ---

  using Operands = std::vector<const Small*>;

  Small run(const Cluster::Call& call, const Operands& operands, std::size_t first_param) {
    const unsigned count = cluster_.values[call.result].count;
    switch (call.what.kind) {
      case SmallCall::Kind::kProgram:
        return run_program(call.what, operands, count, first_param);
      case SmallCall::Kind::kProduct:
        return run_product(call.what, operands, count);
      case SmallCall::Kind::kCombine:
        return run_combine(call.what, *operands[0]);
      case SmallCall::Kind::kMove:
        break;
    }
    return run_move(call.what, operands);
  }

  Value* param(std::size_t number, unsigned lanes) {
    Value*& known = params_[{number, lanes}];
    if (known == nullptr) {
      llvm::Type* const type = builder_.getDoubleTy();
      Value* const at = entry_.CreateConstInBoundsGEP1_64(type, params(), number);
      Value* const rounded =
          entry_.CreateFPTrunc(entry_.CreateLoad(type, at), builder_.getFloatTy());
      known = entry_.CreateVectorSplat(lanes, rounded);
    }
    return known;
  }

  Small run_program(const SmallCall& call, const Operands& operands, unsigned count,
                    std::size_t first_param) {
    Small out = room(count);
    const IrPlace at = place(out.lanes);
    std::vector<std::optional<Small>> read(operands.size());
    const auto operand = [&](std::size_t o) -> const Small& {
      if (call.at[o].empty()) return *operands[o];
      if (!read[o]) read[o] = gather(*operands[o], call.at[o]);
      return *read[o];
    };
    const scalar::Program& program = *call.program;
    for (std::size_t p = 0; p < out.parts.size(); ++p) {
      std::array<Value*, scalar::kMaxNodes> values{};
      for (std::size_t k = 0; k < static_cast<std::size_t>(program.size); ++k) {
        const scalar::Node& node = program.nodes[k];
        if (node.fn == Fn::kOperand) {
          values[k] = operand(node.args[0]).parts[p];
        } else if (node.fn == Fn::kParam) {
          values[k] = param(first_param + node.args[0], out.lanes);
        } else if (node.fn == Fn::kConstant) {
          values[k] = emit_constant(at, node.constant);
        } else {
          std::vector<Value*> args;
          for (int a = 0; a < scalar::info(node.fn).arity; ++a) {
            args.push_back(values[node.args[static_cast<std::size_t>(a)]]);
          }
          values[k] = calls_.call(at, node.fn, args);
        }
        out.parts[p] = values[k];
      }
    }
    return out;
  }

  // Terms from the first to the last, each by one fused multiply-add, the first added to 0.
  Small run_product(const SmallCall& call, const Operands& operands, unsigned count) {
    Small out = room(count);
    for (Value*& part : out.parts) part = emit_constant(place(out.lanes), 0);
    for (unsigned k = 0; k < call.depth; ++k) {
      const Small x = gather(*operands[0], call.at[0], k * call.strides[0]);
      const Small y = gather(*operands[1], call.at[1], k * call.strides[1]);
      for (std::size_t p = 0; p < out.parts.size(); ++p) {
        Value*& sum = out.parts[p];
        sum = builder_.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()},
                                       {x.parts[p], y.parts[p], sum});
      }
    }
    return out;
  }

  Small run_move(const SmallCall& call, const Operands& operands) {
    const List& list = call.at[0];
    return gather(static_cast<unsigned>(list.size()), [&](unsigned i) {
      unsigned element = list[i];
      std::size_t o = 0;
      while (element >= operands[o]->count) element -= operands[o++]->count;
      return pick(*operands[o], element);
    });
  }

  Value* combine(SmallCall::Combine combine, unsigned lanes, Value* x, Value* y) {
    constexpr Fn kFns[] = {Fn::kAdd, Fn::kMultiply, Fn::kMaximum, Fn::kMinimum};
    const std::array<Value*, 2> args = {x, y};
    return calls_.call(place(lanes), kFns[static_cast<std::size_t>(combine)], args);
  }
  Small combine(SmallCall::Combine how, const Small& x, const Small& y) {
    Small out = x;
    for (std::size_t p = 0; p < x.parts.size(); ++p) {
      out.parts[p] = combine(how, x.lanes, x.parts[p], y.parts[p]);
    }
    return out;
  }
  // The neutral element, as in kernels/cpu/simd/combine.inc.
  static double identity(SmallCall::Combine how) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kOf[] = {-0.0, 1, -kInfinity, kInfinity};
    return kOf[static_cast<std::size_t>(how)];
  }

  // The tree of kernels/cpu/reduce/reduce.h.
  Small run_combine(const SmallCall& call, const Small& whole) {
    Small x = whole;
    for (const SmallCall::Axes& axes : call.passes) {
      x = axes.inner == 1 ? combine_rows(call.combine, x, axes)
                          : combine_columns(call.combine, x, axes);
    }
    if (call.divisor == 1) return x;
    Value* const divisor = emit_constant(place(x.lanes), call.divisor);
    for (Value*& part : x.parts) part = builder_.CreateFDiv(part, divisor);
    return x;
  }

  // Partials by halves: j with j + 32, then j + 16, ...; of short rows j with j + 8 first.
  Small combine_rows(SmallCall::Combine how, Small x, const SmallCall::Axes& axes) {
    unsigned size = axes.size;
    for (unsigned width = size <= 16 ? 8 : 32; width >= 1; width /= 2) {
      if (size <= width) continue;
      const Pick none{emit_constant(place(x.lanes), identity(how)), 0, 1, x.lanes};
      const unsigned count = axes.outer * width;
      const Small low =
          gather(count, [&](unsigned i) { return pick(x, i / width * size + i % width); });
      const Small high = gather(count, [&](unsigned i) {
        const unsigned j = i % width + width;
        return j < size ? pick(x, i / width * size + j) : none;
      });
      x = combine(how, low, high);
      size = width;
    }
    return x;
  }

  // Rows four by four, and the remaining rows one by one.
  Small combine_columns(SmallCall::Combine how, const Small& x, const SmallCall::Axes& axes) {
    const auto row = [&](unsigned r) {
      return gather(axes.outer * axes.inner, [&](unsigned i) {
        return pick(x, (i / axes.inner * axes.size + r) * axes.inner + i % axes.inner);
      });
    };
    Small out = room(axes.outer * axes.inner);
    for (Value*& part : out.parts) part = emit_constant(place(out.lanes), identity(how));
    unsigned r = 0;
    for (; r + 4 <= axes.size; r += 4) {
      const Small low = combine(how, row(r), row(r + 1)),
                  high = combine(how, row(r + 2), row(r + 3));
      out = combine(how, out, combine(how, low, high));
    }
    for (; r < axes.size; ++r) out = combine(how, out, row(r));
    return out;
  }

  const Cluster& cluster_;
  Isa isa_;
  llvm::IRBuilder<> builder_;
  llvm::IRBuilder<> entry_;  // before the end of the first block: values equal in all steps
  FunctionCalls calls_;
  std::vector<Small> values_;
  llvm::Function* function_ = nullptr;
  llvm::PHINode* step_ = nullptr;
  Value* row_ = nullptr;
  std::map<uint32_t, Value*> slots_;
  std::map<std::pair<std::size_t, unsigned>, Value*> params_;
};

}  // namespace

std::unique_ptr<llvm::Module> emit_cluster(llvm::LLVMContext& context, const std::string& name,
                                           const Cluster& cluster, const CompileOptions& options) {
  auto module = std::make_unique<llvm::Module>(name, context);
  ClusterEmitter(*module, cluster, options.isa).emit(*module, name);
  return module;
}

}  // namespace etude::codegen
